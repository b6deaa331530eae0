//! A date in the prefix.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::calendar::{is_month, is_weekday};
use crate::lint::shape::time::moment_at;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS002",
        name: "volatile-date",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a date stands in the prefix and changes",
        help: "move the date to the end of the newest message, or keep the date on which the conversation began",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, say);
}

fn date<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    match moment_at(text, place) {
        Some(moment) => text.get(moment.range).filter(|_| !moment.time),
        None => text
            .get(place.clone())
            .filter(|word| is_month(word) || is_weekday(word)),
    }
}

fn recognise(sight: &Sight<'_>) -> bool {
    sight.both(date).is_some()
}

fn say(sight: &Sight<'_>) -> String {
    let (was, is) = sight.both(date).unwrap_or_default();
    format!("the date {} became {}", quoted(was), quoted(is))
}

const DOCS: &str = "## What it does

Finds a date, a month or a day of the week in which two requests of a conversation differ.

## Why it costs

At the change of the day, every open conversation loses its whole prefix at once.

## Example

```text
system: Today is Monday, 30 November 2026.
```

## Use instead

Keep the date of the first request for the life of the conversation; tell a new date in a new
message.

## Known problems

A date that stays the same is no finding.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
