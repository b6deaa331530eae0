//! Clients that come back: a retry of their own, or the rest of a stream.
//!
//! A request is known by what its client says of it: an `Idempotency-Key`, or a count of retries
//! with the same body from the same key. What it is then told is decided in
//! [`whippletree_policies::retry::twin`]; here it joins the call that runs, or hears its answer again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::{Instant, Sleep};
use whippletree_policies::ids::RequestId;
use whippletree_policies::retry::twin::{Claim, Finding, Fingerprint, Repeats};

use super::authenticate::Caller;
use super::recording::{Follows, Head, Listener, Next, Opening};
use super::run::Prepared;
use super::settle::Settlement;
use super::share::{Expected, Leaving, Share};
use super::{Call, turn_away};
use crate::api::body::{Body, Cut};
use crate::api::headers;
use crate::api::rejection::Rejection;
use crate::config::OnDisconnect;
use crate::exchange::{End, Repeated, Repetition};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const LAST_EVENT_ID: &str = "last-event-id";
/// The header in which a Stainless SDK counts its retries (wire-facts, A1).
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// The same of the AWS SDKs, as `attempt=2; max=3`.
const AWS_REQUEST: HeaderName = HeaderName::from_static("amz-sdk-request");
/// The time-out that an SDK of OpenAI's or Anthropic's family announces for a whole call, in seconds.
const SDK_TIMEOUT: HeaderName = HeaderName::from_static("x-stainless-timeout");
/// The same for one read.
const SDK_READ_TIMEOUT: HeaderName = HeaderName::from_static("x-stainless-read-timeout");

/// What a request is to those that were sent before.
pub(super) enum Found {
    /// A call of its own. `left`: what a failed call before it has left of its attempts.
    Own {
        share: Option<Arc<Share>>,
        left: Option<u32>,
    },
    /// The client is turned away.
    Refused(Rejection),
    /// Another's answer, from that chunk on.
    Twin(Listener, u64, Repetition),
}

/// Looks a request up among those that run and those that have ended.
pub(super) fn find(call: &Call, prepared: &Prepared, id: RequestId) -> Found {
    let head = &call.head.headers;
    let settings = &prepared.plan.route.settings;
    let resume = settings.resume && prepared.envelope.stream();
    let expected = expected(head);
    let leaving = Leaving {
        expected,
        on_disconnect: settings.on_disconnect,
        resume,
        since: prepared.since,
    };
    // A gateway in front of this one owns the retries, and names them all by one key.
    let owned = head.contains_key(headers::WT_ATTEMPT_OWNER);
    let claims = expected != Expected::Nothing && !owned;
    if !claims && !resume {
        let drains = settings.on_disconnect == OnDisconnect::Drain;
        let share = drains.then(|| Arc::new(Share::new(&call.gateway, None, None, leaving)));
        return Found::Own { share, left: None };
    }
    let calls = &call.gateway.calls;
    let body = fingerprint(
        &prepared.caller,
        "body",
        call.head.uri.path(),
        prepared.envelope.body(),
    );
    if resume && let Some(last) = head.get(LAST_EVENT_ID) {
        return rest(call, prepared, body, last.as_bytes());
    }
    let recording = calls.record(id);
    let mut own = None;
    let mut left = None;
    if claims {
        let claim = match head.get(IDEMPOTENCY_KEY) {
            Some(key) => Claim {
                name: fingerprint(&prepared.caller, "key", "", key.as_bytes()),
                body,
                repeats: Repeats::Perhaps,
            },
            None => Claim {
                name: body,
                body,
                repeats: match expected {
                    Expected::Retry { count, .. } if count > 0 => Repeats::Again,
                    _ => Repeats::First,
                },
            },
        };
        match calls.begin(&claim, &recording) {
            Finding::Differs => return Found::Refused(Rejection::KeyReused),
            Finding::Repeats(twin) => {
                let kind = if twin.has_ended() {
                    Repetition::Replayed
                } else {
                    Repetition::Joined
                };
                return Found::Twin(twin.listen(), 0, kind);
            }
            Finding::Own { call, left: some } => (own, left) = (Some(call), some),
        }
    }
    if resume {
        let name = run_name(&prepared.caller, id.to_string().as_bytes());
        own = Some(calls.resumable(own, name, body, &recording));
    }
    let share = Share::new(&call.gateway, own, Some(recording), leaving);
    Found::Own {
        share: Some(Arc::new(share)),
        left,
    }
}

