//! Names of users and tenants in the prefix.

use alloc::format;
use core::ops::Range;

use crate::lint::finding::Scope;
use crate::lint::finding::{Family, Fix, Meta, Severity, Status};
use crate::lint::registry::Rule;
use crate::lint::report::Report;
use crate::lint::scene::Sight;
use crate::lint::shape::token::widen;
use crate::lint::window::quoted;

pub(crate) const RULE: Rule = Rule {
    meta: Meta {
        code: "PS011",
        name: "user-name",
        family: Family::Volatile,
        severity: Severity::Warning,
        status: Status::Preview,
        summary: "the name of a user or tenant stands in the prefix and changes",
        help: "move names to the first message, after the part that all users share",
        fix: Fix::Advice,
        docs: DOCS,
    },
    check,
};

fn check(report: &mut Report<'_, '_>) {
    report.claim_hunks(recognise, |sight| {
        format!(
            "the name {} became {}",
            quoted(sight.was()),
            quoted(sight.is())
        )
    });
}

const WORDS: [&str; 28] = [
    "user",
    "username",
    "user_name",
    "name",
    "customer",
    "tenant",
    "account",
    "organization",
    "organisation",
    "company",
    "member",
    "client",
    "workspace",
    "operator",
    "employee",
    "owner",
    "用户",
    "姓名",
    "客户",
    "租户",
    "公司",
    "nutzer",
    "kunde",
    "usuario",
    "cliente",
    "utilisateur",
    "on behalf of",
    "you help",
];

/// Words after which a name follows.
const LEADS: [&str; 14] = [
    "is", "of", "for", "help", "named", "called", "user", "customer", "tenant", "client",
    "account", "dear", "with", "company",
];

fn recognise(sight: &Sight<'_>) -> bool {
    let short = |text: &str| !text.is_empty() && text.len() <= 64 && !text.contains(['\n', '_']);
    if !short(sight.is()) || !short(sight.was()) {
        return false;
    }
    let across = || sight.scope == Scope::Across && proper(sight.is()) && proper(sight.was());
    sight.both(mail).is_some()
        || (names(sight.is())
            && names(sight.was())
            && (across() || (introduced(sight) && sight.is_called(&WORDS))))
}

/// Whether the place is one where a value stands: after a colon, a quote, or a word that leads to a
/// name.
fn introduced(sight: &Sight<'_>) -> bool {
    let before = sight
        .after
        .get(..sight.hunk.after.start)
        .unwrap_or_default()
        .trim_end();
    let lead = before
        .rsplit(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    before.ends_with([
        ':', '：', '=', '"', '\'', '<', '>', '(', '[', '@', '#', '为', '是',
    ]) || LEADS.iter().any(|word| lead.eq_ignore_ascii_case(word))
}

fn mail<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    let range = widen(text, place, |c| {
        c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '@')
    });
    let token = text.get(range)?;
    let (name, domain) = token.split_once('@')?;
    (!name.is_empty() && domain.contains('.')).then_some(token)
}

/// Letters more than digits: a name, not a number or an id.
fn names(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    letters * 2 > text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Words that begin with capitals, or characters without case.
fn proper(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    words.peek().is_some()
        && words.all(|word| {
            word.chars()
                .next()
                .is_some_and(|c| c.is_uppercase() || (c.is_alphabetic() && !c.is_lowercase()))
        })
}

const DOCS: &str = "## What it does

Finds a name or a mail address of a user, a customer or a tenant in which requests differ, above
all between conversations that begin alike.

## Why it costs

Within one conversation a name breaks nothing, but no two users share a prefix: each
conversation begins cold.

## Example

```text
system: You help Mira Okafor of Nordwind Ltd. …(3,000 tokens that are the same for all)
```

## Use instead

```text
system: …(3,000 tokens that are the same for all)
user: I am Mira Okafor of Nordwind Ltd. …
```

## Known problems

It takes three conversations to see it.

## Options

None.

## References

Anthropic and OpenAI, prompt caching guides (read November 2026): a prefix is reused while it is
byte-identical.
";
