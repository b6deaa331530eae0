//! Conversations split over regions.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS081",
        name: "split-over-regions",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a conversation is split over regions or deployments",
        help: "keep a conversation on one region or deployment",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if scene.turn.switched.region {
        report.add(
            0,
            format!(
                "sent to another region or deployment than the request before (switch {})",
                scene.habits.region_switches
            ),
        );
        report.lost(scene.turn.known_tokens);
        if scene.habits.region_switches < 2 {
            report.severity(Severity::Advice);
        }
    }
}

const DOCS: &str = "## What it does

Finds that requests of one conversation go to different regions or deployments.

## Why it costs

Each has a cache of its own.

## Example

Cross-region inference profiles; a pool of deployments behind a balancer.

## Use instead

Hash the conversation onto a deployment.

## Known problems

One switch is an advice.

## Options

None.

## References

vLLM, automatic prefix caching: per instance.
";
