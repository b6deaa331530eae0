//! Server-sent events, cut out of a stream of bytes.
//!
//! The relay must pass a vendor's stream on byte for byte and yet understand it. So each [`Frame`]
//! keeps the bytes it was made of, and the frames of a stream, one after the other, are that stream:
//! nothing is lost between them, comments and blank lines included. An event that arrives in one
//! chunk shares that chunk's memory; only one that is cut between chunks is copied together.
//!
//! The format is that of the WHATWG HTML standard, section 9.2 (lines end in LF, CR LF or CR; a byte
//! order mark may come first), with one extension: what the stream ends with is an event even without
//! its blank line, because some vendors leave it out.
//!
//! Limits: a frame may be [`DEFAULT_MAX_FRAME_BYTES`] long, or what [`Framer::new`] was given. A CR
//! at the end of a chunk waits for a LF only while no line of the stream has ended in a bare CR: after
//! that it ends its line at once, and a LF that follows the CR that ended a frame is a frame of its
//! own, without data.
//!
//! ```
//! use bytes::Bytes;
//! use whippletree_providers::sse::Framer;
//!
//! let mut framer = Framer::default();
//! framer.push(Bytes::from_static(b": ping\n\ndata: {\"a\":"));
//! framer.push(Bytes::from_static(b"1}\n\n"));
//! let mut data = Vec::new();
//! while let Some(frame) = framer.next_frame()? {
//!     data.extend(frame.data().cloned());
//! }
//! assert_eq!(data, ["{\"a\":1}"]);
//! # Ok::<(), whippletree_providers::sse::FrameTooLong>(())
//! ```

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;

/// How long a frame may be unless said otherwise: 16 MiB, room for an image in base64.
pub const DEFAULT_MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A frame is longer than it may be. The stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct FrameTooLong {
    /// The limit, in bytes.
    pub limit: usize,
}

/// An event, or the comment or blank line between two events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    raw: Bytes,
    name: Option<Bytes>,
    data: Option<Bytes>,
    /// Where the data stands in the raw bytes, when it is one line.
    data_at: Option<Range<usize>>,
    id: Option<Bytes>,
    ended: bool,
}

impl Frame {
    /// The exact bytes, with the blank line that ends it.
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The exact bytes, by value.
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// What `event:` says.
    pub const fn name(&self) -> Option<&Bytes> {
        self.name.as_ref()
    }

    /// What the `data:` lines say, joined by line feeds. `None` for a comment, a blank line, or an
    /// event without data, all of which a client ignores.
    pub const fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// What `id:` says.
    pub const fn id(&self) -> Option<&Bytes> {
        self.id.as_ref()
    }

    /// The bytes of a frame that says the same with other data. Data of one line is replaced where it
    /// stands; everything else is as it was.
    pub fn with_data(&self, data: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(self.raw.len() + data.len() + 16);
        if let Some(at) = self.data_at.clone()
            && memchr2(b'\n', b'\r', data).is_none()
        {
            out.put_slice(self.raw.get(..at.start).unwrap_or_default());
            out.put_slice(data);
            out.put_slice(self.raw.get(at.end..).unwrap_or_default());
            return out.freeze();
        }
        for (field, value) in [("event: ", &self.name), ("id: ", &self.id)] {
            if let Some(value) = value {
                out.put_slice(field.as_bytes());
                out.put_slice(value);
                out.put_u8(b'\n');
            }
        }
        for line in data.split(|byte| *byte == b'\n') {
            out.put_slice(b"data: ");
            out.put_slice(line);
            out.put_u8(b'\n');
        }
        out.put_u8(b'\n');
        out.freeze()
    }

    /// Whether a blank line ended it, rather than the stream.
    pub const fn ended(&self) -> bool {
        self.ended
    }
}

/// The bytes not yet handed out. They begin with a frame.
#[derive(Debug)]
enum Store {
    /// One chunk as it came.
    Chunk(Bytes),
    /// Chunks copied together, because a frame was cut between them.
    Joined(BytesMut),
}

impl Store {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Chunk(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }

    fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Chunk(left) if left.is_empty() => *self = Self::Chunk(chunk),
            Self::Chunk(left) => {
                let mut joined = BytesMut::with_capacity(left.len() + chunk.len());
                joined.put_slice(left);
                joined.put_slice(&chunk);
                *self = Self::Joined(joined);
            }
            Self::Joined(left) if left.is_empty() => *self = Self::Chunk(chunk),
            Self::Joined(left) => left.put_slice(&chunk),
        }
    }

    fn split_to(&mut self, length: usize) -> Bytes {
        match self {
            Self::Chunk(bytes) => bytes.split_to(length.min(bytes.len())),
            Self::Joined(bytes) => bytes.split_to(length.min(bytes.len())).freeze(),
        }
    }
}

/// The fields of the frame being read, as ranges of the stored bytes.
#[derive(Debug, Default)]
struct Fields {
    any: bool,
    name: Option<Range<usize>>,
    data: Option<Range<usize>>,
    more_data: Vec<Range<usize>>,
    id: Option<Range<usize>>,
}

/// What a CR means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cr {
    /// It waits for what follows: a LF would be part of it.
    Waits,
    /// It ends a line: one of this stream has ended in a bare CR.
    Ends,
    /// One has just ended a line; a LF that follows belongs to it.
    Ended,
}

