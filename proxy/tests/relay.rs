//! Both halves of the data plane together: what happens on one side is seen on the other.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; what fails is the test"
)]

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Either;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use whippletree::config::{self, PoolSettings, Provider, Timeouts};
use whippletree::server::{
    self, Handler, HeadFault, InflightBytes, Listener, Peer, ReceiveLimits, Running, Upload,
};
use whippletree::upstream::{Call, Pool, UpstreamBody};

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_mins(1),
    idle: Duration::from_mins(1),
    total: Duration::from_mins(2),
};

/// Far below every deadline here, and far above what a busy machine needs.
const PROMPTLY: Duration = Duration::from_secs(5);

const LIMITS: ReceiveLimits = ReceiveLimits {
    max_body: 64 << 20,
    pause: Duration::from_secs(5),
};

/// Passes requests on as they are.
#[derive(Clone)]
struct Relay {
    pool: Pool,
    budget: InflightBytes,
    workers_seen: Arc<Mutex<HashSet<usize>>>,
}

impl Handler for Relay {
    type Body = Either<UpstreamBody, Full<Bytes>>;

    async fn handle(self, request: Request<Upload>, _: Peer) -> Response<Self::Body> {
        let worker = server::worker_index().unwrap();
        self.workers_seen.lock().unwrap().insert(worker);
        let body = server::receive_body(request.into_body(), LIMITS, &self.budget)
            .await
            .unwrap();
        let call = Call {
            method: Method::POST,
            path_and_query: "/".parse().unwrap(),
            headers: HeaderMap::new(),
            body: body.bytes.into(),
            timeouts: TIMEOUTS,
            give_up_at: None,
        };
        match self.pool.send(call).await {
            Ok(answer) => {
                let mut response = Response::new(Either::Left(answer.body));
                *response.status_mut() = answer.status;
                response
            }
            Err(error) => {
                let text = Either::Right(Full::from(error.to_string()));
                let mut response = Response::new(text);
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        }
    }

    fn refuse(&self, _: HeadFault) -> Response<Self::Body> {
        Response::new(Either::Right(Full::default()))
    }
}

fn relay(vendor: SocketAddr, max_connections: usize) -> (Running, SocketAddr, Relay) {
    relay_with(vendor, max_connections, 0)
}

fn relay_with(
    vendor: SocketAddr,
    max_connections: usize,
    warm: usize,
) -> (Running, SocketAddr, Relay) {
    let provider = Provider {
        id: "vendor".into(),
        kind: "openai",
        base_url: format!("http://{vendor}").parse().unwrap(),
        keys: Vec::new(),
        timeouts: TIMEOUTS,
        pool: PoolSettings {
            max_connections,
            warm,
            http2: false,
            wait: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(1),
            max_lifetime: Duration::from_mins(10),
        },
        apis: Vec::new(),
        error_classes: std::collections::BTreeMap::new(),
        ca: None,
    };
    let relay = Relay {
        pool: Pool::new(&provider, 2).unwrap(),
        budget: InflightBytes::new(1 << 30),
        workers_seen: Arc::default(),
    };
    let settings = config::Server {
        listen: "127.0.0.1:0".parse().unwrap(),
        workers: 2,
        max_body: 64 << 20,
        max_inflight_bytes: 1 << 30,
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(1),
        max_head: 65_536,
        max_headers: 100,
        max_connections: 1000,
        drain_timeout: Duration::from_secs(10),
        tls: None,
    };
    let listener = Listener::bind(settings.listen, 1000).unwrap();
    let address = listener.local_address().unwrap();
    let running = server::start(&[listener], settings, None, &relay).unwrap();
    (running, address, relay)
}

async fn post(stream: &mut TcpStream, body: &[u8]) {
    let head = format!(
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    let mut byte = [0_u8; 1];
    while !answer.ends_with(end.as_bytes()) {
        assert_ne!(stream.read(&mut byte).await.unwrap(), 0, "closed too early");
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

/// A vendor that answers each `ping`.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                loop {
                    read_until(&mut stream, "\r\n\r\nping").await;
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong")
                        .await
                        .unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn all_workers_share_the_connections_of_a_pool() {
    let (_running, address, relay) = relay(echo().await, 1);
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(TcpStream::connect(address).await.unwrap());
    }
    for _ in 0..5 {
        for client in &mut clients {
            post(client, b"ping").await;
            read_until(client, "pong").await;
        }
    }
    assert_eq!(relay.workers_seen.lock().unwrap().len(), 2);
    let counts = relay.pool.counts();
    assert_eq!((counts.created, counts.reused, counts.open), (1, 29, 1));
}

#[tokio::test]
async fn each_worker_has_warm_connections_before_the_first_call() {
    let (running, address, relay) = relay_with(echo().await, 10, 3);
    let pool = relay.pool.clone();
    running.on_each_worker(move || pool.attend());
    while relay.pool.counts().idle < 3 {
        tokio::task::yield_now().await;
    }
    let mut client = TcpStream::connect(address).await.unwrap();
    post(&mut client, b"ping").await;
    read_until(&mut client, "pong").await;
    assert_eq!(relay.pool.counts().reused, 1);
}

#[tokio::test]
async fn clients_of_all_workers_wait_for_the_same_connection() {
    let (_running, address, relay) = relay(echo().await, 1);
    let clients: Vec<_> = (0..50)
        .map(|_| {
            tokio::spawn(async move {
                let mut client = TcpStream::connect(address).await.unwrap();
                for _ in 0..20 {
                    post(&mut client, b"ping").await;
                    read_until(&mut client, "pong").await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let counts = relay.pool.counts();
    assert_eq!((counts.created, counts.open, counts.idle), (1, 1, 1));
    assert_eq!((counts.in_use, counts.waiting), (0, 0));
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_by_the_vendor_at_once() {
    for answered in [
        "",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let vendor = listener.local_addr().unwrap();
        let (events, mut seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_until(&mut stream, "\r\n\r\nping").await;
            stream.write_all(answered.as_bytes()).await.unwrap();
            events.send("asked").unwrap();
            let _ = stream.read(&mut [0; 1]).await;
            events.send("closed").unwrap();
        });
        let (_running, address, _) = relay(vendor, 10);
        let mut client = TcpStream::connect(address).await.unwrap();
        post(&mut client, b"ping").await;
        assert_eq!(seen.recv().await, Some("asked"));
        if !answered.is_empty() {
            read_until(&mut client, "x\r\n").await;
        }
        drop(client);
        let event = tokio::time::timeout(PROMPTLY, seen.recv()).await;
        assert_eq!(event, Ok(Some("closed")));
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_holds_the_vendor_back() {
    const SIZE: usize = 256 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let vendor = listener.local_addr().unwrap();
    let (sizes, mut sent) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\nping").await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let piece = vec![b'x'; 1 << 20];
        let mut total = 0;
        while total < SIZE {
            let written = stream.write_all(&piece);
            if tokio::time::timeout(Duration::from_millis(500), written)
                .await
                .is_err()
            {
                sizes.send(total).unwrap();
                return;
            }
            total += piece.len();
        }
        sizes.send(total).unwrap();
    });
    let (_running, address, _) = relay(vendor, 10);
    let mut client = TcpStream::connect(address).await.unwrap();
    post(&mut client, b"ping").await;
    read_until(&mut client, "\r\n\r\n").await;
    // The kernel's buffers hold a few megabytes on each side; nothing else may.
    let held = sent.recv().await.unwrap();
    assert!(held < 32 << 20, "{held} bytes were taken from the vendor");
}

#[tokio::test]
async fn a_large_body_passes_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let vendor = listener.local_addr().unwrap();
    let body: Vec<u8> = (0..32_u32 << 20).map(|n| n.to_le_bytes()[1]).collect();
    let expected = body.clone();
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong")
            .await
            .unwrap();
        received == expected
    });
    let (_running, address, _) = relay(vendor, 10);
    let mut client = TcpStream::connect(address).await.unwrap();
    post(&mut client, &body).await;
    read_until(&mut client, "pong").await;
    assert!(received.await.unwrap());
}
