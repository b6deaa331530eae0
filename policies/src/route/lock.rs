//! Open from the first such answer until a probe succeeds or a person clears it.
//!
//! For faults that no waiting mends but that somebody may mend at any time: an account without
//! credit, a refused key, a model that is gone. Each probe is a client's request that will most
//! likely fail, so they become rarer.

use core::time::Duration;

use super::breaker::Turn;
use super::latch::{Latch, ProbeId};
use crate::outcome::Class;
use crate::time::Instant;

/// When a locked key or a shut target is probed first, and at most how long between probes.
const FIRST_LOCK: Duration = Duration::from_mins(1);
const LONGEST_LOCK: Duration = Duration::from_mins(10);

/// Open until cleared, with probes that become rarer.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    pub(super) latch: Latch,
    wait: Duration,
    pub(super) class: Option<Class>,
}

impl Lock {
    pub(super) fn reason(&self) -> Option<Class> {
        self.class.filter(|_| !self.latch.is_closed())
    }

    pub(super) fn begin(&mut self, now: Instant) -> Option<ProbeId> {
        self.latch.begin(FIRST_LOCK, now)
    }

    pub(super) fn report(
        &mut self,
        verdict: LockSign,
        probe: Option<ProbeId>,
        now: Instant,
    ) -> Turn {
        let probed = self.latch.awaits(probe);
        match verdict {
            LockSign::Opens(class, hint) if probed || self.latch.is_closed() => {
                self.wait = if probed {
                    self.wait.saturating_mul(2).min(LONGEST_LOCK)
                } else {
                    FIRST_LOCK
                };
                self.class = Some(class);
                self.latch
                    .open(self.wait.max(hint.unwrap_or_default()), now);
                if probed {
                    Turn::Unchanged
                } else {
                    Turn::Opened
                }
            }
            LockSign::Works if probed => {
                self.clear();
                Turn::Closed
            }
            LockSign::Nothing if probed => {
                self.latch.release(now);
                Turn::Unchanged
            }
            LockSign::Opens(..) | LockSign::Works | LockSign::Nothing => Turn::Unchanged,
        }
    }

    pub(super) fn clear(&mut self) -> bool {
        let was_open = !self.latch.is_closed();
        self.latch.close();
        self.class = None;
        was_open
    }
}

/// What an outcome says about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockSign {
    Nothing,
    Opens(Class, Option<Duration>),
    Works,
}

impl LockSign {
    pub(super) const fn opens(self) -> bool {
        matches!(self, Self::Opens(..))
    }
}
