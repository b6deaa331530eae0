//! Tool results as user messages.

use alloc::string::String;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Kind;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS060",
        name: "tool-result-as-user",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a tool call is answered by a user message",
        help: "send results as the vendor wants them: role `tool`, or a `tool_result` block",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let segments = &scene.prompt.segments;
    let from = scene.turn.known.saturating_sub(1);
    let pairs = segments
        .iter()
        .zip(segments.iter().skip(1))
        .enumerate()
        .skip(from);
    for (at, (call, answer)) in pairs {
        let calls = match call.kind {
            Kind::ToolCall => true,
            Kind::Assistant => has_calls(call.text(scene.prompt.body)),
            _ => false,
        };
        if calls && answer.kind == Kind::User && call.address.list == answer.address.list {
            report.add(
                at + 1,
                String::from("the call before it has no result; a message of the user follows"),
            );
            return;
        }
    }
}

/// `"tool_calls":[{`, spaces allowed.
fn has_calls(text: &[u8]) -> bool {
    const NAME: &[u8] = b"\"tool_calls\"";
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
        rest = rest.get(at..).unwrap_or_default();
        if let Some(value) = rest.strip_prefix(NAME) {
            let value = value
                .trim_ascii_start()
                .strip_prefix(b":")
                .unwrap_or_default()
                .trim_ascii_start();
            return value
                .strip_prefix(b"[")
                .is_some_and(|list| list.trim_ascii_start().starts_with(b"{"));
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

const DOCS: &str = r#"## What it does

Finds a tool call that is followed by a message of the user instead of the tool's result.

## Why it costs

Most vendors refuse it. Those that accept it count each such message as a position of its own,
so marks lose sight of what is cached sooner, and reasoning bound to the call is dropped.

## Example

```json
[{"role": "assistant", "tool_calls": […]}, {"role": "user", "content": "Result: …"}]
```

## Use instead

```json
[{"role": "assistant", "tool_calls": […]}, {"role": "tool", "tool_call_id": "…", "content": "…"}]
```

## Known problems

Text protocols without tool calls are no finding.

## Options

None.

## References

Anthropic, prompt caching: a run of tool results counts as one position.
"#;
