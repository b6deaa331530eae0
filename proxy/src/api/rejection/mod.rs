//! What a client can be told when it gets no answer: the only place that picks a status.
//!
//! A rejection is data. It says what happened and what to do about it, in the shape that the
//! client's dialect has for errors, with the gateway's own facts beside it under
//! `error.whippletree`.

mod wire;
mod words;

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use whippletree_policies::ids::{ProviderId, RequestId, RouteId, TargetId};
use whippletree_policies::outcome::Class;
use whippletree_policies::task::runaway::Runaway;

pub use self::wire::facts;
use self::wire::{AnthropicError, AnthropicWire, Facts, Wire, WireError};
use super::body::Body;
use super::headers;
use crate::exchange::{Api, Attempt, Dialect};
use crate::server::HeadFault;

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The vendor's answer that the request is wrong: passed on, since harnesses act on its text.
    /// Credentials in it are masked.
    Vendor {
        /// What it means.
        class: Class,
        /// 4xx.
        status: u16,
        /// The vendor's words.
        message: String,
        /// The vendor's `type`, `param` and `code`.
        kind: Option<String>,
        /// See `kind`.
        param: Option<String>,
        /// See `kind`.
        code: Option<String>,
    },
    /// No attempt worked.
    Failed {
        /// Of the last attempt.
        class: Class,
        /// Who failed last.
        target: Option<TargetId>,
        /// What is left of the vendor's wait hint.
        retry_after: Option<Duration>,
    },
    /// It repeats a request that was answered, and of whose answer not enough is kept.
    AnswerNotKept {
        /// The request that was answered.
        of: RequestId,
    },
    /// The body did not come in time.
    BodyTimedOut,
    /// The body is larger than allowed.
    BodyTooLarge {
        /// Bytes allowed.
        limit: u64,
        /// Bytes announced or read so far.
        received: u64,
    },
    /// The bodies of other requests use up the memory set aside for them.
    Busy,
    /// The gateway is shutting down.
    Draining,
    /// The head is no request.
    Head {
        /// What is wrong with it.
        fault: HeadFault,
        /// Bytes allowed.
        max_bytes: usize,
        /// Fields allowed.
        max_fields: usize,
    },
    /// The gateway failed; its log has the reason under the request's id.
    Internal,
    /// The body is not a request.
    InvalidBody {
        /// What is wrong and where.
        reason: String,
        /// The field at fault.
        param: Option<&'static str>,
    },
    /// The idempotency key was used for another body.
    KeyReused,
    /// The path exists, the method does not fit.
    MethodNotAllowed {
        /// The one that fits.
        allow: &'static str,
    },
    /// A relayed path, and no provider to relay it to.
    NoProvider,
    /// Nothing is kept of the stream that the client wants the rest of.
    NothingToResume,
    /// The path holds encoded or climbing segments.
    PathUnsafe,
    /// A limit on requests at once or in a minute.
    RateLimited {
        /// Its name in the configuration.
        limit: &'static str,
        /// Its value.
        allowed: u32,
        /// When to come back.
        retry_after: Duration,
    },
    /// The tenant may not use the route.
    RouteForbidden {
        /// What was asked for.
        model: String,
    },
    /// The agent run goes on without getting anywhere, and is stopped.
    RunawayTask {
        /// Whose limit it is.
        route: RouteId,
        /// Which limit, and why.
        runaway: Runaway,
    },
    /// Every connection that a provider may have is in use.
    Saturated {
        /// Whose.
        provider: ProviderId,
    },
    /// The key is missing, malformed, unknown, disabled or expired; the client is not told which.
    Unauthenticated,
    /// The model's vendor does not speak this form of API.
    UnsupportedApi {
        /// The path asked for.
        path: &'static str,
        /// Who would have served it.
        target: TargetId,
    },
    /// No such path.
    UnknownPath,
    /// No such route or model.
    UnknownModel {
        /// What was asked for.
        model: String,
        /// What was perhaps meant, best first.
        nearest: Vec<String>,
    },
    /// No price is known for the model, and the configuration refuses what has none.
    Unpriced {
        /// Which.
        target: TargetId,
    },
}

/// What the answer says about another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// It cannot help, or the gateway has used its attempts.
    No,
    /// It cannot help yet: beside "no", when it might.
    NoUntil(Duration),
    /// The gateway itself asks for it.
    After(Duration),
}

