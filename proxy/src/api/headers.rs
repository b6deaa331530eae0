//! Which headers pass, in both directions.
//!
//! Towards a vendor by allow-list: the client's key, cookies and `x-wt-*` must never reach one. Back
//! to the client by deny-list: vendors add useful fields all the time, and none of theirs can leak
//! ours.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The identity of the request, the gateway's own.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same under the name that Anthropic's clients read.
pub const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// The same under a name that no vendor uses.
pub const WT_REQUEST_ID: HeaderName = HeaderName::from_static("x-wt-request-id");
/// `provider/model` of the answer.
pub const WT_TARGET: HeaderName = HeaderName::from_static("x-wt-target");
/// How many times something was sent to a vendor.
pub const WT_ATTEMPTS: HeaderName = HeaderName::from_static("x-wt-attempts");
/// The stand-in that answered.
pub const WT_FALLBACK: HeaderName = HeaderName::from_static("x-wt-fallback");
/// What the call cost, in dollars; whole answers only.
pub const WT_COST: HeaderName = HeaderName::from_static("x-wt-cost-usd");
/// The request whose answer this is, where it repeats another one.
pub const WT_REPEATS: HeaderName = HeaderName::from_static("x-wt-repeats");
/// The true status where another one is sent.
pub const WT_STATUS: HeaderName = HeaderName::from_static("x-wt-status");
/// Set by an outer gateway: this one does not retry.
pub const WT_ATTEMPT_OWNER: HeaderName = HeaderName::from_static("x-wt-attempt-owner");
/// The client's deadline in milliseconds.
pub const WT_DEADLINE: HeaderName = HeaderName::from_static("x-wt-deadline-ms");
/// Asks for a trailing comment line in streams.
pub const WT_TRAILER: HeaderName = HeaderName::from_static("x-wt-trailer");
/// The version of Anthropic's API that a client speaks.
pub const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Whether the client's own retry can help.
pub const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The vendors' finer form of `retry-after`.
pub const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// What may reach a vendor. `idempotency-key` lets a vendor that knows it answer
/// a repeated attempt once; `x-grok-conv-id` keeps a conversation on xAI's warm server; the referer
/// and title are OpenRouter's attribution.
fn may_reach_vendor(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "accept"
            | "anthropic-beta"
            | "anthropic-version"
            | "content-type"
            | "user-agent"
            | "referer"
            | "http-referer"
            | "idempotency-key"
            | "openai-beta"
            | "x-grok-conv-id"
            | "x-title"
    )
}

/// The client's headers that go to the vendor, `Accept-Encoding: identity` among them, since a
/// compressed answer could not be read on its way.
pub fn to_vendor(client: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    for (name, value) in client {
        if may_reach_vendor(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    headers
}

/// The vendor's headers that go to the client.
pub fn to_client(vendor: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(vendor.len());
    let named: Vec<&str> = vendor
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
        .collect();
    for (name, value) in vendor {
        let listed = named.iter().any(|n| n.eq_ignore_ascii_case(name.as_str()));
        if !listed && !is_withheld(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

/// Hop-by-hop fields (RFC 9110, section 7.6.1), what describes the vendor's own connection, site or
/// account, and what only the gateway may say.
fn is_withheld(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "content-length"
            | "content-encoding"
            | "date"
            | "server"
            | "via"
            | "alt-svc"
            | "nel"
            | "report-to"
            | "set-cookie"
            | "strict-transport-security"
            | "vary"
            | "www-authenticate"
            | "x-request-id"
            | "request-id"
            | "x-should-retry"
            | "retry-after"
            | "retry-after-ms"
            | "location"
            | "openai-organization"
            | "openai-project"
            | "anthropic-organization-id"
    ) || [
        "access-control-",
        "anthropic-ratelimit-",
        "cf-",
        "x-wt-",
        "x-amz-cf-",
        "proxy-",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    #[test]
    fn no_key_cookie_or_own_header_reaches_a_vendor() {
        let sent = to_vendor(&map(&[
            ("authorization", "Bearer sk-wt-x"),
            ("x-api-key", "k"),
            ("cookie", "c=1"),
            ("x-wt-task", "t"),
            ("x-custom-host", "http://127.0.0.1:9999"),
            ("content-type", "application/json"),
            ("accept-encoding", "gzip"),
        ]));
        let names: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "accept-encoding"]);
        assert_eq!(sent["accept-encoding"], "identity");
    }

    #[test]
    fn a_client_sees_rate_limits_but_no_cookie_or_hop_by_hop_field() {
        let seen = to_client(&map(&[
            ("x-ratelimit-remaining-requests", "3"),
            ("openai-processing-ms", "12"),
            ("set-cookie", "a=b"),
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("cf-ray", "z"),
            ("content-length", "12"),
        ]));
        let names: Vec<&str> = seen.keys().map(HeaderName::as_str).collect();
        assert_eq!(
            names,
            ["x-ratelimit-remaining-requests", "openai-processing-ms"]
        );
    }
}
