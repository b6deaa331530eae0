//! Conversations split over keys.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS080",
        name: "split-over-keys",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a conversation is split over keys",
        help: "keep a conversation on one key: route by the conversation, not by turns",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    if scene.turn.switched.key {
        report.add(
            0,
            format!(
                "sent with another key than the request before (switch {})",
                scene.habits.key_switches
            ),
        );
        report.lost(scene.turn.known_tokens);
        if scene.habits.key_switches < 2 {
            report.severity(Severity::Advice);
        }
    }
}

const DOCS: &str = "## What it does

Finds that requests of one conversation go out with different keys of the vendor.

## Why it costs

Caches belong to an organisation or a workspace. With keys of several, each request meets a cold
cache, or one that is many turns old.

## Example

Round robin over four keys.

## Use instead

Hash the conversation onto a key; leave it there while the key is healthy.

## Known problems

Keys of one workspace share a cache, which the linter cannot know. One switch is an advice.

## Options

Routing keeps conversations on the key that holds their cache.

## References

Anthropic, prompt caching: isolation.
";
