//! One client's connection, from the handshake to the close.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use super::refuse::{HeadFault, HeadLimits, Refusing, in_full};
use super::running::Active;
use super::socket::{Socket, Stream};
use super::watch::{Order, Watch};
use super::{Encryption, Handler, Peer};

/// HTTP/2 streams at once on one connection. RFC 9113 asks for at least 100.
const MAX_STREAMS: u32 = 256;

/// Bytes that a client may send on one stream before they are asked for; as large as hyper's.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that a client may send on one connection before they are asked for.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

const HTTP2_PREFACE: &[u8] = b"PRI";

/// Serves one connection to its end. Dropping the future closes it.
pub(super) async fn serve<H: Handler>(
    tcp: TcpStream,
    address: SocketAddr,
    active: Arc<Active>,
    handler: H,
    watch: Arc<Watch>,
    tasks: TaskTracker,
) {
    let socket = Socket::new(tcp, Arc::clone(&watch));
    let Some(Opened {
        stream,
        encryption,
        version,
    }) = unless_ordered(&watch, open(socket, &active, &watch)).await
    else {
        return;
    };
    let peer = Peer {
        address,
        encryption,
    };
    match version {
        Version::Http1 => {
            let refusing = handler.clone();
            let refuse = move |fault| in_full(refusing.refuse(fault));
            let stream = Refusing::new(stream, Arc::clone(&watch), refuse);
            let service = requests(handler, peer, Arc::clone(&watch), None);
            serve_http1(stream, service, &active, &watch).await;
        }
        Version::Http2 => {
            let limits = HeadLimits::of(&active.settings);
            let service = requests(handler, peer, Arc::clone(&watch), Some(limits));
            serve_http2(stream, service, &active, &watch, tasks).await;
        }
    }
}

struct Opened {
    stream: Stream,
    encryption: Encryption,
    version: Version,
}

#[derive(Clone, Copy)]
enum Version {
    Http1,
    Http2,
}

/// The handshake, and which HTTP the client speaks: by ALPN, else by its first bytes.
async fn open(socket: Socket, active: &Active, watch: &Watch) -> io::Result<Opened> {
    let Some(tls) = &active.tls else {
        let version = first_bytes(&socket).await?;
        return Ok(Opened {
            stream: Stream::Plain(socket),
            encryption: Encryption::None,
            version,
        });
    };
    let stream = tls.acceptor().accept(socket).await?;
    watch.handshake_ended();
    let (_, session) = stream.get_ref();
    let version = match session.alpn_protocol() {
        Some(b"h2") => Version::Http2,
        Some(_) | None => Version::Http1,
    };
    let encryption = match session.peer_certificates() {
        Some(_) => Encryption::MutualTls,
        None => Encryption::Tls,
    };
    Ok(Opened {
        stream: Stream::Tls(Box::new(stream)),
        encryption,
        version,
    })
}

async fn first_bytes(socket: &Socket) -> io::Result<Version> {
    let mut first = [0_u8; HTTP2_PREFACE.len()];
    loop {
        let read = socket.peek(&mut first).await?;
        let seen = first.get(..read).unwrap_or_default();
        if seen.is_empty() || !HTTP2_PREFACE.starts_with(seen) {
            return Ok(Version::Http1);
        }
        if seen.len() == HTTP2_PREFACE.len() {
            return Ok(Version::Http2);
        }
        // The socket stays readable, so there is nothing to wait for but time.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// `future`'s result; `None` when it failed or the worker gave an order first.
async fn unless_ordered<T>(
    watch: &Watch,
    future: impl Future<Output = io::Result<T>>,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut registered = false;
    poll_fn(|cx| {
        if poll_order(watch, cx, &mut registered) > Order::None {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Result::ok)
    })
    .await
}

/// The standing order. Registers for the next one when first called.
fn poll_order(watch: &Watch, cx: &Context<'_>, registered: &mut bool) -> Order {
    if !*registered {
        watch.wake_with(cx.waker());
        *registered = true;
    }
    watch.order()
}

async fn serve_http1<S, B, F>(stream: Refusing<F>, service: S, active: &Active, watch: &Watch)
where
    F: Fn(HeadFault) -> Bytes + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<Answered<B>>, Error = Infallible>,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static,
{
    let settings = &active.settings;
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_headers(settings.max_headers)
        .max_header_size(settings.max_head)
        .serve_connection(TokioIo::new(stream), service);
    let mut registered = false;
    let mut finishing = false;
    let end = poll_fn(|cx| {
        match poll_order(watch, cx, &mut registered) {
            Order::None => {}
            Order::Finish if finishing => {}
            Order::Finish => {
                finishing = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            Order::Expire => return Poll::Ready(End::Expired),
            Order::Abort => return Poll::Ready(End::Closed),
        }
        Pin::new(&mut connection).poll(cx).map(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %error, "client connection ended early");
            }
            End::Closed
        })
    })
    .await;
    if matches!(end, End::Expired) {
        expire(connection.into_parts().io.into_inner(), watch).await;
    }
}

