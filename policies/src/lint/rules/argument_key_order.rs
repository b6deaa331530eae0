//! Key order within the arguments of tool calls.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS022",
        name: "argument-key-order",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the members of a tool call's arguments come in another order",
        help: "send arguments back as the model wrote them",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, segment| {
            change.difference.nature == Nature::KeyOrder && segment.tier != Tier::Tools
        },
        |change| {
            format!(
                "the same members, in another order, at `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds a message sent before whose JSON (arguments of a tool call, above all) has the same
members in another order.

## Why it costs

A client parses the arguments and writes them again through a map; the cache is lost from there
on.

## Example

```json
"arguments": "{\"path\": \"a\", \"line\": 3}"   →   "{\"line\": 3, \"path\": \"a\"}"
```

## Use instead

Keep the text of the arguments beside the parsed form, and send the text.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
