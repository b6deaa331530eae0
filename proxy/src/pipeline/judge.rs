//! What an attempt came to: the vendor's answer read as far as its meaning needs.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use http::header::{self, HeaderMap};
use whippletree_policies::outcome::{Class, Failure, Sent};
use whippletree_policies::units::Tokens;
use whippletree_providers::decoder::Verdict;
use whippletree_providers::failure;
use whippletree_providers::openai;

use super::Call;
use super::attempt::{Answer, Asked};
use super::encode;
use super::plan::Planned;
use super::relay::Open;
use super::settle::Settlement;
use super::stream::{Passing, StreamFault, UsageEvent, Wishes};
use crate::api::headers;
use crate::api::rejection::Rejection;
use crate::clock;
use crate::config::Commit;
use crate::upstream::{self, Answer as Reply, Kind, Phase, UpstreamBody, UpstreamError};

/// The longest answer held whole. Embeddings of thousands of texts and images in base64 are large.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// The longest error body read; the rest says nothing more.
const MAX_ERROR: usize = 1024 * 1024;
/// The most of a stream held back before it is let go: events and bytes (behaviour.md, section 4).
const MAX_HELD_EVENTS: usize = 64;
const MAX_HELD_BYTES: usize = 256 * 1024;

/// Why one attempt brought no answer, with what the client may be told of it.
#[derive(Debug)]
pub(crate) struct Setback {
    /// For the machine.
    pub(crate) failure: Failure,
    /// The vendor's own words.
    pub(super) words: Option<VendorWords>,
    saturated: bool,
}

/// What a vendor said of a failure, credentials masked.
#[derive(Debug)]
pub(super) struct VendorWords(failure::Failure);

impl Setback {
    /// A failure without words.
    pub(super) fn of(class: Class) -> Self {
        Self {
            failure: Failure::new(class, Sent::Answered),
            words: None,
            saturated: false,
        }
    }

    /// Whether all connections were in use: nothing was sent, and the target is not at fault.
    pub(super) const fn is_saturated(&self) -> bool {
        self.saturated
    }

    fn of_stream(fault: StreamFault) -> Self {
        let class = fault.class();
        fault
            .into_said()
            .map_or_else(|| Self::of(class), Self::said)
    }

    /// The same with the meaning that the configuration gives the vendor's code or type.
    pub(crate) fn meaning(mut self, classes: &BTreeMap<String, Class>) -> Self {
        let said = self.words.as_ref().map(|VendorWords(said)| said);
        let words = said.map(|said| [said.code.as_ref(), said.kind.as_ref()]);
        let meant = words
            .into_iter()
            .flatten()
            .flatten()
            .find_map(|word| classes.get(word));
        if let Some(class) = meant {
            self.failure.class = *class;
        }
        self
    }

    /// A failure that the vendor explained.
    pub(crate) fn said(said: failure::Failure) -> Self {
        let mut failure = Failure::new(said.class, Sent::Answered);
        failure.status = said.status;
        failure.wait_hint = said.wait;
        if let Some(overflow) = said.overflow {
            failure.context_window = overflow.limit.map(Tokens);
            failure.context_needed = overflow.requested.map(Tokens);
        }
        Self {
            failure,
            words: Some(VendorWords(said)),
            saturated: false,
        }
    }
}

impl VendorWords {
    /// The vendor's refusal as the client gets it.
    pub(super) fn rejection(self, class: Class) -> Rejection {
        let said = self.0;
        let code = match class {
            // The same code whatever the vendor, because harnesses compact on it.
            Class::ContextOverflow => Some("context_length_exceeded".to_owned()),
            _ => said.code,
        };
        let status = match class {
            Class::ContextOverflow => 400,
            _ => said
                .status
                .filter(|status| (400..500).contains(status))
                .unwrap_or(400),
        };
        Rejection::Vendor {
            class,
            status,
            message: said
                .message
                .unwrap_or_else(|| "the vendor refused the request".into()),
            kind: said.kind,
            param: said.param,
            code,
        }
    }
}

/// A call to which no answer came, or not the whole of it.
pub(super) fn unreached(error: &UpstreamError) -> Setback {
    let mut setback = Setback::of(error.class());
    setback.failure.sent = match error.sent {
        upstream::Sent::Nothing => Sent::Nothing,
        upstream::Sent::Maybe => Sent::Maybe,
        upstream::Sent::Answered => Sent::Answered,
    };
    setback.saturated = error.phase == Phase::Pool;
    setback
}

impl UpstreamError {
    /// The meaning of the failure.
    pub fn class(&self) -> Class {
        match (self.phase, self.kind) {
            (_, Kind::TimedOut) => Class::Timeout,
            (_, Kind::Malformed | Kind::TooLarge) | (Phase::Body | Phase::Idle, Kind::Closed) => {
                Class::MalformedResponse
            }
            _ => Class::Transport,
        }
    }
}

