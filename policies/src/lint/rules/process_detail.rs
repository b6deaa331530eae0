//! Hosts, ports, process ids and loads in the prefix.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS013",
        name: "process-detail",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a detail of the running process stands in the prefix and changes",
        help: "leave hosts, ports, process ids and loads out of the prompt",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        format!("{} became {}", quoted(sight.was()), quoted(sight.is()))
    });
}

const WORDS: [&str; 17] = [
    "host",
    "hostname",
    "container",
    "pod",
    "node",
    "worker",
    "replica",
    "pid",
    "process",
    "port",
    "uptime",
    "memory",
    "cpu",
    "load",
    "version",
    "build",
    "ip",
];

fn recognise(sight: &Sight<'_>) -> bool {
    sight.is().len() <= 64 && sight.was().len() <= 64 && sight.is_called(&WORDS)
}

const DOCS: &str = "## What it does

Finds the name of a host or container, a port, a process id, an address, a version or a load in
which two requests differ.

## Why it costs

Replicas behind a load balancer then never share a prefix, and a load changes at every request.

## Example

```text
system: Running on pod web-7d9f8b6c4-x2x5q, 41 % memory used.
```

## Use instead

Leave it out; the model has no use for it.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
