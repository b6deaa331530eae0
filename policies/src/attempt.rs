//! The attempts of one request: what to send, how long to wait, when to stop.
//!
//! Problem: retries, fallback, vendors' hints, breakers, budgets and a deadline each have a say in
//! every step, and a loop written around sending mixes them up. Idea: a state machine that is told
//! what happened and answers what to do next; the loop around it only sends and sleeps.
//!
//! ```text
//!             Start            Finished, Woke
//!   driver ----------> advance <-------------- driver
//!                        |
//!                        +-> Send  encode, send, judge, report Finished
//!                        +-> Wait  sleep, report Woke
//!                        +-> Done  tell the client
//! ```
//!
//! Every step keeps all bounds at once: attempts over all targets, the deadline, the retry budgets
//! of target and tenant, the longest wait, and the route's word on ambiguous outcomes. The order of
//! preference, in `course`, is:
//!
//! 1. after a failure that may pass, the same target and its peers, as long as every target still
//!    untried keeps its share of the attempts;
//! 2. targets not tried yet, in the order of the plan, where a cool-down about to end is waited for
//!    rather than giving up the target that holds the conversation's cache;
//! 3. targets tried before;
//! 4. whatever can be had soonest. If everything is open, that is the target that closes soonest:
//!    it is probed early, one request at a time, rather than failing every request unseen.
//!
//! Limits: the machine knows one request. What many requests do together is the business of
//! [`crate::route::health`] and [`crate::retry::budget`], which it asks at every step.

mod course;
mod policy;
mod step;

use alloc::vec::Vec;
use core::time::Duration;

pub use self::policy::{Ambiguous, ContentPolicy, InvalidRetryPolicy, RetryPolicy};
pub use self::step::{ClientRetry, Context, Defeat, Event, GaveUp, Send, Step, Verdict};
use crate::ids::{KeyIndex, TargetId};
use crate::outcome::{Class, Failure, Fault, Outcome};
use crate::retry::table::{Disposition, Fallback, OtherKey, SameTarget, disposition};
use crate::route::health::{Admission, Pass};
use crate::route::plan::{Entry, Plan};
use crate::time::Instant;

/// How long a probe is taken to last where a client is told when to come back.
const PROBE_TIME: Duration = Duration::from_secs(1);

/// The attempts of one request.
#[derive(Clone, Debug)]
pub struct Attempts {
    plan: Plan,
    policy: RetryPolicy,
    deadline: Instant,
    /// Attempts made, and how many there may be; an ambiguous outcome lowers the latter.
    made: u32,
    limit: u32,
    /// Per entry of the plan.
    tries: Vec<Try>,
    flight: Option<Flight>,
    preference: Preference,
    last: Option<Last>,
    /// The last word where a target found the prompt too long: the client can act on that, whatever
    /// befell the larger targets that were tried after it.
    overflow: Option<Last>,
    may_repeat: bool,
    /// Since when nothing was under way.
    idle_since: Instant,
    verdict: Option<Verdict>,
}

/// What this request knows of a target.
#[derive(Clone, Debug, Default)]
struct Try {
    sends: u32,
    barred: bool,
    /// The one further try after an answer of no use was granted.
    second_chance: bool,
    not_before: Instant,
    last_key: Option<usize>,
    keys: Vec<KeyTry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyTry {
    barred: bool,
    not_before: Instant,
}

#[derive(Clone, Debug)]
struct Flight {
    target: TargetId,
    place: usize,
    key_place: usize,
    key: KeyIndex,
    pass: Pass,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    place: usize,
    failure: Failure,
    hint_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Preference {
    /// A target that was not tried yet. `after` is the one that has just failed.
    Onward { after: Option<usize> },
    /// The same target or its peers, if no further away than this.
    Stay { place: usize, tolerance: Duration },
}

impl Attempts {
    /// The attempts of a request that began `now` and has to be answered by `deadline`.
    pub fn new(plan: Plan, policy: RetryPolicy, now: Instant, deadline: Instant) -> Self {
        let fresh = |entry: &Entry| Try {
            keys: entry.keys.iter().map(|_| KeyTry::default()).collect(),
            ..Try::default()
        };
        Self {
            tries: plan.entries().iter().map(fresh).collect(),
            plan,
            policy,
            deadline,
            made: 0,
            limit: policy.max_attempts(),
            flight: None,
            preference: Preference::Onward { after: None },
            last: None,
            overflow: None,
            may_repeat: false,
            idle_since: now,
            verdict: None,
        }
    }

    /// The same when an earlier send of this very request has used some attempts: a client's own
    /// retry gets what is left of them.
    #[must_use]
    pub fn with_attempts_made(mut self, made: u32) -> Self {
        self.made = self.made.saturating_add(made);
        self
    }

