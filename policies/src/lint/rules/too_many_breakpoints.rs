//! Too many cache marks.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS063",
        name: "too-many-breakpoints",
        family: Family::Layout,
        severity: Severity::Error,
        status: Status::Preview,
        summary: "more cache marks than the vendor allows",
        help: "keep four: tools, system prompt, and the last two messages",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let Entries::Marks { most, .. } = scene.call.caching.entries else {
        return;
    };
    if scene.prompt.marks > most {
        let first_over = scene
            .prompt
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.mark.is_some());
        let at = first_over.map(|(at, _)| at).nth(most as usize).unwrap_or(0);
        report.add(
            at,
            format!("{} marks; the vendor allows {most}", scene.prompt.marks),
        );
    }
}

const DOCS: &str = "## What it does

Finds more marks than the vendor allows, the automatic one at top level counted.

## Why it costs

The vendor refuses the request.

## Example

A framework marks each message and never takes a mark away.

## Use instead

Take the oldest marks on messages away first.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching: at most four.
";
