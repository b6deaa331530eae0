//! A circuit breaker on the failure ratio, and on failures in a row.
//!
//! Problem: a target that fails most requests wastes the time of all of them, and every further one
//! keeps it down. Idea (M. Nygard, "Release It!", 2007): count failures over a sliding window; past
//! a ratio, and only with enough requests for a ratio to mean anything, send nothing for a while;
//! then let one request through as a probe, and close on its success.
//!
//! A window full of successes hides the beginning of an outage: a busy target would have to fail as
//! often as it worked before. So failures in a row open it too: as many as make a ratio mean
//! anything, over a tenth of the window. The time is what tells an outage from a target with less
//! room than load, which turns away requests by the dozen between those that it serves.
//!
//! While it is open, requests wait, and when it closes they all come at once: enough to bring down
//! what has just recovered. So for a while after closing it lets through at most twice the rate that
//! was usual before it opened.
//!
//! Late results of requests that were under way when it opened change nothing, or a slow failure
//! would prolong an outage that a probe has just seen end.

use core::time::Duration;

use super::latch::{Latch, ProbeId, View};
use crate::time::Instant;
use crate::window::Window;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerPolicy {
    failure_ratio: f64,
    window: Duration,
    min_requests: u32,
    open_for: Duration,
}

impl BreakerPolicy {
    /// Opens for `open_for` once at least `min_requests` ended within `window` and `failure_ratio`
    /// of them failed, or once at least `min_requests` have failed and none succeeded for a tenth of
    /// `window`.
    ///
    /// # Errors
    ///
    /// [`InvalidBreakerPolicy`] when the ratio is not above 0 and at most 1, or another value is
    /// zero.
    pub fn new(
        failure_ratio: f64,
        window: Duration,
        min_requests: u32,
        open_for: Duration,
    ) -> Result<Self, InvalidBreakerPolicy> {
        if !(failure_ratio > 0.0 && failure_ratio <= 1.0) {
            return Err(InvalidBreakerPolicy::Ratio(failure_ratio));
        }
        if window.is_zero() {
            return Err(InvalidBreakerPolicy::Zero("window"));
        }
        if min_requests == 0 {
            return Err(InvalidBreakerPolicy::Zero("min_requests"));
        }
        if open_for.is_zero() {
            return Err(InvalidBreakerPolicy::Zero("open_for"));
        }
        Ok(Self {
            failure_ratio,
            window,
            min_requests,
            open_for,
        })
    }
}

impl Default for BreakerPolicy {
    /// Half of at least 20 requests in 30 s; then 15 s.
    fn default() -> Self {
        Self {
            failure_ratio: 0.5,
            window: Duration::from_secs(30),
            min_requests: 20,
            open_for: Duration::from_secs(15),
        }
    }
}

/// Why a breaker cannot work so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidBreakerPolicy {
    /// Not a share, or one that every window reaches.
    #[error("failure_ratio = {0}: expected a number above 0 and at most 1")]
    Ratio(f64),
    /// A setting that must be positive.
    #[error("{0} = 0: expected more")]
    Zero(&'static str),
}

/// Whether a breaker lets requests through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All of them.
    Closed,
    /// One at a time, to see.
    HalfOpen,
    /// None until the instant.
    Open {
        /// When the next probe is due.
        until: Instant,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Breaker {
    policy: BreakerPolicy,
    latch: Latch,
    recent: Window,
    row: Option<Row>,
    /// Sends in a tenth of a second before it opened.
    usual: u64,
    easing: Option<Easing>,
}

/// The time after closing, in which requests are let through at a bounded rate.
#[derive(Clone, Copy, Debug)]
struct Easing {
    until: Instant,
    tenth: u64,
    let_through: u64,
}

/// Failures without a success between them.
#[derive(Clone, Copy, Debug)]
struct Row {
    failures: u32,
    first: Instant,
    last: Instant,
}

const TENTH_NS: u64 = 100_000_000;

/// What a result did to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Closed,
    Opened,
    Unchanged,
}

/// What a result says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It worked.
    Good,
    /// It works as far as this target's health goes, but is no measure of its success.
    Alive,
    /// It failed.
    Bad,
    /// Nothing.
    Nothing,
}

impl Breaker {
    pub(super) fn new(policy: BreakerPolicy) -> Self {
        Self {
            policy,
            latch: Latch::default(),
            recent: Window::new(policy.window),
            row: None,
            usual: 0,
            easing: None,
        }
    }

    pub(super) fn state(&self, now: Instant) -> BreakerState {
        match self.latch.view(now) {
            View::Closed => BreakerState::Closed,
            View::Open { until, .. } => BreakerState::Open { until },
            View::ProbeDue | View::Probing => BreakerState::HalfOpen,
        }
    }

