//! Fallbacks that flap.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS082",
        name: "fallback-flapping",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a conversation goes back and forth between first choice and stand-in",
        help: "stay on the stand-in until the conversation ends or the first choice has been well for minutes",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if scene.turn.switched.fallback && scene.habits.fallback_switches >= 2 {
        report.add(
            0,
            format!(
                "changed between first choice and stand-in {} times",
                scene.habits.fallback_switches
            ),
        );
        report.lost(scene.turn.known_tokens);
    }
}

const DOCS: &str = "## What it does

Finds that a conversation changes between the route's first choice and a stand-in, for the
second time or more.

## Why it costs

Each change meets a cold cache; flapping costs more than either vendor alone.

## Example

A breaker that closes after each success, under a vendor that fails half of the time.

## Use instead

Hysteresis: go back only after a quiet time.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
