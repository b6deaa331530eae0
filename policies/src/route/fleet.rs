//! The health of everything, put together from breakers, locks and cool-downs.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::breaker::{Breaker, BreakerState, Sign, Turn};
use super::health::{
    Admission, Ask, Barred, Change, Health, HealthPolicy, KeyStanding, Pass, SendTurn, Standing,
    Urgency,
};
use super::lock::{Lock, LockSign};
use super::obstacles::Obstacles;
use crate::ids::{KeyIndex, TargetId};
use crate::outcome::{Class, Outcome};
use crate::retry::budget::RetryBudget;
use crate::retry::table::{HealthEffect, KeyEffect, TargetEffect, disposition};
use crate::time::Instant;

/// How a key cools when the vendor says nothing about how long.
const COOL_WITHOUT_HINT: Duration = Duration::from_secs(1);
/// Targets that are remembered. Clients may name any `provider/model`, so there must be an end.
const MOST_TARGETS: usize = 4096;

/// The health of all targets and keys of a process, or of one provider.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    defaults: HealthPolicy,
    targets: BTreeMap<TargetId, Target>,
    locks: BTreeMap<String, BTreeMap<KeyIndex, Lock>>,
}

#[derive(Clone, Debug)]
struct Target {
    policy: HealthPolicy,
    configured: Configured,
    breaker: Breaker,
    shut: Lock,
    budget: RetryBudget,
    keys: BTreeMap<KeyIndex, Key>,
}

/// Whether a target is named in the configuration, and so never forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Configured {
    No,
    Yes,
}

#[derive(Clone, Debug)]
struct Key {
    cool_until: Instant,
    cool_class: Class,
    breaker: Breaker,
}

impl Fleet {
    /// A fleet of which everything is well. Targets that are not configured get `defaults`.
    pub fn new(defaults: HealthPolicy) -> Self {
        Self {
            defaults,
            ..Self::default()
        }
    }

    /// Sets how a target is judged. What is known of its health stays.
    pub fn configure(&mut self, target: &TargetId, policy: HealthPolicy) {
        match self.targets.get_mut(target) {
            Some(known) if known.policy == policy => known.configured = Configured::Yes,
            _ => {
                let fresh = Target::new(policy, Configured::Yes);
                self.targets.insert(target.clone(), fresh);
            }
        }
    }

    /// Takes the lock from a key, at a person's word. True when there was one.
    pub fn unlock(&mut self, provider: &str, key: KeyIndex) -> bool {
        let keys = self.locks.get_mut(provider);
        let lock = keys.and_then(|keys| keys.get_mut(&key));
        lock.is_some_and(Lock::clear)
    }

    /// Lets requests through to a shut target again, at a person's word. True when it was shut.
    pub fn restore(&mut self, target: &TargetId) -> bool {
        let target = self.targets.get_mut(target);
        target.is_some_and(|target| target.shut.clear())
    }

    /// Everything known, for people to look at.
    pub fn standings(&self, now: Instant) -> Vec<Standing> {
        let standing = |(id, target): (&TargetId, &Target)| {
            let locks = self.locks.get(id.provider());
            let locked = |key: &KeyIndex| {
                let lock = locks.and_then(|locks| locks.get(key));
                lock.and_then(Lock::reason)
            };
            let mut keys: Vec<KeyIndex> = target.keys.keys().copied().collect();
            keys.extend(locks.into_iter().flat_map(|locks| locks.keys()));
            keys.sort_unstable();
            keys.dedup();
            let keys = keys.into_iter().map(|key| {
                let known = target.keys.get(&key);
                KeyStanding {
                    key,
                    breaker: known.map_or(BreakerState::Closed, |key| key.breaker.state(now)),
                    locked: locked(&key),
                    cooling_until: known.map(|key| key.cool_until).filter(|until| *until > now),
                }
            });
            Standing {
                target: id.clone(),
                breaker: target.breaker.state(now),
                shut: target.shut.reason(),
                keys: keys.collect(),
            }
        };
        self.targets.iter().map(standing).collect()
    }

