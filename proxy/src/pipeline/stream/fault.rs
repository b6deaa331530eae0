//! A stream that is no whole answer.

use bytes::Bytes;
use serde_json::json;
use whippletree_policies::ids::RequestId;
use whippletree_policies::outcome::Class;
use whippletree_providers::failure::Failure;

use crate::exchange::Attempt;
use crate::upstream::UpstreamError;

/// Why a stream is no whole answer.
#[derive(Clone, Debug)]
pub struct StreamFault {
    class: Class,
    message: &'static str,
    /// The vendor's own words, where the fault is an error of its own.
    said: Option<Box<Failure>>,
}

impl StreamFault {
    const fn new(class: Class, message: &'static str) -> Self {
        Self {
            class,
            message,
            said: None,
        }
    }

    /// It ended without its end.
    pub(super) const fn cut() -> Self {
        Self::new(
            Class::StreamInterrupted,
            "the vendor's stream ended before the answer did",
        )
    }

    /// It claims a whole tool call that is cut.
    pub(super) const fn cut_tool_call() -> Self {
        Self::new(
            Class::StreamInterrupted,
            "the vendor ended the stream within the arguments of a tool call",
        )
    }

    /// It ended well and said nothing.
    pub(super) const fn empty() -> Self {
        Self::new(Class::MalformedResponse, "the vendor's answer is empty")
    }

    /// It is not what the dialect allows.
    pub(super) const fn malformed() -> Self {
        Self::new(
            Class::MalformedResponse,
            "the vendor's stream could not be read",
        )
    }

    /// One event of it is too long to hold.
    pub(super) const fn too_long() -> Self {
        Self::new(
            Class::MalformedResponse,
            "an event of the vendor's stream is too long",
        )
    }

    /// The vendor said so itself.
    pub(super) fn said(failure: Failure) -> Self {
        Self {
            class: failure.class,
            message: "the vendor ended the stream with an error",
            said: Some(Box::new(failure)),
        }
    }

    /// The connection failed.
    pub fn broke(error: &UpstreamError) -> Self {
        match error.class() {
            Class::Timeout => Self::new(Class::Timeout, "the vendor's stream fell silent"),
            _ => Self::new(
                Class::StreamInterrupted,
                "the connection to the vendor broke off",
            ),
        }
    }

    /// Its meaning.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The vendor's own words.
    pub fn into_said(self) -> Option<Failure> {
        self.said.map(|said| *said)
    }

    /// The event that tells a client of chat or text completions, after which the stream ends
    /// without its end marker.
    pub fn chat_event(&self, id: RequestId, attempts: &[Attempt]) -> Bytes {
        let error = json!({
            "error": {
                "message": self.text(),
                "type": self.kind(),
                "param": null,
                "code": self.code(),
                "whippletree": crate::api::rejection::facts(self.class.as_str(), id, attempts),
            }
        });
        format!("data: {error}\n\n").into()
    }

    /// The same for a client of the messages API.
    pub fn messages_event(&self, id: RequestId, attempts: &[Attempt]) -> Bytes {
        let said = self.said.as_ref().and_then(|said| said.kind.as_deref());
        let kind = said.unwrap_or(match self.class {
            Class::Overloaded => "overloaded_error",
            Class::Timeout => "timeout_error",
            _ => "api_error",
        });
        let error = json!({
            "type": "error",
            "error": {
                "type": kind,
                "message": self.text(),
                "whippletree": crate::api::rejection::facts(self.class.as_str(), id, attempts),
            },
            "request_id": id,
        });
        format!("event: error\ndata: {error}\n\n").into()
    }

    /// The same for a client of the responses API.
    pub fn responses_event(&self, sequence: u64) -> Bytes {
        let error = json!({
            "type": "error",
            "code": self.code(),
            "message": self.text(),
            "param": null,
            "sequence_number": sequence,
        });
        format!("event: error\ndata: {error}\n\n").into()
    }

    fn text(&self) -> &str {
        self.said
            .as_ref()
            .and_then(|said| said.message.as_deref())
            .unwrap_or(self.message)
    }

    fn kind(&self) -> &str {
        self.said
            .as_ref()
            .and_then(|said| said.kind.as_deref())
            .unwrap_or("upstream_error")
    }

    fn code(&self) -> &str {
        let said = self.said.as_ref().and_then(|said| said.code.as_deref());
        said.unwrap_or("stream_interrupted")
    }
}
