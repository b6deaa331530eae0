//! Totals for finance.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::header;
use jiff::tz::TimeZone;

use super::parameters::Parameters;
use super::problem::Problem;
use super::state::AdminState;
use crate::report;
use crate::report::usage::Format;
use crate::store::usage::{Dimension, GROUPS, UsageQuery, UsageRow};

/// Dimensions that rows can be picked by.
const PICKED: [(&str, Dimension); 10] = [
    ("api", Dimension::Api),
    ("harness", Dimension::Harness),
    ("key", Dimension::Key),
    ("model", Dimension::Model),
    ("provider", Dimension::Provider),
    ("route", Dimension::Route),
    ("target", Dimension::Target),
    ("task", Dimension::Task),
    ("tenant", Dimension::Tenant),
    ("user", Dimension::User),
];

/// `GET /admin/v1/usage`
pub(super) async fn usage(
    State(state): State<Arc<AdminState>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let mut parameters = Parameters::new(pairs);
    let query = read_query(&mut parameters)?;
    let format = parameters.one("format")?.unwrap_or(Format::Json);
    let limit = parameters.limit(u32::try_from(GROUPS).unwrap_or(u32::MAX), u32::MAX)?;
    let first = parameters.integer("cursor")?.unwrap_or(0);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    parameters.end()?;
    let (query, rows) = state
        .read(move |store| {
            let rows = store.usage(&query)?;
            Ok((query, rows))
        })
        .await?;
    let (page, next) = page_of(&rows, first, limit as usize);
    let unwritten = || Problem::unavailable("the totals could not be written");
    match format {
        Format::Json => {
            let next = next.map(|next| next.to_string());
            let text = report::usage::json(&query, page, next).map_err(|_| unwritten())?;
            Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
        }
        Format::Csv => {
            let text = report::usage::csv(&query, page).map_err(|_| unwritten())?;
            let headers = [
                (
                    header::CONTENT_TYPE,
                    "text/csv; charset=utf-8; header=present",
                ),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=\"usage.csv\"",
                ),
            ];
            Ok((headers, text).into_response())
        }
    }
}

/// What the parameters of `/admin/v1/usage` ask for, without those of pages and forms.
///
/// # Errors
///
/// The first parameter that is not understood, by name.
pub fn query(pairs: Vec<(String, String)>) -> Result<UsageQuery, String> {
    let mut parameters = Parameters::new(pairs);
    let query = read_query(&mut parameters).map_err(Problem::into_detail)?;
    parameters.end().map_err(Problem::into_detail)?;
    Ok(query)
}

fn read_query(parameters: &mut Parameters) -> Result<UsageQuery, Problem> {
    let zone = match parameters.text("time_zone")? {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(&name).map_err(|_| {
            Problem::bad_request("time_zone: expected an IANA name such as Europe/Berlin")
        })?,
    };
    let mut only = Vec::new();
    for (name, dimension) in PICKED {
        let values = parameters.all(name);
        if !values.is_empty() {
            only.push((dimension, values));
        }
    }
    Ok(UsageQuery {
        group_by: parameters.list("group_by")?,
        bucket: parameters.one("bucket")?,
        from: parameters.time("from", &zone)?,
        to: parameters.time("to", &zone)?,
        zone,
        only,
    })
}

/// The rows from number `first`, and where the next page begins.
fn page_of(rows: &[UsageRow], first: usize, limit: usize) -> (&[UsageRow], Option<usize>) {
    let rest = rows.get(first..).unwrap_or_default();
    match rest.get(..limit) {
        Some(page) if page.len() < rest.len() => (page, Some(first + limit)),
        _ => (rest, None),
    }
}
