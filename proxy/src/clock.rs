//! The only file that reads time or randomness.
//!
//! Policies take the instant as an argument; everything at the edge asks here, so that nothing else
//! in the product depends on a clock that a test cannot name.

use std::sync::OnceLock;
use std::time::{Instant as StdInstant, SystemTime};

use whippletree_policies::ids::RequestId;
use whippletree_policies::time::{Instant, UnixTime};

static START: OnceLock<tokio::time::Instant> = OnceLock::new();

/// Now, on the monotonic clock. Follows tokio's paused time in tests.
pub fn now() -> Instant {
    let start = *START.get_or_init(tokio::time::Instant::now);
    let ns = tokio::time::Instant::now().duration_since(start).as_nanos();
    Instant(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The tokio instant that `instant` names, for timers.
pub fn tokio_instant(instant: Instant) -> tokio::time::Instant {
    let start = *START.get_or_init(tokio::time::Instant::now);
    start + std::time::Duration::from_nanos(instant.0)
}

/// Now, on the monotonic clock of the operating system; for durations outside a runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the file that reads clocks"
)]
pub fn std_now() -> StdInstant {
    StdInstant::now()
}

/// Now, on the wall clock, in milliseconds. A clock before 1970 reads as zero.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the file that reads clocks"
)]
pub fn unix_now() -> UnixTime {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    UnixTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A new request id: UUID version 7 (RFC 9562, section 5.7) of the wall clock and 74 random bits.
pub fn new_request_id(now: UnixTime) -> RequestId {
    let mut bytes: [u8; 16] = rand::random();
    let millis = now.0.max(0).to_be_bytes();
    for (to, from) in bytes.iter_mut().zip(millis.iter().skip(2)) {
        *to = *from;
    }
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    RequestId(bytes)
}
