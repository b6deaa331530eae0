//! What is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::link::Line;
use crate::config::Timeouts;

/// The most that is handed to a connection in one piece. Larger bodies are cut, without copying, so
/// that their progress can be seen: the wait for the answer begins when the last piece is taken.
const PIECE: usize = 256 * 1024;

/// One call of a vendor.
#[derive(Debug)]
pub struct Call {
    /// Usually POST.
    pub method: Method,
    /// The whole path; that of the provider's base address is not put before it.
    pub path_and_query: PathAndQuery,
    /// Sent as they are. `host` and `content-length` are added.
    pub headers: HeaderMap,
    /// The body.
    pub body: RequestBody,
    /// How long each phase may take.
    pub timeouts: Timeouts,
    /// The call ends then at the latest, whatever `timeouts` says.
    pub give_up_at: Option<whippletree_policies::time::Instant>,
}

/// A request's body in memory: one piece, or several that are sent one after the other.
#[derive(Debug, Default)]
pub struct RequestBody {
    pieces: VecDeque<Bytes>,
    left: u64,
    line: Option<Arc<Line>>,
}

impl RequestBody {
    /// No body.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Length in bytes of what has not been taken yet.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// What is left of it, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter()
    }

    /// Lets `line` see the progress.
    pub(super) fn attach(&mut self, line: &Arc<Line>) {
        line.begin_body(self.is_empty());
        self.line = Some(Arc::clone(line));
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        [bytes].into_iter().collect()
    }
}

impl FromIterator<Bytes> for RequestBody {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut body = Self::empty();
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            body.left = body.left.saturating_add(length);
            body.pieces.push_back(piece);
        }
        body
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(first) = this.pieces.front_mut() else {
            return Poll::Ready(None);
        };
        let piece = if first.len() > PIECE {
            first.split_to(PIECE)
        } else {
            this.pieces.pop_front().unwrap_or_default()
        };
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        this.left = this.left.saturating_sub(length);
        if let Some(line) = &this.line {
            line.body_went_on(this.is_empty());
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// When each phase of a call has to be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// Of the whole call, the caller's own deadline included.
    pub(super) end: Instant,
    /// Of the whole call by the provider's time-out alone.
    pub(super) total: Instant,
    pub(super) timeouts: Timeouts,
}

impl Deadlines {
    pub(super) fn new(call: &Call, start: Instant) -> Self {
        let total = start + call.timeouts.total;
        let end = match call.give_up_at {
            Some(instant) => total.min(crate::clock::tokio_instant(instant)),
            None => total,
        };
        Self {
            end,
            total,
            timeouts: call.timeouts,
        }
    }
}
