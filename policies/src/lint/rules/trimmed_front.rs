//! Messages dropped at the front.

use alloc::format;

use super::{Shrinking, shrinking_of};
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS042",
        name: "trimmed-front",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the oldest messages are dropped",
        help: "keep the front of the conversation, or drop much of it at once",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if shrinking_of(scene) != Shrinking::Trimmed || scene.habits.trims >= 2 {
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
        format!("the {} oldest messages are gone", gap.old.len()),
    );
    report.claim_range(&gap.new, &gap.old);
}

const DOCS: &str = "## What it does

Finds that messages at the front of the conversation are gone, for the first time.

## Why it costs

What follows is all there, but no longer a known prefix: it is read at the full price once more.

## Example

The first question is cut off because the conversation became long.

## Use instead

Drop from the end of old tool results first, or summarise once.

## Known problems

Dropping more than half at once is taken for a deliberate step, and is an advice.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
