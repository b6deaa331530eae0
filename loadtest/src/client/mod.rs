//! A client that sees everything: each byte, when it came, and how the answer ended.
//!
//! It also does what library clients refuse to: leave in the middle, announce a length and send
//! another, write a header byte every two seconds. One call uses one connection.

mod session;
mod sse;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::clock;
use crate::wire::{Head, Wire, WireError, find};
pub use session::{Session, Whole, request_head};
pub use sse::{Event, EventReader, events_of};

/// A request and how to send it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Sent in this order behind `host`; lengths are added unless given here.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// Sends the body in chunks of this many bytes, without a length.
    pub chunked: Option<usize>,
    /// Sends `expect: 100-continue` and waits for the word, at most three seconds.
    pub expect_continue: bool,
    /// Gives up after this time.
    pub timeout: Duration,
    /// Leaves, by closing the socket, this long after the request was sent.
    pub leave_after: Option<Duration>,
    /// Leaves when so many events have come.
    pub leave_after_events: Option<usize>,
    /// Waits this long before it reads anything at all.
    pub read_after: Option<Duration>,
}

impl Call {
    /// A POST of JSON.
    pub fn post(path: &str, body: impl Into<Bytes>) -> Self {
        Self {
            method: "POST".to_owned(),
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: body.into(),
            chunked: None,
            expect_continue: false,
            timeout: Duration::from_mins(1),
            leave_after: None,
            leave_after_events: None,
            read_after: None,
        }
    }

    /// A GET.
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            headers: Vec::new(),
            ..Self::post(path, Bytes::new())
        }
    }

    /// The same request with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the request to `addr` and reads the answer to its end.
    pub async fn send(&self, addr: SocketAddr) -> Answer {
        let sent = clock::now();
        let mut answer = Answer::new(sent);
        let Ok(Ok(stream)) = tokio::time::timeout(self.timeout, TcpStream::connect(addr)).await
        else {
            answer.end(Ended::Refused);
            return answer;
        };
        // A small request must not wait for anything.
        let _ = stream.set_nodelay(true);
        self.exchange(addr, stream, &mut answer).await;
        answer
    }

    async fn exchange(&self, addr: SocketAddr, stream: TcpStream, answer: &mut Answer) {
        let (read, write) = tokio::io::split(stream);
        let (go, went) = oneshot::channel();
        let timeout = tokio::time::sleep(self.timeout);
        let leave = tokio::time::sleep(self.leave_after.unwrap_or(self.timeout * 2));
        // Writing never ends before the answer does: a failed write is no end, since the answer may
        // have been sent before the close.
        let ended = tokio::select! {
            ended = self.read(Wire::new(read), go, answer) => ended,
            () = timeout => Ended::TimedOut,
            () = leave => Ended::Left,
            () = self.write(addr, write, went) => Ended::Cut,
        };
        answer.end(ended);
    }

    /// Sends the request and then waits for ever.
    async fn write(
        &self,
        addr: SocketAddr,
        mut stream: WriteHalf<TcpStream>,
        went: oneshot::Receiver<()>,
    ) {
        let mut head = BytesMut::from(self.head(addr).as_bytes());
        if !self.expect_continue && self.chunked.is_none() && self.body.len() < 64 * 1024 {
            head.extend_from_slice(&self.body);
            // What became of it shows in the answer.
            let _ = stream.write_all(&head).await;
            return std::future::pending::<()>().await;
        }
        if stream.write_all(&head).await.is_err() {
            return std::future::pending::<()>().await;
        }
        if self.expect_continue {
            let _ = tokio::time::timeout(Duration::from_secs(3), went).await;
        }
        let sent = match self.chunked {
            None => stream.write_all(&self.body).await,
            Some(size) => write_chunks(&mut stream, &self.body, size).await,
        };
        // As above.
        drop(sent);
        // The write side stays open: a half-close would look like leaving.
        std::future::pending::<()>().await;
    }

    fn head(&self, addr: SocketAddr) -> String {
        let mut lines = vec![format!("{} {} HTTP/1.1", self.method, self.path)];
        if find(&self.headers, "host").is_none() {
            lines.push(format!("host: {addr}"));
        }
        lines.extend(
            self.headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
        if self.expect_continue {
            lines.push("expect: 100-continue".to_owned());
        }
        if self.chunked.is_some() {
            lines.push("transfer-encoding: chunked".to_owned());
        } else if find(&self.headers, "content-length").is_none() && self.method != "GET" {
            lines.push(format!("content-length: {}", self.body.len()));
        }
        lines.join("\r\n") + "\r\n\r\n"
    }

    async fn read<S>(
        &self,
        mut wire: Wire<S>,
        go: oneshot::Sender<()>,
        answer: &mut Answer,
    ) -> Ended
    where
        S: tokio::io::AsyncRead + Unpin,
    {
        if let Some(pause) = self.read_after {
            tokio::time::sleep(pause).await;
        }
        let mut go = Some(go);
        let head = loop {
            let head = match wire.head().await {
                Ok(Some(head)) => head,
                Ok(None) => return Ended::Cut,
                Err(error) => return Ended::of(&error),
            };
            match head.status() {
                Some(100..=199) => {
                    answer.continued = true;
                    if let Some(go) = go.take() {
                        // Nobody listens when the body went out already.
                        let _ = go.send(());
                    }
                }
                Some(_) => break head,
                None => return Ended::Malformed,
            }
        };
        answer.head_at = Some(clock::now());
        answer.status = head.status().unwrap_or(0);
        let framing = head.answer_framing(&self.method);
        answer.headers.clone_from(&head.headers);
        answer.head = Some(head);
        let Ok(mut framing) = framing else {
            return Ended::Malformed;
        };
        let mut events = EventReader::default();
        loop {
            match wire.piece(&mut framing).await {
                Ok(Some(bytes)) => {
                    let at = clock::now();
                    answer.pieces.push(Piece {
                        at,
                        bytes: bytes.clone(),
                    });
                    if let Some(limit) = self.leave_after_events {
                        events.push(&bytes, at);
                        if events.seen() >= limit {
                            return Ended::Left;
                        }
                    }
                }
                Ok(None) => return Ended::Clean,
                Err(error) => return Ended::of(&error),
            }
        }
    }
}

