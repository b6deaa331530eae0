//! What goes into the attempt machine, and what comes out.

use core::fmt;
use core::time::Duration;

use rand_core::Rng;

use crate::ids::{KeyIndex, TargetId};
use crate::outcome::{Class, Failure, Outcome};
use crate::retry::budget::RetryBudget;
use crate::route::health::Health;
use crate::time::Instant;

/// What happened since the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client left. Ends everything at once, whatever was under way.
    ClientGone,
    /// The attempt that was to be sent came to this.
    Finished(Outcome),
    /// The first step.
    Start,
    /// The wait is over.
    Woke,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop, and tell the client.
    Done(Verdict),
    /// Send, and report [`Event::Finished`].
    Send(Send),
    /// Do nothing until then, and report [`Event::Woke`].
    Wait {
        /// When to come back.
        until: Instant,
    },
}

/// One attempt to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Where to.
    pub target: TargetId,
    /// Its place in the plan, from 0.
    pub place: usize,
    /// With which of the provider's keys.
    pub key: KeyIndex,
    /// Counted from 1 over all targets.
    pub attempt: u32,
    /// When it has to be over at the latest.
    pub give_up_at: Instant,
    /// An earlier attempt may have been served and billed too, so this one's cost may be a second.
    pub may_repeat: bool,
    /// It is the probe of something that was open.
    pub probe: bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No attempt succeeded.
    Failed(Defeat),
    /// An attempt succeeded.
    Succeeded {
        /// Who answered.
        target: TargetId,
        /// Its place in the plan, from 0.
        place: usize,
        /// With which key.
        key: KeyIndex,
        /// Attempts made, this one included.
        attempts: u32,
    },
}

/// Why no attempt succeeded, and what the client should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// What to tell the client.
    pub class: Class,
    /// The failure behind the class; `None` when nothing was sent.
    pub failure: Option<Failure>,
    /// Whose failure it was.
    pub target: Option<TargetId>,
    /// Why there is no further attempt.
    pub reason: GaveUp,
    /// Attempts made.
    pub attempts: u32,
    /// Whether the client may send the same again.
    pub retry: ClientRetry,
    /// When something may be had again, where that is known, from now.
    pub retry_after: Option<Duration>,
}

/// Why there is no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GaveUp {
    /// A vendor may have served the request, and it must not be sent again.
    Ambiguous,
    /// All attempts were used.
    Attempts,
    /// The client left.
    ClientGone,
    /// Another attempt does not fit the deadline.
    Deadline,
    /// No further attempt can help.
    Final,
    /// There is no target that may be tried.
    NoTarget,
    /// The retry budget is used up.
    RetryBudget,
    /// The next target can be had only after a wait that is too long.
    Wait,
}

impl GaveUp {
    /// The name used in records, metrics and error bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ambiguous => "ambiguous",
            Self::Attempts => "attempts",
            Self::ClientGone => "client_gone",
            Self::Deadline => "deadline",
            Self::Final => "final",
            Self::NoTarget => "no_target",
            Self::RetryBudget => "retry_budget",
            Self::Wait => "wait",
        }
    }
}

/// Whether the client may send the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientRetry {
    /// Yes, after a while: nothing was sent, the gateway held it back.
    Later,
    /// No: the gateway has tried, or no retry can help.
    Never,
}

/// What a step may use. Borrowed for one step, under the locks of whoever shares it.
pub struct Context<'a> {
    /// The instant of the step.
    pub now: Instant,
    /// The source of jitter.
    pub rng: &'a mut dyn Rng,
    /// The health of all targets.
    pub health: &'a mut dyn Health,
    /// The tenant's retry budget, where it has one.
    pub tenant: Option<&'a mut RetryBudget>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
