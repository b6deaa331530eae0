//! Changes to a body, as splices of its bytes.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Envelope, Field, Span};

/// A field that limits how much a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    /// `max_completion_tokens`: chat completions of OpenAI's reasoning models.
    MaxCompletionTokens,
    /// `max_output_tokens`: responses.
    MaxOutputTokens,
    /// `max_tokens`: everything else.
    MaxTokens,
}

impl OutputLimit {
    /// The name of the field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxOutputTokens => "max_output_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// Changes to be made to one body. What they do not name stays byte for byte.
///
/// Changes refer to the body as it came, so their order does not matter, except that a later change
/// of the same span replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    replaced: Vec<(Span, Bytes)>,
    inserted: Vec<(String, Bytes)>,
    removed: Vec<Span>,
}

impl Edits {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.replaced.is_empty() && self.inserted.is_empty() && self.removed.is_empty()
    }

    /// Writes `value` (JSON) where `span` stands. Spans must not overlap in part; one inside a
    /// larger replaced one or inside a removed field is dropped.
    pub fn replace(&mut self, span: Span, value: impl Into<Bytes>) {
        self.replaced.retain(|(old, _)| *old != span);
        self.replaced.push((span, value.into()));
    }

    /// Adds a field with a value (JSON) right after the opening brace. The caller knows that the
    /// body has none of that name; see [`Edits::set`].
    pub fn insert(&mut self, name: &str, value: impl Into<Bytes>) {
        self.inserted.retain(|(old, _)| old != name);
        self.inserted.push((name.to_owned(), value.into()));
    }

    /// Takes a top-level field out, with its comma.
    pub fn remove(&mut self, field: &Field) {
        self.removed.push(field.key);
    }

    /// Gives a top-level field a value (JSON), whether or not it is there.
    pub fn set(&mut self, envelope: &Envelope, name: &str, value: impl Into<Bytes>) {
        match envelope.field(name) {
            Some(field) => self.replace(field.value, value),
            None => self.insert(name, value),
        }
    }

    /// Gives a top-level field another name and leaves its value: `max_tokens` is what some targets
    /// call `max_completion_tokens`.
    pub fn rename(&mut self, field: &Field, name: &str) {
        let quoted = quoted(name);
        let inside = quoted.get(1..quoted.len().saturating_sub(1));
        self.replace(field.key, inside.unwrap_or_default().to_owned());
    }

    /// Names another model.
    pub fn set_model(&mut self, envelope: &Envelope, model: &str) {
        if envelope.model() != Some(model) {
            self.set(envelope, "model", quoted(model));
        }
    }

    /// Asks for the usage chunk at the end of a stream, keeping the other `stream_options`.
    pub fn ask_for_usage(&mut self, envelope: &Envelope) {
        const ASKED: &[u8] = br#"{"include_usage":true}"#;
        let Some(options) = envelope.stream_options() else {
            self.set(envelope, "stream_options", ASKED);
            return;
        };
        let mut given = false;
        let mut empty = true;
        for member in envelope.members(options.span) {
            empty = false;
            if envelope.name(&member) == "include_usage" {
                given = true;
                if member.value.of(envelope.body()) != b"true" {
                    self.replace(member.value, &b"true"[..]);
                }
            }
        }
        if !given {
            let after_brace = options.span.start() + 1;
            let text: &[u8] = if empty {
                br#""include_usage":true"#
            } else {
                br#""include_usage":true,"#
            };
            self.replace(Span::new(after_brace, after_brace), text);
        }
    }

    /// Lowers every output limit that is above `most` tokens, and adds the one that the target
    /// understands where the body has none. Says whether anything changes.
    pub fn limit_output(&mut self, envelope: &Envelope, add: OutputLimit, most: u64) -> bool {
        let limits = [
            envelope.max_tokens(),
            envelope.max_completion_tokens(),
            envelope.max_output_tokens(),
        ];
        let mut changed = false;
        let mut present = false;
        for limit in limits.into_iter().flatten() {
            present = true;
            if limit.value > most {
                self.replace(limit.span, most.to_string());
                changed = true;
            }
        }
        if !present {
            self.set(envelope, add.name(), most.to_string());
            changed = true;
        }
        changed
    }

    /// Makes the changes.
    pub fn apply(&self, envelope: &Envelope) -> Spliced {
        let body = envelope.body();
        if self.is_empty() {
            return Spliced {
                chunks: vec![body.clone()],
            };
        }
        let mut splices = self.removals(envelope.fields());
        for (span, value) in &self.replaced {
            splices.push((*span, value.clone()));
        }
        if !self.inserted.is_empty() {
            let brace = envelope.open() + 1;
            let rest = envelope
                .fields()
                .iter()
                .any(|field| !self.removed.contains(&field.key));
            splices.push((Span::new(brace, brace), self.insertion(rest)));
        }
        // An insertion before the longer splice at the same place; outer before inner.
        splices.sort_by_key(|(span, _)| (span.start(), !span.is_empty(), usize::MAX - span.end()));
        let mut chunks = Vec::with_capacity(splices.len() * 2 + 1);
        let mut at = 0;
        for (span, value) in splices {
            if span.start() < at || span.end() > body.len() {
                continue; // inside a splice that was already made
            }
            chunks.push(body.slice(at..span.start()));
            chunks.push(value);
            at = span.end();
        }
        chunks.push(body.slice(at..));
        chunks.retain(|chunk| !chunk.is_empty());
        Spliced { chunks }
    }

    /// The splices that take the removed fields out and leave commas between the others only.
    fn removals(&self, fields: &[Field]) -> Vec<(Span, Bytes)> {
        let mut splices = Vec::new();
        // The end of the last field that stays, and the start of the run of fields that go.
        let mut kept_end: Option<usize> = None;
        let mut run: Option<(usize, usize)> = None;
        for field in fields {
            let key_start = field.key.start().saturating_sub(1);
            if self.removed.contains(&field.key) {
                run = Some((run.map_or(key_start, |(start, _)| start), field.value.end()));
            } else {
                if let Some((start, _)) = run.take() {
                    splices.push((Span::new(start, key_start), Bytes::new()));
                }
                kept_end = Some(field.value.end());
            }
        }
        if let Some((start, end)) = run {
            let start = kept_end.unwrap_or(start);
            splices.push((Span::new(start, end), Bytes::new()));
        }
        splices
    }

    fn insertion(&self, comma_after: bool) -> Bytes {
        let mut text = BytesMut::new();
        for (i, (name, value)) in self.inserted.iter().enumerate() {
            if i > 0 {
                text.put_u8(b',');
            }
            text.put_slice(quoted(name).as_bytes());
            text.put_u8(b':');
            text.put_slice(value);
        }
        if comma_after {
            text.put_u8(b',');
        }
        text.freeze()
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A changed body: pieces of the old one, sharing its memory, and new ones between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spliced {
    chunks: Vec<Bytes>,
}

impl Spliced {
    /// The length of the whole, in bytes.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The pieces in order, none of them empty.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The pieces in order, by value.
    pub fn into_chunks(self) -> Vec<Bytes> {
        self.chunks
    }

    /// The whole in one piece: copied, unless nothing was changed.
    pub fn to_bytes(&self) -> Bytes {
        match self.chunks.as_slice() {
            [only] => only.clone(),
            chunks => {
                let mut whole = BytesMut::with_capacity(self.len());
                for chunk in chunks {
                    whole.put_slice(chunk);
                }
                whole.freeze()
            }
        }
    }
}
