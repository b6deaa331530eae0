//! Tokens per minute, with a reservation before the call and the truth after it.
//!
//! The generic cell rate algorithm (ITU-T I.371): a bucket of one minute's tokens that refills
//! evenly, kept as the single instant at which it will be full again. A call reserves what it may
//! use at most, since its real use is known only at its end, and gets the rest back then.
//!
//! What is given back must not buy more than not having taken it would have: while a reservation
//! stood, part of it has refilled by itself. So only that part comes back which has not (a property
//! test compares with a bucket that knew every use beforehand).
//!
//! Arithmetic is exact: one token is a minute of nanoseconds, and the bucket refills by the limit
//! every nanosecond.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::time::Instant;
use crate::units::Tokens;

/// Units in one token.
const TOKEN: u128 = 60_000_000_000;

/// A limit of tokens per minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    per_minute: NonZeroU64,
    /// When the bucket is full, in units: nanoseconds times the limit.
    full_at: u128,
    /// All that ever came back. What comes back lets later holds refill sooner than they were told.
    returned: u128,
}

/// Tokens taken from a bucket for one call, until the call settles.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a hold that is not settled keeps its tokens as if they were used"]
pub struct Hold {
    amount: Tokens,
    /// When what it took will have refilled, and what had been returned by then.
    full_at: u128,
    returned: u128,
}

/// The bucket has not enough tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} tokens are more than the {left} left of {per_minute} per minute")]
pub struct Limited {
    /// What was asked for.
    pub wanted: Tokens,
    /// What could be had.
    pub left: Tokens,
    /// The limit.
    pub per_minute: NonZeroU64,
    /// When it will be enough; `None` when it never will, because it is more than a minute's worth.
    pub retry_after: Option<Duration>,
}

impl TokenBucket {
    /// A full bucket.
    pub const fn new(per_minute: NonZeroU64) -> Self {
        Self {
            per_minute,
            full_at: 0,
            returned: 0,
        }
    }

    /// Takes tokens for a call.
    ///
    /// # Errors
    ///
    /// [`Limited`] when the bucket has not enough; nothing was taken then.
    pub fn reserve(&mut self, amount: Tokens, now: Instant) -> Result<Hold, Limited> {
        let clock = self.clock(now);
        let full_at = self.full_at.max(clock) + u128::from(amount.0) * TOKEN;
        let lacking = full_at.saturating_sub(clock + self.capacity());
        if lacking > 0 {
            let fits = amount.0 <= self.per_minute.get();
            let wait = lacking.div_ceil(u128::from(self.per_minute.get()));
            let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
            return Err(Limited {
                wanted: amount,
                left: self.left(now),
                per_minute: self.per_minute,
                retry_after: fits.then_some(wait),
            });
        }
        self.full_at = full_at;
        Ok(Hold {
            amount,
            full_at,
            returned: self.returned,
        })
    }

