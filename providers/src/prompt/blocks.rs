//! Messages, and the blocks of their content.

use whippletree_policies::lint::{Address, Kind, List, Mark, Tier};

use super::{Form, Piece, Reader, at, is_attribution, marks, numbered};
use crate::envelope::{Envelope, Field, Span};

impl Reader<'_, '_> {
    /// One message; whether the system prompt may go on after it.
    pub(super) fn message(&mut self, list: List, item: u32, span: Span, leading: bool) -> bool {
        let raw = span.of(self.body);
        let head = Head::of(raw);
        let chat = matches!(self.form, Form::Chat | Form::Responses);
        let tail = || raw.get(raw.len().saturating_sub(64)..).unwrap_or_default();
        if chat && head.content == Content::Plain && !marks::possible(tail()) {
            let (tier, kind, leading) = tier(head.role, leading);
            self.chain
                .push((tier, kind, at(list, item)), span.range(), raw, None);
            return leading;
        }
        self.cut_before(list, item, span, leading)
    }

    /// A message whose blocks must be found, unless that was done before.
    fn cut_before(&mut self, list: List, item: u32, span: Span, leading: bool) -> bool {
        if self.memo.is_none() {
            return self.cut_message(list, item, span, leading);
        }
        // Whether the system prompt may go on is part of how a message is cut.
        let tag = 0x80 | list as u8 | u8::from(leading) << 4 | (self.form as u8) << 5;
        let message = self.chain.print().of(tag, span.of(self.body));
        let memo = self.memo.as_deref_mut();
        if let Some(pieces) = memo.and_then(|memo| memo.find(message)) {
            let mut still = leading;
            for piece in pieces {
                let address = Address {
                    list,
                    item: Some(item),
                    block: piece.block,
                };
                let place = span.start() + piece.start as usize..span.start() + piece.end as usize;
                self.marks += u32::from(piece.mark.is_some());
                self.chain.push_known(
                    (piece.tier, piece.kind, address),
                    place,
                    piece.own,
                    piece.mark,
                );
                still &= piece.tier == Tier::System;
            }
            return still;
        }
        let (first, marks) = (self.chain.len(), self.marks);
        let leading = self.cut_message(list, item, span, leading);
        let segments = self.chain.segments().get(first..).unwrap_or_default();
        let pieces: Box<[Piece]> = segments
            .iter()
            .map(|segment| Piece::of(segment, span.start()))
            .collect();
        let own_marks = pieces.iter().filter(|piece| piece.mark.is_some()).count();
        // A mark that stands alone may mark the message before; such a message is read each time.
        let told = u32::try_from(own_marks).is_ok_and(|own| own == self.marks - marks);
        if let Some(memo) = self
            .memo
            .as_deref_mut()
            .filter(|_| told && !pieces.is_empty())
        {
            memo.keep(message, pieces);
        }
        leading
    }

    fn cut_message(&mut self, list: List, item: u32, span: Span, leading: bool) -> bool {
        let head = Head::of(span.of(self.body));
        if let Content::List(offset) = head.content
            && list != List::Contents
        {
            let (tier, kind, leading) = tier(head.role, leading);
            let start = span.start() + offset;
            let blocks = self.envelope.elements(Span::new(start, span.end()));
            // From the end of the content, its bracket passed.
            let end = blocks.last().map_or(start + 1, |last| last.end());
            let end = end + after_bracket(self.body.get(end..span.end()).unwrap_or_default());
            if self
                .body
                .get(end..span.end())
                .is_some_and(says_only_the_role)
            {
                let content = Span::new(start, end);
                self.content((tier, kind, at(list, item)), span, content, &blocks);
                return leading;
            }
        }
        self.any_message(list, item, span, leading)
    }

