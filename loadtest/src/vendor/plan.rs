//! A reply made ready to play: bytes, pauses and an end.
//!
//! Rendering happens once per script where nothing in it changes from request to request, so that
//! a vendor under load spends its time on the sockets.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::script::{End, Reply, ScriptError, Write};
use crate::clock;

/// A reply's parts in the order of the wire, without the framing of HTTP.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// 0 for no HTTP answer.
    pub(super) status: u16,
    /// As the script has them.
    pub(super) headers: Vec<(String, String)>,
    /// Before the head is written.
    pub(super) delay: Duration,
    /// The body.
    pub(super) steps: Vec<Step>,
    /// Behind it.
    pub(super) end: End,
    /// Whether the body is one known piece, so that its length can be told.
    pub(super) whole: bool,
    /// Whether the answer comes before the request's body was read.
    pub(super) before_body: bool,
}

/// One thing to do with a body.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// One flushed write of the same bytes at each due time.
    Repeat {
        /// `{i}` and `{t}` in it are filled in when `stamped`.
        text: Bytes,
        /// Zero means as fast as the peer reads.
        every: Duration,
        /// How often.
        times: u64,
        /// Whether `{i}` or `{t}` occurs.
        stamped: bool,
    },
    /// One flushed write.
    Send(Bytes),
    /// A pause.
    Sleep(Duration),
}

impl Plan {
    /// Renders a reply for the `n`th request.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Hex`] for a hex write that is none.
    pub(super) fn render(reply: &Reply, n: u64) -> Result<Self, ScriptError> {
        let mut steps = Vec::new();
        let mut whole = false;
        if let Some(body) = &reply.body {
            steps.push(Step::Send(Bytes::from(expand(&body.to_string(), n))));
            whole = true;
        } else if let Some(text) = &reply.text {
            steps.push(Step::Send(Bytes::from(expand(text, n))));
            whole = true;
        } else if let Some(writes) = &reply.writes {
            for write in writes {
                steps.push(step(write, n)?);
            }
        } else {
            whole = true;
        }
        let mut headers: Vec<_> = reply
            .headers
            .0
            .iter()
            .map(|(name, value)| (name.clone(), expand(value, n)))
            .collect();
        if reply.gzip {
            steps = compress(steps);
            headers.push(("content-encoding".to_owned(), "gzip".to_owned()));
        }
        Ok(Self {
            status: reply.status,
            headers,
            delay: Duration::from_millis(reply.sleep_ms),
            steps,
            end: reply.end,
            whole: whole && reply.end == End::Clean,
            before_body: reply.before_body,
        })
    }

    /// An answer without a body.
    pub(super) fn empty() -> Self {
        Self {
            status: 500,
            headers: Vec::new(),
            delay: Duration::ZERO,
            steps: Vec::new(),
            end: End::Clean,
            whole: true,
            before_body: false,
        }
    }

    /// Whether the rendering of a reply depends on the time or the request's number.
    pub(super) fn varies(reply: &Reply) -> bool {
        let changes = |text: &str| {
            text.contains("{n}") || text.contains("{HTTP-DATE") || text.contains("{ISO-ms}")
        };
        reply.headers.0.iter().any(|(_, value)| changes(value))
            || reply
                .body
                .as_ref()
                .is_some_and(|body| changes(&body.to_string()))
            || reply.text.as_deref().is_some_and(changes)
            || reply
                .writes
                .iter()
                .flatten()
                .any(|write| matches!(write, Write::Text(text) if changes(text)))
    }
}

fn step(write: &Write, n: u64) -> Result<Step, ScriptError> {
    Ok(match write {
        Write::Text(text) => Step::Send(Bytes::from(expand(text, n))),
        Write::Hex { hex } => Step::Send(Bytes::from(unhex(hex)?)),
        Write::Sleep { sleep_ms } => Step::Sleep(Duration::from_millis(*sleep_ms)),
        Write::Repeat {
            repeat_every_ms,
            write,
            times,
        } => Step::Repeat {
            text: Bytes::from(expand(write, n)),
            every: Duration::from_millis(*repeat_every_ms),
            times: *times,
            stamped: write.contains("{i}") || write.contains("{t}"),
        },
    })
}

fn unhex(text: &str) -> Result<Vec<u8>, ScriptError> {
    let refuse = || ScriptError::Hex(text.to_owned());
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return Err(refuse());
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .ok_or_else(refuse)
        })
        .collect()
}

