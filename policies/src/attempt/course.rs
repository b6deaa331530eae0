//! Where to go next: the order of preference among targets.

use core::time::Duration;

use super::{Attempts, Context, Flight, GaveUp, Preference, Send, Step, Try};
use crate::ids::KeyIndex;
use crate::random;
use crate::retry::backoff::hint_jitter;
use crate::route::health::{Admission, Ask, Barred, Pass, SendTurn, Urgency};
use crate::route::plan::Entry;
use crate::time::Instant;

/// How long until a target that is being probed is looked at again, give or take.
const PROBE_POLL: Duration = Duration::from_millis(250);
/// How long until a target is looked at again that another request took at the same moment.
const RACE_POLL: Duration = Duration::from_millis(50);

/// The soonest that a target can be had.
#[derive(Clone, Copy, Debug)]
struct Offer {
    place: usize,
    key_place: usize,
    key: KeyIndex,
    at: Instant,
    obstacle: Obstacle,
}

/// What has to pass until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// This request's own back-off, which is random already.
    BackOff,
    /// A cool-down or a hint, which others wait for too.
    Cooling,
    /// A breaker or a lock.
    Open,
    /// Another request's probe.
    Probing,
}

impl Offer {
    /// An open target may be had early, but it is never ready.
    fn is_ready(&self, now: Instant) -> bool {
        self.at <= now && self.obstacle != Obstacle::Open
    }

    fn beats(&self, other: &Self, now: Instant) -> bool {
        !other.is_ready(now) && (self.is_ready(now) || self.at < other.at)
    }
}

impl Attempts {
    /// The next step, when nothing is under way.
    pub(super) fn next(&mut self, context: &mut Context<'_>) -> Step {
        if self.flight.is_some() {
            // Woken without cause: the attempt goes on.
            return Step::Wait {
                until: self.deadline,
            };
        }
        if self.made >= self.limit {
            let all = self.made >= self.policy.max_attempts();
            let reason = if all {
                GaveUp::Attempts
            } else {
                GaveUp::Ambiguous
            };
            return self.give_up(reason, context);
        }
        if !self.fits_deadline(context.now) {
            return self.give_up(GaveUp::Deadline, context);
        }
        self.stay(context)
            .or_else(|| self.go_on(context))
            .or_else(|| self.go_back(context))
            .unwrap_or_else(|| self.take_soonest(context))
    }

    /// The same target first, then its peers; whichever is ready, or else comes soonest.
    fn stay(&mut self, context: &mut Context<'_>) -> Option<Step> {
        let Preference::Stay { place, tolerance } = self.preference else {
            return None;
        };
        let rank = self.plan.entries().get(place)?.rank;
        let peers = self.places(|peer, entry, _| peer != place && entry.rank == rank);
        self.pick(core::iter::once(place).chain(peers), tolerance, context)
    }

    /// Targets not tried yet, rank by rank.
    fn go_on(&mut self, context: &mut Context<'_>) -> Option<Step> {
        let patience = self.policy.patience();
        let mut next_rank = self.rank_from(0);
        while let Some(rank) = next_rank {
            let fresh = self.places(|_, entry, known| entry.rank == rank && known.sends == 0);
            if let Some(step) = self.pick(fresh, patience, context) {
                return Some(step);
            }
            next_rank = rank.checked_add(1).and_then(|rank| self.rank_from(rank));
        }
        None
    }

    /// Targets tried before, but for the one that has just failed.
    fn go_back(&mut self, context: &mut Context<'_>) -> Option<Step> {
        let failed = match self.preference {
            Preference::Onward { after } => after,
            Preference::Stay { place, .. } => Some(place),
        };
        let tried = self.places(|place, _, known| known.sends > 0 && Some(place) != failed);
        self.pick(tried, Duration::ZERO, context)
    }

    /// Whatever can be had soonest, now or after a wait that fits.
    fn take_soonest(&mut self, context: &mut Context<'_>) -> Step {
        let mut soonest: Option<Offer> = None;
        for place in self.places(|_, _, _| true) {
            if let Some(offer) = self.offer(place, context)
                && soonest.is_none_or(|s| offer.at < s.at)
            {
                soonest = Some(offer);
            }
        }
        let Some(mut offer) = soonest else {
            let reason = self.why_nothing(context);
            return self.give_up(reason, context);
        };
        if offer.at <= context.now {
            match self.take(&offer, Urgency::LastResort, context) {
                Ok(step) => return step,
                Err(Barred::RetryBudget) => return self.give_up(GaveUp::RetryBudget, context),
                Err(Barred::Health) => offer.at = context.now.after(RACE_POLL),
            }
        }
        if offer.at.since(self.idle_since) > self.policy.max_wait() {
            return self.give_up(GaveUp::Wait, context);
        }
        if !self.fits_deadline(offer.at) {
            return self.give_up(GaveUp::Deadline, context);
        }
        self.wait(&offer, context)
    }

    /// The first of these that is ready, or a wait for the soonest of them if it is worth waiting
    /// for.
    fn pick(
        &mut self,
        places: impl Iterator<Item = usize>,
        tolerance: Duration,
        context: &mut Context<'_>,
    ) -> Option<Step> {
        let mut soonest: Option<Offer> = None;
        for place in places {
            let Some(offer) = self.offer(place, context) else {
                continue;
            };
            if offer.is_ready(context.now) {
                if let Ok(step) = self.take(&offer, Urgency::Normal, context) {
                    return Some(step);
                }
                continue;
            }
            let worth = matches!(offer.obstacle, Obstacle::BackOff | Obstacle::Cooling)
                && offer.at.since(self.idle_since) <= tolerance.min(self.policy.max_wait())
                && self.fits_deadline(offer.at);
            if worth && soonest.is_none_or(|s| offer.at < s.at) {
                soonest = Some(offer);
            }
        }
        soonest.map(|offer| self.wait(&offer, context))
    }

