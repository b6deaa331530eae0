//! One HTTP/1.1 connection to a vendor, driven by whoever uses it.
//!
//! hyper gives a connection as two halves: one that takes requests and one that moves bytes, meant
//! to run as a task. Here both are kept together, and each poll of a response or a body first moves
//! the connection's bytes. So there is no task to wake, and nothing to cancel but the value itself.
//!
//! The halves wake each other while they are polled. Passed on, each such wake-up would poll the
//! client's whole connection once more; instead [`Line`] remembers it and the poll goes round again.
//! Its states are those of `FuturesUnordered`: resting, polled, and polled with a wake-up pending.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::counts::OpenSlot;
use super::request::RequestBody;
use super::socket::Stream;
use super::timer::LazyTimer;
use crate::clock;

/// The most that a connection reads ahead. hyper's own 400 KiB would be held for every stream whose
/// client has stopped reading, and fresh memory of that size is faulted in page by page.
const BUFFER_BYTES: usize = 64 * 1024;

const RESTING: u8 = 0;
const POLLED: u8 = 1;
const POLLED_AND_WOKEN: u8 = 2;

/// What is known of a connection outside of hyper: who waits for it, and how far its call has come.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: AtomicU8,
    /// Who polls the connection now; `None` between calls.
    user: Mutex<Option<Waker>>,
    /// Something happened since the last poll.
    woken: AtomicBool,
    wrote: AtomicBool,
    write_failed: AtomicBool,
    body_sent: AtomicBool,
    /// When a piece of the request was last taken, in nanoseconds of our clock.
    progress: AtomicU64,
}

impl Line {
    fn begin(&self, user: &Waker) {
        let mut current = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        match current.as_ref() {
            Some(waker) if waker.will_wake(user) => {}
            Some(_) | None => *current = Some(user.clone()),
        }
        drop(current);
        self.woken.store(false, Ordering::Relaxed);
        self.state.store(POLLED, Ordering::Release);
    }

    /// Ends a poll. False when a wake-up came meanwhile: then poll again.
    fn end(&self) -> bool {
        self.state
            .compare_exchange(POLLED, RESTING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
            || {
                self.state.store(POLLED, Ordering::Release);
                false
            }
    }

    /// Ends a poll whose caller will come back by itself.
    fn leave(&self) {
        if self.state.swap(RESTING, Ordering::AcqRel) == POLLED_AND_WOKEN {
            self.woken.store(true, Ordering::Relaxed);
        }
    }

    fn rest(&self) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn begin_call(&self) {
        self.wrote.store(false, Ordering::Relaxed);
    }

    pub(super) fn begin_body(&self, empty: bool) {
        self.body_sent.store(empty, Ordering::Relaxed);
        self.progress.store(clock::now().0, Ordering::Relaxed);
    }

    pub(super) fn body_went_on(&self, ended: bool) {
        self.begin_body(ended);
    }

    /// When the request last went on, and whether all of it has been taken.
    pub(super) fn progress(&self) -> (Instant, Upload) {
        let at = whippletree_policies::time::Instant(self.progress.load(Ordering::Relaxed));
        let upload = if self.body_sent.load(Ordering::Relaxed) {
            Upload::Done
        } else {
            Upload::Running
        };
        (clock::tokio_instant(at), upload)
    }

    pub(super) fn wrote(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    /// Whether any byte of the current call has been written.
    pub(super) fn has_written(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }

    pub(super) fn write_failed(&self) {
        self.write_failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_write_failed(&self) -> bool {
        self.write_failed.load(Ordering::Relaxed)
    }
}

/// How far a request's body has been handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upload {
    Done,
    Running,
}

impl Wake for Line {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        loop {
            match self.state.compare_exchange(
                POLLED,
                POLLED_AND_WOKEN,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) | Err(POLLED_AND_WOKEN) => return,
                Err(_) => {}
            }
            self.woken.store(true, Ordering::Relaxed);
            let user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
            // A poll that began meanwhile may have looked before this wake-up.
            if self.state.load(Ordering::Acquire) != RESTING {
                continue;
            }
            if let Some(user) = user.as_ref() {
                user.wake_by_ref();
            }
            return;
        }
    }
}

