//! Prefixes below the vendor's minimum.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::vendor::Entries;
use crate::units::Tokens;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS065",
        name: "prefix-below-minimum",
        family: Family::Layout,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the marked prefix is too short to be cached",
        help: "move the mark to the end of a longer stable part",
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
    let minimum = scene.call.caching.minimum;
    let segments = &scene.prompt.segments;
    let Some(last_mark) = segments.iter().rposition(|segment| segment.mark.is_some()) else {
        return;
    };
    if scene.prompt.automatic_mark || scene.turn.prompt_tokens == Tokens::ZERO {
        return;
    }
    let marked = scene.tokens_of(last_mark + 1);
    if marked >= minimum {
        return;
    }
    let message = format!("about {marked} tokens end here; {minimum} is the least that is cached");
    if scene.previous.is_some() && scene.turn.known_tokens.0 >= minimum.0 * 2 {
        report.add(last_mark, message);
        report.lost(scene.turn.known_tokens);
    } else if scene.turn.prompt_tokens.0 >= minimum.0 * 2 {
        report.add(last_mark, message);
        report.severity(Severity::Advice);
    }
}

const DOCS: &str = "## What it does

Finds that every mark ends a prefix shorter than the vendor's minimum, while the request is
long.

## Why it costs

Such marks are silently without effect: nothing is cached.

## Example

A mark on a system prompt of 300 tokens, none on the messages.

## Use instead

Mark the last message.

## Known problems

Tokens are estimated until the vendor has counted a request.

## Options

None.

## References

Anthropic, prompt caching: minimum cacheable length, by model.
";
