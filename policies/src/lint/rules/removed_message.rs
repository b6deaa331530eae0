//! Messages removed.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS049",
        name: "removed-message",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a message in the middle of the conversation is gone",
        help: "leave messages where they are; if something must go, let much go at once",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(|edit| matches!(edit, Edit::Removed { old, .. } if scene.known(*old).is_some_and(|known| known.tier == Tier::Messages)), |_, count| format!("{count} messages sent before are gone, and later ones are still there"));
}

const DOCS: &str = "## What it does

Finds that a message in the middle of the conversation is gone.

## Why it costs

The prefix ends where it stood.

## Example

Failed tool calls are taken out of the history, one by one.

## Use instead

Leave them, or take them out together when the conversation is compacted.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
