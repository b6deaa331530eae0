//! Totals over the ledger, by any dimension and period.
//!
//! Problem: a sum of money in SQL overflows 64 bits, and SQL knows no days of a place. Idea: rows
//! are read in one pass and added up here, in 128 bits. What was settled, what expired (and is
//! charged) and what was adjusted counts; reservations do not. A request counts once, where its last
//! attempt went; a request that was refused before any attempt has no ledger entry and no part in
//! this. Limits: the pass costs about a microsecond per entry; there are at most [`GROUPS`] groups.

use std::collections::HashMap;
use std::str::FromStr;

use jiff::tz::TimeZone;
use rusqlite::types::ValueRef;
use rusqlite::{Row, params_from_iter};
use serde::Serialize;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::MoneySum;

use super::StoreError;
use super::calendar::{self, Bucket, Period};
use super::query::{Query, Reader};

/// The most groups of one answer.
pub const GROUPS: usize = 100_000;

/// What totals are grouped by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// The form of API.
    Api,
    /// The client program.
    Harness,
    /// The virtual key's name.
    Key,
    /// The vendor's name of the model: what follows the provider in the target.
    Model,
    /// The provider: what precedes the model in the target.
    Provider,
    /// The route.
    Route,
    /// The value of a tag.
    Tag(String),
    /// `provider/model`.
    Target,
    /// The agent run.
    Task,
    /// Who pays.
    Tenant,
    /// The end user.
    User,
}

impl Dimension {
    /// The column that it is read from.
    const fn column(&self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Harness => "harness",
            Self::Key => "key",
            Self::Model | Self::Provider | Self::Target => "target",
            Self::Route => "route",
            Self::Tag(_) => "tags",
            Self::Task => "task",
            Self::Tenant => "tenant",
            Self::User => "user",
        }
    }

    /// Its value, as it stands in `column`.
    fn value<'a>(&self, column: &'a str) -> Option<std::borrow::Cow<'a, str>> {
        let (provider, model) = column.split_once('/').unwrap_or((column, ""));
        match self {
            Self::Model => Some(model.into()),
            Self::Provider => Some(provider.into()),
            Self::Tag(name) => {
                let mut tags: HashMap<String, String> = serde_json::from_str(column).ok()?;
                tags.remove(name).map(Into::into)
            }
            Self::Api
            | Self::Harness
            | Self::Key
            | Self::Route
            | Self::Target
            | Self::Task
            | Self::Tenant
            | Self::User => Some(column.into()),
        }
    }
}

impl std::fmt::Display for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model => f.write_str("model"),
            Self::Provider => f.write_str("provider"),
            Self::Tag(name) => write!(f, "tag:{name}"),
            _ => f.write_str(self.column()),
        }
    }
}

/// The text names no dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected tenant, key, user, task, provider, model, target, route, harness, api or tag:NAME"
)]
pub struct InvalidDimension;

impl FromStr for Dimension {
    type Err = InvalidDimension;

    fn from_str(text: &str) -> Result<Self, InvalidDimension> {
        Ok(match text {
            "api" => Self::Api,
            "harness" => Self::Harness,
            "key" => Self::Key,
            "model" => Self::Model,
            "provider" => Self::Provider,
            "route" => Self::Route,
            "target" => Self::Target,
            "task" => Self::Task,
            "tenant" => Self::Tenant,
            "user" => Self::User,
            _ => match text.strip_prefix("tag:") {
                Some(name) if !name.is_empty() => Self::Tag(name.to_owned()),
                _ => return Err(InvalidDimension),
            },
        })
    }
}

/// What to add up.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// One row for each combination of values.
    pub group_by: Vec<Dimension>,
    /// And for each of these spans; `None` is one for all.
    pub bucket: Option<Bucket>,
    /// Where hours, days and months are.
    pub zone: TimeZone,
    /// Entries not before.
    pub from: Option<UnixTime>,
    /// Entries before.
    pub to: Option<UnixTime>,
    /// Only entries with one of these values, for each dimension named.
    pub only: Vec<(Dimension, Vec<String>)>,
}

