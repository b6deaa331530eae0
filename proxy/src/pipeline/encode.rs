//! A request as one target gets it: the client's bytes, spliced. Its credential comes last, from
//! [`crate::credentials`].

use bytes::Bytes;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use whippletree_providers::anthropic;
use whippletree_providers::envelope::{Edits, Envelope};
use whippletree_providers::openai::dialects::{self, Dialect, StreamOptionsSupport};
use whippletree_providers::provider::Api;

use super::Call;
use super::plan::Planned;
use crate::api::headers;
use crate::config::Provider;
use crate::upstream::Call as Outbound;

/// The query by which a client of messages asks for beta features.
const BETA: &str = "beta=true";

/// The dialect of a provider's vendor. The configuration admits known kinds only, so the fallback
/// is never met; it is what most vendors are like.
pub(super) fn dialect(provider: &Provider) -> &'static Dialect {
    dialects::dialect(provider.kind).unwrap_or(&dialects::TYPICAL)
}

/// A call to a model.
pub(super) fn model_call(
    call: &Call,
    api: Api,
    envelope: &Envelope,
    planned: &Planned,
) -> Outbound {
    let target = &planned.target;
    let dialect = dialect(&target.provider);
    let mut edits = Edits::default();
    edits.set_model(envelope, &target.model);
    let streams_with_options = matches!(api, Api::Chat | Api::Completions);
    if envelope.stream()
        && streams_with_options
        && dialect.stream_options == StreamOptionsSupport::Yes
    {
        edits.ask_for_usage(envelope);
    }
    let body = edits.apply(envelope).into_chunks();
    let base = base_path(&target.provider);
    let mut path = dialect.url(base, api, &target.model);
    if !matches!(api, Api::CountTokens | Api::Messages) {
        return outbound(call, &target.provider, http::Method::POST, &path, body);
    }
    // Anthropic's SDKs ask for beta features so; other queries mean nothing to the vendor.
    if call.head.uri.query() == Some(BETA) {
        path.push('?');
        path.push_str(BETA);
    }
    let mut outbound = outbound(call, &target.provider, http::Method::POST, &path, body);
    outbound
        .headers
        .entry(headers::ANTHROPIC_VERSION)
        .or_insert(HeaderValue::from_static(anthropic::VERSION));
    outbound
}

/// A path that the gateway does not know, as it came.
pub(super) fn relay(
    call: &Call,
    envelope: Option<&Envelope>,
    body: Bytes,
    planned: &Planned,
) -> Outbound {
    let target = &planned.target;
    let chunks = match envelope {
        Some(envelope) if !target.model.is_empty() => {
            let mut edits = Edits::default();
            edits.set_model(envelope, &target.model);
            edits.apply(envelope).into_chunks()
        }
        _ => vec![body],
    };
    let uri = &call.head.uri;
    let rest = uri.path().strip_prefix("/v1").unwrap_or_default();
    let mut path = format!("{}{rest}", base_path(&target.provider));
    if let Some(query) = uri.query() {
        path.push('?');
        path.push_str(query);
    }
    outbound(
        call,
        &target.provider,
        call.head.method.clone(),
        &path,
        chunks,
    )
}

/// The base URL's path without a slash at its end.
fn base_path(provider: &Provider) -> &str {
    provider.base_url.path().trim_end_matches('/')
}

fn outbound(
    call: &Call,
    provider: &Provider,
    method: http::Method,
    path: &str,
    body: Vec<Bytes>,
) -> Outbound {
    let mut map = headers::to_vendor(&call.head.headers);
    // A nested gateway must not retry what this one will.
    map.insert(headers::WT_ATTEMPT_OWNER, HeaderValue::from_static("1"));
    let path = PathAndQuery::try_from(path).unwrap_or(PathAndQuery::from_static("/"));
    Outbound {
        method,
        path_and_query: path,
        headers: map,
        body: body.into_iter().collect(),
        timeouts: provider.timeouts,
        give_up_at: None,
    }
}
