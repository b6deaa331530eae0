//! HTTP/1.1, written by hand so that it can be written wrongly.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

use super::answer::{Asked, Stage};
use super::plan::{Plan, Step};
use super::script::End;
use crate::clock;
use crate::wire::{Head, Wire, find};

/// A connection whose close can be made a reset.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {
    fn reset_on_close(&self);
}

impl Socket for TcpStream {
    fn reset_on_close(&self) {
        // Where the socket is dead already, there is nothing left to reset.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl Socket for tokio_rustls::server::TlsStream<TcpStream> {
    fn reset_on_close(&self) {
        self.get_ref().0.reset_on_close();
    }
}

/// What becomes of the connection behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Close,
    Gone,
    Keep,
    Reset,
}

/// Serves one connection until it ends.
pub(super) async fn serve<S: Socket>(stream: S, stage: &Arc<Stage>, connection: u64) {
    let mut wire = Wire::new(stream);
    while let Ok(Some(head)) = wire.head().await {
        let number = stage.record.head(connection, &head);
        let fate = exchange(&mut wire, stage, number, &head).await;
        match fate {
            Fate::Keep if !head.closes() => {}
            Fate::Close | Fate::Keep => {
                // The peer may have closed first.
                let _ = wire.stream.shutdown().await;
                return;
            }
            Fate::Gone => {
                stage.record.disconnected(number);
                return;
            }
            Fate::Reset => {
                wire.stream.reset_on_close();
                return;
            }
        }
    }
}

async fn exchange<S: Socket>(
    wire: &mut Wire<S>,
    stage: &Arc<Stage>,
    number: u64,
    head: &Head,
) -> Fate {
    let Some(picked) = stage.pick() else {
        return Fate::Close;
    };
    let Ok(framing) = head.request_framing() else {
        return Fate::Close;
    };
    let mut body = Bytes::new();
    if !picked.before_body() {
        let waits = head
            .header("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
        if waits && !send(wire, b"HTTP/1.1 100 Continue\r\n\r\n").await {
            return Fate::Gone;
        }
        match wire.body(framing).await {
            Ok(whole) => body = whole,
            Err(_) => return Fate::Gone,
        }
        stage.record.body(number, &body);
    }
    let mut words = head.start.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let plan = picked.plan(Asked {
        number,
        method,
        path,
        body: &body,
    });
    let fate = play(wire, &plan, method).await;
    if matches!(fate, Fate::Keep | Fate::Close) {
        stage.record.answered(number);
    }
    if fate == Fate::Keep && picked.before_body() {
        return match wire.body(framing).await {
            Ok(late) => {
                stage.record.body(number, &late);
                Fate::Keep
            }
            Err(_) => Fate::Close,
        };
    }
    fate
}

async fn play<S: Socket>(wire: &mut Wire<S>, plan: &Plan, method: &str) -> Fate {
    if !plan.delay.is_zero() && !pause(wire, plan.delay).await {
        return Fate::Gone;
    }
    let coding = Coding::of(plan, method);
    let mut pending = BytesMut::new();
    if plan.status != 0 {
        write_head(&mut pending, plan, coding);
    }
    // A body of one known piece goes out with its head; anything else is flushed piece by piece.
    let together = plan.whole && plan.steps.len() == 1;
    if !together && !pending.is_empty() {
        if !send(wire, &pending).await {
            return Fate::Gone;
        }
        pending.clear();
    }
    let mut written = 0_usize;
    if coding != Coding::Bodiless {
        for step in &plan.steps {
            let went_on = match step {
                Step::Sleep(pause_for) => pause(wire, *pause_for).await,
                Step::Send(bytes) => {
                    written = written.saturating_add(bytes.len());
                    coding.frame(bytes, &mut pending);
                    let sent = send(wire, &pending).await;
                    pending.clear();
                    sent
                }
                Step::Repeat {
                    text,
                    every,
                    times,
                    stamped,
                } => {
                    written = usize::MAX;
                    repeat(
                        wire,
                        coding,
                        Repeated {
                            text,
                            every: *every,
                            times: *times,
                            stamped: *stamped,
                        },
                    )
                    .await
                }
            };
            if !went_on {
                return Fate::Gone;
            }
        }
    }
    if !pending.is_empty() && !send(wire, &pending).await {
        return Fate::Gone;
    }
    finish(wire, plan, coding, written).await
}

async fn finish<S: Socket>(
    wire: &mut Wire<S>,
    plan: &Plan,
    coding: Coding,
    written: usize,
) -> Fate {
    match plan.end {
        End::Hang => {
            wire.closed().await;
            Fate::Gone
        }
        End::Reset => Fate::Reset,
        End::Cut => Fate::Close,
        End::Clean if plan.status == 0 => Fate::Close,
        End::Clean => {
            if coding == Coding::Chunked && !send(wire, b"0\r\n\r\n").await {
                return Fate::Gone;
            }
            let lies =
                coding == Coding::Length && length_told(plan).is_some_and(|told| told != written);
            let closes = find(&plan.headers, "connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            if lies || closes {
                Fate::Close
            } else {
                Fate::Keep
            }
        }
    }
}

/// How the body's bytes are put on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Bodiless,
    Chunked,
    /// As they are: the length was told in the head, or no head was sent.
    Length,
}

