//! Lifetimes out of order.

use alloc::string::String;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::prompt::Mark;
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS064",
        name: "lifetime-order",
        family: Family::Layout,
        severity: Severity::Error,
        status: Status::Preview,
        summary: "a longer lifetime is marked after a shorter one",
        help: "put marks of the longer lifetime first",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    let scene = report.scene;
    let Entries::Marks { .. } = scene.call.caching.entries else {
        return;
    };
    let mut short_before = false;
    for (at, segment) in scene.prompt.segments.iter().enumerate() {
        match segment.mark {
            Some(Mark::Short) => short_before = true,
            Some(Mark::Long) if short_before => {
                report.add(
                    at,
                    String::from("this mark asks for a longer lifetime than one before it"),
                );
                return;
            }
            Some(Mark::Long) | None => {}
        }
    }
}

const DOCS: &str = "## What it does

Finds a mark of the long lifetime after one of the short.

## Why it costs

The vendor refuses the request.

## Example

Five minutes on the tools, one hour on the system prompt.

## Use instead

One hour on the tools and the system prompt, five minutes on messages.

## Known problems

None known.

## Options

None.

## References

Anthropic, prompt caching: longer lifetimes must come first.
";
