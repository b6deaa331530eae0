//! Discrete-event simulations: what many requests do together when a vendor fails.
//!
//! Each run plays a thousand requests per second against modelled vendors, in virtual time. The
//! asserted ranges are wide enough for any seed and narrow enough that a policy which multiplies an
//! outage, or fails to come back from it, falls outside.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test may panic as the test itself may"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use whippletree_policies::attempt::{Attempts, Context, Event, RetryPolicy, Step, Verdict};
use whippletree_policies::ids::TargetId;
use whippletree_policies::outcome::{Class, Failure, Outcome, Sent};
use whippletree_policies::retry::backoff::Backoff;
use whippletree_policies::retry::budget::{RetryBudgetPolicy, WINDOW};
use whippletree_policies::route::breaker::BreakerPolicy;
use whippletree_policies::route::health::{Fleet, HealthPolicy};
use whippletree_policies::route::plan::{Candidate, Choice, Plan};
use whippletree_policies::time::Instant;

const RATE: f64 = 1_000.0;
const SECOND: u64 = 1_000_000_000;

/// How a vendor does from an instant on, in seconds of the run.
#[derive(Clone, Copy)]
struct Phase {
    from: u64,
    /// Requests per second that it serves; the rest it refuses as overloaded.
    capacity: u32,
    /// The share of those within capacity that it fails.
    failing: f64,
    latency_ms: u64,
}

struct Vendor {
    name: &'static str,
    phases: Vec<Phase>,
    second: u64,
    taken: u32,
    /// Requests that reached it, by second.
    sends: Vec<u32>,
}

impl Vendor {
    fn new(name: &'static str, phases: &[Phase]) -> Self {
        Self {
            name,
            phases: phases.to_vec(),
            second: 0,
            taken: 0,
            sends: Vec::new(),
        }
    }

    fn serve(&mut self, now: Instant, rng: &mut SmallRng) -> (Duration, Outcome) {
        let second = now.0 / SECOND;
        if second != self.second {
            (self.second, self.taken) = (second, 0);
        }
        let index = usize::try_from(second).unwrap();
        if self.sends.len() <= index {
            self.sends.resize(index + 1, 0);
        }
        self.sends[index] += 1;
        let phase = self.phases.iter().rfind(|p| p.from <= second).unwrap();
        let fail = |class| Outcome::Failure(Failure::new(class, Sent::Answered));
        if self.taken >= phase.capacity {
            return (Duration::from_millis(20), fail(Class::Overloaded));
        }
        self.taken += 1;
        let spread = rng.random_range(50..150);
        let latency = Duration::from_millis(phase.latency_ms * spread / 100);
        if rng.random_bool(phase.failing) {
            (latency, fail(Class::ServerError))
        } else {
            (latency, Outcome::Success)
        }
    }

    fn sends_within(&self, from: u64, to: u64) -> f64 {
        let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
        let sends = self.sends.get(range).unwrap_or_default();
        sends.iter().map(|n| f64::from(*n)).sum()
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrival,
    Finished(usize, bool),
    Woke(usize),
}

/// How the requests that arrived in one second ended.
#[derive(Clone, Copy, Default)]
struct Second {
    arrived: u32,
    served: u32,
    served_by_first: u32,
    slowest: Duration,
}

struct Simulation {
    fleet: Fleet,
    policy: RetryPolicy,
    vendors: Vec<Vendor>,
    seconds: Vec<Second>,
}

impl Simulation {
    fn new(health: HealthPolicy, vendors: Vec<Vendor>) -> Self {
        let backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(20)).unwrap();
        Self {
            fleet: Fleet::new(health),
            policy: RetryPolicy::new(4, backoff, Duration::from_secs(30)).unwrap(),
            vendors,
            seconds: Vec::new(),
        }
    }

