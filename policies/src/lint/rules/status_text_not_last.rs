//! Status text before stable messages.

use alloc::string::String;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::json;
use crate::lint::prompt::{Kind, Tier};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Scene;
use crate::lint::words;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS070",
        name: "status-text-not-last",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a status text stands before messages that stay",
        help: "put the status at the very end, and leave it out of what is kept",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    report.claim_edits(|edit| match edit {
            Edit::Replaced { old, new } => says(scene.kind(*new)) && follows_a_message(scene, *new) && alike(scene, *old, *new),
            Edit::Removed { old, .. } => {
                scene.known(*old).is_some_and(|known| says(known.kind) && known.tier == Tier::Messages)
                    && appended(scene).any(|new| says(scene.kind(new)) && alike(scene, *old, new))
            }
            Edit::Inserted { .. } | Edit::Moved { .. } => false,
        }, |_, _| String::from("a text that tells the present state is written anew, and stable messages follow it"));
}

fn says(kind: Kind) -> bool {
    matches!(kind, Kind::User | Kind::System)
}

/// The first message tells the task, whatever it begins with.
fn follows_a_message(scene: &Scene<'_>, at: usize) -> bool {
    in_messages(scene, at)
        && at
            .checked_sub(1)
            .is_some_and(|before| in_messages(scene, before))
}

fn in_messages(scene: &Scene<'_>, at: usize) -> bool {
    scene
        .segment(at)
        .is_some_and(|segment| segment.tier == Tier::Messages)
}

/// Segments of the new request that the old one had not.
fn appended<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = usize> + 's {
    let shared = scene.alignment.last_shared;
    let inserted = scene.alignment.edits.iter().filter_map(|edit| match edit {
        Edit::Inserted { new } => Some(*new),
        Edit::Moved { .. } | Edit::Removed { .. } | Edit::Replaced { .. } => None,
    });
    inserted.chain(shared..scene.prompt.segments.len())
}

/// Whether two messages are states of one status: they begin with the same words (a heading, a tag),
/// go on with others, and no message that stays begins so.
fn alike(scene: &Scene<'_>, old: usize, new: usize) -> bool {
    const HEADING: usize = 8;
    let Some(before) = scene.old_text(old).and_then(content) else {
        return false;
    };
    let Some(after) = content(scene.text(new)) else {
        return false;
    };
    let heading = words::common_prefix(before.as_bytes(), after.as_bytes());
    let shorter = before.len().min(after.len());
    if heading < HEADING || heading * 5 > shorter * 4 {
        return false;
    }
    let heading = after.as_bytes().get(..HEADING).unwrap_or_default();
    let others =
        (0..scene.alignment.last_shared).filter(|at| *at != new && in_messages(scene, *at));
    let begins_so =
        |text: Option<String>| text.is_some_and(|text| text.as_bytes().starts_with(heading));
    !others.map(|at| content(scene.text(at))).any(begins_so)
}

fn content(text: &[u8]) -> Option<String> {
    let root = json::parse(text)?;
    let said = root
        .member(text, "content")
        .or_else(|| root.member(text, "text"))?;
    said.string(text).map(alloc::borrow::Cow::into_owned)
}

const DOCS: &str = "## What it does

Finds a message of the harness (a plan, a list of open files, a reminder) that is rewritten or
moved at each request while messages after it stay.

## Why it costs

The prefix ends at the status text, and all that follows is read at the full price.

## Example

A to-do list kept as the second message and rewritten after each step.

## Use instead

Append it as the last message of the request, and do not keep it in the history.

## Known problems

A status at the very end is no finding.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
