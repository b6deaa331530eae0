//! HTTP/2 to vendors: streams are counted, connections are added, refusals are told apart.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; what fails is the test"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use whippletree::config::{PoolSettings, Provider, Timeouts};
use whippletree::upstream::{Call, Kind, Phase, Pool, Sent};

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};

const SETTINGS: PoolSettings = PoolSettings {
    max_connections: 8,
    warm: 0,
    http2: true,
    wait: Duration::from_secs(5),
    idle_timeout: Duration::from_mins(1),
    max_lifetime: Duration::from_mins(10),
};

fn pool_of(address: SocketAddr, pool: PoolSettings) -> Pool {
    let provider = Provider {
        id: "vendor".into(),
        kind: "openai",
        base_url: format!("http://{address}").parse().unwrap(),
        keys: Vec::new(),
        timeouts: TIMEOUTS,
        pool,
        apis: Vec::new(),
        error_classes: std::collections::BTreeMap::new(),
        ca: None,
    };
    Pool::new(&provider, 0).unwrap()
}

fn call(body: Bytes) -> Call {
    Call {
        method: Method::POST,
        path_and_query: "/v1/chat/completions".parse().unwrap(),
        headers: HeaderMap::new(),
        body: body.into(),
        timeouts: TIMEOUTS,
        give_up_at: None,
    }
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Answers with the request's length once released. Allows `max_streams` on a connection.
struct Vendor {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    release: watch::Sender<bool>,
    dropped: mpsc::UnboundedReceiver<()>,
}

struct SaysWhenDropped(mpsc::UnboundedSender<()>, Arc<AtomicUsize>);

impl Drop for SaysWhenDropped {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
        let _ = self.0.send(());
    }
}

async fn vendor(max_streams: u32) -> Vendor {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (release, released) = watch::channel(false);
    let (drops, dropped) = mpsc::unbounded_channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let (count, begun) = (Arc::clone(&connections), Arc::clone(&running));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let (released, drops, begun) = (released.clone(), drops.clone(), begun.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (mut released, begun) = (released.clone(), begun.clone());
                begun.fetch_add(1, Ordering::SeqCst);
                let guard = SaysWhenDropped(drops.clone(), begun);
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    released.wait_for(|released| *released).await.unwrap();
                    drop(guard);
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(body.len().to_string())))
                }
            });
            tokio::spawn(
                http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(max_streams)
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    Vendor {
        address,
        connections,
        running,
        release,
        dropped,
    }
}

#[tokio::test]
async fn streams_beyond_a_connections_limit_get_another_connection() {
    let vendor = vendor(10).await;
    let pool = pool_of(vendor.address, SETTINGS);
    let calls: Vec<_> = (0..35)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let answer = pool.send(call(Bytes::from_static(b"ping"))).await.unwrap();
                answer.body.collect(100).await.unwrap()
            })
        })
        .collect();
    until(|| vendor.running.load(Ordering::SeqCst) == 35).await;
    assert_eq!(vendor.connections.load(Ordering::SeqCst), 4);
    assert_eq!((pool.counts().open, pool.counts().in_use), (4, 35));
    vendor.release.send(true).unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap(), "4");
    }
    until(|| pool.counts().in_use == 0).await;
}

#[tokio::test]
async fn a_pool_whose_connections_are_full_is_saturated() {
    let vendor = vendor(2).await;
    let mut settings = SETTINGS;
    settings.max_connections = 2;
    settings.wait = Duration::from_millis(50);
    let pool = pool_of(vendor.address, settings);
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.send(call(Bytes::new())).await.map(|_| ()) })
        })
        .collect();
    until(|| vendor.running.load(Ordering::SeqCst) == 4).await;
    let error = pool.send(call(Bytes::new())).await.unwrap_err();
    let what = (error.phase, error.kind, error.sent);
    assert_eq!(what, (Phase::Pool, Kind::Saturated, Sent::Nothing));
    vendor.release.send(true).unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    pool.send(call(Bytes::new())).await.unwrap();
}

#[tokio::test]
async fn one_who_waits_gets_the_stream_that_becomes_free() {
    let vendor = vendor(1).await;
    let mut settings = SETTINGS;
    settings.max_connections = 1;
    let pool = pool_of(vendor.address, settings);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let answer = pool.send(call(Bytes::new())).await.unwrap();
                answer.body.collect(100).await.unwrap()
            })
        })
        .collect();
    until(|| pool.counts().waiting == 19).await;
    vendor.release.send(true).unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap(), "0");
    }
    assert_eq!(vendor.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn large_bodies_pass_side_by_side() {
    let vendor = vendor(100).await;
    vendor.release.send(true).unwrap();
    let pool = pool_of(vendor.address, SETTINGS);
    let body = Bytes::from(vec![b'x'; 8 << 20]);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (pool, body) = (pool.clone(), body.clone());
            tokio::spawn(async move {
                let answer = pool.send(call(body)).await.unwrap();
                answer.body.collect(100).await.unwrap()
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), (8 << 20).to_string());
    }
}

#[tokio::test]
async fn dropping_a_call_resets_its_stream_and_leaves_the_others() {
    let mut vendor = vendor(100).await;
    let pool = pool_of(vendor.address, SETTINGS);
    let start =
        |pool: Pool| tokio::spawn(async move { pool.send(call(Bytes::new())).await.map(|_| ()) });
    let (left, kept) = (start(pool.clone()), start(pool.clone()));
    until(|| vendor.running.load(Ordering::SeqCst) == 2).await;
    left.abort();
    vendor.dropped.recv().await.unwrap();
    assert_eq!(vendor.running.load(Ordering::SeqCst), 1);
    vendor.release.send(true).unwrap();
    kept.await.unwrap().unwrap();
}

#[tokio::test]
async fn all_who_wait_for_a_connection_learn_that_it_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let pool = pool_of(address, SETTINGS);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.send(call(Bytes::new())).await.unwrap_err() })
        })
        .collect();
    for call in calls {
        let error = call.await.unwrap();
        let what = (error.phase, error.kind, error.sent);
        assert_eq!(what, (Phase::Connect, Kind::Refused, Sent::Nothing));
    }
    assert_eq!(pool.counts().open, 0);
}

#[tokio::test]
async fn a_peer_that_does_not_speak_http2_is_an_error_of_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
        }
    });
    let error = pool_of(address, SETTINGS)
        .send(call(Bytes::new()))
        .await
        .unwrap_err();
    assert_eq!((error.phase, error.sent), (Phase::Connect, Sent::Nothing));
}

#[tokio::test]
async fn idle_connections_are_closed_in_time() {
    let vendor = vendor(100).await;
    vendor.release.send(true).unwrap();
    let mut settings = SETTINGS;
    settings.idle_timeout = Duration::from_millis(50);
    let pool = pool_of(vendor.address, settings);
    let answer = pool.send(call(Bytes::new())).await.unwrap();
    answer.body.collect(100).await.unwrap();
    assert_eq!(pool.counts().open, 1);
    until(|| pool.counts().open == 0).await;
    assert!(!pool.send(call(Bytes::new())).await.unwrap().reused);
}
