//! How many retries there may be in all.
//!
//! A limit of attempts per request does not protect a vendor: when everything fails, four attempts
//! each are four times the load, just when it can bear the least. A budget ties retries to recent
//! requests instead: they may add a share of those, or a few per second where there are hardly any
//! requests. The idea is Finagle's (`RetryBudget`, Twitter 2016), here over a sliding window so
//! that a busy hour cannot be saved up for an outage.

use core::time::Duration;

use crate::time::Instant;
use crate::window::Window;

/// The window over which requests and retries are counted.
pub const WINDOW: Duration = Duration::from_secs(10);

/// How many retries a budget allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudgetPolicy {
    ratio: f64,
    min_per_second: u32,
}

impl RetryBudgetPolicy {
    /// Retries of at most `ratio` times the recent requests, but `min_per_second` in any case.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryBudget`] when `ratio` is not from 0 to 1.
    pub fn new(ratio: f64, min_per_second: u32) -> Result<Self, InvalidRetryBudget> {
        if !(0.0..=1.0).contains(&ratio) {
            return Err(InvalidRetryBudget(ratio));
        }
        Ok(Self {
            ratio,
            min_per_second,
        })
    }
}

impl Default for RetryBudgetPolicy {
    /// A tenth, and three per second.
    fn default() -> Self {
        Self {
            ratio: 0.1,
            min_per_second: 3,
        }
    }
}

/// The ratio is not a share.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("retry budget ratio {0}: expected a number from 0 to 1")]
pub struct InvalidRetryBudget(pub f64);

/// Retries as a share of recent requests, for one target or one tenant.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    policy: RetryBudgetPolicy,
    /// Requests and retries.
    recent: Window,
}

impl RetryBudget {
    /// A budget of which nothing is spent.
    pub fn new(policy: RetryBudgetPolicy) -> Self {
        Self {
            policy,
            recent: Window::new(WINDOW),
        }
    }

    /// Counts a request's first send, which is always allowed.
    pub fn note_request(&mut self, now: Instant) {
        self.recent.add(1, 0, now);
    }

    /// Whether a retry is allowed now.
    pub fn allows(&self, now: Instant) -> bool {
        let (requests, retries) = self.recent.totals(now);
        let seconds = u32::try_from(WINDOW.as_secs()).unwrap_or(u32::MAX);
        let floor = f64::from(self.policy.min_per_second.saturating_mul(seconds));
        let count = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        count(retries) + 1.0 <= floor.max(self.policy.ratio * count(requests))
    }

    /// Counts a retry, where one is allowed.
    pub fn spend(&mut self, now: Instant) -> bool {
        let allowed = self.allows(now);
        if allowed {
            self.recent.add(0, 1, now);
        }
        allowed
    }

    /// Whether nothing was counted within the window, so that forgetting it changes nothing.
    pub fn is_idle(&self, now: Instant) -> bool {
        self.recent.totals(now) == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant(1_000_000_000_000 + ms * 1_000_000)
    }

    /// Retries granted at an instant until the first refusal.
    fn granted(budget: &mut RetryBudget, now: Instant) -> u32 {
        (0..u32::MAX)
            .find(|_| !budget.spend(now))
            .unwrap_or(u32::MAX)
    }

    #[test]
    fn a_quiet_target_has_the_floor_of_the_window() {
        let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
        assert_eq!(granted(&mut budget, at(0)), 30);
        assert_eq!(granted(&mut budget, at(8_900)), 0);
        assert_eq!(granted(&mut budget, at(10_000)), 30);
    }

    #[test]
    fn a_busy_target_has_a_tenth_of_its_requests() {
        let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
        for i in 0..5_000 {
            budget.note_request(at(i));
        }
        assert_eq!(granted(&mut budget, at(5_000)), 500);
        // What was not used in a busy time is not saved up.
        assert_eq!(granted(&mut budget, at(60_000)), 30);
        assert!(!budget.is_idle(at(60_000)));
        assert!(budget.is_idle(at(70_001)));
    }

    #[test]
    fn a_budget_of_nothing_grants_nothing() {
        let mut budget = RetryBudget::new(RetryBudgetPolicy::new(0.0, 0).unwrap());
        budget.note_request(at(0));
        assert_eq!(granted(&mut budget, at(0)), 0);
    }

    #[test]
    fn a_ratio_that_is_no_share_is_refused() {
        for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(RetryBudgetPolicy::new(ratio, 3).is_err());
        }
    }
}
