//! What the gateway must know of a request body, read in one pass over its bytes.
//!
//! A prompt is cached by the vendor only while it is byte-identical, so a body must reach the vendor
//! as it came: unknown fields, numbers, key order and white space included. Building a document and
//! writing it out again loses that, and is slow. So [`Envelope::parse`] checks the grammar, notes
//! where each top-level field lies, decodes the few small ones that decide something, and leaves the
//! rest alone. Changes are [`Edits`]: splices of bytes, which copy nothing of what stays.
//!
//! Gateway and vendor must not read two different requests. Refused are therefore: anything that
//! RFC 8259 does not allow, invalid UTF-8, two top-level fields of one name (however escaped), a
//! nesting deeper than [`MAX_DEPTH`], and a field that decides something but has another type.
//!
//! ```
//! use bytes::Bytes;
//! use whippletree_providers::envelope::{Edits, Envelope};
//!
//! let body = Bytes::from_static(br#"{"model":"fast","stream":true,"temperature":0.70}"#);
//! let envelope = Envelope::parse(body)?;
//! assert_eq!(envelope.model(), Some("fast"));
//!
//! let mut edits = Edits::default();
//! edits.set_model(&envelope, "gpt-5");
//! edits.ask_for_usage(&envelope);
//! assert_eq!(
//!     edits.apply(&envelope).to_bytes(),
//!     r#"{"stream_options":{"include_usage":true},"model":"gpt-5","stream":true,"temperature":0.70}"#,
//! );
//! # Ok::<(), whippletree_providers::envelope::InvalidEnvelope>(())
//! ```

mod decode;
mod fault;
mod scan;
mod splice;
mod string;
#[cfg(test)]
mod tests;
mod tokens;

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

pub use self::fault::{Fault, InvalidEnvelope};
pub use self::splice::{Edits, OutputLimit, Spliced};

use self::scan::{Scan, Scanner};

/// The deepest nesting of arrays and objects that is accepted, the body itself counted.
pub const MAX_DEPTH: u32 = 128;

/// Fields whose elements are worth knowing one by one: what makes up a prompt, in any dialect.
const LISTS: [&[u8]; 5] = [b"messages", b"input", b"tools", b"system", b"contents"];

/// A range of bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The caller holds offsets into a body that [`Envelope::parse`] has found short enough.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The offset of the first byte.
    pub const fn start(self) -> usize {
        self.start as usize
    }

    /// The offset after the last byte.
    pub const fn end(self) -> usize {
        self.end as usize
    }

    /// How many bytes it covers.
    pub const fn len(self) -> usize {
        self.end().saturating_sub(self.start())
    }

    /// Whether it covers no byte.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The same as a range.
    pub const fn range(self) -> Range<usize> {
        self.start()..self.end()
    }

    /// The bytes of `body` that it covers; none when it lies outside.
    pub fn of(self, body: &[u8]) -> &[u8] {
        body.get(self.range()).unwrap_or_default()
    }
}

/// One top-level field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The key as written, without its quotes.
    pub key: Span,
    /// The value as written.
    pub value: Span,
    escaped: bool,
    items: Range<u32>,
}

/// A number with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it says.
    pub value: u64,
    /// Where it stands.
    pub span: Span,
}

/// What `stream_options` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Where the value stands.
    pub span: Span,
    /// `include_usage`, where it is given.
    pub include_usage: Option<bool>,
}

/// A checked request body and where its fields lie.
#[derive(Clone, Debug)]
pub struct Envelope {
    body: Bytes,
    open: usize,
    fields: Vec<Field>,
    items: Vec<Span>,
    model: Option<Box<str>>,
    stream: bool,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<Limit>,
    max_completion_tokens: Option<Limit>,
    max_output_tokens: Option<Limit>,
    n: Option<u64>,
}

impl Envelope {
    /// Reads a body.
    ///
    /// # Errors
    /// [`InvalidEnvelope`] says what is wrong and where; see [`Fault`] for each cause.
    pub fn parse(body: Bytes) -> Result<Self, InvalidEnvelope> {
        if u32::try_from(body.len()).is_err() {
            return Err(InvalidEnvelope {
                fault: Fault::TooLong,
                offset: u32::MAX as usize,
            });
        }
        if simdutf8::basic::from_utf8(&body).is_err() {
            let offset = std::str::from_utf8(&body).map_or_else(|e| e.valid_up_to(), str::len);
            return Err(InvalidEnvelope {
                fault: Fault::Utf8,
                offset,
            });
        }
        let mut envelope = Self {
            open: 0,
            fields: Vec::with_capacity(24),
            items: Vec::new(),
            model: None,
            stream: false,
            stream_options: None,
            max_tokens: None,
            max_completion_tokens: None,
            max_output_tokens: None,
            n: None,
            body,
        };
        envelope.scan().map_err(|stop| InvalidEnvelope {
            fault: stop.fault,
            offset: stop.offset,
        })?;
        envelope.refuse_duplicates()?;
        envelope.decode()?;
        Ok(envelope)
    }

    fn scan(&mut self) -> Scan<()> {
        let (fields, items) = (&mut self.fields, &mut self.items);
        let mut scanner = Scanner::new(&self.body, 0);
        self.open = scanner.at();
        if !scanner.take(b'{') {
            scanner.value(0)?;
            if !scanner.ended() {
                return scanner.stop(Fault::Trailing);
            }
            return Scanner::new(&self.body, self.open).stop(Fault::NotAnObject);
        }
        if !scanner.take(b'}') {
            loop {
                let key = scanner.key()?;
                let escaped = string::has_escape(key.of(&self.body));
                let first = items.len();
                let listed = scanner.peek() == b'[' && LISTS.contains(&key.of(&self.body));
                let value = if listed {
                    scanner.array(1, |item| items.push(item))?
                } else {
                    scanner.value(1)?
                };
                let items = Span::new(first, items.len());
                fields.push(Field {
                    key,
                    value,
                    escaped,
                    items: items.start..items.end,
                });
                if scanner.take(b'}') {
                    break;
                }
                scanner.expect(b',')?;
            }
        }
        if scanner.ended() {
            Ok(())
        } else {
            scanner.stop(Fault::Trailing)
        }
    }

