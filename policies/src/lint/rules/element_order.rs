//! Order of elements within tools.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS027",
        name: "element-order",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the elements of a list come in another order",
        help: "sort lists that are sets: `required`, `enum`, `anyOf`",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, segment| {
            change.difference.nature == Nature::ArrayOrder && segment.tier == Tier::Tools
        },
        |change| {
            format!(
                "the same elements, in another order, at `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds a list in a tool that has the same elements in another order.

## Why it costs

A set written as a list comes out in another order at each run; tools come first, so not a byte
is reused.

## Example

```json
"required": ["path", "line"]   →   "required": ["line", "path"]
```

## Use instead

Sort what is a set before writing it.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