    /// Attempts made so far.
    pub const fn made(&self) -> u32 {
        self.made
    }

    /// Attempts that may still be made, if nothing else forbids them.
    pub const fn left(&self) -> u32 {
        self.limit.saturating_sub(self.made)
    }

    /// The targets, in the order that [`Send::place`] counts.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes in what happened and says what to do next. Once done, every further event gets the
    /// same verdict.
    pub fn advance(&mut self, event: Event, context: &mut Context<'_>) -> Step {
        if let Some(verdict) = &self.verdict {
            return Step::Done(verdict.clone());
        }
        match event {
            Event::ClientGone => {
                let gone = Failure::new(Class::ClientGone, crate::outcome::Sent::Maybe);
                if let Some(flight) = self.flight.take() {
                    flight.report(&Outcome::Failure(gone), context);
                }
                self.give_up(GaveUp::ClientGone, context)
            }
            Event::Finished(outcome) => self.finish(outcome, context),
            Event::Start | Event::Woke => self.next(context),
        }
    }

    fn finish(&mut self, outcome: Outcome, context: &mut Context<'_>) -> Step {
        let Some(flight) = self.flight.take() else {
            // Nothing was under way, so there is nothing to conclude.
            return self.next(context);
        };
        flight.report(&outcome, context);
        match outcome {
            Outcome::Failure(failure) => {
                self.learn(&flight, failure, context);
                if failure.class == Class::ClientGone {
                    return self.give_up(GaveUp::ClientGone, context);
                }
                self.next(context)
            }
            Outcome::Success => self.done(Verdict::Succeeded {
                target: flight.target,
                place: flight.place,
                key: flight.key,
                attempts: self.made,
            }),
        }
    }

    /// Draws the conclusions of a failure: what is out of the question, what has to wait, and where
    /// to go first.
    fn learn(&mut self, flight: &Flight, failure: Failure, context: &mut Context<'_>) {
        let now = context.now;
        let hint_until = failure.wait_hint.map(|hint| now.after(hint));
        self.idle_since = now;
        self.last = Some(Last {
            place: flight.place,
            failure,
            hint_until,
        });
        if failure.class == Class::ContextOverflow {
            self.overflow = self.last;
        }
        if failure.is_ambiguous() {
            match self.policy.ambiguous() {
                Ambiguous::Always => {}
                Ambiguous::Never => self.limit = self.limit.min(self.made),
                Ambiguous::Once => self.limit = self.limit.min(self.made.saturating_add(1)),
            }
            // A second ambiguous outcome is always the last, since the first left one attempt.
            self.may_repeat = true;
        }
        let row = row(&failure);
        self.bar_others(flight.place, &failure, row.fallback);
        let stays = self.bar_same(flight, row, hint_until, context);
        self.preference = match stays {
            Some(tolerance) if self.has_share(flight.place) => Preference::Stay {
                place: flight.place,
                tolerance,
            },
            _ => Preference::Onward {
                after: Some(flight.place),
            },
        };
    }

    /// Rules out what the failure rules out of its own target. Some: it may be tried again, and is
    /// worth waiting for that long.
    fn bar_same(
        &mut self,
        flight: &Flight,
        row: Disposition,
        hint_until: Option<Instant>,
        context: &mut Context<'_>,
    ) -> Option<Duration> {
        let (max_wait, patience) = (self.policy.max_wait(), self.policy.patience());
        let entry = self.tries.get_mut(flight.place)?;
        let failures = entry.sends;
        let mut again = match row.same_target {
            SameTarget::BackOff => Some(max_wait),
            SameTarget::LastResort => None,
            SameTarget::Never => {
                entry.bar(flight.key_place, row.other_key);
                Some(patience)
            }
            SameTarget::Once if entry.second_chance => {
                entry.bar(flight.key_place, OtherKey::No);
                None
            }
            SameTarget::Once => {
                entry.second_chance = true;
                Some(max_wait)
            }
        };
        if entry.barred {
            again = None;
        }
        let backoff = context
            .now
            .after(self.policy.backoff().draw(failures, context.rng));
        let key = entry.keys.get_mut(flight.key_place);
        match (row.other_key, key) {
            // Another key need not wait for this one.
            (OtherKey::AtOnce, Some(key)) => key.not_before = hint_until.unwrap_or(backoff),
            (_, Some(key)) => {
                key.not_before = hint_until.unwrap_or_default();
                entry.not_before = if hint_until.is_some() {
                    context.now
                } else {
                    backoff
                };
            }
            (_, None) => {}
        }
        again
    }