    /// Ends a reservation with what was really used, be it less or more.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is consumed, so that it cannot be settled twice"
    )]
    pub fn settle(&mut self, hold: Hold, used: Tokens, now: Instant) {
        let Hold {
            amount,
            full_at,
            returned,
        } = hold;
        let clock = self.clock(now);
        let more = u128::from(used.minus(amount).0) * TOKEN;
        if more > 0 {
            self.full_at = self.full_at.max(clock) + more;
            return;
        }
        let since = self.returned.saturating_sub(returned);
        let unfilled = full_at.saturating_sub(since).saturating_sub(clock);
        let less = u128::from(amount.minus(used).0) * TOKEN;
        let back = less.min(unfilled).min(self.full_at);
        self.full_at -= back;
        self.returned += back;
    }

    /// Ends a reservation of which nothing was used.
    pub fn release(&mut self, hold: Hold, now: Instant) {
        self.settle(hold, Tokens::ZERO, now);
    }

    /// Tokens that can be had now.
    pub fn left(&self, now: Instant) -> Tokens {
        let missing = self.full_at.saturating_sub(self.clock(now));
        let left = self.capacity().saturating_sub(missing) / TOKEN;
        Tokens(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// How long until the bucket is full.
    pub fn full_after(&self, now: Instant) -> Duration {
        let missing = self.full_at.saturating_sub(self.clock(now));
        let ns = missing.div_ceil(u128::from(self.per_minute.get()));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn clock(&self, now: Instant) -> u128 {
        u128::from(now.0) * u128::from(self.per_minute.get())
    }

    fn capacity(&self) -> u128 {
        u128::from(self.per_minute.get()) * TOKEN
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn bucket(per_minute: u64) -> TokenBucket {
        TokenBucket::new(NonZeroU64::new(per_minute).unwrap())
    }

    const fn at(seconds: u64) -> Instant {
        Instant((1_000 + seconds) * 1_000_000_000)
    }

    #[test]
    fn a_minutes_worth_can_be_had_at_once_and_then_comes_back_evenly() {
        let mut bucket = bucket(600);
        let _used = bucket.reserve(Tokens(600), at(0)).unwrap();
        let limited = bucket.reserve(Tokens(100), at(0)).unwrap_err();
        assert_eq!(limited.retry_after, Some(Duration::from_secs(10)));
        assert_eq!(limited.left, Tokens(0));
        assert_eq!(bucket.left(at(10)), Tokens(100));
        assert_eq!(bucket.full_after(at(10)), Duration::from_secs(50));
        let _used = bucket.reserve(Tokens(100), at(10)).unwrap();
    }

    #[test]
    fn what_a_call_did_not_use_comes_back_at_once() {
        let mut bucket = bucket(600);
        let hold = bucket.reserve(Tokens(600), at(0)).unwrap();
        bucket.settle(hold, Tokens(50), at(0));
        assert_eq!(bucket.left(at(0)), Tokens(550));
        let hold = bucket.reserve(Tokens(550), at(0)).unwrap();
        bucket.release(hold, at(0));
        assert_eq!(bucket.left(at(0)), Tokens(550));
    }

    #[test]
    fn what_came_back_by_itself_does_not_come_back_twice() {
        let mut bucket = bucket(600);
        let hold = bucket.reserve(Tokens(100), at(0)).unwrap();
        let _used = bucket.reserve(Tokens(600), at(10)).unwrap();
        bucket.release(hold, at(10));
        assert_eq!(bucket.left(at(10)), Tokens(0));
    }

    #[test]
    fn a_call_that_used_more_is_paid_for_by_the_next() {
        let mut bucket = bucket(600);
        let hold = bucket.reserve(Tokens(600), at(0)).unwrap();
        bucket.settle(hold, Tokens(700), at(0));
        let limited = bucket.reserve(Tokens(1), at(9)).unwrap_err();
        assert_eq!(limited.left, Tokens(0));
        assert_eq!(bucket.left(at(20)), Tokens(100));
    }

    #[test]
    fn more_than_a_minutes_worth_never_fits() {
        let limited = bucket(10).reserve(Tokens(11), at(0)).unwrap_err();
        assert_eq!(limited.retry_after, None);
        insta::assert_snapshot!(limited, @"11 tokens are more than the 10 left of 10 per minute");
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Reserve(u64),
        Settle(usize, u64),
        Pass(u64),
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..80_u64).prop_map(Operation::Reserve),
            (any::<prop::sample::Index>(), 0..=100_u64)
                .prop_map(|(which, percent)| Operation::Settle(which.index(64), percent)),
            (0..20_000_u64).prop_map(Operation::Pass),
        ]
    }

    proptest! {
        /// The reference knows every use at the time of its reservation.
        #[test]
        fn nobody_gets_more_than_if_every_use_had_been_known_beforehand(
            operations in proptest::collection::vec(any_operation(), 1..60),
        ) {
            let mut bucket = bucket(100);
            let mut now = at(0);
            let mut open: Vec<(usize, u64, Hold)> = Vec::new();
            let mut uses: Vec<(Instant, u64)> = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Pass(ms) => now = now.after(Duration::from_millis(ms)),
                    Operation::Reserve(amount) => {
                        if let Ok(hold) = bucket.reserve(Tokens(amount), now) {
                            open.push((uses.len(), amount, hold));
                            uses.push((now, amount));
                        }
                    }
                    Operation::Settle(which, percent) => {
                        if open.is_empty() {
                            continue;
                        }
                        let (index, amount, hold) = open.swap_remove(which % open.len());
                        let used = amount * percent / 100;
                        bucket.settle(hold, Tokens(used), now);
                        uses[index].1 = used;
                    }
                }
                let reference = uses.iter().fold(0_u128, |full_at, (then, used)| {
                    full_at.max(bucket.clock(*then)) + u128::from(*used) * TOKEN
                });
                let clock = bucket.clock(now);
                prop_assert!(bucket.full_at.max(clock) >= reference.max(clock));
            }
        }
    }
}
