//! The attempts of one request, told as scripts: what the vendor does, and what follows.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test may panic as the test itself may"
)]

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use whippletree_policies::attempt::{
    Ambiguous, Attempts, ClientRetry, ContentPolicy, Context, Defeat, Event, GaveUp, RetryPolicy,
    Send, Step, Verdict,
};
use whippletree_policies::ids::{KeyIndex, TargetId};
use whippletree_policies::outcome::{Class, Failure, Fault, Outcome, Sent};
use whippletree_policies::retry::backoff::Backoff;
use whippletree_policies::retry::budget::{RetryBudget, RetryBudgetPolicy};
use whippletree_policies::route::breaker::BreakerPolicy;
use whippletree_policies::route::health::{Admission, Fleet, Health, HealthPolicy, Pass};
use whippletree_policies::route::plan::{Candidate, Choice, Plan};
use whippletree_policies::time::Instant;
use whippletree_policies::units::Tokens;

const SECOND: Duration = Duration::from_secs(1);
const MS: fn(u64) -> Duration = Duration::from_millis;

/// A gateway with a clock that is turned by hand.
struct World {
    now: Instant,
    rng: SmallRng,
    fleet: Fleet,
    tenant: Option<RetryBudget>,
}

impl World {
    fn new() -> Self {
        Self {
            now: Instant(1_000_000_000_000),
            rng: SmallRng::seed_from_u64(11),
            fleet: Fleet::new(HealthPolicy::default()),
            tenant: None,
        }
    }

    fn advance(&mut self, attempts: &mut Attempts, event: Event) -> Step {
        let mut context = Context {
            now: self.now,
            rng: &mut self.rng,
            health: &mut self.fleet,
            tenant: self.tenant.as_mut(),
        };
        attempts.advance(event, &mut context)
    }

    fn plan(&mut self, candidates: &[Candidate]) -> Plan {
        Plan::new(
            candidates.to_vec(),
            Choice::Affinity(1),
            &|_| 0,
            &mut self.rng,
        )
    }

    /// Runs a request whose attempts take 100 ms each and come to what `vendor` says.
    fn run(
        &mut self,
        mut attempts: Attempts,
        mut vendor: impl FnMut(&Send) -> Outcome,
    ) -> (Vec<Tried>, Verdict) {
        let mut tried = Vec::new();
        let (mut waited, mut event) = (Duration::ZERO, Event::Start);
        loop {
            event = match self.advance(&mut attempts, event) {
                Step::Done(verdict) => return (tried, verdict),
                Step::Send(send) => {
                    tried.push(Tried {
                        target: send.target.as_str().to_owned(),
                        key: send.key.0,
                        waited,
                        may_repeat: send.may_repeat,
                        probe: send.probe,
                    });
                    waited = Duration::ZERO;
                    self.now = self.now.after(MS(100));
                    Event::Finished(vendor(&send))
                }
                Step::Wait { until } => {
                    waited += until.since(self.now);
                    self.now = until;
                    Event::Woke
                }
            };
        }
    }

