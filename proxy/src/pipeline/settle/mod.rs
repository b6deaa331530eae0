//! The end of a call, exactly once: usage priced, the exchange recorded.
//!
//! A [`Settlement`] is opened when a request's head has been read and closed by
//! [`Settlement::finish`] before the last byte goes to the client, so that no answered call can be
//! lost with the process. When it is dropped instead — the client left, a panic — what is known by
//! then is recorded all the same.

mod cost;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use whippletree_policies::ids::{KeyIndex, RequestId, RouteId, TargetId, TenantId};
use whippletree_policies::outcome::{Class, Failure, Outcome, Sent};
use whippletree_policies::task::Harness;
use whippletree_policies::time::Instant;
use whippletree_policies::units::Money;
use whippletree_policies::usage::Usage;

pub use self::cost::Ended;
use self::cost::{OpenAttempt, book, estimate, rule, total_cost, total_usage};
use super::attribute::Attribution;
use super::authenticate::{Caller, DEFAULT_TENANT};
use super::runaway::Watched;
use super::share::Share;
use crate::clock;
use crate::exchange::{Api, Attempt, Dialect, End, Exchange, Millis, Repeated};
use crate::gateway::Gateway;
use crate::limits::{HeldTokens, Place};
use crate::prices::Priced;
use crate::state::InFlight;

/// A call that is under way.
#[derive(Debug)]
pub struct Settlement {
    gateway: Arc<Gateway>,
    started: Instant,
    /// Time that vendors and waits account for.
    elsewhere: Duration,
    open: Option<OpenAttempt>,
    exchange: Option<Box<Exchange>>,
    /// Given back when the answer has ended.
    place: Place,
    /// Settled with the usage of all attempts. Boxed, since a settlement is moved often and few
    /// tenants have the limit.
    tokens: Option<Box<HeldTokens>>,
    in_flight: Option<InFlight>,
    quieted: Option<Harness>,
    /// An answering attempt had a price.
    priced: bool,
    /// Attempts that the vendor may have billed, by place, and at what price.
    doubtful: Vec<(usize, Priced)>,
    target: Option<TargetId>,
    fallback: bool,
    /// With which of the provider's keys.
    key: KeyIndex,
    /// Its task is watched.
    watched: Option<Watched>,
    /// Others may have a share in the call.
    share: Option<Arc<Share>>,
    id: RequestId,
    dialect: Dialect,
    /// The attempts, once the exchange is on record.
    ended: Vec<Attempt>,
}

/// What stands in the headers of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// How often something was sent to a vendor.
    pub sends: usize,
    /// Who answered.
    pub target: Option<&'a TargetId>,
    /// A stand-in answered.
    pub fallback: bool,
}

impl Settlement {
    /// Opens the record of a request whose head has just been read.
    pub fn open(gateway: Arc<Gateway>, id: RequestId, started: Instant, api: Api) -> Self {
        gateway.metrics.request_started();
        let exchange = Box::new(Exchange {
            request_id: id,
            time: clock::unix_now(),
            tenant: DEFAULT_TENANT.into(),
            key: None,
            user: None,
            task: None,
            tags: BTreeMap::new(),
            harness: None,
            route: None,
            api,
            dialect: api.dialect(),
            stream: false,
            status: 0,
            outcome: End::ClientGone,
            error: None,
            target: None,
            fallback: false,
            attempts: Vec::new(),
            usage: None,
            cost_usd: Money::ZERO,
            price_version: None,
            prefix: None,
            repeats: None,
            ttft_ms: None,
            duration_ms: Millis::default(),
            overhead_ms: Millis::default(),
            request_bytes: 0,
            response_bytes: 0,
        });
        Self {
            gateway,
            started,
            elsewhere: Duration::ZERO,
            open: None,
            exchange: Some(exchange),
            place: Place::default(),
            tokens: None,
            in_flight: None,
            quieted: None,
            priced: false,
            doubtful: Vec::new(),
            target: None,
            fallback: false,
            key: KeyIndex::default(),
            watched: None,
            share: None,
            id,
            dialect: api.dialect(),
            ended: Vec::new(),
        }
    }

    /// Whose shapes the client expects.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Keeps the request's place among those at once until the answer has ended.
    pub fn hold(&mut self, place: Place) {
        self.place = place;
    }

    /// Keeps these tokens of the tenant's minute until the call's usage is known.
    pub(super) fn tokens(&mut self, tokens: Option<HeldTokens>) {
        self.tokens = tokens.map(Box::new);
    }

    /// Counts the call as in flight until the answer has ended.
    pub fn in_flight(&mut self, in_flight: InFlight) {
        self.in_flight = Some(in_flight);
    }

    /// The client repeats failed requests whatever the headers say, and should not.
    pub fn quiet(&mut self, harness: Harness) {
        self.quieted = Some(harness);
    }