/// Fills in the placeholders of `cases/README.md`: `{n}`, `{ISO-ms}`, `{HTTP-DATE now+3s}`,
/// `{{x*N}}` (a letter N times) and `{{stable filler, N tokens}}`.
pub fn expand(text: &str, n: u64) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let mut text = text.replace("{n}", &n.to_string());
    if text.contains("{ISO-ms}") {
        text = text.replace("{ISO-ms}", &iso_ms());
    }
    while let Some((before, rest)) = text.split_once("{HTTP-DATE now+") {
        let Some((seconds, after)) = rest.split_once("s}") else {
            break;
        };
        let seconds: u64 = seconds.parse().unwrap_or(0);
        text = format!("{before}{}{after}", http_date(seconds));
    }
    fill(text)
}

fn fill(mut text: String) -> String {
    let mut from = 0;
    while let Some(start) = text
        .get(from..)
        .and_then(|rest| rest.find("{{"))
        .map(|at| at + from)
    {
        let Some(end) = text
            .get(start..)
            .and_then(|rest| rest.find("}}"))
            .map(|at| at + start)
        else {
            break;
        };
        let inner = text.get(start + 2..end).unwrap_or_default();
        if let Some(filled) = filler(inner) {
            text.replace_range(start..end + 2, &filled);
            from = start + filled.len();
        } else {
            from = start + 2;
        }
    }
    text
}

fn filler(inner: &str) -> Option<String> {
    if let Some((letter, times)) = inner.split_once('*') {
        return Some(letter.repeat(times.trim().parse().ok()?));
    }
    let count: usize = inner
        .strip_prefix("stable filler, ")?
        .strip_suffix(" tokens")?
        .parse()
        .ok()?;
    Some("word ".repeat(count))
}

fn iso_ms() -> String {
    let ms = i64::try_from(clock::unix().as_millis()).unwrap_or(0);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A date as HTTP writes it, so many seconds from now, rounded up to the whole second: a reader
/// that waits until it has waited at least that long.
fn http_date(seconds: u64) -> String {
    let now = clock::unix();
    let whole = now.as_secs() + u64::from(now.subsec_nanos() > 0) + seconds;
    let time = i64::try_from(whole)
        .ok()
        .and_then(|at| jiff::Timestamp::from_second(at).ok());
    time.unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string()
}

/// Compresses each write and flushes it, so that a streaming reader can decode what has come. A
/// repeated write becomes one write: its bytes differ each time in a compressed stream.
fn compress(steps: Vec<Step>) -> Vec<Step> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Sleep(pause) => out.push(Step::Sleep(pause)),
            Step::Send(bytes) => push_compressed(&mut encoder, &bytes, &mut out),
            Step::Repeat { text, times, .. } => {
                push_compressed(
                    &mut encoder,
                    &text.repeat(usize::try_from(times).unwrap_or(0)),
                    &mut out,
                );
            }
        }
    }
    out.push(Step::Send(Bytes::from(
        encoder.finish().unwrap_or_default(),
    )));
    out
}

fn push_compressed(encoder: &mut GzEncoder<Vec<u8>>, bytes: &[u8], out: &mut Vec<Step>) {
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(bytes).and_then(|()| encoder.flush());
    out.push(Step::Send(Bytes::from(std::mem::take(encoder.get_mut()))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        assert_eq!(
            expand("a {n} {{x*4}} {\"k\":{}} {{other}}", 7),
            "a 7 xxxx {\"k\":{}} {{other}}"
        );
        assert_eq!(expand("{{stable filler, 2 tokens}}", 0), "word word ");
        assert!(expand("{HTTP-DATE now+3s}", 0).ends_with(" GMT"));
        assert_eq!(
            expand("{ISO-ms}", 0).len(),
            "2026-11-30T22:10:00.123Z".len()
        );
    }

    #[test]
    fn hex_that_is_none_is_refused() {
        assert!(unhex("0g").is_err());
        assert!(unhex("abc").is_err());
        assert_eq!(unhex("00fF").unwrap(), [0, 255]);
    }

    #[test]
    fn a_compressed_body_decodes_to_the_writes() {
        use std::io::Read as _;
        let mut reply = Reply::events(["data: a\n\n", "data: b\n\n"]);
        reply.gzip = true;
        let plan = Plan::render(&reply, 0).unwrap();
        let bytes: Vec<u8> = plan
            .steps
            .iter()
            .flat_map(|step| {
                if let Step::Send(bytes) = step {
                    bytes.to_vec()
                } else {
                    Vec::new()
                }
            })
            .collect();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "data: a\n\ndata: b\n\n");
    }
}
