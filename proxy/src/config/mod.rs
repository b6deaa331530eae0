//! The configuration as the gateway uses it: checked, resolved, immutable.
//!
//! What may be written in the file stands in [`mod@file`]; [`resolve`] turns it into these types, so a
//! value that exists is valid. One request sees one [`Config`] from start to end; a reload swaps the
//! whole.

pub mod credential;
pub mod diagnostics;
pub mod document;
pub mod environment;
pub mod fault;
pub mod file;
pub mod load;
pub mod read;
pub mod reload;
pub mod resolve;
pub mod schema;
pub mod secret;
mod tenants;
pub mod unavailable;
pub mod values;
pub mod vendors;
pub mod view;

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whippletree_policies::ids::{ProviderId, RouteId, TargetId, TenantId};
use whippletree_policies::outcome::Class;
use whippletree_policies::task::runaway::RunawayPolicy;
use whippletree_policies::units::Tokens;

pub use self::tenants::{Key, Limits, Tenant};

/// The whole configuration.
#[derive(Debug)]
pub struct Config {
    /// The data plane.
    pub server: Server,
    /// The admin plane.
    pub admin: Admin,
    /// Where the record is kept.
    pub store: Store,
    /// Endpoints of vendors, by name.
    pub providers: BTreeMap<ProviderId, Arc<Provider>>,
    /// Named routes.
    pub routes: BTreeMap<RouteId, Arc<Route>>,
    /// `provider/model` is a route of its own; this is the form such a route takes.
    pub direct: Option<RouteDefaults>,
    /// Where `/v1/*` paths that name no model go; `None` when no provider is configured.
    pub relay: Option<ProviderId>,
    /// Paying parties. Empty: loopback clients are served as tenant `default`, with any key or none.
    pub tenants: BTreeMap<TenantId, Arc<Tenant>>,
    /// Virtual keys by the SHA-256 of their secret.
    pub keys: HashMap<[u8; 32], Arc<Key>>,
    /// Per target, what differs from the catalogue.
    pub targets: BTreeMap<TargetId, Arc<TargetSettings>>,
    /// Models that no price is known for.
    pub unknown_model: UnknownModel,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// SHA-256 of the file's bytes, in hex; without a file, of the text that the environment stands
    /// for.
    pub hash: String,
}

/// The data plane's listener and its limits.
#[derive(Clone, Debug)]
pub struct Server {
    /// Default `127.0.0.1:8080`.
    pub listen: SocketAddr,
    /// Worker threads, each with a runtime of its own. Default: the number of cores.
    pub workers: usize,
    /// The largest request body in bytes. Default 32 MiB.
    pub max_body: u64,
    /// Bytes of request bodies held at once over all requests. Default 1 GiB.
    pub max_inflight_bytes: u64,
    /// How long a request's head may take. Default 10 s.
    pub header_timeout: Duration,
    /// How long a request's body may pause. Default 30 s.
    pub body_timeout: Duration,
    /// How long an idle connection is kept. Default 120 s.
    pub idle_timeout: Duration,
    /// The largest request head in bytes. Default 64 KiB.
    pub max_head: usize,
    /// The most header fields of a request. Default 100.
    pub max_headers: usize,
    /// Connections at once. Default 10,000.
    pub max_connections: usize,
    /// How long open streams may go on after a shutdown began. Default 60 s.
    pub drain_timeout: Duration,
    /// TLS towards clients.
    pub tls: Option<Tls>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            max_body: 32 << 20,
            max_inflight_bytes: 1 << 30,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(2),
            max_head: 64 << 10,
            max_headers: 100,
            max_connections: 10_000,
            drain_timeout: Duration::from_mins(1),
            tls: None,
        }
    }
}

/// A certificate and its key, reloaded when the files change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM, the chain, leaf first.
    pub cert: PathBuf,
    /// PEM.
    pub key: PathBuf,
    /// PEM; clients must show a certificate of this authority.
    pub client_ca: Option<PathBuf>,
}