impl Rejection {
    /// The true HTTP status, in the words of the client's dialect.
    pub fn status(&self, dialect: Dialect) -> StatusCode {
        let code = match self {
            Self::Failed {
                class: Class::Overloaded,
                ..
            } if dialect == Dialect::Anthropic => 529,
            Self::Vendor { status, .. } => *status,
            Self::Failed { class, .. } => failed_status(*class),
            Self::AnswerNotKept { .. } | Self::NothingToResume => 409,
            Self::BodyTimedOut => 408,
            Self::BodyTooLarge { .. } => 413,
            Self::Busy | Self::Draining | Self::Saturated { .. } => 503,
            Self::Head { fault, .. } => match fault {
                HeadFault::Malformed => 400,
                HeadFault::TimedOut => 408,
                HeadFault::TooLarge => 431,
                HeadFault::UriTooLong => 414,
            },
            Self::Internal => 500,
            // Claude Code then counts for itself (wire-facts, A4).
            Self::UnsupportedApi { path, .. } if *path == Api::CountTokens.path() => 501,
            Self::InvalidBody { .. }
            | Self::PathUnsafe
            | Self::UnsupportedApi { .. }
            | Self::Unpriced { .. } => 400,
            Self::KeyReused => 422,
            Self::MethodNotAllowed { .. } => 405,
            Self::NoProvider | Self::UnknownPath | Self::UnknownModel { .. } => 404,
            Self::RateLimited { .. } | Self::RunawayTask { .. } => 429,
            Self::RouteForbidden { .. } => 403,
            Self::Unauthenticated => 401,
        };
        StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// The name of the failure in records and in `error.whippletree.class`.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Vendor { class, .. } | Self::Failed { class, .. } => class.as_str(),
            Self::AnswerNotKept { .. } => "answer_not_kept",
            Self::BodyTimedOut => "body_timeout",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::Head { fault, .. } => match fault {
                HeadFault::Malformed => "invalid_head",
                HeadFault::TimedOut => "head_timeout",
                HeadFault::TooLarge => "head_too_large",
                HeadFault::UriTooLong => "uri_too_long",
            },
            Self::Internal => "internal",
            Self::InvalidBody { .. } => "invalid_body",
            Self::KeyReused => "idempotency_key_reused",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::NoProvider => "no_provider",
            Self::NothingToResume => "nothing_to_resume",
            Self::PathUnsafe => "path_unsafe",
            Self::RateLimited { .. } => "gateway_rate_limited",
            Self::RouteForbidden { .. } => "route_forbidden",
            Self::RunawayTask { .. } => "runaway_task",
            Self::Saturated { .. } => "pool_saturated",
            Self::Unauthenticated => "unauthenticated",
            Self::UnsupportedApi { .. } => "unsupported_api",
            Self::UnknownPath => "unknown_path",
            Self::UnknownModel { .. } => "unknown_model",
            Self::Unpriced { .. } => "unpriced_model",
        }
    }

    /// Whether a vendor was asked before the request was turned away.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::Vendor { .. } | Self::Failed { .. } | Self::Saturated { .. }
        )
    }

    /// Whether the gateway itself asks for another try.
    pub fn asks_for_retry(&self) -> bool {
        matches!(self.retry(), Retry::After(_))
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Busy | Self::Draining | Self::Saturated { .. } => {
                Retry::After(Duration::from_secs(1))
            }
            Self::RateLimited { retry_after, .. } => Retry::After(*retry_after),
            Self::BodyTimedOut
            | Self::Head {
                fault: HeadFault::TimedOut,
                ..
            } => Retry::After(Duration::from_secs(1)),
            Self::Failed {
                retry_after: Some(after),
                ..
            } => Retry::NoUntil(*after),
            _ => Retry::No,
        }
    }

    /// The JSON body, in the shape of the client's dialect.
    pub fn json(&self, dialect: Dialect, id: RequestId, attempts: &[Attempt]) -> Bytes {
        let message = self.message();
        let whippletree = Facts {
            retry: self.asks_for_retry(),
            ..facts(self.class(), id, attempts)
        };
        let json = match dialect {
            Dialect::Anthropic => serde_json::to_vec(&AnthropicWire {
                r#type: "error",
                error: AnthropicError {
                    r#type: self.anthropic_kind(),
                    message: &message,
                    whippletree,
                },
                request_id: id,
            }),
            Dialect::Openai => serde_json::to_vec(&Wire {
                error: WireError {
                    message: &message,
                    r#type: self.kind(),
                    param: self.param(),
                    code: self.code(),
                    whippletree,
                },
            }),
        };
        json.unwrap_or_default().into()
    }

    /// The whole response. `sent` is the status that goes out where it is not the true one.
    pub fn response(
        &self,
        dialect: Dialect,
        id: RequestId,
        attempts: &[Attempt],
        sent: Option<StatusCode>,
    ) -> Response<Body> {
        let status = self.status(dialect);
        let mut response = Response::new(Body::from(self.json(dialect, id, attempts)));
        *response.status_mut() = sent.unwrap_or(status);
        let map = response.headers_mut();
        map.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if sent.is_some() {
            map.insert(headers::WT_STATUS, status.as_u16().into());
        }
        if let Self::MethodNotAllowed { allow } = self {
            map.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        let answer = match self.retry() {
            Retry::No => "false",
            Retry::NoUntil(after) => {
                map.insert(header::RETRY_AFTER, whole_seconds(after).into());
                "false"
            }
            Retry::After(after) => {
                let after = after.min(Duration::from_mins(1));
                let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                map.insert(header::RETRY_AFTER, whole_seconds(after).into());
                map.insert(headers::RETRY_AFTER_MS, ms.max(1).into());
                "true"
            }
        };
        map.insert(headers::SHOULD_RETRY, HeaderValue::from_static(answer));
        response
    }
}

/// Rounded up, never 0: a client that is told 0 comes back at once.
fn whole_seconds(after: Duration) -> u64 {
    (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1)
}

/// The contract's last column (behaviour.md, section 3).
fn failed_status(class: Class) -> u16 {
    match class {
        Class::RateLimited | Class::QuotaExhausted => 429,
        Class::Overloaded => 503,
        Class::Timeout => 504,
        Class::ContextOverflow | Class::InvalidRequest | Class::ContentPolicy => 400,
        // 499 is nginx's name for a client that left; nobody reads it but the record.
        Class::ClientGone => 499,
        _ => 502,
    }
}
