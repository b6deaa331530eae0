//! The prompt of a request body, cut as the vendor's cache sees it.
//!
//! [`read`] walks the tools, the system prompt and the messages of an [`Envelope`], in the order in
//! which vendors render them, and fingerprints each part where it lies: nothing is copied but the
//! few parts that carry a cache mark, which is left out of the fingerprint because it moves.
//!
//! One spelling stands for what vendors treat as one: a message whose content is a list of a single
//! text block has the fingerprint of the same text as a plain string, because harnesses turn one into
//! the other when they move a mark. Claude Code's attribution block, which changes from request to
//! request and which Anthropic leaves out itself, is left out too.

mod blocks;
mod marks;
mod memo;
mod repair;

pub use self::memo::Memo;
use self::memo::Piece;
pub use self::repair::{Repairs, repair};
use bytes::Bytes;
use whippletree_policies::lint::{Address, Chain, Fingerprinter, Kind, List, Mark, Prompt, Tier};

use crate::envelope::{Envelope, Span};

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Chat completions.
    Chat,
    /// Bedrock's Converse.
    Converse,
    /// Gemini's `generateContent`.
    Gemini,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's responses.
    Responses,
}

impl Form {
    /// The form of a body that came without its path.
    pub fn of(envelope: &Envelope) -> Self {
        let has = |name: &str| envelope.field(name).is_some();
        if has("contents") {
            return Self::Gemini;
        }
        if has("input") && !has("messages") {
            return Self::Responses;
        }
        if has("inferenceConfig") || has("toolConfig") {
            return Self::Converse;
        }
        let anthropic = has("system")
            || has("anthropic_version")
            || has("thinking")
            || has("stop_sequences")
            || blocks::tools_have_input_schema(envelope)
            || envelope
                .model()
                .is_some_and(|model| model.starts_with("claude"));
        if anthropic {
            Self::Messages
        } else {
            Self::Chat
        }
    }
}

/// Cuts a body into the segments of its prompt. `model` is the one that will answer: the chains of
/// two models share nothing.
pub fn read<'a>(
    envelope: &'a Envelope,
    form: Form,
    model: &str,
    print: &Fingerprinter,
) -> Prompt<'a> {
    cut(envelope, form, model, print, None)
}

/// The same as [`read`], with a memory of the messages that were cut before.
pub fn read_again<'a>(
    envelope: &'a Envelope,
    form: Form,
    model: &str,
    print: &Fingerprinter,
    memo: &mut Memo,
) -> Prompt<'a> {
    cut(envelope, form, model, print, Some(memo))
}

fn cut<'a>(
    envelope: &'a Envelope,
    form: Form,
    model: &str,
    print: &Fingerprinter,
    memo: Option<&mut Memo>,
) -> Prompt<'a> {
    let mut reader = Reader {
        envelope,
        body: envelope.body(),
        form,
        chain: Chain::new(print, model),
        scratch: Vec::new(),
        marks: 0,
        memo,
    };
    reader.tools();
    reader.system();
    reader.messages();
    let tag = |name: &str| {
        let value = envelope.field(name)?.value.of(envelope.body());
        (value != b"null").then(|| print.of(0, value))
    };
    let automatic_mark = tag("cache_control").is_some();
    let effort = ["reasoning_effort", "reasoning", "thinking", "output_config"]
        .into_iter()
        .filter_map(tag)
        .reduce(|before, next| print.follow(before, next));
    Prompt {
        body: envelope.body(),
        marks: reader.marks + u32::from(automatic_mark),
        segments: reader.chain.finish(),
        cache_key: tag("prompt_cache_key"),
        effort,
        tool_choice: tag("tool_choice"),
        automatic_mark,
    }
}

struct Reader<'a, 'k> {
    envelope: &'a Envelope,
    body: &'a Bytes,
    form: Form,
    chain: Chain<'k>,
    scratch: Vec<u8>,
    marks: u32,
    memo: Option<&'k mut Memo>,
}