    /// Runs a request with the usual policy and a deadline of ten minutes.
    fn request(
        &mut self,
        candidates: &[Candidate],
        vendor: impl FnMut(&Send) -> Outcome,
    ) -> (Vec<Tried>, Verdict) {
        let plan = self.plan(candidates);
        let deadline = self.now.after(Duration::from_mins(10));
        self.run(Attempts::new(plan, policy(), self.now, deadline), vendor)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tried {
    target: String,
    key: u16,
    waited: Duration,
    may_repeat: bool,
    probe: bool,
}

fn policy() -> RetryPolicy {
    let backoff = Backoff::new(MS(500), MS(20_000)).unwrap();
    RetryPolicy::new(4, backoff, MS(30_000)).unwrap()
}

fn target(name: &str, rank: u32, keys: u16) -> Candidate {
    Candidate {
        target: TargetId::from(name),
        rank,
        weight: 1,
        keys,
        context_window: None,
    }
}

fn two() -> [Candidate; 2] {
    [target("a/m", 0, 1), target("b/m", 1, 1)]
}

const fn fail(class: Class) -> Outcome {
    Outcome::Failure(Failure::new(class, Sent::Answered))
}

const fn limited(hint: Duration) -> Outcome {
    Outcome::Failure(Failure::new(Class::RateLimited, Sent::Answered).with_wait_hint(hint))
}

fn names(tried: &[Tried]) -> Vec<&str> {
    tried.iter().map(|t| t.target.as_str()).collect()
}

fn defeat(verdict: Verdict) -> Defeat {
    match verdict {
        Verdict::Failed(defeat) => defeat,
        Verdict::Succeeded { .. } => panic!("expected a failure"),
    }
}

fn server(verdict: &Verdict) -> (&str, u32) {
    match verdict {
        Verdict::Failed(defeat) => panic!("expected a success, not {defeat:?}"),
        Verdict::Succeeded {
            target, attempts, ..
        } => (target.as_str(), *attempts),
    }
}

#[test]
fn a_success_ends_it() {
    let (tried, verdict) = World::new().request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["a/m"]);
    assert_eq!(server(&verdict), ("a/m", 1));
}

#[test]
fn a_failing_target_is_tried_again_after_a_back_off_and_then_the_next_one() {
    let (tried, verdict) = World::new().request(&two(), |send| match send.target.as_str() {
        "a/m" => fail(Class::ServerError),
        _ => Outcome::Success,
    });
    assert_eq!(names(&tried), ["a/m", "a/m", "b/m"]);
    assert!(tried[1].waited <= MS(500));
    assert_eq!(tried[2].waited, Duration::ZERO);
    assert_eq!(server(&verdict), ("b/m", 3));
}

#[test]
fn attempts_are_bounded_over_all_targets() {
    let (tried, verdict) = World::new().request(&two(), |_| fail(Class::Overloaded));
    assert_eq!(names(&tried), ["a/m", "a/m", "b/m", "b/m"]);
    let defeat = defeat(verdict);
    assert_eq!(defeat.class, Class::Overloaded);
    assert_eq!((defeat.reason, defeat.attempts), (GaveUp::Attempts, 4));
    assert_eq!(defeat.retry, ClientRetry::Never);
}

#[test]
fn a_hint_is_waited_for_and_never_shortened() {
    for seed in 0..200 {
        let mut world = World::new();
        world.rng = SmallRng::seed_from_u64(seed);
        let mut first = true;
        let (tried, _) = world.request(&two(), |_| {
            if std::mem::take(&mut first) {
                limited(2 * SECOND)
            } else {
                Outcome::Success
            }
        });
        assert_eq!(names(&tried), ["a/m", "a/m"]);
        let waited = tried[1].waited;
        assert!((MS(2_000)..=MS(2_200)).contains(&waited), "{waited:?}");
    }
}

#[test]
fn a_hint_beyond_the_longest_wait_sends_the_request_on_and_cools_the_key_for_all() {
    let mut world = World::new();
    let (tried, _) = world.request(&two(), |send| match send.target.as_str() {
        "a/m" => limited(MS(31_000)),
        _ => Outcome::Success,
    });
    assert_eq!(names(&tried), ["a/m", "b/m"]);
    assert_eq!(tried[1].waited, Duration::ZERO);

    world.now = world.now.after(20 * SECOND);
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["b/m"], "the key still cools");
    world.now = world.now.after(11 * SECOND);
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["a/m"], "and no longer");
}

#[test]
fn a_hint_beyond_the_deadline_is_not_waited_for() {
    let mut world = World::new();
    let plan = world.plan(&two());
    let deadline = world.now.after(3 * SECOND);
    let attempts = Attempts::new(plan, policy(), world.now, deadline);
    let (tried, verdict) = world.run(attempts, |_| limited(5 * SECOND));
    assert_eq!(names(&tried), ["a/m", "b/m"]);
    let defeat = defeat(verdict);
    assert_eq!(
        (defeat.class, defeat.reason),
        (Class::RateLimited, GaveUp::Deadline)
    );
    // What is left of the earlier hint: five seconds less the second attempt's 100 ms.
    assert_eq!(defeat.retry_after, Some(MS(4_900)));
    assert_eq!(defeat.retry, ClientRetry::Never);
}

/// <https://github.com/BerriAI/litellm/issues/40130>
#[test]
fn c017_a_shorter_hint_never_shortens_a_cool_down() {
    let mut world = World::new();
    let a = TargetId::from("a/m");
    for hint in [1, 60, 1] {
        world.fleet.note(
            &a,
            KeyIndex(0),
            Pass::default(),
            &limited(hint * SECOND),
            world.now,
        );
    }
    world.now = world.now.after(MS(1_500));
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["b/m"]);
}

