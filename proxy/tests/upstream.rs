//! Calls to vendors over real sockets: what each failure is called, and what becomes of connections.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests; what fails is the test"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use whippletree::config::{PoolSettings, Provider, Timeouts};
use whippletree::upstream::{Answer, Call, Kind, Phase, Pool, RequestBody, Sent, UpstreamError};

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};

const SETTINGS: PoolSettings = PoolSettings {
    max_connections: 8,
    warm: 0,
    http2: false,
    wait: Duration::from_secs(5),
    idle_timeout: Duration::from_mins(1),
    max_lifetime: Duration::from_mins(10),
};

fn provider(base_url: &str, pool: PoolSettings) -> Provider {
    Provider {
        id: "vendor".into(),
        kind: "openai",
        base_url: base_url.parse().unwrap(),
        keys: Vec::new(),
        timeouts: TIMEOUTS,
        pool,
        apis: Vec::new(),
        error_classes: std::collections::BTreeMap::new(),
        ca: None,
    }
}

fn pool_of(address: SocketAddr, settings: PoolSettings) -> Pool {
    Pool::new(&provider(&format!("http://{address}"), settings), 0).unwrap()
}

fn call(body: impl Into<RequestBody>) -> Call {
    Call {
        method: Method::POST,
        path_and_query: "/v1/chat/completions".parse().unwrap(),
        headers: HeaderMap::new(),
        body: body.into(),
        timeouts: TIMEOUTS,
        give_up_at: None,
    }
}

fn ping() -> Call {
    call(Bytes::from_static(b"ping"))
}

/// A vendor that runs `serve` with each connection and its number.
async fn vendor<F, S>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream, usize) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, number));
        }
    });
    address
}

/// Reads one request whose body is known by its length; `None` when the gateway has left.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
}

async fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong";

/// Answers all requests of a connection.
async fn pong(mut stream: TcpStream, _: usize) {
    while read_request(&mut stream).await.is_some() {
        write(&mut stream, OK).await;
    }
}

