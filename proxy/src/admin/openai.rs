//! Usage and costs in the shapes of OpenAI's administration API, which finance tools read already.
//!
//! A project is a tenant, an API key a virtual key's name, a user what the client calls one, a model
//! the vendor's name of it, and a line item of costs is a model. Batch jobs and service tiers are
//! not told apart: those fields are null. Shapes: `openai-openapi.yaml` 2.3.0, operations
//! `usage-completions` and `usage-costs`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::value::RawValue;
use whippletree_policies::time::UnixTime;

use super::parameters::Parameters;
use super::problem::Problem;
use super::state::AdminState;
use crate::clock;
use crate::store::calendar::Bucket;
use crate::store::usage::{Dimension, Totals, UsageQuery, UsageRow};

/// A page of buckets.
#[derive(Debug, Serialize)]
pub(super) struct Buckets<T> {
    object: &'static str,
    data: Vec<TimeBucket<T>>,
    has_more: bool,
    next_page: Option<String>,
}

#[derive(Debug, Serialize)]
struct TimeBucket<T> {
    object: &'static str,
    start_time: i64,
    end_time: i64,
    results: Vec<T>,
}

#[derive(Debug, Serialize)]
pub(super) struct Completions {
    object: &'static str,
    input_tokens: u128,
    input_cached_tokens: u128,
    input_cache_write_tokens: u128,
    input_uncached_tokens: u128,
    output_tokens: u128,
    input_audio_tokens: u128,
    output_audio_tokens: u128,
    num_model_requests: u64,
    project_id: Option<String>,
    user_id: Option<String>,
    api_key_id: Option<String>,
    model: Option<String>,
    batch: Option<bool>,
    service_tier: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Costs {
    object: &'static str,
    amount: Amount,
    line_item: Option<String>,
    project_id: Option<String>,
    api_key_id: Option<String>,
    quantity: Option<f64>,
    quantity_unit: Option<String>,
}

#[derive(Debug, Serialize)]
struct Amount {
    /// A number as it stands, since a float would round it.
    value: Box<RawValue>,
    currency: &'static str,
}

/// What results can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    ApiKey,
    Batch,
    LineItem,
    Model,
    Project,
    ServiceTier,
    User,
}

impl std::str::FromStr for Group {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "api_key_id" => Ok(Self::ApiKey),
            "batch" => Ok(Self::Batch),
            "line_item" => Ok(Self::LineItem),
            "model" => Ok(Self::Model),
            "project_id" => Ok(Self::Project),
            "service_tier" => Ok(Self::ServiceTier),
            "user_id" => Ok(Self::User),
            _ => Err(
                "expected project_id, user_id, api_key_id, model, line_item, batch or service_tier",
            ),
        }
    }
}

impl Group {
    /// `None` where all our entries have the same value, null.
    const fn dimension(self) -> Option<Dimension> {
        match self {
            Self::ApiKey => Some(Dimension::Key),
            Self::Batch | Self::ServiceTier => None,
            Self::LineItem | Self::Model => Some(Dimension::Model),
            Self::Project => Some(Dimension::Tenant),
            Self::User => Some(Dimension::User),
        }
    }
}

/// The width of buckets with how many a page has.
struct Width {
    bucket: Bucket,
    seconds: i64,
    usual: u32,
    most: u32,
}

const MINUTE: Width = Width {
    bucket: Bucket::Minute,
    seconds: 60,
    usual: 60,
    most: 1440,
};
const HOUR: Width = Width {
    bucket: Bucket::Hour,
    seconds: 3600,
    usual: 24,
    most: 168,
};
const DAY: Width = Width {
    bucket: Bucket::Day,
    seconds: 86_400,
    usual: 7,
    most: 31,
};
const COSTS_DAY: Width = Width { most: 180, ..DAY };

