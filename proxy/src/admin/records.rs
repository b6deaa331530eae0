//! Requests and ledger entries.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::value::RawValue;
use whippletree_policies::ids::RequestId;

use super::parameters::Parameters;
use super::problem::Problem;
use super::state::AdminState;
use crate::exchange::End;
use crate::store::ledger::{LedgerEntry, LedgerFilter};
use crate::store::query::{Page, RequestFilter};

const USUAL_LIMIT: u32 = 50;
const MOST: u32 = 1000;

#[derive(Debug, Serialize)]
pub(super) struct Requests {
    requests: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// `GET /admin/v1/requests`
pub(super) async fn requests(
    State(state): State<Arc<AdminState>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Requests>, Problem> {
    let mut parameters = Parameters::new(pairs);
    let outcome: Option<Outcome> = parameters.one("outcome")?;
    let filter = RequestFilter {
        tenant: parameters.text("tenant")?,
        task: parameters.text("task")?,
        route: parameters.text("route")?,
        target: parameters.text("target")?,
        outcome: outcome.map(|outcome| outcome.0),
        since: parameters.time("since", &TimeZone::UTC)?,
        until: parameters.time("until", &TimeZone::UTC)?,
    };
    let page = Page {
        limit: parameters.limit(USUAL_LIMIT, MOST)?,
        after: parameters.one("cursor")?,
    };
    parameters.end()?;
    let listed = state
        .read(move |store| store.requests(&filter, &page))
        .await?;
    Ok(Json(Requests {
        requests: listed.items,
        next_cursor: listed.next.map(|cursor| cursor.to_string()),
    }))
}

struct Outcome(End);

impl std::str::FromStr for Outcome {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [
            End::ClientGone,
            End::Failed,
            End::Interrupted,
            End::Ok,
            End::Refused,
        ];
        let found = all.into_iter().find(|end| end.as_str() == text);
        found
            .map(Self)
            .ok_or("expected ok, failed, interrupted, client_gone or refused")
    }
}

/// `GET /admin/v1/requests/{id}`
pub(super) async fn request(
    State(state): State<Arc<AdminState>>,
    Path(id): Path<String>,
) -> Result<Json<Box<RawValue>>, Problem> {
    let id: RequestId =
        id.parse()
            .map_err(|error: whippletree_policies::ids::InvalidRequestId| {
                Problem::bad_request(error.to_string())
            })?;
    let found = state.read(move |store| store.request(id)).await?;
    found
        .map(Json)
        .ok_or_else(|| Problem::not_found("there is no request with this id"))
}

#[derive(Debug, Serialize)]
pub(super) struct Ledger {
    entries: Vec<LedgerEntry>,
    next_cursor: Option<String>,
}

/// `GET /admin/v1/ledger`
pub(super) async fn ledger(
    State(state): State<Arc<AdminState>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Ledger>, Problem> {
    let mut parameters = Parameters::new(pairs);
    let filter = LedgerFilter {
        tenant: parameters.text("tenant")?,
        task: parameters.text("task")?,
        route: parameters.text("route")?,
        target: parameters.text("target")?,
        kind: parameters.one("kind")?,
        request_id: parameters.one("request_id")?,
        since: parameters.time("since", &TimeZone::UTC)?,
        until: parameters.time("until", &TimeZone::UTC)?,
    };
    let page = Page {
        limit: parameters.limit(USUAL_LIMIT, MOST)?,
        after: parameters.one("cursor")?,
    };
    parameters.end()?;
    let listed = state
        .read(move |store| store.ledger(&filter, &page))
        .await?;
    Ok(Json(Ledger {
        entries: listed.items,
        next_cursor: listed.next.map(|cursor| cursor.to_string()),
    }))
}