    /// The status by which a final failure is told to this client.
    pub fn quiet_status(&self, status: StatusCode) -> StatusCode {
        let quiet = self
            .quieted
            .map(|harness| harness.quiet_status(status.as_u16()));
        quiet
            .and_then(|quiet| StatusCode::from_u16(quiet).ok())
            .unwrap_or(status)
    }

    /// When the request's head had been read.
    pub const fn started(&self) -> Instant {
        self.started
    }

    /// Its task is watched from now on.
    pub(super) fn watch(&mut self, watched: Option<Watched>) {
        self.watched = watched;
    }

    /// Others may have a share in the call from now on.
    pub(super) fn shares(&mut self, share: Option<Arc<Share>>) {
        self.share = share;
    }

    /// Who else may have a share in the call.
    pub(super) const fn share(&self) -> Option<&Arc<Share>> {
        self.share.as_ref()
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_draining(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.is_draining())
    }

    /// So many attempts may still be made.
    pub(super) fn attempts_left(&self, left: u32) {
        if let Some(share) = &self.share {
            share.attempts_left(left);
        }
    }

    /// The answer is that of another call.
    pub(super) fn repeats(&mut self, repeated: Repeated) {
        if let Some(exchange) = &mut self.exchange {
            exchange.repeats = Some(repeated);
        }
    }

    /// Who pays.
    pub fn tenant(&self) -> TenantId {
        self.exchange
            .as_ref()
            .map_or_else(|| DEFAULT_TENANT.into(), |e| e.tenant.clone())
    }

