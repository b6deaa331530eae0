//! One thread that accepts and serves.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::running::{Active, Shared, tick_of};
use super::watch::{Order, Patience, Watch};
use super::{Handler, connection};
use crate::tls::ServerTls;

/// How long a client that was answered before its body was read may go on sending.
const LINGER: Duration = Duration::from_secs(30);

/// The same, once the server stops.
const LINGER_STOPPING: Duration = Duration::from_secs(2);

/// After an accept that failed for want of descriptors or memory; trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often the files of the certificate are compared with what is in use.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(10);

/// Clients at once that are told that there is no room; more are just closed.
const MAX_REFUSING: usize = 1024;

const REFUSAL_TIME: Duration = Duration::from_secs(2);

/// No dialect is known yet; the form is OpenAI's.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
content-type: application/json\r\ncontent-length: 123\r\nconnection: close\r\n\
retry-after: 1\r\nretry-after-ms: 1000\r\nx-should-retry: true\r\n\r\n\
{\"error\":{\"message\":\"the gateway has too many connections\",\"type\":\"overloaded\",\
\"param\":null,\"code\":\"too_many_connections\"}}";

thread_local! {
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
    static TASKS: RefCell<Option<TaskTracker>> = const { RefCell::new(None) };
}

/// Which worker the current thread is, from 0; `None` on other threads.
pub fn worker_index() -> Option<usize> {
    INDEX.get()
}

/// Runs `future` on the current worker beside what called it. A shutdown waits for it as it does
/// for an open request. Outside a worker it runs as a plain task of the current runtime.
pub fn background<F>(future: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    TASKS.with_borrow(|tasks| match tasks {
        Some(tasks) => tasks.spawn(future),
        None => tokio::spawn(future),
    });
}

/// Something to be done on a worker's thread.
pub(super) struct Job(pub(super) Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

/// What a worker is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Cut everything off.
    Abort,
    /// Serve a connection that another worker accepted.
    Adopt(StdStream, SocketAddr),
    /// Stop accepting and let what runs come to its end.
    Drain,
    /// Accept from these, and no longer from the former ones.
    Listen(Vec<StdListener>),
    /// Run this on the worker's thread.
    Run(Job),
}

/// The state of one worker. Lives on its thread.
pub(super) struct Worker<H> {
    index: usize,
    shared: Arc<Shared>,
    handler: H,
    clock: Arc<AtomicU64>,
    tasks: TaskTracker,
}

/// Runs a worker to the end of its server.
pub(super) fn run<H: Handler>(
    runtime: &Runtime,
    worker: Worker<H>,
    commands: UnboundedReceiver<Command>,
) {
    INDEX.set(Some(worker.index));
    TASKS.with_borrow_mut(|tasks| *tasks = Some(worker.tasks.clone()));
    runtime.block_on(worker.work(commands));
    TASKS.with_borrow_mut(|tasks| *tasks = None);
}

impl<H: Handler> Worker<H> {
    pub(super) fn new(index: usize, shared: Arc<Shared>, handler: H) -> Self {
        Self {
            index,
            shared,
            handler,
            clock: Arc::new(AtomicU64::new(1)),
            tasks: TaskTracker::new(),
        }
    }

    async fn work(self, mut commands: UnboundedReceiver<Command>) {
        let worker = Arc::new(self);
        let connections = Arc::new(Connections::default());
        let mut acceptors: Vec<JoinHandle<()>> = Vec::new();
        let mut active = worker.shared.active.load_full();
        let mut ticks = interval(tick_of(&active.settings));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut certificate_checks = interval(CERTIFICATE_CHECK);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Adopt(stream, address)) => {
                        if let Ok(stream) = TcpStream::from_std(stream) {
                            worker.serve(stream, address, &connections);
                        } else {
                            worker.closed();
                        }
                    }
                    Some(Command::Listen(listeners)) => {
                        let former = std::mem::take(&mut acceptors);
                        for listener in listeners {
                            acceptors.extend(worker.accept_from(listener, &connections));
                        }
                        stop(former).await;
                    }
                    Some(Command::Run(Job(job))) => job(),
                    Some(Command::Drain) => {
                        stop(std::mem::take(&mut acceptors)).await;
                        break;
                    }
                    Some(Command::Abort) | None => {
                        stop(std::mem::take(&mut acceptors)).await;
                        connections.order(Order::Abort);
                        break;
                    }
                },
                _ = certificate_checks.tick(), if worker.index == 0 => {
                    if let Some(tls) = active.tls.clone() {
                        worker.tasks.spawn_blocking(move || check_certificate(&tls));
                    }
                }
                _ = ticks.tick() => {
                    let latest = worker.shared.active.load_full();
                    if !Arc::ptr_eq(&latest, &active) {
                        active = latest;
                        ticks = interval(tick_of(&active.settings));
                        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                        ticks.reset();
                    }
                    worker.tick(&active, &connections);
                }
            }
        }
        worker.end(&active, &connections, &mut commands).await;
    }

    /// Lets what runs come to its end, and cuts off what does not within `drain_timeout`.
    async fn end(
        &self,
        active: &Active,
        connections: &Connections,
        commands: &mut UnboundedReceiver<Command>,
    ) {
        connections.order(Order::Finish);
        self.tasks.close();
        let mut working = self.shared.working.subscribe();
        let mut deadline = std::pin::pin!(sleep(active.settings.drain_timeout));
        let mut ticks = interval(tick_of(&active.settings));
        let mut idle = false;
        loop {
            tokio::select! {
                () = self.tasks.wait(), if !idle => {
                    idle = true;
                    self.shared.working.send_modify(|count| *count = count.saturating_sub(1));
                }
                // Other workers may use connections to vendors that live on this one, so it goes
                // on turning until all are done.
                _ = working.wait_for(|count| *count == 0) => break,
                () = &mut deadline => break,
                _ = ticks.tick() => self.tick(active, connections),
                command = commands.recv() => match command {
                    Some(Command::Adopt(..)) => self.closed(),
                    Some(Command::Drain | Command::Listen(_) | Command::Run(_)) => {}
                    Some(Command::Abort) | None => break,
                },
            }
        }
        if !idle {
            // Connections end at their next turn; background tasks are dropped with the runtime.
            connections.order(Order::Abort);
            let _ = timeout(Duration::from_millis(500), connections.closed()).await;
            self.shared
                .working
                .send_modify(|count| *count = count.saturating_sub(1));
        }
    }

    fn tick(&self, active: &Active, connections: &Connections) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        let tick = tick_of(&active.settings).as_millis().max(1);
        let ticks =
            |limit: Duration| u64::try_from(limit.as_millis().div_ceil(tick)).unwrap_or(u64::MAX);
        let patience = Patience {
            head: ticks(active.settings.header_timeout),
            idle: ticks(active.settings.idle_timeout),
            stalled_write: ticks(active.settings.idle_timeout),
            linger: ticks(LINGER),
            linger_stopping: ticks(LINGER_STOPPING),
        };
        connections.each(|watch| watch.inspect(&patience));
    }

    fn accept_from(
        self: &Arc<Self>,
        listener: StdListener,
        connections: &Arc<Connections>,
    ) -> Option<JoinHandle<()>> {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(error = %error, "a listener cannot be used");
                return None;
            }
        };
        let worker = Arc::clone(self);
        let connections = Arc::clone(connections);
        Some(tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, address)) => worker.accepted(stream, address, &connections),
                    Err(error) if is_the_clients(&error) => {}
                    Err(error) => {
                        tracing::warn!(error = %error, "a connection cannot be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }))
    }

    fn accepted(&self, stream: TcpStream, address: SocketAddr, connections: &Arc<Connections>) {
        self.shared.accepted.fetch_add(1, Ordering::Relaxed);
        let active = self.shared.active.load();
        if self.shared.open() >= active.settings.max_connections {
            return self.refuse(stream, active.tls.is_some());
        }
        let target = self.shared.least_loaded(self.index);
        if let Some(open) = self.shared.open.get(target) {
            open.fetch_add(1, Ordering::Relaxed);
        }
        if target == self.index {
            return self.serve(stream, address, connections);
        }
        let adopted = match (stream.into_std(), self.shared.queues.get(target)) {
            (Ok(stream), Some(queue)) => queue.send(Command::Adopt(stream, address)).is_ok(),
            (Err(_), _) | (_, None) => false,
        };
        if !adopted && let Some(open) = self.shared.open.get(target) {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells a client that there is no room. Accepting and saying so is better than leaving it in
    /// the kernel's queue: it can go elsewhere at once, and health checks see the truth.
    fn refuse(&self, mut stream: TcpStream, encrypted: bool) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        // A handshake costs more than a request; under overload that is not given away.
        if encrypted || self.shared.refusing.load(Ordering::Relaxed) >= MAX_REFUSING {
            return;
        }
        self.shared.refusing.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            let goodbye = async {
                stream.write_all(NO_ROOM).await?;
                stream.shutdown().await?;
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            // Whether the client took it makes no difference.
            let _ = timeout(REFUSAL_TIME, goodbye).await;
            shared.refusing.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn serve(&self, stream: TcpStream, address: SocketAddr, connections: &Arc<Connections>) {
        let watch = Arc::new(Watch::new(Arc::clone(&self.clock)));
        let entry = Entry {
            id: connections.add(Arc::clone(&watch)),
            connections: Arc::clone(connections),
            shared: Arc::clone(&self.shared),
            worker: self.index,
        };
        let served = connection::serve(
            stream,
            address,
            self.shared.active.load_full(),
            self.handler.clone(),
            watch,
            self.tasks.clone(),
        );
        self.tasks.spawn(async move {
            let _entry = entry;
            served.await;
        });
    }

    /// A connection that was counted is not served after all.
    fn closed(&self) {
        if let Some(open) = self.shared.open.get(self.index) {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn check_certificate(tls: &ServerTls) {
    match tls.reload_if_changed() {
        Ok(true) => tracing::info!("the certificate was reloaded"),
        Ok(false) => {}
        Err(error) => tracing::error!(
            error = &error as &dyn std::error::Error,
            "the changed certificate cannot be used; the former one stays"
        ),
    }
}

/// Errors that say something of one client, not of the listener.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Ends acceptors, and waits until their sockets are closed: only then is the address free.
async fn stop(acceptors: Vec<JoinHandle<()>>) {
    for acceptor in acceptors {
        acceptor.abort();
        // Cancelled is what was asked for.
        let _ = acceptor.await;
    }
}

/// The open connections of one worker.
#[derive(Debug, Default)]
struct Connections {
    state: std::sync::Mutex<Registry>,
    none_left: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    watches: HashMap<u64, Arc<Watch>>,
    /// Given to connections that come later as well.
    standing: Option<Order>,
}

impl Connections {
    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn add(&self, watch: Arc<Watch>) -> u64 {
        let mut registry = self.lock();
        registry.next = registry.next.wrapping_add(1);
        if let Some(order) = registry.standing {
            watch.command(order);
        }
        let id = registry.next;
        registry.watches.insert(id, watch);
        id
    }

    fn remove(&self, id: u64) {
        let mut registry = self.lock();
        registry.watches.remove(&id);
        if registry.watches.is_empty() {
            self.none_left.notify_waiters();
        }
    }

    fn order(&self, order: Order) {
        self.lock().standing = Some(order);
        self.each(|watch| watch.command(order));
    }

    fn each(&self, inspect: impl Fn(&Watch)) {
        for watch in self.lock().watches.values() {
            inspect(watch);
        }
    }

    async fn closed(&self) {
        loop {
            let empty = self.none_left.notified();
            if self.lock().watches.is_empty() {
                return;
            }
            empty.await;
        }
    }
}

/// A connection's place among those of its worker; given up on drop.
struct Entry {
    id: u64,
    connections: Arc<Connections>,
    shared: Arc<Shared>,
    worker: usize,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connections.remove(self.id);
        if let Some(open) = self.shared.open.get(self.worker) {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