#[test]
fn c018_a_request_that_finds_everything_cooling_waits_or_says_when_to_come_back() {
    let mut world = World::new();
    let only = [target("a/m", 0, 1)];
    let a = TargetId::from("a/m");
    let cool = limited(4 * SECOND);
    world
        .fleet
        .note(&a, KeyIndex(0), Pass::default(), &cool, world.now);
    let began = world.now;
    let plan = world.plan(&only);
    let soon = Attempts::new(plan.clone(), policy(), began, began.after(2 * SECOND));
    let (tried, verdict) = world.run(soon, |_| Outcome::Success);
    assert!(tried.is_empty());
    let defeat = defeat(verdict);
    assert_eq!(defeat.class, Class::RateLimited);
    assert_eq!(defeat.retry_after, Some(4 * SECOND));

    let later = Attempts::new(plan, policy(), began, began.after(6 * SECOND));
    let (tried, _) = world.run(later, |_| Outcome::Success);
    assert_eq!(tried.len(), 1);
    assert!((MS(4_000)..=MS(4_400)).contains(&tried[0].waited));
}

#[test]
fn a_short_cool_down_is_waited_for_rather_than_leaving_the_model() {
    let mut world = World::new();
    let a = TargetId::from("a/m");
    world.fleet.note(
        &a,
        KeyIndex(0),
        Pass::default(),
        &limited(MS(300)),
        world.now,
    );
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["a/m"]);
    assert!((MS(300)..=MS(330)).contains(&tried[0].waited));
}

#[test]
fn a_rate_limited_key_gives_way_to_another_key_at_once() {
    let (tried, verdict) = World::new().request(&[target("a/m", 0, 3)], {
        let mut left = 2;
        move |_| {
            if left > 0 {
                left -= 1;
                limited(10 * SECOND)
            } else {
                Outcome::Success
            }
        }
    });
    let mut keys: Vec<u16> = tried.iter().map(|t| t.key).collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2]);
    assert!(tried.iter().all(|t| t.waited == Duration::ZERO));
    assert_eq!(server(&verdict).1, 3);
}

#[test]
fn an_exhausted_quota_opens_the_key_until_a_probe_clears_it() {
    let mut world = World::new();
    let keys = [target("a/m", 0, 2), target("b/m", 1, 1)];
    let mut bad = None;
    let (tried, _) = world.request(&keys, |send| {
        if *bad.get_or_insert(send.key) == send.key {
            fail(Class::QuotaExhausted)
        } else {
            Outcome::Success
        }
    });
    assert_eq!(names(&tried), ["a/m", "a/m"]);
    let bad = bad.unwrap();

    // Another model of the same provider keeps off the key too.
    let other = [target("a/other", 0, 2)];
    let (tried, _) = world.request(&other, |_| Outcome::Success);
    assert_ne!(tried[0].key, bad.0);

    // After a minute one request probes it; its success clears it.
    world.now = world.now.after(Duration::from_secs(61));
    let (tried, _) = world.request(&keys, |_| Outcome::Success);
    assert_eq!((tried[0].key, tried[0].probe), (bad.0, true));
    let (tried, _) = world.request(&keys, |_| Outcome::Success);
    assert_eq!((tried[0].key, tried[0].probe), (bad.0, false));
}

#[test]
fn a_person_can_clear_a_locked_key() {
    let mut world = World::new();
    let only = [target("a/m", 0, 1)];
    let (_, verdict) = world.request(&only, |_| fail(Class::VendorAuth));
    assert_eq!(defeat(verdict).reason, GaveUp::Final);
    let (tried, verdict) = world.request(&only, |_| Outcome::Success);
    assert!(tried.is_empty());
    assert_eq!(defeat(verdict).class, Class::VendorAuth);
    assert!(world.fleet.unlock("a", KeyIndex(0)));
    assert!(!world.fleet.unlock("a", KeyIndex(0)));
    let (tried, _) = world.request(&only, |_| Outcome::Success);
    assert_eq!(tried.len(), 1);
}

#[test]
fn a_missing_model_shuts_the_target_and_the_next_one_serves() {
    let mut world = World::new();
    let (tried, _) = world.request(&two(), |send| match send.target.as_str() {
        "a/m" => fail(Class::ModelUnavailable),
        _ => Outcome::Success,
    });
    assert_eq!(names(&tried), ["a/m", "b/m"]);
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["b/m"]);
    assert!(world.fleet.restore(&TargetId::from("a/m")));
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["a/m"]);
}

