//! Images encoded anew.

use alloc::string::String;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::{Kind, Tier};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS044",
        name: "reencoded-image",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "an image is encoded anew",
        help: "encode an image once, keep the bytes, and send those",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_changes(
        |change, segment| {
            let path = &change.difference.path;
            let picture = path.contains("image_url")
                || path.ends_with(".source.data")
                || path.ends_with("inlineData.data");
            picture && segment.tier == Tier::Messages
        },
        |_| String::from("the image is not byte for byte the one sent before"),
    );
    let image = |edit: &Edit| {
        matches!(edit, Edit::Replaced { .. }) && scene.kind(edit.place()) == Kind::Image
    };
    report.claim_edits(image, |_, _| {
        String::from("the image is not byte for byte the one sent before")
    });
}

const DOCS: &str = "## What it does

Finds an image in a message sent before whose bytes or link changed.

## Why it costs

Vendors hash images as they come: another compression, another size or a newly signed link is
another image, and the prefix ends there.

## Example

A screenshot is compressed again at each request; a link carries a signature that expires.

## Use instead

Encode once and keep the bytes; use the vendor's file ids.

## Known problems

None known.

## Options

None.

## References

OpenAI, prompt caching: images must be identical, detail included.
";
