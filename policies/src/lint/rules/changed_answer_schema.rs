//! Answer schemas that change.

use alloc::string::String;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Kind;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS032",
        name: "changed-answer-schema",
        family: Family::Serialisation,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the schema of the answer changes within a conversation",
        help: "keep one schema for the conversation; ask for special forms in a message",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(
        |edit| match edit {
            Edit::Removed { old, .. } => scene
                .known(*old)
                .is_some_and(|known| known.kind == Kind::Schema),
            Edit::Inserted { .. } | Edit::Moved { .. } | Edit::Replaced { .. } => {
                scene.kind(edit.place()) == Kind::Schema
            }
        },
        |_, _| String::from("the schema of the answer is not the one of the request before"),
    );
}

const DOCS: &str = "## What it does

Finds that `response_format` (or `text.format`) differs from the request before.

## Why it costs

The schema is rendered in front of the conversation, so nothing after it is reused.

## Example

Free text while the agent works, a JSON schema for the last step.

## Use instead

Let a tool take the final answer, so that its schema is there from the start.

## Known problems

None known.

## Options

None.

## References

OpenAI, prompt caching: structured output schemas are part of the prefix.
";
