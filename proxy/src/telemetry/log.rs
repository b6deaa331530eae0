//! Log lines, written by a thread of their own.
//!
//! Problem: whoever reads standard error may stop reading, and then a write blocks; a gateway must
//! not stand still for its log. Idea: lines go through a bounded queue to one thread; what finds no
//! room is dropped and counted ([`dropped`]). Every request has one line ([`exchange`]), with names
//! that stay as they are, and neither prompts nor keys.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde::{Serialize, Serializer};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};
use whippletree_policies::ids::{KeyId, RequestId, RouteId, TargetId};
use whippletree_policies::units::Money;

use crate::clock;
use crate::config::{LogFormat, Telemetry};
use crate::exchange::{Api, End, Exchange, Millis};
use crate::json;

/// Lines between those who write them and the thread.
const QUEUE: usize = 4096;

/// How long lines are collected after the first, so that each need not wake the thread.
const COLLECT: Duration = Duration::from_millis(50);

/// How long the end of the process waits for a log that nobody reads.
const CLOSING: Duration = Duration::from_secs(1);

/// The target of the requests' lines, for filters: `whippletree::request=off`.
const TARGET: &str = "whippletree::request";

static LINES: OnceLock<Lines> = OnceLock::new();
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not understood.
    #[error("telemetry.log: expected a filter such as \"info\" or \"info,whippletree=debug\"")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// It is set up already, or the thread cannot be started.
    #[error("the log cannot be started")]
    Start,
}

/// Keeps the log's thread; lines that were queued are written before it is dropped.
#[derive(Debug)]
pub struct Log {
    sender: SyncSender<Message>,
    done: Receiver<()>,
}

/// Sends the process's events and the requests' lines to standard error.
///
/// # Errors
///
/// The filter is not understood, or this was called before.
pub fn init(config: &Telemetry) -> Result<Log, LogError> {
    let filter = EnvFilter::try_new(&config.log)?;
    let (sender, receiver) = sync_channel(QUEUE);
    let (finished, done) = sync_channel(1);
    let lines = Lines {
        sender: sender.clone(),
        format: config.log_format,
    };
    let (filter, handle) = reload::Layer::new(filter);
    let filtered = Registry::default().with(filter);
    let events = tracing_subscriber::fmt::layer()
        .with_ansi(io::stderr().is_terminal())
        .with_writer(lines.clone());
    let installed = match config.log_format {
        LogFormat::Json => tracing::subscriber::set_global_default(
            filtered.with(events.json().flatten_event(true)),
        ),
        LogFormat::Text => tracing::subscriber::set_global_default(filtered.with(events)),
    };
    installed.map_err(|_| LogError::Start)?;
    LINES.set(lines).map_err(|_| LogError::Start)?;
    FILTER.set(handle).map_err(|_| LogError::Start)?;
    thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || {
            write_lines(&receiver, &mut io::stderr());
            // The other end may have stopped waiting.
            let _ = finished.send(());
        })
        .map_err(|_| LogError::Start)?;
    Ok(Log { sender, done })
}

/// Changes what is logged from now on. Without a log ([`init`]) nothing is to be changed.
///
/// # Errors
///
/// The filter is not understood; the old one stays.
pub fn set_filter(filter: &str) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(filter)?;
    if let Some(handle) = FILTER.get() {
        handle.reload(filter).map_err(|_| LogError::Start)?;
    }
    Ok(())
}

/// Lines dropped because their reader was too slow.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Writes the line of a finished exchange.
pub fn exchange(exchange: &Exchange) {
    let Some(lines) = LINES.get() else { return };
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return;
    }
    let line = Line::new(exchange);
    let text = match lines.format {
        LogFormat::Json => line.json(),
        LogFormat::Text => Some(line.text()),
    };
    if let Some(text) = text {
        lines.send(text);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.sender.try_send(Message::Close).is_ok() {
            // Whether it is done or time is up: the process ends.
            let _ = self.done.recv_timeout(CLOSING);
        }
    }
}

