//! History rewritten.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS051",
        name: "rewritten-history",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a message that was sent before reads otherwise",
        help: "store what was sent, and send that",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| {
            matches!(edit, Edit::Replaced { .. })
                && scene
                    .segment(edit.place())
                    .is_some_and(|segment| segment.tier == Tier::Messages)
        },
        |_, count| format!("{count} messages read otherwise than when they were sent"),
    );
}

const DOCS: &str = "## What it does

Finds a message that reads otherwise than in the request before, in a way that no other rule
recognises.

## Why it costs

Everything after it is read at the full price.

## Example

The model's answer is cleaned up before it is stored; a long question is shortened.

## Use instead

Store the message as it was sent, and show people a cleaned copy.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
