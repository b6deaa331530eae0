//! HTTP/2 to a vendor: several shared connections, each run as a task.
//!
//! A vendor says how many streams a connection may carry. A request beyond that would wait in
//! silence inside the connection, behind streams that last minutes; so streams are counted, and when
//! all connections are full another is opened. A new connection carries nothing until the vendor's
//! settings have come, since only they say how many.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use super::counts::{Counting, OpenSlot};
use super::error::{Kind, Phase, Sent, UpstreamError};
use super::link::Line;
use super::now;
use super::pool::Inner;
use super::request::RequestBody;
use super::socket::Stream;
use crate::clock;

/// Streams on one connection at most, whatever the vendor allows: what breaks it breaks them all.
const MAX_STREAMS: usize = 100;

/// How often the vendor's settings are looked for on a new connection.
const SETTINGS_POLL: Duration = Duration::from_millis(1);

/// A connection with open streams on which nothing moves is probed.
const PROBE_EVERY: Duration = Duration::from_secs(20);

/// The HTTP/2 connections of a pool.
pub(super) struct Streams {
    /// False once the vendor has chosen HTTP/1.1 in a handshake.
    enabled: AtomicBool,
    state: Mutex<State>,
    changed: Arc<Notify>,
    active: AtomicUsize,
}

#[derive(Default)]
struct State {
    connections: Vec<Arc<Shared>>,
    opening: usize,
    queued: usize,
    /// How many attempts to open have failed, and how the last did.
    failures: u64,
    last_failure: Option<UpstreamError>,
}

/// hyper tells the number of streams that the vendor allows only on the half that is polled. `None`
/// once it has ended; only dropping it closes the other half.
type Driven = Arc<Mutex<Option<Connection<TokioIo<Stream>, RequestBody, TokioExecutor>>>>;

/// One connection.
pub(super) struct Shared {
    sender: SendRequest<RequestBody>,
    driven: Driven,
    active: AtomicUsize,
    idle_since: AtomicU64,
    expires: Instant,
    home: usize,
    used: AtomicBool,
}

/// One stream of a connection, counted while it lives.
pub(super) struct StreamLease {
    pool: Arc<Inner>,
    shared: Arc<Shared>,
    pub(super) reused: bool,
}

impl StreamLease {
    pub(super) fn sender(&self) -> SendRequest<RequestBody> {
        self.shared.sender.clone()
    }

    /// No further call is to use the connection.
    pub(super) fn discard(&self) {
        let mut state = self.pool.streams.lock();
        state
            .connections
            .retain(|shared| !Arc::ptr_eq(shared, &self.shared));
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.shared
            .idle_since
            .store(clock::now().0, Ordering::Relaxed);
        self.shared.active.fetch_sub(1, Ordering::AcqRel);
        self.pool.streams.active.fetch_sub(1, Ordering::Relaxed);
        self.pool.streams.changed.notify_one();
    }
}

impl Shared {
    fn has_room(&self, at: Instant) -> bool {
        let max = allowed(&self.driven).min(MAX_STREAMS);
        at < self.expires && !self.sender.is_closed() && self.active.load(Ordering::Acquire) < max
    }
}

/// How many streams the vendor allows now; none before its settings have come.
fn allowed(driven: &Driven) -> usize {
    let connection = driven.lock().unwrap_or_else(PoisonError::into_inner);
    connection
        .as_ref()
        .map_or(0, Connection::current_max_send_streams)
}

enum Turn {
    /// Open a connection.
    Open(Opening),
    /// Wait for one that is being opened; `failures` had failed by now.
    Coming { failures: u64 },
    /// Wait for a stream to end.
    Full,
}

impl Streams {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled: AtomicBool::new(enabled),
            state: Mutex::new(State::default()),
            changed: Arc::default(),
            active: AtomicUsize::new(0),
        }
    }

    pub(super) fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last failure to open, if there was one after `failures`.
    fn failure_since(&self, failures: u64) -> Option<UpstreamError> {
        let state = self.lock();
        (state.failures != failures)
            .then(|| state.last_failure.clone())
            .flatten()
    }

    /// Closes connections that are old, closed by the vendor, or idle for too long.
    pub(super) fn sweep(&self, at: Instant, idle_timeout: Duration) {
        self.lock().connections.retain(|shared| {
            let since =
                whippletree_policies::time::Instant(shared.idle_since.load(Ordering::Relaxed));
            let idle = shared.active.load(Ordering::Acquire) == 0
                && at.saturating_duration_since(clock::tokio_instant(since)) >= idle_timeout;
            // The task ends when the last sender is gone and the last stream is over.
            !idle && at < shared.expires && !shared.sender.is_closed()
        });
    }
}

