//! Tools that read otherwise.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::{Kind, Tier};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS031",
        name: "changed-tool",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the text of a tool changes",
        help: "make descriptions once, at start; put what changes into a message",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| {
            matches!(edit, Edit::Replaced { .. } | Edit::Inserted { .. })
                && scene.segment(edit.place()).is_some_and(|segment| {
                    segment.tier == Tier::Tools && segment.kind == Kind::Tool
                })
        },
        |_, count| format!("{count} of the tools read otherwise than before"),
    );
}

const DOCS: &str = "## What it does

Finds a tool whose text changed in a way that no other rule recognises.

## Why it costs

Tools come first in the prompt, so not a byte of it is reused.

## Example

A description that lists the files open just now.

## Use instead

Put what changes into a message, or into the result of a tool.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
