//! A time of day in the prefix.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crate::lint::finding::Scope;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::json;
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::time::{moment_at, moments};
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS001",
        name: "volatile-timestamp",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a time of day stands in the prefix and changes",
        help: "move the time to the end of the newest message, or give it once, when the conversation begins",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, say);
    if report.scene.scope == Scope::Alone {
        advise(report);
    }
}

fn timed<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    let moment = moment_at(text, place).filter(|moment| moment.time)?;
    text.get(moment.range)
}

fn recognise(sight: &Sight<'_>) -> bool {
    sight.both(timed).is_some() || appeared(sight).is_some()
}

fn say(sight: &Sight<'_>) -> String {
    if let Some(is) = appeared(sight) {
        return format!("the time {} stands where nothing stood", quoted(is));
    }
    let (was, is) = sight.both(timed).unwrap_or_default();
    format!("the time {} became {}", quoted(was), quoted(is))
}

/// A time to the second that was put in between: it is sure to change next time.
fn appeared<'a>(sight: &Sight<'a>) -> Option<&'a str> {
    let inserted = sight.was().trim().is_empty() && sight.is().len() <= 80;
    let moment = moment_at(sight.after, &sight.hunk.after).filter(|moment| moment.seconds)?;
    sight.after.get(moment.range).filter(|_| inserted)
}

/// A clock near the top of a system prompt is sure to go on, though nothing is lost yet.
fn advise(report: &mut Report<'_, '_>) {
    const TOP: usize = 1024;
    let scene = report.scene;
    let systems = scene
        .prompt
        .segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.tier == Tier::System);
    for (at, segment) in systems.take(2) {
        let raw = segment.text(scene.prompt.body);
        let top = json::decode(raw.get(..TOP).unwrap_or(raw));
        let clock = moments(&top, 0)
            .into_iter()
            .find(|moment| moment.seconds && moment.date);
        if let Some(clock) = clock {
            let shown = top.get(clock.range.clone()).unwrap_or_default();
            let start = json::raw_offset(raw, clock.range.start);
            let end = json::raw_offset(raw, clock.range.end);
            let message = format!(
                "the system prompt tells the time, {}, to the second",
                quoted(shown)
            );
            report.add_within(at, &top, &clock.range, start..end, message);
            report.severity(Severity::Advice);
            return;
        }
    }
}

const DOCS: &str = "## What it does

Finds a date with a time, or a time alone, in any usual notation (ISO 8601, numeric orders,
month names in ten languages, Chinese, Japanese and Korean units, digits of other scripts),
where two requests of a conversation differ in it. A time with seconds near the top of a system
prompt is worth an advice in a single request.

## Why it costs

Everything after the time is another prefix for the vendor: it is read at the full price again,
at every request.

## Example

```text
system: You are an assistant. Now: 2026-11-30 10:00:01
```

## Use instead

```text
system: You are an assistant.
user: … (it is 2026-11-30 10:00)
```

## Known problems

A time that stays the same for the whole conversation is no finding.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
