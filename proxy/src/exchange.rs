//! The one record of a call: who asked, what was tried, what came of it and what it cost.
//!
//! A stage returns values; the exchange is built once, when the response has ended or was dropped.
//! Metrics, log line, ledger rows and the admin plane all derive from it. Neither prompts nor
//! answers are in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use whippletree_policies::ids::{KeyId, RequestId, RouteId, TargetId, TenantId};
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::Money;
use whippletree_policies::usage::Usage;

/// A duration in microseconds that reads and prints as milliseconds: `12.345`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    /// A duration, cut to whole microseconds.
    pub fn of(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }

    /// The duration in seconds.
    #[expect(clippy::cast_precision_loss, reason = "exact below 285 years")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Serialize for Millis {
    #[expect(clippy::cast_precision_loss, reason = "exact below 285 years")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1e3)
    }
}

impl<'de> Deserialize<'de> for Millis {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float-to-integer cast saturates, and this is the inverse of what was written"
    )]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(|ms| Self((ms * 1e3).round() as u64))
    }
}

/// The form of API that the client spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/messages/count_tokens`.
    CountTokens,
    /// `POST /v1/embeddings`.
    Embeddings,
    /// `POST /v1/messages`.
    Messages,
    /// Any other `/v1/*` path, relayed untouched.
    Other,
    /// `POST /v1/responses`.
    Responses,
}

impl Api {
    /// The path of the data plane.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Embeddings => "/v1/embeddings",
            Self::Messages => "/v1/messages",
            Self::Other => "/v1/*",
            Self::Responses => "/v1/responses",
        }
    }

    /// The name used in records and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::CountTokens => "count_tokens",
            Self::Embeddings => "embeddings",
            Self::Messages => "messages",
            Self::Other => "other",
            Self::Responses => "responses",
        }
    }

    /// Whose shapes its clients expect.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::CountTokens | Self::Messages => Dialect::Anthropic,
            Self::Chat | Self::Completions | Self::Embeddings | Self::Other | Self::Responses => {
                Dialect::Openai
            }
        }
    }
}

/// Whose error and stream shapes the client expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic's.
    Anthropic,
    /// OpenAI's.
    Openai,
}

/// How the call ended, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The client left before the end.
    ClientGone,
    /// Every attempt failed; the client got an error.
    Failed,
    /// The answer broke after part of it had reached the client.
    Interrupted,
    /// A whole answer.
    Ok,
    /// The gateway refused the request before any attempt.
    Refused,
}

impl End {
    /// The name used in records, metrics and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientGone => "client_gone",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Ok => "ok",
            Self::Refused => "refused",
        }
    }
}

/// By which rule an attempt was charged: who failed, and what the vendor had told by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargeRule {
    /// The client left when the vendor had accepted the request: its input and what had been written
    /// are estimated.
    ClientLeft,
    /// The client left before the vendor had said anything: nothing is charged.
    ClientLeftBeforeAnswer,
    /// The answer broke off: its input and what had been written are estimated.
    InterruptedAfterContent,
    /// The vendor may have served it and nobody saw: estimated at what its repetition came to, else at
    /// its input.
    PerhapsServed,
    /// As the vendor reported.
    Reported,
    /// A whole answer without a report: estimated.
    Unreported,
    /// The vendor failed and had written nothing: nothing is charged.
    VendorFailedBeforeContent,
}

impl ChargeRule {
    /// The name used in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientLeft => "client_left",
            Self::ClientLeftBeforeAnswer => "client_left_before_answer",
            Self::InterruptedAfterContent => "interrupted_after_content",
            Self::PerhapsServed => "perhaps_served",
            Self::Reported => "reported",
            Self::Unreported => "unreported",
            Self::VendorFailedBeforeContent => "vendor_failed_before_content",
        }
    }
}

/// One try at one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// `provider/model`.
    pub target: TargetId,
    /// Which of the provider's keys, by position from 0; `None` where the provider has none.
    pub key: Option<u32>,
    /// What went wrong; `None` for a success.
    pub class: Option<Class>,
    /// The vendor's HTTP status; `None` when no answer came.
    pub status: Option<u16>,
    /// Waited before this attempt.
    pub waited_ms: Millis,
    /// From sending to the first byte of the answer.
    pub first_byte_ms: Option<Millis>,
    /// From sending to the end.
    pub took_ms: Millis,
    /// What the vendor reported, or an estimate marked so.
    pub usage: Option<Usage>,
    /// At the list price of the time.
    pub cost_usd: Money,
    /// The price list's version; `None` when nothing was priced.
    pub price_version: Option<String>,
    /// A price that the call needed was missing, and another one of the list stood in.
    #[serde(default)]
    pub price_fallback: bool,
    /// By which rule it was charged; `None` for what has no price, such as a relayed path.
    #[serde(default)]
    pub rule: Option<ChargeRule>,
}

/// What the prefix chain said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prefix {
    /// Bytes of the prompt that an earlier call had sent in the same order.
    pub reused_bytes: u64,
    /// What the vendor's cache should have read.
    pub expected_cached_tokens: u64,
    /// The code of the gravest finding.
    pub finding: Option<String>,
}

/// How a request was answered that repeats another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// It joined the call, which was still running.
    Joined,
    /// It was given the answer once more.
    Replayed,
    /// It was given the rest of a stream.
    Resumed,
}

impl Repetition {
    /// The name used in records, metrics and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Replayed => "replayed",
            Self::Resumed => "resumed",
        }
    }
}

/// The request whose call answered this one, and paid for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// How.
    pub kind: Repetition,
    /// Which.
    pub of: RequestId,
}

/// One client request, from its first byte to its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Also in `x-wt-request-id`.
    pub request_id: RequestId,
    /// When the request's head had been read.
    pub time: UnixTime,
    /// Who pays.
    pub tenant: TenantId,
    /// The virtual key's name; `None` on loopback without keys.
    pub key: Option<KeyId>,
    /// The end user, as the client names them.
    pub user: Option<String>,
    /// The agent run.
    pub task: Option<String>,
    /// Free labels.
    pub tags: BTreeMap<String, String>,
    /// The client program, when known.
    pub harness: Option<String>,
    /// The route; `None` when the request was refused before one was found.
    pub route: Option<RouteId>,
    /// The form of API.
    pub api: Api,
    /// The client's dialect.
    pub dialect: Dialect,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The HTTP status sent to the client.
    pub status: u16,
    /// How it ended.
    pub outcome: End,
    /// The class of the failure, or the code of the refusal.
    pub error: Option<String>,
    /// Who answered.
    pub target: Option<TargetId>,
    /// A stand-in answered, not the primary.
    pub fallback: bool,
    /// In order.
    pub attempts: Vec<Attempt>,
    /// Of all attempts together.
    pub usage: Option<Usage>,
    /// Of all attempts together.
    pub cost_usd: Money,
    /// The price list's version of the answering attempt.
    pub price_version: Option<String>,
    /// What the prefix chain said.
    pub prefix: Option<Prefix>,
    /// The client's own retry of another request: no call was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeated>,
    /// From the request's head to the first content sent to the client.
    pub ttft_ms: Option<Millis>,
    /// From the request's head to the response's end.
    pub duration_ms: Millis,
    /// Time within the gateway that no vendor, wait or client accounts for.
    pub overhead_ms: Millis,
    /// The request body's length.
    pub request_bytes: u64,
    /// Bytes of body sent to the client.
    pub response_bytes: u64,
}