/// The admin plane.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Default `127.0.0.1:8081`.
    pub listen: SocketAddr,
    /// Bearer tokens. Empty: loopback only.
    pub tokens: Vec<AdminToken>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8081).into(),
            tokens: Vec::new(),
        }
    }
}

/// A person's or tool's access to the admin plane.
#[derive(Clone, Debug)]
pub struct AdminToken {
    /// Shown in the audit log.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
}

/// What an admin token may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, and changes budgets.
    Finance,
    /// Everything.
    Admin,
}

/// Where the record is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Lost at exit.
    Memory,
    /// A file; its spool lies beside it.
    Sqlite(PathBuf),
}

/// An endpoint of a vendor with its credentials.
#[derive(Debug)]
pub struct Provider {
    /// The name in the configuration.
    pub id: ProviderId,
    /// The vendor: a name in the providers' registry.
    pub kind: &'static str,
    /// `http` or `https`.
    pub base_url: http::Uri,
    /// Credentials in order of use. Empty: requests carry none.
    pub keys: Vec<credential::Credential>,
    /// How long each phase of a call may take.
    pub timeouts: Timeouts,
    /// Connections.
    pub pool: PoolSettings,
    /// The forms of API that it speaks.
    pub apis: Vec<crate::exchange::Api>,
    /// What codes and types of its errors mean, where that differs from what is known.
    pub error_classes: BTreeMap<String, Class>,
    /// PEM of a private authority that its certificate may come from.
    pub ca: Option<PathBuf>,
}

/// How long each phase of an upstream call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// DNS, TCP and TLS. Default 5 s.
    pub connect: Duration,
    /// From the request's last byte to the answer's first. Default 60 s.
    pub first_byte: Duration,
    /// Between bytes of the answer. Default 120 s.
    pub idle: Duration,
    /// The whole call. Default 30 min.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_mins(1),
            idle: Duration::from_mins(2),
            total: Duration::from_mins(30),
        }
    }
}

/// Connections to one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// At once. Default 512.
    pub max_connections: usize,
    /// Kept open and ready. Default 0.
    pub warm: usize,
    /// HTTP/2 instead of HTTP/1.1. Default false.
    pub http2: bool,
    /// How long a call waits for a free connection. Default 5 s.
    pub wait: Duration,
    /// How long an idle connection is kept. Default 60 s.
    pub idle_timeout: Duration,
    /// How long a connection lives, give or take a tenth. Default 10 min.
    pub max_lifetime: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            max_connections: 512,
            warm: 0,
            http2: false,
            wait: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(1),
            max_lifetime: Duration::from_mins(10),
        }
    }
}

/// A name that clients ask for as `model`.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name.
    pub id: RouteId,
    /// Tried in order; never empty.
    pub targets: Vec<RouteTarget>,
    /// How it behaves.
    pub settings: RouteDefaults,
}

/// One target of a route.
#[derive(Clone, Debug)]
pub struct RouteTarget {
    /// `provider/model`.
    pub id: TargetId,
    /// Who serves it.
    pub provider: Arc<Provider>,
    /// The vendor's name of the model.
    pub model: String,
    /// The share among neighbours of equal rank; 1 unless stated.
    pub weight: u32,
    /// Targets of rank 0 share the load by weight; higher ranks are tried after lower ones.
    pub rank: u32,
}

/// How a route behaves.
#[derive(Clone, Debug)]
pub struct RouteDefaults {
    /// What a stream holds back.
    pub commit: Commit,
    /// How long a stream's opening is held at most before it is let go. Default 60 s.
    pub commit_wait: Duration,
    /// What happens upstream when a client leaves.
    pub on_disconnect: OnDisconnect,
    /// Events carry ids and are kept, so that a client can come back for the rest. Default false.
    pub resume: bool,
    /// Silence towards a streaming client is broken this often. Default 15 s.
    pub keepalive: Duration,
    /// Output tokens assumed where the client sets no limit. Default 32,000.
    pub max_output: Tokens,
    /// What clients that retry whatever the headers say are given.
    pub client_retry: ClientRetry,
    /// Attempts, waits and the deadline.
    pub retry: Retry,
    /// When a target is left alone.
    pub breaker: BreakerSettings,
    /// When an agent run is stopped. Default 5, 8 and 500.
    pub runaway: RunawayPolicy,
}

