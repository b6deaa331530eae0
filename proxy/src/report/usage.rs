//! Usage totals as JSON and CSV.
//!
//! Both have the same fields under the same names. Money is a decimal string of dollars, exact. In
//! CSV, a text that a spreadsheet would take for a formula is put after an apostrophe, because users
//! and tasks are named by clients.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use whippletree_policies::time::UnixTime;

use crate::store::usage::{UsageQuery, UsageRow};

/// A form of totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180 with a header.
    Csv,
    /// `{"rows": […], "next_cursor"}`.
    Json,
}

impl Format {
    /// The name in a query.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }
}

/// The text names no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected json or csv")]
pub struct InvalidFormat;

impl FromStr for Format {
    type Err = InvalidFormat;

    fn from_str(text: &str) -> Result<Self, InvalidFormat> {
        match text {
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            _ => Err(InvalidFormat),
        }
    }
}

/// A total with what it takes to print it.
#[derive(Debug)]
struct Shown<'a> {
    query: &'a UsageQuery,
    row: &'a UsageRow,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    rows: Vec<Shown<'a>>,
    next_cursor: Option<String>,
}

/// A page of rows as JSON.
///
/// # Errors
///
/// A value cannot be written, which writing to memory does not do.
pub fn json(
    query: &UsageQuery,
    rows: &[UsageRow],
    next_cursor: Option<String>,
) -> Result<Vec<u8>, serde_json::Error> {
    let rows = rows.iter().map(|row| Shown { query, row }).collect();
    serde_json::to_vec(&Answer { rows, next_cursor })
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let totals = &self.row.totals;
        let mut map = serializer.serialize_map(None)?;
        if let Some(period) = self.row.period {
            map.serialize_entry("from", &local_time(period.from, &self.query.zone))?;
            map.serialize_entry("to", &local_time(period.to, &self.query.zone))?;
        }
        for (dimension, value) in self.query.group_by.iter().zip(&self.row.group) {
            map.serialize_entry(&dimension.to_string(), value)?;
        }
        map.serialize_entry("requests", &totals.requests)?;
        map.serialize_entry("attempts", &totals.attempts)?;
        map.serialize_entry("usage", &totals.usage)?;
        map.serialize_entry("cost_usd", &totals.cost)?;
        map.serialize_entry("estimated_cost_usd", &totals.estimated_cost)?;
        map.end()
    }
}

/// RFC 3339 with the offset of the place; the bare number for what is beyond the calendar.
pub fn local_time(time: UnixTime, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(time.0).map_or_else(
        |_| time.0.to_string(),
        |at| {
            let local = at.to_zoned_datetime(zone.clone());
            local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        },
    )
}

/// Names of the columns, in order.
pub fn header(query: &UsageQuery) -> Vec<String> {
    let mut names = Vec::new();
    if query.bucket.is_some() {
        names.extend(["from".to_owned(), "to".to_owned()]);
    }
    names.extend(query.group_by.iter().map(ToString::to_string));
    names.extend(COLUMNS.map(str::to_owned));
    names
}

const COLUMNS: [&str; 10] = [
    "requests",
    "attempts",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
    "estimated_cost_usd",
];

/// The fields of a row, as [`header`] names them. What was not reported is empty.
pub fn fields(query: &UsageQuery, row: &UsageRow) -> Vec<String> {
    let mut fields = Vec::new();
    if let Some(period) = row.period {
        fields.push(local_time(period.from, &query.zone));
        fields.push(local_time(period.to, &query.zone));
    }
    fields.extend(
        row.group
            .iter()
            .map(|value| value.clone().unwrap_or_default()),
    );
    let (totals, usage) = (&row.totals, &row.totals.usage);
    let part = |part: Option<u128>| part.map(|part| part.to_string()).unwrap_or_default();
    fields.extend([
        totals.requests.to_string(),
        totals.attempts.to_string(),
        usage.input_tokens.to_string(),
        part(usage.cache_read_tokens),
        part(usage.cache_write_5m_tokens),
        part(usage.cache_write_1h_tokens),
        usage.output_tokens.to_string(),
        part(usage.reasoning_tokens),
        totals.cost.to_string(),
        totals.estimated_cost.to_string(),
    ]);
    fields
}

/// All rows as CSV (RFC 4180) with a header.
///
/// # Errors
///
/// A field cannot be written, which writing to memory does not do.
pub fn csv(query: &UsageQuery, rows: &[UsageRow]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    writer.write_record(header(query))?;
    for row in rows {
        writer.write_record(fields(query, row).into_iter().map(no_formula))?;
    }
    writer
        .into_inner()
        .map_err(|error| error.into_error().into())
}

/// Amounts may be negative; everything else that begins like a formula is a name.
fn no_formula(field: String) -> String {
    let is_number = field.strip_prefix('-').is_some_and(|rest| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    if field.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number {
        format!("'{field}")
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use whippletree_policies::units::MoneySum;

    use super::*;
    use crate::store::calendar::{Bucket, Period};
    use crate::store::usage::{Dimension, Totals, UsageSum};

    fn example() -> (UsageQuery, Vec<UsageRow>) {
        let query = UsageQuery {
            group_by: vec![Dimension::Tenant, Dimension::Tag("team".to_owned())],
            bucket: Some(Bucket::Day),
            zone: TimeZone::get("Europe/Berlin").unwrap(),
            ..UsageQuery::default()
        };
        let period = Period {
            from: UnixTime(1_774_738_800_000),
            to: UnixTime(1_774_821_600_000),
        };
        let totals = Totals {
            requests: 2,
            attempts: 3,
            usage: UsageSum {
                input_tokens: u128::from(u64::MAX) * 4,
                cache_read_tokens: Some(0),
                ..UsageSum::default()
            },
            cost: MoneySum::from_pico(20_000_000_000_000_000_001),
            estimated_cost: MoneySum::from_pico(-5),
        };
        let group = vec![Some("=cmd|' /C calc'!A0".to_owned()), None];
        let rows = vec![UsageRow {
            period: Some(period),
            group,
            totals,
        }];
        (query, rows)
    }

    #[test]
    fn rows_as_json() {
        let (query, rows) = example();
        let text = String::from_utf8(json(&query, &rows, None).unwrap()).unwrap();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn rows_as_csv_hold_no_formula() {
        let (query, rows) = example();
        let text = String::from_utf8(csv(&query, &rows).unwrap()).unwrap();
        insta::assert_snapshot!(text);
    }
}
