//! HTTP/1.1 as it lies on the wire, read without opinion.
//!
//! A library client or server hides what a test wants to see: the exact head, where a chunk ended,
//! whether a body stopped short. This reader keeps all of it and judges nothing. Limits: no
//! obsolete line folding, no trailers beyond skipping them, and a head has a size bound.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes of a head that are read before it counts as broken.
pub const HEAD_LIMIT: usize = 1 << 20;

/// Why a message could not be read to its end.
#[derive(Debug, Error)]
pub enum WireError {
    /// The socket failed, a reset among others.
    #[error("socket failed")]
    Io(#[from] io::Error),
    /// The peer closed in the middle of a message.
    #[error("closed in the middle of a message")]
    Cut,
    /// The bytes are not HTTP/1.1.
    #[error("not an HTTP/1.1 message: {0}")]
    Malformed(&'static str),
}

impl WireError {
    /// Whether the peer reset the connection.
    pub fn is_reset(&self) -> bool {
        matches!(
            self,
            Self::Io(error) if matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
            )
        )
    }
}

/// The first line and the headers of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The request line or the status line, without its line end.
    pub start: String,
    /// Names and values in the order they came, as they were written.
    pub headers: Vec<(String, String)>,
    /// The bytes of the head, the empty line included.
    pub raw: Bytes,
}

impl Head {
    /// The first value of a header, by name without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The status of an answer's head.
    pub fn status(&self) -> Option<u16> {
        self.start.split(' ').nth(1)?.parse().ok()
    }

    /// Whether the sender of this head wants the connection closed behind the message.
    pub fn closes(&self) -> bool {
        let asked = self
            .header("connection")
            .unwrap_or_default()
            .to_ascii_lowercase();
        asked.contains("close")
            || (self.start.contains("HTTP/1.0") && !asked.contains("keep-alive"))
    }

    /// How the body of a request with this head is bounded.
    ///
    /// # Errors
    ///
    /// [`WireError::Malformed`] when the length is not a number.
    pub fn request_framing(&self) -> Result<Framing, WireError> {
        if self.is_chunked() {
            return Ok(Framing::chunked());
        }
        Ok(self.length()?.map_or(Framing::Length(0), Framing::Length))
    }

    /// How the body of an answer with this head is bounded.
    ///
    /// # Errors
    ///
    /// [`WireError::Malformed`] when the length is not a number.
    pub fn answer_framing(&self, method: &str) -> Result<Framing, WireError> {
        let status = self.status().unwrap_or(0);
        if method == "HEAD" || status == 204 || status == 304 || (100..200).contains(&status) {
            return Ok(Framing::Length(0));
        }
        if self.is_chunked() {
            return Ok(Framing::chunked());
        }
        Ok(self.length()?.map_or(Framing::UntilClose, Framing::Length))
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"))
    }

    fn length(&self) -> Result<Option<u64>, WireError> {
        let Some(value) = self.header("content-length") else {
            return Ok(None);
        };
        value
            .trim()
            .parse()
            .map(Some)
            .map_err(|_| WireError::Malformed("content-length"))
    }
}

/// The first value of a header in a list, by name without regard to case.
pub fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// How a body is bounded, and how much of it is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// That many bytes are left.
    Length(u64),
    /// Chunks; the number is what is left of the current one.
    Chunked {
        /// Bytes left of the open chunk.
        left: u64,
        /// Whether the line end behind a chunk is still to be read.
        line_end: bool,
        /// Whether the last chunk was seen.
        ended: bool,
    },
    /// Until the peer closes.
    UntilClose,
}

impl Framing {
    fn chunked() -> Self {
        Self::Chunked {
            left: 0,
            line_end: false,
            ended: false,
        }
    }
}

