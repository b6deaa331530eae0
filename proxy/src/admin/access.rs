//! Who may do what on the admin plane.
//!
//! With tokens configured, a request carries one (`Authorization: Bearer …`), compared in constant
//! time by its SHA-256. Without, only loopback is served: the peer must be, no proxy may have
//! passed the request on, and the name that was asked for must be one of loopback's, or a web page
//! could reach the plane through a name that it makes point here (DNS rebinding). A web page could
//! also send a change without reading the answer, so changes from another origin are refused.
//!
//! Every order that is let through is logged with who gave it and what came of it.
//!
//! The probes `/healthz` and `/readyz` are open: they tell nothing else, and orchestrators ask from
//! elsewhere and without a token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, Method, Uri, header};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::problem::Problem;
use super::state::AdminState;
use crate::config::{AdminToken, Role};

/// Who may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everyone.
    Anyone,
    /// Those of this role and above.
    Role(Role),
}

/// Lets a request pass, or answers it.
pub(super) async fn guard(
    State((state, access)): State<(Arc<AdminState>, Access)>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let Access::Role(needed) = access else {
        return next.run(request).await;
    };
    let applied = state.config.applied();
    let tokens = &applied.loaded.config.admin.tokens;
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|peer| peer.0);
    match role(tokens, peer, &request) {
        Err(problem) => problem.into_response(),
        Ok(role) if role < needed => {
            Problem::forbidden("this token's role may not do this").into_response()
        }
        Ok(_) if reads(request.method()) => next.run(request).await,
        Ok(_) => {
            let token = bearer(request.headers()).and_then(|token| find(tokens, token));
            let by = token.map_or("loopback", |token| &token.name);
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let answer = next.run(request).await;
            let status = answer.status().as_u16();
            tracing::info!(by, %method, path, status, "admin order");
            answer
        }
    }
}

fn reads(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

fn role(
    tokens: &[AdminToken],
    peer: Option<SocketAddr>,
    request: &Request<Body>,
) -> Result<Role, Problem> {
    if tokens.is_empty() {
        let loopback = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        return unguarded(loopback, request).map(|()| Role::Admin);
    }
    let Some(token) = bearer(request.headers()) else {
        return Err(Problem::unauthorized("expected a bearer token of [admin]"));
    };
    find(tokens, token)
        .map(|token| token.role)
        .ok_or_else(|| Problem::unauthorized("this bearer token is not one of [admin]"))
}

/// Looks at every token, so that the time taken says nothing.
fn find<'a>(tokens: &'a [AdminToken], token: &str) -> Option<&'a AdminToken> {
    let hash = Sha256::digest(token);
    let mut found = 0_u64;
    for (number, token) in (1..).zip(tokens) {
        let same: Choice = token.sha256.ct_eq(&hash);
        found.conditional_assign(&number, same);
    }
    let index = usize::try_from(found.checked_sub(1)?).ok()?;
    tokens.get(index)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

/// What is asked of a request when there is no token to tell friend from foe.
fn unguarded(loopback: bool, request: &Request<Body>) -> Result<(), Problem> {
    let headers = request.headers();
    let passed_on = [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-real-ip",
    ];
    if !loopback || passed_on.iter().any(|name| headers.contains_key(*name)) {
        return Err(Problem::forbidden(
            "only loopback is served while no token is configured in [admin]",
        ));
    }
    if !host(request).is_some_and(|host| is_loopback_name(&host)) {
        return Err(Problem::forbidden(
            "expected a host of localhost, 127.0.0.1 or [::1] while no token is configured in [admin]",
        ));
    }
    if !reads(request.method()) && is_foreign(headers) {
        return Err(Problem::forbidden(
            "changes are not taken from other web pages",
        ));
    }
    Ok(())
}

/// The name that was asked for: in HTTP/2 it is in the target.
fn host(request: &Request<Body>) -> Option<String> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.host().to_owned());
    }
    let header = request.headers().get(header::HOST)?.to_str().ok()?;
    let authority: Authority = header.parse().ok()?;
    Some(authority.host().to_owned())
}

