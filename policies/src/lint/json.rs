//! Just enough JSON to say how two spellings of one value differ.
//!
//! Only text that a codec has already checked comes here, and only when two requests differ, so this
//! reader builds a small tree of spans. What it cannot read (text cut off, say) yields no tree, and
//! the caller falls back to comparing bytes.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

const MAX_DEPTH: u32 = 128;

/// A value and where it stands in its text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) shape: Shape,
    pub(crate) span: Range<usize>,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Array(Vec<Node>),
    /// `true`, `false` or `null`.
    Literal,
    Number,
    /// Keys by the span inside their quotes.
    Object(Vec<(Range<usize>, Node)>),
    /// The node's span includes the quotes.
    String,
}

impl Node {
    pub(crate) fn raw<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.span.clone()).unwrap_or_default()
    }

    /// The bytes between a string's quotes.
    pub(crate) fn inside(&self) -> Range<usize> {
        self.span.start + 1..self.span.end.saturating_sub(1).max(self.span.start + 1)
    }

    pub(crate) fn member<'n>(&'n self, text: &[u8], name: &str) -> Option<&'n Node> {
        let Shape::Object(members) = &self.shape else {
            return None;
        };
        members
            .iter()
            .find(|(key, _)| text.get(key.clone()) == Some(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// What a string says.
    pub(crate) fn string<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, str>> {
        matches!(self.shape, Shape::String)
            .then(|| decode(text.get(self.inside()).unwrap_or_default()))
    }
}

/// Reads one value that fills `text`, space around it aside.
pub(crate) fn parse(text: &[u8]) -> Option<Node> {
    let mut reader = Reader { text, at: 0 };
    reader.space();
    let node = reader.value(0)?;
    reader.space();
    (reader.at == text.len()).then_some(node)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    fn value(&mut self, depth: u32) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let start = self.at;
        let shape = match self.peek()? {
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => {
                self.string()?;
                Shape::String
            }
            b'-' | b'0'..=b'9' => {
                self.run(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                Shape::Number
            }
            b't' | b'f' | b'n' => {
                self.run(|byte| byte.is_ascii_lowercase());
                Shape::Literal
            }
            _ => return None,
        };
        Some(Node {
            shape,
            span: start..self.at,
        })
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Option<Range<usize>> {
        self.take(b'"').then_some(())?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(start..self.at - 1);
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    fn object(&mut self, depth: u32) -> Option<Shape> {
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        if self.take(b'}') {
            return Some(Shape::Object(members));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(b':').then_some(())?;
            self.space();
            members.push((key, self.value(depth + 1)?));
            self.space();
            if self.take(b'}') {
                return Some(Shape::Object(members));
            }
            self.take(b',').then_some(())?;
        }
    }

    fn array(&mut self, depth: u32) -> Option<Shape> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Some(Shape::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Some(Shape::Array(items));
            }
            self.take(b',').then_some(())?;
        }
    }
}

/// What the inside of a string says; a lone surrogate becomes U+FFFD.
pub(crate) fn decode(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\') {
        return String::from_utf8_lossy(raw);
    }
    let mut out = String::with_capacity(raw.len());
    walk(raw, |piece, _| match piece {
        Piece::Plain(text) => out.push_str(text),
        Piece::Escaped(character) => out.push(character),
    });
    Cow::Owned(out)
}

/// The offset in `raw` (the inside of a string) of the byte `offset` of what it says.
pub(crate) fn raw_offset(raw: &[u8], offset: usize) -> usize {
    let mut said = 0;
    let mut found = None;
    walk(raw, |piece, at| {
        let length = match piece {
            Piece::Plain(text) => text.len(),
            Piece::Escaped(character) => character.len_utf8(),
        };
        if found.is_none() && offset < said + length {
            found = Some(match piece {
                Piece::Plain(_) => at + (offset - said),
                Piece::Escaped(_) => at,
            });
        }
        said += length;
    });
    found.unwrap_or(raw.len())
}

