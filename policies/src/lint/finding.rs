//! What the linter says: where, why, what it cost, and what to do.

use alloc::string::String;

use serde::Serialize;

use super::prompt::Address;
use crate::units::{Money, Tokens};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Likely to cost something, or worth knowing. Not shown as a finding by default.
    Advice,
    /// It cost something, or is sure to.
    Warning,
    /// The vendor will refuse it, or the cache cannot work at all.
    Error,
}

impl Severity {
    /// As printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// How settled a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// May still change.
    Preview,
    /// Its code and meaning stay.
    Stable,
}

/// The five families of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Text that changes from request to request stands in the prefix.
    Volatile,
    /// The same content, in another order or spelling.
    Serialisation,
    /// What was sent before is sent otherwise.
    History,
    /// Stable and changing parts, and cache marks, in the wrong places.
    Layout,
    /// Requests of one conversation go to different caches.
    Fleet,
}

/// Whether `--fix` can mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fix {
    /// Only a person can.
    Advice,
    /// Members of tool schemas in a fixed order.
    KeyOrder,
    /// Cache marks placed.
    Marks,
    /// Tools in a fixed order.
    ToolOrder,
}

/// What is known of a rule without running it.
#[derive(Debug, PartialEq, Eq)]
pub struct Meta {
    /// `PS001`; never reused.
    pub code: &'static str,
    /// `volatile-timestamp`; reads as "allow volatile-timestamp".
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// How much a finding of it matters, unless circumstances lower it.
    pub severity: Severity,
    /// How settled it is.
    pub status: Status,
    /// In one sentence without a full stop.
    pub summary: &'static str,
    /// What to do, in one sentence without a full stop.
    pub help: &'static str,
    /// Whether it can be mended by the program.
    pub fix: Fix,
    /// Its page: sections under the fixed headings, in Markdown.
    pub docs: &'static str,
}

/// Between which requests something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Conversations that begin alike.
    Across,
    /// One request by itself.
    Alone,
    /// Two requests of one conversation, or all of them.
    Conversation,
}

/// A text, cut to the neighbourhood of what matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Secrets masked, line ends shown as `⏎`.
    pub text: String,
    /// The first character that matters, counted in characters.
    pub from: usize,
    /// The character after the last one.
    pub to: usize,
}

/// Where a finding points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spot {
    /// The segment.
    #[serde(skip)]
    pub address: Option<Address>,
    /// From the body's root: `messages[0].content`.
    pub path: String,
    /// The byte within what stands there, a string's escapes read, where it is known.
    pub offset: Option<usize>,
    /// Bytes of the body.
    pub from: usize,
    /// The byte after them.
    pub to: usize,
}

/// One thing found in one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule.
    #[serde(serialize_with = "code")]
    pub rule: &'static Meta,
    /// May be lower than the rule's.
    pub severity: Severity,
    /// Between which requests it was seen.
    pub scope: Scope,
    /// The request, by the caller's number.
    pub request: u64,
    /// The request that it was compared with.
    pub previous: Option<u64>,
    /// Where.
    pub spot: Spot,
    /// In how many places of this request.
    pub places: u32,
    /// What stood there before, when it is known.
    pub before: Option<Window>,
    /// What stands there now.
    pub after: Option<Window>,
    /// What was seen, in one sentence without a full stop.
    pub message: String,
    /// Tokens that the cache could have read and did not, by estimate.
    pub lost_tokens: Tokens,
    /// What they cost beyond a cache read, where the model's price is known.
    pub lost: Option<Money>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn code<S: serde::Serializer>(meta: &&'static Meta, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(meta.code)
}

impl Finding {
    /// What makes two findings one cause: the rule and the place, numbers of messages aside.
    pub fn cause(&self) -> (&'static str, String) {
        let stable = |c: char| if c.is_ascii_digit() { '#' } else { c };
        let path: String = match self.spot.address.map(|address| address.list) {
            Some(
                super::prompt::List::Messages
                | super::prompt::List::Input
                | super::prompt::List::Contents,
            ) => self.spot.path.chars().map(stable).collect(),
            _ => self.spot.path.clone(),
        };
        (self.rule.code, path)
    }
}

/// Findings in the order of the prompt, the gravest first where they point to one place.
pub(crate) fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        (a.spot.from, core::cmp::Reverse(a.severity), a.rule.code).cmp(&(
            b.spot.from,
            core::cmp::Reverse(b.severity),
            b.rule.code,
        ))
    });
}
