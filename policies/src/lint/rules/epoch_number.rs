//! Seconds since 1970 in the prefix.

use alloc::format;
use core::ops::Range;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::shape::calendar::is_epoch;
use crate::lint::shape::token::number;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS003",
        name: "epoch-number",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a count of seconds since 1970 stands in the prefix and changes",
        help: "leave the number out, or move it to the end of the newest message",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(
        |sight| sight.both(epoch).is_some(),
        |sight| {
            let (was, is) = sight.both(epoch).unwrap_or_default();
            format!("the epoch number {} became {}", quoted(was), quoted(is))
        },
    );
}

fn epoch<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    number(text, place).filter(|number| is_epoch(number))
}

const DOCS: &str = "## What it does

Finds a number of seconds, or of thousandths, millionths or billionths of one, since 1970 in
which two requests differ.

## Why it costs

It changes with every request, and everything after it is read at the full price.

## Example

```text
system: session started 1796032801, now 1796032925
```

## Use instead

Models do not need epoch numbers. Tell a time in words at the end, where it matters.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
