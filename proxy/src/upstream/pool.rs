//! The connections to one provider.
//!
//! Each worker has a stack of idle connections: the last one used is the warmest, and the ones at
//! the bottom grow old and are closed. A worker whose stack is empty takes the oldest of another
//! before it opens one, since a handshake costs the client round trips. What is taken moves to the
//! thief's runtime, so that its bytes wake the thread that needs them.
//!
//! A call needs a lease before it looks for a connection. There are `max_connections` leases,
//! handed out in the order of asking, so that a full pool is a wait of its own with an error of its
//! own. Idle connections hold none: whoever has a lease finds an idle connection or may open one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::HeaderValue;
use http::uri::{Authority, Scheme};
use rustls::pki_types::ServerName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_rustls::TlsConnector;

use super::counts::{Counters, Counting, OpenSlot, PoolCounts};
use super::dial::Dialer;
use super::error::{Kind, Phase, Sent, UpstreamError};
use super::http2::Streams;
use super::link::{Line, Link};
use super::now;
use super::socket::Stream;
use crate::config::{PoolSettings, Provider};
use crate::server::worker_index;
use crate::tls::{Offer, TlsError, client_config};

/// How often idle connections are looked through at least.
const SWEEP: Duration = Duration::from_secs(1);

/// After a failure to open a warm connection, how many sweeps pass at most before the next try.
const MAX_WARM_PAUSE: u32 = 32;

/// Connections to one provider. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) settings: PoolSettings,
    connect_timeout: Duration,
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) host: HeaderValue,
    dialer: Dialer,
    leases: Arc<Semaphore>,
    pub(super) counters: Counters,
    shards: Box<[Shard]>,
    pub(super) streams: Streams,
}

/// The idle connections of one worker; the last shard is that of all other threads.
#[derive(Default)]
struct Shard {
    idle: Mutex<VecDeque<Box<Link>>>,
    attended: AtomicBool,
}

/// What a call that holds a lease may use.
pub(super) enum Found {
    Link(Box<Link>),
    Slot(OpenSlot),
}

