//! How long to wait before the same target is tried again.
//!
//! Clients that fail together and wait alike come back together. Full jitter spreads them over the
//! whole wait: `uniform(0, min(cap, base · 2ⁿ))` (M. Brooker, "Exponential Backoff And Jitter", AWS
//! Architecture Blog, 2015). A vendor's hint is another matter: it knows when it will have room, so
//! the hint is a floor, and the jitter only ever comes on top of it.

use core::time::Duration;

use rand_core::Rng;

use crate::random;

/// Exponential back-off with full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// Waits of at most `base` at first, doubled each time, of at most `cap` ever.
    ///
    /// # Errors
    ///
    /// [`InvalidBackoff`] when `base` is zero or `cap` is smaller than `base`.
    pub fn new(base: Duration, cap: Duration) -> Result<Self, InvalidBackoff> {
        if base.is_zero() || cap < base {
            return Err(InvalidBackoff { base, cap });
        }
        Ok(Self { base, cap })
    }

    /// A wait after `failures` failures in a row (1 for the first).
    pub fn draw(&self, failures: u32, rng: &mut dyn Rng) -> Duration {
        random::duration_up_to(self.ceiling(failures), rng)
    }

    fn ceiling(&self, failures: u32) -> Duration {
        let factor = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

impl Default for Backoff {
    /// Half a second at first, 20 seconds at most.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            cap: Duration::from_secs(20),
        }
    }
}

/// What comes on top of a wait that a vendor asked for: up to a tenth of it.
pub fn hint_jitter(hint: Duration, rng: &mut dyn Rng) -> Duration {
    random::duration_up_to(hint / 10, rng)
}

/// A back-off without growth or without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("back-off from {base:?} up to {cap:?}: expected a base above zero and a cap no smaller")]
pub struct InvalidBackoff {
    /// The first wait's ceiling.
    pub base: Duration,
    /// Every wait's ceiling.
    pub cap: Duration,
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let backoff = Backoff::new(MS(500), MS(3_000)).unwrap();
        let ceilings = [1, 2, 3, 4, 40, u32::MAX].map(|n| backoff.ceiling(n));
        let want = [500, 1_000, 2_000, 3_000, 3_000, 3_000].map(MS);
        assert_eq!(ceilings, want);
    }

    #[test]
    fn draws_fill_the_whole_range() {
        let backoff = Backoff::new(MS(1_000), MS(1_000)).unwrap();
        let mut rng = SmallRng::seed_from_u64(7);
        let draws: [Duration; 1000] = core::array::from_fn(|_| backoff.draw(1, &mut rng));
        assert!(draws.iter().all(|d| *d <= MS(1_000)));
        for tenth in 0..10 {
            let inside = MS(100 * tenth)..MS(100 * (tenth + 1));
            let count = draws.iter().filter(|d| inside.contains(d)).count();
            assert!((60..=140).contains(&count), "{count} in {inside:?}");
        }
    }

    #[test]
    fn a_hint_is_lengthened_by_a_tenth_at_most() {
        let mut rng = SmallRng::seed_from_u64(7);
        let jitters: [Duration; 1000] = core::array::from_fn(|_| hint_jitter(MS(20_000), &mut rng));
        let (least, most) = (jitters.iter().min(), jitters.iter().max());
        assert!(least < Some(&MS(100)) && most > Some(&MS(1_900)) && most <= Some(&MS(2_000)));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Backoff::new(Duration::ZERO, MS(1)).is_err());
        assert!(Backoff::new(MS(2), MS(1)).is_err());
    }
}
