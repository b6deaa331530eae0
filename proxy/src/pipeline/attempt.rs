//! The loop around sending: encode, send, judge, report; wait or go on, until done.
//!
//! What to do next is decided by [`whippletree_policies::attempt`]; here it is only done. There is
//! one loop for whole answers and for streams: they differ in how an answer is read.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use whippletree_policies::attempt::{
    self, Attempts, Defeat, Event, RetryPolicy, Send, Step, Verdict,
};
use whippletree_policies::ids::{KeyIndex, TenantId};
use whippletree_policies::outcome::{Class, Outcome, Sent};
use whippletree_policies::retry::backoff::Backoff;
use whippletree_policies::route::plan::{Candidate, Choice};
use whippletree_providers::envelope::Envelope;
use whippletree_providers::provider::Api;

use super::judge::{self, Setback};
use super::plan::{Plan, Planned};
use super::settle::{Ended, Settlement};
use super::{Call, encode, relay, twin};
use crate::api::headers;
use crate::api::rejection::Rejection;
use crate::clock;
use crate::config::{Ambiguous, Config, Provider, Retry};
use crate::credentials;
use crate::state::State;
use crate::upstream::{Call as Outbound, UpstreamBody};

/// What a vendor answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// Whole.
    Whole {
        /// The vendor's.
        status: StatusCode,
        /// The vendor's.
        headers: HeaderMap,
        /// The vendor's, as they came.
        bytes: Bytes,
    },
    /// An event stream that has begun.
    Stream {
        /// The vendor's.
        status: StatusCode,
        /// The vendor's.
        headers: HeaderMap,
        /// What was read, and the rest.
        open: Box<relay::Open>,
    },
    /// Something that is passed on unread.
    Passage {
        /// The vendor's.
        status: StatusCode,
        /// The vendor's.
        headers: HeaderMap,
        /// The vendor's.
        body: Box<UpstreamBody>,
    },
}

/// The request as the loop needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The form of API.
    pub(super) api: Api,
    /// The client's body.
    pub(super) envelope: &'a Envelope,
    /// Who may serve it.
    pub(super) plan: &'a Plan,
    /// What an earlier call for the same request has left of its attempts.
    pub(super) left: Option<u32>,
}

/// Tries the plan's targets until one answers or no further try makes sense.
///
/// # Errors
/// What the client is told when none answers.
pub(super) async fn attempt(
    call: &Call,
    asked: Asked<'_>,
    settlement: &mut Settlement,
) -> Result<Answer, Rejection> {
    let state = &call.gateway.state;
    let tenant = settlement.tenant();
    let mut attempts = attempts(call, asked);
    let mut last: Option<Setback> = None;
    let mut event = Event::Start;
    let mut waited = Duration::ZERO;
    loop {
        match state.advance(&mut attempts, event, &tenant) {
            Step::Wait { until } => {
                let from = clock::now();
                tokio::time::sleep_until(clock::tokio_instant(until)).await;
                waited += clock::now().since(from);
                event = Event::Woke;
            }
            Step::Send(_) if settlement.is_draining() => {
                state.advance(&mut attempts, Event::ClientGone, &tenant);
                return Err(Rejection::Failed {
                    class: Class::ClientGone,
                    target: None,
                    retry_after: None,
                });
            }
            Step::Send(send) => {
                settlement.attempts_left(attempts.left());
                let Some(planned) = asked.plan.target(&send.target) else {
                    return Err(Rejection::Internal);
                };
                let in_flight = state.enter(&send.target);
                open_attempt(
                    &send,
                    planned,
                    asked,
                    std::mem::take(&mut waited),
                    settlement,
                );
                let result = {
                    let mut leaving = Leaving(Some((state, &mut attempts, &tenant)));
                    let result = once(call, asked, planned, &send, settlement).await;
                    leaving.0 = None;
                    result
                };
                match result {
                    Ok(answer) => {
                        state.advance(&mut attempts, Event::Finished(Outcome::Success), &tenant);
                        settlement.target(&send.target, send.place > 0);
                        settlement.key(send.key);
                        settlement.in_flight(in_flight);
                        return Ok(answer);
                    }
                    Err(setback) if setback.is_saturated() => {
                        settlement.attempt_unsent();
                        settlement.attempts_left(attempts.left().saturating_add(1));
                        state.advance(&mut attempts, Event::ClientGone, &tenant);
                        let provider = planned.target.provider.id.clone();
                        return Err(Rejection::Saturated { provider });
                    }
                    Err(setback) => {
                        settlement.attempt_ended(Ended::of(&setback.failure));
                        event = Event::Finished(Outcome::Failure(setback.failure));
                        last = Some(setback);
                    }
                }
            }
            Step::Done(Verdict::Failed(defeat)) => {
                settlement.attempts_left(attempts.left());
                if let Some(target) = &defeat.target {
                    settlement.target(target, false);
                }
                return Err(turned_away(defeat, last));
            }
            // The machine hears of a success only on the way out, above.
            Step::Done(Verdict::Succeeded { .. }) => return Err(Rejection::Internal),
        }
    }
}

