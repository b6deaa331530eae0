//! Git state in the prefix.

use alloc::format;

use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::token::{label, mentions, surroundings};
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS008",
        name: "git-state",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the state of a repository stands in the prefix and changes",
        help: "tell the state in a message when it changes, or let the model ask for it with a tool",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        format!(
            "the repository state {} became {}",
            quoted(sight.was()),
            quoted(sight.is())
        )
    });
}

const NEAR: [&str; 11] = [
    "git",
    "branch",
    "commit",
    "head",
    "working tree",
    "staged",
    "unstaged",
    "untracked",
    "git status",
    "分支",
    "提交",
];

fn recognise(sight: &Sight<'_>) -> bool {
    let small = sight.is().len() <= 400 && sight.was().len() <= 400;
    let near = label(sight.after, &sight.hunk.after);
    let status_line = |text: &str| {
        text.lines().any(|line| {
            [" M ", "M  ", "?? ", "A  ", "D  ", " D "]
                .iter()
                .any(|mark| line.starts_with(mark))
        })
    };
    small
        && (mentions(near, &NEAR)
            || ((status_line(sight.is()) || status_line(sight.was()))
                && mentions(surroundings(sight.after, &sight.hunk.after), &NEAR)))
}

const DOCS: &str = "## What it does

Finds a branch, a commit or a list of changed files in which two requests differ.

## Why it costs

An agent that edits files changes it at every step, and everything after it is read at the full
price.

## Example

```text
system: Current branch: main
Status:
 M src/lib.rs
```

## Use instead

Take the snapshot when the conversation begins, say so, and keep it.

## Known problems

None known.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
