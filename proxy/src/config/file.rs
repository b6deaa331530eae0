//! What may be written in the configuration file.
//!
//! These types are the only definition of the file's form. Their doc-comments are the manual
//! (`docs/configuration.md`), their JSON Schema is what `check --schema` prints, and the same schema
//! drives [`super::read`], which finds every fault of form at once. What each value means for the
//! others (names that must exist, hashes that must differ) stands in [`super::resolve`].
//!
//! A key whose feature is not built yet is not here but in [`super::unavailable`], so that it is
//! refused by name instead of being ignored.

mod prices;
mod providers;
mod routes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use prices::{PriceTable, PricesTable, Refuse, TargetTable, TierTable, UnknownModelEntry};
pub use providers::{ApiName, ErrorClass, PoolTable, ProviderTable, TimeoutsTable};
pub use routes::{
    BreakerTable, RetryBudgetTable, RetryTable, RouteTable, RoutingTable, RunawayTable,
    TargetEntry, WeightedTarget,
};

use super::secret::SecretSource;
use super::values::{Sha256, Size, Written, Zone};
use super::{LogFormat, Role, Server, Telemetry};

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

/// A paying party.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantTable {
    /// An IANA time zone, for the tenant's calendar days and months.
    pub time_zone: ZoneEntry,
    /// Routes that it may use: names, `provider/model` or `provider/*`. Without it: all.
    #[schemars(length(min = 1))]
    pub routes: Option<Vec<String>>,
    /// Rates and concurrency.
    pub limits: LimitsTable,
    /// Agent runs that get nowhere are stopped, by the limits of their route. Switch it off for a
    /// tenant whose agents have to ask the same thing again and again.
    pub runaway: bool,
    /// Virtual keys. `whippletree keys new TENANT NAME` makes one.
    pub keys: Vec<KeyTable>,
}

impl Default for TenantTable {
    fn default() -> Self {
        Self {
            time_zone: ZoneEntry::default(),
            routes: None,
            limits: LimitsTable::default(),
            runaway: true,
            keys: Vec::new(),
        }
    }
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
    /// Tokens in a minute, read and written. What a call may use at most is taken before it is sent
    /// (one token for four bytes of the request; the output that it allows, else the route's
    /// `max_output`, but no more than the target's `max_output_tokens`), and what it did not use is given back at its end. Relayed paths do not count.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<std::num::NonZeroU32>,
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
