//! Random identifiers in the prefix.

use alloc::format;
use core::ops::Range;

use crate::lint::finding::Scope;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::token::{identifier, is_random};
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS014",
        name: "random-identifier",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "an identifier that looks random stands in the prefix and changes",
        help: "leave it out, make it once for the conversation, or derive it from the content",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        let (was, is) = sight.both(random).unwrap_or((sight.was(), sight.is()));
        format!("the identifier {} became {}", quoted(was), quoted(is))
    });
}

fn random<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    Some(identifier(text, place)).filter(|token| is_random(token))
}

fn recognise(sight: &Sight<'_>) -> bool {
    let long_number =
        |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    sight.both(random).is_some()
        || (sight.scope == Scope::Across && long_number(sight.is()) && long_number(sight.was()))
}

const DOCS: &str = r#"## What it does

Finds a token of hexadecimal or mixed letters and digits in which two requests differ; between
conversations a long number, too.

## Why it costs

It is new at every request, and everything after it is read at the full price.

## Example

```text
user: <file handle="f_8Kx2mQp1">…
```

## Use instead

Number things, or derive the id from the content.

## Known problems

An identifier that stays the same is no finding.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
