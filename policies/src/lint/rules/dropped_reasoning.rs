//! Reasoning dropped or changed.

use alloc::format;

use crate::lint::align::Edit;
use crate::lint::difference::Nature;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::{Kind, Tier};
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS043",
        name: "dropped-reasoning",
        family: Family::History,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "reasoning that was sent back before is left out",
        help: "send reasoning back as it came, or never",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_changes(
        |change, segment| {
            let path = change.difference.path.trim_start_matches('.');
            let names = [
                "reasoning_content",
                "reasoning",
                "reasoning_details",
                "thinking",
                "encrypted_content",
            ];
            segment.tier == Tier::Messages
                && change.difference.nature == Nature::Member
                && names.contains(&path)
        },
        |change| {
            format!(
                "`{}` is gone or new",
                change.difference.path.trim_start_matches('.')
            )
        },
    );
    let thinking = |edit: &Edit| match edit {
        Edit::Removed { old, .. } => scene
            .known(*old)
            .is_some_and(|known| known.kind == Kind::Thinking),
        Edit::Replaced { new, .. } => scene.kind(*new) == Kind::Thinking,
        Edit::Inserted { .. } | Edit::Moved { .. } => false,
    };
    report.claim_edits(thinking, |_, count| {
        format!("{count} parts of reasoning are gone or changed")
    });
}

const DOCS: &str = "## What it does

Finds that reasoning which an earlier request sent back is missing or changed in the next.

## Why it costs

It was part of the prefix. Anthropic also binds its signature to all that stood before, DeepSeek
and Kimi refuse tool calls without it.

## Example

Thinking blocks are kept for the last turn only.

## Use instead

Keep them all until the conversation ends or is compacted.

## Known problems

Reasoning that was never sent back is no finding.

## Options

None.

## References

Anthropic, extended thinking; DeepSeek, thinking mode; z.ai, preserved thinking.
";
