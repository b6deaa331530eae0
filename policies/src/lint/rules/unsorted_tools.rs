//! Tools in another order.

use alloc::format;
use alloc::string::String;

use crate::lint::align::{Edit, tool_name};
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS020",
        name: "unsorted-tools",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the same tools come in another order",
        help: "sort the tools by name, or keep the order in which they were first sent",
        fix: Fix::ToolOrder,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let is_tool = |at: usize| {
        scene
            .segment(at)
            .is_some_and(|segment| segment.tier == Tier::Tools)
    };
    let first = scene.first_difference();
    report.claim_edits(
        |edit| matches!(edit, Edit::Moved { .. }) && is_tool(edit.place()),
        |_, moved| {
            let name = tool_name(scene.text(first)).unwrap_or_default();
            let name = String::from_utf8_lossy(&name).replace('"', "");
            format!(
                "{} moved; {} stands first of those out of place",
                counted(moved),
                quoted(&name)
            )
        },
    );
    report.point_to(first);
}

fn counted(moved: u32) -> String {
    if moved == 1 {
        String::from("one tool")
    } else {
        format!("{moved} tools")
    }
}

const DOCS: &str = "## What it does

Finds that two requests have the same tools in another order.

## Why it costs

Tools come first in the prompt, so not a byte of it is reused.

## Example

Tool servers are asked in parallel, and their tools are listed as they answer.

## Use instead

Sort by name before sending. `--fix` and the route repair `sort_tools` do it.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching: a change of tools invalidates the whole cache.
";
