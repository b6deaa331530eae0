//! What keeps the gateway running: probes, metrics, configuration, targets, keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use whippletree_policies::ids::{KeyIndex, ProviderId, TargetId};
use whippletree_policies::outcome::Class;
use whippletree_policies::route::breaker::BreakerState;
use whippletree_policies::route::health::{KeyStanding, Standing};
use whippletree_policies::time::{Instant, UnixTime};

use super::problem::Problem;
use super::state::AdminState;
use crate::clock;
use crate::config::reload::{Cause, Reloaded, Status};

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// `GET /readyz`: it takes requests and can record them.
pub(super) async fn ready(State(state): State<Arc<AdminState>>) -> (StatusCode, Json<Value>) {
    let status = if state.gateway.is_draining() {
        "draining"
    } else if state.recorder().health().failing {
        "ledger_failing"
    } else {
        return (StatusCode::OK, Json(json!({"status": "ok"})));
    };
    (
        StatusCode::SERVICE_UNAVAILABLE,
        Json(json!({"status": status})),
    )
}

/// `GET /metrics`
pub(super) async fn metrics(State(state): State<Arc<AdminState>>) -> Response {
    state.refresh_metrics();
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (kind, state.metrics.encode()).into_response()
}

/// `GET /admin/v1/config`
pub(super) async fn config(State(state): State<Arc<AdminState>>) -> Json<Status> {
    Json(state.config.status())
}

