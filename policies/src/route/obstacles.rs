//! All that stands in the way of one send, put together.

use super::breaker::Breaker;
use super::health::Admission;
use super::latch::View;
use super::lock::Lock;
use crate::outcome::Class;
use crate::time::Instant;

/// All that stands in the way of one send, put together.
#[derive(Default)]
pub(super) struct Obstacles {
    open: Option<(Instant, Instant, Class)>,
    cooling: Option<(Instant, Class)>,
    probing: Option<Class>,
    probe_due: bool,
}

impl Obstacles {
    pub(super) fn meet_lock(&mut self, lock: &Lock, now: Instant) {
        let class = lock.class.unwrap_or(Class::Other);
        // A probe of a lock costs a request that will most likely fail, so never early.
        self.meet(lock.latch.view(now), class, |_, until| until);
    }

    pub(super) fn meet_breaker(&mut self, breaker: &Breaker, now: Instant) {
        self.meet(breaker.view(now), Class::Overloaded, |since, until| {
            breaker.early(since).min(until)
        });
    }

    fn meet(&mut self, view: View, class: Class, early: impl Fn(Instant, Instant) -> Instant) {
        match view {
            View::Closed => {}
            View::Open { since, until } => {
                let early = early(since, until);
                self.open = Some(match self.open {
                    Some((u, e, c)) => (
                        u.max(until),
                        e.max(early),
                        if until > u { class } else { c },
                    ),
                    None => (until, early, class),
                });
            }
            View::ProbeDue => self.probe_due = true,
            View::Probing => self.probing = Some(class),
        }
    }

    pub(super) fn meet_cooling(&mut self, until: Instant, class: Class, now: Instant) {
        if until > now {
            self.cooling = Some((until, class));
        }
    }

    pub(super) fn admission(self) -> Admission {
        let cool_until = self.cooling.map_or(Instant::default(), |(until, _)| until);
        match (self.open, self.probing, self.cooling) {
            // While one part is being probed, no other part is probed early.
            (Some((until, early, class)), probing, _) => Admission::Open {
                until: until.max(cool_until),
                early: if probing.is_some() { until } else { early }.max(cool_until),
                class,
            },
            (None, Some(class), _) => Admission::Probing { class },
            (None, None, Some((until, class))) => Admission::Cooling { until, class },
            (None, None, None) if self.probe_due => Admission::Probe,
            (None, None, None) => Admission::Ready,
        }
    }
}
