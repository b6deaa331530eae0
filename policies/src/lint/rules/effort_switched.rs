//! Reasoning effort switched within a conversation.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS084",
        name: "effort-switched",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a conversation goes on with another reasoning effort",
        help: "keep the effort for the conversation",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if scene.turn.switched.effort && !scene.turn.switched.model {
        report.add(
            0,
            format!(
                "the reasoning settings changed (switch {})",
                scene.habits.effort_switches
            ),
        );
        report.lost(scene.turn.known_tokens);
    }
}

const DOCS: &str = "## What it does

Finds that reasoning effort or the thinking configuration changed from one request of a
conversation to the next.

## Why it costs

It is part of what the vendor renders: the messages, and with some models everything, are read
at the full price.

## Example

High effort for planning, low for each step.

## Use instead

One effort for a conversation; sub-tasks in their own.

## Known problems

With vendors whose cache does not depend on it, it is no finding.

## Options

None.

## References

Anthropic, prompt caching: what invalidates the cache.
";