#[test]
fn an_invalid_request_goes_nowhere_else_unless_the_target_alone_is_at_fault() {
    let (tried, verdict) = World::new().request(&two(), |_| fail(Class::InvalidRequest));
    assert_eq!(names(&tried), ["a/m"]);
    assert_eq!(defeat(verdict).reason, GaveUp::Final);

    let mut lacking = Failure::new(Class::InvalidRequest, Sent::Answered);
    lacking.fault = Fault::Target;
    let (tried, _) = World::new().request(&two(), |send| match send.target.as_str() {
        "a/m" => Outcome::Failure(lacking),
        _ => Outcome::Success,
    });
    assert_eq!(names(&tried), ["a/m", "b/m"]);
}

#[test]
fn a_prompt_too_long_goes_only_to_a_larger_window() {
    let mut plan = [
        target("a/m", 0, 1),
        target("same/m", 1, 1),
        target("unknown/m", 2, 1),
        target("large/m", 3, 1),
    ];
    plan[0].context_window = Some(Tokens(200_000));
    plan[1].context_window = Some(Tokens(200_000));
    plan[3].context_window = Some(Tokens(1_000_000));
    let (tried, verdict) = World::new().request(&plan, |send| match send.target.as_str() {
        "a/m" => fail(Class::ContextOverflow),
        _ => fail(Class::ServerError),
    });
    assert_eq!(names(&tried), ["a/m", "large/m", "large/m", "large/m"]);
    // The harness can act on this one.
    assert_eq!(defeat(verdict).class, Class::ContextOverflow);
}

#[test]
fn a_prompt_that_fits_no_larger_window_is_returned() {
    let mut plan = two();
    plan[0].context_window = Some(Tokens(200_000));
    plan[1].context_window = Some(Tokens(256_000));
    let mut failure = Failure::new(Class::ContextOverflow, Sent::Answered);
    failure.context_needed = Some(Tokens(300_000));
    let (tried, _) = World::new().request(&plan, |_| Outcome::Failure(failure));
    assert_eq!(names(&tried), ["a/m"]);
}

#[test]
fn a_refusal_by_content_policy_falls_back_only_where_the_route_says_so() {
    let (tried, _) = World::new().request(&two(), |_| fail(Class::ContentPolicy));
    assert_eq!(names(&tried), ["a/m"]);

    let mut world = World::new();
    let plan = world.plan(&two());
    let shops = policy().with_content_policy(ContentPolicy::FallBack);
    let deadline = world.now.after(Duration::from_mins(1));
    let attempts = Attempts::new(plan, shops, world.now, deadline);
    let (tried, _) = world.run(attempts, |_| fail(Class::ContentPolicy));
    assert_eq!(names(&tried), ["a/m", "b/m"]);
}

#[test]
fn a_malformed_answer_is_asked_for_once_more() {
    let only = [target("a/m", 0, 1)];
    let (tried, verdict) = World::new().request(&only, |_| fail(Class::MalformedResponse));
    assert_eq!(tried.len(), 2);
    assert_eq!(defeat(verdict).reason, GaveUp::Final);
}

#[test]
fn a_time_out_goes_to_another_target_first_and_to_the_same_only_without_one() {
    let silent = Outcome::Failure(Failure::new(Class::Timeout, Sent::Nothing));
    let (tried, _) = World::new().request(&two(), |_| silent);
    assert_eq!(names(&tried), ["a/m", "b/m", "a/m", "b/m"]);
    let (tried, _) = World::new().request(&[target("a/m", 0, 1)], |_| silent);
    assert_eq!(tried.len(), 4);
}

