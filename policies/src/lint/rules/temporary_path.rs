//! Temporary paths in the prefix.

use alloc::format;
use core::ops::Range;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::shape::token::{is_temporary, path};
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS007",
        name: "temporary-path",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a temporary path stands in the prefix and changes",
        help: "use a fixed folder name, or a name made from the task",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(
        |sight| sight.both(temporary).is_some(),
        |sight| {
            let (was, is) = sight.both(temporary).unwrap_or_default();
            format!("the temporary path {} became {}", quoted(was), quoted(is))
        },
    );
}

fn temporary<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    path(text, place).filter(|path| is_temporary(path))
}

const DOCS: &str = "## What it does

Finds a path below a folder for temporary files in which two requests differ.

## Why it costs

Such names are random, so everything after the path is read at the full price.

## Example

```text
system: Write your notes to /tmp/agent-x7Gk2/notes.md
```

## Use instead

Mount the folder under one name: `/workspace/notes.md`.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
