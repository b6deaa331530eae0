//! A run that goes on without getting anywhere is stopped.
//!
//! Problem: an agent in a loop sends the same request, or repeats the same tool call with the same
//! result, or fails time after time, and each call costs money that no budget of the tenant's size
//! notices in time. Idea: a breaker per task. It counts three things: how often a request or a tool
//! call with its result occurs among the task's recent ones, failures in a row, and requests in all.
//!
//! A stop is not for ever. A request that differs from the repeated one passes; after failures one
//! request passes every half minute, and its success clears the count, so that an outage is not
//! taken for a runaway for longer than it lasts. Only the count of all requests stands until the
//! task is forgotten.
//!
//! Limits: it cannot tell a loop from a poll that really has to ask the same thing again; that is
//! what the tenant's switch is for.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::time::Instant;

/// What a task may do; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunawayPolicy {
    /// The same request, or the same tool call with the same result, among the last 32.
    pub identical_requests: Option<NonZeroU32>,
    /// Failed requests in a row.
    pub failures_in_a_row: Option<NonZeroU32>,
    /// Requests in all.
    pub requests_per_task: Option<NonZeroU32>,
}

/// A request as far as repetition goes: fingerprints, never text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Of the whole prompt.
    pub prompt: u64,
    /// Of the last tool call in it together with its result, where there is one.
    pub tool_call: Option<u64>,
}

/// Why a task was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Runaway {
    /// It keeps failing.
    #[error("{0} requests of this task failed in a row")]
    FailuresInARow(NonZeroU32),
    /// It repeats itself.
    #[error("this task sent the same request {0} times")]
    IdenticalRequests(NonZeroU32),
    /// It makes the same tool call, with the same result.
    #[error("this task made the same tool call with the same result {0} times")]
    IdenticalToolCalls(NonZeroU32),
    /// It has made too many requests.
    #[error("this task made {0} requests")]
    RequestsPerTask(NonZeroU32),
}

impl Runaway {
    /// The name of the limit, as in the configuration.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::FailuresInARow(_) => "failures_in_a_row",
            Self::IdenticalRequests(_) | Self::IdenticalToolCalls(_) => "identical_requests",
            Self::RequestsPerTask(_) => "requests_per_task",
        }
    }
}

/// How a request of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an error for the client.
    Failed,
    /// Neither: the client left, or the gateway refused it.
    Neither,
    /// With an answer.
    Well,
}

/// How many requests a task is judged by.
const REMEMBERED: usize = 32;
/// How long after a failure a stopped task may try again.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// How long a task without requests is remembered.
const FORGET_AFTER: Duration = Duration::from_hours(1);
/// Tasks that are remembered at most.
const MOST_TASKS: usize = 16_384;

/// The tasks of a process.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tasks: BTreeMap<String, Task>,
}

#[derive(Clone, Debug, Default)]
struct Task {
    requests: u32,
    failures: u32,
    recent: Vec<Look>,
    next: usize,
    may_try_at: Instant,
    seen: Instant,
}

impl Tasks {
    /// No tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request of a task, or says why the task is stopped. `task` has to be unique over
    /// tenants.
    ///
    /// # Errors
    ///
    /// [`Runaway`] when a limit of the policy is reached; the request is then not counted.
    pub fn admit(
        &mut self,
        task: &str,
        look: Look,
        policy: &RunawayPolicy,
        now: Instant,
    ) -> Result<(), Runaway> {
        if let Some(known) = self.tasks.get_mut(task) {
            return known.admit(look, policy, now);
        }
        self.make_room(now);
        let mut fresh = Task::default();
        let admitted = fresh.admit(look, policy, now);
        self.tasks.insert(task.to_string(), fresh);
        admitted
    }

    /// Tells how an admitted request ended.
    pub fn end(&mut self, task: &str, ended: Ended, now: Instant) {
        if let Some(known) = self.tasks.get_mut(task) {
            match ended {
                Ended::Failed => {
                    known.failures = known.failures.saturating_add(1);
                    known.may_try_at = now.after(TRY_AGAIN);
                }
                Ended::Neither => {}
                Ended::Well => known.failures = 0,
            }
        }
    }

    /// Forgets a task, at a person's word. True when it was known.
    pub fn forget(&mut self, task: &str) -> bool {
        self.tasks.remove(task).is_some()
    }

    /// Tasks remembered.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether no task is remembered.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Forgets tasks that ended long ago, and where that is not enough the half not seen longest.
    fn make_room(&mut self, now: Instant) {
        if self.tasks.len() < MOST_TASKS {
            return;
        }
        self.tasks
            .retain(|_, task| now.since(task.seen) < FORGET_AFTER);
        if self.tasks.len() >= MOST_TASKS {
            let mut seen: Vec<Instant> = self.tasks.values().map(|task| task.seen).collect();
            let middle = seen.len() / 2;
            let (_, median, _) = seen.select_nth_unstable(middle);
            let median = *median;
            let mut surplus = middle;
            self.tasks.retain(|_, task| {
                let goes = task.seen <= median && surplus > 0;
                surplus -= usize::from(goes);
                !goes
            });
        }
    }
}