enum End {
    Closed,
    Expired,
}

/// Tells a client that its head took too long; one that has sent nothing at all is told nothing.
async fn expire<F>(stream: Refusing<F>, watch: &Watch)
where
    F: Fn(HeadFault) -> Bytes + Unpin,
{
    if !watch.head_begun() {
        return;
    }
    let told = stream.refuse(HeadFault::TimedOut);
    let mut stream = stream.into_inner();
    let mut registered = false;
    let mut goodbye = std::pin::pin!(async {
        stream.write_all(&told).await?;
        stream.shutdown().await
    });
    poll_fn(|cx| {
        if poll_order(watch, cx, &mut registered) == Order::Abort {
            return Poll::Ready(());
        }
        goodbye.as_mut().poll(cx).map(|_: io::Result<()>| ())
    })
    .await;
}

async fn serve_http2<S, B>(
    stream: Stream,
    service: S,
    active: &Active,
    watch: &Watch,
    tasks: TaskTracker,
) where
    S: Service<
            Request<Incoming>,
            Response = Response<Answered<B>>,
            Error = Infallible,
            Future: Send + 'static,
        >,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
{
    watch.multiplexes();
    let settings = &active.settings;
    let mut connection = http2::Builder::new(Tracked(tasks))
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(HeadLimits::of(settings).list_size())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(stream), service);
    let mut registered = false;
    let mut finishing = false;
    poll_fn(|cx| {
        match poll_order(watch, cx, &mut registered) {
            Order::None => {}
            Order::Finish | Order::Expire if finishing => {}
            Order::Finish | Order::Expire => {
                finishing = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            Order::Abort => return Poll::Ready(()),
        }
        Pin::new(&mut connection).poll(cx).map(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %error, "client connection ended early");
            }
        })
    })
    .await;
}

/// Runs the streams of an HTTP/2 connection as tasks that a shutdown waits for.
#[derive(Clone, Debug)]
struct Tracked(TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// The requests of one connection. Over HTTP/1.1, hyper itself keeps the limits on heads.
fn requests<H: Handler>(
    handler: H,
    peer: Peer,
    watch: Arc<Watch>,
    limits: Option<HeadLimits>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Answered<H::Body>>,
    Error = Infallible,
    Future: Send + 'static,
> {
    service_fn(move |request: Request<Incoming>| {
        let in_flight = InFlight::new(Arc::clone(&watch));
        let request = request.map(|incoming| Upload {
            incoming,
            watch: Arc::clone(&watch),
        });
        let fault = limits.and_then(|limits| limits.fault(&request));
        let answer = match fault {
            None => Answer::Pending(handler.clone().handle(request, peer)),
            Some(fault) => Answer::Refused(handler.refuse(fault)),
        };
        async move {
            let answer = match answer {
                Answer::Pending(answer) => answer.await,
                Answer::Refused(answer) => answer,
            };
            Ok(answer.map(|body| Answered {
                body,
                _in_flight: in_flight,
            }))
        }
    })
}

enum Answer<F, R> {
    Pending(F),
    Refused(R),
}

/// Counts a request until its answer's last byte was handed over.
#[derive(Debug)]
struct InFlight(Arc<Watch>);

impl InFlight {
    fn new(watch: Arc<Watch>) -> Self {
        watch.request_began();
        Self(watch)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

/// The body of an answer, counted.
#[derive(Debug)]
struct Answered<B> {
    body: B,
    _in_flight: InFlight,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request. Dropping it before its end closes an HTTP/1.1 connection behind the
/// answer, since nobody knows how much would be left to read.
#[derive(Debug)]
pub struct Upload {
    incoming: Incoming,
    watch: Arc<Watch>,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.get_mut().incoming).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.incoming.is_end_stream() {
            self.watch.body_left_unread();
        }
    }
}
