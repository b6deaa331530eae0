//! Open or closed, with one probe at a time in between.
//!
//! A probe is a normal request that is let through to see whether things are well again. Its
//! outcome may never arrive (the client leaves, a task is dropped), so a probe that has been under
//! way for longer than its patience is taken for lost and another may start.

use core::time::Duration;

use crate::time::Instant;

#[derive(Clone, Debug, Default)]
pub(super) struct Latch {
    state: State,
    last_probe: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Closed,
    Open {
        since: Instant,
        until: Instant,
    },
    Probing {
        probe: ProbeId,
        lost_at: Instant,
    },
}

/// One probe of one latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeId(u32);

/// What a latch looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Closed,
    Open { since: Instant, until: Instant },
    ProbeDue,
    Probing,
}

impl Latch {
    pub(super) fn view(&self, now: Instant) -> View {
        match self.state {
            State::Closed => View::Closed,
            State::Open { since, until } if now < until => View::Open { since, until },
            State::Probing { lost_at, .. } if now < lost_at => View::Probing,
            State::Open { .. } | State::Probing { .. } => View::ProbeDue,
        }
    }

    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    pub(super) fn open(&mut self, duration: Duration, now: Instant) {
        self.state = State::Open {
            since: now,
            until: now.after(duration),
        };
    }

    pub(super) fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Starts a probe, unless the latch is closed and needs none.
    pub(super) fn begin(&mut self, patience: Duration, now: Instant) -> Option<ProbeId> {
        if self.is_closed() {
            return None;
        }
        self.last_probe = self.last_probe.wrapping_add(1);
        let probe = ProbeId(self.last_probe);
        self.state = State::Probing {
            probe,
            lost_at: now.after(patience),
        };
        Some(probe)
    }

    /// Whether `probe` is the one under way.
    pub(super) fn awaits(&self, probe: Option<ProbeId>) -> bool {
        match self.state {
            State::Probing { probe: current, .. } => probe == Some(current),
            State::Closed | State::Open { .. } => false,
        }
    }

    /// Ends a probe that said nothing: the next may start at once.
    pub(super) fn release(&mut self, now: Instant) {
        self.open(Duration::ZERO, now);
    }
}
