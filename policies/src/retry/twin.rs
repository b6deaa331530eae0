//! Which call a client's own retry belongs to.
//!
//! Problem: a client whose timer is shorter than the vendor's work sends the same request again, and
//! the work is paid twice; a client that retries what the gateway has retried multiplies the two.
//! Idea: calls are remembered by what their client says of them, an idempotency key or the body with
//! a count of retries, while they run and for a while after. A repetition then joins, replays, or
//! goes on with what is left of the first one's attempts.
//!
//! A name leads to the latest call under it. A request that says it is a first try takes the name
//! over: two equal prompts sent at once are two calls.
//!
//! Limits: memory of ended calls is bounded by count, bytes and age, and the oldest go first; calls
//! that run are as many as the process serves. What a call's handle keeps is its owner's business;
//! here it is only counted.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::Instant;

/// A hash of everything that has to agree, the caller included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// How much of ended calls is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinPolicy {
    /// Ended calls.
    pub calls: usize,
    /// Bytes that their handles keep, all together.
    pub bytes: usize,
    /// How long after its end.
    pub keep: Duration,
}

impl Default for TwinPolicy {
    /// 4096 calls, 64 MiB, five minutes.
    fn default() -> Self {
        Self {
            calls: 4096,
            bytes: 64 << 20,
            keep: Duration::from_mins(5),
        }
    }
}

/// What a request says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Under which it may be known.
    pub name: Fingerprint,
    /// Of its body.
    pub body: Fingerprint,
    /// Whether it was sent before.
    pub repeats: Repeats,
}

/// Whether a request was sent before, by its client's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// It was.
    Again,
    /// It was not.
    First,
    /// It does not say: it is the same if its name is.
    Perhaps,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding<T> {
    /// The name belongs to a request with another body.
    Differs,
    /// It is a call of its own, from now on known by this number.
    Own {
        /// For [`Twins::end`] and [`Twins::forget`].
        call: u64,
        /// What the failed call before it has left of its attempts; `None` when there was none.
        left: Option<u32>,
    },
    /// It repeats a call that runs, or that has ended and is not to be made again.
    Repeats(T),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer, of which the handle keeps so many bytes.
    Answered {
        /// What counts against [`TwinPolicy::bytes`].
        bytes: usize,
    },
    /// Without a whole answer.
    Failed {
        /// Attempts that it had left. 0: a repetition is told the same again.
        left: u32,
        /// What counts against [`TwinPolicy::bytes`].
        bytes: usize,
    },
}

/// The calls of a process that may be repeated. `T` is what leads to a call's answer.
#[derive(Clone, Debug)]
pub struct Twins<T> {
    policy: TwinPolicy,
    calls: BTreeMap<u64, Known<T>>,
    names: BTreeMap<Fingerprint, u64>,
    /// Ended calls, the first to end first.
    ended: VecDeque<(u64, Instant)>,
    bytes: usize,
    next: u64,
}

#[derive(Clone, Debug)]
struct Known<T> {
    names: Vec<Fingerprint>,
    body: Fingerprint,
    handle: T,
    ending: Option<Ending>,
}

impl<T: Clone> Default for Twins<T> {
    fn default() -> Self {
        Self::new(TwinPolicy::default())
    }
}

impl<T: Clone> Twins<T> {
    /// Knows of no call.
    pub const fn new(policy: TwinPolicy) -> Self {
        Self {
            policy,
            calls: BTreeMap::new(),
            names: BTreeMap::new(),
            ended: VecDeque::new(),
            bytes: 0,
            next: 0,
        }
    }

    /// Says what a request is; `handle` becomes the call's if it is one of its own.
    pub fn begin(&mut self, claim: &Claim, handle: &T, now: Instant) -> Finding<T> {
        self.expire(now);
        let earlier = self.names.get(&claim.name).copied();
        let known = earlier
            .filter(|_| claim.repeats != Repeats::First)
            .and_then(|call| self.calls.get(&call));
        let mut left = None;
        if let Some(known) = known {
            if known.body != claim.body {
                return Finding::Differs;
            }
            match known.ending {
                Some(Ending::Failed { left: some, .. }) if some > 0 => left = Some(some),
                Some(Ending::Answered { .. } | Ending::Failed { .. }) | None => {
                    return Finding::Repeats(known.handle.clone());
                }
            }
        }
        let call = self.open(claim.name, claim.body, handle);
        Finding::Own { call, left }
    }