async fn write_chunks(
    stream: &mut WriteHalf<TcpStream>,
    body: &Bytes,
    size: usize,
) -> std::io::Result<()> {
    for chunk in body.chunks(size.max(1)) {
        stream
            .write_all(format!("{:x}\r\n", chunk.len()).as_bytes())
            .await?;
        stream.write_all(chunk).await?;
        stream.write_all(b"\r\n").await?;
    }
    stream.write_all(b"0\r\n\r\n").await
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// At its proper end.
    Clean,
    /// The peer closed before the end.
    Cut,
    /// The client left, as it was told to.
    Left,
    /// The bytes were no HTTP.
    Malformed,
    /// No connection came about.
    Refused,
    /// The connection was reset.
    Reset,
    /// The client's patience was over.
    TimedOut,
}

impl Ended {
    fn of(error: &WireError) -> Self {
        match error {
            WireError::Malformed(_) => Self::Malformed,
            WireError::Io(_) if error.is_reset() => Self::Reset,
            WireError::Cut | WireError::Io(_) => Self::Cut,
        }
    }
}

/// Some bytes of a body and when they came.
#[derive(Debug, Clone)]
pub struct Piece {
    /// When they were read.
    pub at: Instant,
    /// Without transfer framing.
    pub bytes: Bytes,
}

/// An answer as it came.
#[derive(Debug, Clone)]
pub struct Answer {
    /// 0 when there was none.
    pub status: u16,
    /// In order.
    pub headers: Vec<(String, String)>,
    /// The head as it lay on the wire.
    pub head: Option<Head>,
    /// The body.
    pub pieces: Vec<Piece>,
    /// Whether an interim answer came.
    pub continued: bool,
    /// When the request was begun.
    pub sent: Instant,
    /// When the head had come.
    pub head_at: Option<Instant>,
    /// When it ended.
    pub ended_at: Instant,
    /// How it ended.
    pub ended: Ended,
}

impl Answer {
    fn new(sent: Instant) -> Self {
        Self {
            status: 0,
            headers: Vec::new(),
            head: None,
            pieces: Vec::new(),
            continued: false,
            sent,
            head_at: None,
            ended_at: sent,
            ended: Ended::Cut,
        }
    }

    fn end(&mut self, ended: Ended) {
        self.ended = ended;
        self.ended_at = clock::now();
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The whole body.
    pub fn body(&self) -> Vec<u8> {
        self.pieces
            .iter()
            .flat_map(|piece| piece.bytes.iter().copied())
            .collect()
    }

    /// The whole body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body()).into_owned()
    }

    /// The whole body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap_or_default()
    }

    /// The body's server-sent events, each with the time at which its last byte came.
    pub fn events(&self) -> Vec<Event> {
        events_of(&self.pieces)
    }

    /// From the first byte sent to the end.
    pub fn took(&self) -> Duration {
        self.ended_at.saturating_duration_since(self.sent)
    }
}