/// Sends a request to a path that the gateway does not know, once, and passes on whatever comes.
///
/// # Errors
/// What the client is told when nothing comes.
pub(super) async fn relay(
    call: &Call,
    envelope: Option<&Envelope>,
    body: Bytes,
    plan: &Plan,
    settlement: &mut Settlement,
) -> Result<Answer, Rejection> {
    let Some(planned) = plan.targets.first() else {
        return Err(Rejection::NoProvider);
    };
    let Some(pool) = call.snapshot.pool(&planned.target.provider.id) else {
        return Err(Rejection::Internal);
    };
    let key = KeyIndex(0);
    let target = &planned.target.id;
    let request_bytes = body.len() as u64;
    let mut outbound = encode::relay(call, envelope, body, planned);
    settlement.send(
        target,
        key_of(&planned.target.provider, key),
        Duration::ZERO,
        None,
        request_bytes,
    );
    let in_flight = call.gateway.state.enter(target);
    let sent = match authorize(call, planned, key, &mut outbound).await {
        Ok(()) => {
            let sent = pool.send(outbound).await;
            sent.map_err(|error| judge::unreached(&error))
        }
        Err(setback) => Err(setback),
    };
    match sent {
        Ok(answer) => {
            settlement.answered(answer.status.as_u16());
            settlement.target(target, false);
            settlement.in_flight(in_flight);
            let (status, headers, body) = (answer.status, answer.headers, Box::new(answer.body));
            Ok(Answer::Passage {
                status,
                headers,
                body,
            })
        }
        Err(setback) => {
            if setback.is_saturated() {
                settlement.attempt_unsent();
                let provider = planned.target.provider.id.clone();
                return Err(Rejection::Saturated { provider });
            }
            settlement.attempt_ended(Ended::of(&setback.failure));
            settlement.target(target, false);
            Err(Rejection::Failed {
                class: setback.failure.class,
                target: Some(target.clone()),
                retry_after: None,
            })
        }
    }
}

fn attempts(call: &Call, asked: Asked<'_>) -> Attempts {
    let plan = asked.plan;
    let settings = &plan.route.settings.retry;
    let now = clock::now();
    let deadline = now.after(deadline(&call.head.headers).unwrap_or(settings.deadline));
    let mut policy = retry_policy(settings);
    if call.head.headers.contains_key(headers::WT_ATTEMPT_OWNER) {
        policy = policy.with_one_attempt();
    }
    let candidates = plan
        .targets
        .iter()
        .map(|planned| candidate(&call.snapshot.config, planned))
        .collect();
    let ordered = call.gateway.state.plan(candidates, Choice::LeastInFlight);
    let used = asked
        .left
        .map_or(0, |left| policy.max_attempts().saturating_sub(left));
    Attempts::new(ordered, policy, now, deadline).with_attempts_made(used)
}

/// The configuration has been checked, so the fallback, which never retries, is not met.
pub(crate) fn retry_policy(retry: &Retry) -> RetryPolicy {
    let backoff = Backoff::new(retry.base, retry.cap).unwrap_or_default();
    let policy = RetryPolicy::new(retry.max_attempts.max(1), backoff, retry.max_wait);
    policy
        .unwrap_or_default()
        .with_ambiguous(match retry.ambiguous {
            Ambiguous::Always => attempt::Ambiguous::Always,
            Ambiguous::Never => attempt::Ambiguous::Never,
            Ambiguous::Once => attempt::Ambiguous::Once,
        })
}

