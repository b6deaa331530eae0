//! JSON escapes.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS026",
        name: "json-escapes",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the same text is escaped otherwise",
        help: "write with one serialiser and one setting",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, _| change.difference.nature == Nature::Escape,
        |change| {
            format!(
                "the same text, escaped otherwise, at `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds a string that says the same and is escaped otherwise (`\u00e9` for `é`, `\/` for `/`).

## Why it costs

Within arguments of tool calls, which are text, it is another prompt. Elsewhere vendors read the
string first, and it shows that the part was written anew.

## Example

```json
"caf\u00e9"   →   "café"
```

## Use instead

Write with one serialiser and one setting.

## Known problems

In the outer body it costs nothing at vendors that render from the parsed form.

## Options

None.

## References

RFC 8259, section 7.
"#;