    /// What stands in the headers of an answer; `None` where no vendor was asked.
    pub fn facts(&self) -> Option<Facts<'_>> {
        let sends = self.sends();
        (sends > 0).then_some(Facts {
            sends,
            target: self.target.as_ref(),
            fallback: self.fallback,
        })
    }

    /// What the call cost, where it was priced.
    pub fn priced_cost(&self) -> Option<Money> {
        self.priced.then(|| self.cost())
    }

    /// Who called.
    pub fn caller(&mut self, caller: &Caller) {
        if let Some(exchange) = &mut self.exchange {
            exchange.tenant = caller.tenant_id();
            exchange.key = caller.key_id();
        }
    }

    /// What was asked for.
    pub fn request(&mut self, attribution: Attribution, stream: bool, bytes: u64) {
        if let Some(exchange) = &mut self.exchange {
            exchange.user = attribution.user;
            exchange.task = attribution.task;
            exchange.tags = attribution.tags;
            exchange.harness = attribution
                .harness
                .map(|harness| harness.as_str().to_owned());
            exchange.stream = stream;
            exchange.request_bytes = bytes;
        }
    }

    /// Which route serves it.
    pub fn route(&mut self, route: &RouteId) {
        if let Some(exchange) = &mut self.exchange {
            exchange.route = Some(route.clone());
        }
    }

    /// Something goes to a vendor now.
    pub fn send(
        &mut self,
        target: &TargetId,
        key: Option<u32>,
        waited: Duration,
        price: Option<Priced>,
        request_bytes: u64,
    ) {
        self.elsewhere += waited;
        self.open = Some(OpenAttempt {
            target: target.clone(),
            key,
            sent_at: clock::now(),
            waited,
            first_byte: None,
            status: None,
            price,
            request_bytes,
            written: 0,
            usage: None,
        });
    }

    /// The vendor's answer has begun.
    pub fn answered(&mut self, status: u16) {
        if let Some(open) = &mut self.open {
            open.status = Some(status);
            open.first_byte = Some(clock::now().since(open.sent_at));
        }
    }

    /// The vendor reported usage; the last report counts.
    pub fn usage(&mut self, usage: Usage) {
        if let Some(open) = &mut self.open {
            open.usage = Some(usage);
        }
    }

    /// The vendor has written this many bytes of text in all.
    pub fn written(&mut self, bytes: u64) {
        if let Some(open) = &mut self.open {
            open.written = bytes;
        }
    }

    /// The first content goes to the client now.
    pub fn first_content(&mut self) {
        let since = clock::now().since(self.started);
        if let Some(exchange) = &mut self.exchange {
            exchange.ttft_ms.get_or_insert(Millis::of(since));
        }
    }

    /// Bytes of body that go to the client.
    pub fn relayed(&mut self, bytes: usize) {
        if let Some(exchange) = &mut self.exchange {
            exchange.response_bytes += bytes as u64;
        }
    }

    /// The attempt under way has ended.
    pub fn attempt_ended(&mut self, ended: Ended) {
        let (Some(open), Some(exchange)) = (self.open.take(), &mut self.exchange) else {
            return;
        };
        let took = clock::now().since(open.sent_at);
        self.elsewhere += took;
        let rule = rule(&open, ended);
        let usage = open
            .usage
            .or_else(|| rule.and_then(|rule| estimate(&open, rule)));
        let mut attempt = Attempt {
            target: open.target,
            key: open.key,
            class: match ended {
                Ended::Whole => None,
                Ended::Doubtful(class) | Ended::Failed(class) | Ended::Partial(class) => {
                    Some(class)
                }
            },
            status: open.status,
            waited_ms: Millis::of(open.waited),
            first_byte_ms: open.first_byte.map(Millis::of),
            took_ms: Millis::of(took),
            usage,
            cost_usd: Money::ZERO,
            price_version: None,
            price_fallback: false,
            rule,
        };
        if let (Some(usage), Some(price)) = (usage, &open.price) {
            self.priced |= book(&mut attempt, usage, price, &self.gateway);
        }
        match (ended, open.price, open.usage) {
            (Ended::Doubtful(_), Some(price), None) => {
                self.doubtful.push((exchange.attempts.len(), price));
            }
            // What the same request came to is the best estimate of what it came to before.
            (Ended::Whole, _, Some(reported)) => {
                for (place, price) in self.doubtful.drain(..) {
                    let usage = Usage {
                        estimated: true,
                        ..reported
                    };
                    if let Some(attempt) = exchange.attempts.get_mut(place) {
                        book(attempt, usage, &price, &self.gateway);
                    }
                }
            }
            _ => {}
        }
        exchange.attempts.push(attempt);
    }

    /// The attempt under way never left the gateway: it is not on record as one.
    pub fn attempt_unsent(&mut self) {
        self.open = None;
    }

    /// The answer comes from this target.
    pub fn target(&mut self, target: &TargetId, fallback: bool) {
        self.target = Some(target.clone());
        self.fallback = fallback;
    }

    /// The answer comes from this of the provider's keys.
    pub fn key(&mut self, key: KeyIndex) {
        self.key = key;
    }

    /// Who answered, and whether as a stand-in.
    pub(super) fn answered_by(&self) -> Option<(TargetId, bool)> {
        self.target.clone().map(|target| (target, self.fallback))
    }

    /// The answer broke after part of it was told: the target's health hears of it.
    pub(super) fn broke(&self, class: Class) {
        if let Some(target) = &self.target {
            let outcome = Outcome::Failure(Failure::new(class, Sent::Answered));
            self.gateway.state.note(target, self.key, &outcome);
        }
    }

    /// The attempts that have ended.
    pub fn attempts(&self) -> &[Attempt] {
        self.exchange
            .as_ref()
            .map_or(&self.ended, |exchange| &exchange.attempts)
    }

    /// How often something was sent, the attempt under way included.
    pub fn sends(&self) -> usize {
        self.attempts().len() + usize::from(self.open.is_some())
    }

    /// What the ended attempts cost together.
    pub fn cost(&self) -> Money {
        total_cost(self.attempts())
    }

    /// The request's identity.
    pub const fn id(&self) -> RequestId {
        self.id
    }

    /// Records the exchange. Call it before the last byte goes out; further calls do nothing.
    pub fn finish(&mut self, status: u16, end: End, error: Option<&str>) {
        if self.open.is_some() {
            self.attempt_ended(match end {
                End::Ok => Ended::Whole,
                End::ClientGone => Ended::Partial(Class::ClientGone),
                End::Failed | End::Interrupted | End::Refused => {
                    Ended::Partial(Class::StreamInterrupted)
                }
            });
        }
        let Some(mut exchange) = self.exchange.take() else {
            return;
        };
        if let Some(watched) = self.watched.take() {
            watched.end(end);
        }
        // The client has left, and the call went on without it.
        let gone = self
            .share
            .as_ref()
            .is_some_and(|share| share.client_has_left());
        let (end, error) = match end {
            End::ClientGone | End::Failed | End::Interrupted | End::Ok if gone => {
                (End::ClientGone, error.or(Some(Class::ClientGone.as_str())))
            }
            end => (end, error),
        };
        exchange.target.clone_from(&self.target);
        exchange.fallback = self.fallback;
        let duration = clock::now().since(self.started);
        exchange.status = status;
        exchange.outcome = end;
        exchange.error = error.map(str::to_owned);
        exchange.duration_ms = Millis::of(duration);
        exchange.overhead_ms = Millis::of(duration.saturating_sub(self.elsewhere));
        exchange.cost_usd = total_cost(&exchange.attempts);
        exchange.usage = total_usage(&exchange.attempts);
        if let Some(tokens) = self.tokens.take() {
            let used = exchange.usage.unwrap_or_default();
            tokens.settle(used.input.plus(used.output));
        }
        exchange.price_version = exchange
            .attempts
            .last()
            .and_then(|attempt| attempt.price_version.clone());
        self.gateway.record(&exchange);
        self.ended = exchange.attempts;
    }

    /// The client left after its answer had begun with `status`.
    pub fn client_left(&mut self, status: u16) {
        self.finish(status, End::ClientGone, Some(Class::ClientGone.as_str()));
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        // 499 is nginx's status for a client that left before the answer.
        self.client_left(499);
        self.gateway.metrics.request_ended();
    }
}