    /// A message whose members come in an unusual order or number.
    fn any_message(&mut self, list: List, item: u32, span: Span, leading: bool) -> bool {
        let members: Vec<Field> = self.envelope.members(span).collect();
        let find = |name: &str| {
            members
                .iter()
                .find(|member| self.envelope.name(member) == name)
        };
        let role = find("role").or_else(|| find("type"));
        let role = role.map_or(&[][..], |role| inside(role.value.of(self.body)));
        let (tier, kind, leading) = tier(role, leading);
        let place = (tier, kind, at(list, item));
        let content = find("content").map(|content| content.value);
        match content {
            Some(content) if list != List::Contents && is_list(content.of(self.body)) => {
                let blocks = self.envelope.elements(content);
                self.content(place, span, content, &blocks);
                self.rest(place, &members, content);
            }
            Some(content) if self.form == Form::Messages => self.string(place, span, content),
            _ => self.whole(place, span),
        }
        leading
    }

    /// A content that is a list.
    fn content(
        &mut self,
        place: (Tier, Kind, Address),
        span: Span,
        content: Span,
        blocks: &[Span],
    ) {
        let chat = matches!(self.form, Form::Chat | Form::Responses);
        match blocks {
            [only] if chat && self.text_of(*only).is_some() => {
                self.as_string(place, span, content, *only);
            }
            blocks => {
                for (block, span) in numbered(blocks) {
                    self.block(place, block, span);
                }
            }
        }
    }

    /// A message of one text block, fingerprinted as if its content were the string.
    fn as_string(&mut self, place: (Tier, Kind, Address), span: Span, content: Span, block: Span) {
        let Some(text) = self.text_of(block) else {
            return;
        };
        let mark = marks::strip(self.envelope, span, &mut self.scratch);
        let body = self.body;
        // The message as it stands, then the list replaced by the string inside it.
        self.scratch.clear();
        self.scratch
            .extend_from_slice(body.get(span.start()..content.start()).unwrap_or_default());
        self.scratch.extend_from_slice(text.of(body));
        self.scratch
            .extend_from_slice(body.get(content.end()..span.end()).unwrap_or_default());
        self.marks += u32::from(mark.is_some());
        self.chain.push(place, span.range(), &self.scratch, mark);
    }

    /// A content that is a plain string, in the form whose contents are blocks: fingerprinted as
    /// the block that it stands for, spaced as the message is.
    fn string(&mut self, place: (Tier, Kind, Address), span: Span, text: Span) {
        let raw = span.of(self.body);
        let spaced = raw
            .get(..48)
            .unwrap_or(raw)
            .windows(2)
            .any(|pair| pair == b": ");
        let open: &[u8] = if spaced {
            b"{\"type\": \"text\", \"text\": "
        } else {
            b"{\"type\":\"text\",\"text\":"
        };
        let (_, kind, _) = place;
        self.scratch.clear();
        self.scratch.push(kind as u8);
        self.scratch.extend_from_slice(open);
        self.scratch.extend_from_slice(text.of(self.body));
        self.scratch.push(b'}');
        self.chain.push(place, span.range(), &self.scratch, None);
    }

    fn block(&mut self, (tier, role, address): (Tier, Kind, Address), block: u32, span: Span) {
        let raw = span.of(self.body);
        if is_attribution(raw) {
            return;
        }
        let address = Address {
            block: Some(block),
            ..address
        };
        let kind = block_kind(raw, role);
        let mut mark = None;
        self.scratch.clear();
        if marks::possible(raw) {
            mark = marks::strip(self.envelope, span, &mut self.scratch);
            if marks::is_point(&self.scratch) {
                self.mark(mark.unwrap_or(Mark::Short));
                return;
            }
            self.marks += u32::from(mark.is_some());
            self.scratch.insert(0, role as u8);
        } else {
            self.scratch.push(role as u8);
            self.scratch.extend_from_slice(raw);
        }
        self.chain
            .push((tier, kind, address), span.range(), &self.scratch, mark);
    }

