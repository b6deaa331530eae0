//! Schemas that are not made the same way twice.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS028",
        name: "schema-member",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a member of a tool's schema comes and goes",
        help: "make schemas once, at start, and send the same bytes each time",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, segment| {
            matches!(change.difference.nature, Nature::Member | Nature::Value)
                && segment.tier == Tier::Tools
        },
        |change| {
            format!(
                "`{}` is not what it was",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds a member or a value of a tool that only one of two requests has (a default, a title, a
list that grows).

## Why it costs

Tools come first in the prompt, so not a byte of it is reused.

## Example

```json
{"enum": ["a", "b"]}   →   {"enum": ["a", "b", "c"]}
```

## Use instead

Make schemas once. What changes belongs into a message, or into the result of a tool.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
