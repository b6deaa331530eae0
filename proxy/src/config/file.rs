//! What may be written in the configuration file.
//!
//! These types are the only definition of the file's form. Their doc-comments are the manual
//! (`docs/configuration.md`), their JSON Schema is what `check --schema` prints, and the same schema
//! drives [`super::read`], which finds every fault of form at once. What each value means for the
//! others (names that must exist, hashes that must differ) stands in [`super::resolve`].
//!
//! A key whose feature is not built yet is not here but in [`super::unavailable`], so that it is
//! refused by name instead of being ignored.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whippletree_policies::units::Money;

use super::secret::SecretSource;
use super::values::{BaseUrl, Sha256, Size, Written, Zone};
use super::{
    Ambiguous, BreakerSettings, ClientRetry, Commit, LogFormat, OnDisconnect, PoolSettings, Retry,
    Role, RouteDefaults, Server, Telemetry, Timeouts,
};

/// The configuration file.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Whippletree configuration")]
pub struct File {
    /// Secrets may stand in this file as plain strings. Leave it off: a file that holds secrets
    /// ends up in version control and backups.
    pub allow_literal_secrets: bool,
    /// The data plane: where agents connect, and how much one of them may ask for.
    pub server: ServerTable,
    /// The admin plane: console, reports, metrics.
    pub admin: AdminTable,
    /// Where the record of calls and money is kept.
    pub store: StoreTable,
    /// Endpoints of vendors with their credentials, by a name of your choice. The name is the part
    /// before the slash in `provider/model`.
    pub providers: BTreeMap<String, ProviderTable>,
    /// How names become targets.
    pub routing: RoutingTable,
    /// Names that clients ask for as `model`.
    pub routes: BTreeMap<String, RouteTable>,
    /// Per target (`"provider/model"`), what differs from the catalogue.
    pub targets: BTreeMap<String, TargetTable>,
    /// Models that no price is known for.
    pub prices: PricesTable,
    /// Paying parties. Without any, clients on the loopback interface are served as tenant
    /// `default`, with any key or none, and all others are refused.
    pub tenants: BTreeMap<String, TenantTable>,
    /// Logs.
    pub telemetry: TelemetryTable,
}

/// The data plane.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTable {
    /// The address that agents connect to. A reload opens the new one before it closes the old.
    pub listen: Written<SocketAddr>,
    /// Worker threads, each with a runtime of its own. Without it: the number of cores. Takes effect
    /// at restart.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: Option<usize>,
    /// The largest request body. Agents with long sessions send megabytes.
    #[schemars(extend("x-minimum" = "1KiB"))]
    pub max_body: Written<Size>,
    /// Bytes of request bodies held at once over all requests; beyond it new requests are refused
    /// with 503. Set it well below the machine's memory.
    #[schemars(extend("x-minimum" = "1MiB"))]
    pub max_inflight_bytes: Written<Size>,
    /// How long the head of a request may take to arrive.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub header_timeout: Written<Duration>,
    /// How long the body of a request may pause.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub body_timeout: Written<Duration>,
    /// How long an idle connection is kept.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub idle_timeout: Written<Duration>,
    /// The largest head of a request.
    #[schemars(extend("x-minimum" = "8KiB", "x-maximum" = "16MiB"))]
    pub max_head: Written<Size>,
    /// The most header fields of a request.
    #[schemars(range(min = 10, max = 10_000))]
    pub max_headers: usize,
    /// Connections at once. Each takes a file descriptor.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: usize,
    /// How long open streams may go on after a shutdown began.
    pub drain_timeout: Written<Duration>,
    /// TLS towards clients. Without it: plain HTTP.
    pub tls: Option<TlsTable>,
}

impl Default for ServerTable {
    fn default() -> Self {
        let server = Server::default();
        Self {
            listen: Written(server.listen),
            workers: None,
            max_body: Written(Size(server.max_body)),
            max_inflight_bytes: Written(Size(server.max_inflight_bytes)),
            header_timeout: Written(server.header_timeout),
            body_timeout: Written(server.body_timeout),
            idle_timeout: Written(server.idle_timeout),
            max_head: Written(Size(server.max_head.try_into().unwrap_or(u64::MAX))),
            max_headers: server.max_headers,
            max_connections: server.max_connections,
            drain_timeout: Written(server.drain_timeout),
            tls: None,
        }
    }
}