/// `GET /v1/organization/usage/completions`
pub(super) async fn completions(
    State(state): State<Arc<AdminState>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Buckets<Completions>>, Problem> {
    let mut parameters = Parameters::new(pairs);
    let width = match parameters.text("bucket_width")?.as_deref() {
        Some("1m") => MINUTE,
        Some("1h") => HOUR,
        Some("1d") | None => DAY,
        Some(_) => return Err(Problem::bad_request("bucket_width: expected 1m, 1h or 1d")),
    };
    let mut asked = Asked::read(&mut parameters, &width)?;
    asked.only(Dimension::User, parameters.list("user_ids")?);
    asked.only(Dimension::Model, parameters.list("models")?);
    let mut apis = vec!["chat", "completions", "responses"];
    if parameters.one::<bool>("batch")? == Some(true) {
        // No entry is a batch job's.
        apis = vec![""];
    }
    parameters.end()?;
    asked.only(
        Dimension::Api,
        apis.into_iter().map(str::to_owned).collect(),
    );
    asked.answer(&state, &width, Asked::completions).await
}

/// `GET /v1/organization/costs`
pub(super) async fn costs(
    State(state): State<Arc<AdminState>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Buckets<Costs>>, Problem> {
    let mut parameters = Parameters::new(pairs);
    if parameters
        .text("bucket_width")?
        .is_some_and(|width| width != "1d")
    {
        return Err(Problem::bad_request("bucket_width: expected 1d"));
    }
    let asked = Asked::read(&mut parameters, &COSTS_DAY)?;
    parameters.end()?;
    asked.answer(&state, &COSTS_DAY, Asked::costs).await
}

/// A request of either endpoint.
struct Asked {
    groups: Vec<Group>,
    /// The first bucket of this page, in seconds since 1970.
    first: i64,
    /// Buckets of this page.
    buckets: i64,
    /// Where the next page begins.
    next: Option<i64>,
    query: UsageQuery,
}

impl Asked {
    fn read(parameters: &mut Parameters, width: &Width) -> Result<Self, Problem> {
        let start = parameters.integer("start_time")?;
        let Some(start) = start.filter(|start| CALENDAR.contains(start)) else {
            return Err(Problem::bad_request(
                "start_time: expected seconds since 1970",
            ));
        };
        let end = match parameters.integer("end_time")? {
            None => clock::unix_now().0.div_euclid(1000) + 1,
            Some(end) if CALENDAR.contains(&end) => end,
            Some(_) => {
                return Err(Problem::bad_request(
                    "end_time: expected seconds since 1970",
                ));
            }
        };
        let limit = i64::from(parameters.limit(width.usual, width.most)?);
        let page = parameters.integer("page")?;
        let first = page.unwrap_or(start - start.rem_euclid(width.seconds));
        if !CALENDAR.contains(&first) || first.rem_euclid(width.seconds) != 0 {
            return Err(Problem::bad_request(
                "page: expected what an earlier page named as next_page",
            ));
        }
        // Up to the bucket that holds the end.
        let all = (end - first).max(0).div_euclid(width.seconds)
            + i64::from((end - first).rem_euclid(width.seconds) != 0);
        let buckets = all.min(limit);
        let page_end = first + buckets * width.seconds;
        let groups: Vec<Group> = parameters.list("group_by")?;
        let mut asked = Self {
            first,
            buckets,
            next: (buckets < all).then_some(page_end),
            query: UsageQuery {
                group_by: groups
                    .iter()
                    .filter_map(|group| group.dimension())
                    .collect(),
                bucket: Some(width.bucket),
                zone: TimeZone::UTC,
                from: Some(millis(start.max(first))),
                to: Some(millis(end.min(page_end))),
                only: Vec::new(),
            },
            groups,
        };
        asked.only(Dimension::Tenant, parameters.list("project_ids")?);
        asked.only(Dimension::Key, parameters.list("api_key_ids")?);
        Ok(asked)
    }

    fn only(&mut self, dimension: Dimension, values: Vec<String>) {
        if !values.is_empty() {
            self.query.only.push((dimension, values));
        }
    }

    /// Buckets without results are there too.
    async fn answer<T>(
        self,
        state: &AdminState,
        width: &Width,
        show: impl Fn(&Self, &UsageRow) -> T,
    ) -> Result<Json<Buckets<T>>, Problem> {
        let query = self.query.clone();
        let rows = state.read(move |store| store.usage(&query)).await?;
        let mut rows = rows.iter().peekable();
        let mut data = Vec::new();
        for number in 0..self.buckets {
            let start_time = self.first + number * width.seconds;
            let end_time = start_time + width.seconds;
            let mut results = Vec::new();
            let is_here = |row: &&UsageRow| row.period.is_some_and(|p| p.from < millis(end_time));
            while let Some(row) = rows.next_if(is_here) {
                results.push(show(&self, row));
            }
            data.push(TimeBucket {
                object: "bucket",
                start_time,
                end_time,
                results,
            });
        }
        Ok(Json(Buckets {
            object: "page",
            data,
            has_more: self.next.is_some(),
            next_page: self.next.map(|next| next.to_string()),
        }))
    }

    /// The row's value of a group; `None` when it was not asked for.
    fn value(&self, row: &UsageRow, group: Group) -> Option<String> {
        let kept = self
            .groups
            .iter()
            .filter(|group| group.dimension().is_some());
        let mut values = kept.zip(&row.group);
        values
            .find(|(of, _)| **of == group)
            .and_then(|(_, value)| value.clone())
    }

    fn completions(&self, row: &UsageRow) -> Completions {
        let Totals {
            requests, usage, ..
        } = &row.totals;
        let cached = usage.cache_read_tokens.unwrap_or(0);
        let written =
            usage.cache_write_5m_tokens.unwrap_or(0) + usage.cache_write_1h_tokens.unwrap_or(0);
        Completions {
            object: "organization.usage.completions.result",
            input_tokens: usage.input_tokens,
            input_cached_tokens: cached,
            input_cache_write_tokens: written,
            input_uncached_tokens: usage.input_tokens.saturating_sub(cached + written),
            output_tokens: usage.output_tokens,
            input_audio_tokens: usage.audio_input_tokens.unwrap_or(0),
            output_audio_tokens: usage.audio_output_tokens.unwrap_or(0),
            num_model_requests: *requests,
            project_id: self.value(row, Group::Project),
            user_id: self.value(row, Group::User),
            api_key_id: self.value(row, Group::ApiKey),
            model: self.value(row, Group::Model),
            batch: None,
            service_tier: None,
        }
    }

    fn costs(&self, row: &UsageRow) -> Costs {
        let amount = row.totals.cost.to_string();
        Costs {
            object: "organization.costs.result",
            amount: Amount {
                // A decimal is a number of JSON.
                value: RawValue::from_string(amount).unwrap_or_else(|_| RawValue::NULL.to_owned()),
                currency: "usd",
            },
            line_item: self.value(row, Group::LineItem),
            project_id: self.value(row, Group::Project),
            api_key_id: self.value(row, Group::ApiKey),
            quantity: None,
            quantity_unit: None,
        }
    }
}

/// Seconds since 1970 up to the year 9999.
const CALENDAR: std::ops::Range<i64> = 0..253_402_214_400;

const fn millis(seconds: i64) -> UnixTime {
    UnixTime(seconds * 1000)
}
