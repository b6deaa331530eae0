//! Sliding windows.

use alloc::format;

use super::{Shrinking, shrinking_of};
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS041",
        name: "sliding-window",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the oldest messages are dropped at request after request",
        help: "let the conversation grow, then drop much at once, or summarise",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if shrinking_of(scene) != Shrinking::Trimmed || scene.habits.trims < 2 {
        return;
    }
    let gap = scene
        .alignment
        .gaps
        .iter()
        .find(|gap| gap.tier == Tier::Messages && gap.new.is_empty());
    let Some(gap) = gap.cloned() else { return };
    report.add(
        gap.new.start,
        format!(
            "the {} oldest messages are gone, and it is not the first time",
            gap.old.len()
        ),
    );
    report.claim_range(&gap.new, &gap.old);
}

const DOCS: &str = "## What it does

Finds that messages at the front of the conversation are gone, for the second time or more.

## Why it costs

A window that slides by one message changes the prefix at every request: nothing after the
system prompt is ever reused.

## Example

`messages = [system] + messages[-20:]`

## Use instead

Drop half of the conversation when it reaches its limit; then many requests share what is left.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
