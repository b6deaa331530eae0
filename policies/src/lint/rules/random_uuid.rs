//! UUIDs in the prefix.

use alloc::format;
use core::ops::Range;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::shape::token::{identifier, is_uuid};
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS005",
        name: "random-uuid",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a UUID stands in the prefix and changes",
        help: "leave it out, or make it once for the conversation",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(
        |sight| sight.both(uuid).is_some(),
        |sight| {
            let (was, is) = sight.both(uuid).unwrap_or_default();
            format!("the UUID {} became {}", quoted(was), quoted(is))
        },
    );
}

fn uuid<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    Some(identifier(text, place)).filter(|token| is_uuid(token))
}

const DOCS: &str = r#"## What it does

Finds a UUID in which two requests differ.

## Why it costs

It is new at every request, and everything after it is read at the full price.

## Example

```text
system: <document id="0198a0e1-5e8c-7a3a-8000-0123456789ab">…
```

## Use instead

Number documents 1, 2, 3, or derive the id from the content.

## Known problems

A UUID that stays the same for the conversation is no finding there. Over many conversations it
is worth an advice: they share no prefix.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