    pub(super) fn view(&self, now: Instant) -> View {
        match (self.latch.view(now), self.easing) {
            (View::Closed, Some(easing)) if self.is_full(&easing, now) => View::Probing,
            (view, _) => view,
        }
    }

    fn is_full(&self, easing: &Easing, now: Instant) -> bool {
        now < easing.until
            && now.0 / TENTH_NS == easing.tenth
            && easing.let_through >= self.usual.max(1).saturating_mul(2)
    }

    /// From when a probe may be sent before it is due, if there is nowhere else to go.
    pub(super) fn early(&self, since: Instant) -> Instant {
        since.after(self.policy.open_for / 10)
    }

    pub(super) fn begin(&mut self, now: Instant) -> Option<ProbeId> {
        self.easing = self.easing.filter(|easing| now < easing.until);
        if let Some(easing) = &mut self.easing {
            let tenth = now.0 / TENTH_NS;
            if tenth != easing.tenth {
                (easing.tenth, easing.let_through) = (tenth, 0);
            }
            easing.let_through += 1;
        }
        self.latch.begin(self.policy.open_for, now)
    }

    pub(super) fn report(&mut self, sign: Sign, probe: Option<ProbeId>, now: Instant) -> Turn {
        if self.latch.awaits(probe) {
            return match sign {
                Sign::Good | Sign::Alive => {
                    self.latch.close();
                    self.recent.clear();
                    self.row = None;
                    self.easing = Some(Easing {
                        until: now.after(self.policy.open_for.saturating_mul(2)),
                        tenth: 0,
                        let_through: 0,
                    });
                    Turn::Closed
                }
                Sign::Bad => {
                    self.latch.open(self.policy.open_for, now);
                    Turn::Opened
                }
                Sign::Nothing => {
                    self.latch.release(now);
                    Turn::Unchanged
                }
            };
        }
        if !self.latch.is_closed() {
            return Turn::Unchanged;
        }
        match sign {
            Sign::Good => {
                self.recent.add(1, 0, now);
                self.row = None;
            }
            Sign::Bad => {
                self.recent.add(1, 1, now);
                let begun = Row {
                    failures: 0,
                    first: now,
                    last: now,
                };
                // Failures that are far apart are no outage.
                let going = self
                    .row
                    .filter(|row| now.since(row.last) <= self.policy.window);
                let row = self.row.insert(going.unwrap_or(begun));
                row.failures = row.failures.saturating_add(1);
                row.last = now;
            }
            Sign::Alive | Sign::Nothing => return Turn::Unchanged,
        }
        let (requests, failures) = self.recent.totals(now);
        let count = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        let ratio = requests >= u64::from(self.policy.min_requests)
            && count(failures) >= self.policy.failure_ratio * count(requests);
        let row = self.row.is_some_and(|row| {
            row.failures >= self.policy.min_requests
                && now.since(row.first) >= self.policy.window / 10
        });
        if ratio || row {
            if self.easing.is_none_or(|easing| now >= easing.until) {
                let window = u64::try_from(self.policy.window.as_nanos()).unwrap_or(u64::MAX);
                self.usual = requests.div_ceil((window / TENTH_NS).max(1));
            }
            self.easing = None;
            self.row = None;
            self.latch.open(self.policy.open_for, now);
            return Turn::Opened;
        }
        Turn::Unchanged
    }

    /// Whether forgetting it changes nothing.
    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.latch.is_closed() && self.recent.totals(now).0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// After a minute of a hundred good calls a second: opens it after how many bad ones, so far apart?
    fn opens_after(pause: Duration, good_every: u32) -> Option<u32> {
        let mut breaker = Breaker::new(BreakerPolicy::default());
        let mut now = Instant(1);
        for _ in 0..6_000 {
            now = now.after(MS(10));
            breaker.report(Sign::Good, None, now);
        }
        for failures in 1..3_000 {
            now = now.after(pause);
            if failures % good_every == 0 {
                breaker.report(Sign::Good, None, now);
            }
            breaker.report(Sign::Bad, None, now);
            if breaker.state(now) != BreakerState::Closed {
                return Some(failures);
            }
        }
        None
    }

    #[test]
    fn an_outage_after_healthy_traffic_is_seen_within_a_tenth_of_the_window() {
        // Three seconds of a hundred a second; by the ratio alone it would take 1,500.
        assert_eq!(opens_after(MS(10), u32::MAX), Some(301));
        // Slower traffic: twenty failures.
        assert_eq!(opens_after(MS(500), u32::MAX), Some(20));
    }

    #[test]
    fn a_target_that_serves_some_is_judged_by_its_ratio() {
        // A success now and then begins the row anew: half of the window has to fail.
        let failures = opens_after(MS(10), 100).unwrap();
        assert!(failures > 1_400, "{failures}");
    }
}