/// A certificate and its key, reloaded when the files change.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsTable {
    /// A PEM file: the certificate chain, leaf first.
    pub cert: String,
    /// A PEM file: the private key.
    pub key: String,
    /// A PEM file: clients must show a certificate of this authority.
    pub client_ca: Option<String>,
}

/// The admin plane.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdminTable {
    /// The address of the admin plane. Takes effect at restart.
    pub listen: Written<SocketAddr>,
    /// Bearer tokens. Without any, the admin plane answers clients on the loopback interface alone.
    pub tokens: Vec<AdminTokenTable>,
}

impl Default for AdminTable {
    fn default() -> Self {
        Self {
            listen: Written(super::Admin::default().listen),
            tokens: Vec::new(),
        }
    }
}

/// Access to the admin plane.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdminTokenTable {
    /// Shown in the audit log. Unique.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What the token may do.
    pub role: Role,
    /// The token itself, at least 16 bytes.
    pub token: SecretSource,
}

/// The record's place.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreTable {
    /// A SQLite file, relative to the working directory. `":memory:"` keeps nothing after exit.
    /// Takes effect at restart.
    #[schemars(length(min = 1))]
    pub path: String,
}

impl Default for StoreTable {
    fn default() -> Self {
        Self {
            path: "whippletree.db".to_owned(),
        }
    }
}

/// An endpoint of a vendor with its credentials.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderTable {
    /// The vendor.
    #[schemars(schema_with = "super::vendors::kinds_schema")]
    pub kind: String,
    /// The address that the API's paths are appended to. Without it: the vendor's own; some kinds
    /// have none and demand it.
    pub base_url: Option<Written<BaseUrl>>,
    /// Credentials, in order of use: the next one is tried while an earlier one is limited or
    /// refused. Empty: requests carry none.
    #[serde(default)]
    pub keys: Vec<SecretSource>,
    /// How long each phase of a call may take.
    #[serde(default)]
    pub timeouts: TimeoutsTable,
    /// Connections to the endpoint.
    #[serde(default)]
    pub pool: PoolTable,
    /// The forms of API that it speaks. Without it: what the kind is known for.
    pub apis: Option<Vec<ApiName>>,
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
    /// `POST /v1/embeddings`.
    Embeddings,
    /// `POST /v1/responses`.
    Responses,
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

/// How names become targets.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingTable {
    /// `provider/model` is a route of its own, for every configured provider. Switch it off to allow
    /// the named routes alone.
    pub direct: bool,
    /// The provider that `/v1/*` paths go to which name no model. Without it: the provider that
    /// stands first in the file.
    pub relay: Option<String>,
}

impl Default for RoutingTable {
    fn default() -> Self {
        Self {
            direct: true,
            relay: None,
        }
    }
}

/// A name that clients ask for as `model`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// `"provider/model"`, tried in order. Neighbouring entries written with a weight form one rank
    /// and share the load: `{ target = "provider/model", weight = 2 }`.
    #[schemars(length(min = 1))]
    pub targets: Vec<TargetEntry>,
    /// What a stream holds back until it is committed to a target. A failure before that is retried
    /// unseen; after it the client is told.
    #[serde(default = "RouteTable::commit")]
    pub commit: Commit,
    /// How long a stream's opening is held at most before it is let go.
    #[serde(default = "RouteTable::commit_wait")]
    pub commit_wait: Written<Duration>,
    /// What happens upstream when a client leaves.
    #[serde(default = "RouteTable::on_disconnect")]
    pub on_disconnect: OnDisconnect,
    /// Silence towards a streaming client is broken this often, so that nothing between cuts the
    /// connection.
    #[serde(default = "RouteTable::keepalive")]
    #[schemars(extend("x-minimum" = "1ms"))]
    pub keepalive: Written<Duration>,
    /// Output tokens assumed where the client sets no limit; budgets reserve this much.
    #[serde(default = "RouteTable::max_output")]
    #[schemars(range(min = 1))]
    pub max_output: u64,
    /// What clients that retry whatever the headers say are given when the gateway has given up.
    #[serde(default = "RouteTable::client_retry")]
    pub client_retry: ClientRetry,
    /// Attempts, waits and the deadline.
    #[serde(default)]
    pub retry: RetryTable,
    /// When a target is left alone.
    #[serde(default)]
    pub breaker: BreakerTable,
}