impl Task {
    fn admit(&mut self, look: Look, policy: &RunawayPolicy, now: Instant) -> Result<(), Runaway> {
        self.seen = now;
        if let Some(limit) = policy.requests_per_task
            && self.requests >= limit.get()
        {
            return Err(Runaway::RequestsPerTask(limit));
        }
        if let Some(limit) = policy.failures_in_a_row
            && self.failures >= limit.get()
            && now < self.may_try_at
        {
            return Err(Runaway::FailuresInARow(limit));
        }
        if let Some(limit) = policy.identical_requests {
            let times = |same: &dyn Fn(&Look) -> bool| {
                let count = self.recent.iter().filter(|l| same(l)).count();
                u32::try_from(count).unwrap_or(u32::MAX)
            };
            if times(&|l| l.prompt == look.prompt) >= limit.get() {
                return Err(Runaway::IdenticalRequests(limit));
            }
            if look.tool_call.is_some() && times(&|l| l.tool_call == look.tool_call) >= limit.get()
            {
                return Err(Runaway::IdenticalToolCalls(limit));
            }
        }
        // While it tries again after failures, one request at a time.
        self.may_try_at = self.may_try_at.max(now.after(TRY_AGAIN));
        self.requests = self.requests.saturating_add(1);
        if let Some(oldest) = self.recent.get_mut(self.next) {
            *oldest = look;
        } else {
            self.recent.push(look);
        }
        self.next = (self.next + 1) % REMEMBERED;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const fn limit(n: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(n)
    }

    const POLICY: RunawayPolicy = RunawayPolicy {
        identical_requests: limit(5),
        failures_in_a_row: limit(8),
        requests_per_task: limit(500),
    };

    const fn at(seconds: u64) -> Instant {
        Instant((seconds + 1_000) * 1_000_000_000)
    }

    const fn look(prompt: u64) -> Look {
        Look {
            prompt,
            tool_call: None,
        }
    }

    #[test]
    fn the_same_request_over_and_over_is_stopped_and_another_passes() {
        let mut tasks = Tasks::new();
        for i in 0..5 {
            assert_eq!(tasks.admit("t", look(7), &POLICY, at(i)), Ok(()));
        }
        let stopped = tasks.admit("t", look(7), &POLICY, at(5));
        assert_eq!(stopped.unwrap_err().limit(), "identical_requests");
        assert_eq!(tasks.admit("t", look(8), &POLICY, at(6)), Ok(()));
        assert_eq!(tasks.admit("other", look(7), &POLICY, at(6)), Ok(()));
    }

    #[test]
    fn a_loop_of_two_requests_is_seen_too() {
        let mut tasks = Tasks::new();
        let mut admitted = 0;
        for i in 0..40 {
            admitted += u32::from(tasks.admit("t", look(i % 2), &POLICY, at(i)).is_ok());
        }
        assert_eq!(admitted, 10);
    }

    #[test]
    fn the_same_tool_call_with_the_same_result_is_stopped_though_the_history_grows() {
        let mut tasks = Tasks::new();
        let growing = |prompt| Look {
            prompt,
            tool_call: Some(42),
        };
        for i in 0..5 {
            assert_eq!(tasks.admit("t", growing(i), &POLICY, at(i)), Ok(()));
        }
        let stopped = tasks.admit("t", growing(5), &POLICY, at(5)).unwrap_err();
        assert_eq!(stopped, Runaway::IdenticalToolCalls(limit(5).unwrap()));
        insta::assert_snapshot!(stopped, @"this task made the same tool call with the same result 5 times");
    }

    #[test]
    fn a_long_task_of_different_requests_runs_up_to_its_limit() {
        let mut tasks = Tasks::new();
        for i in 0..500 {
            assert_eq!(tasks.admit("t", look(i), &POLICY, at(i)), Ok(()));
            tasks.end("t", Ended::Well, at(i));
        }
        let stopped = tasks.admit("t", look(500), &POLICY, at(500));
        assert_eq!(stopped, Err(Runaway::RequestsPerTask(limit(500).unwrap())));
        assert!(tasks.forget("t"));
        assert_eq!(tasks.admit("t", look(500), &POLICY, at(501)), Ok(()));
    }

    #[test]
    fn failures_in_a_row_stop_a_task_until_one_try_succeeds() {
        let mut tasks = Tasks::new();
        for i in 0..8 {
            assert_eq!(tasks.admit("t", look(i), &POLICY, at(i)), Ok(()));
            tasks.end("t", Ended::Failed, at(i));
        }
        let stopped = tasks.admit("t", look(9), &POLICY, at(8));
        assert_eq!(stopped, Err(Runaway::FailuresInARow(limit(8).unwrap())));
        // Half a minute after the last failure one request may try, and only one.
        assert_eq!(tasks.admit("t", look(10), &POLICY, at(37)), Ok(()));
        assert!(tasks.admit("t", look(11), &POLICY, at(38)).is_err());
        tasks.end("t", Ended::Well, at(39));
        assert_eq!(tasks.admit("t", look(12), &POLICY, at(39)), Ok(()));
    }

    #[test]
    fn a_success_in_between_starts_the_count_anew() {
        let mut tasks = Tasks::new();
        for i in 0..40 {
            assert_eq!(tasks.admit("t", look(i), &POLICY, at(i)), Ok(()));
            let ended = if i % 8 == 7 {
                Ended::Well
            } else {
                Ended::Failed
            };
            tasks.end("t", ended, at(i));
        }
    }

    #[test]
    fn without_limits_nothing_is_stopped() {
        let mut tasks = Tasks::new();
        for i in 0..2_000 {
            let admitted = tasks.admit("t", look(1), &RunawayPolicy::default(), at(i));
            assert_eq!(admitted, Ok(()));
            tasks.end("t", Ended::Failed, at(i));
        }
    }

    #[test]
    fn memory_is_bounded_and_the_longest_unseen_go_first() {
        let mut tasks = Tasks::new();
        for i in 0..MOST_TASKS as u64 + 10 {
            let name = format!("t{i}");
            assert_eq!(tasks.admit(&name, look(i), &POLICY, at(i / 100)), Ok(()));
        }
        assert!(tasks.len() <= MOST_TASKS);
        assert!(!tasks.forget("t0"));
        assert!(tasks.forget(&format!("t{}", MOST_TASKS - 1)));
    }
}
