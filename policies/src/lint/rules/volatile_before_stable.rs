//! Changing parts before stable ones.

use alloc::string::String;

use crate::lint::align::Edit;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Tier;
use crate::lint::registry::Rule;
use crate::lint::report::Report;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS061",
        name: "volatile-before-stable",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "a part that changes stands before parts that stay",
        help: "put the part that changes last: stable first, changing last",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let often = scene.habits.restless.is_some_and(|(_, times)| times >= 2);
    let followed = scene.first_difference() + 1 < scene.prompt.segments.len();
    let head = often && followed;
    report.claim_edits(
        |edit| {
            matches!(edit, Edit::Replaced { .. } | Edit::Inserted { .. })
                && head
                && scene
                    .segment(edit.place())
                    .is_some_and(|segment| segment.tier == Tier::System)
        },
        |_, _| String::from("this part changes at every request, and stable parts follow it"),
    );
}

const DOCS: &str = "## What it does

Finds a whole part of the system prompt that is another at every request, the third in a row,
while parts after it stay.

## Why it costs

Nothing after the first changing part is ever reused.

## Example

System blocks: retrieved notes, then three thousand tokens of instructions.

## Use instead

Instructions first, notes last, or in the newest message.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
