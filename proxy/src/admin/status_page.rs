//! A page for people who open the admin port in a browser. It loads nothing and runs nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;

use super::endpoints;
use super::state::AdminState;
use crate::report::usage::local_time;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// `GET /`
pub(super) async fn page(State(state): State<Arc<AdminState>>) -> Response {
    let status = state.config.status();
    let health = state.recorder().health();
    let since = local_time(status.loaded_at, &jiff::tz::TimeZone::UTC);
    let mut rows = vec![
        ("release", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "takes requests",
            if state.gateway.is_draining() {
                "no: draining"
            } else {
                "yes"
            }
            .to_owned(),
        ),
        (
            "configuration",
            format!(
                "generation {} of {}, since {since}",
                status.generation, status.source
            ),
        ),
        (
            "ledger",
            if health.failing {
                "cannot be written"
            } else {
                "written"
            }
            .to_owned(),
        ),
        ("recorded since the start", health.recorded.to_string()),
        ("of those waiting for the disk", health.waiting.to_string()),
        ("lost", health.lost.to_string()),
    ];
    if let Some(refused) = status.last_error {
        rows.push(("last reload refused", refused.message));
    }
    let mut html = String::from(HEAD);
    // Writing to a string cannot fail.
    for (name, value) in rows {
        let _ = writeln!(html, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
    }
    html.push_str("</table>\n<h2>Paths</h2>\n<ul>\n");
    for endpoint in endpoints() {
        let (method, path) = (endpoint.method, endpoint.path);
        let _ = if method == http::Method::GET && !path.contains('{') {
            writeln!(html, "<li><a href=\"{path}\">{path}</a></li>")
        } else {
            writeln!(html, "<li>{method} {path}</li>")
        };
    }
    html.push_str("</ul>\n</html>\n");
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, html).into_response()
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Whippletree</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color-scheme: light dark; }
th { text-align: left; font-weight: normal; opacity: .7; padding-right: 2rem; vertical-align: top; }
td { white-space: pre-wrap; }
</style>
<h1>Whippletree</h1>
<table>
";

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
