//! Cache keys used for unlike prompts.

use alloc::format;

use crate::lint::finding::Scope;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS086",
        name: "cache-key-divergence",
        family: Family::Fleet,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "one cache key is used for unlike prompts",
        help: "give side calls (titles, summaries, compaction) a key of their own",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    /// Below this share, in hundredths, two prompts have nothing to share.
    const UNLIKE: u32 = 10;
    let scene = report.scene;
    let share = scene.turn.shared_under_key.filter(|share| *share < UNLIKE);
    if let Some(share) = share.filter(|_| scene.scope == Scope::Alone) {
        report.add(
            0,
            format!("shares {share} % of its length with what was sent under this cache key"),
        );
    }
}

const DOCS: &str = r#"## What it does

Finds a request with a known `prompt_cache_key` whose known prefix is below a tenth of the
request before under that key.

## Why it costs

The key leads requests to the machine that holds the prefix. A side call with another prompt
pays for a write that nobody reads, and crowds the machine.

## Example

A summary call with the key of the conversation that it summarises.

## Use instead

`"prompt_cache_key": "s1-summary"`

## Known problems

None known.

## Options

None.

## References

OpenAI, prompt caching: prompt_cache_key.
"#;
