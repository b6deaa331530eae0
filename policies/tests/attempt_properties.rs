//! What holds for the attempts of any request, whatever the vendors do.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test may panic as the test itself may"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use whippletree_policies::attempt::{
    Ambiguous, Attempts, ContentPolicy, Context, Event, RetryPolicy, Step, Verdict,
};
use whippletree_policies::ids::{KeyIndex, TargetId};
use whippletree_policies::outcome::{Class, Failure, Fault, Outcome, Sent};
use whippletree_policies::retry::backoff::Backoff;
use whippletree_policies::retry::table::{Fallback, OtherKey, SameTarget, disposition};
use whippletree_policies::route::breaker::BreakerPolicy;
use whippletree_policies::route::health::{
    Admission, Ask, Fleet, Health, HealthPolicy, Pass, SendTurn, Urgency,
};
use whippletree_policies::route::plan::{Candidate, Choice, Plan};
use whippletree_policies::time::Instant;
use whippletree_policies::units::Tokens;

const CLASSES: [Class; 15] = [
    Class::ClientGone,
    Class::ContentPolicy,
    Class::ContextOverflow,
    Class::InvalidRequest,
    Class::MalformedResponse,
    Class::ModelUnavailable,
    Class::Other,
    Class::Overloaded,
    Class::QuotaExhausted,
    Class::RateLimited,
    Class::ServerError,
    Class::StreamInterrupted,
    Class::Timeout,
    Class::Transport,
    Class::VendorAuth,
];

/// What a vendor does with one send.
#[derive(Clone, Copy, Debug)]
struct Reply {
    outcome: Outcome,
    took: Duration,
}

fn any_failure() -> impl Strategy<Value = Failure> {
    let sent = prop_oneof![Just(Sent::Nothing), Just(Sent::Maybe), Just(Sent::Answered)];
    let hint = proptest::option::weighted(0.4, 0..60_000_u64);
    let status = proptest::option::of(prop_oneof![Just(500_u16), Just(502), Just(504)]);
    // The first class ends everything, so it is drawn less often.
    let class = prop_oneof![1 => 0..1_usize, 20 => 1..CLASSES.len()];
    (class, sent, hint, status, any::<bool>()).prop_map(|(class, sent, hint, status, lacking)| {
        let mut failure = Failure::new(CLASSES[class], sent);
        failure.wait_hint = hint.map(Duration::from_millis);
        failure.status = status;
        if lacking {
            failure.fault = Fault::Target;
        }
        failure
    })
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let failure = any_failure().prop_map(Outcome::Failure);
    let outcome = prop_oneof![6 => failure, 1 => Just(Outcome::Success)];
    (outcome, 0..40_000_u64).prop_map(|(outcome, took)| Reply {
        outcome,
        took: Duration::from_millis(took),
    })
}

fn any_plan() -> impl Strategy<Value = Vec<Candidate>> {
    let candidate = (0..3_u32, 0..3_u16, proptest::option::of(1..4_u64));
    proptest::collection::vec(candidate, 0..5).prop_map(|candidates| {
        let candidate = |(i, (rank, keys, window)): (usize, (u32, u16, Option<u64>))| Candidate {
            target: TargetId::from(format!("p{}/m{i}", i / 2).as_str()),
            rank,
            weight: 1,
            keys,
            context_window: window.map(|w| Tokens(w * 100_000)),
        };
        candidates.into_iter().enumerate().map(candidate).collect()
    })
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let ambiguous = prop_oneof![
        Just(Ambiguous::Always),
        Just(Ambiguous::Never),
        Just(Ambiguous::Once)
    ];
    (1..8_u32, 1..30_000_u64, ambiguous, any::<bool>()).prop_map(
        |(max_attempts, max_wait, ambiguous, shops)| {
            let (base, cap) = (Duration::from_millis(500), Duration::from_secs(20));
            let backoff = Backoff::new(base, cap).expect("a base below its cap");
            let max_wait = Duration::from_millis(max_wait);
            let policy = RetryPolicy::new(max_attempts, backoff, max_wait).expect("some attempts");
            policy
                .with_ambiguous(ambiguous)
                .with_content_policy(if shops {
                    ContentPolicy::FallBack
                } else {
                    ContentPolicy::Return
                })
        },
    )
}

/// A send as it happened.
#[derive(Clone, Debug)]
struct Sent1 {
    at: Instant,
    target: TargetId,
    place: usize,
    key: KeyIndex,
    came_to: Outcome,
    ended: Instant,
}

struct Run {
    sends: Vec<Sent1>,
    verdict: Verdict,
    ended: Instant,
}