/// Reads an answer as far as it takes to know whether it is one.
///
/// # Errors
/// Why it is none.
pub(super) async fn read(
    call: &Call,
    asked: Asked<'_>,
    planned: &Planned,
    reply: Reply,
    settlement: &mut Settlement,
) -> Result<Answer, Setback> {
    let dialect = encode::dialect(&planned.target.provider);
    let Reply {
        status,
        headers,
        body,
        ..
    } = reply;
    if !status.is_success() {
        let bytes = whole(body, MAX_ERROR, &headers).await.unwrap_or_default();
        let now = clock::unix_now();
        let said = openai::failure::classify(dialect, status, &headers, &bytes, now);
        let mut setback = Setback::said(said);
        setback.failure.vendor_retry = vendor_retry(&headers);
        return Err(setback);
    }
    if asked.envelope.stream() && is_event_stream(&headers) {
        let passing = Passing::new(asked.api, dialect, wishes(asked));
        let passing = if is_gzip(&headers) {
            passing.unpacking()
        } else {
            passing
        };
        let (passing, mut upstream, held, end) = open(asked, passing, body, settlement).await?;
        // A route's deadline, and the time-outs that SDKs announce, bound the wait for an answer:
        // for its head (Node) or between two of its bytes (Python), never a stream that flows.
        if !call.head.headers.contains_key(headers::WT_DEADLINE) {
            upstream.outlive_deadline();
        }
        let open = Open {
            passing,
            upstream: end.is_none().then_some(upstream),
            held,
            keepalive: asked.plan.route.settings.keepalive,
            status: status.as_u16(),
            trailer: call
                .head
                .headers
                .get(headers::WT_TRAILER)
                .is_some_and(|v| v == "1"),
        };
        return Ok(Answer::Stream {
            status,
            headers,
            open: Box::new(open),
        });
    }
    let bytes = whole(body, MAX_ANSWER, &headers).await?;
    let read = openai::response::read(
        dialect,
        asked.api,
        status,
        &headers,
        &bytes,
        clock::unix_now(),
    );
    settlement.written(read.progress.written_bytes);
    if let Some(usage) = read.progress.usage {
        settlement.usage(usage);
    }
    match read.verdict {
        // Arguments that are no JSON are the model's own words here, not a cut: they are whole.
        Verdict::Complete | Verdict::PartialToolCall { .. } if !asked.envelope.stream() => {
            settlement.first_content();
            Ok(Answer::Whole {
                status,
                headers,
                bytes,
            })
        }
        Verdict::Failed(said) => Err(Setback::said(*said)),
        // Among them a whole answer where a stream was asked for: it cannot be passed on as one.
        _ => Err(Setback::of(Class::MalformedResponse)),
    }
}

fn wishes(asked: Asked<'_>) -> Wishes {
    let asks = asked.envelope.asks_for_usage();
    Wishes {
        usage: if asks {
            UsageEvent::Pass
        } else {
            UsageEvent::TakeOut
        },
        output_limit: asked.envelope.output_limit(),
        commit: asked.plan.route.settings.commit,
    }
}

/// Reads a stream up to the point where it is committed to this target.
async fn open(
    asked: Asked<'_>,
    mut passing: Passing,
    mut body: UpstreamBody,
    settlement: &mut Settlement,
) -> Result<(Passing, UpstreamBody, VecDeque<Bytes>, Option<StreamEnd>), Setback> {
    let settings = &asked.plan.route.settings;
    // A stream that has begun and then falls silent is let go with its first sign of life: clients'
    // idle timers run from their request on.
    let commit_at = clock::now().after(settings.commit_wait.min(settings.keepalive));
    let mut held = VecDeque::new();
    let mut end = None;
    while !passing.is_committed() && end.is_none() {
        let may_go = settings.commit == Commit::FirstToken && passing.has_begun();
        if may_go {
            let bytes: usize = held.iter().map(Bytes::len).sum();
            let full = passing.events() >= MAX_HELD_EVENTS || bytes >= MAX_HELD_BYTES;
            if full || clock::now() >= commit_at {
                break;
            }
        }
        let next = if may_go {
            let until = clock::tokio_instant(commit_at);
            let Ok(next) = tokio::time::timeout_at(until, body.next()).await else {
                held.push_back(passing.keepalive());
                break;
            };
            next
        } else {
            body.next().await
        };
        let fault = match next {
            Ok(Some(chunk)) => passing.push(chunk, clock::unix_now(), &mut held).err(),
            Err(error) => Some(StreamFault::broke(&error)),
            Ok(None) => {
                end = Some(StreamEnd);
                passing.end(clock::unix_now(), &mut held).err()
            }
        };
        if let Some(fault) = fault {
            settlement.written(passing.written());
            if let Some(usage) = passing.usage() {
                settlement.usage(usage);
            }
            return Err(Setback::of_stream(fault));
        }
    }
    Ok((passing, body, held, end))
}

/// The vendor's body has ended while its beginning was still held.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamEnd;

/// Reads an answer to its end, at most `limit` bytes of it, and unpacks it where it came packed.
async fn whole(body: UpstreamBody, limit: usize, headers: &HeaderMap) -> Result<Bytes, Setback> {
    let bytes = body
        .collect(limit)
        .await
        .map_err(|error| unreached(&error))?;
    if is_gzip(headers) {
        return upstream::gunzip(&bytes, limit).map_err(|_| Setback::of(Class::MalformedResponse));
    }
    Ok(bytes)
}

/// The vendor's own word on another try, which beats what its status says.
pub(crate) fn vendor_retry(vendor: &HeaderMap) -> Option<bool> {
    match vendor.get(headers::SHOULD_RETRY)?.to_str().ok()? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn is_gzip(headers: &HeaderMap) -> bool {
    let coding = headers
        .get(header::CONTENT_ENCODING)
        .and_then(|value| value.to_str().ok());
    coding.is_some_and(|coding| matches!(coding.trim(), "gzip" | "x-gzip"))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("text/event-stream")
    })
}
