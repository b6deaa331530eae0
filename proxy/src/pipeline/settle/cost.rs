//! What an attempt came to: its usage, reported or estimated, and its cost.

use std::time::Duration;

use whippletree_policies::ids::TargetId;
use whippletree_policies::outcome::{Class, Failure};
use whippletree_policies::time::Instant;
use whippletree_policies::units::{Money, Tokens};
use whippletree_policies::usage::Usage;

use crate::exchange::{Attempt, ChargeRule};
use crate::gateway::Gateway;
use crate::prices::Priced;

/// An attempt that is under way.
#[derive(Debug)]
pub(super) struct OpenAttempt {
    pub(super) target: TargetId,
    pub(super) key: Option<u32>,
    pub(super) sent_at: Instant,
    pub(super) waited: Duration,
    pub(super) first_byte: Option<Duration>,
    pub(super) status: Option<u16>,
    pub(super) price: Option<Priced>,
    /// The request's length, for an estimate.
    pub(super) request_bytes: u64,
    /// Bytes of text that the vendor wrote so far, for an estimate.
    pub(super) written: u64,
    pub(super) usage: Option<Usage>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a whole answer.
    Whole,
    /// With a failure before any of it reached the client.
    Failed(Class),
    /// With a failure that does not tell whether the vendor did the work, and billed it.
    Doubtful(Class),
    /// Broken after part of it had reached the client, or been written for a client that left.
    Partial(Class),
}

impl Ended {
    /// An attempt of which nothing reached the client.
    pub const fn of(failure: &Failure) -> Self {
        if failure.is_ambiguous() {
            Self::Doubtful(failure.class)
        } else {
            Self::Failed(failure.class)
        }
    }
}

/// Puts usage and its cost on an attempt; whether it has a cost now.
pub(super) fn book(attempt: &mut Attempt, usage: Usage, price: &Priced, gateway: &Gateway) -> bool {
    attempt.usage = Some(usage);
    let Ok(charge) = price.charge(&usage) else {
        // Nine million dollars for one call: the counts are nonsense. They stay on record.
        gateway.metrics.cost_overflowed();
        return false;
    };
    attempt.cost_usd = charge.amount;
    attempt.price_fallback = charge.price_fallback;
    attempt.price_version = Some(price.version().to_owned());
    true
}

/// By which rule an attempt is charged. An answer that was written at least in part is never free, a
/// request that the vendor may have served is not taken for free, and who left in the middle of a
/// vendor's work pays for it; a vendor that fails before it has written anything is paid nothing.
///
/// A price exists for model calls only; relayed paths without one are charged by what is reported.
pub(super) fn rule(open: &OpenAttempt, ended: Ended) -> Option<ChargeRule> {
    if open.usage.is_some() {
        return Some(ChargeRule::Reported);
    }
    open.price.as_ref()?;
    let accepted = open
        .status
        .is_some_and(|status| (200..300).contains(&status));
    Some(match ended {
        Ended::Whole => ChargeRule::Unreported,
        Ended::Doubtful(_) => ChargeRule::PerhapsServed,
        Ended::Failed(Class::ClientGone) | Ended::Partial(Class::ClientGone) => {
            if accepted {
                ChargeRule::ClientLeft
            } else {
                ChargeRule::ClientLeftBeforeAnswer
            }
        }
        Ended::Failed(_) | Ended::Partial(_) if open.written > 0 => {
            ChargeRule::InterruptedAfterContent
        }
        Ended::Failed(_) | Ended::Partial(_) => ChargeRule::VendorFailedBeforeContent,
    })
}

/// What an attempt came to of which the vendor has reported nothing. Four bytes to a token is the
/// usual rule for English and code; the estimate is marked.
pub(super) fn estimate(open: &OpenAttempt, rule: ChargeRule) -> Option<Usage> {
    let charged = match rule {
        ChargeRule::ClientLeft
        | ChargeRule::InterruptedAfterContent
        | ChargeRule::PerhapsServed
        | ChargeRule::Unreported => true,
        ChargeRule::ClientLeftBeforeAnswer
        | ChargeRule::Reported
        | ChargeRule::VendorFailedBeforeContent => false,
    };
    charged.then(|| Usage {
        input: Tokens(open.request_bytes.div_ceil(4)),
        output: Tokens(open.written.div_ceil(4)),
        estimated: true,
        ..Usage::default()
    })
}

pub(super) fn total_cost(attempts: &[Attempt]) -> Money {
    attempts.iter().fold(Money::ZERO, |sum, attempt| {
        sum.checked_add(attempt.cost_usd)
            .unwrap_or(Money::from_pico(i64::MAX))
    })
}

/// The sum over the attempts. A part that no attempt reported stays unreported.
pub(super) fn total_usage(attempts: &[Attempt]) -> Option<Usage> {
    fn plus(a: Option<Tokens>, b: Option<Tokens>) -> Option<Tokens> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (one, other) => one.or(other),
        }
    }
    attempts
        .iter()
        .filter_map(|attempt| attempt.usage)
        .reduce(|a, b| Usage {
            input: a.input.plus(b.input),
            cache_read: plus(a.cache_read, b.cache_read),
            cache_write_5m: plus(a.cache_write_5m, b.cache_write_5m),
            cache_write_1h: plus(a.cache_write_1h, b.cache_write_1h),
            output: a.output.plus(b.output),
            reasoning: plus(a.reasoning, b.reasoning),
            audio_input: plus(a.audio_input, b.audio_input),
            audio_output: plus(a.audio_output, b.audio_output),
            images: match (a.images, b.images) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (one, other) => one.or(other),
            },
            estimated: a.estimated || b.estimated,
        })
}