#[test]
fn an_ambiguous_outcome_is_tried_as_often_as_the_route_says() {
    let maybe = Outcome::Failure(Failure::new(Class::Timeout, Sent::Maybe));
    let gateway = Failure::new(Class::ServerError, Sent::Answered).with_status(502);
    let gateway = Outcome::Failure(gateway);
    for (ambiguous, outcome, sends, reason) in [
        (Ambiguous::Never, maybe, 1, GaveUp::Ambiguous),
        (Ambiguous::Once, maybe, 2, GaveUp::Ambiguous),
        (Ambiguous::Once, gateway, 2, GaveUp::Ambiguous),
        (Ambiguous::Always, maybe, 4, GaveUp::Attempts),
        (
            Ambiguous::Never,
            fail(Class::ServerError),
            4,
            GaveUp::Attempts,
        ),
    ] {
        let mut world = World::new();
        let plan = world.plan(&two());
        let deadline = world.now.after(Duration::from_mins(10));
        let policy = policy().with_ambiguous(ambiguous);
        let attempts = Attempts::new(plan, policy, world.now, deadline);
        let (tried, verdict) = world.run(attempts, |_| outcome);
        assert_eq!(tried.len(), sends, "{ambiguous:?} {outcome:?}");
        assert_eq!(defeat(verdict).reason, reason);
        let repeats = tried.iter().skip(1).all(|t| t.may_repeat);
        assert!(!tried[0].may_repeat && (repeats || outcome == fail(Class::ServerError)));
    }
}

#[test]
fn an_ambiguous_outcome_leaves_one_more_try_whatever_comes_of_it() {
    let (tried, verdict) = World::new().request(&two(), |send| match send.target.as_str() {
        "a/m" => Outcome::Failure(Failure::new(Class::Timeout, Sent::Maybe)),
        _ => fail(Class::Overloaded),
    });
    assert_eq!(names(&tried), ["a/m", "b/m"]);
    assert_eq!(defeat(verdict).class, Class::Overloaded);
}

#[test]
fn the_vendors_word_on_retrying_beats_the_table() {
    let mut no = Failure::new(Class::Overloaded, Sent::Answered);
    no.vendor_retry = Some(false);
    let (tried, _) = World::new().request(&two(), |_| Outcome::Failure(no));
    assert_eq!(names(&tried), ["a/m", "b/m"]);

    let mut yes = Failure::new(Class::InvalidRequest, Sent::Answered);
    yes.vendor_retry = Some(true);
    let (tried, _) = World::new().request(&two(), |_| Outcome::Failure(yes));
    assert_eq!(names(&tried), ["a/m"; 4]);
}

#[test]
fn peers_of_equal_rank_stand_in_without_a_wait() {
    let peers = [
        target("a/m", 0, 1),
        target("b/m", 0, 1),
        target("c/m", 1, 1),
    ];
    let mut first = None;
    let (tried, _) = World::new().request(&peers, |send| {
        if *first.get_or_insert(send.place) == send.place {
            limited(5 * SECOND)
        } else {
            Outcome::Success
        }
    });
    assert_eq!(tried.len(), 2);
    assert_ne!(tried[1].target, "c/m");
    assert_eq!(tried[1].waited, Duration::ZERO);
}

#[test]
fn a_client_that_leaves_ends_it_and_frees_the_probe() {
    let mut world = World::new();
    let plan = world.plan(&two());
    let deadline = world.now.after(Duration::from_mins(1));
    let mut attempts = Attempts::new(plan, policy(), world.now, deadline);
    assert!(matches!(
        world.advance(&mut attempts, Event::Start),
        Step::Send(_)
    ));
    let step = world.advance(&mut attempts, Event::ClientGone);
    let Step::Done(verdict) = step.clone() else {
        panic!("expected the end, not {step:?}");
    };
    assert_eq!(defeat(verdict).class, Class::ClientGone);
    // Whatever comes later changes nothing.
    assert_eq!(world.advance(&mut attempts, Event::Woke), step);
    assert_eq!(
        world.advance(&mut attempts, Event::Finished(Outcome::Success)),
        step
    );
}

fn open(world: &mut World, name: &str) {
    let id = TargetId::from(name);
    for _ in 0..20 {
        let outcome = fail(Class::ServerError);
        let (pass, now) = (Pass::default(), world.now);
        world.fleet.note(&id, KeyIndex(0), pass, &outcome, now);
    }
    let admission = world.fleet.admission(&id, KeyIndex(0), world.now);
    assert!(matches!(admission, Admission::Open { .. }));
}

#[test]
fn an_open_target_is_passed_over() {
    let mut world = World::new();
    open(&mut world, "a/m");
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["b/m"]);
}

