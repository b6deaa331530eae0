//! Messages inserted.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS048",
        name: "inserted-message",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a message is inserted among those sent before",
        help: "append messages, do not insert them",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| {
            matches!(edit, Edit::Inserted { .. })
                && scene
                    .segment(edit.place())
                    .is_some_and(|segment| segment.tier == Tier::Messages)
        },
        |_, count| format!("{count} messages stand among those sent before that were not there"),
    );
}

const DOCS: &str = "## What it does

Finds a new message before messages that were already sent.

## Why it costs

The prefix ends where it was inserted.

## Example

Retrieved documents placed before the conversation, other ones at each turn.

## Use instead

Put them into the newest message.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
