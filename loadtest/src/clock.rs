//! The one file of this crate that reads a clock.
//!
//! Load is made of real time, so nothing here is simulated; the file exists so that every other
//! one names the instant it means.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic present.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock of the outside world"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Time since the Unix epoch; zero when the system clock stands before it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock of the outside world"
)]
pub fn unix() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Nanoseconds between two instants, zero when `later` is the earlier one.
pub fn nanos_between(earlier: Instant, later: Instant) -> u64 {
    u64::try_from(later.saturating_duration_since(earlier).as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since this process first asked: a stamp that a vendor writes and a client in the
/// same process can subtract.
pub fn process_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanos_between(*START.get_or_init(now), now())
}