impl Coding {
    fn of(plan: &Plan, method: &str) -> Self {
        if plan.status == 0 {
            return Self::Length;
        }
        if method == "HEAD" || plan.status == 204 || plan.status == 304 {
            return Self::Bodiless;
        }
        if length_told(plan).is_some() {
            return Self::Length;
        }
        if plan.whole && find(&plan.headers, "transfer-encoding").is_none() {
            Self::Length
        } else {
            Self::Chunked
        }
    }

    fn frame(self, bytes: &[u8], out: &mut BytesMut) {
        // An empty chunk would end the body.
        if self == Self::Chunked && !bytes.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        } else if self == Self::Length {
            out.extend_from_slice(bytes);
        }
    }
}

fn length_told(plan: &Plan) -> Option<usize> {
    find(&plan.headers, "content-length").and_then(|value| value.trim().parse().ok())
}

fn write_head(out: &mut BytesMut, plan: &Plan, coding: Coding) {
    let reason = http::StatusCode::from_u16(plan.status)
        .ok()
        .and_then(|status| status.canonical_reason());
    out.put_slice(format!("HTTP/1.1 {} {}\r\n", plan.status, reason.unwrap_or("")).as_bytes());
    for (name, value) in &plan.headers {
        out.put_slice(name.as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    match coding {
        Coding::Chunked if find(&plan.headers, "transfer-encoding").is_none() => {
            out.put_slice(b"transfer-encoding: chunked\r\n");
        }
        Coding::Length if length_told(plan).is_none() => {
            let length: usize = plan
                .steps
                .iter()
                .map(|step| {
                    if let Step::Send(bytes) = step {
                        bytes.len()
                    } else {
                        0
                    }
                })
                .sum();
            out.put_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        Coding::Bodiless | Coding::Chunked | Coding::Length => {}
    }
    out.put_slice(b"\r\n");
}

/// One flushed write; false when the client is gone.
async fn send<S: Socket>(wire: &mut Wire<S>, bytes: &[u8]) -> bool {
    wire.stream.write_all(bytes).await.is_ok() && wire.stream.flush().await.is_ok()
}

/// Waits; false when the client left meanwhile.
async fn pause<S: Socket>(wire: &mut Wire<S>, duration: Duration) -> bool {
    tokio::select! {
        () = sleep(duration) => true,
        () = wire.closed() => false,
    }
}

struct Repeated<'a> {
    text: &'a Bytes,
    every: Duration,
    times: u64,
    stamped: bool,
}

async fn repeat<S: Socket>(wire: &mut Wire<S>, coding: Coding, repeated: Repeated<'_>) -> bool {
    let mut frame = BytesMut::new();
    coding.frame(repeated.text, &mut frame);
    let mut due = Instant::now();
    for i in 0..repeated.times {
        if !repeated.every.is_zero() {
            // Due times do not drift: a late write does not move the next one.
            due += repeated.every;
            let gone = tokio::select! {
                () = sleep_until(due) => false,
                () = wire.closed() => true,
            };
            if gone {
                return false;
            }
        }
        if repeated.stamped {
            frame.clear();
            coding.frame(stamp(repeated.text, i).as_bytes(), &mut frame);
        }
        if !send(wire, &frame).await {
            return false;
        }
    }
    true
}

fn stamp(text: &[u8], i: u64) -> String {
    let text = String::from_utf8_lossy(text);
    text.replace("{i}", &i.to_string())
        .replace("{t}", &clock::process_nanos().to_string())
}
