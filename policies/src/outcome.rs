//! What an attempt came to.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The meaning of a failed attempt. Exactly one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// The client left before the answer.
    ClientGone,
    /// The vendor's content policy refused the request.
    ContentPolicy,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// The request is wrong, whoever gets it.
    InvalidRequest,
    /// The answer is empty, cut or not what the content type says.
    MalformedResponse,
    /// The model does not exist, is retired or is not open to this key.
    ModelUnavailable,
    /// A failure that no rule knows; counted, so that a new vendor string raises an alarm.
    Other,
    /// The vendor lacks capacity (529, 503).
    Overloaded,
    /// Billing, credits or a spend limit: no waiting helps.
    QuotaExhausted,
    /// Too many requests or tokens in a window.
    RateLimited,
    /// The vendor failed (5xx, or a 200 that carries an error).
    ServerError,
    /// A stream broke before anything of it reached the client.
    StreamInterrupted,
    /// Connect, first byte, idle or total time ran out.
    Timeout,
    /// Refused, reset, DNS or TLS.
    Transport,
    /// The vendor refused the gateway's own credential.
    VendorAuth,
}

impl Class {
    /// The name used in records, metrics and error bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientGone => "client_gone",
            Self::ContentPolicy => "content_policy",
            Self::ContextOverflow => "context_overflow",
            Self::InvalidRequest => "invalid_request",
            Self::MalformedResponse => "malformed_response",
            Self::ModelUnavailable => "model_unavailable",
            Self::Other => "other",
            Self::Overloaded => "overloaded",
            Self::QuotaExhausted => "quota_exhausted",
            Self::RateLimited => "rate_limited",
            Self::ServerError => "server_error",
            Self::StreamInterrupted => "stream_interrupted",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::VendorAuth => "vendor_auth",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