enum Piece<'a> {
    Plain(&'a str),
    Escaped(char),
}

fn walk(raw: &[u8], mut visit: impl FnMut(Piece<'_>, usize)) {
    let mut at = 0;
    while let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) {
        let plain = rest
            .iter()
            .position(|byte| *byte == b'\\')
            .unwrap_or(rest.len());
        if plain > 0 {
            let text = rest.get(..plain).unwrap_or_default();
            for chunk in text.utf8_chunks() {
                visit(Piece::Plain(chunk.valid()), at);
                at += chunk.valid().len();
                if !chunk.invalid().is_empty() {
                    visit(Piece::Escaped(char::REPLACEMENT_CHARACTER), at);
                    at += chunk.invalid().len();
                }
            }
            continue;
        }
        let (character, length) = match rest.get(1) {
            Some(b'u') => unicode(rest),
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(byte) => (char::from(*byte), 2),
            None => (char::REPLACEMENT_CHARACTER, 1),
        };
        visit(Piece::Escaped(character), at);
        at += length;
    }
}

fn unicode(escape: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        escape
            .get(at..at + 6)
            .filter(|six| six.starts_with(b"\\u"))
            .and_then(|six| core::str::from_utf8(six.get(2..)?).ok())
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let Some(first) = unit(0) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    let (point, length) = match (first, unit(6)) {
        (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => {
            (0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
        }
        _ => (first, 6),
    };
    (
        char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER),
        length,
    )
}

/// A spelling that equal values share: members sorted by key, numbers by value, no space.
pub(crate) fn canonical(node: &Node, text: &[u8]) -> String {
    let mut out = String::new();
    write_canonical(node, text, &mut out);
    out
}

fn write_canonical(node: &Node, text: &[u8], out: &mut String) {
    match &node.shape {
        Shape::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, text, out);
                out.push(',');
            }
            out.push(']');
        }
        Shape::Literal => out.push_str(&String::from_utf8_lossy(node.raw(text))),
        Shape::Number => out.push_str(&canonical_number(node.raw(text))),
        Shape::Object(members) => {
            let mut sorted: Vec<(Cow<'_, str>, &Node)> = members
                .iter()
                .map(|(key, value)| (decode(text.get(key.clone()).unwrap_or_default()), value))
                .collect();
            sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
            out.push('{');
            for (key, value) in sorted {
                out.push_str(&key);
                out.push('\u{1f}');
                write_canonical(value, text, out);
                out.push(',');
            }
            out.push('}');
        }
        Shape::String => {
            out.push('"');
            out.push_str(&node.string(text).unwrap_or_default());
            out.push('"');
        }
    }
}

/// Equal for equal numbers, however written: `1`, `1.0`, `1e0`.
pub(crate) fn canonical_number(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => alloc::format!("{value}"),
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_says_what_its_escapes_mean_and_offsets_lead_back() {
        let raw = br#"a\n\u00e9\ud83d\ude00b\"c"#;
        assert_eq!(decode(raw), "a\n\u{e9}\u{1f600}b\"c");
        assert_eq!(raw_offset(raw, 0), 0);
        assert_eq!(raw_offset(raw, 1), 1);
        assert_eq!(raw_offset(raw, 2), 3);
        assert_eq!(raw_offset(raw, 4), 9);
        assert_eq!(raw_offset(raw, 8), 21);
        assert_eq!(raw_offset(raw, 9), 22);
        assert_eq!(raw_offset(raw, 99), raw.len());
    }

    #[test]
    fn equal_values_share_one_spelling() {
        let spell = |text: &str| canonical(&parse(text.as_bytes()).unwrap(), text.as_bytes());
        assert_eq!(
            spell(r#"{"a": 1.0, "b": ["x", null]}"#),
            spell(r#"{"b":["x",null],"\u0061":1}"#)
        );
        assert_ne!(spell(r#"{"a":1}"#), spell(r#"{"a":2}"#));
        assert!(parse(b"{\"a\":").is_none());
        assert!(parse(b"1 2").is_none());
    }
}