/// The rest of a stream, behind the event that the client saw last.
fn rest(call: &Call, prepared: &Prepared, body: Fingerprint, last: &[u8]) -> Found {
    let last = last.trim_ascii();
    let parts = last
        .iter()
        .rposition(|byte| *byte == b'.')
        .and_then(|dot| last.split_at_checked(dot));
    let number = parts
        .and_then(|(_, number)| std::str::from_utf8(number.get(1..)?).ok())
        .and_then(|number| number.parse::<u64>().ok());
    let (Some((run, _)), Some(number)) = (parts, number) else {
        return Found::Refused(Rejection::NothingToResume);
    };
    let name = run_name(&prepared.caller, run);
    match call.gateway.calls.find(name, body) {
        Some(recording) => Found::Twin(
            recording.listen(),
            number.saturating_add(1),
            Repetition::Resumed,
        ),
        None => Found::Refused(Rejection::NothingToResume),
    }
}

/// What follows from hearing how another call turned out.
pub(super) enum Joined {
    /// This is the answer.
    Answer(Response<Body>),
    /// It was broken off: the request has to be looked up anew.
    Anew(Box<Settlement>),
}

/// Gives a client the answer to another's request.
pub(super) async fn join(
    listener: Listener,
    from: u64,
    kind: Repetition,
    mut settlement: Settlement,
) -> Joined {
    let opening = listener.opening().await;
    if matches!(opening, Opening::Dropped) {
        return Joined::Anew(Box::new(settlement));
    }
    let of = listener.recording().of();
    settlement.repeats(Repeated { kind, of });
    match opening {
        Opening::Dropped => Joined::Anew(Box::new(settlement)),
        Opening::Refused(rejection) => Joined::Answer(turn_away(&rejection, &mut settlement)),
        Opening::Answer(head) => {
            Joined::Answer(answer(listener, *head, from, kind, settlement).await)
        }
    }
}

async fn answer(
    listener: Listener,
    head: Head,
    from: u64,
    kind: Repetition,
    mut settlement: Settlement,
) -> Response<Body> {
    if let Some((target, fallback)) = &head.target {
        settlement.target(target, *fallback);
    }
    let of = listener.recording().of();
    let mut response = Response::new(());
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    mark(response.headers_mut(), kind, of);
    let first = if head.keepalive.is_none() || listener.recording().has_ended() {
        // It is there, or it is gone.
        let first = std::future::poll_fn(|cx| listener.poll(from, cx)).await;
        if first == Next::Lost {
            return turn_away(&Rejection::AnswerNotKept { of }, &mut settlement);
        }
        Some(first)
    } else {
        None
    };
    settlement.first_content();
    let Some((keepalive, every)) = head.keepalive else {
        let bytes = match first {
            Some(Next::Chunk(bytes, _)) => bytes,
            _ => Bytes::new(),
        };
        settlement.relayed(bytes.len());
        settlement.finish(head.status.as_u16(), End::Ok, None);
        return response.map(|()| Body::from(bytes));
    };
    let following = Following {
        listener,
        next: from,
        keepalive,
        every,
        timer: Box::pin(tokio::time::sleep(every)),
        status: head.status,
        settlement,
    };
    response.map(|()| Body::Following(Box::new(following)))
}

/// Says that an answer is another request's, and costs nothing now.
fn mark(map: &mut HeaderMap, kind: Repetition, of: RequestId) {
    if map.contains_key(headers::WT_COST) {
        map.insert(headers::WT_COST, HeaderValue::from_static("0"));
    }
    if let Ok(value) = HeaderValue::try_from(format!("{}; of={of}", kind.as_str())) {
        map.insert(headers::WT_REPEATS, value);
    }
}