/// Whether a call accepts a connection that was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Any,
    New,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("authority", &self.authority)
            .field("counts", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool for `provider`, used by `workers` threads. Opens nothing yet; see [`Pool::attend`].
    ///
    /// # Errors
    ///
    /// The provider's `ca` cannot be used, or its host cannot be in a certificate.
    pub fn new(provider: &Provider, workers: usize) -> Result<Self, TlsError> {
        let base = &provider.base_url;
        let scheme = base.scheme().cloned().unwrap_or(Scheme::HTTPS);
        let authority = base
            .authority()
            .cloned()
            .unwrap_or_else(|| Authority::from_static("localhost"));
        let (tls, default_port) = if scheme == Scheme::HTTPS {
            let offer = if provider.pool.http2 {
                Offer::Http2
            } else {
                Offer::Http1
            };
            let config = client_config(provider.ca.as_deref(), offer)?;
            let bare = authority.host().trim_matches(['[', ']']);
            let name = ServerName::try_from(bare.to_owned()).map_err(|source| TlsError::Name {
                host: bare.to_owned(),
                source,
            })?;
            (Some((TlsConnector::from(config), name)), 443)
        } else {
            (None, 80)
        };
        let port = authority.port_u16().unwrap_or(default_port);
        let host = HeaderValue::from_str(match authority.as_str().rsplit_once('@') {
            Some((_, host)) => host,
            None => authority.as_str(),
        })
        .unwrap_or_else(|_| HeaderValue::from_static("localhost"));
        let max_connections = provider
            .pool
            .max_connections
            .clamp(1, Semaphore::MAX_PERMITS);
        let inner = Inner {
            dialer: Dialer::new(authority.host(), port, tls),
            settings: PoolSettings {
                max_connections,
                ..provider.pool
            },
            connect_timeout: provider.timeouts.connect,
            scheme,
            authority,
            host,
            leases: Arc::new(Semaphore::new(max_connections)),
            counters: Counters::default(),
            shards: (0..=workers).map(|_| Shard::default()).collect(),
            streams: Streams::new(provider.pool.http2),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Has the current thread's runtime look after the pool: close what is old, and keep `warm`
    /// connections ready. Done by itself at the first call; to have warm connections before it,
    /// call this once on each worker.
    pub fn attend(&self) {
        self.inner.attend();
    }

    /// Connections and calls, now and so far.
    pub fn counts(&self) -> PoolCounts {
        let inner = &self.inner;
        let leased = inner
            .settings
            .max_connections
            .saturating_sub(inner.leases.available_permits());
        PoolCounts {
            in_use: leased.saturating_add(inner.streams.active()),
            ..inner.counters.read()
        }
    }
}

impl Inner {
    pub(super) fn attend(self: &Arc<Self>) {
        let index = self.own();
        let Some(shard) = self.shards.get(index) else {
            return;
        };
        if !shard.attended.load(Ordering::Relaxed) && !shard.attended.swap(true, Ordering::AcqRel) {
            // Ends by itself within a sweep after the pool is gone.
            tokio::spawn(attend(Attendance {
                pool: Arc::downgrade(self),
                index,
            }));
        }
    }

    /// The shard of the current thread.
    pub(super) fn own(&self) -> usize {
        let others = self.shards.len().saturating_sub(1);
        worker_index().map_or(others, |index| index.min(others))
    }

    /// Waits for its turn, for `wait` and until `end` at most.
    pub(super) async fn lease(&self, end: Instant) -> Result<OwnedSemaphorePermit, UpstreamError> {
        if let Ok(lease) = Arc::clone(&self.leases).try_acquire_owned() {
            return Ok(lease);
        }
        let _waiting = Counting::new(&self.counters.waiting);
        let deadline = end.min(now() + self.settings.wait);
        match timeout_at(deadline, Arc::clone(&self.leases).acquire_owned()).await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(_)) | Err(_) => Err(UpstreamError::new(
                Phase::Pool,
                Kind::Saturated,
                Sent::Nothing,
            )),
        }
    }

    /// A connection, or the right to open one. The caller holds a lease.
    pub(super) async fn find(&self, want: Want) -> Found {
        let own = self.own();
        loop {
            if want == Want::Any {
                if let Some(link) = self.take(own, End::Newest) {
                    return Found::Link(link);
                }
                if let Some(link) = self.steal(own).await {
                    return Found::Link(link);
                }
            }
            if let Some(slot) = self.counters.try_open(self.settings.max_connections) {
                return Found::Slot(slot);
            }
            // All places are taken, and a lease is held without one: so one of them is idle, or
            // is just being closed.
            if want == Want::New {
                drop(self.take_oldest(own));
            }
            tokio::task::yield_now().await;
        }
    }

    async fn steal(&self, own: usize) -> Option<Box<Link>> {
        while self.counters.idle.load(Ordering::Relaxed) > 0 {
            let link = self.take_oldest(own)?;
            match link.rebind().await {
                Ok(link) => return Some(Box::new(link)),
                Err(error) => tracing::debug!(error = %error, "an idle connection was lost"),
            }
        }
        None
    }

    fn take_oldest(&self, own: usize) -> Option<Box<Link>> {
        let count = self.shards.len();
        (1..=count)
            .map(|step| (own + step) % count)
            .find_map(|index| self.take(index, End::Oldest))
    }

    fn take(&self, index: usize, end: End) -> Option<Box<Link>> {
        let shard = self.shards.get(index)?;
        let mut at = None;
        loop {
            let mut idle = shard.lock();
            let mut link = match end {
                End::Newest => idle.pop_back(),
                End::Oldest => idle.pop_front(),
            }?;
            drop(idle);
            self.counters.idle.fetch_sub(1, Ordering::Relaxed);
            if link.is_good(*at.get_or_insert_with(now), self.settings.idle_timeout) {
                return Some(link);
            }
        }
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Opens a connection. `line` is told of what happens on it.
    pub(super) async fn dial(
        &self,
        line: &Arc<Line>,
        deadline: Instant,
    ) -> Result<Stream, UpstreamError> {
        let stream = self.dialer.dial(line, deadline).await?;
        self.counters.created();
        Ok(stream)
    }

    pub(super) async fn open(
        &self,
        slot: OpenSlot,
        deadline: Instant,
    ) -> Result<Box<Link>, UpstreamError> {
        let line = Arc::new(Line::default());
        let stream = self.dial(&line, deadline).await?;
        self.link(stream, line, slot).await
    }

    pub(super) async fn link(
        &self,
        stream: Stream,
        line: Arc<Line>,
        slot: OpenSlot,
    ) -> Result<Box<Link>, UpstreamError> {
        match Link::new(stream, line, slot, self.expiry()).await {
            Ok(link) => Ok(Box::new(link)),
            Err(error) => Err(UpstreamError::from_hyper(
                Phase::Connect,
                Sent::Nothing,
                error,
            )),
        }
    }

    /// When a connection opened now has lived long enough: `max_lifetime`, give or take a tenth, so
    /// that connections opened together are not closed together.
    pub(super) fn expiry(&self) -> Instant {
        now()
            + self
                .settings
                .max_lifetime
                .mul_f64(rand::random_range(0.9..=1.1))
    }

    /// Puts a settled connection at rest.
    pub(super) fn put(&self, mut link: Box<Link>) {
        let lease = link.lease.take();
        link.rest();
        if let Some(shard) = self.shards.get(self.own())
            && link.idle_since < link.expires
        {
            shard.lock().push_back(link);
            self.counters.idle.fetch_add(1, Ordering::Relaxed);
        }
        // Only now may the next in line look for it.
        drop(lease);
    }

    /// Closes the idle connections of a shard that are old or that the vendor has closed.
    fn sweep(&self, index: usize) {
        let Some(shard) = self.shards.get(index) else {
            return;
        };
        let at = now();
        let mut idle = shard.lock();
        let before = idle.len();
        idle.retain_mut(|link| link.is_good(at, self.settings.idle_timeout));
        let closed = before.saturating_sub(idle.len());
        drop(idle);
        self.counters.idle.fetch_sub(closed, Ordering::Relaxed);
        self.streams.sweep(at, self.settings.idle_timeout);
    }

    /// The part of `warm` that a shard keeps ready. The shard of other threads keeps none, unless
    /// there are no workers.
    fn warm_share(&self, index: usize) -> usize {
        let keepers = self.shards.len().saturating_sub(1).max(1);
        if index >= keepers {
            return 0;
        }
        let extra = usize::from(index < self.settings.warm % keepers);
        (self.settings.warm / keepers).saturating_add(extra)
    }

    /// Opens connections until the shard has its share ready.
    async fn warm_up(self: &Arc<Self>, index: usize) -> Result<(), UpstreamError> {
        let share = self.warm_share(index);
        if share == 0 {
            return Ok(());
        }
        if self.streams.enabled() {
            return self.warm_streams(share).await;
        }
        while self
            .shards
            .get(index)
            .is_some_and(|shard| shard.lock().len() < share)
        {
            let Ok(lease) = Arc::clone(&self.leases).try_acquire_owned() else {
                return Ok(());
            };
            let Some(slot) = self.counters.try_open(self.settings.max_connections) else {
                return Ok(());
            };
            let mut link = self.open(slot, now() + self.connect_timeout).await?;
            if !link.settle() {
                return Ok(());
            }
            link.lease = Some(lease);
            self.put(link);
        }
        Ok(())
    }
}

/// From which end of the stack.
#[derive(Clone, Copy, Debug)]
enum End {
    Newest,
    Oldest,
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<Link>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A runtime's care for one shard; can be taken up again when the runtime ends.
struct Attendance {
    pool: Weak<Inner>,
    index: usize,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade()
            && let Some(shard) = pool.shards.get(self.index)
        {
            shard.attended.store(false, Ordering::Release);
        }
    }
}

async fn attend(attendance: Attendance) {
    let Some(pool) = attendance.pool.upgrade() else {
        return;
    };
    let mut sweeps = interval(
        SWEEP
            .min(pool.settings.idle_timeout / 4)
            .max(Duration::from_millis(10)),
    );
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    drop(pool);
    let (mut pause, mut skip) = (1_u32, 0_u32);
    loop {
        sweeps.tick().await;
        let Some(pool) = attendance.pool.upgrade() else {
            return;
        };
        pool.sweep(attendance.index);
        if skip > 0 {
            skip -= 1;
            continue;
        }
        match pool.warm_up(attendance.index).await {
            Ok(()) => pause = 1,
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    host = %pool.authority,
                    "no warm connection"
                );
                skip = pause;
                pause = pause.saturating_mul(2).min(MAX_WARM_PAUSE);
            }
        }
    }
}