/// Plays one request to its end, the driver cutting attempts off at `give_up_at`.
fn play(
    plan: Plan,
    policy: RetryPolicy,
    replies: &[Reply],
    deadline: Duration,
    fleet: &mut Fleet,
    rng: &mut SmallRng,
    start: Instant,
) -> Run {
    let mut now = start;
    let mut sends: Vec<Sent1> = Vec::new();
    let mut attempts = Attempts::new(plan, policy, now, now.after(deadline));
    let mut event = Event::Start;
    for _ in 0..10_000 {
        let mut context = Context {
            now,
            rng,
            health: fleet,
            tenant: None,
        };
        event = match attempts.advance(event, &mut context) {
            Step::Done(verdict) => {
                return Run {
                    sends,
                    verdict,
                    ended: now,
                };
            }
            Step::Send(send) => {
                assert_eq!(send.attempt as usize, sends.len() + 1);
                let reply = replies[sends.len() % replies.len()];
                let began = now;
                now = now.after(reply.took);
                let mut came_to = reply.outcome;
                if now > send.give_up_at {
                    now = send.give_up_at;
                    came_to = Outcome::Failure(Failure::new(Class::Timeout, Sent::Maybe));
                }
                sends.push(Sent1 {
                    at: began,
                    target: send.target,
                    place: send.place,
                    key: send.key,
                    came_to,
                    ended: now,
                });
                Event::Finished(came_to)
            }
            Step::Wait { until } => {
                assert!(until > now, "a wait goes forward");
                now = until;
                Event::Woke
            }
        };
    }
    panic!("the request does not end");
}

fn failure(send: &Sent1) -> Option<Failure> {
    match send.came_to {
        Outcome::Failure(failure) => Some(failure),
        Outcome::Success => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_bound_holds_at_once(
        candidates in any_plan(),
        policy in any_policy(),
        replies in proptest::collection::vec(any_reply(), 1..12),
        deadline in 0..120_000_u64,
        seed in any::<u64>(),
    ) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut fleet = Fleet::default();
        let deadline = Duration::from_millis(deadline);
        let start = Instant(1_000_000_000_000);
        let plan = Plan::new(candidates, Choice::Weighted, &|_| 0, &mut rng);
        let entries = plan.entries().to_vec();
        let run = play(plan, policy, &replies, deadline, &mut fleet, &mut rng, start);

        let end = start.after(deadline);
        prop_assert!(run.sends.len() <= policy.max_attempts() as usize);
        prop_assert!(run.ended <= end, "past the deadline");
        for (i, send) in run.sends.iter().enumerate() {
            prop_assert!(send.at.after(policy.min_attempt()) <= end, "begun too late");
            let later = &run.sends[i + 1..];
            let Some(failure) = failure(send) else {
                prop_assert!(later.is_empty(), "sent after a success");
                continue;
            };
            let row = disposition(failure.class);
            let same = |s: &&Sent1| s.target == send.target;
            let same_key = |s: &&Sent1| s.target == send.target && s.key == send.key;
            if let Some(hint) = failure.wait_hint {
                let until = send.ended.after(hint);
                let early = later.iter().filter(same_key).find(|s| s.at < until);
                prop_assert!(early.is_none(), "earlier than the hint: {early:?}");
            }
            match (row.same_target, row.other_key) {
                (SameTarget::Never, OtherKey::No) => {
                    prop_assert!(!later.iter().any(|s| same(&s)), "{failure:?} forbids it");
                }
                (SameTarget::Never, OtherKey::AtOnce) => {
                    prop_assert!(!later.iter().any(|s| same_key(&s)), "{failure:?} forbids it");
                }
                _ => {}
            }
            let elsewhere = later.iter().find(|s| s.target != send.target);
            match row.fallback {
                Fallback::Never => prop_assert!(elsewhere.is_none()),
                Fallback::IfTargetAtFault if failure.fault == Fault::Request => {
                    prop_assert!(elsewhere.is_none());
                }
                Fallback::WhereRouteSays if policy.content_policy() == ContentPolicy::Return => {
                    prop_assert!(elsewhere.is_none());
                }
                Fallback::LargerWindow => {
                    let ours = entries[send.place].context_window;
                    let larger = |s: &Sent1| entries[s.place].context_window > ours && ours.is_some();
                    prop_assert!(later.iter().all(larger));
                }
                _ => {}
            }
            if failure.is_ambiguous() {
                match policy.ambiguous() {
                    Ambiguous::Always => {}
                    Ambiguous::Never => prop_assert!(later.is_empty()),
                    Ambiguous::Once => prop_assert!(later.len() <= 1),
                }
            }
            if failure.class == Class::ClientGone {
                prop_assert!(later.is_empty());
            }
        }
        let worked = run.sends.last().is_some_and(|s| s.came_to == Outcome::Success);
        prop_assert_eq!(worked, matches!(run.verdict, Verdict::Succeeded { .. }));
    }

    #[test]
    fn a_transient_failure_is_never_the_end_while_attempts_and_time_are_left(
        candidates in any_plan(),
        seed in any::<u64>(),
        failures in 0..4_usize,
    ) {
        prop_assume!(!candidates.is_empty());
        let mut rng = SmallRng::seed_from_u64(seed);
        let transient = Failure::new(Class::ServerError, Sent::Answered);
        let mut replies = vec![
            Reply { outcome: Outcome::Failure(transient), took: Duration::from_millis(10) };
            failures
        ];
        replies.push(Reply { outcome: Outcome::Success, took: Duration::from_millis(10) });
        let backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(20));
        let backoff = backoff.expect("a base below its cap");
        let policy = RetryPolicy::new(4, backoff, Duration::from_secs(30)).expect("attempts");
        let plan = Plan::new(candidates, Choice::Weighted, &|_| 0, &mut rng);
        let mut fleet = Fleet::default();
        let start = Instant(1_000_000_000_000);
        let minute = Duration::from_mins(1);
        let run = play(plan, policy, &replies, minute, &mut fleet, &mut rng, start);
        prop_assert!(matches!(run.verdict, Verdict::Succeeded { .. }), "{:?}", run.verdict);
        prop_assert_eq!(run.sends.len(), failures + 1);
    }
}

