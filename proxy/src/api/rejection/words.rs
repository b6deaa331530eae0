//! The words in which a rejection is told: types and codes that clients decide on, and the message.

use whippletree_policies::outcome::Class;
use whippletree_policies::task::runaway::Runaway;

use super::wire::{failed_message, head_message};
use super::{Rejection, whole_seconds};
use crate::exchange::Api;

impl Rejection {
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::Vendor { kind, .. } => kind.as_deref().unwrap_or("invalid_request_error"),
            Self::Failed {
                class: Class::QuotaExhausted,
                ..
            } => "insufficient_quota",
            Self::Failed {
                class: Class::RateLimited,
                ..
            }
            | Self::RateLimited { .. }
            | Self::RunawayTask { .. } => "rate_limit_error",
            Self::Busy | Self::Draining | Self::Saturated { .. } => "service_unavailable_error",
            Self::Internal => "server_error",
            Self::RouteForbidden { .. } => "permission_error",
            Self::Unauthenticated => "authentication_error",
            Self::Failed {
                class: Class::ContextOverflow | Class::InvalidRequest,
                ..
            }
            | Self::AnswerNotKept { .. }
            | Self::BodyTimedOut
            | Self::BodyTooLarge { .. }
            | Self::Head { .. }
            | Self::InvalidBody { .. }
            | Self::KeyReused
            | Self::MethodNotAllowed { .. }
            | Self::NoProvider
            | Self::NothingToResume
            | Self::PathUnsafe
            | Self::UnsupportedApi { .. }
            | Self::UnknownPath
            | Self::UnknownModel { .. }
            | Self::Unpriced { .. } => "invalid_request_error",
            Self::Failed { .. } => "upstream_error",
        }
    }

    /// Anthropic's `error.type`, on which its clients decide.
    pub(super) fn anthropic_kind(&self) -> &str {
        match self {
            Self::Vendor { kind, .. } => kind.as_deref().unwrap_or("invalid_request_error"),
            Self::Failed { class, .. } => match class {
                Class::QuotaExhausted => "billing_error",
                Class::RateLimited => "rate_limit_error",
                Class::Timeout => "timeout_error",
                Class::ContentPolicy | Class::ContextOverflow | Class::InvalidRequest => {
                    "invalid_request_error"
                }
                // An overloaded vendor too, which the status tells: Claude Code 2.1.197 repeats
                // whatever says `overloaded_error`, against `x-should-retry` (seen 2026-12-01).
                _ => "api_error",
            },
            Self::Busy | Self::Draining | Self::Saturated { .. } => "overloaded_error",
            Self::BodyTooLarge { .. } => "request_too_large",
            Self::Internal => "api_error",
            Self::UnsupportedApi { path, .. } if *path == Api::CountTokens.path() => {
                "not_supported"
            }
            Self::NoProvider | Self::UnknownModel { .. } | Self::UnknownPath => "not_found_error",
            other => other.kind(),
        }
    }

    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Vendor { code, .. } => code.as_deref(),
            Self::Failed { class, .. } => Some(match class {
                Class::ContextOverflow => "context_length_exceeded",
                Class::QuotaExhausted => "insufficient_quota",
                Class::RateLimited => "rate_limit_exceeded",
                Class::Overloaded => "server_is_overloaded",
                other => other.as_str(),
            }),
            Self::Unauthenticated => Some("invalid_api_key"),
            Self::UnknownModel { .. } => Some("model_not_found"),
            Self::RateLimited { .. } => Some("rate_limit_exceeded"),
            other => Some(other.class()),
        }
    }

    pub(super) fn param(&self) -> Option<&str> {
        match self {
            Self::Vendor { param, .. } => param.as_deref(),
            Self::InvalidBody { param, .. } => *param,
            Self::UnknownModel { .. } | Self::RouteForbidden { .. } | Self::Unpriced { .. } => {
                Some("model")
            }
            _ => None,
        }
    }

    /// What happened and what to do about it.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Vendor { message, .. } => message.clone(),
            Self::Failed { class, target, .. } => failed_message(*class, target.as_ref()),
            Self::AnswerNotKept { of } => format!(
                "this request was answered and paid for as {of}, and its answer is not kept any \
                 more; to have it made again, send it as a new one: with another Idempotency-Key, \
                 or without a count of retries"
            ),
            Self::BodyTimedOut => {
                "the request body stopped coming; send it without long pauses".into()
            }
            Self::BodyTooLarge { limit, received } => format!(
                "the request body is larger than the {limit} bytes allowed (received {received}); \
                 send less or raise server.max_body"
            ),
            Self::Busy => "the gateway holds as many request bodies as it may; try again".into(),
            Self::Draining => "the gateway is shutting down; try again".into(),
            Self::Head {
                fault,
                max_bytes,
                max_fields,
            } => head_message(*fault, *max_bytes, *max_fields),
            Self::Internal => {
                "the gateway failed; its log has the reason under this request's id".into()
            }
            Self::InvalidBody { reason, .. } => reason.clone(),
            Self::KeyReused => {
                "this Idempotency-Key was sent with another body; use a key for one \
                 request only"
                    .into()
            }
            Self::MethodNotAllowed { allow } => format!("this path takes {allow} only"),
            Self::NoProvider => {
                "no provider serves paths that name no model; set routing.relay".into()
            }
            Self::NothingToResume => {
                "nothing is kept of the stream that Last-Event-ID names, or it \
                 answered another request; send it without Last-Event-ID to start anew"
                    .into()
            }
            Self::PathUnsafe => {
                "the path holds encoded or climbing segments, which are not relayed".into()
            }
            Self::RateLimited {
                limit,
                allowed,
                retry_after,
            } => format!(
                "the limit {limit} = {allowed} of this key's tenant is reached; come back in {} s",
                whole_seconds(*retry_after)
            ),
            Self::RouteForbidden { model } => {
                format!("this key's tenant may not use {model:?}; ask whoever runs the gateway")
            }
            Self::RunawayTask { route, runaway } => format!(
                "{runaway}, so it is stopped: {}; the limit is routes.{route}.runaway.{}",
                way_out(*runaway),
                runaway.limit()
            ),
            Self::Saturated { provider } => format!(
                "all connections to provider {provider} are in use; try again, or raise \
                 providers.{provider}.pool.max_connections"
            ),
            Self::Unauthenticated => {
                "the key is missing or not valid here; send a key of this gateway as a bearer token"
                    .into()
            }
            Self::UnsupportedApi { path, target } => {
                format!("{target} is not served under {path}; use another route or path")
            }
            Self::UnknownPath => "no such path; the API lives under /v1/".into(),
            Self::UnknownModel { model, nearest } => match nearest.as_slice() {
                [] => format!("no route or model is called {model:?}; GET /v1/models lists them"),
                names => format!(
                    "no route or model is called {model:?}; did you mean {}?",
                    names
                        .iter()
                        .map(|n| format!("{n:?}"))
                        .collect::<Vec<_>>()
                        .join(" or ")
                ),
            },
            Self::Unpriced { target } => format!(
                "no price is known for {target}; set targets.\"{target}\".price or \
                 prices.unknown_model"
            ),
        }
    }
}

/// What a stopped agent, or its owner, can do.
const fn way_out(runaway: Runaway) -> &'static str {
    match runaway {
        Runaway::FailuresInARow(_) => {
            "one request may try again half a minute after the last failure"
        }
        Runaway::IdenticalRequests(_) | Runaway::IdenticalToolCalls(_) => {
            "another request is served"
        }
        Runaway::RequestsPerTask(_) => "begin a new task",
    }
}
