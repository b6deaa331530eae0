//! White space within texts.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS029",
        name: "text-whitespace",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the same text has other white space",
        help: "trim and break lines once, before text is first sent",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, _| {
            change.difference.nature == Nature::Whitespace && change.difference.texts.is_some()
        },
        |change| {
            format!(
                "the same words, spaced otherwise, at `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = r#"## What it does

Finds a text that differs only in spaces, indents or line ends.

## Why it costs

White space is tokens, so the prefix ends there. Trimming a message when it is stored, and line
ends of another system, are usual sources.

## Example

```text
"done\n"   →   "done"
```

## Use instead

Store what was sent.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
