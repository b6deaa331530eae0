//! Durations and moments as vendors write them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use whippletree_policies::time::UnixTime;

use super::LONGEST;

/// A positive, finite and not absurd number of seconds.
pub(super) fn positive(seconds: f64) -> Option<Duration> {
    sensible(Duration::try_from_secs_f64(seconds).ok()?)
}

fn sensible(wait: Duration) -> Option<Duration> {
    (!wait.is_zero() && wait <= LONGEST).then_some(wait)
}

/// The time from `now` to `then`, when it lies ahead.
fn until(then_ms: f64, now: UnixTime) -> Option<Duration> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact for the next 280,000 years"
    )]
    let now_ms = now.0 as f64;
    positive((then_ms - now_ms) / 1_000.0)
}

/// A reset field: a Go duration, a date, or a number. A number means seconds from now, unless it is
/// so large that it can only be a Unix time, in seconds or, a thousand times larger, in milliseconds.
pub(super) fn moment(text: &str, now: UnixTime) -> Option<Duration> {
    const UNIX_SECONDS_FROM: f64 = 1e9; // September 2001
    const UNIX_MILLISECONDS_FROM: f64 = 1e12;
    match text.parse::<f64>() {
        Ok(ms) if ms >= UNIX_MILLISECONDS_FROM => until(ms, now),
        Ok(seconds) if seconds >= UNIX_SECONDS_FROM => until(seconds * 1_000.0, now),
        Ok(seconds) => positive(seconds),
        Err(_) => go_duration(text).or_else(|| date(text, now)),
    }
}

/// An RFC 3339 timestamp or an HTTP date, in any of the three forms of RFC 9110, section 5.6.7.
pub(super) fn date(text: &str, now: UnixTime) -> Option<Duration> {
    let then = text
        .parse::<Timestamp>()
        .or_else(|_| rfc2822::DateTimeParser::new().parse_timestamp(text))
        .or_else(|_| obsolete(text))
        .ok()?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact for the next 280,000 years"
    )]
    let then_ms = then.as_millisecond() as f64;
    until(then_ms, now)
}

fn obsolete(text: &str) -> Result<Timestamp, jiff::Error> {
    let rfc_850 = DateTime::strptime("%A, %d-%b-%y %H:%M:%S GMT", text);
    let asctime = || DateTime::strptime("%a %b %e %H:%M:%S %Y", text);
    TimeZone::UTC.to_timestamp(rfc_850.or_else(|_| asctime())?)
}

/// A duration as Go prints it: `1h2m3.5s`, `12ms`, `6m0s`; days are allowed too.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let (wait, rest) = leading(text)?;
    rest.is_empty().then(|| sensible(wait))?
}

/// A duration in the text of a message: "Please try again in 6m0s.", "retry after 37 seconds".
pub(super) fn in_text(message: &str) -> Option<Duration> {
    const MARKS: [&str; 5] = [
        "try again in ",
        "try again after ",
        "retry in ",
        "retry after ",
        "please wait ",
    ];
    let lower = message.to_ascii_lowercase();
    MARKS.iter().find_map(|mark| {
        lower
            .match_indices(mark)
            .find_map(|(at, _)| leading(lower.get(at + mark.len()..)?))
            .and_then(|(wait, _)| sensible(wait))
    })
}

/// The longest run of numbers with units at the start of a text, and what follows it.
fn leading(text: &str) -> Option<(Duration, &str)> {
    let mut total: Option<Duration> = None;
    let mut rest = text;
    while let Some((part, after)) = amount(rest.trim_start_matches([' ', ','])) {
        total = Some(total.unwrap_or_default().checked_add(part)?);
        rest = after;
    }
    total.map(|total| (total, rest))
}

/// One number with its unit.
fn amount(text: &str) -> Option<(Duration, &str)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(digits)?;
    let number: f64 = number.parse().ok()?;
    let rest = rest.trim_start_matches(' ');
    let letters = rest
        .find(|c: char| !c.is_ascii_alphabetic() && c != 'µ')
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(letters)?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    let wait = Duration::try_from_secs_f64(number * seconds).ok()?;
    Some((wait, rest))
}
