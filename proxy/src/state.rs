//! The policies' machines under short locks: health, retry budgets and calls in flight.
//!
//! Each lock is held for one step of a machine and never across an await. What a step changes is
//! logged here, once, whoever caused it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use whippletree_policies::attempt::{Attempts, Context, Event, Step};
use whippletree_policies::ids::{KeyIndex, TargetId, TenantId};
use whippletree_policies::outcome::Outcome;
use whippletree_policies::retry::budget::{RetryBudget, RetryBudgetPolicy};
use whippletree_policies::route::breaker::BreakerPolicy;
use whippletree_policies::route::health::{
    Admission, Ask, Barred, Change, Fleet, Health, HealthPolicy, Pass, Standing,
};
use whippletree_policies::route::plan::{Candidate, Choice, Plan};
use whippletree_policies::task::runaway::{Ended, Look, Runaway, RunawayPolicy, Tasks};
use whippletree_policies::time::Instant;

use crate::clock;
use crate::config::{Config, RouteDefaults};
use crate::telemetry::metrics::Metrics;

/// Tenants whose retry budgets are remembered; an idle budget is forgotten first.
const MOST_TENANTS: usize = 4096;

/// What requests know of each other.
#[derive(Debug)]
pub struct State {
    metrics: Arc<Metrics>,
    fleet: Mutex<Fleet>,
    tenants: Mutex<BTreeMap<TenantId, RetryBudget>>,
    in_flight: DashMap<TargetId, Arc<AtomicU32>>,
    tasks: Mutex<Tasks>,
}

/// One call in flight to a target; dropped when it ends, however it ends.
#[derive(Debug)]
pub struct InFlight(Arc<AtomicU32>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// Nothing is known yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            fleet: Mutex::default(),
            tenants: Mutex::default(),
            in_flight: DashMap::new(),
            tasks: Mutex::default(),
        }
    }

    /// Sets how the targets of a configuration are judged; what is known of their health stays.
    pub fn configure(&self, config: &Config) {
        let mut fleet = lock(&self.fleet);
        for route in config.routes.values() {
            let policy = health_policy(&route.settings);
            for target in &route.targets {
                fleet.configure(&target.id, policy);
            }
        }
    }

    /// Puts candidates in order.
    pub fn plan(&self, candidates: Vec<Candidate>, choice: Choice) -> Plan {
        let in_flight = |target: &TargetId| self.in_flight(target);
        Plan::new(candidates, choice, &in_flight, &mut rand::rng())
    }

    /// One step of a request's attempts.
    pub fn advance(&self, attempts: &mut Attempts, event: Event, tenant: &TenantId) -> Step {
        let now = clock::now();
        let mut tenants = lock(&self.tenants);
        if tenants.len() >= MOST_TENANTS && !tenants.contains_key(tenant) {
            tenants.retain(|_, budget| !budget.is_idle(now));
        }
        let budget = tenants
            .entry(tenant.clone())
            .or_insert_with(|| RetryBudget::new(RetryBudgetPolicy::default()));
        let mut fleet = lock(&self.fleet);
        let mut context = Context {
            now,
            rng: &mut rand::rng(),
            health: &mut Logged(&mut fleet, &self.metrics),
            tenant: Some(budget),
        };
        attempts.advance(event, &mut context)
    }

    /// Takes in what became of a call after its attempt was taken for a success.
    pub fn note(&self, target: &TargetId, key: KeyIndex, outcome: &Outcome) {
        let mut fleet = lock(&self.fleet);
        Logged(&mut fleet, &self.metrics).report(
            target,
            key,
            Pass::default(),
            outcome,
            clock::now(),
        );
    }

    /// Counts a request of a task, unique over tenants.
    ///
    /// # Errors
    /// Why the task is stopped.
    pub fn admit_task(
        &self,
        task: &str,
        look: Look,
        policy: &RunawayPolicy,
    ) -> Result<(), Runaway> {
        lock(&self.tasks).admit(task, look, policy, clock::now())
    }

    /// A request of a task has ended.
    pub fn task_ended(&self, task: &str, ended: Ended) {
        lock(&self.tasks).end(task, ended, clock::now());
    }

    /// Counts a call to `target` until the guard is dropped.
    pub fn enter(&self, target: &TargetId) -> InFlight {
        let count = match self.in_flight.get(target) {
            Some(count) => Arc::clone(&count),
            None => Arc::clone(&self.in_flight.entry(target.clone()).or_default()),
        };
        count.fetch_add(1, Ordering::Relaxed);
        InFlight(count)
    }

    /// Calls in flight to `target`.
    pub fn in_flight(&self, target: &TargetId) -> u32 {
        self.in_flight
            .get(target)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// What is known of each target.
    pub fn standings(&self) -> Vec<Standing> {
        lock(&self.fleet).standings(clock::now())
    }

    /// A person says that a provider's key works again. Says whether it was locked.
    pub fn unlock(&self, provider: &str, key: KeyIndex) -> bool {
        lock(&self.fleet).unlock(provider, key)
    }

    /// A person says that a target works again. Says whether it was shut.
    pub fn restore(&self, target: &TargetId) -> bool {
        lock(&self.fleet).restore(target)
    }
}

