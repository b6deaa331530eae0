//! The data plane's paths, and what clients are told.

pub mod body;
pub mod headers;
pub mod models;
pub mod rejection;

use http::Method;

use crate::exchange::Api;

/// What a path of the data plane asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A call to a model.
    Call(Api),
    /// Any other path below `/v1/`, relayed untouched.
    Relay,
    /// `GET /v1/models`.
    ListModels,
    /// `GET /v1/models/{id}`; the id may hold slashes.
    DescribeModel(&'a str),
}

impl Operation<'_> {
    /// The form of API, for the record.
    pub const fn api(self) -> Api {
        match self {
            Self::Call(api) => api,
            Self::Relay | Self::ListModels | Self::DescribeModel(_) => Api::Other,
        }
    }
}

/// Why a path or method is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOperation {
    /// Known path, wrong method; this one is right.
    Method(&'static str),
    /// No such path.
    Path,
    /// Below `/v1/`, but with encoded or climbing segments that two parsers could read differently.
    Unsafe,
}

/// Reads the method and the path (without its query).
///
/// # Errors
/// [`NoOperation`] says what is wrong.
pub fn operation<'a>(method: &Method, path: &'a str) -> Result<Operation<'a>, NoOperation> {
    let call = match path {
        "/v1/chat/completions" => Some(Api::Chat),
        "/v1/completions" => Some(Api::Completions),
        "/v1/embeddings" => Some(Api::Embeddings),
        "/v1/messages" => Some(Api::Messages),
        "/v1/messages/count_tokens" => Some(Api::CountTokens),
        "/v1/responses" => Some(Api::Responses),
        _ => None,
    };
    if let Some(api) = call {
        return if method == Method::POST {
            Ok(Operation::Call(api))
        } else {
            Err(NoOperation::Method("POST"))
        };
    }
    if path == "/v1/models" {
        return if method == Method::GET {
            Ok(Operation::ListModels)
        } else {
            Err(NoOperation::Method("GET"))
        };
    }
    let Some(rest) = path.strip_prefix("/v1/") else {
        return Err(NoOperation::Path);
    };
    if !is_plain(rest) {
        return Err(NoOperation::Unsafe);
    }
    if let Some(id) = rest.strip_prefix("models/")
        && method == Method::GET
        && !id.is_empty()
    {
        return Ok(Operation::DescribeModel(id));
    }
    if rest.is_empty() {
        Err(NoOperation::Path)
    } else {
        Ok(Operation::Relay)
    }
}

/// A relayed path is appended to the provider's base URL. Encoded separators, dots that climb and
/// empty segments are refused, because the vendor's server may normalise them into another path.
fn is_plain(rest: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~/:@!$&'()*+,;=".contains(&b);
    rest.bytes().all(allowed)
        && rest
            .split('/')
            .all(|segment| !matches!(segment, "." | ".."))
        && !rest.contains("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_operation() {
        let of = |path| operation(&Method::POST, path);
        assert_eq!(of("/v1/chat/completions"), Ok(Operation::Call(Api::Chat)));
        assert_eq!(of("/v1/audio/speech"), Ok(Operation::Relay));
        assert_eq!(of("/v1/models"), Err(NoOperation::Method("GET")));
        assert_eq!(
            operation(&Method::GET, "/v1/models/openai/gpt-5.6"),
            Ok(Operation::DescribeModel("openai/gpt-5.6"))
        );
        assert_eq!(of("/chat/completions"), Err(NoOperation::Path));
    }

    #[test]
    fn a_path_that_two_servers_could_read_differently_is_refused() {
        for path in [
            "/v1/projects/p/locations/127.0.0.1%3A9999%23/x",
            "/v1/files/..%2f..",
            "/v1/../admin",
            "/v1/files/./x",
            "/v1/a//b",
            "/v1/a\\b",
        ] {
            assert_eq!(
                operation(&Method::POST, path),
                Err(NoOperation::Unsafe),
                "{path}"
            );
        }
    }
}
