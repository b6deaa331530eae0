//! Spaces between JSON tokens.

use alloc::string::String;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS023",
        name: "json-whitespace",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the same JSON is spaced otherwise",
        help: "send each part in the bytes in which it was first sent",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, _| {
            change.difference.nature == Nature::Whitespace && change.difference.texts.is_none()
        },
        |_| String::from("the same JSON, spaced otherwise"),
    );
}

const DOCS: &str = r#"## What it does

Finds a part of the prompt that is the same JSON with other white space between its tokens,
arguments of tool calls included.

## Why it costs

Where a vendor renders JSON as it came, the prefix ends there; arguments of tool calls are text
and always do.

## Example

```json
{"path": "a"}   →   {"path":"a"}
```

## Use instead

Write with one serialiser and one setting, and do not write again what was already sent.

## Known problems

Some vendors render tools from the parsed form, and then white space outside strings costs
nothing.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
