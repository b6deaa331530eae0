//! Marks behind changing parts.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS068",
        name: "breakpoint-after-volatile-block",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "every mark stands behind a part that changes",
        help: "place a mark before the part that changes",
        fix: Fix::Marks,
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
    let worth = turn.known_tokens >= scene.call.caching.minimum
        && turn.expected < scene.call.caching.minimum;
    let warm = turn.gap <= scene.call.caching.lifetime && turn.marks_before > 0;
    let marked_before = scene
        .old
        .iter()
        .take(turn.known)
        .any(|known| known.mark.is_some());
    if worth && warm && !marked_before && !scene.alignment.edits.is_empty() && turn.known > 0 {
        let at = scene.first_difference();
        report.add(
            at,
            format!(
                "{} stable tokens stand before this part, and no mark among them",
                turn.known_tokens
            ),
        );
        report.lost(turn.known_tokens);
    }
}

const DOCS: &str = "## What it does

Finds that the part which changed stands before every mark, while a stable part long enough to
be cached stands before it.

## Why it costs

The vendor keeps entries only at marks, so not even the stable part is read from the cache.

## Example

Tools, system prompt, a block with the time, and the only mark after it.

## Use instead

A mark on the system prompt, and the time after it.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching.
";