impl RouteTable {
    fn commit() -> Commit {
        RouteDefaults::default().commit
    }

    fn commit_wait() -> Written<Duration> {
        Written(RouteDefaults::default().commit_wait)
    }

    fn on_disconnect() -> OnDisconnect {
        RouteDefaults::default().on_disconnect
    }

    fn keepalive() -> Written<Duration> {
        Written(RouteDefaults::default().keepalive)
    }

    fn max_output() -> u64 {
        RouteDefaults::default().max_output.0
    }

    fn client_retry() -> ClientRetry {
        RouteDefaults::default().client_retry
    }
}

/// One target of a route.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TargetEntry {
    /// `"provider/model"`: a rank of its own.
    Name(String),
    /// A share of the load.
    Weighted(WeightedTarget),
}

/// A target that shares the load with its neighbours.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedTarget {
    /// `"provider/model"`.
    pub target: String,
    /// The share, in proportion to the weights of neighbouring entries.
    #[serde(default = "WeightedTarget::weight")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
}

impl WeightedTarget {
    const fn weight() -> u32 {
        1
    }
}

/// Attempts, waits and the deadline.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryTable {
    /// Attempts over all targets.
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// The first back-off's ceiling.
    pub base: Written<Duration>,
    /// Every back-off's ceiling.
    pub cap: Written<Duration>,
    /// A vendor's hint to wait is followed up to here; a longer one is not waited for.
    pub max_wait: Written<Duration>,
    /// Attempts, waits and fallbacks together.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub deadline: Written<Duration>,
    /// Whether a request that may already have been served (and billed) is sent again.
    pub ambiguous: Ambiguous,
    /// Retries as a share of the traffic, so that an outage is not multiplied.
    pub budget: RetryBudgetTable,
}

impl Default for RetryTable {
    fn default() -> Self {
        let retry = Retry::default();
        Self {
            max_attempts: retry.max_attempts,
            base: Written(retry.base),
            cap: Written(retry.cap),
            max_wait: Written(retry.max_wait),
            deadline: Written(retry.deadline),
            ambiguous: retry.ambiguous,
            budget: RetryBudgetTable::default(),
        }
    }
}

/// Retries as a share of the traffic.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudgetTable {
    /// Retries for each recent request.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub ratio: f64,
    /// Retries a second that are always allowed.
    #[schemars(range(max = 100_000))]
    pub min_per_second: u32,
}

impl Default for RetryBudgetTable {
    fn default() -> Self {
        let retry = Retry::default();
        Self {
            ratio: retry.budget_ratio,
            min_per_second: retry.budget_min_per_second,
        }
    }
}

/// When a target is left alone.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerTable {
    /// The share of failures that opens the breaker.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub failure_ratio: f64,
    /// The window looked at.
    #[schemars(extend("x-minimum" = "1s"))]
    pub window: Written<Duration>,
    /// Fewer requests in the window open nothing.
    #[schemars(range(min = 1))]
    pub min_requests: u32,
    /// How long it stays open before a probe.
    #[schemars(extend("x-minimum" = "1ms"))]
    pub open_for: Written<Duration>,
}

impl Default for BreakerTable {
    fn default() -> Self {
        let breaker = BreakerSettings::default();
        Self {
            failure_ratio: breaker.failure_ratio,
            window: Written(breaker.window),
            min_requests: breaker.min_requests,
            open_for: Written(breaker.open_for),
        }
    }
}

