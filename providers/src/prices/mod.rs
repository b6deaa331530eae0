//! List prices: which card prices a call of that vendor, model and moment.
//!
//! A price has dates (it changes), hours (DeepSeek charges twice as much while China works) and a
//! place where it was read. So a list is rows, and a look-up says which row it used: a ledger line
//! keeps that version and can be explained years later. [`PriceList::builtin`] is the list in
//! `prices.toml` beside this crate's manifest; an operator's rows go before it. [`import`] reads the
//! two public catalogues, and [`compare`] lays two lists side by side, for they disagree.
//!
//! Limits: hours are those of UTC and weekdays those of their start; public holidays, which DeepSeek
//! exempts from its peak, are not known, so they are charged at the peak.

pub mod compare;
mod decimal;
pub mod import;
#[cfg(test)]
mod tests;
mod window;

use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use whippletree_policies::cost::PriceCard;
use whippletree_policies::time::UnixTime;

pub use self::decimal::{Exactness, InvalidDecimal, pico_per_token};
pub use self::window::{InvalidWindow, Window};

/// One price: of some models, at a vendor, from a day on, perhaps at some hours only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The vendor, by its kind in the configuration.
    pub vendor: String,
    /// Names of models; `*` stands for any characters.
    pub models: Vec<String>,
    /// The first moment at which it holds; absent: ever since.
    pub from: Option<UnixTime>,
    /// The hours at which it holds; none: always.
    pub windows: Vec<Window>,
    /// Where it was read.
    pub source: String,
    /// The prices.
    pub card: PriceCard,
    /// What a ledger line is to keep: list, vendor, model and day.
    pub version: String,
}

/// Rows that can be looked up.
#[derive(Clone, Debug, Default)]
pub struct PriceList {
    version: String,
    rows: Vec<Row>,
    /// Vendor, then exact name of a model, to the rows that name it.
    exact: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Rows with a pattern, by vendor.
    patterns: HashMap<String, Vec<usize>>,
}

