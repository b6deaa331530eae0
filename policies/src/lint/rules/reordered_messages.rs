//! Messages in another order.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS046",
        name: "reordered-messages",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "messages come in another order",
        help: "append only; give each message its place once",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| {
            matches!(edit, Edit::Moved { .. })
                && scene
                    .segment(edit.place())
                    .is_some_and(|segment| segment.tier == Tier::Messages)
        },
        |_, count| format!("{count} messages stand elsewhere than before"),
    );
}

const DOCS: &str = "## What it does

Finds messages that were sent before and now stand elsewhere.

## Why it costs

The prefix ends at the first one out of place.

## Example

Results of parallel tool calls, in the order in which they finish; memories sorted by relevance.

## Use instead

Keep the order of the first request.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