/// An operation on a fleet of one target with two keys.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Begin { key: u16, last_resort: bool },
    End { which: usize, class: Option<usize> },
    Pass { ms: u64 },
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..2_u16, any::<bool>())
            .prop_map(|(key, last_resort)| Operation::Begin { key, last_resort }),
        4 => (any::<prop::sample::Index>(), proptest::option::weighted(0.8, 0..CLASSES.len()))
            .prop_map(|(which, class)| Operation::End { which: which.index(64), class }),
        2 => (0..20_000_u64).prop_map(|ms| Operation::Pass { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_half_open_target_is_probed_by_one_request_at_a_time(
        operations in proptest::collection::vec(any_operation(), 1..200),
    ) {
        const OPEN_FOR: Duration = Duration::from_secs(15);
        let breaker = BreakerPolicy::new(0.5, Duration::from_secs(30), 3, OPEN_FOR);
        let policy = HealthPolicy {
            breaker: breaker.expect("a sound policy"),
            ..HealthPolicy::default()
        };
        let mut fleet = Fleet::new(policy);
        let target = TargetId::from("a/m");
        let mut now = Instant(1_000_000_000_000);
        let mut under_way: Vec<(Instant, KeyIndex, Pass)> = Vec::new();
        let mut cool_until: BTreeMap<KeyIndex, Instant> = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Pass { ms } => now = now.after(Duration::from_millis(ms)),
                Operation::Begin { key, last_resort } => {
                    let key = KeyIndex(key);
                    let before = fleet.admission(&target, key, now);
                    let urgency = if last_resort { Urgency::LastResort } else { Urgency::Normal };
                    let ask = Ask { target: &target, key, turn: SendTurn::First, urgency };
                    let Ok(pass) = fleet.begin(&ask, now) else {
                        prop_assert!(!matches!(before, Admission::Ready | Admission::Probe));
                        continue;
                    };
                    prop_assert!(cool_until.get(&key).is_none_or(|until| *until <= now));
                    if pass.is_probe() {
                        // Lost probes aside, nobody else is probing with this key.
                        let rival = under_way.iter().find(|(began, k, p)| {
                            *k == key && p.is_probe() && now.since(*began) < OPEN_FOR
                        });
                        prop_assert!(rival.is_none(), "{rival:?} beside {pass:?}");
                    } else {
                        prop_assert_eq!(before, Admission::Ready);
                    }
                    under_way.push((now, key, pass));
                }
                Operation::End { which, class } => {
                    if under_way.is_empty() {
                        continue;
                    }
                    let (_, key, pass) = under_way.swap_remove(which % under_way.len());
                    let outcome = class.map_or(Outcome::Success, |class| {
                        Outcome::Failure(Failure::new(CLASSES[class], Sent::Answered))
                    });
                    if outcome.class() == Some(Class::RateLimited) {
                        let until = now.after(Duration::from_secs(1));
                        let known = cool_until.entry(key).or_default();
                        *known = until.max(*known);
                    }
                    fleet.report(&target, key, pass, &outcome, now);
                }
            }
        }
    }
}
