//! The stretch of time that a budget covers.

use core::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use serde::{Deserialize, Serialize};

use crate::time::UnixTime;

/// The stretch of time that a budget covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// A day of the calendar: 23 to 25 hours.
    Day,
    /// An hour of the clock.
    Hour,
    /// From the budget's creation on, for ever.
    Lifetime,
    /// A minute of the clock.
    Minute,
    /// A month of the calendar.
    Month,
    /// The last so many milliseconds, in steps of a sixtieth.
    Rolling(Duration),
    /// Monday to Sunday.
    Week,
}

/// A window of the calendar or the clock as it stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first millisecond.
    pub from: UnixTime,
    /// The first millisecond after it.
    pub to: UnixTime,
}

impl Window {
    /// The span around `now` in a time zone. `None` for windows without fixed ends, and for instants
    /// beyond the calendar (before the year -9999, after 9999).
    pub fn span(self, now: UnixTime, zone: &TimeZone) -> Option<Span> {
        let local = |now: UnixTime| {
            let instant = Timestamp::from_millisecond(now.0).ok()?;
            Some(instant.to_zoned_datetime(zone.clone()))
        };
        let (from, to) = match self {
            Self::Lifetime | Self::Rolling(_) => return None,
            Self::Minute => return Some(clock_span(now, 0, MINUTE_MS)),
            Self::Hour => {
                let offset = i64::from(local(now)?.offset().seconds()) * 1_000;
                return Some(clock_span(now, offset, HOUR_MS));
            }
            Self::Day => {
                let from = local(now)?.start_of_day().ok()?;
                (from.clone(), from.checked_add(1.day()))
            }
            Self::Week => {
                let today = local(now)?;
                let since_monday = i64::from(today.weekday().to_monday_zero_offset());
                let from = today.checked_sub(since_monday.days()).ok()?;
                let from = from.start_of_day().ok()?;
                (from.clone(), from.checked_add(1.week()))
            }
            Self::Month => {
                let from = local(now)?.first_of_month().ok()?.start_of_day().ok()?;
                (from.clone(), from.checked_add(1.month()))
            }
        };
        // Adding to a midnight that does not exist that day may land after it.
        let to = to.ok()?.start_of_day().ok()?;
        Some(Span {
            from: unix(&from),
            to: unix(&to),
        })
    }
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

fn unix(instant: &ZonedDateTime) -> UnixTime {
    UnixTime(instant.timestamp().as_millisecond())
}

/// The span of `length` around `now` on a clock that is `offset` ahead of UTC.
fn clock_span(now: UnixTime, offset: i64, length: i64) -> Span {
    let since = now.0.saturating_add(offset).rem_euclid(length);
    let from = now.0.saturating_sub(since);
    Span {
        from: UnixTime(from),
        to: UnixTime(from.saturating_add(length)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn ms(text: &str) -> UnixTime {
        UnixTime(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn check(window: Window, zone: &TimeZone, now: &str, from: &str, to: &str) {
        let want = Span {
            from: ms(from),
            to: ms(to),
        };
        assert_eq!(
            window.span(ms(now), zone),
            Some(want),
            "{window:?} at {now}"
        );
    }

    /// <https://github.com/BerriAI/litellm/issues/34896>
    #[test]
    fn c128_a_month_in_tokyo_begins_at_tokyos_midnight() {
        let tokyo = TimeZone::posix("JST-9").unwrap();
        check(
            Window::Month,
            &tokyo,
            "2026-07-31T14:59:59Z",
            "2026-06-30T15:00:00Z",
            "2026-07-31T15:00:00Z",
        );
        check(
            Window::Month,
            &tokyo,
            "2026-07-31T15:00:00Z",
            "2026-07-31T15:00:00Z",
            "2026-08-31T15:00:00Z",
        );
    }

    #[test]
    fn days_and_weeks_are_right_over_a_change_of_the_clocks() {
        let zone = berlin();
        // 25 October 2026: 25 hours. 29 March 2026: 23.
        check(
            Window::Day,
            &zone,
            "2026-10-25T12:00:00Z",
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        );
        check(
            Window::Day,
            &zone,
            "2026-03-29T12:00:00Z",
            "2026-03-28T23:00:00Z",
            "2026-03-29T22:00:00Z",
        );
        check(
            Window::Week,
            &zone,
            "2026-10-25T22:59:59.999Z",
            "2026-10-18T22:00:00Z",
            "2026-10-25T23:00:00Z",
        );
        check(
            Window::Month,
            &zone,
            "2026-03-01T00:00:00Z",
            "2026-02-28T23:00:00Z",
            "2026-03-31T22:00:00Z",
        );
    }

    #[test]
    fn hours_follow_the_local_clock_and_minutes_need_none() {
        let kathmandu = TimeZone::posix("<+0545>-5:45").unwrap();
        check(
            Window::Hour,
            &kathmandu,
            "2026-11-30T10:20:00Z",
            "2026-11-30T10:15:00Z",
            "2026-11-30T11:15:00Z",
        );
        check(
            Window::Minute,
            &kathmandu,
            "2026-11-30T10:20:59.999Z",
            "2026-11-30T10:20:00Z",
            "2026-11-30T10:21:00Z",
        );
        assert_eq!(Window::Lifetime.span(UnixTime(0), &kathmandu), None);
    }

    #[test]
    fn a_midnight_that_the_clocks_skip_is_not_waited_for() {
        // Clocks go from 24:00 on Saturday to 01:00 on the first Sunday in September.
        let zone = TimeZone::posix("<-04>4<-03>,M9.1.6/24,M4.1.6/24").unwrap();
        check(
            Window::Day,
            &zone,
            "2026-09-06T12:00:00Z",
            "2026-09-06T04:00:00Z",
            "2026-09-07T03:00:00Z",
        );
    }

    proptest! {
        #[test]
        fn spans_follow_one_another_without_gap(
            now in -2_000_000_000_000..4_000_000_000_000_i64,
            window in prop_oneof![
                Just(Window::Minute), Just(Window::Hour), Just(Window::Day),
                Just(Window::Week), Just(Window::Month),
            ],
        ) {
            let zone = berlin();
            let span = window.span(UnixTime(now), &zone).unwrap();
            prop_assert!(span.from.0 <= now && now < span.to.0);
            let next = window.span(span.to, &zone).unwrap();
            prop_assert_eq!(next.from, span.to);
            let last = window.span(UnixTime(span.to.0 - 1), &zone).unwrap();
            prop_assert_eq!(last, span);
        }
    }
}