/// Why a price list was refused.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPriceList {
    /// Not TOML, or not of the form of a list.
    #[error("price list: {0}")]
    Form(#[from] toml::de::Error),
    /// A day that does not exist.
    #[error("price of {model} at {vendor}: from = \"{from}\": expected a day such as 2026-11-30")]
    Day {
        /// The vendor of the row.
        vendor: String,
        /// The first model of the row.
        model: String,
        /// What is written.
        from: String,
    },
    /// A row without models.
    #[error("a price at {vendor} names no model")]
    NoModel {
        /// The vendor of the row.
        vendor: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenList {
    version: String,
    #[serde(default, rename = "price")]
    prices: Vec<WrittenRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    vendor: String,
    models: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(default)]
    source: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<Window>,
    card: PriceCard,
}

impl PriceList {
    /// The list that comes with the gateway.
    ///
    /// # Errors
    /// [`InvalidPriceList`] when the file in the source tree is broken, which a test rules out.
    pub fn builtin() -> Result<Self, InvalidPriceList> {
        Self::parse(include_str!("../../prices.toml"))
    }

    /// Reads a list in TOML.
    ///
    /// # Errors
    /// [`InvalidPriceList`] names the row and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, InvalidPriceList> {
        let written: WrittenList = toml::from_str(text)?;
        let mut rows = Vec::with_capacity(written.prices.len());
        for row in written.prices {
            let Some(model) = row.models.first().cloned() else {
                return Err(InvalidPriceList::NoModel { vendor: row.vendor });
            };
            let from = match &row.from {
                None => None,
                Some(day) => Some(start_of(day).ok_or_else(|| InvalidPriceList::Day {
                    vendor: row.vendor.clone(),
                    model: model.clone(),
                    from: day.clone(),
                })?),
            };
            rows.push(Row {
                vendor: row.vendor,
                models: row.models,
                from,
                windows: row.windows,
                source: row.source,
                card: row.card,
                version: String::new(),
            });
        }
        Ok(Self::new(&written.version, rows))
    }

    /// A list of rows. Their versions are written anew.
    pub fn new(version: &str, rows: Vec<Row>) -> Self {
        let mut list = Self {
            version: version.to_owned(),
            rows,
            ..Self::default()
        };
        for (i, row) in list.rows.iter_mut().enumerate() {
            row.version = version_of(version, row);
            for model in &row.models {
                if model.contains('*') {
                    list.patterns.entry(row.vendor.clone()).or_default().push(i);
                } else {
                    let models = list.exact.entry(row.vendor.clone()).or_default();
                    models.entry(model.clone()).or_default().push(i);
                }
            }
        }
        list
    }

    /// The list's own name: what it is and when it was made.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row that prices a call of that model at that moment. A row that names the model goes
    /// before one with a pattern, the longer pattern before the shorter; then a later `from` before
    /// an earlier one, and hours before always.
    pub fn look_up(&self, vendor: &str, model: &str, at: UnixTime) -> Option<&Row> {
        // Another door to the same house.
        let vendor = if vendor == "gemini-openai" {
            "gemini"
        } else {
            vendor
        };
        let exact = self.exact.get(vendor).and_then(|models| models.get(model));
        let named = exact.into_iter().flatten();
        let best = |rows: &mut dyn Iterator<Item = (usize, usize)>| {
            rows.filter_map(|(length, i)| Some((length, self.rows.get(i)?)))
                .filter(|(_, row)| row.holds(at))
                .max_by_key(|(length, row)| (*length, row.from, !row.windows.is_empty()))
                .map(|(_, row)| row)
        };
        best(&mut named.map(|i| (0, *i))).or_else(|| {
            let rows = self.patterns.get(vendor).into_iter().flatten();
            best(&mut rows.filter_map(|i| {
                let patterns = self.rows.get(*i)?.models.iter();
                let length = patterns
                    .filter(|pattern| matches(pattern, model))
                    .map(String::len)
                    .max()?;
                Some((length, *i))
            }))
        })
    }

    /// The list as TOML, in the form that [`PriceList::parse`] reads.
    ///
    /// # Errors
    /// When an amount passes what money can hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let row = |row: &Row| WrittenRow {
            vendor: row.vendor.clone(),
            models: row.models.clone(),
            from: row.from.map(day_of),
            source: row.source.clone(),
            windows: row.windows.clone(),
            card: row.card.clone(),
        };
        toml::to_string(&WrittenList {
            version: self.version.clone(),
            prices: self.rows.iter().map(row).collect(),
        })
    }
}

impl Row {
    /// Whether it holds at that moment.
    pub fn holds(&self, at: UnixTime) -> bool {
        self.from.is_none_or(|from| from <= at)
            && (self.windows.is_empty() || self.windows.iter().any(|window| window.covers(at)))
    }
}

fn version_of(list: &str, row: &Row) -> String {
    let model = row.models.first().map_or("", String::as_str);
    let day = row.from.map(|from| format!("@{}", day_of(from)));
    let hours = if row.windows.is_empty() { "" } else { "+hours" };
    format!(
        "{list}:{}/{model}{}{hours}",
        row.vendor,
        day.unwrap_or_default()
    )
}

/// Midnight in UTC at which a day begins.
fn start_of(day: &str) -> Option<UnixTime> {
    let date: Date = day.parse().ok()?;
    let midnight = TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(UnixTime(midnight.as_millisecond()))
}

fn day_of(at: UnixTime) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map(|timestamp| TimeZone::UTC.to_datetime(timestamp).date().to_string())
        .unwrap_or_default()
}

/// Whether a name fits a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    // A model that no row names is held against every pattern of its vendor: most differ at once.
    let letters = pattern.bytes().zip(name.bytes());
    let mut before_star = letters.take_while(|(p, _)| *p != b'*');
    if before_star.any(|(p, n)| p != n) {
        return false;
    }
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = left.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}