/// What differs from the catalogue for one target.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetTable {
    /// The model's context window in tokens.
    #[schemars(range(min = 1))]
    pub context_window: Option<u64>,
    /// The most tokens that the model can write.
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u64>,
    /// Replaces the catalogue's price.
    pub price: Option<PriceTable>,
}

/// The prices of one model, in dollars per `per` tokens.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Input that no cache was involved in.
    pub input: Written<Money>,
    /// Input read from the vendor's cache. Without it: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Written<Money>>,
    /// Input written to the cache for five minutes. Without it: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<Written<Money>>,
    /// Input written to the cache for an hour. Without it: as `cache_write_5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Written<Money>>,
    /// Everything written.
    pub output: Written<Money>,
    /// Reasoning within the output. Without it: as `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Written<Money>>,
    /// Audio within the input. Without it: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_input: Option<Written<Money>>,
    /// Audio within the output. Without it: as `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_output: Option<Written<Money>>,
    /// For each image made or read, where it is charged by the piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Written<Money>>,
    /// For each call, whatever its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Written<Money>>,
    /// The number of tokens that the prices are for.
    #[serde(default = "million")]
    #[schemars(range(min = 1))]
    pub per: u64,
    /// Dearer rates for long contexts. The tier that fits prices the whole call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierTable>,
}

const fn million() -> u64 {
    1_000_000
}

/// The rates of a long context.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierTable {
    /// The tier applies to calls that read more tokens than this, cached or not.
    pub above: u64,
    /// As above.
    pub input: Written<Money>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Written<Money>>,
    /// As above.
    pub output: Written<Money>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_input: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_output: Option<Written<Money>>,
}

/// Models that no price is known for.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PricesTable {
    /// `"refuse"`, or the price that such models are charged at. Refusing is the safe side: a model
    /// without a price would spend without end.
    pub unknown_model: UnknownModelEntry,
}

/// What happens to a model that no price is known for.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UnknownModelEntry {
    /// The request is refused.
    Word(Refuse),
    /// It is charged at this price.
    Price(Box<PriceTable>),
}

impl Default for UnknownModelEntry {
    fn default() -> Self {
        Self::Word(Refuse::Refuse)
    }
}

/// The word `"refuse"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refuse {
    /// The request is refused.
    Refuse,
}

/// A paying party.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantTable {
    /// An IANA time zone, for the tenant's calendar days and months.
    pub time_zone: ZoneEntry,
    /// Routes that it may use: names, `provider/model` or `provider/*`. Without it: all.
    #[schemars(length(min = 1))]
    pub routes: Option<Vec<String>>,
    /// Rates and concurrency.
    pub limits: LimitsTable,
    /// Virtual keys. `whippletree keys new TENANT NAME` makes one.
    pub keys: Vec<KeyTable>,
}

/// An IANA time zone.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ZoneEntry(pub Written<Zone>);

impl Default for ZoneEntry {
    fn default() -> Self {
        Self(Written(Zone(jiff::tz::TimeZone::UTC)))
    }
}

/// Rates and concurrency. A limit that is not set is none.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsTable {
    /// Requests in a minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<std::num::NonZeroU32>,
    /// Requests at once.
    #[schemars(range(min = 1))]
    pub concurrent: Option<std::num::NonZeroU32>,
}

/// A virtual key.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyTable {
    /// The name, unique within the tenant.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The SHA-256 of the key. The key itself is stored nowhere.
    pub sha256: Written<Sha256>,
}

/// Logs.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryTable {
    /// How much is logged: `error`, `warn`, `info`, `debug`, `trace`, or a filter by module such as
    /// `info,whippletree::upstream=debug`. Takes effect at restart.
    #[schemars(length(min = 1))]
    pub log: String,
    /// The form of log lines. Without it: text at a terminal, JSON elsewhere. Takes effect at
    /// restart.
    pub log_format: Option<LogFormat>,
}

impl Default for TelemetryTable {
    fn default() -> Self {
        Self {
            log: Telemetry::default().log,
            log_format: None,
        }
    }
}
