//! Receiving a request's body: how much, how slowly, and how much over all requests at once.
//!
//! A body is held whole, because routing, budgets and retries need all of it. So memory is what an
//! attacker or a busy day can exhaust; hence a limit per body, a deadline per pause, and one budget
//! of bytes over all requests, from which a body takes as it grows and gives back when the last
//! of it is dropped.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::clock;

/// What one permit of the budget stands for. Small bodies are rounded up to it.
const UNIT: u64 = 4 * 1024;

/// How long a body waits for others to be done when the budget is used up.
const BUDGET_WAIT: Duration = Duration::from_secs(1);

/// A buffer of the whole announced length is made only after this much came: an announcement alone
/// costs its sender nothing.
const TRUST_AFTER: usize = 1024 * 1024;

/// Bytes of request bodies held at once, over all requests.
#[derive(Clone, Debug)]
pub struct InflightBytes {
    units: Arc<Semaphore>,
    total: usize,
}

impl InflightBytes {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        let total = usize::try_from(bytes.div_ceil(UNIT))
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(total)),
            total,
        }
    }

    /// Bytes held now, in whole units of 4 KiB.
    pub fn held(&self) -> u64 {
        let units = self.total.saturating_sub(self.units.available_permits());
        u64::try_from(units)
            .unwrap_or(u64::MAX)
            .saturating_mul(UNIT)
    }
}

/// Bounds on one body.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveLimits {
    /// The largest body in bytes.
    pub max_body: u64,
    /// How long the body may pause.
    pub pause: Duration,
}

/// A whole body, and its share of the budget. Keep it as long as the bytes.
#[derive(Debug)]
pub struct Received {
    /// The body.
    pub bytes: Bytes,
    /// Given back on drop.
    pub share: Share,
}

/// Part of [`InflightBytes`], given back on drop.
#[derive(Debug, Default)]
pub struct Share(Option<OwnedSemaphorePermit>);

/// Why a body was not received.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// All memory for bodies is in use and did not become free within a second.
    #[error("the memory for request bodies is in use")]
    Busy,
    /// The client left.
    #[error("the client left while sending its body")]
    Gone(#[source] hyper::Error),
    /// Broken framing.
    #[error("the body's framing is broken")]
    Malformed(#[source] hyper::Error),
    /// The client paused for too long.
    #[error("the body paused for longer than {pause:?}")]
    TimedOut {
        /// The limit.
        pause: Duration,
    },
    /// More than the limit, announced or sent.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
        /// What was announced, or came before it was enough.
        received: u64,
    },
}

/// Receives a whole body.
///
/// One that is announced as too large is refused before any of it is read. A body that came in one
/// piece is not copied.
///
/// # Errors
///
/// See [`ReceiveError`]. On each the body is dropped, which closes an HTTP/1.1 connection behind the
/// answer; the answer still reaches a client that goes on sending.
pub async fn receive_body<B>(
    body: B,
    limits: ReceiveLimits,
    budget: &InflightBytes,
) -> Result<Received, ReceiveError>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    let announced = body.size_hint().exact();
    if let Some(length) = announced
        && length > limits.max_body
    {
        return Err(ReceiveError::TooLarge {
            limit: limits.max_body,
            received: length,
        });
    }
    let mut upload = Paced::new(body, limits.pause);
    let mut share = Share::default();
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    let mut received: u64 = 0;
    while let Some(piece) = upload.next().await? {
        let before = received;
        received = received.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if received > limits.max_body {
            return Err(ReceiveError::TooLarge {
                limit: limits.max_body,
                received,
            });
        }
        share.grow(budget, before, received).await?;
        if before == 0 {
            first = piece;
        } else {
            if joined.is_empty() {
                joined.reserve(capacity(first.len(), piece.len(), announced));
                joined.extend_from_slice(&first);
                first = Bytes::new();
            } else if joined.capacity() - joined.len() < piece.len() {
                joined.reserve(growth(joined.len(), piece.len(), announced));
            }
            joined.extend_from_slice(&piece);
        }
    }
    let bytes = if joined.is_empty() {
        first
    } else {
        joined.freeze()
    };
    Ok(Received { bytes, share })
}