impl Reader<'_, '_> {
    fn tools(&mut self) {
        self.list("tools", List::Tools, Tier::Tools, Kind::Tool);
        if let Some(config) = self.envelope.field("toolConfig") {
            let tools = self.member(config.value, "tools");
            let elements = tools.map(|tools| self.envelope.elements(tools));
            for (item, span) in numbered(&elements.unwrap_or_default()) {
                self.whole((Tier::Tools, Kind::Tool, at(List::ToolConfig, item)), span);
            }
        }
        for name in ["response_format", "text"] {
            self.single(name, List::ResponseFormat, (Tier::Tools, Kind::Schema));
        }
    }

    fn system(&mut self) {
        self.list("system", List::System, Tier::System, Kind::System);
        self.single(
            "instructions",
            List::Instructions,
            (Tier::System, Kind::System),
        );
        for name in ["systemInstruction", "system_instruction"] {
            self.single(name, List::SystemInstruction, (Tier::System, Kind::System));
        }
    }

    fn messages(&mut self) {
        let lists = [
            ("messages", List::Messages),
            ("input", List::Input),
            ("contents", List::Contents),
        ];
        for (name, list) in lists {
            let Some(field) = self.envelope.field(name) else {
                continue;
            };
            let mut leading = true;
            let mut any = false;
            for (item, span) in numbered(self.envelope.items(name)) {
                any = true;
                leading = self.message(list, item, span, leading);
            }
            if !any && field.value.of(self.body).starts_with(b"\"") {
                let place = (Tier::Messages, Kind::User, whole(list));
                self.whole(place, field.value);
            }
        }
    }

    /// The elements of a top-level field, or its value where it is no list.
    fn list(&mut self, name: &str, list: List, tier: Tier, kind: Kind) {
        let items = self.envelope.items(name);
        if items.is_empty() {
            self.single(name, list, (tier, kind));
            return;
        }
        for (item, span) in numbered(items) {
            self.whole((tier, kind, at(list, item)), span);
        }
    }

    fn single(&mut self, name: &str, list: List, (tier, kind): (Tier, Kind)) {
        if let Some(field) = self.envelope.field(name) {
            let raw = field.value.of(self.body);
            if raw != b"null" && raw != b"[]" && !is_attribution(raw) {
                self.whole((tier, kind, whole(list)), field.value);
            }
        }
    }

    /// A part whose whole value is one segment.
    fn whole(&mut self, place: (Tier, Kind, Address), span: Span) {
        let raw = span.of(self.body);
        if is_attribution(raw) {
            return;
        }
        if !marks::possible(raw) {
            self.chain.push(place, span.range(), raw, None);
            return;
        }
        let mark = marks::strip(self.envelope, span, &mut self.scratch);
        if marks::is_point(&self.scratch) {
            self.mark(mark.unwrap_or(Mark::Short));
            return;
        }
        self.marks += u32::from(mark.is_some());
        self.chain.push(place, span.range(), &self.scratch, mark);
    }

    /// A mark that stands alone, after what it marks.
    fn mark(&mut self, mark: Mark) {
        self.marks += 1;
        self.chain.mark(mark);
    }

    fn member(&self, object: Span, name: &str) -> Option<Span> {
        self.envelope
            .members(object)
            .find(|member| self.envelope.name(member) == name)
            .map(|member| member.value)
    }
}

fn numbered(spans: &[Span]) -> impl Iterator<Item = (u32, Span)> + use<'_> {
    (0..).zip(spans.iter().copied())
}

const fn whole(list: List) -> Address {
    Address {
        list,
        item: None,
        block: None,
    }
}

const fn at(list: List, item: u32) -> Address {
    Address {
        list,
        item: Some(item),
        block: None,
    }
}

/// Claude Code's attribution line, as a block or as a string, and nothing else: a system prompt that
/// begins with it is still a prompt.
fn is_attribution(raw: &[u8]) -> bool {
    const NAME: &[u8] = b"x-anthropic-billing-header:";
    if raw.len() > 600 {
        return false;
    }
    let head = raw.get(..80).unwrap_or(raw);
    let named = head.windows(NAME.len()).position(|window| window == NAME);
    let breaks = || raw.windows(2).position(|pair| pair == b"\\n");
    named.is_some_and(|at| head.get(..at).is_some_and(|before| before.ends_with(b"\"")))
        && breaks().is_none_or(|at| at + 8 > raw.len())
}

#[cfg(test)]
mod tests;