/// A stream of bytes with what was read of it and not yet used.
#[derive(Debug)]
pub struct Wire<S> {
    /// The socket or what stands for it.
    pub stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// A reader of `stream`.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// The next head, or `None` when the peer closed before its first byte.
    ///
    /// # Errors
    ///
    /// [`WireError::Cut`] when the peer closed inside the head, [`WireError::Malformed`] when it is
    /// too long or has no colon where one belongs, [`WireError::Io`] when the socket failed.
    pub async fn head(&mut self) -> Result<Option<Head>, WireError> {
        let mut searched = 0;
        loop {
            if let Some(end) = head_end(&self.buffer, searched) {
                let raw = self.buffer.split_to(end).freeze();
                return parse_head(raw).map(Some);
            }
            searched = self.buffer.len().saturating_sub(3);
            if self.buffer.len() > HEAD_LIMIT {
                return Err(WireError::Malformed("head too long"));
            }
            if !self.fill().await? {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(WireError::Cut)
                };
            }
        }
    }

    /// The next piece of a body, as it came off the socket, or `None` at its proper end.
    ///
    /// # Errors
    ///
    /// [`WireError::Cut`] when the peer closed before the end, [`WireError::Malformed`] when a chunk
    /// has no size, [`WireError::Io`] when the socket failed.
    pub async fn piece(&mut self, framing: &mut Framing) -> Result<Option<Bytes>, WireError> {
        match framing {
            Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                if self.buffer.is_empty() && !self.fill().await? {
                    return Err(WireError::Cut);
                }
                Ok(Some(self.take(left)))
            }
            Framing::Chunked {
                left,
                line_end,
                ended,
            } => self.chunk(left, line_end, ended).await,
            Framing::UntilClose => {
                if self.buffer.is_empty() && !self.fill().await? {
                    return Ok(None);
                }
                Ok(Some(self.buffer.split().freeze()))
            }
        }
    }

    /// A whole body.
    ///
    /// # Errors
    ///
    /// As [`Wire::piece`].
    pub async fn body(&mut self, mut framing: Framing) -> Result<Bytes, WireError> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.piece(&mut framing).await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Reads on, whatever comes, and returns when the peer has closed or the socket failed. Bytes
    /// that arrive meanwhile are kept for the next message. Safe to drop and call again.
    pub async fn closed(&mut self) {
        while matches!(self.fill().await, Ok(true)) {}
    }

    async fn chunk(
        &mut self,
        left: &mut u64,
        line_end: &mut bool,
        ended: &mut bool,
    ) -> Result<Option<Bytes>, WireError> {
        if *ended {
            return Ok(None);
        }
        if *left == 0 {
            if *line_end {
                self.line().await?;
                *line_end = false;
            }
            let line = self.line().await?;
            let digits = line
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default()
                .trim_ascii();
            let digits =
                std::str::from_utf8(digits).map_err(|_| WireError::Malformed("chunk size"))?;
            *left =
                u64::from_str_radix(digits, 16).map_err(|_| WireError::Malformed("chunk size"))?;
            if *left == 0 {
                while !self.line().await?.is_empty() {}
                *ended = true;
                return Ok(None);
            }
            *line_end = true;
        }
        if self.buffer.is_empty() && !self.fill().await? {
            return Err(WireError::Cut);
        }
        Ok(Some(self.take(left)))
    }

    fn take(&mut self, left: &mut u64) -> Bytes {
        let size = usize::try_from(*left)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len());
        *left = left.saturating_sub(size as u64);
        self.buffer.split_to(size).freeze()
    }

    async fn line(&mut self) -> Result<Bytes, WireError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(end).freeze();
                self.buffer.advance(1);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len().saturating_sub(1));
                }
                return Ok(line);
            }
            if !self.fill().await? {
                return Err(WireError::Cut);
            }
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(16 * 1024);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn head_end(buffer: &[u8], from: usize) -> Option<usize> {
    let tail = buffer.get(from..)?;
    tail.windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| from + at + 4)
}

fn parse_head(raw: Bytes) -> Result<Head, WireError> {
    let text = String::from_utf8_lossy(&raw).into_owned();
    let mut lines = text.split("\r\n");
    let start = lines.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once(':')
            .ok_or(WireError::Malformed("header without colon"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Head {
        start,
        headers,
        raw,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_chunked_body_is_read_whatever_the_pieces() {
        let bytes: &[u8] = b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nt: v\r\n\r\nGET /";
        for size in 1..bytes.len() {
            let mut wire = Wire::new(tokio_test_reader(bytes, size));
            let head = wire.head().await.unwrap().unwrap();
            assert_eq!(head.header("x-a"), Some("1"));
            let body = wire.body(head.request_framing().unwrap()).await.unwrap();
            assert_eq!(&body[..], b"hello world");
        }
    }

    #[tokio::test]
    async fn a_body_that_stops_short_is_cut() {
        let bytes: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive5";
        let mut wire = Wire::new(bytes);
        let head = wire.head().await.unwrap().unwrap();
        assert_eq!(head.status(), Some(200));
        let end = wire.body(head.answer_framing("GET").unwrap()).await;
        assert!(matches!(end, Err(WireError::Cut)));
    }

    #[tokio::test]
    async fn an_answer_without_a_length_lasts_until_the_close() {
        let bytes: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nall of it";
        let mut wire = Wire::new(bytes);
        let head = wire.head().await.unwrap().unwrap();
        let body = wire
            .body(head.answer_framing("GET").unwrap())
            .await
            .unwrap();
        assert_eq!(&body[..], b"all of it");
    }

    fn tokio_test_reader(bytes: &'static [u8], size: usize) -> impl AsyncRead + Unpin {
        let (mut write, read) = tokio::io::duplex(size);
        tokio::spawn(async move {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut write, bytes).await;
        });
        read
    }
}
