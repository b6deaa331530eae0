//! Key order within tools.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS021",
        name: "key-order",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the members of a tool's schema come in another order",
        help: "write schemas with a serialiser that keeps or sorts keys",
        fix: Fix::KeyOrder,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, segment| {
            change.difference.nature == Nature::KeyOrder && segment.tier == Tier::Tools
        },
        |change| {
            format!(
                "the same members, in another order, below `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds that a tool has the same members with the same values, in another order.

## Why it costs

Tools come first in the prompt, so a swapped key costs all of it. Hash maps with random seeds do
this at every start of a process, or at every request.

## Example

```json
{"type": "object", "properties": {}}   →   {"properties": {}, "type": "object"}
```

## Use instead

Use ordered maps, or sort keys before sending. `--fix` and the route repair `canonical_keys` do
it.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