    fn run(&mut self, requests: usize, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut queue = BinaryHeap::from([Reverse((SECOND, Happening::Arrival))]);
        let mut outcomes: Vec<Option<Outcome>> = Vec::new();
        let mut live: Vec<Option<(Attempts, u64)>> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut arrived = 0;
        let candidates: Vec<Candidate> = (0_u32..)
            .zip(&self.vendors)
            .map(|(rank, vendor)| Candidate {
                target: TargetId::from(vendor.name),
                rank,
                weight: 1,
                keys: 1,
                context_window: None,
            })
            .collect();
        let plan = Plan::new(candidates, Choice::Affinity(0), &|_| 0, &mut rng);
        while let Some(Reverse((at, happening))) = queue.pop() {
            let now = Instant(at);
            let (id, event) = match happening {
                Happening::Arrival => {
                    arrived += 1;
                    if arrived < requests {
                        let uniform: f64 = rng.random_range(f64::EPSILON..1.0);
                        let gap = Duration::from_secs_f64(-uniform.ln() / RATE);
                        queue.push(Reverse((now.after(gap).0, Happening::Arrival)));
                    }
                    let deadline = now.after(Duration::from_mins(2));
                    let attempts = Attempts::new(plan.clone(), self.policy, now, deadline);
                    let id = free.pop().unwrap_or_else(|| {
                        live.push(None);
                        outcomes.push(None);
                        live.len() - 1
                    });
                    live[id] = Some((attempts, at));
                    self.second(at).arrived += 1;
                    (id, Event::Start)
                }
                Happening::Finished(id, _) => (id, Event::Finished(outcomes[id].take().unwrap())),
                Happening::Woke(id) => (id, Event::Woke),
            };
            let (attempts, began) = live[id].as_mut().unwrap();
            let began = *began;
            let mut context = Context {
                now,
                rng: &mut rng,
                health: &mut self.fleet,
                tenant: None,
            };
            match attempts.advance(event, &mut context) {
                Step::Done(verdict) => {
                    live[id] = None;
                    free.push(id);
                    let second = self.second(began);
                    second.slowest = second.slowest.max(now.since(Instant(began)));
                    if let Verdict::Succeeded { place, .. } = verdict {
                        second.served += 1;
                        second.served_by_first += u32::from(place == 0);
                    }
                }
                Step::Send(send) => {
                    let (latency, outcome) = self.vendors[send.place].serve(now, &mut rng);
                    let good = outcome == Outcome::Success;
                    outcomes[id] = Some(outcome);
                    queue.push(Reverse((
                        now.after(latency).0,
                        Happening::Finished(id, good),
                    )));
                }
                Step::Wait { until } => queue.push(Reverse((until.0, Happening::Woke(id)))),
            }
        }
        assert_eq!(live.iter().flatten().count(), 0, "every request ends");
    }

    fn second(&mut self, at: u64) -> &mut Second {
        let index = usize::try_from(at / SECOND).unwrap();
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, Second::default());
        }
        &mut self.seconds[index]
    }

    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Second> {
        let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
        self.seconds.get(range).unwrap_or_default().iter()
    }

    fn arrived(&self, from: u64, to: u64) -> f64 {
        self.within(from, to).map(|s| f64::from(s.arrived)).sum()
    }

    /// The share of requests of these seconds that were served.
    fn served(&self, from: u64, to: u64) -> f64 {
        let served: f64 = self.within(from, to).map(|s| f64::from(s.served)).sum();
        served / self.arrived(from, to)
    }

    fn served_by_first(&self, from: u64, to: u64) -> f64 {
        let mut served = self.within(from, to).map(|s| f64::from(s.served_by_first));
        served.by_ref().sum::<f64>() / self.arrived(from, to)
    }

    /// Requests that reached a vendor, per request that arrived.
    fn amplification(&self, vendor: usize, from: u64, to: u64) -> f64 {
        self.vendors[vendor].sends_within(from, to) / self.arrived(from, to)
    }
}

fn between(what: &str, value: f64, least: f64, most: f64) {
    assert!(
        (least..=most).contains(&value),
        "{what}: {value:.4}, expected {least} to {most}"
    );
}

const fn phase(from: u64, capacity: u32, failing: f64, latency_ms: u64) -> Phase {
    Phase {
        from,
        capacity,
        failing,
        latency_ms,
    }
}

/// A health policy under which breakers hardly ever open, to see the retry budget alone.
fn budget_alone() -> HealthPolicy {
    let window = Duration::from_secs(30);
    HealthPolicy {
        breaker: BreakerPolicy::new(1.0, window, u32::MAX, Duration::from_secs(1)).unwrap(),
        budget: RetryBudgetPolicy::default(),
    }
}

