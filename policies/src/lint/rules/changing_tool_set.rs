//! Tools that come and go.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::{Kind, Tier};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS030",
        name: "changing-tool-set",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "tools come and go within a conversation",
        help: "send all tools from the start, and tell the model, or the vendor's tool choice, which to use",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| {
            let tool = scene
                .segment(edit.place())
                .is_some_and(|segment| segment.tier == Tier::Tools);
            match edit {
                Edit::Inserted { .. } => tool && scene.kind(edit.place()) == Kind::Tool,
                Edit::Removed { old, .. } => scene
                    .known(*old)
                    .is_some_and(|known| known.kind == Kind::Tool),
                Edit::Moved { .. } | Edit::Replaced { .. } => false,
            }
        },
        |_, count| format!("{count} of the tools came or went"),
    );
}

const DOCS: &str = "## What it does

Finds that a request has tools which the one before had not, or lacks some.

## Why it costs

Tools come first in the prompt, so not a byte of it is reused.

## Example

A harness sends only the tools that fit the current step.

## Use instead

Send them all, and restrict the choice (`allowed_tools` at OpenAI), or let the model find tools
by search.

## Known problems

One addition in a long conversation may be worth its price.

## Options

None.

## References

OpenAI, function calling: allowed_tools.
";