/// An attempt to open a connection, counted while it lasts.
struct Opening {
    pool: Arc<Inner>,
    slot: Option<OpenSlot>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut state = self.pool.streams.lock();
        state.opening = state.opening.saturating_sub(1);
        drop(state);
        self.pool.streams.changed.notify_waiters();
    }
}

impl Inner {
    /// A stream; `None` when it turns out that the vendor speaks HTTP/1.1 only.
    pub(super) async fn stream(
        self: &Arc<Self>,
        connect: Duration,
        end: Instant,
    ) -> Result<Option<StreamLease>, UpstreamError> {
        let mut full_since = None;
        loop {
            if !self.streams.enabled() {
                return Ok(None);
            }
            let changed = self.streams.changed.notified();
            if let Some(lease) = self.take_stream() {
                return Ok(Some(lease));
            }
            match self.turn() {
                Turn::Open(opening) => {
                    let lease = self.open_streams(opening, end.min(now() + connect)).await?;
                    if lease.is_some() {
                        return Ok(lease);
                    }
                }
                Turn::Coming { failures } => {
                    // Whoever opens it is bound by its own deadline and tells how it went.
                    let queued = Queued::new(self);
                    let waited = timeout_at(end, changed).await;
                    drop(queued);
                    if waited.is_err() {
                        return Err(refusal(Phase::Connect, Kind::TimedOut));
                    }
                    if let Some(error) = self.streams.failure_since(failures) {
                        return Err(error);
                    }
                }
                Turn::Full => {
                    let since: Instant = *full_since.get_or_insert_with(now);
                    let queued = Queued::new(self);
                    let waited = timeout_at(end.min(since + self.settings.wait), changed).await;
                    drop(queued);
                    if waited.is_err() {
                        return Err(refusal(Phase::Pool, Kind::Saturated));
                    }
                }
            }
        }
    }

    /// A stream of an open connection: of one that this worker opened, else of another's.
    fn take_stream(self: &Arc<Self>) -> Option<StreamLease> {
        let (own, at) = (self.own(), now());
        let state = self.streams.lock();
        let open = || {
            state
                .connections
                .iter()
                .filter(|shared| shared.has_room(at))
        };
        let shared = open()
            .find(|shared| shared.home == own)
            .or_else(|| open().next())?;
        // Under the lock, so that nobody else takes the same room.
        shared.active.fetch_add(1, Ordering::AcqRel);
        self.streams.active.fetch_add(1, Ordering::Relaxed);
        Some(StreamLease {
            pool: Arc::clone(self),
            shared: Arc::clone(shared),
            reused: shared.used.swap(true, Ordering::Relaxed),
        })
    }

    /// Opens a connection, unless those being opened have room enough for all who wait.
    fn turn(self: &Arc<Self>) -> Turn {
        let mut state = self.streams.lock();
        let failures = state.failures;
        let coming = state.opening.saturating_mul(MAX_STREAMS);
        if state.queued < coming {
            return Turn::Coming { failures };
        }
        match self.counters.try_open(self.settings.max_connections) {
            None if coming > 0 => Turn::Coming { failures },
            None => Turn::Full,
            Some(slot) => {
                state.opening = state.opening.saturating_add(1);
                Turn::Open(Opening {
                    pool: Arc::clone(self),
                    slot: Some(slot),
                })
            }
        }
    }

    async fn open_streams(
        self: &Arc<Self>,
        mut opening: Opening,
        deadline: Instant,
    ) -> Result<Option<StreamLease>, UpstreamError> {
        let result = self.try_open_streams(&mut opening, deadline).await;
        if let Err(error) = &result {
            let mut state = self.streams.lock();
            state.failures = state.failures.wrapping_add(1);
            state.last_failure = Some(error.clone());
        }
        drop(opening);
        result?;
        Ok(self.take_stream())
    }

