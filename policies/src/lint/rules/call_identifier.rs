//! Ids of tool calls made anew.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Kind;
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS006",
        name: "call-identifier",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the id of a tool call changes between two requests",
        help: "keep the ids that the model gave, or derive them from the position of the call",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        format!(
            "the id {} became {}",
            quoted(sight.was()),
            quoted(sight.is())
        )
    });
}

fn recognise(sight: &Sight<'_>) -> bool {
    let field = sight.path.rsplit('.').next().unwrap_or_default();
    let of_call =
        sight.path.contains("tool_call") || matches!(sight.kind, Kind::ToolCall | Kind::ToolResult);
    matches!(
        field,
        "tool_call_id" | "tool_use_id" | "toolUseId" | "call_id"
    ) || (field == "id" && of_call)
}

const DOCS: &str = r#"## What it does

Finds the id of a tool call or of its result that is another in the next request.

## Why it costs

Ids are rendered into the prompt. A client or a translating gateway that draws them anew loses
the cache from the first tool call on.

## Example

```json
{"role": "tool", "tool_call_id": "call_9f86d081", "content": "…"}
```

## Use instead

Send the id back as it came; where one must be made, number the calls.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
"#;
