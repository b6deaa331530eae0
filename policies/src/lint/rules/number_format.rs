//! Numbers written otherwise.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS024",
        name: "number-format",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the same number is written otherwise",
        help: "keep numbers as they were first written",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, _| change.difference.nature == Nature::Number,
        |change| {
            format!(
                "the same number, written otherwise, at `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds a number that was `1.0` and is `1`, or the like.

## Why it costs

A round trip through another language changes how numbers are written; the prefix ends there.

## Example

```json
{"minimum": 1.0}   →   {"minimum": 1}
```

## Use instead

Keep the text of numbers, or write schemas with whole numbers.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