async fn text(answer: Answer) -> String {
    let bytes = answer.body.collect(1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn what(error: &UpstreamError) -> (Phase, Kind, Sent) {
    (error.phase, error.kind, error.sent)
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Closes so that the other side gets a reset.
fn reset(stream: TcpStream) {
    let stream = stream.into_std().unwrap();
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

#[tokio::test]
async fn a_request_arrives_as_it_was_given() {
    let (requests, mut seen) = mpsc::unbounded_channel();
    let address = vendor(move |mut stream, _| {
        let requests = requests.clone();
        async move {
            let request = read_request(&mut stream).await.unwrap();
            requests.send(request).unwrap();
            write(&mut stream, OK).await;
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let mut call = call(
        [Bytes::from_static(b"{\"a\":"), Bytes::from_static(b"1.0}")]
            .into_iter()
            .collect::<RequestBody>(),
    );
    call.headers
        .insert("authorization", "Bearer x".parse().unwrap());
    let answer = pool.send(call).await.unwrap();
    assert_eq!((answer.status, answer.reused), (StatusCode::OK, false));
    assert_eq!(text(answer).await, "pong");
    assert_eq!(
        seen.recv().await.unwrap(),
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer x\r\nhost: {address}\r\n\
             content-length: 9\r\n\r\n{{\"a\":1.0}}"
        )
    );
}

#[tokio::test]
async fn connections_are_used_again_and_counted() {
    let address = vendor(pong).await;
    let pool = pool_of(address, SETTINGS);
    for round in 0..5 {
        let answer = pool.send(ping()).await.unwrap();
        assert_eq!(answer.reused, round > 0);
        assert_eq!(text(answer).await, "pong");
    }
    let counts = pool.counts();
    assert_eq!((counts.created, counts.reused), (1, 4));
    assert_eq!((counts.open, counts.idle, counts.in_use), (1, 1, 0));
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(
            &mut stream,
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        )
        .await;
    })
    .await;
    let answer = pool_of(address, SETTINGS).send(ping()).await.unwrap();
    assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT);
}

#[tokio::test]
async fn an_idle_connection_that_the_vendor_closed_costs_nothing() {
    let (closed, mut wait_closed) = mpsc::unbounded_channel();
    let address = vendor(move |mut stream, number| {
        let closed = closed.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            write(&mut stream, OK).await;
            if number == 0 {
                drop(stream);
                closed.send(()).unwrap();
            } else {
                pong(stream, number).await;
            }
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    text(pool.send(ping()).await.unwrap()).await;
    wait_closed.recv().await.unwrap();
    // The runtime asks the kernel for news once in 61 turns at least.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let answer = pool.send(ping()).await.unwrap();
    assert_eq!(text(answer).await, "pong");
    assert_eq!(pool.counts().failures, [0; 9]);
}

#[tokio::test]
async fn a_reset_on_a_used_connection_says_that_it_was_used() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(&mut stream, OK).await;
        read_request(&mut stream).await.unwrap();
        reset(stream);
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    text(pool.send(ping()).await.unwrap()).await;
    let error = pool.send(ping()).await.unwrap_err();
    assert_eq!(what(&error), (Phase::FirstByte, Kind::Reset, Sent::Maybe));
    assert!(error.reused);
}

#[tokio::test]
async fn a_vendor_that_hangs_up_without_an_answer_may_have_seen_the_request() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
    })
    .await;
    let error = pool_of(address, SETTINGS).send(ping()).await.unwrap_err();
    assert_eq!(what(&error), (Phase::FirstByte, Kind::Closed, Sent::Maybe));
    assert!(!error.reused);
}

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let pool = pool_of(address, SETTINGS);
    let error = pool.send(ping()).await.unwrap_err();
    assert_eq!(what(&error), (Phase::Connect, Kind::Refused, Sent::Nothing));
    assert_eq!(pool.counts().failures.iter().sum::<u64>(), 1);
    assert_eq!(pool.counts().open, 0);
}

#[tokio::test]
async fn an_unknown_name_sent_nothing() {
    let provider = provider("http://vendor.invalid", SETTINGS);
    let pool = Pool::new(&provider, 0).unwrap();
    let error = pool.send(ping()).await.unwrap_err();
    assert_eq!(
        what(&error),
        (Phase::Dns, Kind::NameNotFound, Sent::Nothing)
    );
}

#[tokio::test]
async fn a_vendor_that_speaks_no_tls_sent_nothing() {
    let address = vendor(|mut stream, _| async move {
        write(&mut stream, "HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let provider = provider(&format!("https://localhost:{}", address.port()), SETTINGS);
    let pool = Pool::new(&provider, 0).unwrap();
    let error = pool.send(ping()).await.unwrap_err();
    assert_eq!(what(&error), (Phase::Tls, Kind::Tls, Sent::Nothing));
}

#[tokio::test]
async fn what_is_not_http_is_malformed() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(&mut stream, "SSH-2.0-OpenSSH_9.6\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let error = pool_of(address, SETTINGS).send(ping()).await.unwrap_err();
    assert_eq!(
        what(&error),
        (Phase::FirstByte, Kind::Malformed, Sent::Maybe)
    );
}

#[tokio::test]
async fn silence_before_the_head_is_a_first_byte_timeout() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let address = vendor(move |mut stream, _| {
        let events = events.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            let _ = stream.read(&mut [0; 1]).await;
            events.send("closed").unwrap();
        }
    })
    .await;
    let mut call = ping();
    call.timeouts.first_byte = Duration::from_millis(50);
    let error = pool_of(address, SETTINGS).send(call).await.unwrap_err();
    assert_eq!(
        what(&error),
        (Phase::FirstByte, Kind::TimedOut, Sent::Maybe)
    );
    assert_eq!(seen.recv().await, Some("closed"));
}

#[tokio::test]
async fn the_callers_deadline_comes_before_the_vendors() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let mut call = ping();
    let now = whippletree::clock::now();
    call.give_up_at = Some(whippletree_policies::time::Instant(now.0 + 50_000_000));
    let error = pool_of(address, SETTINGS).send(call).await.unwrap_err();
    assert_eq!(what(&error), (Phase::Total, Kind::TimedOut, Sent::Maybe));
}

#[tokio::test]
async fn silence_within_the_body_is_an_idle_timeout() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart",
        )
        .await;
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let mut call = ping();
    call.timeouts.idle = Duration::from_millis(50);
    let mut body = pool.send(call).await.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), "part");
    let error = body.next().await.unwrap_err();
    assert_eq!(what(&error), (Phase::Idle, Kind::TimedOut, Sent::Answered));
    assert_eq!(body.next().await.unwrap(), None);
    assert_eq!(pool.counts().open, 0);
}