impl Default for UsageQuery {
    fn default() -> Self {
        Self {
            group_by: Vec::new(),
            bucket: None,
            zone: TimeZone::UTC,
            from: None,
            to: None,
            only: Vec::new(),
        }
    }
}

/// The total of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Its span; `None` when spans were not asked for.
    pub period: Option<Period>,
    /// The values, in the order of [`UsageQuery::group_by`]; `None` where entries have none.
    pub group: Vec<Option<String>>,
    /// The sums.
    pub totals: Totals,
}

/// Sums of ledger entries. Parts are `None` where no entry reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests whose last attempt is here.
    pub requests: u64,
    /// Attempts, failed ones too.
    pub attempts: u64,
    /// Tokens.
    pub usage: UsageSum,
    /// Everything.
    pub cost: MoneySum,
    /// The part of it that rests on estimated usage.
    pub estimated_cost: MoneySum,
}

/// Sums of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageSum {
    /// Everything read.
    pub input_tokens: u128,
    /// Of it, read from vendors' caches.
    pub cache_read_tokens: Option<u128>,
    /// Of it, written to vendors' caches with a short life.
    pub cache_write_5m_tokens: Option<u128>,
    /// Of it, written to vendors' caches with a long life.
    pub cache_write_1h_tokens: Option<u128>,
    /// Everything written.
    pub output_tokens: u128,
    /// Of it, reasoning.
    pub reasoning_tokens: Option<u128>,
    /// Audio within the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_input_tokens: Option<u128>,
    /// Audio within the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_output_tokens: Option<u128>,
    /// Some of it is the gateway's estimate.
    pub estimated: bool,
}

/// The columns that totals are made of; dimensions follow.
const MEASURES: &str = "time, last, estimated, cost_pico, input, cache_read, cache_write_5m, \
     cache_write_1h, output, reasoning, audio_input, audio_output";

/// How many those are.
const FIRST_DIMENSION: usize = 12;

impl Totals {
    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let tokens = |i| -> rusqlite::Result<Option<u128>> {
            let count: Option<i64> = row.get(i)?;
            Ok(count.map(|count| u128::from(count.unsigned_abs())))
        };
        let estimated: bool = row.get(2)?;
        let cost = whippletree_policies::units::Money::from_pico(row.get(3)?);
        self.attempts += 1;
        self.requests += u64::from(row.get::<_, bool>(1)?);
        self.cost.add(cost);
        if estimated {
            self.estimated_cost.add(cost);
        }
        let usage = &mut self.usage;
        usage.estimated |= estimated;
        usage.input_tokens += tokens(4)?.unwrap_or(0);
        usage.output_tokens += tokens(8)?.unwrap_or(0);
        add_part(&mut usage.cache_read_tokens, tokens(5)?);
        add_part(&mut usage.cache_write_5m_tokens, tokens(6)?);
        add_part(&mut usage.cache_write_1h_tokens, tokens(7)?);
        add_part(&mut usage.reasoning_tokens, tokens(9)?);
        add_part(&mut usage.audio_input_tokens, tokens(10)?);
        add_part(&mut usage.audio_output_tokens, tokens(11)?);
        Ok(())
    }
}

fn add_part(sum: &mut Option<u128>, part: Option<u128>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or(0) + part);
    }
}

impl Reader {
    /// Totals, ordered by span, then the dearest first.
    ///
    /// # Errors
    ///
    /// There are more than [`GROUPS`] groups, or SQLite fails.
    pub fn usage(&self, query: &UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
        let sql = statement(query);
        let mut groups = Groups::new(query);
        self.with(|db| {
            let mut prepared = db.prepare_cached(&sql.sql)?;
            let mut rows = prepared.query(params_from_iter(&sql.values))?;
            while let Some(row) = rows.next()? {
                groups.add(row)?;
            }
            Ok(())
        })?;
        let mut rows: Vec<_> = groups.found.into_values().collect();
        rows.sort_by(|a, b| {
            let dearest = b.totals.cost.cmp(&a.totals.cost);
            a.period
                .cmp(&b.period)
                .then(dearest)
                .then_with(|| a.group.cmp(&b.group))
        });
        Ok(rows)
    }
}

