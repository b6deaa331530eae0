//! Counters in the prefix.

use alloc::format;

use crate::lint::finding::Scope;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::token::number;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS012",
        name: "running-counter",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a count stands in the prefix and changes",
        help: "leave the count out, or tell it at the end of the newest message",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        let (was, is) = sight.both(number).unwrap_or_default();
        format!("the count {} became {}", quoted(was), quoted(is))
    });
}

fn recognise(sight: &Sight<'_>) -> bool {
    sight.scope != Scope::Across
        && sight.both(number).is_some()
        && sight.is().len() <= 32
        && sight.was().len() <= 32
}

const DOCS: &str = "## What it does

Finds a number (a step, a turn, tokens or money left, a percentage) in which two requests of a
conversation differ.

## Why it costs

It changes with every request, and everything after it is read at the full price.

## Example

```text
system: Step 12 of 50. 81,204 tokens left.
```

## Use instead

Tell it at the end of the newest message, or only when little is left.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
