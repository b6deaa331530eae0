//! A call that goes on when its client's connection does not.
//!
//! hyper drops what answers a client that has left. [`Running`] is what it drops: where the call has
//! a reason to go on, it moves to a task of its own, which a shutdown waits for. [`Attended`] does
//! the same for a stream that has begun.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use whippletree_policies::time::Instant;
use whippletree_policies::units::Tokens;
use whippletree_providers::envelope::Envelope;
use whippletree_providers::provider::Api;

use super::attempt::{self, Asked};
use super::authenticate::Caller;
use super::early::early;
use super::plan::Plan;
use super::recording::Listener;
use super::relay::Relay;
use super::settle::Settlement;
use super::share::{DRAIN_BYTES, Place, Share};
use super::twin::{self, Found, Joined};
use super::{Call, deliver, runaway, turn_away};
use crate::api::body::Body;
use crate::config::Commit;
use crate::server::{self, Received};

/// A request that is ready to be asked of a vendor.
pub(crate) struct Prepared {
    /// The form of API.
    pub(crate) api: Api,
    /// Who asks.
    pub(crate) caller: Caller,
    /// The body.
    pub(crate) envelope: Envelope,
    /// Who may serve it.
    pub(crate) plan: Plan,
    /// When the request's head had been read.
    pub(crate) since: Instant,
    /// What an earlier call for the same request has left of its attempts.
    pub(crate) left: Option<u32>,
    /// The agent run, where a header or a session field names it.
    pub(crate) task: Option<String>,
    /// Keeps the body's place in memory.
    pub(crate) _received: Received,
}

/// Answers a request: with the answer of the call that it repeats, or else with one of its own.
///
/// The parts that wait are boxed: hyper moves the future of an answer several times before it is
/// first polled, which for all of it in one piece was a third of what a short request cost.
pub(super) async fn ask(
    call: Call,
    mut prepared: Box<Prepared>,
    mut settlement: Settlement,
) -> Response<Body> {
    let share = loop {
        match twin::find(&call, &prepared, settlement.id()) {
            Found::Own { share, left } => {
                prepared.left = left;
                break share;
            }
            Found::Refused(rejection) => return turn_away(&rejection, &mut settlement),
            Found::Twin(listener, from, kind) => {
                match Box::pin(twin::join(listener, from, kind, settlement)).await {
                    Joined::Answer(response) => return response,
                    Joined::Anew(back) => settlement = *back,
                }
            }
        }
    };
    let tenant = prepared.caller.tenant();
    let taken = (call.gateway.limiters).take_tokens(tenant, || most_tokens(&call, &prepared));
    match taken {
        Ok(tokens) => settlement.tokens(tokens),
        Err(rejection) => return turn_away(&rejection, &mut settlement),
    }
    match runaway::admit(&call, &prepared) {
        Ok(watched) => settlement.watch(watched),
        Err(rejection) => return turn_away(&rejection, &mut settlement),
    }
    settlement.shares(share.clone());
    let settings = &prepared.plan.route.settings;
    let holds = settings.commit == Commit::Complete && prepared.envelope.stream();
    let (api, keepalive) = (prepared.api, settings.keepalive);
    if share.is_none() && !holds {
        return Box::pin(answer(call, prepared, settlement)).await;
    }
    let running = Running::new(Box::pin(answer(call, prepared, settlement)), share);
    if holds {
        Box::pin(early(running, keepalive, api)).await
    } else {
        running.await
    }
}

/// What the call may use at most. The estimate of the input (four bytes to a token) may be low;
/// what the vendor reports is booked at the end.
fn most_tokens(call: &Call, prepared: &Prepared) -> Tokens {
    let input = Tokens((prepared.envelope.body().len() as u64).div_ceil(4));
    let output = match (prepared.api, prepared.envelope.output_limit()) {
        (Api::CountTokens, _) => return Tokens::ZERO,
        (Api::Embeddings, _) => Tokens::ZERO,
        (_, Some(limit)) => Tokens(limit),
        (_, None) => prepared.plan.route.settings.max_output,
    };
    let targets = &call.snapshot.config.targets;
    let ceilings = prepared.plan.targets.iter().map(|planned| {
        let settings = targets.get(&planned.target.id);
        settings.and_then(|settings| settings.max_output_tokens)
    });
    // The target that can write the most decides; one of unknown ceiling writes what it is asked.
    let written = ceilings
        .map(|ceiling| ceiling.map_or(output, |ceiling| output.min(ceiling)))
        .max();
    input.plus(written.unwrap_or(output))
}