    /// As [`Health::report`], telling what changed.
    pub fn note(
        &mut self,
        target: &TargetId,
        key: KeyIndex,
        pass: Pass,
        outcome: &Outcome,
        now: Instant,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let evidence = Evidence::of(outcome);
        let entry = self.entry(target, now);
        match entry.breaker.report(evidence.sign, pass.breaker, now) {
            Turn::Closed => changes.push(Change::TargetClosed),
            Turn::Opened => changes.push(Change::TargetOpened(evidence.class)),
            Turn::Unchanged => {}
        }
        match entry.shut.report(evidence.target, pass.shut, now) {
            Turn::Closed => changes.push(Change::TargetRestored),
            Turn::Opened => changes.push(Change::TargetShut(evidence.class)),
            Turn::Unchanged => {}
        }
        let key_entry = entry.key(key);
        match key_entry
            .breaker
            .report(evidence.sign, pass.key_breaker, now)
        {
            Turn::Closed => changes.push(Change::KeyClosed(key)),
            Turn::Opened => changes.push(Change::KeyOpened(key, evidence.class)),
            Turn::Unchanged => {}
        }
        if let Some(until) = evidence.cool.map(|cool| now.after(cool))
            && until > key_entry.cool_until
        {
            key_entry.cool_until = until;
            key_entry.cool_class = evidence.class;
            changes.push(Change::KeyCooling(key, until));
        }
        let provider = target.provider();
        if evidence.key.opens() && !self.locks.contains_key(provider) {
            self.locks.insert(provider.to_string(), BTreeMap::new());
        }
        if let Some(locks) = self.locks.get_mut(provider) {
            let lock = if evidence.key.opens() {
                Some(locks.entry(key).or_default())
            } else {
                locks.get_mut(&key)
            };
            match lock.map(|lock| lock.report(evidence.key, pass.lock, now)) {
                Some(Turn::Closed) => changes.push(Change::KeyUnlocked(key)),
                Some(Turn::Opened) => changes.push(Change::KeyLocked(key, evidence.class)),
                Some(Turn::Unchanged) | None => {}
            }
        }
        changes
    }

    fn entry(&mut self, target: &TargetId, now: Instant) -> &mut Target {
        if self.targets.len() >= MOST_TARGETS && !self.targets.contains_key(target) {
            self.forget(now);
        }
        let defaults = self.defaults;
        self.targets
            .entry(target.clone())
            .or_insert_with(|| Target::new(defaults, Configured::No))
    }

    /// Makes room: forgets targets at rest, or else the first that no configuration names.
    fn forget(&mut self, now: Instant) {
        let keep = |target: &Target| target.configured == Configured::Yes;
        self.targets
            .retain(|_, target| keep(target) || !target.is_at_rest(now));
        if self.targets.len() >= MOST_TARGETS {
            let mut entries = self.targets.iter();
            let victim = entries.find(|(_, target)| !keep(target));
            if let Some(id) = victim.map(|(id, _)| id.clone()) {
                self.targets.remove(&id);
            }
        }
    }

    fn lock(&self, target: &TargetId, key: KeyIndex) -> Option<&Lock> {
        self.locks.get(target.provider())?.get(&key)
    }
}

impl Health for Fleet {
    fn admission(&self, target: &TargetId, key: KeyIndex, now: Instant) -> Admission {
        let mut sum = Obstacles::default();
        if let Some(lock) = self.lock(target, key) {
            sum.meet_lock(lock, now);
        }
        if let Some(entry) = self.targets.get(target) {
            sum.meet_lock(&entry.shut, now);
            sum.meet_breaker(&entry.breaker, now);
            if let Some(key) = entry.keys.get(&key) {
                sum.meet_breaker(&key.breaker, now);
                sum.meet_cooling(key.cool_until, key.cool_class, now);
            }
        }
        sum.admission()
    }

    fn allows_retry(&self, target: &TargetId, now: Instant) -> bool {
        let entry = self.targets.get(target);
        entry.is_none_or(|entry| entry.budget.allows(now))
    }