    /// Remembers a call under a name that no claim is made by.
    pub fn open(&mut self, name: Fingerprint, body: Fingerprint, handle: &T) -> u64 {
        let call = self.next;
        self.next = self.next.wrapping_add(1);
        let known = Known {
            names: Vec::new(),
            body,
            handle: handle.clone(),
            ending: None,
        };
        self.calls.insert(call, known);
        self.name(call, name);
        call
    }

    /// Gives a call one more name, which it takes over where another has it.
    pub fn name(&mut self, call: u64, name: Fingerprint) {
        if let Some(known) = self.calls.get_mut(&call) {
            known.names.push(name);
            self.names.insert(name, call);
        }
    }

    /// The call under a name, if its body is this one.
    pub fn find(&mut self, name: Fingerprint, body: Fingerprint, now: Instant) -> Option<T> {
        self.expire(now);
        let known = self.calls.get(self.names.get(&name)?)?;
        (known.body == body).then(|| known.handle.clone())
    }

    /// A call has ended. Forgets others where memory asks for it.
    pub fn end(&mut self, call: u64, ending: Ending, now: Instant) {
        let Some(known) = self.calls.get_mut(&call).filter(|k| k.ending.is_none()) else {
            return;
        };
        known.ending = Some(ending);
        self.bytes = self.bytes.saturating_add(bytes(ending));
        self.ended.push_back((call, now));
        self.expire(now);
    }

    /// A call has come to nothing that a repetition could use.
    pub fn forget(&mut self, call: u64) {
        let Some(known) = self.calls.remove(&call) else {
            return;
        };
        if let Some(ending) = known.ending {
            self.bytes = self.bytes.saturating_sub(bytes(ending));
            if self.ended.front().is_some_and(|(first, _)| *first == call) {
                self.ended.pop_front();
            } else {
                self.ended.retain(|(other, _)| *other != call);
            }
        }
        for name in known.names {
            if self.names.get(&name) == Some(&call) {
                self.names.remove(&name);
            }
        }
    }

    /// Forgets the call that ended first. False when none has ended.
    pub fn make_room(&mut self) -> bool {
        let Some((call, _)) = self.ended.front().copied() else {
            return false;
        };
        self.forget(call);
        true
    }

    /// Calls remembered, those that run included.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether no call is remembered.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, at)) = self.ended.front().copied() {
            let old = now.since(at) >= self.policy.keep;
            let over = self.ended.len() > self.policy.calls || self.bytes > self.policy.bytes;
            if !old && !over {
                break;
            }
            self.make_room();
        }
    }
}