/// The configuration has been checked, so the defaults are not met.
pub(crate) fn health_policy(settings: &RouteDefaults) -> HealthPolicy {
    let b = &settings.breaker;
    let breaker = BreakerPolicy::new(b.failure_ratio, b.window, b.min_requests, b.open_for);
    let budget = RetryBudgetPolicy::new(
        settings.retry.budget_ratio,
        settings.retry.budget_min_per_second,
    );
    HealthPolicy {
        breaker: breaker.unwrap_or_default(),
        budget: budget.unwrap_or_default(),
    }
}

/// A machine that panicked in the middle of a step is still a valid value: each field is changed by
/// single assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fleet whose changes are logged and counted.
struct Logged<'a>(&'a mut Fleet, &'a Metrics);

impl Health for Logged<'_> {
    fn admission(&self, target: &TargetId, key: KeyIndex, now: Instant) -> Admission {
        self.0.admission(target, key, now)
    }

    fn allows_retry(&self, target: &TargetId, now: Instant) -> bool {
        self.0.allows_retry(target, now)
    }

    fn begin(&mut self, ask: &Ask<'_>, now: Instant) -> Result<Pass, Barred> {
        self.0.begin(ask, now)
    }

    fn report(
        &mut self,
        target: &TargetId,
        key: KeyIndex,
        pass: Pass,
        outcome: &Outcome,
        now: Instant,
    ) {
        for change in self.0.note(target, key, pass, outcome, now) {
            log(target, &change, now);
            self.1.breaker_changed(target, name(&change));
        }
    }
}

/// The name of a change in metrics.
const fn name(change: &Change) -> &'static str {
    match change {
        Change::KeyClosed(_) => "key_closed",
        Change::KeyCooling(..) => "key_cooling",
        Change::KeyLocked(..) => "key_locked",
        Change::KeyOpened(..) => "key_opened",
        Change::KeyUnlocked(_) => "key_unlocked",
        Change::TargetClosed => "closed",
        Change::TargetOpened(_) => "opened",
        Change::TargetRestored => "restored",
        Change::TargetShut(_) => "shut",
    }
}

fn log(target: &TargetId, change: &Change, now: Instant) {
    let target = target.as_str();
    match change {
        Change::KeyCooling(key, until) => {
            let for_ms = u64::try_from(until.since(now).as_millis()).unwrap_or(u64::MAX);
            tracing::info!(target_id = target, key = key.0, for_ms, "key cools down");
        }
        Change::KeyClosed(key) => {
            tracing::info!(target_id = target, key = key.0, "key breaker closed");
        }
        Change::KeyOpened(key, class) => {
            tracing::warn!(
                target_id = target,
                key = key.0,
                class = class.as_str(),
                "key breaker opened"
            );
        }
        Change::KeyLocked(key, class) => {
            tracing::error!(
                target_id = target,
                key = key.0,
                class = class.as_str(),
                "key locked"
            );
        }
        Change::KeyUnlocked(key) => {
            tracing::info!(target_id = target, key = key.0, "key works again");
        }
        Change::TargetClosed => tracing::info!(target_id = target, "breaker closed"),
        Change::TargetOpened(class) => {
            tracing::warn!(target_id = target, class = class.as_str(), "breaker opened");
        }
        Change::TargetRestored => tracing::info!(target_id = target, "target works again"),
        Change::TargetShut(class) => {
            tracing::error!(target_id = target, class = class.as_str(), "target shut");
        }
    }
}
