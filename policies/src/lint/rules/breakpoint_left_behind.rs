//! Marks that do not move.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS067",
        name: "breakpoint-left-behind",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the marks stay behind while the conversation grows",
        help: "move a mark to the last message at each request",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let Entries::Marks { .. } = scene.call.caching.entries else {
        return;
    };
    let turn = scene.turn;
    let minimum = scene.call.caching.minimum;
    let missed = turn.known_tokens.minus(turn.expected);
    let warm =
        turn.gap <= scene.call.caching.lifetime && turn.marks_before > 0 && scene.prompt.marks > 0;
    if !warm || missed.0 < scene.call.caching.minimum.0 || !scene.alignment.edits.is_empty() {
        return;
    }
    let last = scene
        .prompt
        .segments
        .iter()
        .rposition(|segment| segment.mark.is_some());
    let Some(last) = last.filter(|last| *last < turn.known) else {
        return;
    };
    let marked = scene.tokens_of(last + 1);
    if marked >= minimum && missed.0 >= 2 * minimum.0 {
        report.add(
            last,
            format!("{missed} tokens sent before lie behind the last mark"),
        );
        report.lost(missed);
    }
}

const DOCS: &str = "## What it does

Finds that the last mark stands far from the end: most of what was sent before lies behind it.

## Why it costs

What lies behind the last mark is read at the full price at each request.

## Example

One mark on the system prompt, and a conversation of a hundred messages.

## Use instead

A mark on the system prompt and one on the last message.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching.
";
