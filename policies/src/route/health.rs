//! Which targets and keys may be sent to now.
//!
//! Four things can stand in a request's way, and each has its own reason: the target's breaker (it
//! fails too often), the target being shut (the model is gone), the key being locked (its account
//! has no credit, or the vendor refuses it) and the key cooling down (the vendor asked to wait). The
//! breaker is on a ratio; locks are opened by the first such answer and stay until a probe succeeds
//! or a person clears them; a cool-down is a deadline that only ever moves later.
//!
//! A breaker stands per key of a target too, so that one bad region or account does not take the
//! others with it. A cool-down holds for one key at one target, since vendors limit by model; a lock
//! holds for the key at all targets of the provider.
//!
//! [`Fleet`] is the implementation. It holds everything of one process or of one provider; nothing
//! is shared between providers, so the edge may keep one fleet behind one lock for each.

use alloc::vec::Vec;

use super::breaker::{BreakerPolicy, BreakerState};
pub use super::fleet::Fleet;
use super::latch::ProbeId;
use crate::ids::{KeyIndex, TargetId};
use crate::outcome::{Class, Outcome};
use crate::retry::budget::RetryBudgetPolicy;
use crate::time::Instant;

/// How the attempts of one request see and report the health of everything they send to.
///
/// Object safe. [`Fleet`] implements it; the edge wraps that in a lock and logs what changed.
pub trait Health {
    /// Whether `key` of `target` may be sent to now. Changes nothing.
    fn admission(&self, target: &TargetId, key: KeyIndex, now: Instant) -> Admission;

    /// Whether the target's retry budget allows one more retry now. Changes nothing.
    fn allows_retry(&self, target: &TargetId, now: Instant) -> bool;

    /// Takes leave to send, at once with what that needs: the place of a half-open breaker's one
    /// probe, and a retry from the budget.
    ///
    /// # Errors
    ///
    /// [`Barred`] when something stands in the way after all; then nothing was taken.
    fn begin(&mut self, ask: &Ask<'_>, now: Instant) -> Result<Pass, Barred>;

    /// Tells what came of a send. Every [`Pass`] is reported once; [`Class::ClientGone`] tells that
    /// nothing can be concluded.
    fn report(
        &mut self,
        target: &TargetId,
        key: KeyIndex,
        pass: Pass,
        outcome: &Outcome,
        now: Instant,
    );
}

/// Whether a key of a target may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The vendor asked to wait until then.
    Cooling {
        /// When it ends.
        until: Instant,
        /// Why.
        class: Class,
    },
    /// Left alone until then.
    Open {
        /// When the next probe is due.
        until: Instant,
        /// From when a probe may be sent if there is nowhere else to go.
        early: Instant,
        /// Why.
        class: Class,
    },
    /// As the one probe.
    Probe,
    /// Not while another request's probe is under way, or just after one while others are let
    /// through bit by bit.
    Probing {
        /// Why it has to be probed.
        class: Class,
    },
    /// Yes.
    Ready,
}

/// A wish to send.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// To this target.
    pub target: &'a TargetId,
    /// With this key.
    pub key: KeyIndex,
    /// For the first time in this request, or again.
    pub turn: SendTurn,
    /// When it is open: how much it matters.
    pub urgency: Urgency,
}

/// Whether a request has sent to a target before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTurn {
    /// No; counted as a request.
    First,
    /// Yes; taken from the retry budget.
    Again,
}

/// Whether an open target may be probed before the probe is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Yes: there is nowhere else to go.
    LastResort,
    /// No.
    Normal,
}

/// Why a send was not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// The target or the key is open, cooling, or being probed.
    Health,
    /// The retry budget is used up.
    RetryBudget,
}

/// Leave for one send, to be given back with its outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    pub(super) breaker: Option<ProbeId>,
    pub(super) key_breaker: Option<ProbeId>,
    pub(super) shut: Option<ProbeId>,
    pub(super) lock: Option<ProbeId>,
}

impl Pass {
    /// Whether the send is a probe of something that was open.
    pub fn is_probe(&self) -> bool {
        *self != Self::default()
    }
}

/// How a target's health is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HealthPolicy {
    /// Its breakers.
    pub breaker: BreakerPolicy,
    /// Its retries.
    pub budget: RetryBudgetPolicy,
}

/// A change that people want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key cools until then.
    KeyCooling(KeyIndex, Instant),
    /// A key's breaker closed at this target.
    KeyClosed(KeyIndex),
    /// A key's breaker opened at this target.
    KeyOpened(KeyIndex, Class),
    /// A key is locked at all targets of the provider, for this reason.
    KeyLocked(KeyIndex, Class),
    /// A locked key works again.
    KeyUnlocked(KeyIndex),
    /// The target's breaker closed.
    TargetClosed,
    /// The target's breaker opened; the class is that of the last failure.
    TargetOpened(Class),
    /// A shut target works again.
    TargetRestored,
    /// The target was shut, for this reason.
    TargetShut(Class),
}

/// What is known of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `provider/model`.
    pub target: TargetId,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Why it is shut, if it is.
    pub shut: Option<Class>,
    /// Its keys, as far as they were used.
    pub keys: Vec<KeyStanding>,
}

/// What is known of a key at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStanding {
    /// Which key.
    pub key: KeyIndex,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Why it is locked, if it is.
    pub locked: Option<Class>,
    /// When its cool-down ends, if it cools.
    pub cooling_until: Option<Instant>,
}