    /// Rules out the other targets that the failure rules out.
    fn bar_others(&mut self, place: usize, failure: &Failure, fallback: Fallback) {
        let own = self.plan.entries().get(place);
        let window = failure
            .context_window
            .or(own.and_then(|entry| entry.context_window));
        let admits = |entry: &Entry| match fallback {
            Fallback::IfTargetAtFault => failure.fault == Fault::Target,
            // A window of unknown size is not known to be larger.
            Fallback::LargerWindow => match (entry.context_window, window) {
                (Some(theirs), Some(ours)) => {
                    theirs > ours && failure.context_needed.is_none_or(|needed| needed <= theirs)
                }
                _ => false,
            },
            Fallback::Never => false,
            Fallback::WhenWaitTooLong | Fallback::Yes => true,
            Fallback::WhereRouteSays => self.policy.content_policy() == ContentPolicy::FallBack,
        };
        let entries = self.plan.entries().iter().zip(&mut self.tries);
        for (other, (entry, known)) in entries.enumerate() {
            if other != place && !admits(entry) {
                known.barred = true;
            }
        }
    }

    /// Whether a target may have one more of the attempts that are left, with a fair share kept for
    /// each target not tried yet.
    fn has_share(&self, place: usize) -> bool {
        let left = self.limit.saturating_sub(self.made);
        let untried = |entry: &&Try| entry.sends == 0 && !entry.barred;
        let others = self.tries.iter().filter(untried).count();
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        let here = self.tries.get(place).map_or(0, |entry| entry.sends);
        let share = here.saturating_add(left).div_ceil(others.saturating_add(1));
        others == 0 || (left > others && here < share)
    }

    fn done(&mut self, verdict: Verdict) -> Step {
        self.verdict = Some(verdict.clone());
        Step::Done(verdict)
    }

    fn give_up(&mut self, reason: GaveUp, context: &Context<'_>) -> Step {
        let last = self.overflow.or(self.last);
        let (blocked, free_at) = self.outlook(context);
        let class = match (reason, &last) {
            (GaveUp::ClientGone, _) => Class::ClientGone,
            (_, Some(last)) => last.failure.class,
            (GaveUp::Deadline, None) => blocked.unwrap_or(Class::Timeout),
            (GaveUp::NoTarget, None) => blocked.unwrap_or(Class::ModelUnavailable),
            (_, None) => blocked.unwrap_or(Class::Overloaded),
        };
        let waits = matches!(class, Class::RateLimited | Class::Overloaded);
        let hint = last.and_then(|last| last.hint_until);
        let until = [free_at, hint]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| waits);
        let held_back = last.is_none() && class == Class::Overloaded && until.is_some();
        let entries = self.plan.entries();
        let target = last.and_then(|last| entries.get(last.place));
        self.done(Verdict::Failed(Defeat {
            class,
            failure: last.map(|last| last.failure),
            target: target.map(|entry| entry.target.clone()),
            reason,
            attempts: self.made,
            retry: if held_back {
                ClientRetry::Later
            } else {
                ClientRetry::Never
            },
            retry_after: until
                .map(|until| until.since(context.now))
                .filter(|d| !d.is_zero()),
        }))
    }

    /// Why the first target of the plan is not to be had, and when the first of all is.
    fn outlook(&self, context: &Context<'_>) -> (Option<Class>, Option<Instant>) {
        let mut why = None;
        let mut soonest: Option<Instant> = None;
        for entry in self.plan.entries() {
            for key in &entry.keys {
                let (class, until) =
                    match context.health.admission(&entry.target, *key, context.now) {
                        Admission::Cooling { until, class }
                        | Admission::Open { until, class, .. } => (class, until),
                        Admission::Probing { class } => (class, context.now.after(PROBE_TIME)),
                        Admission::Probe | Admission::Ready => continue,
                    };
                why = why.or(Some(class));
                if matches!(class, Class::RateLimited | Class::Overloaded) {
                    soonest = Some(soonest.map_or(until, |s| s.min(until)));
                }
            }
        }
        (why, soonest)
    }
}

impl Try {
    /// Rules out a key, and the target when it was the last.
    fn bar(&mut self, key_place: usize, other: OtherKey) {
        if let Some(key) = self.keys.get_mut(key_place) {
            key.barred = true;
        }
        self.barred |= other == OtherKey::No || self.keys.iter().all(|key| key.barred);
    }
}

impl Flight {
    fn report(&self, outcome: &Outcome, context: &mut Context<'_>) {
        let (health, now) = (&mut *context.health, context.now);
        health.report(&self.target, self.key, self.pass, outcome, now);
    }
}

/// The table's row, as far as the vendor's own `x-should-retry` does not know better.
fn row(failure: &Failure) -> Disposition {
    let mut row = disposition(failure.class);
    match failure.vendor_retry {
        Some(false) => {
            row.same_target = SameTarget::Never;
            row.other_key = OtherKey::No;
        }
        Some(true) if row.same_target == SameTarget::Never => {
            row.same_target = SameTarget::BackOff;
        }
        Some(true) | None => {}
    }
    row
}
