//! A prompt as the vendor's cache sees it: an ordered run of segments.
//!
//! Vendors render tools first, then the system prompt, then the messages, and reuse the longest
//! prefix they know. A [`Segment`] is the smallest part that such a prefix is worth cutting at: one
//! tool, one block of the system prompt, one message or, where contents come in blocks, one block.
//! It notes where it lies in the body and a fingerprint; the text stays where it is.
//!
//! Cache marks are no part of a segment's fingerprint: they move from turn to turn, and the vendor
//! does not render them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::ops::Range;

use super::fingerprint::{Fingerprint, Fingerprinter};
use super::vendor::Caching;
use crate::cost::PriceCard;

/// The part of the prompt that a segment belongs to, in the order in which vendors render them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Tool definitions and the schema of the answer.
    Tools,
    /// The system prompt, and system messages at the start of the conversation.
    System,
    /// The conversation.
    Messages,
}

/// What a segment says, and who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The model.
    Assistant,
    /// A picture.
    Image,
    /// None of the others.
    Other,
    /// The schema of the answer.
    Schema,
    /// The operator.
    System,
    /// The model's reasoning.
    Thinking,
    /// A tool's definition.
    Tool,
    /// The model calls a tool.
    ToolCall,
    /// A tool's answer.
    ToolResult,
    /// The person, or the harness in their name.
    User,
}

/// The field of the body that holds a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `contents` (Gemini).
    Contents,
    /// `input` (Responses).
    Input,
    /// `instructions` (Responses).
    Instructions,
    /// `messages`.
    Messages,
    /// `response_format` or `text`.
    ResponseFormat,
    /// `system`.
    System,
    /// `systemInstruction` (Gemini).
    SystemInstruction,
    /// `toolConfig` (Bedrock).
    ToolConfig,
    /// `tools`.
    Tools,
}

impl List {
    /// The field's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contents => "contents",
            Self::Input => "input",
            Self::Instructions => "instructions",
            Self::Messages => "messages",
            Self::ResponseFormat => "response_format",
            Self::System => "system",
            Self::SystemInstruction => "systemInstruction",
            Self::ToolConfig => "toolConfig.tools",
            Self::Tools => "tools",
        }
    }
}

/// Where a segment stands: `messages[4].content[1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The field.
    pub list: List,
    /// Which element of it, from 0; `None` where the field is no list.
    pub item: Option<u32>,
    /// Which block of that element's content, from 0; `None` where the whole element is meant.
    pub block: Option<u32>,
}

impl Address {
    /// As a path into the body.
    pub fn path(&self) -> String {
        let mut path = String::from(self.list.as_str());
        if let Some(item) = self.item {
            // Writing to a string cannot fail.
            let _ = write!(path, "[{item}]");
        }
        if let Some(block) = self.block {
            let content = if self.list == List::Contents {
                "parts"
            } else {
                "content"
            };
            let _ = write!(path, ".{content}[{block}]");
        }
        path
    }
}

/// A cache mark on a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Kept for the vendor's short lifetime.
    Short,
    /// Kept for the vendor's long lifetime.
    Long,
}

/// One part of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which part of the prompt.
    pub tier: Tier,
    /// What it says.
    pub kind: Kind,
    /// Where it stands.
    pub address: Address,
    /// The first byte of it in the body.
    pub start: u32,
    /// The byte after its last one.
    pub end: u32,
    /// The fingerprint of its text, marks left out.
    pub own: Fingerprint,
    /// The fingerprint of everything up to its end.
    pub chain: Fingerprint,
    /// The cache mark on it.
    pub mark: Option<Mark>,
}

impl Segment {
    /// Its bytes in the body.
    pub const fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Its length in bytes.
    pub const fn bytes(&self) -> u64 {
        (self.end as u64).saturating_sub(self.start as u64)
    }

    /// Its text, as written in `body`.
    pub fn text<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        body.get(self.span()).unwrap_or_default()
    }
}

/// One request, cut into the segments of its prompt.
#[derive(Clone, Debug, Default)]
pub struct Prompt<'a> {
    /// The body that the segments point into.
    pub body: &'a [u8],
    /// In the vendor's order.
    pub segments: Vec<Segment>,
    /// `prompt_cache_key`, fingerprinted.
    pub cache_key: Option<Fingerprint>,
    /// Reasoning effort or thinking configuration, fingerprinted.
    pub effort: Option<Fingerprint>,
    /// `tool_choice`, fingerprinted.
    pub tool_choice: Option<Fingerprint>,
    /// Cache marks in the whole body, the automatic top-level one included.
    pub marks: u32,
    /// A cache mark at top level: the vendor marks the last block itself.
    pub automatic_mark: bool,
}

/// Appends segments and keeps the chain; codecs use it to build a [`Prompt`].
#[derive(Debug)]
pub struct Chain<'k> {
    print: &'k Fingerprinter,
    last: Fingerprint,
    segments: Vec<Segment>,
}

impl<'k> Chain<'k> {
    /// A chain for `model`: caches of two models share nothing.
    pub fn new(print: &'k Fingerprinter, model: &str) -> Self {
        Self {
            print,
            last: print.of(u8::MAX, model.as_bytes()),
            segments: Vec::with_capacity(128),
        }
    }

    /// The next segment: its place in the body, and its text without cache marks.
    #[inline]
    pub fn push(
        &mut self,
        (tier, kind, address): (Tier, Kind, Address),
        span: Range<usize>,
        text: &[u8],
        mark: Option<Mark>,
    ) {
        let own = self.print.of(tier as u8, text);
        self.push_known((tier, kind, address), span, own, mark);
    }

    /// The next segment, whose fingerprint is known.
    #[inline]
    pub fn push_known(
        &mut self,
        (tier, kind, address): (Tier, Kind, Address),
        span: Range<usize>,
        own: Fingerprint,
        mark: Option<Mark>,
    ) {
        self.last = self.print.follow(self.last, own);
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        self.segments.push(Segment {
            tier,
            kind,
            address,
            start: narrow(span.start),
            end: narrow(span.end),
            own,
            chain: self.last,
            mark,
        });
    }

    /// Marks the segment pushed last.
    pub fn mark(&mut self, mark: Mark) {
        if let Some(last) = self.segments.last_mut() {
            last.mark = Some(mark);
        }
    }

    /// The segments pushed so far.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// What makes the fingerprints.
    pub const fn print(&self) -> &'k Fingerprinter {
        self.print
    }

    /// How many segments were pushed so far.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// All segments, in order.
    pub fn finish(self) -> Vec<Segment> {
        self.segments
    }
}

impl Prompt<'_> {
    /// The bytes of the first `count` segments.
    pub fn bytes_of(&self, count: usize) -> u64 {
        self.segments.iter().take(count).map(Segment::bytes).sum()
    }
}

/// What the caller knows of a request beside its prompt.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// A number by which the caller knows the request again: findings name it and its predecessor.
    pub number: u64,
    /// The model asked for.
    pub model: &'a str,
    /// How its vendor caches.
    pub caching: &'a Caching,
    /// What the model costs; without it findings carry tokens only.
    pub card: Option<&'a PriceCard>,
    /// The agent run, where a session id is known; it only helps.
    pub task: Option<Fingerprint>,
    /// The vendor's key, deployment and region that the request goes to, where known.
    pub place: Place,
}

/// Where a request was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The credential, fingerprinted.
    pub key: Option<Fingerprint>,
    /// The region or deployment, fingerprinted.
    pub region: Option<Fingerprint>,
    /// A stand-in, not the route's first choice.
    pub fallback: bool,
}
