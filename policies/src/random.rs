//! Integers from a random source, without floating point.

use core::time::Duration;

use rand_core::Rng;

/// A number from 0 to `most`, both included, all equally likely but for 2⁻⁶⁴.
pub(crate) fn up_to(most: u64, rng: &mut dyn Rng) -> u64 {
    let wide = u128::from(rng.next_u64()) * (u128::from(most) + 1);
    u64::try_from(wide >> 64).unwrap_or(most)
}

/// A duration from zero to `most`.
pub(crate) fn duration_up_to(most: Duration, rng: &mut dyn Rng) -> Duration {
    let ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(up_to(ns, rng))
}
