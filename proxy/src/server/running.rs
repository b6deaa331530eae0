//! A server in operation: what its owner can ask and order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};

use super::worker::{self, Command, Job, Worker};
use super::{Handler, Listener};
use crate::config;
use crate::tls::ServerTls;

/// What new connections are served by. A reload swaps the whole.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) settings: config::Server,
    pub(super) tls: Option<Arc<ServerTls>>,
}

/// What all workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) active: ArcSwap<Active>,
    pub(super) queues: Vec<mpsc::UnboundedSender<Command>>,
    /// Open connections by worker.
    pub(super) open: Vec<AtomicUsize>,
    pub(super) refusing: AtomicUsize,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Workers that still have connections or tasks.
    pub(super) working: watch::Sender<usize>,
}

/// Connections of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open now.
    pub open: usize,
    /// Accepted since the start.
    pub accepted: u64,
    /// Answered with 503 since the start, because `max_connections` were open.
    pub refused: u64,
}

/// Listeners that every worker has a handle of.
#[derive(Debug)]
pub struct Shares(Vec<Vec<std::net::TcpListener>>);

/// A server in operation. Dropping it stops it at once; see [`Running::drain`].
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts `settings.workers` threads that serve `listeners`.
///
/// # Errors
///
/// A thread or its runtime cannot be made, or a socket cannot be shared.
pub fn start<H: Handler>(
    listeners: &[Listener],
    settings: config::Server,
    tls: Option<Arc<ServerTls>>,
    handler: &H,
) -> io::Result<Running> {
    let workers = settings.workers.max(1);
    let (queues, receivers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let shared = Arc::new(Shared {
        active: ArcSwap::from_pointee(Active { settings, tls }),
        queues,
        open: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
        refusing: AtomicUsize::new(0),
        accepted: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        working: watch::Sender::new(workers),
    });
    let mut running = Running {
        shared: Arc::clone(&shared),
        threads: Vec::with_capacity(workers),
    };
    running.listen(listeners)?;
    for (index, commands) in receivers.into_iter().enumerate() {
        let worker = Worker::new(index, Arc::clone(&shared), handler.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || worker::run(&runtime, worker, commands))?;
        running.threads.push(thread);
    }
    Ok(running)
}

impl Running {
    /// Connections of clients, now and so far.
    pub fn counts(&self) -> Counts {
        Counts {
            open: self.shared.open(),
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
        }
    }

    /// Serves new connections by other settings. What `workers` says is left as it was.
    pub fn reconfigure(&self, settings: config::Server, tls: Option<Arc<ServerTls>>) {
        self.shared.active.store(Arc::new(Active { settings, tls }));
    }

    /// Accepts from `listeners` from now on, and then no longer from the former ones. Connections
    /// that stand are not touched.
    ///
    /// # Errors
    ///
    /// A socket cannot be shared; the former ones stay.
    pub fn listen(&self, listeners: &[Listener]) -> io::Result<()> {
        self.accept_from(self.share(listeners)?);
        Ok(())
    }

    /// The part of [`Running::listen`] that may fail, for those who have more to change at once.
    ///
    /// # Errors
    ///
    /// A socket cannot be shared.
    pub fn share(&self, listeners: &[Listener]) -> io::Result<Shares> {
        self.shared
            .queues
            .iter()
            .map(|_| listeners.iter().map(Listener::share).collect())
            .collect::<io::Result<_>>()
            .map(Shares)
    }

    /// The part of [`Running::listen`] that cannot fail.
    pub fn accept_from(&self, shares: Shares) {
        for (queue, share) in self.shared.queues.iter().zip(shares.0) {
            // A worker that has ended needs no listener.
            let _ = queue.send(Command::Listen(share));
        }
    }

    /// Runs `job` on each worker, within its runtime: for what has to be there before the first
    /// request, such as warm connections.
    pub fn on_each_worker<F>(&self, job: F)
    where
        F: FnOnce() + Clone + Send + 'static,
    {
        self.command(|| Command::Run(Job(Box::new(job.clone()))));
    }

    /// Stops accepting, asks clients to close, and lets requests run for `drain_timeout`; then the
    /// rest is cut off. Returns at once; see [`Running::ended`].
    pub fn drain(&self) {
        self.command(|| Command::Drain);
    }

    /// Cuts everything off.
    pub fn abort(&self) {
        self.command(|| Command::Abort);
    }

    /// Waits until no connection and no background task is left.
    pub async fn ended(&self) {
        let mut working = self.shared.working.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _ = working.wait_for(|count| *count == 0).await;
    }

    /// Waits for the end, blocking the thread. The server must have been told to end.
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            // A worker that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }

    fn command(&self, command: impl Fn() -> Command) {
        for queue in &self.shared.queues {
            let _ = queue.send(command());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.abort();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Connections open over all workers.
    pub(super) fn open(&self) -> usize {
        self.open
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Who should serve a connection that worker `own` accepted: itself, unless another has clearly
    /// fewer. Passing one on costs a wake-up.
    pub(super) fn least_loaded(&self, own: usize) -> usize {
        let loads = self.open.iter().map(|count| count.load(Ordering::Relaxed));
        let least = loads.enumerate().min_by_key(|(_, load)| *load);
        let mine = self
            .open
            .get(own)
            .map_or(usize::MAX, |count| count.load(Ordering::Relaxed));
        match least {
            Some((index, load)) if load.saturating_add(2) <= mine => index,
            Some(_) | None => own,
        }
    }
}

/// How often a worker looks through its connections: often enough to keep the shortest deadline.
pub(super) fn tick_of(settings: &config::Server) -> Duration {
    let shortest = settings.header_timeout.min(settings.idle_timeout);
    (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
}
