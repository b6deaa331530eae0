//! Instants as values. Only the edge reads a clock.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on a monotonic clock, in nanoseconds since an arbitrary start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The instant `duration` later, held at the end of time rather than wrapping.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ns))
    }

    /// The time from `earlier` to here, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Wall-clock time in milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixTime(pub i64);
