//! No cache mark.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS062",
        name: "missing-breakpoint",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "nothing is marked for the cache",
        help: "mark the last block of the tools or system prompt, and the last message",
        fix: Fix::Marks,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let Entries::Marks { .. } = scene.call.caching.entries else {
        return;
    };
    let turn = scene.turn;
    if scene.prompt.marks > 0 || scene.prompt.segments.is_empty() {
        return;
    }
    let last = scene.prompt.segments.len() - 1;
    let minimum = scene.call.caching.minimum;
    if scene.previous.is_some()
        && turn.known_tokens >= minimum
        && turn.gap <= scene.call.caching.lifetime
    {
        report.add(
            last,
            format!(
                "{} tokens were sent before, and no mark tells the vendor to keep them",
                turn.known_tokens
            ),
        );
        report.lost(turn.known_tokens);
    } else if turn.prompt_tokens >= minimum && scene.previous.is_none() {
        report.add(
            last,
            format!(
                "{} tokens, and no mark tells the vendor to keep them",
                turn.prompt_tokens
            ),
        );
        report.severity(Severity::Advice);
    }
}

const DOCS: &str = r#"## What it does

Finds a request to a vendor that caches only what is marked, without any mark, although a prefix
was sent before.

## Why it costs

Without a mark nothing is cached: each request pays the full price for all of it.

## Example

```json
{"system": "…", "messages": [{"role": "user", "content": "…"}]}
```

## Use instead

```json
{"cache_control": {"type": "ephemeral"}, "system": "…", "messages": […]}
```

## Known problems

None known.

## Options

The route repair `cache_marks` places them.

## References

Anthropic, prompt caching; Bedrock, cachePoint.
"#;