/// Cuts a stream into frames. Push chunks, then take frames until there is none.
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    store: Store,
    fields: Fields,
    /// Where the line being read starts, and up to where no line end was found.
    line: usize,
    searched: usize,
    /// Nothing of the stream has been read yet, so a byte order mark may come.
    fresh: bool,
    cr: Cr,
    failed: bool,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_FRAME_BYTES)
    }
}

impl Framer {
    /// A framer that refuses frames of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            store: Store::Chunk(Bytes::new()),
            fields: Fields::default(),
            line: 0,
            searched: 0,
            fresh: true,
            cr: Cr::Waits,
            failed: false,
        }
    }

    /// Adds a chunk of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.store.push(chunk);
        }
    }

    /// The next frame that is whole.
    ///
    /// # Errors
    /// [`FrameTooLong`] when it is, or grows, past the limit; from then on, always.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLong> {
        while !self.failed {
            let bytes = self.store.bytes();
            if self.cr == Cr::Ended
                && let Some(byte) = bytes.get(self.line)
            {
                self.cr = Cr::Ends;
                if *byte == b'\n' {
                    if self.line == 0 {
                        return self.cut(1, true).map(Some);
                    }
                    self.line += 1;
                    self.searched = self.line;
                }
            }
            let unsearched = bytes.get(self.searched..).unwrap_or_default();
            let Some(found) = memchr2(b'\n', b'\r', unsearched) else {
                self.searched = bytes.len();
                self.failed = bytes.len() > self.limit;
                break;
            };
            let end = self.searched + found;
            let next = match (bytes.get(end), bytes.get(end + 1)) {
                // Whether the LF is there already makes no difference, so any split gives the same.
                (Some(b'\r'), _) if self.cr != Cr::Waits => {
                    self.cr = Cr::Ended;
                    end + 1
                }
                (Some(b'\r'), Some(b'\n')) => end + 2,
                (Some(b'\r'), Some(_)) => {
                    self.cr = Cr::Ends;
                    end + 1
                }
                (Some(b'\r'), None) => {
                    self.searched = end;
                    self.failed = bytes.len() > self.limit;
                    break;
                }
                _ => end + 1,
            };
            let line = self.line..end;
            self.line = next;
            self.searched = next;
            if self.read_line(line) {
                return self.cut(next, true).map(Some);
            }
        }
        if self.failed {
            return Err(FrameTooLong { limit: self.limit });
        }
        Ok(None)
    }

    /// What the stream ended with, once no more chunk comes: the last frame, if it lacks its blank
    /// line. Call it after [`Framer::next_frame`] has returned none.
    ///
    /// # Errors
    /// [`FrameTooLong`] when it is past the limit.
    pub fn finish(&mut self) -> Result<Option<Frame>, FrameTooLong> {
        if let Some(frame) = self.next_frame()? {
            return Ok(Some(frame));
        }
        let length = self.store.bytes().len();
        if length == 0 {
            return Ok(None);
        }
        let terminator = usize::from(self.store.bytes().ends_with(b"\r"));
        let end = length.saturating_sub(terminator).max(self.line);
        let ended = self.read_line(self.line..end);
        self.cut(length, ended).map(Some)
    }

    /// Takes in one line; says whether it ends a frame.
    fn read_line(&mut self, mut line: Range<usize>) -> bool {
        let bytes = self.store.bytes();
        if self.fresh {
            self.fresh = false;
            if bytes
                .get(line.clone())
                .is_some_and(|l| l.starts_with(BYTE_ORDER_MARK))
            {
                line.start += BYTE_ORDER_MARK.len();
            }
        }
        let text = bytes.get(line.clone()).unwrap_or_default();
        let colon = match text.first() {
            None => return true,
            // A comment before any field is a frame of its own, so that it is passed on at once.
            Some(b':') => return !self.fields.any,
            Some(_) => memchr::memchr(b':', text),
        };
        self.fields.any = true;
        let name = colon.map_or(text, |colon| text.get(..colon).unwrap_or_default());
        let value = match colon {
            None => line.end..line.end,
            Some(colon) => {
                let space = usize::from(text.get(colon + 1) == Some(&b' '));
                line.start + colon + 1 + space..line.end
            }
        };
        match name {
            b"data" if self.fields.data.is_none() => self.fields.data = Some(value),
            b"data" => self.fields.more_data.push(value),
            b"event" => self.fields.name = Some(value),
            b"id" => self.fields.id = Some(value),
            _ => {} // `retry` and unknown fields mean nothing here
        }
        false
    }

    /// Hands out the first `length` bytes as a frame.
    fn cut(&mut self, length: usize, ended: bool) -> Result<Frame, FrameTooLong> {
        if length > self.limit {
            self.failed = true;
            return Err(FrameTooLong { limit: self.limit });
        }
        let raw = self.store.split_to(length);
        let fields = std::mem::take(&mut self.fields);
        self.line = 0;
        self.searched = 0;
        let slice = |range: Range<usize>| raw.slice(range);
        let data_at = fields.data.clone().filter(|_| fields.more_data.is_empty());
        let data = fields.data.map(|first| {
            let first = slice(first);
            if fields.more_data.is_empty() {
                return first;
            }
            let mut joined = BytesMut::from(&*first);
            for more in fields.more_data {
                joined.put_u8(b'\n');
                joined.put_slice(&slice(more));
            }
            joined.freeze()
        });
        Ok(Frame {
            name: fields.name.map(slice),
            id: fields.id.map(slice),
            data,
            data_at,
            ended,
            raw,
        })
    }
}