    /// What a message says beside its role and content: tool calls, names, reasoning.
    fn rest(&mut self, place: (Tier, Kind, Address), members: &[Field], content: Span) {
        self.scratch.clear();
        let mut end = content.end();
        for member in members {
            let name = self.envelope.name(member);
            if matches!(
                &*name,
                "role" | "content" | "cache_control" | "id" | "type" | "status"
            ) {
                continue;
            }
            self.scratch.extend_from_slice(member.key.of(self.body));
            self.scratch.push(b':');
            self.scratch.extend_from_slice(member.value.of(self.body));
            end = end.max(member.value.end());
        }
        if !self.scratch.is_empty() {
            self.chain
                .push(place, content.end()..end, &self.scratch, None);
        }
    }

    /// The string of a block that is nothing but text, its mark aside.
    fn text_of(&self, block: Span) -> Option<Span> {
        let mut text = None;
        for member in self.envelope.members(block) {
            match &*self.envelope.name(&member) {
                "text" if member.value.of(self.body).starts_with(b"\"") => {
                    text = Some(member.value);
                }
                "type" => {
                    let kind = inside(member.value.of(self.body));
                    if !matches!(kind, b"text" | b"input_text" | b"output_text") {
                        return None;
                    }
                }
                "cache_control" | "prompt_cache_breakpoint" => {}
                _ => return None,
            }
        }
        text
    }
}

/// Who speaks, and whether the system prompt may go on.
fn tier(role: &[u8], leading: bool) -> (Tier, Kind, bool) {
    let kind = match role {
        b"system" | b"developer" => Kind::System,
        b"assistant" | b"model" => Kind::Assistant,
        b"tool" | b"function" | b"function_call_output" | b"custom_tool_call_output" => {
            Kind::ToolResult
        }
        b"function_call" | b"custom_tool_call" => Kind::ToolCall,
        b"reasoning" => Kind::Thinking,
        b"user" | b"message" => Kind::User,
        _ => Kind::Other,
    };
    if leading && kind == Kind::System {
        (Tier::System, kind, true)
    } else {
        (Tier::Messages, kind, false)
    }
}

pub(super) fn tools_have_input_schema(envelope: &Envelope) -> bool {
    let Some(first) = envelope.items("tools").first() else {
        return false;
    };
    envelope
        .members(*first)
        .any(|member| envelope.name(&member) == "input_schema")
}

/// What the first bytes of a message tell.
struct Head<'a> {
    role: &'a [u8],
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A list that begins at this offset.
    List(usize),
    /// A string or null.
    Plain,
    /// Not among the first members.
    Unknown,
}

impl<'a> Head<'a> {
    /// Reads short string members until the content.
    fn of(raw: &'a [u8]) -> Self {
        let mut head = Self {
            role: &[],
            content: Content::Unknown,
        };
        let mut rest = after(raw, b"{");
        while let Some(member) = rest {
            let Some((key, value)) =
                short_string(member).and_then(|(key, rest)| Some((key, after(rest, b":")?)))
            else {
                break;
            };
            if key == b"content" {
                if let Some(next) = value.strip_prefix(b"null") {
                    head.content = Content::Plain;
                    rest = after(next, b",");
                    continue;
                }
                if head.role.is_empty() {
                    head.role = member_at_end(raw, b"role");
                }
                // Without a role there is more to be read.
                if !head.role.is_empty() {
                    head.content = if is_list(value) {
                        Content::List(raw.len() - value.len())
                    } else {
                        Content::Plain
                    };
                }
                break;
            }
            let Some((text, next)) = short_string(value) else {
                break;
            };
            if key == b"role" || (key == b"type" && head.role.is_empty()) {
                head.role = text;
            }
            rest = after(next, b",");
        }
        if head.role.is_empty() {
            head.content = Content::Unknown;
        }
        head
    }
}