async fn answer(call: Call, prepared: Box<Prepared>, mut settlement: Settlement) -> Response<Body> {
    let asked = Asked {
        api: prepared.api,
        envelope: &prepared.envelope,
        plan: &prepared.plan,
        left: prepared.left,
    };
    let answer = attempt::attempt(&call, asked, &mut settlement).await;
    let reply = answer.map(|answer| Call::reply(answer, &mut settlement));
    deliver(reply, settlement)
}

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A call up to the beginning of its answer.
pub struct Running {
    future: Option<Answering>,
    share: Option<Arc<Share>>,
    /// The first client's place among those who listen.
    listener: Option<Listener>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

impl Running {
    pub(super) fn new(future: Answering, share: Option<Arc<Share>>) -> Self {
        let listener = share.as_ref().and_then(|share| share.listen());
        Self {
            future: Some(future),
            share,
            listener,
        }
    }
}

impl Future for Running {
    type Output = Response<Body>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        let Some(future) = &mut self.future else {
            // It has given its answer; polling it again is a mistake that must not panic.
            return Poll::Pending;
        };
        let answer = std::task::ready!(future.as_mut().poll(cx));
        self.future = None;
        let listener = self.listener.take();
        Poll::Ready(answer.map(|body| match body {
            Body::Relay(mut attended) => {
                attended.listener = listener;
                Body::Relay(attended)
            }
            other => other,
        }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(future), Some(share)) = (self.future.take(), self.share.take()) else {
            return;
        };
        let patience = share.patience(Place::Before);
        if !share.leave(Place::Before) {
            return;
        }
        drop(self.listener.take());
        beside(async move {
            let to_the_end = async {
                if let Body::Relay(attended) = future.await.into_body() {
                    attended.run_out().await;
                }
            };
            tokio::select! {
                () = to_the_end => {}
                () = share.given_up(patience) => {}
            }
        });
    }
}

/// An event stream that its client, or somebody else, attends to.
pub struct Attended {
    relay: Option<Box<Relay>>,
    listener: Option<Listener>,
}

impl fmt::Debug for Attended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended")
            .field("relay", &self.relay)
            .finish_non_exhaustive()
    }
}

impl Attended {
    /// A stream about to be sent.
    pub fn new(relay: Relay) -> Self {
        Self {
            relay: Some(Box::new(relay)),
            listener: None,
        }
    }

    /// The next bytes for the client.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.relay {
            Some(relay) => relay.poll_chunk(cx),
            None => Poll::Ready(None),
        }
    }

    /// Reads to the end for nobody, or for those who listen to the recording.
    async fn run_out(mut self) {
        if let Some(relay) = self.relay.take() {
            run_out(relay).await;
        }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Some(relay) = self.relay.take() else {
            return;
        };
        let Some(share) = relay.share().filter(|_| relay.is_open()).cloned() else {
            return;
        };
        let patience = share.patience(Place::Behind);
        if !share.leave(Place::Behind) {
            return;
        }
        drop(self.listener.take());
        beside(async move {
            tokio::select! {
                () = run_out(relay) => {}
                () = share.given_up(patience) => {}
            }
        });
    }
}

async fn run_out(mut relay: Box<Relay>) {
    let mut drained = 0;
    while let Some(chunk) = poll_fn(|cx| relay.poll_chunk(cx)).await {
        if relay.share().is_some_and(|share| share.is_draining()) {
            drained += chunk.len();
            if drained > DRAIN_BYTES {
                return;
            }
        }
    }
}

/// Runs beside the connections of this worker; nothing where the runtime is gone, and with it
/// whatever would have run.
fn beside(future: impl Future<Output = ()> + Send + 'static) {
    if tokio::runtime::Handle::try_current().is_ok() {
        server::background(future);
    }
}