#[derive(Debug)]
enum Message {
    Close,
    Line(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Lines {
    sender: SyncSender<Message>,
    format: LogFormat,
}

impl Lines {
    fn send(&self, line: Vec<u8>) {
        if self.sender.try_send(Message::Line(line)).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// The subscriber writes each event at once.
impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.send(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(receiver: &Receiver<Message>, out: &mut impl Write) {
    let mut text = Vec::new();
    while let Ok(Message::Line(first)) = receiver.recv() {
        text.extend_from_slice(&first);
        thread::sleep(COLLECT);
        let mut closed = false;
        while let Ok(message) = receiver.try_recv() {
            match message {
                Message::Close => closed = true,
                Message::Line(line) => text.extend_from_slice(&line),
            }
        }
        // A log that cannot be written has nowhere to be reported.
        let _ = out.write_all(&text);
        text.clear();
        if closed {
            return;
        }
    }
}

fn rfc3339<S: Serializer>(time: &jiff::Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.3}"))
}

/// What a request's line says.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "rfc3339")]
    timestamp: jiff::Timestamp,
    level: &'static str,
    target: &'static str,
    message: &'static str,
    request_id: RequestId,
    tenant: &'a str,
    key: Option<&'a str>,
    user: Option<&'a str>,
    task: Option<&'a str>,
    harness: Option<&'a str>,
    route: Option<&'a str>,
    api: Api,
    stream: bool,
    status: u16,
    outcome: &'static str,
    error: Option<&'a str>,
    answered_by: Option<&'a str>,
    fallback: bool,
    attempts: usize,
    input_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cost_usd: Money,
    ttft_ms: Option<Millis>,
    duration_ms: Millis,
    overhead_ms: Millis,
    finding: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new(exchange: &'a Exchange) -> Self {
        let usage = exchange.usage;
        Self {
            timestamp: jiff::Timestamp::from_millisecond(clock::unix_now().0).unwrap_or_default(),
            level: "INFO",
            target: TARGET,
            message: "request",
            request_id: exchange.request_id,
            tenant: exchange.tenant.as_str(),
            key: exchange.key.as_ref().map(KeyId::as_str),
            user: exchange.user.as_deref(),
            task: exchange.task.as_deref(),
            harness: exchange.harness.as_deref(),
            route: exchange.route.as_ref().map(RouteId::as_str),
            api: exchange.api,
            stream: exchange.stream,
            status: exchange.status,
            outcome: exchange.outcome.as_str(),
            error: exchange.error.as_deref(),
            // On a failed call it is who failed last.
            answered_by: match exchange.outcome {
                End::Failed | End::Refused => None,
                End::ClientGone | End::Interrupted | End::Ok => {
                    exchange.target.as_ref().map(TargetId::as_str)
                }
            },
            fallback: exchange.fallback,
            attempts: exchange.attempts.len(),
            input_tokens: usage.map(|usage| usage.input.0),
            cache_read_tokens: usage
                .and_then(|usage| usage.cache_read)
                .map(|tokens| tokens.0),
            output_tokens: usage.map(|usage| usage.output.0),
            cost_usd: exchange.cost_usd,
            ttft_ms: exchange.ttft_ms,
            duration_ms: exchange.duration_ms,
            overhead_ms: exchange.overhead_ms,
            finding: exchange
                .prefix
                .as_ref()
                .and_then(|prefix| prefix.finding.as_deref()),
        }
    }

    fn json(&self) -> Option<Vec<u8>> {
        let mut line = Vec::with_capacity(768);
        json::write(&mut line, self).ok()?;
        line.push(b'\n');
        Some(line)
    }

    fn text(&self) -> Vec<u8> {
        let mut line = String::with_capacity(256);
        // Writing to a string cannot fail. What clients chose is quoted, so that it stays one line.
        let _ = write!(
            line,
            "{:.3}  INFO {TARGET}: {} {} {:.1}ms tenant={:?} ${}",
            self.timestamp,
            self.status,
            self.outcome,
            self.duration_ms.seconds() * 1e3,
            self.tenant,
            self.cost_usd,
        );
        let quoted = [
            ("route", self.route),
            ("target", self.answered_by),
            ("error", self.error),
            ("task", self.task),
            ("user", self.user),
            ("finding", self.finding),
        ];
        for (name, value) in quoted {
            if let Some(value) = value {
                let _ = write!(line, " {name}={value:?}");
            }
        }
        if let (Some(input), Some(output)) = (self.input_tokens, self.output_tokens) {
            let cached = self.cache_read_tokens.unwrap_or(0);
            let _ = write!(line, " tokens={input}({cached} cached)+{output}");
        }
        let _ = writeln!(line, " attempts={} id={}", self.attempts, self.request_id);
        line.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::exchange;

    fn line_of(exchange: &Exchange) -> Line<'_> {
        let mut line = Line::new(exchange);
        line.timestamp = jiff::Timestamp::from_millisecond(1_764_500_000_123).unwrap();
        line
    }

    #[test]
    fn a_request_has_one_line_of_json() {
        let exchange = exchange(7);
        let json = String::from_utf8(line_of(&exchange).json().unwrap()).unwrap();
        insta::assert_snapshot!(json);
    }

    #[test]
    fn what_a_client_chose_cannot_forge_a_line() {
        let mut exchange = exchange(7);
        exchange.user = Some("x\n2025 INFO forged".to_owned());
        let text = String::from_utf8(line_of(&exchange).text()).unwrap();
        assert_eq!(text.lines().count(), 1);
        insta::assert_snapshot!(text);
        let json = String::from_utf8(line_of(&exchange).json().unwrap()).unwrap();
        assert_eq!(json.lines().count(), 1);
    }

    #[test]
    fn queued_lines_are_written_before_the_thread_ends() {
        let (sender, receiver) = sync_channel(8);
        sender.send(Message::Line(b"one\n".to_vec())).unwrap();
        sender.send(Message::Line(b"two\n".to_vec())).unwrap();
        sender.send(Message::Close).unwrap();
        let mut out = Vec::new();
        write_lines(&receiver, &mut out);
        assert_eq!(out, b"one\ntwo\n");
    }

    #[test]
    fn a_log_that_nobody_reads_drops_lines_and_counts_them() {
        let (sender, _receiver) = sync_channel(1);
        let lines = Lines {
            sender,
            format: LogFormat::Json,
        };
        let before = dropped();
        for _ in 0..3 {
            (&lines).write_all(b"line\n").unwrap();
        }
        assert_eq!(dropped() - before, 2);
    }
}