fn is_loopback_name(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a browser says that another site's page sends this.
fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text("origin") else {
        return false;
    };
    let origin = origin
        .parse::<Uri>()
        .ok()
        .and_then(|uri| uri.into_parts().authority);
    let asked = text("host").and_then(|host| host.parse::<Authority>().ok());
    origin.is_none() || origin != asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let mut request = Request::builder().method(method).uri("/admin/v1/reload");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn peer(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn answer(tokens: &[AdminToken], from: &str, request: &Request<Body>) -> Result<Role, u16> {
        role(tokens, Some(peer(from)), request)
            .map_err(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn without_a_token_only_loopback_under_its_own_name_is_served() {
        let local = request("GET", &[("host", "localhost:8081")]);
        assert_eq!(answer(&[], "127.0.0.1:5", &local), Ok(Role::Admin));
        assert_eq!(answer(&[], "[::1]:5", &local), Ok(Role::Admin));
        assert_eq!(answer(&[], "[::ffff:127.0.0.1]:5", &local), Ok(Role::Admin));
        assert_eq!(answer(&[], "10.0.0.7:5", &local), Err(403));
        assert_eq!(role(&[], None, &local).map_err(|_| ()), Err(()));
        for host in ["127.0.0.1:8081", "[::1]:8081", "LOCALHOST", "a.localhost:1"] {
            let named = request("GET", &[("host", host)]);
            assert_eq!(
                answer(&[], "127.0.0.1:5", &named),
                Ok(Role::Admin),
                "{host}"
            );
        }
        for host in [
            "evil.example:8081",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.7",
            "",
        ] {
            let rebound = request("GET", &[("host", host)]);
            assert_eq!(answer(&[], "127.0.0.1:5", &rebound), Err(403), "{host}");
        }
        assert_eq!(answer(&[], "127.0.0.1:5", &request("GET", &[])), Err(403));
        let proxied = request(
            "GET",
            &[("host", "localhost"), ("x-forwarded-for", "10.0.0.7")],
        );
        assert_eq!(answer(&[], "127.0.0.1:5", &proxied), Err(403));
    }

    #[test]
    fn changes_are_not_taken_from_other_pages() {
        let ask = |headers: &[(&str, &str)]| {
            let headers = [&[("host", "localhost:8081")], headers].concat();
            answer(&[], "127.0.0.1:5", &request("POST", &headers))
        };
        assert_eq!(ask(&[]), Ok(Role::Admin));
        assert_eq!(ask(&[("origin", "http://localhost:8081")]), Ok(Role::Admin));
        assert_eq!(ask(&[("sec-fetch-site", "same-origin")]), Ok(Role::Admin));
        assert_eq!(ask(&[("origin", "http://evil.example")]), Err(403));
        assert_eq!(ask(&[("origin", "http://localhost:9999")]), Err(403));
        assert_eq!(ask(&[("origin", "null")]), Err(403));
        assert_eq!(ask(&[("sec-fetch-site", "cross-site")]), Err(403));
        assert_eq!(ask(&[("sec-fetch-site", "same-site")]), Err(403));
    }

    #[test]
    fn a_token_has_its_role_from_anywhere() {
        let token = |name: &str, role| AdminToken {
            name: name.to_owned(),
            role,
            sha256: Sha256::digest(name).into(),
        };
        let tokens = [
            token("one", Role::Admin),
            token("two", Role::Finance),
            token("three", Role::Viewer),
        ];
        let ask = |value: &str| {
            let named = request("GET", &[("host", "gw.example"), ("authorization", value)]);
            answer(&tokens, "10.0.0.7:5", &named)
        };
        assert_eq!(ask("Bearer one"), Ok(Role::Admin));
        assert_eq!(ask("bearer two"), Ok(Role::Finance));
        assert_eq!(ask("Bearer three"), Ok(Role::Viewer));
        for wrong in ["Bearer four", "Bearer", "Bearer ", "Basic one", "one"] {
            assert_eq!(ask(wrong), Err(401), "{wrong}");
        }
        let bare = request("GET", &[("host", "localhost")]);
        assert_eq!(answer(&tokens, "127.0.0.1:5", &bare), Err(401));
    }
}
