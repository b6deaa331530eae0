//! What a vendor's prompt cache should have read, beside what it says that it read.
//!
//! The lint's history knows which prefix was sent before and what the vendor's rules make of it; the
//! usage says what was billed. One call proves little: routing spills, entries are evicted early, and
//! some vendors count a call's input by another route's tokenizer. So each call is compared within
//! a step of the vendor's, and calls are summed per series; the judges of alerts look at the sums.

use serde::{Deserialize, Serialize};

use crate::units::Tokens;
use crate::usage::Usage;

/// One call's expected and reported cache reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The vendor read more than the gateway knew of: the prefix was warm from elsewhere.
    Above {
        /// By how much.
        surplus: Tokens,
    },
    /// Within a step of each other.
    Agrees,
    /// The vendor read less.
    Below {
        /// By how much.
        missing: Tokens,
    },
    /// The vendor reported nothing, which is not zero.
    Unreported,
}

impl Comparison {
    /// Compares what was expected with what `usage` reports; differences of up to `step` are rounding.
    pub fn of(expected: Tokens, usage: &Usage, step: Tokens) -> Self {
        let Some(reported) = usage.cache_read.filter(|_| !usage.estimated) else {
            return Self::Unreported;
        };
        // Some count a call by other tokens than its predecessor: nothing beyond the input is missing.
        let expected = expected.min(usage.input);
        let (missing, surplus) = (expected.minus(reported), reported.minus(expected));
        if missing > step {
            Self::Below { missing }
        } else if surplus > step {
            Self::Above { surplus }
        } else {
            Self::Agrees
        }
    }
}

/// Sums over the calls of one series (a tenant's, a route's, a model's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Calls.
    pub calls: u64,
    /// Calls whose vendor reported nothing.
    pub unreported: u64,
    /// Input of the calls that reported.
    pub input: Tokens,
    /// What the cache should have read in them.
    pub expected: Tokens,
    /// What it read.
    pub reported: Tokens,
    /// What it should have read and did not, call by call: a surplus elsewhere makes up for nothing.
    pub missing: Tokens,
}

impl Reads {
    /// Adds a call.
    pub fn add(&mut self, expected: Tokens, usage: &Usage, step: Tokens) {
        self.calls += 1;
        let comparison = Comparison::of(expected, usage, step);
        if comparison == Comparison::Unreported {
            self.unreported += 1;
            return;
        }
        self.input = self.input.plus(usage.input);
        self.expected = self.expected.plus(expected.min(usage.input));
        self.reported = self.reported.plus(usage.cache_read.unwrap_or_default());
        if let Comparison::Below { missing } = comparison {
            self.missing = self.missing.plus(missing);
        }
    }

    /// The share of what was expected that was read, in hundredths; `None` when nothing was expected.
    pub fn kept_percent(&self) -> Option<u32> {
        let kept = self.expected.minus(self.missing).0;
        let percent = kept.saturating_mul(100).checked_div(self.expected.0)?;
        u32::try_from(percent).ok()
    }

    /// The share of the input that was read from the cache, in hundredths; `None` without input.
    pub fn hit_percent(&self) -> Option<u32> {
        let percent = self
            .reported
            .0
            .saturating_mul(100)
            .checked_div(self.input.0)?;
        u32::try_from(percent).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Tokens = Tokens(128);

    fn usage(input: u64, read: Option<u64>) -> Usage {
        Usage {
            input: Tokens(input),
            cache_read: read.map(Tokens),
            ..Usage::default()
        }
    }

    #[test]
    fn a_step_is_rounding_and_silence_is_not_zero() {
        let of = |expected, usage: &Usage| Comparison::of(Tokens(expected), usage, STEP);
        assert_eq!(of(1024, &usage(2000, Some(1152))), Comparison::Agrees);
        assert_eq!(of(1024, &usage(2000, Some(896))), Comparison::Agrees);
        assert_eq!(
            of(1920, &usage(2000, Some(0))),
            Comparison::Below {
                missing: Tokens(1920)
            }
        );
        assert_eq!(
            of(0, &usage(2000, Some(1920))),
            Comparison::Above {
                surplus: Tokens(1920)
            }
        );
        assert_eq!(of(1920, &usage(2000, None)), Comparison::Unreported);
        assert_eq!(of(5000, &usage(2000, Some(1920))), Comparison::Agrees);
        let guess = Usage {
            estimated: true,
            ..usage(2000, Some(0))
        };
        assert_eq!(of(1920, &guess), Comparison::Unreported);
    }

    #[test]
    fn a_surplus_makes_up_for_no_miss() {
        let mut reads = Reads::default();
        assert_eq!((reads.kept_percent(), reads.hit_percent()), (None, None));
        reads.add(Tokens(1000), &usage(2000, Some(1000)), STEP);
        reads.add(Tokens(1000), &usage(2000, Some(0)), STEP);
        reads.add(Tokens(0), &usage(2000, Some(1500)), STEP);
        reads.add(Tokens(1000), &usage(2000, None), STEP);
        assert_eq!((reads.calls, reads.unreported), (4, 1));
        assert_eq!(reads.missing, Tokens(1000));
        assert_eq!(reads.kept_percent(), Some(50));
        assert_eq!(reads.hit_percent(), Some(41));
    }
}