/// A member that stands among short strings at the end of an object. The text is valid JSON, so what
/// closes there are the object's own members.
fn member_at_end<'a>(raw: &'a [u8], name: &[u8]) -> &'a [u8] {
    let mut rest = raw.strip_suffix(b"}").unwrap_or_default().trim_ascii_end();
    while let Some((before, value)) = short_string_at_end(rest) {
        let Some((before, key)) = before
            .strip_suffix(b":")
            .and_then(|before| short_string_at_end(before.trim_ascii_end()))
        else {
            break;
        };
        if key == name {
            return value;
        }
        let Some(before) = before.strip_suffix(b",") else {
            break;
        };
        rest = before.trim_ascii_end();
    }
    &[]
}

/// What stands before a string of at most 96 bytes without escapes, and the string.
fn short_string_at_end(raw: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = raw.strip_suffix(b"\"")?;
    let from = inside.len().saturating_sub(96);
    let start = inside
        .get(from..)?
        .iter()
        .rposition(|byte| matches!(byte, b'"' | b'\\'))?
        + from;
    (inside.get(start) == Some(&b'"')).then_some(())?;
    Some((
        inside.get(..start)?.trim_ascii_end(),
        inside.get(start + 1..)?,
    ))
}

/// Whether a message ends here, or after its role.
fn says_only_the_role(rest: &[u8]) -> bool {
    let role = || {
        let (key, rest) = short_string(after(rest, b",")?)?;
        let (_, rest) = short_string(after(rest, b":")?)?;
        (key == b"role").then_some(rest)
    };
    role().unwrap_or(rest).trim_ascii() == b"}"
}

/// How many bytes to pass to get behind the next closing bracket.
fn after_bracket(raw: &[u8]) -> usize {
    raw.iter()
        .position(|byte| *byte == b']')
        .map_or(0, |at| at + 1)
}

/// A string of at most 96 bytes without escapes, and what follows it.
fn short_string(raw: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = raw.strip_prefix(b"\"")?;
    let end = rest
        .get(..96)
        .unwrap_or(rest)
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\'))?;
    (rest.get(end) == Some(&b'"')).then_some(())?;
    Some((rest.get(..end)?, rest.get(end + 1..)?.trim_ascii_start()))
}

/// What follows `token` and spaces, if that is next.
fn after<'a>(raw: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    raw.trim_ascii_start()
        .strip_prefix(token)
        .map(<[u8]>::trim_ascii_start)
}

fn is_list(raw: &[u8]) -> bool {
    raw.starts_with(b"[")
}

fn inside(raw: &[u8]) -> &[u8] {
    raw.strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .unwrap_or_default()
}

/// What a block says, by its type; text says what its message's role says.
fn block_kind(raw: &[u8], role: Kind) -> Kind {
    let mut rest = after(raw, b"{");
    while let Some((key, value)) = rest
        .and_then(short_string)
        .and_then(|(key, rest)| Some((key, after(rest, b":")?)))
    {
        if key == b"type" {
            let said = short_string(value).map_or(&[][..], |(text, _)| text);
            return kind_named(said).unwrap_or(role);
        }
        if let Some(kind) = kind_named(key).filter(|_| !value.starts_with(b"\"")) {
            return kind;
        }
        rest = short_string(value).and_then(|(_, next)| after(next, b","));
    }
    kind_named(member_at_end(raw, b"type")).unwrap_or(role)
}

fn kind_named(name: &[u8]) -> Option<Kind> {
    match name {
        b"tool_result" | b"toolResult" | b"functionResponse" => Some(Kind::ToolResult),
        b"tool_use" | b"toolUse" | b"functionCall" => Some(Kind::ToolCall),
        b"thinking" | b"redacted_thinking" | b"reasoningContent" | b"reasoning" => {
            Some(Kind::Thinking)
        }
        b"image" | b"image_url" | b"input_image" | b"inlineData" => Some(Kind::Image),
        _ => None,
    }
}