    async fn try_open_streams(
        self: &Arc<Self>,
        opening: &mut Opening,
        deadline: Instant,
    ) -> Result<(), UpstreamError> {
        let Some(slot) = opening.slot.take() else {
            return Ok(());
        };
        let line = Arc::new(Line::default());
        let stream = self.dial(&line, deadline).await?;
        if matches!(stream, Stream::Tls(_)) && !stream.chose_http2() {
            self.streams.enabled.store(false, Ordering::Relaxed);
            let mut link = self.link(stream, line, slot).await?;
            if link.settle() {
                self.put(link);
            }
            return Ok(());
        }
        let (sender, driven) =
            handshake(stream, slot, Arc::clone(&self.streams.changed), deadline).await?;
        self.streams.lock().connections.push(Arc::new(Shared {
            sender,
            driven,
            active: AtomicUsize::new(0),
            idle_since: AtomicU64::new(clock::now().0),
            expires: self.expiry(),
            home: self.own(),
            used: AtomicBool::new(false),
        }));
        Ok(())
    }

    /// Keeps `share` connections of this worker open.
    pub(super) async fn warm_streams(self: &Arc<Self>, share: usize) -> Result<(), UpstreamError> {
        let own = self.own();
        let open = || {
            let state = self.streams.lock();
            let own = state.connections.iter().filter(|shared| shared.home == own);
            own.count()
        };
        while self.streams.enabled() && open() < share {
            let Turn::Open(mut opening) = self.turn() else {
                return Ok(());
            };
            let deadline = now() + self.connect_timeout();
            self.try_open_streams(&mut opening, deadline).await?;
        }
        Ok(())
    }
}

fn refusal(phase: Phase, kind: Kind) -> UpstreamError {
    UpstreamError::new(phase, kind, Sent::Nothing)
}

async fn handshake(
    stream: Stream,
    slot: OpenSlot,
    changed: Arc<Notify>,
    deadline: Instant,
) -> Result<(SendRequest<RequestBody>, Driven), UpstreamError> {
    let timed_out = || refusal(Phase::Connect, Kind::TimedOut);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        // Nothing is sent before the vendor's settings say how many streams there may be.
        .initial_max_send_streams(0)
        .keep_alive_interval(PROBE_EVERY)
        .keep_alive_timeout(PROBE_EVERY);
    let handshake = builder.handshake(TokioIo::new(stream));
    let (sender, connection) = match timeout_at(deadline, handshake).await {
        Ok(Ok(halves)) => halves,
        Ok(Err(error)) => {
            let error = UpstreamError::from_hyper(Phase::Connect, Sent::Nothing, error);
            return Err(error);
        }
        Err(_) => return Err(timed_out()),
    };
    let driven = Arc::new(Mutex::new(Some(connection)));
    let connection = Arc::clone(&driven);
    // Ends when its senders and streams are gone.
    tokio::spawn(async move {
        let end = poll_fn(|cx| {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = connection.as_mut() else {
                return Poll::Ready(Ok(()));
            };
            let end = Pin::new(running).poll(cx);
            if end.is_ready() {
                *connection = None;
            }
            end
        });
        if let Err(error) = end.await {
            tracing::debug!(error = %error, "connection to a vendor ended");
        }
        drop(slot);
        changed.notify_one();
    });
    while allowed(&driven) == 0 {
        if sender.is_closed() {
            return Err(refusal(Phase::Connect, Kind::Closed));
        }
        if now() >= deadline {
            return Err(timed_out());
        }
        sleep(SETTINGS_POLL).await;
    }
    Ok((sender, driven))
}

/// A call that waits for a stream, counted.
struct Queued<'a> {
    pool: &'a Inner,
    _waiting: Counting<'a>,
}

impl<'a> Queued<'a> {
    fn new(pool: &'a Inner) -> Self {
        let mut state = pool.streams.lock();
        state.queued = state.queued.saturating_add(1);
        drop(state);
        Self {
            pool,
            _waiting: Counting::new(&pool.counters.waiting),
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.streams.lock();
        state.queued = state.queued.saturating_sub(1);
    }
}
