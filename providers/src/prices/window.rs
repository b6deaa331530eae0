//! Hours and weekdays at which a price holds.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use whippletree_policies::time::UnixTime;

const DAY: u32 = 24 * 60;

/// A span of hours in UTC, on some weekdays: `{ hours = "01:00-04:00", weekdays = [1, 2, 3, 4, 5] }`.
///
/// The end is not part of it; `00:00` as an end is the end of the day. A span that ends before it
/// begins goes over midnight and belongs to the weekday on which it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Window {
    /// Minutes since midnight.
    start: u32,
    end: u32,
    /// Monday is 1, Sunday 7; none: every day.
    weekdays: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    hours: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    weekdays: Vec<u8>,
}

/// Hours or weekdays that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected hours such as \"01:00-04:00\" and weekdays from 1 (Monday) to 7")]
pub struct InvalidWindow;

impl Window {
    /// Hours such as `01:00-04:00` on weekdays (1 is Monday), or on all when there is none.
    ///
    /// # Errors
    /// [`InvalidWindow`] for hours or weekdays that do not exist.
    pub fn new(hours: &str, weekdays: Vec<u8>) -> Result<Self, InvalidWindow> {
        let (start, end) = hours.split_once('-').ok_or(InvalidWindow)?;
        let start = minutes(start.trim()).ok_or(InvalidWindow)?;
        let end = minutes(end.trim()).ok_or(InvalidWindow)?;
        if weekdays.iter().any(|day| !(1..=7).contains(day)) || start >= DAY {
            return Err(InvalidWindow);
        }
        let end = if end == 0 { DAY } else { end };
        Ok(Self {
            start,
            end,
            weekdays,
        })
    }

    /// Whether the moment lies within.
    pub fn covers(&self, at: UnixTime) -> bool {
        let Ok(timestamp) = Timestamp::from_millisecond(at.0) else {
            return false;
        };
        let moment = TimeZone::UTC.to_datetime(timestamp);
        let minute = u32::try_from(moment.hour()).unwrap_or(0) * 60
            + u32::try_from(moment.minute()).unwrap_or(0);
        let today = u8::try_from(moment.date().weekday().to_monday_one_offset()).unwrap_or(1);
        let yesterday = if today == 1 { 7 } else { today - 1 };
        let on = |day: u8| self.weekdays.is_empty() || self.weekdays.contains(&day);
        if self.start < self.end {
            return (self.start..self.end).contains(&minute) && on(today);
        }
        (minute >= self.start && on(today)) || (minute < self.end && on(yesterday))
    }
}

fn minutes(text: &str) -> Option<u32> {
    let mut parts = text.split(':');
    let hour: u32 = parts.next()?.parse().ok()?;
    let minute: u32 = parts.next()?.parse().ok()?;
    let total = hour * 60 + minute;
    (hour <= 24 && minute < 60 && total <= DAY).then_some(total)
}

impl TryFrom<Written> for Window {
    type Error = InvalidWindow;

    fn try_from(written: Written) -> Result<Self, InvalidWindow> {
        Self::new(&written.hours, written.weekdays)
    }
}

impl From<Window> for Written {
    fn from(window: Window) -> Self {
        let clock = |minutes: u32| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
        Self {
            hours: format!("{}-{}", clock(window.start), clock(window.end)),
            weekdays: window.weekdays,
        }
    }
}
