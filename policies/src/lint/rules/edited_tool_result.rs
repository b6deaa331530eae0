//! Tool results changed afterwards.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Kind;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS045",
        name: "edited-tool-result",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a tool's result is changed after it was sent",
        help: "cut results to size before they are first sent, and leave them then",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| {
            matches!(edit, Edit::Replaced { .. }) && scene.kind(edit.place()) == Kind::ToolResult
        },
        |_, count| format!("{count} tool results read otherwise than when they were sent"),
    );
}

const DOCS: &str = "## What it does

Finds a tool's result that reads otherwise than in the request before.

## Why it costs

Everything after it is read at the full price. Replacing older results by a placeholder, one at
each turn, does it at every request.

## Example

```text
(old output omitted)
```

## Use instead

Cut a result before it is first sent. Clear many old ones at once, rarely.

## Known problems

Three or more results shortened at once count as one compaction.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