const fn bytes(ending: Ending) -> usize {
    match ending {
        Ending::Answered { bytes } | Ending::Failed { bytes, .. } => bytes,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: TwinPolicy = TwinPolicy {
        calls: 8,
        bytes: 1_000,
        keep: Duration::from_mins(1),
    };

    const fn print(n: u8) -> Fingerprint {
        Fingerprint([n; 16])
    }

    const fn claim(name: u8, body: u8, repeats: Repeats) -> Claim {
        Claim {
            name: print(name),
            body: print(body),
            repeats,
        }
    }

    const fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    const fn answered(bytes: usize) -> Ending {
        Ending::Answered { bytes }
    }

    fn own(finding: Finding<&'static str>) -> u64 {
        match finding {
            Finding::Own { call, .. } => call,
            other => panic!("{other:?} is no call of its own"),
        }
    }

    #[test]
    fn a_retry_joins_the_call_that_runs_and_replays_the_one_that_ended() {
        let mut twins = Twins::new(POLICY);
        let call = own(twins.begin(&claim(1, 1, Repeats::First), &"a", at(0)));
        let retry = claim(1, 1, Repeats::Again);
        assert_eq!(twins.begin(&retry, &"b", at(1)), Finding::Repeats("a"));
        twins.end(call, answered(10), at(2));
        assert_eq!(twins.begin(&retry, &"b", at(3)), Finding::Repeats("a"));
        // A minute after its end it is forgotten.
        own(twins.begin(&retry, &"b", at(62)));
    }

    #[test]
    fn a_retry_of_a_failed_call_gets_what_it_left_and_the_same_failure_when_it_left_nothing() {
        let mut twins = Twins::new(POLICY);
        let retry = claim(1, 1, Repeats::Again);
        let first = own(twins.begin(&claim(1, 1, Repeats::First), &"a", at(0)));
        twins.end(first, Ending::Failed { left: 3, bytes: 1 }, at(1));
        let second = twins.begin(&retry, &"b", at(2));
        assert_eq!(
            second,
            Finding::Own {
                call: 1,
                left: Some(3)
            }
        );
        twins.end(1, Ending::Failed { left: 0, bytes: 1 }, at(3));
        assert_eq!(twins.begin(&retry, &"c", at(4)), Finding::Repeats("b"));
    }

    #[test]
    fn equal_first_tries_are_calls_of_their_own() {
        let mut twins = Twins::new(POLICY);
        let first = claim(1, 1, Repeats::First);
        let a = own(twins.begin(&first, &"a", at(0)));
        let b = own(twins.begin(&first, &"b", at(0)));
        assert_ne!(a, b);
        twins.forget(a);
        let retry = claim(1, 1, Repeats::Again);
        assert_eq!(twins.begin(&retry, &"c", at(1)), Finding::Repeats("b"));
    }

    #[test]
    fn an_idempotency_key_belongs_to_one_body() {
        let mut twins = Twins::new(POLICY);
        own(twins.begin(&claim(1, 1, Repeats::Perhaps), &"a", at(0)));
        let same = twins.begin(&claim(1, 1, Repeats::Perhaps), &"b", at(1));
        assert_eq!(same, Finding::Repeats("a"));
        let other = twins.begin(&claim(1, 2, Repeats::Perhaps), &"b", at(1));
        assert_eq!(other, Finding::Differs);
    }

    #[test]
    fn a_second_name_leads_to_the_same_call_with_the_same_body_only() {
        let mut twins = Twins::new(POLICY);
        let call = own(twins.begin(&claim(1, 1, Repeats::First), &"a", at(0)));
        twins.name(call, print(9));
        assert_eq!(twins.find(print(9), print(1), at(1)), Some("a"));
        assert_eq!(twins.find(print(9), print(2), at(1)), None);
        twins.forget(call);
        assert_eq!(twins.find(print(9), print(1), at(1)), None);
        assert!(twins.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Act {
        Begin(u8, u8, Repeats),
        End(u64, usize, Option<u32>),
        Forget(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        let repeats = prop_oneof![
            Just(Repeats::First),
            Just(Repeats::Again),
            Just(Repeats::Perhaps)
        ];
        prop_oneof![
            (0..4u8, 0..2u8, repeats).prop_map(|(n, b, r)| Act::Begin(n, b, r)),
            (0..60u64, 0..600usize, proptest::option::of(0..4u32))
                .prop_map(|(c, b, l)| Act::End(c, b, l)),
            (0..60u64).prop_map(Act::Forget),
        ]
    }

    proptest! {
        /// Whatever happens: memory of ended calls keeps its bounds, every name leads to a call that
        /// is known, and a call that was answered is not made again while it is remembered.
        #[test]
        fn bounds_hold_and_no_answered_call_is_made_again(acts in prop::collection::vec(act(), 1..200)) {
            let mut twins: Twins<u64> = Twins::new(POLICY);
            let mut serial = 0;
            for (second, act) in acts.into_iter().enumerate() {
                let now = at(second as u64);
                match act {
                    Act::Begin(name, body, repeats) => {
                        let claim = claim(name, body, repeats);
                        let before = twins.names.get(&claim.name).and_then(|c| twins.calls.get(c)).cloned();
                        let found = twins.begin(&claim, &serial, now);
                        if let (Some(before), Finding::Own { left, .. }, true) =
                            (before, &found, repeats != Repeats::First)
                        {
                            let expired = !twins.calls.values().any(|k| k.handle == before.handle);
                            let failed = matches!(before.ending, Some(Ending::Failed { left, .. }) if left > 0);
                            prop_assert!(expired || (failed && left.is_some()));
                        }
                        serial += 1;
                    }
                    Act::End(call, bytes, Some(left)) => twins.end(call, Ending::Failed { left, bytes }, now),
                    Act::End(call, bytes, None) => twins.end(call, answered(bytes), now),
                    Act::Forget(call) => twins.forget(call),
                }
                let ended = twins.calls.values().filter_map(|k| k.ending);
                let total: usize = ended.clone().map(bytes).sum();
                prop_assert_eq!(total, twins.bytes);
                prop_assert_eq!(ended.count(), twins.ended.len());
                prop_assert!(twins.bytes <= POLICY.bytes && twins.ended.len() <= POLICY.calls);
                prop_assert!(twins.names.values().all(|call| twins.calls.contains_key(call)));
            }
        }
    }
}
