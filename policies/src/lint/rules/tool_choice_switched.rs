//! Tool choice switched.

use alloc::string::String;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS085",
        name: "tool-choice-switched",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the tool choice changes within a conversation",
        help: "leave the tool choice on automatic and say in a message what is wanted",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if scene.turn.switched.tool_choice
        && matches!(scene.call.caching.entries, Entries::Marks { .. })
    {
        report.add(
            0,
            String::from("the tool choice is not that of the request before"),
        );
        report.lost(scene.turn.known_tokens);
    }
}

const DOCS: &str = "## What it does

Finds that `tool_choice` changed from one request of a conversation to the next, at a vendor
whose cache depends on it.

## Why it costs

The messages are read at the full price; tools and system prompt stay cached.

## Example

A forced tool for the last step.

## Use instead

Say in the newest message which tool to use.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching: what invalidates the cache.
";
