//! Models switched within a conversation.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS083",
        name: "model-switched",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a conversation goes on with another model",
        help: "finish a conversation with the model that began it, or switch when it is short",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if scene.turn.switched.model && !scene.turn.switched.fallback {
        report.add(
            0,
            format!(
                "the conversation went on with another model (switch {})",
                scene.habits.model_switches
            ),
        );
        report.lost(scene.turn.known_tokens);
    }
}

const DOCS: &str = "## What it does

Finds that a conversation goes on with another model.

## Why it costs

Caches belong to a model: the new one reads all of it at the full price.

## Example

Each step chooses between a small and a large model.

## Use instead

Give side tasks conversations of their own.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching: model-scoped.
";