/// Columns by name: the measures, then one for each dimension of `group_by` and of `only`.
fn statement(query: &UsageQuery) -> Query {
    let filters = query.only.iter().map(|(dimension, _)| dimension);
    let mut select = format!("SELECT {MEASURES}");
    for dimension in query.group_by.iter().chain(filters) {
        select.push_str(", ");
        select.push_str(dimension.column());
    }
    select.push_str(" FROM ledger");
    let mut sql = Query::new(&select);
    sql.when("kind IN ('settle', 'expire', 'adjust')", []);
    sql.between(query.from, query.to);
    sql
}

/// Groups under way.
struct Groups<'a> {
    query: &'a UsageQuery,
    /// Entries come nearly in the order of time, so the next one is mostly in the same span.
    period: Option<Period>,
    key: Vec<u8>,
    found: HashMap<Vec<u8>, UsageRow>,
}

impl<'a> Groups<'a> {
    fn new(query: &'a UsageQuery) -> Self {
        Self {
            query,
            period: None,
            key: Vec::new(),
            found: HashMap::new(),
        }
    }

    fn add(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        if !self.is_wanted(row)? {
            return Ok(());
        }
        self.key.clear();
        let period = self.period_of(UnixTime(row.get(0)?))?;
        if let Some(period) = period {
            self.key.extend_from_slice(&period.from.0.to_be_bytes());
        }
        for (i, dimension) in self.query.group_by.iter().enumerate() {
            match value(row, FIRST_DIMENSION + i, dimension)? {
                None => self.key.push(0),
                Some(value) => {
                    self.key.push(1);
                    self.key
                        .extend_from_slice(&(value.len() as u64).to_be_bytes());
                    self.key.extend_from_slice(value.as_bytes());
                }
            }
        }
        if let Some(group) = self.found.get_mut(self.key.as_slice()) {
            group.totals.add(row)?;
            return Ok(());
        }
        if self.found.len() >= GROUPS {
            return Err(StoreError::TooManyGroups);
        }
        let mut group = Vec::with_capacity(self.query.group_by.len());
        for (i, dimension) in self.query.group_by.iter().enumerate() {
            group.push(value(row, FIRST_DIMENSION + i, dimension)?.map(Into::into));
        }
        let mut totals = Totals::default();
        totals.add(row)?;
        self.found.insert(
            self.key.clone(),
            UsageRow {
                period,
                group,
                totals,
            },
        );
        Ok(())
    }

    fn is_wanted(&self, row: &Row<'_>) -> Result<bool, StoreError> {
        let first = FIRST_DIMENSION + self.query.group_by.len();
        for (i, (dimension, values)) in self.query.only.iter().enumerate() {
            let Some(found) = value(row, first + i, dimension)? else {
                return Ok(false);
            };
            if !values.iter().any(|value| *value == found) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn period_of(&mut self, time: UnixTime) -> Result<Option<Period>, StoreError> {
        let Some(bucket) = self.query.bucket else {
            return Ok(None);
        };
        if let Some(period) = self.period.filter(|period| period.contains(time)) {
            return Ok(Some(period));
        }
        let period = calendar::period(bucket, time, &self.query.zone)?;
        self.period = Some(period);
        Ok(Some(period))
    }
}

fn value<'a>(
    row: &'a Row<'_>,
    column: usize,
    dimension: &Dimension,
) -> rusqlite::Result<Option<std::borrow::Cow<'a, str>>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        text => Ok(dimension.value(text.as_str()?)),
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