    fn begin(&mut self, ask: &Ask<'_>, now: Instant) -> Result<Pass, Barred> {
        let admissible = match self.admission(ask.target, ask.key, now) {
            Admission::Ready | Admission::Probe => true,
            Admission::Open { early, .. } => ask.urgency == Urgency::LastResort && early <= now,
            Admission::Cooling { .. } | Admission::Probing { .. } => false,
        };
        if !admissible {
            return Err(Barred::Health);
        }
        let entry = self.entry(ask.target, now);
        match ask.turn {
            SendTurn::First => entry.budget.note_request(now),
            SendTurn::Again => {
                if !entry.budget.spend(now) {
                    return Err(Barred::RetryBudget);
                }
            }
        }
        let mut pass = Pass {
            breaker: entry.breaker.begin(now),
            shut: entry.shut.begin(now),
            key_breaker: entry.key(ask.key).breaker.begin(now),
            lock: None,
        };
        if let Some(locks) = self.locks.get_mut(ask.target.provider())
            && let Some(lock) = locks.get_mut(&ask.key)
        {
            pass.lock = lock.begin(now);
        }
        Ok(pass)
    }

    fn report(
        &mut self,
        target: &TargetId,
        key: KeyIndex,
        pass: Pass,
        outcome: &Outcome,
        now: Instant,
    ) {
        self.note(target, key, pass, outcome, now);
    }
}

impl Target {
    fn new(policy: HealthPolicy, configured: Configured) -> Self {
        Self {
            policy,
            configured,
            breaker: Breaker::new(policy.breaker),
            shut: Lock::default(),
            budget: RetryBudget::new(policy.budget),
            keys: BTreeMap::new(),
        }
    }

    fn key(&mut self, key: KeyIndex) -> &mut Key {
        let policy = self.policy.breaker;
        self.keys.entry(key).or_insert_with(|| Key {
            cool_until: Instant::default(),
            cool_class: Class::RateLimited,
            breaker: Breaker::new(policy),
        })
    }

    fn is_at_rest(&self, now: Instant) -> bool {
        let key_rests = |key: &Key| key.cool_until <= now && key.breaker.is_at_rest(now);
        self.breaker.is_at_rest(now)
            && self.shut.latch.is_closed()
            && self.budget.is_idle(now)
            && self.keys.values().all(key_rests)
    }
}

/// What an outcome says about all that stands in the way.
struct Evidence {
    sign: Sign,
    target: LockSign,
    key: LockSign,
    cool: Option<Duration>,
    /// For the record of a change; meaningless where nothing opens.
    class: Class,
}

impl Evidence {
    fn of(outcome: &Outcome) -> Self {
        let failure = match outcome {
            Outcome::Success => {
                return Self {
                    sign: Sign::Good,
                    target: LockSign::Works,
                    key: LockSign::Works,
                    cool: None,
                    class: Class::Other,
                };
            }
            Outcome::Failure(failure) => failure,
        };
        let row = disposition(failure.class);
        let hint = failure.wait_hint;
        let (sign, otherwise) = match row.health {
            HealthEffect::Alive => (Sign::Alive, LockSign::Works),
            HealthEffect::Counts => (Sign::Bad, LockSign::Nothing),
            HealthEffect::Nothing => (Sign::Nothing, LockSign::Nothing),
        };
        let (key, cool) = match row.key {
            KeyEffect::Cool => (otherwise, Some(hint.unwrap_or(COOL_WITHOUT_HINT))),
            KeyEffect::Open => (LockSign::Opens(failure.class, hint), hint),
            KeyEffect::None => (otherwise, hint),
        };
        // A refused key says nothing about whether the model behind it is there.
        let target = match (row.target, row.key) {
            (TargetEffect::Open, _) => LockSign::Opens(failure.class, hint),
            (TargetEffect::None, KeyEffect::Open) => LockSign::Nothing,
            (TargetEffect::None, KeyEffect::Cool | KeyEffect::None) => otherwise,
        };
        Self {
            sign,
            target,
            key,
            cool,
            class: failure.class,
        }
    }
}
