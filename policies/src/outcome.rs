//! What an attempt came to.
//!
//! A failure is a fact, never a decision: its [`Class`] says what went wrong, [`Sent`] what the
//! vendor may have done by then. What follows from it stands in [`crate::retry::table`].

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::Tokens;

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It failed, and nothing of it has reached the client.
    Failure(Failure),
    /// The answer is good, or its first part has gone to the client.
    Success,
}

impl Outcome {
    /// The class of a failure; `None` for a success.
    pub const fn class(&self) -> Option<Class> {
        match self {
            Self::Failure(failure) => Some(failure.class),
            Self::Success => None,
        }
    }
}

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What went wrong.
    pub class: Class,
    /// How far the request had come.
    pub sent: Sent,
    /// The vendor's HTTP status, where one came.
    pub status: Option<u16>,
    /// How long the vendor asks to wait, from now.
    pub wait_hint: Option<Duration>,
    /// The vendor's own `x-should-retry`.
    pub vendor_retry: Option<bool>,
    /// Whether another target may do better with an invalid request.
    pub fault: Fault,
    /// The model's context window as the vendor stated it, for [`Class::ContextOverflow`].
    pub context_window: Option<Tokens>,
    /// What the request needs of a context window, as the vendor stated it.
    pub context_needed: Option<Tokens>,
}

impl Failure {
    /// A failure of which nothing else is known.
    pub const fn new(class: Class, sent: Sent) -> Self {
        Self {
            class,
            sent,
            status: None,
            wait_hint: None,
            vendor_retry: None,
            fault: Fault::Request,
            context_window: None,
            context_needed: None,
        }
    }

    /// The same with the vendor's status.
    #[must_use]
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The same with the vendor's wish to wait.
    #[must_use]
    pub const fn with_wait_hint(mut self, hint: Duration) -> Self {
        self.wait_hint = Some(hint);
        self
    }

    /// Whether the vendor may have done and billed the work although no answer came: the whole
    /// request was sent, and then came a time-out, a reset, a 502 or a 504.
    pub const fn is_ambiguous(&self) -> bool {
        match self.class {
            Class::Other
            | Class::Overloaded
            | Class::ServerError
            | Class::Timeout
            | Class::Transport => {
                matches!(self.sent, Sent::Maybe) || matches!(self.status, Some(502 | 504))
            }
            _ => false,
        }
    }
}

/// How far a request had come when its attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// The vendor cannot have the whole request: connecting failed, or writing it did.
    Nothing,
    /// The whole request was written, and no definite answer came.
    Maybe,
    /// The vendor answered.
    Answered,
}

/// Where the fault of an invalid request lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// In the request: every target would refuse it.
    #[default]
    Request,
    /// In the target: it lacks a feature that the request needs, and another may have it.
    Target,
}

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