    /// When a target can be had, by the key that can be had soonest.
    fn offer(&self, place: usize, context: &Context<'_>) -> Option<Offer> {
        let entry = self.plan.entries().get(place)?;
        let known = self.tries.get(place)?;
        if known.barred || (known.sends > 0 && !allows_retry(entry, context)) {
            return None;
        }
        let mut best: Option<Offer> = None;
        let others = (0..entry.keys.len()).filter(|k| Some(*k) != known.last_key);
        for key_place in known.last_key.into_iter().chain(others) {
            let (Some(key), Some(of_key)) = (entry.keys.get(key_place), known.keys.get(key_place))
            else {
                continue;
            };
            if of_key.barred {
                continue;
            }
            let (mut at, mut obstacle) = if of_key.not_before > known.not_before {
                (of_key.not_before, Obstacle::Cooling)
            } else {
                (known.not_before, Obstacle::BackOff)
            };
            let (until, because) = match context.health.admission(&entry.target, *key, context.now)
            {
                Admission::Ready | Admission::Probe => (at, obstacle),
                Admission::Cooling { until, .. } => (until, Obstacle::Cooling),
                Admission::Open { early, .. } => (early, Obstacle::Open),
                Admission::Probing { .. } => (context.now.after(PROBE_POLL), Obstacle::Probing),
            };
            if until > at || because == Obstacle::Open {
                (at, obstacle) = (at.max(until), because);
            }
            let offer = Offer {
                place,
                key_place,
                key: *key,
                at,
                obstacle,
            };
            if best.is_none_or(|best| offer.beats(&best, context.now)) {
                best = Some(offer);
            }
        }
        best
    }

    fn take(
        &mut self,
        offer: &Offer,
        urgency: Urgency,
        context: &mut Context<'_>,
    ) -> Result<Step, Barred> {
        let entry = self.plan.entries().get(offer.place).ok_or(Barred::Health)?;
        let known = self.tries.get_mut(offer.place).ok_or(Barred::Health)?;
        let ask = Ask {
            target: &entry.target,
            key: offer.key,
            turn: if known.sends == 0 {
                SendTurn::First
            } else {
                SendTurn::Again
            },
            urgency,
        };
        let pass: Pass = context.health.begin(&ask, context.now)?;
        if let Some(tenant) = context.tenant.as_deref_mut() {
            match ask.turn {
                SendTurn::First if self.made == 0 => tenant.note_request(context.now),
                SendTurn::First => {}
                SendTurn::Again => {
                    // Whether it allows this one was asked when the offer was made.
                    tenant.spend(context.now);
                }
            }
        }
        known.sends += 1;
        known.last_key = Some(offer.key_place);
        self.made += 1;
        self.flight = Some(Flight {
            target: entry.target.clone(),
            place: offer.place,
            key_place: offer.key_place,
            key: offer.key,
            pass,
        });
        Ok(Step::Send(Send {
            target: entry.target.clone(),
            place: offer.place,
            key: offer.key,
            attempt: self.made,
            give_up_at: self.deadline,
            may_repeat: self.may_repeat,
            probe: pass.is_probe(),
        }))
    }

    /// Waits for an offer. Where others wait for the same instant, a little longer than they do.
    fn wait(&self, offer: &Offer, context: &mut Context<'_>) -> Step {
        let remaining = offer.at.since(context.now);
        let jitter = match offer.obstacle {
            Obstacle::BackOff => Duration::ZERO,
            Obstacle::Cooling | Obstacle::Open => hint_jitter(remaining, context.rng),
            Obstacle::Probing => random::duration_up_to(remaining, context.rng),
        };
        let latest = Instant(self.deadline.0.saturating_sub(
            u64::try_from(self.policy.min_attempt().as_nanos()).unwrap_or(u64::MAX),
        ));
        let until = offer.at.after(jitter).min(latest).max(offer.at);
        Step::Wait { until }
    }

    fn why_nothing(&self, context: &Context<'_>) -> GaveUp {
        let mut entries = self.plan.entries().iter().zip(&self.tries);
        if entries.any(|(entry, known)| !known.barred && !allows_retry(entry, context)) {
            GaveUp::RetryBudget
        } else if self.last.is_some() {
            GaveUp::Final
        } else {
            GaveUp::NoTarget
        }
    }

    fn fits_deadline(&self, at: Instant) -> bool {
        at.after(self.policy.min_attempt()) <= self.deadline
    }

    /// The lowest rank of the plan that is at least this.
    fn rank_from(&self, least: u32) -> Option<u32> {
        let ranks = self.plan.entries().iter().map(|entry| entry.rank);
        ranks.filter(|rank| *rank >= least).min()
    }

    /// The places of the plan that fulfil a condition, collected so that the plan is free again.
    fn places(&self, wanted: impl Fn(usize, &Entry, &Try) -> bool) -> alloc::vec::IntoIter<usize> {
        let entries = self.plan.entries().iter().zip(&self.tries).enumerate();
        let places = entries.filter(|(place, (entry, known))| wanted(*place, entry, known));
        let places: alloc::vec::Vec<usize> = places.map(|(place, _)| place).collect();
        places.into_iter()
    }
}

fn allows_retry(entry: &Entry, context: &Context<'_>) -> bool {
    let now = context.now;
    let tenant = context.tenant.as_deref();
    tenant.is_none_or(|budget| budget.allows(now))
        && context.health.allows_retry(&entry.target, now)
}
