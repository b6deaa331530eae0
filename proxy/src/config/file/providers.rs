//! `[providers]`: endpoints of vendors.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::secret::KeySource;
use crate::config::values::{BaseUrl, Written};
use crate::config::{PoolSettings, Timeouts};

/// An endpoint of a vendor with its credentials.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderTable {
    /// The vendor.
    #[schemars(schema_with = "crate::config::vendors::kinds_schema")]
    pub kind: String,
    /// The address that the API's paths are appended to. Without it: the vendor's own; some kinds
    /// have none and demand it.
    pub base_url: Option<Written<BaseUrl>>,
    /// Credentials, in order of use: the next one is tried while an earlier one is limited or
    /// refused. Empty: requests carry none.
    #[serde(default)]
    pub keys: Vec<KeySource>,
    /// How long each phase of a call may take.
    #[serde(default)]
    pub timeouts: TimeoutsTable,
    /// Connections to the endpoint.
    #[serde(default)]
    pub pool: PoolTable,
    /// The forms of API that it speaks. Without it: what the kind is known for.
    pub apis: Option<Vec<ApiName>>,
    /// What error codes and types of this endpoint mean, where the gateway does not know them or
    /// takes them for something else: the `code` or `type` of an error to its class.
    #[serde(default)]
    pub error_classes: BTreeMap<String, ErrorClass>,
    /// A PEM file: a private authority that the endpoint's certificate may come from.
    pub ca: Option<String>,
}

/// A form of API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApiName {
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
    /// `POST /v1/responses`.
    Responses,
}

/// What an error means, and with it whether waiting, another key or another target helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The content policy refuses the request.
    ContentPolicy,
    /// The prompt does not fit the context window.
    ContextOverflow,
    /// The request is wrong, whoever gets it.
    InvalidRequest,
    /// The model does not exist or is not open to this key.
    ModelUnavailable,
    /// No capacity at the moment.
    Overloaded,
    /// Credit, quota or a spend limit is used up: waiting does not help, another key may.
    QuotaExhausted,
    /// Too many requests or tokens in a window.
    RateLimited,
    /// The vendor failed.
    ServerError,
    /// The vendor ran out of time.
    Timeout,
    /// The gateway's own credential is refused.
    VendorAuth,
}

/// How long each phase of a call to a vendor may take.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutsTable {
    /// Name resolution, TCP and TLS.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub connect: Written<Duration>,
    /// From the request's last byte to the answer's first. Reasoning models that do not stream think
    /// for minutes: raise it for them.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub first_byte: Written<Duration>,
    /// Between bytes of the answer.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub idle: Written<Duration>,
    /// The whole call.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub total: Written<Duration>,
}

impl Default for TimeoutsTable {
    fn default() -> Self {
        let timeouts = Timeouts::default();
        Self {
            connect: Written(timeouts.connect),
            first_byte: Written(timeouts.first_byte),
            idle: Written(timeouts.idle),
            total: Written(timeouts.total),
        }
    }
}

/// Connections to one provider.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolTable {
    /// Connections at once, which over HTTP/1.1 is also calls at once.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_connections: usize,
    /// Connections kept open and ready, so that the first call after a pause pays no TLS handshake.
    #[schemars(range(max = 1_000))]
    pub warm: usize,
    /// HTTP/2 instead of HTTP/1.1. Long streams want connections of their own, so leave it off
    /// unless the vendor limits connections.
    pub http2: bool,
    /// How long a call waits for a free connection.
    pub wait: Written<Duration>,
    /// How long an idle connection is kept.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub idle_timeout: Written<Duration>,
    /// How long a connection lives, give or take a tenth.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub max_lifetime: Written<Duration>,
}

impl Default for PoolTable {
    fn default() -> Self {
        let pool = PoolSettings::default();
        Self {
            max_connections: pool.max_connections,
            warm: pool.warm,
            http2: pool.http2,
            wait: Written(pool.wait),
            idle_timeout: Written(pool.idle_timeout),
            max_lifetime: Written(pool.max_lifetime),
        }
    }
}
