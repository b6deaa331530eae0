//! The admin plane: what operators, finance and their tools see and change, on a listener of its own.
//!
//! It shares nothing with the data plane but handles: its own thread and runtime, so that a report
//! over a year cannot slow a request down. Reads of the store block, so they run on a few threads
//! of their own. Who may do what stands in [`access`]; every endpoint is in [`endpoints`], from
//! which the router and the tests of [`openapi`] are made.

pub mod access;
mod listen;
mod openai;
pub mod openapi;
mod operations;
mod parameters;
mod problem;
mod records;
mod state;
mod status_page;
mod usage;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use http::Method;

pub use listen::{serve, start};
pub use state::{AdminState, Gateway};
pub use usage::query as usage_query;

use self::access::Access;
use self::problem::Problem;
use crate::config::Role;

/// One path with its method.
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    access: Access,
    handler: MethodRouter<Arc<AdminState>>,
}

/// Everything there is.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let read = |path, handler| Endpoint {
        method: Method::GET,
        path,
        access: Access::Role(Role::Viewer),
        handler,
    };
    let probe = |path, handler| Endpoint {
        access: Access::Anyone,
        ..read(path, handler)
    };
    let change = |path, handler| Endpoint {
        method: Method::POST,
        access: Access::Role(Role::Admin),
        ..read(path, handler)
    };
    vec![
        read("/", get(status_page::page)),
        probe("/healthz", get(operations::alive)),
        probe("/readyz", get(operations::ready)),
        read("/metrics", get(operations::metrics)),
        read("/admin/v1/requests", get(records::requests)),
        read("/admin/v1/requests/{id}", get(records::request)),
        read("/admin/v1/ledger", get(records::ledger)),
        read("/admin/v1/usage", get(usage::usage)),
        read("/admin/v1/targets", get(operations::targets)),
        change("/admin/v1/targets/{id}/restore", post(operations::restore)),
        change(
            "/admin/v1/providers/{id}/keys/{key}/unlock",
            post(operations::unlock),
        ),
        read("/admin/v1/keys", get(operations::keys)),
        read("/admin/v1/config", get(operations::config)),
        change("/admin/v1/reload", post(operations::reload)),
        read("/admin/v1/openapi.json", get(openapi::document)),
        read(
            "/v1/organization/usage/completions",
            get(openai::completions),
        ),
        read("/v1/organization/costs", get(openai::costs)),
    ]
}

/// The whole plane as a service.
pub(crate) fn router(state: &Arc<AdminState>) -> Router {
    let mut router = Router::new();
    for endpoint in endpoints() {
        let guard = (Arc::clone(state), endpoint.access);
        let handler = endpoint
            .handler
            .fallback(|| async { Problem::method_not_allowed() })
            .layer(from_fn_with_state(guard, access::guard));
        router = router.route(endpoint.path, handler);
    }
    router
        .fallback(|| async { Problem::not_found("there is nothing at this path") })
        .layer(axum::middleware::from_fn(listen::frame))
        .with_state(Arc::clone(state))
}

#[cfg(test)]
mod tests;