/// An open connection. Dropping it closes it.
pub(super) struct Link {
    pub(super) sender: http1::SendRequest<RequestBody>,
    connection: http1::Connection<TokioIo<Stream>, RequestBody>,
    pub(super) line: Arc<Line>,
    waker: Waker,
    /// Set when hyper has ended the connection.
    ended: bool,
    pub(super) timer: LazyTimer,
    pub(super) expires: Instant,
    pub(super) idle_since: Instant,
    pub(super) calls: u64,
    // Given back in this order, after the socket is closed.
    slot: OpenSlot,
    pub(super) lease: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("ended", &self.ended)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) async fn new(
        stream: Stream,
        line: Arc<Line>,
        slot: OpenSlot,
        expires: Instant,
    ) -> hyper::Result<Self> {
        // Does no I/O for HTTP/1.1.
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            connection,
            waker: Waker::from(Arc::clone(&line)),
            line,
            ended: false,
            timer: LazyTimer::default(),
            expires,
            idle_since: super::now(),
            calls: 0,
            slot,
            lease: None,
        })
    }

    pub(super) fn begin_call(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.line.begin_call();
    }

    /// Moves bytes and polls `part`, until neither goes on without a wake-up from outside.
    pub(super) fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut part: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.line.begin(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        loop {
            if !self.ended
                && let Poll::Ready(result) = Pin::new(&mut self.connection).poll(&mut inner)
            {
                if let Err(error) = result {
                    tracing::debug!(error = %error, "connection to a vendor ended");
                }
                self.ended = true;
            }
            let polled = part(&mut inner);
            if polled.is_ready() {
                self.line.leave();
                return polled;
            }
            if self.line.end() {
                return Poll::Pending;
            }
        }
    }

    /// Wakes the caller once `deadline` has passed.
    pub(super) fn poll_deadline(&mut self, deadline: Instant) -> Poll<()> {
        self.timer
            .poll(&mut Context::from_waker(&self.waker), deadline)
    }

    /// Whether the connection can take another request after this one. Moves what bytes there are.
    pub(super) fn settle(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let pending = self
            .poll_with(&mut cx, |_| Poll::<()>::Pending)
            .is_pending();
        pending && self.is_usable()
    }

    fn is_usable(&self) -> bool {
        !self.ended && self.sender.is_ready() && !self.line.has_write_failed()
    }

    /// Puts the connection to rest between calls.
    pub(super) fn rest(&mut self) {
        self.idle_since = super::now();
        self.line.rest();
    }

    /// Whether a resting connection can take another call. Looks only where something has happened.
    pub(super) fn is_good(&mut self, at: Instant, idle_timeout: Duration) -> bool {
        if at >= self.expires || at.saturating_duration_since(self.idle_since) >= idle_timeout {
            return false;
        }
        if self.line.woken.load(Ordering::Relaxed) {
            let alive = self.settle();
            self.line.rest();
            return alive;
        }
        self.is_usable()
    }

    /// Moves a resting connection to the runtime of the current thread, so that its bytes wake the
    /// thread that uses it.
    pub(super) async fn rebind(self) -> io::Result<Self> {
        let Self {
            sender,
            connection,
            expires,
            idle_since,
            calls,
            slot,
            lease,
            line: _,
            waker: _,
            ended: _,
            timer: _,
        } = self;
        drop(sender);
        let parts = connection.into_parts();
        if !parts.read_buf.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let line = Arc::new(Line::default());
        let stream = parts.io.into_inner().rebind(&line)?;
        let link = Self::new(stream, line, slot, expires)
            .await
            .map_err(io::Error::other)?;
        Ok(Self {
            idle_since,
            calls,
            lease,
            ..link
        })
    }
}
