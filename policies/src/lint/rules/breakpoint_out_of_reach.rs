//! Marks out of reach.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Scene;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS066",
        name: "breakpoint-out-of-reach",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the new mark is too far from what is cached",
        help: "keep the mark of the request before as a second one, or mark every twenty blocks",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let Entries::Marks { look_back, .. } = scene.call.caching.entries else {
        return;
    };
    let turn = scene.turn;
    let missed = turn.known_tokens.minus(turn.expected);
    let warm =
        turn.gap <= scene.call.caching.lifetime && turn.marks_before > 0 && scene.prompt.marks > 0;
    if !warm || missed.0 < scene.call.caching.minimum.0 || !scene.alignment.edits.is_empty() {
        return;
    }
    let Some((mark, kept)) = marks(scene) else {
        return;
    };
    let positions = mark.saturating_sub(kept);
    if kept >= turn.readable && positions > look_back as usize {
        report.add(
            mark,
            format!(
                "the mark before is {positions} blocks away; the vendor looks back {look_back}"
            ),
        );
        report.lost(missed);
    }
}

/// The last mark of this request, and the last of the one before.
fn marks(scene: &Scene<'_>) -> Option<(usize, usize)> {
    let now = scene
        .prompt
        .segments
        .iter()
        .rposition(|segment| segment.mark.is_some())?;
    let kept = scene.old.iter().rposition(|known| known.mark.is_some())?;
    Some((now, kept))
}

const DOCS: &str = "## What it does

Finds that a request goes on from the one before, yet its mark is more blocks away from the
marked end of that one than the vendor looks back.

## Why it costs

The entry is there and is not found: all is written to the cache again.

## Example

A turn with thirty blocks of parallel work, and one mark at its end.

## Use instead

Leave the old mark in place and add the new one.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching: look-back of twenty blocks.
";