    fn refuse_duplicates(&self) -> Result<(), InvalidEnvelope> {
        // Sorting costs n log n, so a body of a million tiny fields is no denial of service.
        let mut keys: Vec<(Cow<'_, [u8]>, Span)> = self
            .fields
            .iter()
            .map(|field| (self.key_bytes(field), field.key))
            .collect();
        keys.sort_unstable();
        let repeated = keys.windows(2).filter_map(|pair| match pair {
            [(a, _), (b, place)] if a == b => Some(*place),
            _ => None,
        });
        match repeated.min() {
            Some(place) => Err(InvalidEnvelope {
                fault: Fault::Duplicate,
                offset: place.start(),
            }),
            None => Ok(()),
        }
    }

    /// The bytes as they came.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Where the opening brace stands.
    pub(crate) const fn open(&self) -> usize {
        self.open
    }

    /// The top-level fields in their order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The top-level field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields
            .iter()
            .find(|field| *self.key_bytes(field) == *name.as_bytes())
    }

    /// The bytes of a span, sharing the body's memory.
    pub fn bytes(&self, span: Span) -> Bytes {
        self.body
            .slice(span.start()..span.end().min(self.body.len()))
    }

    fn key_bytes(&self, field: &Field) -> Cow<'_, [u8]> {
        let raw = field.key.of(&self.body);
        if field.escaped {
            string::unescape(raw)
        } else {
            Cow::Borrowed(raw)
        }
    }

    /// The name of a field, unescaped.
    pub fn name(&self, field: &Field) -> Cow<'_, str> {
        string::text(field.key.of(&self.body))
    }

    /// What a field says, if it is there and a string (`user`, `safety_identifier`,
    /// `prompt_cache_key`, `service_tier` and the like).
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        string_inside(self.field(name)?.value.of(&self.body)).map(string::text)
    }

    /// The `model` asked for.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether a stream is asked for.
    pub const fn stream(&self) -> bool {
        self.stream
    }

    /// What `stream_options` asks for, where it is given and not null.
    pub const fn stream_options(&self) -> Option<StreamOptions> {
        self.stream_options
    }

    /// Whether the client itself asked for the usage chunk at the end of a stream.
    pub fn asks_for_usage(&self) -> bool {
        self.stream_options
            .is_some_and(|options| options.include_usage == Some(true))
    }

    /// `max_tokens`.
    pub const fn max_tokens(&self) -> Option<Limit> {
        self.max_tokens
    }

    /// `max_completion_tokens`.
    pub const fn max_completion_tokens(&self) -> Option<Limit> {
        self.max_completion_tokens
    }

    /// `max_output_tokens`.
    pub const fn max_output_tokens(&self) -> Option<Limit> {
        self.max_output_tokens
    }

    /// The largest of the three output limits, in tokens: what a vendor may write at most.
    pub fn output_limit(&self) -> Option<u64> {
        [
            self.max_tokens,
            self.max_completion_tokens,
            self.max_output_tokens,
        ]
        .into_iter()
        .flatten()
        .map(|limit| limit.value)
        .max()
    }

    /// How many answers are asked for.
    pub const fn n(&self) -> Option<u64> {
        self.n
    }

    /// The elements of a top-level array of messages, tools or other parts of a prompt
    /// (`messages`, `input`, `tools`, `system`, `contents`), found in the same pass. Empty for other
    /// fields and for values that are no arrays.
    pub fn items(&self, name: &str) -> &[Span] {
        self.field(name)
            .and_then(|field| {
                self.items
                    .get(field.items.start as usize..field.items.end as usize)
            })
            .unwrap_or_default()
    }

    /// The members of an object anywhere in the body; empty when the span holds something else.
    pub fn members(&self, object: Span) -> Members<'_> {
        let mut scanner = Scanner::new(&self.body, object.start());
        let open = scanner.take(b'{');
        Members {
            scanner,
            end: if open { object.end() } else { 0 },
        }
    }

    /// The elements of an array anywhere in the body; empty when the span holds something else.
    pub fn elements(&self, array: Span) -> Vec<Span> {
        let mut found = Vec::new();
        let mut scanner = Scanner::new(&self.body, array.start());
        if scanner.peek() == b'[' && scanner.array(0, |item| found.push(item)).is_err() {
            found.clear();
        }
        found
    }
}

/// The members of an object; see [`Envelope::members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    scanner: Scanner<'a>,
    end: usize,
}

impl Iterator for Members<'_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        if self.scanner.at() >= self.end || self.scanner.peek() == b'}' {
            return None;
        }
        // The bytes were checked by `parse`, so these only end an iteration over a foreign span.
        let key = self.scanner.key().ok()?;
        let escaped = string::has_escape(key.of(self.scanner.bytes()));
        let value = self.scanner.value(0).ok()?;
        self.scanner.take(b',');
        Some(Field {
            key,
            value,
            escaped,
            items: 0..0,
        })
    }
}

fn string_inside(raw: &[u8]) -> Option<&[u8]> {
    raw.strip_prefix(b"\"")?.strip_suffix(b"\"")
}
