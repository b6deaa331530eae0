//! Words in the prefix that change.

use alloc::format;

use crate::lint::finding::Scope;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::{Kind, Tier};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::window::quoted;
use crate::lint::words;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS015",
        name: "volatile-text",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a few words in the prefix change from request to request",
        help: "move what changes behind what stays, or into the newest message",
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

fn recognise(sight: &Sight<'_>) -> bool {
    const SMALL: usize = 240;
    let small = sight.is().len() <= SMALL && sight.was().len() <= SMALL;
    let mostly_same = words::likeness(sight.before.as_bytes(), sight.after.as_bytes()) >= 60;
    let prefix = sight.tier < Tier::Messages || matches!(sight.kind, Kind::User | Kind::System);
    sight.scope == Scope::Conversation && prefix && small && mostly_same
}

const DOCS: &str = "## What it does

Finds a small change in a tool, in the system prompt or in a message sent before that no other
rule of this family recognises.

## Why it costs

Everything after the change is read at the full price.

## Example

```text
system: Mood of the day: curious. You are an assistant …
```

## Use instead

Put what changes at the end of the newest message.

## Known problems

The rule sees that the text changed, not why.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
