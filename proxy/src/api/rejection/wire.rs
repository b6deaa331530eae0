//! A rejection in the shape and the words that a client reads.

use serde::Serialize;
use whippletree_policies::ids::{RequestId, TargetId};
use whippletree_policies::outcome::Class;

use crate::exchange::{Attempt, Millis};
use crate::server::HeadFault;

#[derive(Serialize)]
pub(super) struct Wire<'a> {
    pub(super) error: WireError<'a>,
}

#[derive(Serialize)]
pub(super) struct WireError<'a> {
    pub(super) message: &'a str,
    pub(super) r#type: &'a str,
    pub(super) param: Option<&'a str>,
    pub(super) code: Option<&'a str>,
    pub(super) whippletree: Facts<'a>,
}

/// The same in Anthropic's shape.
#[derive(Serialize)]
pub(super) struct AnthropicWire<'a> {
    pub(super) r#type: &'static str,
    pub(super) error: AnthropicError<'a>,
    pub(super) request_id: RequestId,
}

#[derive(Serialize)]
pub(super) struct AnthropicError<'a> {
    pub(super) r#type: &'a str,
    pub(super) message: &'a str,
    pub(super) whippletree: Facts<'a>,
}

/// `error.whippletree`: the gateway's own facts about a failure.
#[derive(Debug, Serialize)]
pub struct Facts<'a> {
    pub(super) class: &'a str,
    pub(super) attempts: Vec<WireAttempt<'a>>,
    pub(super) request_id: RequestId,
    pub(super) retry: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct WireAttempt<'a> {
    target: &'a TargetId,
    class: Option<Class>,
    status: Option<u16>,
    waited_ms: Millis,
    took_ms: Millis,
}

/// The gateway's own facts about a failure that no retry helps.
pub fn facts<'a>(class: &'a str, id: RequestId, attempts: &'a [Attempt]) -> Facts<'a> {
    let attempts = attempts.iter().map(wire_attempt).collect();
    Facts {
        class,
        attempts,
        request_id: id,
        retry: false,
    }
}

fn wire_attempt(attempt: &Attempt) -> WireAttempt<'_> {
    WireAttempt {
        target: &attempt.target,
        class: attempt.class,
        status: attempt.status,
        waited_ms: attempt.waited_ms,
        took_ms: attempt.took_ms,
    }
}

/// What is wrong with a head, in words.
pub(super) fn head_message(fault: HeadFault, max_bytes: usize, max_fields: usize) -> String {
    match fault {
        HeadFault::Malformed => {
            "the request's head is not valid HTTP; nothing behind it was read".into()
        }
        HeadFault::TimedOut => {
            "the request's head did not come in time; send it without pauses".into()
        }
        HeadFault::TooLarge => format!(
            "the request's head has more than the {max_bytes} bytes or {max_fields} fields \
             allowed; send less, or raise server.max_head or server.max_headers"
        ),
        HeadFault::UriTooLong => {
            "the request's target is too long; send what it holds in the body".into()
        }
    }
}

/// What happened, in words.
pub(super) fn failed_message(class: Class, target: Option<&TargetId>) -> String {
    let who = target.map_or("the vendor", TargetId::as_str);
    match class {
        Class::ContentPolicy => format!("{who} refused the request under its content policy"),
        Class::ContextOverflow => format!(
            "the prompt is too long: it exceeds the maximum context length of {who}; shorten it \
             and try again"
        ),
        Class::InvalidRequest => format!("{who} refused the request as invalid"),
        Class::MalformedResponse => format!("{who} sent an answer that could not be read"),
        Class::ModelUnavailable => {
            format!(
                "{who} is not available: the model is unknown, retired or closed to the gateway"
            )
        }
        Class::Overloaded => format!("{who} is overloaded"),
        Class::QuotaExhausted => format!(
            "the gateway's account for {who} is out of credit or quota; waiting does not help, \
             tell whoever runs the gateway"
        ),
        Class::RateLimited => format!("{who} limits the rate of requests"),
        Class::ServerError => format!("{who} failed"),
        Class::StreamInterrupted => format!("the stream from {who} broke off"),
        Class::Timeout => format!("{who} did not answer in time"),
        Class::Transport => format!("{who} could not be reached"),
        Class::VendorAuth => {
            format!("{who} refused the gateway's own credential; tell whoever runs the gateway")
        }
        _ => format!("{who} failed in a way that is not known"),
    }
}