impl Default for RouteDefaults {
    fn default() -> Self {
        Self {
            commit: Commit::FirstToken,
            commit_wait: Duration::from_mins(1),
            on_disconnect: OnDisconnect::Cancel,
            resume: false,
            keepalive: Duration::from_secs(15),
            max_output: Tokens(32_000),
            client_retry: ClientRetry::Suppress,
            retry: Retry::default(),
            breaker: BreakerSettings::default(),
            runaway: RunawayPolicy {
                identical_requests: NonZeroU32::new(5),
                failures_in_a_row: NonZeroU32::new(8),
                requests_per_task: NonZeroU32::new(500),
            },
        }
    }
}

/// What a stream holds back until it is committed to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// Until the first content.
    FirstToken,
    /// Until each tool call is whole.
    ToolCalls,
    /// Until the answer is whole.
    Complete,
}

/// What happens upstream when a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// The call is cancelled.
    Cancel,
    /// The answer is read on to its usage report.
    Drain,
}

/// What clients that retry whatever the headers say are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientRetry {
    /// The true status.
    Allow,
    /// A status that they do not retry.
    Suppress,
}

/// Attempts, waits and the deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Over all targets. Default 4.
    pub max_attempts: u32,
    /// The first back-off's ceiling. Default 500 ms.
    pub base: Duration,
    /// Every back-off's ceiling. Default 20 s.
    pub cap: Duration,
    /// A longer hint is not waited for. Default 30 s.
    pub max_wait: Duration,
    /// Attempts, waits and fallbacks together. Default 10 min.
    pub deadline: Duration,
    /// Whether a request that may already have been served is sent again.
    pub ambiguous: Ambiguous,
    /// Retries as a share of recent requests. Default 0.1.
    pub budget_ratio: f64,
    /// Retries a second that are always allowed. Default 3.
    pub budget_min_per_second: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 4,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(20),
            max_wait: Duration::from_secs(30),
            deadline: Duration::from_mins(10),
            ambiguous: Ambiguous::Once,
            budget_ratio: 0.1,
            budget_min_per_second: 3,
        }
    }
}

/// Whether a request that may already have been served is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ambiguous {
    /// As often as the other bounds allow.
    Always,
    /// Not at all.
    Never,
    /// Once.
    Once,
}

/// When a target is left alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSettings {
    /// Failures among requests that open it. Default 0.5.
    pub failure_ratio: f64,
    /// The window looked at. Default 30 s.
    pub window: Duration,
    /// Fewer requests in the window open nothing. Default 20.
    pub min_requests: u32,
    /// How long it stays open before a probe. Default 15 s.
    pub open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failure_ratio: 0.5,
            window: Duration::from_secs(30),
            min_requests: 20,
            open_for: Duration::from_secs(15),
        }
    }
}

/// Per target, what differs from the catalogue.
#[derive(Clone, Debug, Default)]
pub struct TargetSettings {
    /// The model's context window in tokens.
    pub context_window: Option<Tokens>,
    /// The most the model can write.
    pub max_output_tokens: Option<Tokens>,
    /// Replaces the catalogue's price.
    pub price: Option<Arc<whippletree_policies::cost::PriceCard>>,
}

/// Models that no price is known for.
#[derive(Clone, Debug)]
pub enum UnknownModel {
    /// The request is refused.
    Refuse,
    /// The operator's rule.
    Price(Arc<whippletree_policies::cost::PriceCard>),
}

/// Logs and traces.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// `tracing`'s filter notation. Default `info`.
    pub log: String,
    /// The form of log lines.
    pub log_format: LogFormat,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            log_format: LogFormat::Json,
        }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people at a terminal.
    Text,
}