#[test]
fn when_everything_is_open_the_target_that_closes_soonest_is_probed_early() {
    let mut world = World::new();
    open(&mut world, "b/m");
    world.now = world.now.after(MS(100));
    open(&mut world, "a/m");
    let (tried, verdict) = world.request(&two(), |_| Outcome::Success);
    assert_eq!(names(&tried), ["b/m"]);
    assert!(tried[0].probe);
    // A tenth of the 15 s from opening, less the 100 ms passed, and up to a tenth more.
    assert!((MS(1_400)..=MS(1_540)).contains(&tried[0].waited));
    assert_eq!(server(&verdict).0, "b/m");
    let (tried, _) = world.request(&two(), |_| Outcome::Success);
    assert_eq!((tried[0].target.as_str(), tried[0].probe), ("b/m", false));
}

#[test]
fn a_request_that_nothing_was_sent_for_may_be_sent_again_by_the_client() {
    let mut world = World::new();
    open(&mut world, "a/m");
    let plan = world.plan(&[target("a/m", 0, 1)]);
    let deadline = world.now.after(SECOND);
    let attempts = Attempts::new(plan, policy(), world.now, deadline);
    let (tried, verdict) = world.run(attempts, |_| Outcome::Success);
    assert!(tried.is_empty());
    let defeat = defeat(verdict);
    assert_eq!(defeat.class, Class::Overloaded);
    assert_eq!(defeat.retry, ClientRetry::Later);
    assert_eq!(defeat.retry_after, Some(15 * SECOND));
}

#[test]
fn no_target_at_all_is_told_as_such() {
    let (tried, verdict) = World::new().request(&[], |_| Outcome::Success);
    assert!(tried.is_empty());
    let defeat = defeat(verdict);
    assert_eq!((defeat.reason, defeat.failure), (GaveUp::NoTarget, None));
    assert_eq!(defeat.retry, ClientRetry::Never);
}

#[test]
fn a_spent_retry_budget_leaves_first_tries_alone() {
    let mut world = World::new();
    let none = RetryBudgetPolicy::new(0.0, 0).unwrap();
    let breaker = BreakerPolicy::default();
    for name in ["a/m", "b/m"] {
        let policy = HealthPolicy {
            breaker,
            budget: none,
        };
        world.fleet.configure(&TargetId::from(name), policy);
    }
    let (tried, verdict) = world.request(&two(), |_| fail(Class::ServerError));
    assert_eq!(names(&tried), ["a/m", "b/m"]);
    assert_eq!(defeat(verdict).reason, GaveUp::RetryBudget);
}

#[test]
fn a_tenants_retry_budget_binds_too() {
    let mut world = World::new();
    let none = RetryBudgetPolicy::new(0.0, 0).unwrap();
    world.tenant = Some(RetryBudget::new(none));
    let (tried, verdict) = world.request(&two(), |_| fail(Class::ServerError));
    assert_eq!(names(&tried), ["a/m", "b/m"]);
    assert_eq!(defeat(verdict).reason, GaveUp::RetryBudget);
}

#[test]
fn a_clients_own_retry_gets_what_is_left() {
    let mut world = World::new();
    let plan = world.plan(&two());
    let deadline = world.now.after(Duration::from_mins(1));
    let attempts = Attempts::new(plan.clone(), policy(), world.now, deadline);
    let (tried, _) = world.run(attempts.with_attempts_made(3), |_| fail(Class::Transport));
    assert_eq!(tried.len(), 1);
    let attempts = Attempts::new(plan, policy(), world.now, deadline);
    let (tried, verdict) = world.run(attempts.with_attempts_made(4), |_| Outcome::Success);
    assert!(tried.is_empty());
    assert_eq!(defeat(verdict).reason, GaveUp::Attempts);
}

#[test]
fn one_attempt_means_one() {
    let mut world = World::new();
    let plan = world.plan(&two());
    let deadline = world.now.after(Duration::from_mins(1));
    let attempts = Attempts::new(plan, policy().with_one_attempt(), world.now, deadline);
    let (tried, _) = world.run(attempts, |_| fail(Class::Transport));
    assert_eq!(tried.len(), 1);
}

#[test]
fn an_attempt_that_cannot_end_in_time_is_not_begun() {
    let mut world = World::new();
    let plan = world.plan(&two());
    let deadline = world.now.after(MS(150));
    let attempts = Attempts::new(plan, policy(), world.now, deadline);
    let (tried, verdict) = world.run(attempts, |_| fail(Class::Timeout));
    assert_eq!(tried.len(), 1);
    assert_eq!(defeat(verdict).reason, GaveUp::Deadline);
}