#[tokio::test]
async fn a_stream_that_goes_on_is_not_idle() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            write(&mut stream, "1\r\nx\r\n").await;
        }
        write(&mut stream, "0\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let mut call = ping();
    call.timeouts.idle = Duration::from_secs(1);
    let answer = pool.send(call).await.unwrap();
    assert_eq!(text(answer).await, "xxxxxxxxxx");
    assert_eq!(pool.counts().idle, 1);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error() {
    let breaks = [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\npart",
    ];
    for answer in breaks {
        let address = vendor(move |mut stream, _| async move {
            read_request(&mut stream).await.unwrap();
            write(&mut stream, answer).await;
        })
        .await;
        let pool = pool_of(address, SETTINGS);
        let answer = pool.send(ping()).await.unwrap();
        let error = answer.body.collect(100).await.unwrap_err();
        assert_eq!(what(&error), (Phase::Body, Kind::Closed, Sent::Answered));
        assert_eq!(pool.counts().open, 0);
    }
}

#[tokio::test]
async fn a_broken_chunk_is_malformed() {
    let address = vendor(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        )
        .await;
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let answer = pool_of(address, SETTINGS).send(ping()).await.unwrap();
    let error = answer.body.collect(100).await.unwrap_err();
    assert_eq!(what(&error), (Phase::Body, Kind::Malformed, Sent::Answered));
}

#[tokio::test]
async fn bytes_beyond_the_length_are_not_taken_for_the_next_answer() {
    let address = vendor(|mut stream, number| async move {
        read_request(&mut stream).await.unwrap();
        if number == 0 {
            write(&mut stream, &format!("{OK}HTTP/1.1 500 Oops\r\n\r\n")).await;
            let _ = stream.read(&mut [0; 1]).await;
        } else {
            write(&mut stream, OK).await;
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    for _ in 0..2 {
        let answer = pool.send(ping()).await.unwrap();
        assert_eq!((answer.status, answer.reused), (StatusCode::OK, false));
        assert_eq!(text(answer).await, "pong");
    }
}

#[tokio::test]
async fn a_reset_within_the_body_is_an_error() {
    let (go_on, wait) = watch::channel(false);
    let address = vendor(move |mut stream, _| {
        let mut wait = wait.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart",
            )
            .await;
            wait.wait_for(|go_on| *go_on).await.unwrap();
            reset(stream);
        }
    })
    .await;
    let mut body = pool_of(address, SETTINGS).send(ping()).await.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), "part");
    go_on.send(true).unwrap();
    let error = body.next().await.unwrap_err();
    assert_eq!(what(&error), (Phase::Body, Kind::Reset, Sent::Answered));
}

#[tokio::test]
async fn an_answer_is_read_while_the_request_is_still_being_sent() {
    let address = vendor(|mut stream, _| async move {
        let mut first = [0_u8; 1000];
        stream.read_exact(&mut first).await.unwrap();
        write(
            &mut stream,
            "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 5\r\n\r\nlarge",
        )
        .await;
        reset(stream);
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let body = Bytes::from(vec![b'x'; 32 << 20]);
    let answer = pool.send(call(body)).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(text(answer).await, "large");
    until(|| pool.counts().open == 0).await;
}

#[tokio::test]
async fn the_wait_for_the_answer_begins_when_the_request_is_sent() {
    let address = vendor(|mut stream, _| async move {
        let mut left = 64 << 20;
        let mut buffer = vec![0_u8; 1 << 20];
        while left > 0 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            left -= stream.read(&mut buffer).await.unwrap().min(left);
        }
        write(&mut stream, OK).await;
    })
    .await;
    let mut call = call(Bytes::from(vec![b'x'; 64 << 20]));
    call.timeouts.first_byte = Duration::from_secs(1);
    let answer = pool_of(address, SETTINGS).send(call).await.unwrap();
    assert_eq!(text(answer).await, "pong");
}

#[tokio::test]
async fn a_vendor_that_takes_no_request_is_a_send_timeout() {
    let (_keep, kept) = watch::channel(());
    let address = vendor(move |stream, _| {
        let mut kept = kept.clone();
        async move {
            let _ = kept.changed().await;
            drop(stream);
        }
    })
    .await;
    let mut call = call(Bytes::from(vec![b'x'; 32 << 20]));
    call.timeouts.first_byte = Duration::from_millis(100);
    let error = pool_of(address, SETTINGS).send(call).await.unwrap_err();
    assert_eq!(what(&error), (Phase::Send, Kind::TimedOut, Sent::Maybe));
}

/// Answers when released; says how many requests it has at most at once.
struct Slow {
    address: SocketAddr,
    release: watch::Sender<bool>,
    peak: Arc<AtomicUsize>,
}

async fn slow() -> Slow {
    let (release, released) = watch::channel(false);
    let peak = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&peak);
    let address = vendor(move |mut stream, _| {
        let (mut released, running, seen) = (released.clone(), running.clone(), seen.clone());
        async move {
            while read_request(&mut stream).await.is_some() {
                seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                released.wait_for(|released| *released).await.unwrap();
                running.fetch_sub(1, Ordering::SeqCst);
                write(&mut stream, OK).await;
            }
        }
    })
    .await;
    Slow {
        address,
        release,
        peak,
    }
}

