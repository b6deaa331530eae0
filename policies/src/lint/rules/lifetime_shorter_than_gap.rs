//! Gaps longer than the lifetime.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Mark;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS069",
        name: "lifetime-shorter-than-gap",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the cache expires between two requests",
        help: "ask for the longer lifetime, or send a cheap request before the cache expires",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    /// Late requests before it is a habit and not a pause.
    const HABIT: u32 = 3;
    let scene = report.scene;
    let caching = scene.call.caching;
    let turn = scene.turn;
    let late = turn.gap > caching.lifetime && turn.gap <= caching.long_lifetime;
    let asked = scene.old.iter().any(|known| known.mark == Some(Mark::Long));
    let most = scene.habits.late * 5 >= scene.habits.requests;
    if !late || asked || turn.known == 0 || turn.known_tokens < caching.minimum {
        return;
    }
    let minutes = |duration: core::time::Duration| duration.as_secs() / 60;
    let message = format!(
        "{} minutes after the request before; the vendor keeps a prefix for {}",
        minutes(turn.gap),
        minutes(caching.lifetime)
    );
    report.add(turn.known - 1, message);
    report.lost(turn.known_tokens.minus(turn.expected));
    if scene.habits.late < HABIT || !most {
        report.severity(Severity::Advice);
    }
}

const DOCS: &str = r#"## What it does

Finds that requests of a conversation come later than the vendor keeps the prefix, for the third
time or more, and that a longer lifetime may be had.

## Why it costs

Each late request pays for the whole prefix again. The longer lifetime costs more at the first
request only.

## Example

An agent that waits eight minutes for a build between steps.

## Use instead

`"cache_control": {"type": "ephemeral", "ttl": "1h"}`

## Known problems

Single pauses are an advice.

## Options

None.

## References

Anthropic and OpenAI, prompt caching: lifetimes.
"#;
