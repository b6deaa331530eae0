//! The body of a response: whole, or relayed as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::pipeline::early::Early;
use crate::pipeline::relay::Passage;
use crate::pipeline::run::Attended;
use crate::pipeline::twin::Following;

/// Why a response's body ended early: the reason is on record, the client sees the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vendor's answer broke off")]
pub struct Cut;

/// What is sent to a client.
#[derive(Debug)]
pub enum Body {
    /// Held whole; `None` once handed out.
    Whole(Option<Bytes>),
    /// An event stream, read on its way.
    Relay(Attended),
    /// A stream whose head went out before it had begun.
    Early(Box<Early>),
    /// The stream of another request, which this one repeats.
    Following(Box<Following>),
    /// An answer of unknown content, passed on as it comes.
    Passage(Box<Passage>),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Relay(relay) => relay
                .poll_chunk(cx)
                .map(|chunk| chunk.map(|b| Ok(Frame::data(b)))),
            Self::Early(early) => early
                .poll_chunk(cx)
                .map(|chunk| chunk.map(|r| r.map(Frame::data))),
            Self::Following(following) => following
                .poll_chunk(cx)
                .map(|chunk| chunk.map(|r| r.map(Frame::data))),
            Self::Passage(passage) => passage
                .poll_chunk(cx)
                .map(|chunk| chunk.map(|r| r.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Early(_) | Self::Following(_) | Self::Relay(_) | Self::Passage(_) => {
                SizeHint::default()
            }
        }
    }
}