/// Another call's stream on its way to a client.
pub struct Following {
    listener: Listener,
    next: u64,
    keepalive: Bytes,
    every: Duration,
    timer: Pin<Box<Sleep>>,
    status: StatusCode,
    settlement: Settlement,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Following {
    /// The next bytes for the client.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        match self.listener.poll(self.next, cx) {
            Poll::Ready(Next::Chunk(chunk, follows)) => {
                self.next = self.next.saturating_add(1);
                self.settlement.relayed(chunk.len());
                if follows == Follows::Nothing {
                    self.finish(End::Ok);
                }
                self.timer.as_mut().reset(Instant::now() + self.every);
                Poll::Ready(Some(Ok(chunk)))
            }
            Poll::Ready(Next::End) => {
                self.finish(End::Ok);
                Poll::Ready(None)
            }
            Poll::Ready(Next::Lost) => {
                self.finish(End::Interrupted);
                Poll::Ready(Some(Err(Cut)))
            }
            Poll::Pending => {
                if self.timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.timer.as_mut().reset(Instant::now() + self.every);
                Poll::Ready(Some(Ok(self.keepalive.clone())))
            }
        }
    }

    fn finish(&mut self, end: End) {
        let error = (end != End::Ok).then_some("stream_interrupted");
        self.settlement.finish(self.status.as_u16(), end, error);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.settlement.client_left(self.status.as_u16());
    }
}

/// Whether the client comes back, by what it sends.
fn expected(head: &HeaderMap) -> Expected {
    if head.contains_key(IDEMPOTENCY_KEY) {
        return Expected::Key;
    }
    match retry_count(head) {
        Some(count) => Expected::Retry {
            count,
            timer: sdk_timer(head),
        },
        None => Expected::Nothing,
    }
}

/// How often an SDK says that it has sent this request before.
pub(super) fn retry_count(head: &HeaderMap) -> Option<u32> {
    let text = |name: HeaderName| head.get(name)?.to_str().ok();
    let counted = text(RETRY_COUNT).and_then(|text| text.trim().parse().ok());
    counted.or_else(|| {
        let attempt = text(AWS_REQUEST)?
            .split(';')
            .find_map(|part| part.trim().strip_prefix("attempt="))?;
        attempt
            .parse::<u32>()
            .ok()
            .map(|attempt| attempt.saturating_sub(1))
    })
}

/// The time-out that an SDK announces (wire-facts, A1 and A2).
pub(super) fn sdk_timer(head: &HeaderMap) -> Option<Duration> {
    let seconds =
        |name: HeaderName| -> Option<f64> { head.get(name)?.to_str().ok()?.trim().parse().ok() };
    let seconds = seconds(SDK_TIMEOUT).or_else(|| seconds(SDK_READ_TIMEOUT))?;
    (seconds > 0.0)
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten()
}

fn run_name(caller: &Caller, id: &[u8]) -> Fingerprint {
    fingerprint(caller, "run", "", id)
}

/// Of something that a caller sent. Nothing leads from one caller to another's calls.
fn fingerprint(caller: &Caller, kind: &str, path: &str, of: &[u8]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    let tenant = caller.tenant_id();
    let key = caller.key_id();
    let key = key.as_ref().map_or("", |key| key.as_str());
    for part in [kind, path, tenant.as_str(), key] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.update(of);
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    Fingerprint(short)
}

/// The line that gives an event its id, behind which the event's own lines follow.
pub(super) fn id_line(id: RequestId, number: u64) -> String {
    format!("id: {id}.{number}\n")
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    fn head(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(n, v): &(&'static str, &'static str)| {
            (HeaderName::from_static(n), HeaderValue::from_static(v))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn clients_that_come_back_are_known_by_their_headers() {
        assert_eq!(expected(&head(&[])), Expected::Nothing);
        assert_eq!(expected(&head(&[("idempotency-key", "k")])), Expected::Key);
        let sdk = head(&[
            ("x-stainless-retry-count", "2"),
            ("x-stainless-read-timeout", "20.0"),
        ]);
        let retry = Expected::Retry {
            count: 2,
            timer: Some(Duration::from_secs(20)),
        };
        assert_eq!(expected(&sdk), retry);
        assert_eq!(
            retry_count(&head(&[("amz-sdk-request", "attempt=2; max=3")])),
            Some(1)
        );
        assert_eq!(
            retry_count(&head(&[("x-stainless-retry-count", "many")])),
            None
        );
    }

    #[test]
    fn a_fingerprint_tells_kind_path_and_content_apart() {
        let of = |kind, path, of: &[u8]| fingerprint(&Caller::Loopback, kind, path, of);
        let all = [
            of("key", "", b"x"),
            of("body", "", b"x"),
            of("body", "/v1/responses", b"x"),
            of("body", "/v1/responses", b"y"),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(all.iter().skip(place + 1).all(|other| other != one));
        }
    }
}
