//! Compaction too often.

use alloc::format;

use super::{Shrinking, shrinking_of};
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS040",
        name: "frequent-compaction",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the conversation is compacted again and again",
        help: "compact rarely and by much: when three quarters of the window are full, down to a quarter",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    /// Requests between two compactions that pay for the second.
    const ENOUGH: u32 = 8;
    let scene = report.scene;
    if shrinking_of(scene) != Shrinking::Compacted {
        return;
    }
    let gap = scene
        .alignment
        .gaps
        .iter()
        .filter(|gap| gap.tier == Tier::Messages)
        .max_by_key(|gap| gap.old.len());
    let Some(gap) = gap.cloned() else { return };
    let habits = scene.habits;
    if habits.compactions >= 2 && habits.since_compaction <= ENOUGH {
        report.add(
            gap.new.start,
            format!(
                "compaction {}, {} requests after the one before",
                habits.compactions, habits.since_compaction
            ),
        );
    }
    // Once in a while it is the right thing to do, and explains what is gone.
    report.claim_range(&gap.new, &gap.old);
}

const DOCS: &str = "## What it does

Finds that older messages are replaced by a summary for the second time within eight requests.
One compaction is no finding.

## Why it costs

Each compaction throws the cache of the conversation away; done at every turn, nothing after the
system prompt is ever reused.

## Example

A harness that keeps the last six messages and summarises the rest at each turn.

## Use instead

Let the conversation grow, then compact once, by much.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
