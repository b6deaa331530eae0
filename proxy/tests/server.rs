//! The data plane's sockets: limits, deadlines, disconnects, shutdown.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; what fails is the test"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use whippletree::config;
use whippletree::server::{
    self, Handler, HeadFault, InflightBytes, Listener, Peer, ReceiveError, ReceiveLimits, Running,
    Upload,
};

type Answer = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

#[derive(Clone)]
struct Answering(Arc<dyn Fn(Request<Upload>) -> Answer + Send + Sync>);

impl Handler for Answering {
    type Body = Full<Bytes>;

    async fn handle(self, request: Request<Upload>, _peer: Peer) -> Response<Full<Bytes>> {
        (self.0)(request).await
    }

    fn refuse(&self, fault: HeadFault) -> Response<Full<Bytes>> {
        let (status, text) = match fault {
            HeadFault::Malformed => (StatusCode::BAD_REQUEST, r#"{"head":"malformed"}"#),
            HeadFault::TimedOut => (StatusCode::REQUEST_TIMEOUT, r#"{"head":"timed out"}"#),
            HeadFault::TooLarge => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                r#"{"head":"too large"}"#,
            ),
            HeadFault::UriTooLong => (StatusCode::URI_TOO_LONG, r#"{"head":"uri too long"}"#),
        };
        let mut answer = Response::new(Full::from(text));
        *answer.status_mut() = status;
        answer
    }
}

fn answering<F, A>(answer: F) -> Answering
where
    F: Fn(Request<Upload>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    Answering(Arc::new(move |request| Box::pin(answer(request))))
}

fn settings() -> config::Server {
    config::Server {
        listen: "127.0.0.1:0".parse().unwrap(),
        workers: 2,
        max_body: 1024 * 1024,
        max_inflight_bytes: 64 * 1024 * 1024,
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(1),
        max_head: 16 * 1024,
        max_headers: 100,
        max_connections: 1000,
        drain_timeout: Duration::from_secs(10),
        tls: None,
    }
}

fn serve(settings: config::Server, handler: &Answering) -> (Running, SocketAddr) {
    let listener = Listener::bind(settings.listen, settings.max_connections).unwrap();
    let address = listener.local_address().unwrap();
    let running = server::start(&[listener], settings, None, handler).unwrap();
    (running, address)
}

fn hello() -> Answering {
    answering(|_| async { Response::new(Full::from("hello")) })
}

/// Answers with the body's length, or as the gateway would where it cannot be received.
fn measuring(settings: &config::Server) -> Answering {
    measuring_within(settings, &InflightBytes::new(settings.max_inflight_bytes))
}

fn measuring_within(settings: &config::Server, budget: &InflightBytes) -> Answering {
    let limits = ReceiveLimits {
        max_body: settings.max_body,
        pause: settings.body_timeout,
    };
    let budget = budget.clone();
    answering(move |request| {
        let budget = budget.clone();
        async move {
            let (status, text) =
                match server::receive_body(request.into_body(), limits, &budget).await {
                    Ok(received) => (StatusCode::OK, received.bytes.len().to_string()),
                    Err(error @ ReceiveError::TooLarge { .. }) => {
                        (StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
                    }
                    Err(error @ ReceiveError::TimedOut { .. }) => {
                        (StatusCode::REQUEST_TIMEOUT, error.to_string())
                    }
                    Err(error @ ReceiveError::Busy) => {
                        (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
                    }
                    Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
                };
            let mut answer = Response::new(Full::from(text));
            *answer.status_mut() = status;
            answer
        }
    })
}

async fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// All that comes until the server closes.
async fn read_all(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// What comes until `end`, which must come.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    let mut byte = [0_u8; 1];
    while !answer.ends_with(end.as_bytes()) {
        assert_ne!(stream.read(&mut byte).await.unwrap(), 0, "closed too early");
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const GET_AND_CLOSE: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let (_running, address) = serve(settings(), &hello());
    let mut stream = send(address, GET).await;
    for _ in 0..3 {
        read_until(&mut stream, "hello").await;
        stream.write_all(GET).await.unwrap();
    }
}

#[tokio::test]
async fn a_burst_of_connections_is_answered_one_by_one() {
    let (running, address) = serve(settings(), &hello());
    let clients: Vec<_> = (0..512)
        .map(|_| tokio::spawn(async move { read_all(send(address, GET_AND_CLOSE).await).await }))
        .collect();
    for client in clients {
        assert!(client.await.unwrap().starts_with("HTTP/1.1 200 OK"));
    }
    assert_eq!(running.counts().accepted, 512);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_told_so() {
    let mut settings = settings();
    settings.max_connections = 2;
    let (running, address) = serve(settings, &hello());
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = send(address, GET).await;
        read_until(&mut stream, "hello").await;
        kept.push(stream);
    }
    let refused = read_all(send(address, GET).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert_body_is_json(&refused);
    assert_eq!(running.counts().refused, 1);
    drop(kept);
}

fn assert_body_is_json(answer: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap();
    assert_eq!(length, body.len().to_string());
    serde_json::from_str::<serde_json::Value>(body).unwrap();
}

#[tokio::test]
async fn a_second_listener_on_the_port_is_refused() {
    let (_running, address) = serve(settings(), &hello());
    let error = Listener::bind(address, 10).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

struct SaysWhenDropped(mpsc::UnboundedSender<&'static str>);

impl Drop for SaysWhenDropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// Never answers; says when it was called and when it was dropped.
fn silent() -> (Answering, mpsc::UnboundedReceiver<&'static str>) {
    let (events, seen) = mpsc::unbounded_channel();
    let handler = answering(move |_| {
        let events = events.clone();
        async move {
            events.send("called").unwrap();
            let _guard = SaysWhenDropped(events);
            std::future::pending().await
        }
    });
    (handler, seen)
}

/// Far below every deadline here, and far above what a busy machine needs.
const PROMPTLY: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_client_that_leaves_is_noticed_before_the_answer() {
    let (handler, mut seen) = silent();
    let (_running, address) = serve(settings(), &handler);
    let stream = send(address, GET).await;
    assert_eq!(seen.recv().await, Some("called"));
    drop(stream);
    let event = tokio::time::timeout(PROMPTLY, seen.recv()).await;
    assert_eq!(event, Ok(Some("dropped")));
}

async fn http2(address: SocketAddr) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(stream),
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    sender
}

fn http2_request(address: SocketAddr, body: Full<Bytes>) -> Request<Full<Bytes>> {
    Request::post(format!("http://{address}/"))
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a_client_that_resets_its_stream_is_noticed_before_the_answer() {
    let (handler, mut seen) = silent();
    let (_running, address) = serve(settings(), &handler);
    let mut sender = http2(address).await;
    let request = http2_request(address, Full::default());
    let call = tokio::spawn(async move { sender.send_request(request).await });
    assert_eq!(seen.recv().await, Some("called"));
    call.abort();
    let event = tokio::time::timeout(PROMPTLY, seen.recv()).await;
    assert_eq!(event, Ok(Some("dropped")));
}

#[tokio::test]
async fn http2_without_tls_is_known_by_its_first_bytes() {
    let settings = settings();
    let (_running, address) = serve(settings.clone(), &measuring(&settings));
    let mut sender = http2(address).await;
    let body = Full::from(vec![b'x'; 300_000]);
    let answer = sender
        .send_request(http2_request(address, body))
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let body = Full::from(vec![b'x'; 1_048_577]);
    let answer = sender
        .send_request(http2_request(address, body))
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_head_that_does_not_end_is_answered_with_408() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_millis(100);
    let (_running, address) = serve(settings, &hello());
    let answer = read_all(send(address, b"GET / HTTP/1.1\r\nho").await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_body_is_json(&answer);
}

#[tokio::test]
async fn a_second_head_that_does_not_end_is_answered_with_408() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_millis(100);
    let (_running, address) = serve(settings, &hello());
    let mut stream = send(address, GET).await;
    read_until(&mut stream, "hello").await;
    stream.write_all(b"GET / HT").await.unwrap();
    let answer = read_all(stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed_without_a_word() {
    let mut settings = settings();
    settings.header_timeout = Duration::from_millis(100);
    let (_running, address) = serve(settings, &hello());
    assert_eq!(read_all(send(address, b"").await).await, "");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let mut settings = settings();
    settings.idle_timeout = Duration::from_millis(100);
    let (running, address) = serve(settings, &hello());
    let answer = read_all(send(address, GET).await).await;
    assert!(answer.ends_with("hello"));
    while running.counts().open > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_faulty_head_is_answered_by_the_handler() {
    let (_running, address) = serve(settings(), &hello());
    let large = format!("GET / HTTP/1.1\r\nbig: {}\r\n\r\n", "x".repeat(17_000));
    let flood = format!("GET / HTTP/1.1\r\nbig: {}", "x".repeat(4_000_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "f: x\r\n".repeat(101));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(65_535));
    let rows = [
        ("431 ", "too large", large.as_str()),
        ("431 ", "too large", &flood),
        ("431 ", "too large", &many),
        ("431 ", "too large", &long),
        ("400 ", "malformed", "no HTTP at all\r\n\r\n"),
        ("400 ", "malformed", "GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        (
            "400 ",
            "malformed",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        ),
        (
            "400 ",
            "malformed",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
        ),
    ];
    for (status, fault, request) in rows {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The answer may come before all is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let answer = read_all(stream).await;
        let start = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&start), "{request:.60}: {answer}");
        assert_body_is_json(&answer);
        assert!(answer.contains(fault), "{request:.60}: {answer}");
    }
}

#[tokio::test]
async fn a_faulty_head_behind_a_good_one_is_answered_in_turn() {
    let (_running, address) = serve(settings(), &hello());
    let two = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nno HTTP at all\r\n\r\n";
    let answers = read_all(send(address, two).await).await;
    assert!(answers.starts_with("HTTP/1.1 200 "), "{answers}");
    let (_, second) = answers.split_once("helloHTTP/1.1 400 ").unwrap();
    assert!(second.ends_with(r#"{"head":"malformed"}"#), "{answers}");
}

#[tokio::test]
async fn http2_knows_the_same_limits_on_heads() {
    let (_running, address) = serve(settings(), &hello());
    let mut sender = http2(address).await;
    let large = vec![("big".to_owned(), "x".repeat(17_000))];
    let many = (0..101)
        .map(|n| (format!("f{n}"), "x".to_owned()))
        .collect();
    for fields in [large, many] {
        let mut request = http2_request(address, Full::default());
        for (name, value) in fields {
            let name = http::HeaderName::try_from(name).unwrap();
            request
                .headers_mut()
                .insert(name, value.try_into().unwrap());
        }
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let body = http_body_util::BodyExt::collect(answer.into_body()).await;
        assert_eq!(body.unwrap().to_bytes(), r#"{"head":"too large"}"#);
    }
    let answer = sender.send_request(http2_request(address, Full::default()));
    assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_body_in_pieces_is_put_together() {
    let settings = settings();
    let (_running, address) = serve(settings.clone(), &measuring(&settings));
    let body = "x".repeat(700_000);
    let whole = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = read_all(send(address, whole.as_bytes()).await).await;
    assert!(answer.ends_with("\r\n\r\n700000"), "{answer}");
    let chunked = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n3\r\nabc\r\n0\r\n\r\n",
        body.len()
    );
    let answer = read_all(send(address, chunked.as_bytes()).await).await;
    assert!(answer.ends_with("\r\n\r\n700003"), "{answer}");
}

#[tokio::test]
async fn a_body_that_pauses_is_answered_with_408() {
    let mut settings = settings();
    settings.body_timeout = Duration::from_millis(100);
    let (_running, address) = serve(settings.clone(), &measuring(&settings));
    let request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc";
    let answer = read_all(send(address, request).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn broken_framing_is_not_taken_for_a_client_that_left() {
    let settings = settings();
    let (_running, address) = serve(settings.clone(), &measuring(&settings));
    let request = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    let answer = read_all(send(address, request).await).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("framing"), "{answer}");
}

/// Uploads `size` bytes without reading, as many clients do, and only then looks for an answer.
async fn upload_blindly(address: SocketAddr, head: String, size: usize, chunked: bool) -> String {
    let mut stream = send(address, head.as_bytes()).await;
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..size / piece.len() {
        if chunked {
            stream.write_all(b"10000\r\n").await.unwrap();
        }
        stream.write_all(&piece).await.unwrap();
        if chunked {
            stream.write_all(b"\r\n").await.unwrap();
        }
    }
    stream.shutdown().await.unwrap();
    read_all(stream).await
}

#[tokio::test]
async fn a_client_that_sends_too_much_can_read_that_it_does() {
    let settings = settings();
    let (_running, address) = serve(settings.clone(), &measuring(&settings));
    let size = 33 * 1024 * 1024;
    let announced = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
    let answer = upload_blindly(address, announced, size, false).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunked = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let answer = upload_blindly(address, chunked, size, true).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_without_being_told_to_go_on() {
    let settings = settings();
    let (_running, address) = serve(settings.clone(), &measuring(&settings));
    let asks =
        b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n\r\n";
    let mut stream = send(address, asks).await;
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    let fits = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n";
    let mut stream = send(address, fits).await;
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 100 "), "{head}");
    stream.write_all(b"abc").await.unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

#[tokio::test]
async fn bodies_share_one_budget() {
    let settings = settings();
    let budget = InflightBytes::new(512 * 1024);
    let (_running, address) = serve(settings.clone(), &measuring_within(&settings, &budget));
    let head = "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 500000\r\n\r\n";
    let body = vec![b'x'; 500_000];
    let mut holder = send(address, head.as_bytes()).await;
    holder.write_all(&body[1..]).await.unwrap();
    while budget.held() < 499_999 {
        tokio::task::yield_now().await;
    }
    let mut second = send(address, head.as_bytes()).await;
    second.write_all(&body).await.unwrap();
    let answer = read_all(second).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    holder.write_all(b"x").await.unwrap();
    let answer = read_all(holder).await;
    assert!(answer.ends_with("500000"), "{answer}");
    while budget.held() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_drain_lets_requests_end_and_closes_idle_connections() {
    let (release, released) = tokio::sync::watch::channel(false);
    let (events, mut seen) = mpsc::unbounded_channel();
    let handler = answering(move |request: Request<Upload>| {
        let mut released = released.clone();
        let events = events.clone();
        async move {
            if request.uri().path() == "/slow" {
                events.send(()).unwrap();
                released.wait_for(|released| *released).await.unwrap();
            }
            Response::new(Full::from("hello"))
        }
    });
    let (running, address) = serve(settings(), &handler);
    let mut idle = send(address, GET).await;
    read_until(&mut idle, "hello").await;
    let slow = send(address, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    seen.recv().await.unwrap();
    let mut sender = http2(address).await;
    let request = Request::get(format!("http://{address}/slow"))
        .body(Full::default())
        .unwrap();
    let slow2 = tokio::spawn(async move { sender.send_request(request).await });
    seen.recv().await.unwrap();

    running.drain();
    assert_eq!(read_all(idle).await, "");
    while TcpStream::connect(address).await.is_ok() {}
    release.send(true).unwrap();
    let answer = read_all(slow).await;
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(answer.ends_with("hello"), "{answer}");
    assert_eq!(slow2.await.unwrap().unwrap().status(), StatusCode::OK);
    running.ended().await;
}

#[tokio::test]
async fn a_drain_cuts_off_what_does_not_end() {
    let mut settings = settings();
    settings.drain_timeout = Duration::from_millis(100);
    let (handler, mut seen) = silent();
    let (running, address) = serve(settings, &handler);
    let stream = send(address, GET).await;
    assert_eq!(seen.recv().await, Some("called"));
    running.drain();
    assert_eq!(read_all(stream).await, "");
    assert_eq!(seen.recv().await, Some("dropped"));
    running.ended().await;
}

#[tokio::test]
async fn an_abort_ends_a_drain() {
    let (handler, mut seen) = silent();
    let (running, address) = serve(settings(), &handler);
    let stream = send(address, GET).await;
    assert_eq!(seen.recv().await, Some("called"));
    running.drain();
    running.abort();
    running.ended().await;
    assert_eq!(read_all(stream).await, "");
    running.join();
}

#[tokio::test]
async fn a_drain_waits_for_background_tasks() {
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let finished = std::sync::Mutex::new(Some(finished));
    let (events, mut seen) = mpsc::unbounded_channel();
    let handler = answering(move |_| {
        let finished = finished.lock().unwrap().take();
        let events = events.clone();
        async move {
            server::background(async move {
                finished.unwrap().await.unwrap();
                events.send("settled").unwrap();
            });
            Response::new(Full::from("hello"))
        }
    });
    let (running, address) = serve(settings(), &handler);
    let answer = read_all(send(address, GET_AND_CLOSE).await).await;
    assert!(answer.ends_with("hello"));
    running.drain();
    finish.send(()).unwrap();
    running.ended().await;
    assert_eq!(seen.try_recv(), Ok("settled"));
}

#[tokio::test]
async fn listeners_are_exchanged_without_touching_connections() {
    let (running, old) = serve(settings(), &hello());
    let mut kept = send(old, GET).await;
    read_until(&mut kept, "hello").await;
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), 100).unwrap();
    let new = listener.local_address().unwrap();
    running.listen(&[listener]).unwrap();
    let answer = read_all(send(new, GET_AND_CLOSE).await).await;
    assert!(answer.ends_with("hello"));
    while TcpStream::connect(old).await.is_ok() {}
    kept.write_all(GET).await.unwrap();
    read_until(&mut kept, "hello").await;
}
