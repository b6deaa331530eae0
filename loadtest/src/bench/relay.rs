//! The least that a Rust proxy can be: hyper's server before hyper-util's client, and nothing else.
//!
//! It is the yardstick beside nginx: what the gateway costs above it is the price of its features.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Upstream = Client<HttpConnector, Incoming>;
type Body = BoxBody<Bytes, hyper::Error>;

/// Relays every request on `listen` to `upstream` until the process ends. `health`, when given,
/// answers every request with 200.
///
/// # Errors
///
/// When an address cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    upstream: SocketAddr,
    health: Option<SocketAddr>,
) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let relaying = accept(bound(listen).await?, move |request| {
        relay(client.clone(), upstream, request)
    });
    let Some(health) = health else {
        relaying.await;
        return Ok(());
    };
    let healthy = |_| async {
        Ok(Response::new(
            Empty::new().map_err(|never| match never {}).boxed(),
        ))
    };
    tokio::join!(relaying, accept(bound(health).await?, healthy));
    Ok(())
}

async fn bound(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr)
        .await
        .with_context(|| format!("listening on {addr}"))
}

async fn accept<F, A>(listener: TcpListener, answer: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Small writes must not wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        let service = service_fn(answer.clone());
        connections.spawn(async move {
            // The end of a connection is not an event here.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn relay(
    client: Upstream,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    match Uri::try_from(format!("http://{upstream}{path}")) {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return Ok(failed()),
    }
    match client.request(request).await {
        Ok(response) => Ok(response.map(BodyExt::boxed)),
        Err(_) => Ok(failed()),
    }
}

fn failed() -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
