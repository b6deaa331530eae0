//! Many streams at once: how late each event is, and what an open stream weighs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::bodies::Body;
use crate::client::{Session, request_head};
use crate::clock;
use crate::vendor::{End, Reply, Script, Write};

/// Streams at once.
pub const STREAMS: u64 = 200;
/// Events in each, one every [`EVERY_MS`].
pub const EVENTS: u64 = 100;
const EVERY_MS: u64 = 10;
/// How long a client waits for a stream's end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A vendor's stream whose events say when they were written.
pub fn script() -> Script {
    script_of(EVENTS, EVERY_MS)
}

/// The same with this many events, this many milliseconds apart.
pub fn script_of(events: u64, every_ms: u64) -> Script {
    let chunk = |delta: &str, rest: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-b\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
             \"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":null}}]{rest}}}\n\n"
        )
    };
    let stop = chunk("", "").replace("null", "\"stop\"");
    let mut reply = Reply::events([chunk("\"role\":\"assistant\",\"content\":\"\"", "")]);
    if let Some(writes) = &mut reply.writes {
        writes.push(Write::Repeat {
            repeat_every_ms: every_ms,
            write: chunk("\"content\":\"word {i} \"", ",\"t\":{t}"),
            times: events,
        });
        writes.push(Write::Text(stop));
        writes.push(Write::Text("data: [DONE]\n\n".to_owned()));
    }
    Script::replies([reply])
}

/// A vendor's stream that says one word and then nothing.
pub fn idle_script() -> Script {
    let delta = "data: {\"id\":\"chatcmpl-b\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
                 \"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"w\"},\"finish_reason\":null}]}\n\n";
    Script::replies([Reply::events([delta]).ending(End::Hang)])
}

/// What came of the streams.
#[derive(Debug, Clone)]
pub struct Streamed {
    /// Nanoseconds from the request to the first content.
    pub first_token: Histogram<u64>,
    /// Nanoseconds from the vendor's write of an event to its arrival.
    pub lateness: Histogram<u64>,
    /// Streams that ended with `[DONE]` and had every event.
    pub whole: u64,
}

/// A streaming request's bytes.
pub(super) fn request(body: &Body, headers: &[(String, String)], number: u64) -> Vec<u8> {
    let text = String::from_utf8_lossy(&body.numbered(number)).into_owned();
    let text = text.replacen('{', "{\"stream\":true,", 1);
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut bytes = request_head("/v1/chat/completions", &headers, text.len()).into_bytes();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Runs all streams at once.
///
/// # Errors
///
/// When a histogram cannot hold a value.
pub async fn run(
    addr: SocketAddr,
    body: &Body,
    headers: &[(String, String)],
    first: u64,
) -> anyhow::Result<Streamed> {
    let mut running = JoinSet::new();
    for number in 0..STREAMS {
        let request = request(body, headers, first + number);
        running.spawn(async move { one(addr, &request).await });
    }
    let mut all = Streamed {
        first_token: Histogram::new(3)?,
        lateness: Histogram::new(3)?,
        whole: 0,
    };
    for stream in running.join_all().await {
        let Some((first_token, lateness)) = stream else {
            continue;
        };
        all.first_token.record(first_token)?;
        for late in &lateness {
            all.lateness.record(*late)?;
        }
        all.whole += u64::from(lateness.len() as u64 == EVENTS);
    }
    Ok(all)
}

async fn one(addr: SocketAddr, request: &[u8]) -> Option<(u64, Vec<u64>)> {
    let mut session = Session::new(addr);
    let begun = clock::process_nanos();
    let mut first = None;
    let mut lateness = Vec::new();
    let mut line = Vec::new();
    let mut tell = |bytes: &Bytes| {
        let now = clock::process_nanos();
        for byte in bytes {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            if let Some(written) = stamp(&line) {
                first.get_or_insert(now.saturating_sub(begun));
                lateness.push(now.saturating_sub(written));
            }
            line.clear();
        }
    };
    let answer = tokio::time::timeout(PATIENCE, session.send_raw(request, &mut tell))
        .await
        .ok()?
        .ok()?;
    answer
        .body
        .ends_with(b"data: [DONE]\n\n")
        .then_some((first?, lateness))
}

fn stamp(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, after) = text.rsplit_once("\"t\":")?;
    after.trim_end_matches('}').parse().ok()
}

/// Opens all streams, waits until each has said its word, and keeps them open.
///
/// # Errors
///
/// When one cannot be opened or says nothing within ten seconds.
pub async fn open(
    addr: SocketAddr,
    body: &Body,
    headers: &[(String, String)],
    first: u64,
) -> anyhow::Result<Vec<TcpStream>> {
    let mut open = Vec::new();
    for number in 0..STREAMS {
        let mut stream = TcpStream::connect(addr).await?;
        stream
            .write_all(&request(body, headers, first + number))
            .await?;
        open.push(stream);
    }
    for stream in &mut open {
        let mut seen = Vec::new();
        let spoken = async {
            while !seen.windows(5).any(|window| window == b"data:") {
                if stream.read_buf(&mut seen).await? == 0 {
                    anyhow::bail!("an idle stream ended: {}", String::from_utf8_lossy(&seen));
                }
            }
            Ok(())
        };
        tokio::time::timeout(Duration::from_secs(10), spoken)
            .await
            .context("an idle stream said nothing")??;
    }
    Ok(open)
}
