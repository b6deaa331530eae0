//! Heads that are no request: what their clients are told.
//!
//! hyper reads the heads of HTTP/1.1 and answers a faulty one itself, with a bare status. A client
//! deserves a reason, and the operator a record, so [`Refusing`] stands between hyper and the socket:
//! it knows hyper's bare answers by their bytes and sends what the handler says instead.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, Uri, header};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Stream;
use super::watch::Watch;
use crate::config;

/// Why a head is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// It is not HTTP, or its framing is ambiguous.
    Malformed,
    /// It did not come to its end in time.
    TimedOut,
    /// More bytes or fields than allowed.
    TooLarge,
    /// Its target is longer than hyper reads, 65,534 bytes.
    UriTooLong,
}

/// Bounds on a head over HTTP/2, where hyper knows none on the number of fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadLimits {
    bytes: usize,
    fields: usize,
}

impl HeadLimits {
    pub(super) const fn of(settings: &config::Server) -> Self {
        Self {
            bytes: settings.max_head,
            fields: settings.max_headers,
        }
    }

    /// The list of fields that h2 may read: more than is allowed, so that most of what is too large
    /// can be answered with a reason. What is larger still gets a bare 431 from h2.
    pub(super) fn list_size(self) -> u32 {
        u32::try_from(self.bytes.saturating_mul(4)).unwrap_or(u32::MAX)
    }

    pub(super) fn fault<B>(self, request: &Request<B>) -> Option<HeadFault> {
        let fields = request.headers();
        let large = fields.len() > self.fields || size(request.uri(), fields) > self.bytes;
        large.then_some(HeadFault::TooLarge)
    }
}

fn size(uri: &Uri, fields: &HeaderMap) -> usize {
    let target = uri.path_and_query().map_or(0, |path| path.as_str().len());
    // What separates a field from the next over HTTP/1.1, so that both count alike.
    let around = ": \r\n".len();
    fields.iter().fold(target, |sum, (name, value)| {
        sum.saturating_add(name.as_str().len() + value.len() + around)
    })
}

/// An answer as it goes over HTTP/1.1 when the connection ends behind it. Only what of its body is at
/// hand is sent.
pub(super) fn in_full<B>(response: Response<B>) -> Bytes
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, mut body) = response.into_parts();
    let mut content = BytesMut::new();
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
        if let Ok(bytes) = frame.into_data() {
            content.extend_from_slice(&bytes);
        }
    }
    let mut bytes = BytesMut::new();
    let reason = head.status.canonical_reason().unwrap_or_default();
    bytes.put_slice(format!("HTTP/1.1 {} {reason}\r\n", head.status.as_u16()).as_bytes());
    for (name, value) in &head.headers {
        bytes.put_slice(name.as_str().as_bytes());
        bytes.put_slice(b": ");
        bytes.put_slice(value.as_bytes());
        bytes.put_slice(b"\r\n");
    }
    let length = content.len();
    bytes.put_slice(format!("content-length: {length}\r\nconnection: close\r\n\r\n").as_bytes());
    bytes.put(content);
    bytes.freeze()
}

/// A client's connection on which hyper's answers to faulty heads are replaced by `refuse`'s.
#[derive(Debug)]
pub(super) struct Refusing<F> {
    stream: Stream,
    watch: Arc<Watch>,
    refuse: F,
    /// What is left of an answer that takes the place of hyper's.
    instead: Option<Bytes>,
}

impl<F: Fn(HeadFault) -> Bytes + Unpin> Refusing<F> {
    pub(super) fn new(stream: Stream, watch: Arc<Watch>, refuse: F) -> Self {
        Self {
            stream,
            watch,
            refuse,
            instead: None,
        }
    }

    /// What a client is told whose head has this fault.
    pub(super) fn refuse(&self, fault: HeadFault) -> Bytes {
        (self.refuse)(fault)
    }

    pub(super) fn into_inner(self) -> Stream {
        self.stream
    }

    /// Writes another answer in the place of `head`, where that is one of hyper's own.
    fn poll_instead(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
    ) -> Poll<Option<io::Result<usize>>> {
        if self.instead.is_none() {
            // While a request is answered, hyper writes nothing of its own.
            let Some(fault) = (!self.watch.is_answering()).then(|| bare(head)).flatten() else {
                return Poll::Ready(None);
            };
            self.watch.body_left_unread();
            self.instead = Some((self.refuse)(fault));
        }
        while let Some(rest) = self.instead.as_mut().filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest)) {
                Ok(0) => return Poll::Ready(Some(Err(io::ErrorKind::WriteZero.into()))),
                Ok(written) => rest.advance(written),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        self.instead = None;
        Poll::Ready(Some(Ok(head.len())))
    }
}

/// What is wrong with the client's head, where this is hyper's answer to a faulty one. A handler's
/// answers say what they consist of, and so do those that are relayed; hyper's have no content.
fn bare(head: &[u8]) -> Option<HeadFault> {
    let rest = head.strip_prefix(b"HTTP/1.1 4")?;
    let (status, rest) = rest.split_at_checked(2)?;
    let fault = match status {
        b"00" => HeadFault::Malformed,
        b"14" => HeadFault::UriTooLong,
        b"31" => HeadFault::TooLarge,
        _ => return None,
    };
    let fields = std::str::from_utf8(rest).ok()?.strip_suffix("\r\n\r\n")?;
    let known = [header::CONNECTION, header::CONTENT_LENGTH, header::DATE];
    fields
        .split("\r\n")
        .skip(1)
        .all(|field| {
            field.split_once(": ").is_some_and(|(name, value)| {
                known.iter().any(|known| known == name)
                    && (name != "content-length" || value == "0")
            })
        })
        .then_some(fault)
}

impl<F: Unpin> AsyncRead for Refusing<F> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<F: Fn(HeadFault) -> Bytes + Unpin> AsyncWrite for Refusing<F> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match ready!(this.poll_instead(cx, buf)) {
            Some(result) => Poll::Ready(result),
            None => Pin::new(&mut this.stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = bufs.first().map_or(&[][..], |buf| buf);
        match ready!(this.poll_instead(cx, first)) {
            Some(result) => Poll::Ready(result),
            None => Pin::new(&mut this.stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hypers_own_answers_are_bare() {
        let date = "date: Tue, 01 Dec 2026 12:00:00 GMT\r\n";
        let head = |start: &str, fields: &str| format!("HTTP/1.1 {start}\r\n{fields}{date}\r\n");
        let of = |start, fields| bare(head(start, fields).as_bytes());
        let empty = "content-length: 0\r\n";
        assert_eq!(
            of("431 Request Header Fields Too Large", empty),
            Some(HeadFault::TooLarge)
        );
        let closing = "connection: close\r\ncontent-length: 0\r\n";
        assert_eq!(of("400 Bad Request", closing), Some(HeadFault::Malformed));
        assert_eq!(of("414 URI Too Long", empty), Some(HeadFault::UriTooLong));
        assert_eq!(of("404 Not Found", empty), None);
        assert_eq!(of("400 Bad Request", "content-length: 5\r\n"), None);
        let relayed = "x-request-id: 1\r\ncontent-length: 0\r\n";
        assert_eq!(of("400 Bad Request", relayed), None);
    }
}