#[test]
fn a_million_requests_through_a_brown_out_do_not_multiply_it() {
    // From 300 s to 600 s the vendor has room for seven tenths of the load.
    let vendor = Vendor::new(
        "a/m",
        &[
            phase(0, 2_000, 0.002, 800),
            phase(300, 700, 0.002, 2_000),
            phase(600, 2_000, 0.002, 800),
        ],
    );
    let mut simulation = Simulation::new(HealthPolicy::default(), vec![vendor]);
    simulation.run(1_000_000, 1);
    between("served before", simulation.served(10, 290), 0.9999, 1.0);
    between(
        "load before",
        simulation.amplification(0, 10, 290),
        1.0,
        1.01,
    );
    // What the vendor can serve is served, and little is asked of it beyond that.
    between("served within", simulation.served(310, 590), 0.68, 0.72);
    between(
        "load within",
        simulation.amplification(0, 310, 590),
        1.0,
        1.101,
    );
    between("served after", simulation.served(605, 900), 0.9999, 1.0);
    between(
        "load after",
        simulation.amplification(0, 605, 900),
        1.0,
        1.01,
    );
}

#[test]
fn a_few_failures_are_retried_away() {
    // Seven failures in a hundred: below what opens a breaker, within the retry budget.
    let vendor = Vendor::new("a/m", &[phase(0, 5_000, 0.07, 800)]);
    let mut simulation = Simulation::new(HealthPolicy::default(), vec![vendor]);
    simulation.run(200_000, 2);
    between("served", simulation.served(10, 190), 0.9995, 1.0);
    between("load", simulation.amplification(0, 10, 190), 1.065, 1.085);
}

#[test]
fn without_breakers_the_retry_budget_alone_bounds_an_outage() {
    let vendor = Vendor::new("a/m", &[phase(0, 2_000, 0.0, 800), phase(60, 0, 1.0, 800)]);
    let mut simulation = Simulation::new(budget_alone(), vec![vendor]);
    simulation.run(200_000, 3);
    let floor = 3.0 * WINDOW.as_secs_f64() / simulation.arrived(70, 190);
    between(
        "load",
        simulation.amplification(0, 70, 190),
        1.09,
        1.1 + floor,
    );
    between("served", simulation.served(70, 190), 0.0, 0.0);
}

#[test]
fn an_outage_with_a_stand_in_is_hardly_seen_and_ends_soon() {
    let first = Vendor::new(
        "a/m",
        &[
            phase(0, 2_000, 0.0, 800),
            phase(60, 0, 1.0, 800),
            phase(120, 2_000, 0.0, 800),
        ],
    );
    let second = Vendor::new("b/m", &[phase(0, 2_000, 0.0, 1_200)]);
    let mut simulation = Simulation::new(HealthPolicy::default(), vec![first, second]);
    simulation.run(200_000, 4);
    between("served", simulation.served(0, 200), 1.0, 1.0);
    // The breaker lets through what opened it and then a probe every 15 s.
    between("probes", simulation.amplification(0, 75, 119), 0.0, 0.001);
    between(
        "by the first, within",
        simulation.served_by_first(75, 119),
        0.0,
        0.001,
    );
    between(
        "by the first, after",
        simulation.served_by_first(137, 190),
        1.0,
        1.0,
    );
}

#[test]
fn an_outage_without_a_stand_in_is_waited_out_once_the_breaker_is_open() {
    let vendor = Vendor::new(
        "a/m",
        &[
            phase(0, 2_100, 0.0, 800),
            phase(60, 0, 1.0, 800),
            phase(85, 2_100, 0.0, 800),
        ],
    );
    let mut simulation = Simulation::new(HealthPolicy::default(), vec![vendor]);
    simulation.run(120_000, 5);
    // Half of the 30 s window has to fail before the breaker opens. From then on requests wait for
    // its early probes instead of failing, and come back no faster than the vendor was used to.
    between("served within", simulation.served(76, 85), 0.97, 1.0);
    between(
        "load within",
        simulation.amplification(0, 76, 84),
        0.0,
        0.002,
    );
    let rush = (85..119).map(|s| simulation.vendors[0].sends_within(s, s + 1));
    between("rush", rush.fold(0.0, f64::max), 1_500.0, 2_300.0);
    between("served after", simulation.served(90, 119), 0.99, 1.0);
    let slowest = simulation.within(76, 119).map(|s| s.slowest).max().unwrap();
    assert!(slowest < Duration::from_secs(33), "{slowest:?}");
}
