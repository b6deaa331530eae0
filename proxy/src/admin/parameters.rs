//! The query of a URL: each parameter known, understood, and named at most once.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use whippletree_policies::time::UnixTime;

use super::problem::Problem;

/// Parameters not yet asked for.
#[derive(Debug)]
pub(super) struct Parameters {
    rest: Vec<(String, String)>,
}

impl Parameters {
    pub(super) fn new(pairs: Vec<(String, String)>) -> Self {
        Self { rest: pairs }
    }

    /// The one value of `name`. An empty one is as none.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let mut values = self.all(name);
        if values.len() > 1 {
            return Err(Problem::bad_request(format!("{name}: expected one value")));
        }
        Ok(values.pop())
    }

    /// All values of `name`, also written `name[]`.
    pub(super) fn all(&mut self, name: &'static str) -> Vec<String> {
        let is_it = |(key, _): &mut (String, String)| {
            key == name || key.strip_suffix("[]").is_some_and(|key| key == name)
        };
        let values = self.rest.extract_if(.., is_it).map(|(_, value)| value);
        values.filter(|value| !value.is_empty()).collect()
    }

    /// All values of `name`, also separated by commas.
    pub(super) fn list<T>(&mut self, name: &'static str) -> Result<Vec<T>, Problem>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let values = self.all(name);
        let parts = values.iter().flat_map(|value| value.split(','));
        parts.map(|part| understood(name, part.trim())).collect()
    }

    /// The value of `name`, read.
    pub(super) fn one<T>(&mut self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let text = self.text(name)?;
        text.map(|text| understood(name, &text)).transpose()
    }

    /// An instant: RFC 3339, milliseconds since 1970, or a date, which is its midnight in `zone`.
    pub(super) fn time(
        &mut self,
        name: &'static str,
        zone: &TimeZone,
    ) -> Result<Option<UnixTime>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let time = read_time(&text, zone);
        let expected = "expected a time such as 2026-11-30T18:00:00Z, or a date";
        time.map(Some)
            .ok_or_else(|| Problem::bad_request(format!("{name}: {expected}")))
    }

    /// How many items a page has.
    pub(super) fn limit(&mut self, usual: u32, most: u32) -> Result<u32, Problem> {
        let limit = self
            .text("limit")?
            .map_or(Some(usual), |text| text.parse().ok());
        limit
            .filter(|limit| (1..=most).contains(limit))
            .ok_or_else(|| Problem::bad_request(format!("limit: expected 1 to {most}")))
    }

    /// A whole number.
    pub(super) fn integer(&mut self, name: &'static str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let number = text.parse().map(Some);
        number.map_err(|_| Problem::bad_request(format!("{name}: expected a whole number")))
    }

    /// Refuses what nobody asked for: a filter that is ignored gives a wrong answer.
    pub(super) fn end(self) -> Result<(), Problem> {
        match self.rest.first() {
            None => Ok(()),
            Some((name, _)) => {
                let name: String = name.chars().take(40).collect();
                Err(Problem::bad_request(format!(
                    "there is no parameter {name:?} here"
                )))
            }
        }
    }
}

fn understood<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse()
        .map_err(|error| Problem::bad_request(format!("{name}: {error}")))
}

/// Reads a time as parameters and the command line write it.
pub(crate) fn read_time(text: &str, zone: &TimeZone) -> Option<UnixTime> {
    if let Ok(millis) = text.parse() {
        return Some(UnixTime(millis));
    }
    // A plus sign that was not escaped has become a space.
    let time = text
        .replace(' ', "+")
        .parse::<Timestamp>()
        .ok()
        .or_else(|| {
            let date = text.parse::<Date>().ok().filter(|_| text.len() == 10)?;
            let midnight = date.to_zoned_datetime(zone.clone()).ok()?;
            Some(midnight.timestamp())
        })?;
    Some(UnixTime(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_that_people_write() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let read = |text| read_time(text, &zone).map(|time| time.0);
        assert_eq!(read("2026-11-30T18:00:00Z"), Some(1_796_061_600_000));
        assert_eq!(read("2026-11-30T19:00:00 01:00"), Some(1_796_061_600_000));
        assert_eq!(read("2026-11-30"), Some(1_795_993_200_000));
        assert_eq!(read("1796061600000"), Some(1_796_061_600_000));
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-30T18:00:00"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