#[tokio::test]
async fn a_full_pool_is_an_error_of_its_own() {
    let slow = slow().await;
    let mut settings = SETTINGS;
    settings.max_connections = 2;
    settings.wait = Duration::from_millis(50);
    let pool = pool_of(slow.address, settings);
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { text(pool.send(ping()).await.unwrap()).await })
        })
        .collect();
    until(|| slow.peak.load(Ordering::SeqCst) == 2).await;
    let error = pool.send(ping()).await.unwrap_err();
    assert_eq!(what(&error), (Phase::Pool, Kind::Saturated, Sent::Nothing));
    slow.release.send(true).unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap(), "pong");
    }
    assert_eq!(pool.counts().idle, 2);
    assert_eq!(text(pool.send(ping()).await.unwrap()).await, "pong");
}

#[tokio::test]
async fn those_who_wait_are_served_and_the_cap_holds() {
    let slow = slow().await;
    let mut settings = SETTINGS;
    settings.max_connections = 3;
    let pool = pool_of(slow.address, settings);
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { text(pool.send(ping()).await.unwrap()).await })
        })
        .collect();
    until(|| pool.counts().waiting == 37).await;
    slow.release.send(true).unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap(), "pong");
    }
    assert!(slow.peak.load(Ordering::SeqCst) <= 3);
    assert_eq!(pool.counts().created, 3);
    assert_eq!(pool.counts().waiting, 0);
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection_at_once() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let address = vendor(move |mut stream, _| {
        let events = events.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            events.send("asked").unwrap();
            let _ = stream.read(&mut [0; 1]).await;
            events.send("closed").unwrap();
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let running = tokio::spawn({
        let pool = pool.clone();
        async move { pool.send(ping()).await.map(|_| ()) }
    });
    assert_eq!(seen.recv().await, Some("asked"));
    running.abort();
    assert_eq!(seen.recv().await, Some("closed"));
    assert_eq!((pool.counts().open, pool.counts().in_use), (0, 0));
}

#[tokio::test]
async fn dropping_a_body_closes_its_connection_at_once() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let address = vendor(move |mut stream, _| {
        let events = events.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
            )
            .await;
            let _ = stream.read(&mut [0; 1]).await;
            events.send("closed").unwrap();
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let mut body = pool.send(ping()).await.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), "x");
    drop(body);
    assert_eq!(seen.recv().await, Some("closed"));
    assert_eq!((pool.counts().open, pool.counts().cancelled), (0, 1));
}

#[tokio::test]
async fn a_reader_that_stops_at_the_end_mark_keeps_the_connection() {
    let address = vendor(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n0\r\n\r\n",
            )
            .await;
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    let mut body = pool.send(ping()).await.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), "[DONE]");
    drop(body);
    assert_eq!(pool.counts().idle, 1);
    assert!(pool.send(ping()).await.unwrap().reused);
}

#[tokio::test]
async fn warm_connections_are_ready_before_the_first_call() {
    let address = vendor(pong).await;
    let mut settings = SETTINGS;
    settings.warm = 3;
    let pool = pool_of(address, settings);
    pool.attend();
    until(|| pool.counts().idle == 3).await;
    assert!(pool.send(ping()).await.unwrap().reused);
}

#[tokio::test]
async fn idle_connections_are_closed_in_time() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let address = vendor(move |stream, number| {
        let events = events.clone();
        async move {
            pong(stream, number).await;
            events.send("closed").unwrap();
        }
    })
    .await;
    let mut settings = SETTINGS;
    settings.idle_timeout = Duration::from_millis(50);
    let pool = pool_of(address, settings);
    text(pool.send(ping()).await.unwrap()).await;
    assert_eq!(seen.recv().await, Some("closed"));
    until(|| pool.counts().open == 0).await;
    assert_eq!(pool.counts().idle, 0);
}

#[tokio::test]
async fn a_connection_is_not_used_beyond_its_lifetime() {
    let address = vendor(pong).await;
    let mut settings = SETTINGS;
    settings.max_lifetime = Duration::from_millis(1);
    let pool = pool_of(address, settings);
    for _ in 0..3 {
        let answer = pool.send(ping()).await.unwrap();
        assert!(!answer.reused);
        text(answer).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(pool.counts().created, 3);
}

#[tokio::test]
async fn a_pool_that_is_dropped_closes_its_connections() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let address = vendor(move |stream, number| {
        let events = events.clone();
        async move {
            pong(stream, number).await;
            events.send("closed").unwrap();
        }
    })
    .await;
    let pool = pool_of(address, SETTINGS);
    text(pool.send(ping()).await.unwrap()).await;
    drop(pool);
    assert_eq!(seen.recv().await, Some("closed"));
}
