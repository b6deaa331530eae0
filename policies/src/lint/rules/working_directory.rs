//! Working directories in the prefix.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::shape::token::path;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS009",
        name: "working-directory",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a path stands in the prefix and changes",
        help: "use a fixed mount point, or tell the folder in a message when it changes",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(
        |sight| sight.both(path).is_some(),
        |sight| {
            let (was, is) = sight.both(path).unwrap_or_default();
            format!("the path {} became {}", quoted(was), quoted(is))
        },
    );
}

const DOCS: &str = "## What it does

Finds a path in which two requests differ.

## Why it costs

Everything after the path is read at the full price; over machines with other home folders, no
two share a prefix.

## Example

```text
system: Current directory: /home/mira/build-17
```

## Use instead

Mount the work under one name, and tell a change of folder in a message.

## Known problems

A path that stays the same for the conversation is no finding there. Over many conversations it
is worth an advice.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
