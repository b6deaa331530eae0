//! Hours, days and months of a place, over changes of its clocks.

use jiff::tz::TimeZone;
use jiff::{Error, Timestamp, ToSpan};
use whippletree_policies::time::UnixTime;

/// A span of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Midnight to midnight: 23 to 25 hours where clocks change.
    Day,
    /// From when the clock shows a full hour; always 3600 s.
    Hour,
    /// Sixty seconds.
    Minute,
    /// From the first to the first.
    Month,
}

impl std::str::FromStr for Bucket {
    type Err = InvalidBucket;

    fn from_str(text: &str) -> Result<Self, InvalidBucket> {
        match text {
            "day" => Ok(Self::Day),
            "hour" => Ok(Self::Hour),
            "minute" => Ok(Self::Minute),
            "month" => Ok(Self::Month),
            _ => Err(InvalidBucket),
        }
    }
}

/// The text names no bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected minute, hour, day or month")]
pub struct InvalidBucket;

/// From a time, up to and without another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    /// The first millisecond.
    pub from: UnixTime,
    /// The first millisecond after.
    pub to: UnixTime,
}

impl Period {
    /// Whether `time` lies in it.
    pub fn contains(&self, time: UnixTime) -> bool {
        self.from <= time && time < self.to
    }
}

/// The bucket of `time` in `zone`.
///
/// # Errors
///
/// The time is beyond the years -9999 to 9999.
pub fn period(bucket: Bucket, time: UnixTime, zone: &TimeZone) -> Result<Period, Error> {
    let at = Timestamp::from_millisecond(time.0)?;
    let local = at.to_zoned_datetime(zone.clone());
    let (from, to) = match bucket {
        Bucket::Minute => {
            let from = at.checked_sub(i64::from(local.second()).seconds())?;
            (from, from.checked_add(60.seconds())?)
        }
        Bucket::Hour => {
            // By elapsed time, because a local hour can come twice.
            let into = i64::from(local.minute()) * 60 + i64::from(local.second());
            let from = at.checked_sub(into.seconds())?;
            (from, from.checked_add(3600.seconds())?)
        }
        Bucket::Day => {
            let start = local.start_of_day()?;
            let next = start.tomorrow()?.start_of_day()?;
            (start.timestamp(), next.timestamp())
        }
        Bucket::Month => {
            let start = local.first_of_month()?.start_of_day()?;
            let next = start.checked_add(1.month())?.start_of_day()?;
            (start.timestamp(), next.timestamp())
        }
    };
    let whole = |time: Timestamp| UnixTime(time.as_second().saturating_mul(1000));
    Ok(Period {
        from: whole(from),
        to: whole(to),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> UnixTime {
        UnixTime(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn shown(bucket: Bucket, time: &str, zone: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        let period = period(bucket, at(time), &zone).unwrap();
        let show = |time: UnixTime| Timestamp::from_millisecond(time.0).unwrap();
        format!("{} {}", show(period.from), show(period.to))
    }

    #[test]
    fn buckets_follow_the_clocks_of_the_place() {
        // The day that clocks go forward has 23 hours, the day that they go back 25.
        assert_eq!(
            shown(Bucket::Day, "2026-03-29T12:00:00Z", "Europe/Berlin"),
            "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z"
        );
        assert_eq!(
            shown(Bucket::Day, "2026-10-25T12:00:00Z", "Europe/Berlin"),
            "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z"
        );
        assert_eq!(
            shown(Bucket::Month, "2026-03-31T22:30:00Z", "Europe/Berlin"),
            "2026-03-31T22:00:00Z 2026-04-30T22:00:00Z"
        );
        assert_eq!(
            shown(Bucket::Month, "2026-12-31T23:59:59.999Z", "UTC"),
            "2026-12-01T00:00:00Z 2027-01-01T00:00:00Z"
        );
        // The hour that comes twice is two buckets.
        assert_eq!(
            shown(Bucket::Hour, "2026-10-25T00:59:00Z", "Europe/Berlin"),
            "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z"
        );
        assert_eq!(
            shown(Bucket::Hour, "2026-10-25T01:01:00Z", "Europe/Berlin"),
            "2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"
        );
        assert_eq!(
            shown(Bucket::Hour, "2026-11-30T10:40:00.5Z", "Asia/Kolkata"),
            "2026-11-30T10:30:00Z 2026-11-30T11:30:00Z"
        );
    }

    proptest! {
        #[test]
        fn buckets_hold_their_time_and_lie_side_by_side(
            millis in 0_i64..4_000_000_000_000,
            bucket in prop_oneof![
                Just(Bucket::Day), Just(Bucket::Hour), Just(Bucket::Minute), Just(Bucket::Month)
            ],
            zone in prop_oneof![
                Just("UTC"), Just("Europe/Berlin"), Just("America/New_York"),
                Just("Asia/Kolkata"), Just("America/Sao_Paulo")
            ],
        ) {
            let zone = TimeZone::get(zone).unwrap();
            let this = period(bucket, UnixTime(millis), &zone).unwrap();
            prop_assert!(this.contains(UnixTime(millis)));
            let next = period(bucket, this.to, &zone).unwrap();
            prop_assert_eq!(next.from, this.to);
            let last = period(bucket, UnixTime(this.to.0 - 1), &zone).unwrap();
            prop_assert_eq!(last, this);
        }
    }
}
