//! Request, trace and session ids in the prefix.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::token::{identifier, is_random};
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS004",
        name: "request-identifier",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the id of a request, trace or session stands in the prefix and changes",
        help: "send such ids as headers or metadata, not in the prompt",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        format!(
            "the identifier {} became {}",
            quoted(sight.was()),
            quoted(sight.is())
        )
    });
}

const WORDS: [&str; 16] = [
    "request",
    "requestid",
    "request_id",
    "req",
    "trace",
    "traceid",
    "trace_id",
    "span",
    "correlation",
    "session",
    "session_id",
    "run",
    "run_id",
    "conversation",
    "message_id",
    "nonce",
];

fn recognise(sight: &Sight<'_>) -> bool {
    let id = |token: &str| {
        is_random(token) || (token.len() >= 5 && token.bytes().any(|byte| byte.is_ascii_digit()))
    };
    let both = sight.both(|text, place| Some(identifier(text, place)).filter(|token| id(token)));
    let within_id = both.is_some_and(|(was, is)| {
        let prefix =
            |token: &str| token.split(['-', '_']).next().unwrap_or_default().len() < token.len();
        WORDS
            .iter()
            .any(|word| is.starts_with(word) && was.starts_with(word))
            && prefix(is)
    });
    both.is_some() && (within_id || sight.is_called(&WORDS))
}

const DOCS: &str = "## What it does

Finds an identifier that is called the id of a request, a trace, a span, a run, a session or a
message, and that two requests differ in.

## Why it costs

It is new at every request, and everything after it is read at the full price.

## Example

```text
system: [trace_id=4bf92f3577b34da6] You are an assistant.
```

## Use instead

Put it into `metadata`, `user` or a header such as `traceparent`.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
