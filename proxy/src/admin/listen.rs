//! The admin plane's listener: few connections, short heads, bounded time.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::problem::Problem;
use super::router;
use super::state::AdminState;

/// Connections at once; others wait to be accepted.
const CONNECTIONS: usize = 128;

/// How long a request's head may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The largest request head in bytes.
const HEAD_BYTES: usize = 32 * 1024;

/// How long an answer may take to be made.
const ANSWER_TIME: Duration = Duration::from_mins(1);

/// How long requests under way have after the shutdown.
const CLOSING: Duration = Duration::from_secs(2);

/// Serves on a thread and runtime of its own, until `shutdown`.
///
/// # Errors
///
/// The thread or its runtime cannot be made, or the socket cannot be used.
pub fn start(
    listener: std::net::TcpListener,
    state: Arc<AdminState>,
    shutdown: CancellationToken,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()?;
    listener.set_nonblocking(true)?;
    let listener = {
        let _context = runtime.enter();
        TcpListener::from_std(listener)?
    };
    thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || {
            runtime.block_on(serve(listener, state, shutdown));
            // A read of the store may still run; nobody waits for its answer.
            runtime.shutdown_background();
        })
}

/// Serves until `shutdown`; then requests under way have two seconds.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>, shutdown: CancellationToken) {
    let router = router(&state);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let tasks = TaskTracker::new();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        // The semaphore is never closed.
        let accepted = async { (place.await, listener.accept().await) };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the admin plane cannot accept a connection");
                // Out of file descriptors, say: do not spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = router.clone().map_request(move |mut request: Request<_>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request
        });
        let shutdown = shutdown.clone();
        tasks.spawn(async move {
            connection(stream, service, shutdown).await;
            drop(place);
        });
    }
    tasks.close();
    // What is not done by then is dropped with the runtime.
    let _ = tokio::time::timeout(CLOSING, tasks.wait()).await;
}

async fn connection<S>(stream: TcpStream, service: S, shutdown: CancellationToken)
where
    S: tower::Service<Request<hyper::body::Incoming>, Response = Response> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: std::error::Error + Send + Sync,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(32 * 1024)
        .keep_alive_interval(HEAD_TIME);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    tokio::select! {
        // A client that breaks off is no event.
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// What holds for every answer: bounded time, nothing kept or guessed by browsers.
pub(super) async fn frame(request: Request<Body>, next: Next) -> Response {
    let answer = tokio::time::timeout(ANSWER_TIME, next.run(request)).await;
    let mut response = answer.unwrap_or_else(|_| Problem::too_slow().into_response());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