pub(crate) fn candidate(config: &Config, planned: &Planned) -> Candidate {
    let target = &planned.target;
    let settings = config.targets.get(&target.id);
    Candidate {
        target: target.id.clone(),
        rank: target.rank,
        weight: target.weight,
        keys: u16::try_from(target.provider.keys.len()).unwrap_or(u16::MAX),
        context_window: settings.and_then(|s| s.context_window),
    }
}

/// The client's own deadline: `x-wt-deadline-ms`, else the time-out that its SDK announces. A minute
/// more than an SDK's own would be answered to nobody, unless the SDK comes back after its time-out
/// and joins the call.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    if let Some(declared) = headers.get(headers::WT_DEADLINE) {
        let ms = declared.to_str().ok()?.trim().parse::<f64>().ok()?;
        let seconds = Duration::try_from_secs_f64(ms / 1e3).ok();
        return seconds.filter(|seconds| !seconds.is_zero());
    }
    if twin::retry_count(headers).is_some() {
        return None;
    }
    twin::sdk_timer(headers)
}

fn key_of(provider: &Provider, key: KeyIndex) -> Option<u32> {
    (!provider.keys.is_empty()).then_some(u32::from(key.0))
}

fn open_attempt(
    send: &Send,
    planned: &Planned,
    asked: Asked<'_>,
    waited: Duration,
    settlement: &mut Settlement,
) {
    let key = key_of(&planned.target.provider, send.key);
    let bytes = asked.envelope.body().len() as u64;
    settlement.send(&send.target, key, waited, planned.price.clone(), bytes);
}

async fn once(
    call: &Call,
    asked: Asked<'_>,
    planned: &Planned,
    send: &Send,
    settlement: &mut Settlement,
) -> Result<Answer, Setback> {
    let Some(pool) = call.snapshot.pool(&planned.target.provider.id) else {
        return Err(Setback::of(Class::Other));
    };
    let mut outbound: Outbound = encode::model_call(call, asked.api, asked.envelope, planned);
    authorize(call, planned, send.key, &mut outbound).await?;
    outbound.give_up_at = Some(send.give_up_at);
    let answer = pool
        .send(outbound)
        .await
        .map_err(|error| judge::unreached(&error))?;
    settlement.answered(answer.status.as_u16());
    let classes = &planned.target.provider.error_classes;
    let read = judge::read(call, asked, planned, answer, settlement).await;
    let read = read.map_err(|setback| setback.meaning(classes));
    if let Err(setback) = &read
        && setback.failure.class == Class::VendorAuth
    {
        credentials::refused(&call.snapshot, &planned.target.provider, send.key);
    }
    read
}

/// Puts the credential on a call. What fails here has not been sent, so it may be tried again.
async fn authorize(
    call: &Call,
    planned: &Planned,
    key: KeyIndex,
    outbound: &mut Outbound,
) -> Result<(), Setback> {
    let provider = &planned.target.provider;
    let auth = encode::dialect(provider).auth;
    let given = credentials::authorize(&call.snapshot, provider, auth, key, outbound);
    given.await.map_err(|error| {
        let reason = &error as &dyn std::error::Error;
        tracing::warn!(error = reason, provider = %provider.id, "no credential for a request");
        let mut setback = Setback::of(error.class());
        setback.failure.sent = Sent::Nothing;
        setback
    })
}

/// Tells the machine that the client left, when the future that sends is dropped.
struct Leaving<'a>(Option<(&'a State, &'a mut Attempts, &'a TenantId)>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some((state, attempts, tenant)) = self.0.take() {
            state.advance(attempts, Event::ClientGone, tenant);
        }
    }
}

/// What the client is told in the end: the vendor's own words where the fault is the client's, the
/// gateway's otherwise.
fn turned_away(defeat: Defeat, last: Option<Setback>) -> Rejection {
    let own = matches!(
        defeat.class,
        Class::InvalidRequest | Class::ContentPolicy | Class::ContextOverflow
    );
    if own && let Some(words) = last.and_then(|setback| setback.words) {
        return words.rejection(defeat.class);
    }
    Rejection::Failed {
        class: defeat.class,
        target: defeat.target,
        retry_after: defeat.retry_after,
    }
}
