//! Experiment labels in the prefix.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS010",
        name: "experiment-label",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the label of an experiment stands in the prefix and changes",
        help: "choose the variant once for each conversation, and send the label as metadata",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        format!(
            "the label {} became {}",
            quoted(sight.was()),
            quoted(sight.is())
        )
    });
}

const WORDS: [&str; 12] = [
    "experiment",
    "variant",
    "bucket",
    "cohort",
    "treatment",
    "rollout",
    "feature_flag",
    "feature flag",
    "ab_test",
    "实验",
    "分组",
    "变体",
];

/// The label follows its name at once: `variant=B`, `experiment: 7`.
fn recognise(sight: &Sight<'_>) -> bool {
    sight.is().len() <= 48 && sight.was().len() <= 48 && sight.is_labelled(&WORDS)
}

const DOCS: &str = "## What it does

Finds a variant, an arm, a bucket or a flag of an experiment in which two requests differ.

## Why it costs

Each value has a cache of its own; where it changes within a conversation, the prefix is lost.

## Example

```text
system: [variant=B] You are an assistant.
```

## Use instead

Send the label as `metadata`; let a variant change the end of the system prompt.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