/// Room for the first two pieces and what is likely to follow.
fn capacity(first: usize, second: usize, announced: Option<u64>) -> usize {
    let known = announced.and_then(|length| usize::try_from(length).ok());
    let trusted = known.map_or(0, |length| length.min(TRUST_AFTER));
    trusted.max(first.saturating_add(second))
}

/// Room to add once the first buffer is full: all the rest when its length is known, else double.
fn growth(held: usize, piece: usize, announced: Option<u64>) -> usize {
    let known = announced.and_then(|length| usize::try_from(length).ok());
    let rest = known.map_or(held, |length| length.saturating_sub(held));
    rest.max(piece)
}

impl Share {
    /// Takes what the bytes from `before` to `now` add.
    async fn grow(
        &mut self,
        budget: &InflightBytes,
        before: u64,
        now: u64,
    ) -> Result<(), ReceiveError> {
        let more = now.div_ceil(UNIT).saturating_sub(before.div_ceil(UNIT));
        let Ok(more) = u32::try_from(more) else {
            return Err(ReceiveError::Busy);
        };
        if more == 0 {
            return Ok(());
        }
        let units = Arc::clone(&budget.units);
        let taken = match Arc::clone(&units).try_acquire_many_owned(more) {
            Ok(permit) => permit,
            Err(_) => match timeout(BUDGET_WAIT, units.acquire_many_owned(more)).await {
                Ok(Ok(permit)) => permit,
                Ok(Err(_)) | Err(_) => return Err(ReceiveError::Busy),
            },
        };
        match &mut self.0 {
            Some(permit) => permit.merge(taken),
            none @ None => *none = Some(taken),
        }
        Ok(())
    }
}

/// A body whose pauses are bounded.
struct Paced<B> {
    body: B,
    pause: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    deadline: Option<Instant>,
}

impl<B> Paced<B>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    fn new(body: B, pause: Duration) -> Self {
        Self {
            body,
            pause,
            timer: None,
            deadline: None,
        }
    }

    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ReceiveError> {
        let mut yielded = false;
        self.deadline = None;
        poll_fn(|cx| {
            loop {
                match Pin::new(&mut self.body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(bytes) if bytes.is_empty() => {}
                        Ok(bytes) => return Poll::Ready(Ok(Some(bytes))),
                        // Trailers mean nothing to any vendor.
                        Err(_) => {}
                    },
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(failed(error))),
                    Poll::Ready(None) => return Poll::Ready(Ok(None)),
                    Poll::Pending if !yielded => {
                        // The connection is read by the same task right after this: most bodies
                        // are there at the second look and need no timer.
                        yielded = true;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Pending => return self.poll_pause(cx),
                }
            }
        })
        .await
    }

    fn poll_pause<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, ReceiveError>> {
        let pause = self.pause;
        let deadline = *self
            .deadline
            .get_or_insert_with(|| clock::tokio_instant(clock::now()) + pause);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // The timer is armed once and moved only when it fires early.
            if timer.deadline() >= deadline {
                return Poll::Ready(Err(ReceiveError::TimedOut { pause }));
            }
            timer.as_mut().reset(deadline);
        }
    }
}

fn failed(error: hyper::Error) -> ReceiveError {
    if error.is_parse() || error.is_parse_too_large() {
        return ReceiveError::Malformed(error);
    }
    // hyper wraps what its chunk decoder finds in an I/O error of its own.
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>()
            && matches!(
                io.kind(),
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput
            )
        {
            return ReceiveError::Malformed(error);
        }
        source = cause.source();
    }
    ReceiveError::Gone(error)
}
