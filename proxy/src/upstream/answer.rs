//! What comes back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::error::{Kind, Phase, Sent, UpstreamError};
use super::http2::StreamLease;
use super::link::Link;
use super::now;
use super::pool::Inner;
use super::request::Deadlines;
use super::timer::LazyTimer;

/// The head of a vendor's answer, and its body.
#[derive(Debug)]
pub struct Answer {
    /// Any status; redirects are answers like others.
    pub status: StatusCode,
    /// As they came.
    pub headers: HeaderMap,
    /// The body.
    pub body: UpstreamBody,
    /// Whether the connection had served another call before.
    pub reused: bool,
    /// How long the call waited for its turn in the pool.
    pub pool_wait: Duration,
    /// How long it took to open a connection; `None` when one was open.
    pub connect: Option<Duration>,
}

/// The body of a vendor's answer. Read it to the end (`None`) and its connection serves the next
/// call; drop it earlier and the vendor is told at once that nobody listens.
#[derive(Debug)]
pub struct UpstreamBody {
    state: State,
    pool: Arc<Inner>,
    idle: Duration,
    end: Instant,
    total: Instant,
    /// When silence becomes an error; set while the vendor is waited for.
    silence: Option<Instant>,
    reused: bool,
}

enum State {
    Ended,
    Http1 {
        link: Box<Link>,
        incoming: Incoming,
    },
    Http2 {
        incoming: Incoming,
        timer: LazyTimer,
        /// Counts the stream until the body is gone.
        _lease: StreamLease,
    },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ended => "Ended",
            Self::Http1 { .. } => "Http1",
            Self::Http2 { .. } => "Http2",
        })
    }
}

impl UpstreamBody {
    pub(super) fn http1(
        link: Box<Link>,
        incoming: Incoming,
        pool: Arc<Inner>,
        deadlines: &Deadlines,
    ) -> Self {
        let reused = link.calls > 1;
        let state = State::Http1 { link, incoming };
        Self::new(state, pool, deadlines, reused)
    }

    pub(super) fn http2(
        lease: StreamLease,
        incoming: Incoming,
        timer: LazyTimer,
        pool: Arc<Inner>,
        deadlines: &Deadlines,
    ) -> Self {
        let reused = lease.reused;
        let state = State::Http2 {
            incoming,
            timer,
            _lease: lease,
        };
        Self::new(state, pool, deadlines, reused)
    }

    fn new(state: State, pool: Arc<Inner>, deadlines: &Deadlines, reused: bool) -> Self {
        let mut body = Self {
            state,
            pool,
            idle: deadlines.timeouts.idle,
            end: deadlines.end,
            total: deadlines.total,
            silence: None,
            reused,
        };
        if body.incoming_ended() {
            body.finish();
        }
        body
    }

    /// The caller's deadline bounds the rest no longer; the provider's time-outs still do.
    pub const fn outlive_deadline(&mut self) {
        self.end = self.total;
    }

    /// The whole body, `limit` bytes at most.
    ///
    /// # Errors
    ///
    /// The body breaks off, is silent for too long, or is larger than `limit`.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, UpstreamError> {
        let expected = self.size_hint().exact();
        let mut first = Bytes::new();
        let mut joined = BytesMut::new();
        while let Some(piece) = self.next().await? {
            let held = first.len().saturating_add(joined.len());
            if held.saturating_add(piece.len()) > limit {
                let error = UpstreamError::new(Phase::Body, Kind::TooLarge, Sent::Answered);
                return Err(self.fail(error));
            }
            if held == 0 {
                first = piece;
                continue;
            }
            if joined.is_empty() {
                let known = expected.and_then(|length| usize::try_from(length).ok());
                let room = known
                    .unwrap_or(0)
                    .min(limit)
                    .max(held.saturating_add(piece.len()));
                joined.reserve(room);
                joined.extend_from_slice(&first);
                first = Bytes::new();
            }
            joined.extend_from_slice(&piece);
        }
        Ok(if joined.is_empty() {
            first
        } else {
            joined.freeze()
        })
    }

    /// The next bytes, never empty; `None` at the end.
    ///
    /// # Errors
    ///
    /// The body breaks off or is silent for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        std::future::poll_fn(|cx| self.poll_next(cx))
            .await
            .transpose()
    }

    /// The next bytes, never empty; `None` at the end and after an error.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let polled = match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Http1 { link, incoming } => {
                    link.poll_with(cx, |cx| Pin::new(&mut *incoming).poll_frame(cx))
                }
                State::Http2 { incoming, .. } => Pin::new(incoming).poll_frame(cx),
            };
            match polled {
                Poll::Ready(Some(Ok(frame))) => {
                    self.silence = None;
                    if self.incoming_ended() {
                        self.finish();
                    }
                    match frame.into_data() {
                        Ok(bytes) if !bytes.is_empty() => return Poll::Ready(Some(Ok(bytes))),
                        // Trailers and empty frames say nothing.
                        Ok(_) | Err(_) => {}
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let error = UpstreamError::from_hyper(Phase::Body, Sent::Answered, error);
                    return Poll::Ready(Some(Err(self.fail(error))));
                }
                Poll::Ready(None) => {
                    self.finish();
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    let Some(error) = self.poll_silence(cx) else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(Some(Err(self.fail(error))));
                }
            }
        }
    }

    fn incoming_ended(&self) -> bool {
        match &self.state {
            State::Ended => false,
            State::Http1 { incoming, .. } | State::Http2 { incoming, .. } => {
                incoming.is_end_stream()
            }
        }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Option<UpstreamError> {
        let idle = self.idle;
        // Counted from when the vendor is waited for: a slow client is not the vendor's fault.
        let silence = *self.silence.get_or_insert_with(|| now() + idle);
        let deadline = silence.min(self.end);
        let expired = match &mut self.state {
            State::Ended => false,
            State::Http1 { link, .. } => link.poll_deadline(deadline).is_ready(),
            State::Http2 { timer, .. } => timer.poll(cx, deadline).is_ready(),
        };
        let phase = if silence <= self.end {
            Phase::Idle
        } else {
            Phase::Total
        };
        expired.then(|| UpstreamError::new(phase, Kind::TimedOut, Sent::Answered))
    }

    /// The whole body came: its connection can serve another call.
    fn finish(&mut self) {
        if let State::Http1 { mut link, incoming } =
            std::mem::replace(&mut self.state, State::Ended)
        {
            drop(incoming);
            if link.settle() {
                self.pool.put(link);
            }
        }
    }

    fn fail(&mut self, error: UpstreamError) -> UpstreamError {
        self.state = State::Ended;
        let error = error.on_reused(self.reused);
        self.pool.counters.failed(&error);
        error
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        // A reader that stops at the dialect's own end mark may have left the framing's end unread.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        if let State::Http1 { link, incoming } = &mut self.state {
            let polled = link.poll_with(&mut cx, |cx| Pin::new(&mut *incoming).poll_frame(cx));
            if matches!(polled, Poll::Ready(None)) {
                self.finish();
            }
        }
        if !matches!(self.state, State::Ended) {
            self.pool.counters.cancelled();
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        self.get_mut()
            .poll_next(cx)
            .map(|polled| polled.map(|result| result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Ended => SizeHint::with_exact(0),
            State::Http1 { incoming, .. } | State::Http2 { incoming, .. } => incoming.size_hint(),
        }
    }
}
