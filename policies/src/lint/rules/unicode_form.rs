//! Unicode normal forms.

use alloc::format;

use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS025",
        name: "unicode-form",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the same text comes in another Unicode normal form",
        help: "normalise text once, before it is first sent",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_changes(
        |change, _| change.difference.nature == Nature::UnicodeForm,
        |change| {
            format!(
                "the same characters, composed otherwise, at `{}`",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
}

const DOCS: &str = "## What it does

Finds text that reads the same and has other code points: `é` as one character or as two.

## Why it costs

They are other tokens to the model, so the prefix ends there. File names from macOS are a usual
source.

## Example

```text
résumé.pdf (NFC)   →   résumé.pdf (NFD)
```

## Use instead

Normalise to NFC where text enters the harness.

## Known problems

None known.

## Options

None.

## References

Unicode Standard Annex 15.
";