/// `POST /admin/v1/reload`: what a refused configuration says wrong is the answer's detail.
pub(super) async fn reload(State(state): State<Arc<AdminState>>) -> Result<Json<Value>, Problem> {
    let live = Arc::clone(&state.config);
    let done = tokio::task::spawn_blocking(move || live.reload(Cause::Order)).await;
    match done {
        Ok(Ok(reloaded)) => {
            let status = state.config.status();
            Ok(Json(json!({
                "changed": matches!(reloaded, Reloaded::Changed { .. }),
                "generation": status.generation,
                "hash": status.hash,
                "loaded_at": status.loaded_at,
                "waiting_for_restart": status.waiting_for_restart,
            })))
        }
        Ok(Err(error)) => {
            let refused = state.config.refused();
            let detail = refused.map_or_else(|| error.to_string(), |refused| refused.message);
            Err(Problem::unprocessable(detail))
        }
        Err(_) => Err(Problem::unavailable(
            "the reload was broken off; the log says why",
        )),
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Targets {
    targets: Vec<Target>,
    next_cursor: Option<String>,
}

/// A target that is configured or was used.
#[derive(Debug, Serialize)]
struct Target {
    #[serde(rename = "target")]
    id: TargetId,
    routes: Vec<String>,
    /// Whether requests are sent to it.
    breaker: &'static str,
    /// When an open breaker tries again.
    opens_at: Option<UnixTime>,
    /// Why it is left alone until it is shown to work again.
    shut: Option<Class>,
    in_flight: u32,
    keys: Vec<Key>,
}

#[derive(Debug, Serialize)]
struct Key {
    /// Position in the provider's `keys`.
    #[serde(rename = "key")]
    position: u16,
    breaker: &'static str,
    /// Why it is not used at any target of the provider.
    locked: Option<Class>,
    /// Until when it cools.
    cooling_until: Option<UnixTime>,
}

/// `GET /admin/v1/targets`
pub(super) async fn targets(State(state): State<Arc<AdminState>>) -> Json<Targets> {
    Json(Targets {
        targets: all_targets(&state),
        next_cursor: None,
    })
}

/// `POST /admin/v1/targets/{id}/restore`: a person says that a target works again. The `/` within
/// its name is written `%2F`.
pub(super) async fn restore(
    State(state): State<Arc<AdminState>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    if !all_targets(&state)
        .iter()
        .any(|target| target.id.as_str() == id)
    {
        return Err(Problem::not_found(
            "no target of this name is configured or was used",
        ));
    }
    let was_shut = state.gateway.restore(&TargetId::from(id.as_str()));
    Ok(Json(json!({"target": id, "was_shut": was_shut})))
}

/// `POST /admin/v1/providers/{id}/keys/{key}/unlock`: a person says that a provider's key works
/// again at all its targets. The key is its position in the provider's `keys`.
pub(super) async fn unlock(
    State(state): State<Arc<AdminState>>,
    Path((id, key)): Path<(String, u16)>,
) -> Result<Json<Value>, Problem> {
    let applied = state.config.applied();
    let provider = applied
        .loaded
        .config
        .providers
        .get(&ProviderId::from(id.as_str()));
    if provider.is_none_or(|provider| usize::from(key) >= provider.keys.len()) {
        return Err(Problem::not_found("no provider has a key at this position"));
    }
    let was_locked = state.gateway.unlock(&id, KeyIndex(key));
    Ok(Json(
        json!({"provider": id, "key": key, "was_locked": was_locked}),
    ))
}

fn all_targets(state: &AdminState) -> Vec<Target> {
    let applied = state.config.applied();
    let mut routes: BTreeMap<TargetId, Vec<String>> = BTreeMap::new();
    for route in applied.loaded.config.routes.values() {
        for target in &route.targets {
            routes
                .entry(target.id.clone())
                .or_default()
                .push(route.id.to_string());
        }
    }
    let mut standings: BTreeMap<TargetId, Standing> = BTreeMap::new();
    for standing in state.gateway.standings() {
        routes.entry(standing.target.clone()).or_default();
        standings.insert(standing.target.clone(), standing);
    }
    let now = (clock::now(), clock::unix_now());
    let show = |(target, routes): (TargetId, Vec<String>)| {
        let standing = standings.get(&target);
        let state_of = standing.map_or(BreakerState::Closed, |standing| standing.breaker);
        Target {
            routes,
            breaker: name(state_of),
            opens_at: match state_of {
                BreakerState::Open { until } => Some(on_the_wall(until, now)),
                BreakerState::Closed | BreakerState::HalfOpen => None,
            },
            shut: standing.and_then(|standing| standing.shut),
            in_flight: state.gateway.in_flight(&target),
            keys: standing.map_or_else(Vec::new, |standing| {
                standing.keys.iter().map(|key| show_key(key, now)).collect()
            }),
            id: target,
        }
    };
    routes.into_iter().map(show).collect()
}

fn show_key(standing: &KeyStanding, now: (Instant, UnixTime)) -> Key {
    Key {
        position: standing.key.0,
        breaker: name(standing.breaker),
        locked: standing.locked,
        cooling_until: standing.cooling_until.map(|until| on_the_wall(until, now)),
    }
}

const fn name(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::HalfOpen => "half_open",
        BreakerState::Open { .. } => "open",
    }
}

/// An instant as the wall clock will show it, if nobody sets that.
fn on_the_wall(instant: Instant, (now, wall): (Instant, UnixTime)) -> UnixTime {
    let millis = i64::try_from(instant.since(now).as_millis()).unwrap_or(i64::MAX);
    UnixTime(wall.0.saturating_add(millis))
}

/// `GET /admin/v1/keys`: the names of virtual keys. Their secrets are not kept, so a key is shown by
/// the beginning of its hash.
pub(super) async fn keys(State(state): State<Arc<AdminState>>) -> Json<Value> {
    let applied = state.config.applied();
    let mut keys: Vec<_> = applied.loaded.config.keys.values().collect();
    keys.sort_by(|a, b| (&a.tenant.id, &a.id).cmp(&(&b.tenant.id, &b.id)));
    let show = |key: &&Arc<crate::config::Key>| {
        let [a, b, c, d, ..] = key.sha256;
        json!({
            "id": format!("{}/{}", key.tenant.id, key.id),
            "name": key.id,
            "tenant": key.tenant.id,
            "sha256_begins": format!("{a:02x}{b:02x}{c:02x}{d:02x}"),
        })
    };
    let keys: Vec<Value> = keys.iter().map(show).collect();
    Json(json!({"keys": keys, "next_cursor": null}))
}
