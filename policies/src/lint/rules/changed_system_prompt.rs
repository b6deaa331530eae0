//! Another system prompt.

use alloc::string::String;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS050",
        name: "changed-system-prompt",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the system prompt is another than before",
        help: "keep one system prompt for the conversation; tell changes in a message",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| match edit {
            Edit::Removed { old, .. } => scene
                .known(*old)
                .is_some_and(|known| known.tier == Tier::System),
            Edit::Inserted { .. } | Edit::Moved { .. } | Edit::Replaced { .. } => scene
                .segment(edit.place())
                .is_some_and(|segment| segment.tier == Tier::System),
        },
        |_, _| String::from("the system prompt reads otherwise than in the request before"),
    );
}

const DOCS: &str = "## What it does

Finds that the system prompt of a conversation changed in a way that no other rule recognises.

## Why it costs

It stands at the front, so nothing of the conversation is reused.

## Example

Another persona or mode is switched on by another system prompt.

## Use instead

Tell the new mode in a message. Newer Claude models take a message with role `system` anywhere.

## Known problems

Between conversations it is no finding.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
