//! `[routing]` and `[routes]`: from names to targets.

use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::Written;
use crate::config::{
    Ambiguous, BreakerSettings, ClientRetry, Commit, OnDisconnect, Retry, RouteDefaults,
};

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
    /// How long a stream's opening is held at most before it is let go; `keepalive` where that is
    /// shorter.
    #[serde(default = "RouteTable::commit_wait")]
    pub commit_wait: Written<Duration>,
    /// What happens upstream when a client leaves. `"drain"` reads the answer on to its usage report,
    /// for two minutes and 16 MiB at most, where exact books are worth more than the tokens.
    #[serde(default = "RouteTable::on_disconnect")]
    pub on_disconnect: OnDisconnect,
    /// Events of streams carry ids and are kept for some minutes: a client whose connection broke gets
    /// the rest by `Last-Event-ID` with the same body and key, and pays once. The call goes on for
    /// 30 s without a client. Costs memory for each stream.
    #[serde(default)]
    pub resume: bool,
    /// Silence towards a streaming client is broken this often, so that nothing between cuts the
    /// connection.
    #[serde(default = "RouteTable::keepalive")]
    #[schemars(extend("x-minimum" = "1ms"))]
    pub keepalive: Written<Duration>,
    /// Output tokens assumed where the client sets no limit: so many are held of the tenant's
    /// `tokens_per_minute` until the call ends.
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
    /// When an agent run that gets nowhere is stopped. Only runs that a header or a session field of
    /// the request names are watched.
    #[serde(default)]
    pub runaway: RunawayTable,
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
    /// Fewer requests in the window open nothing. So many failures in a row, over a tenth of the
    /// window, open it too.
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

/// When an agent run that gets nowhere is stopped, with 429 `runaway_task`. 0 is no limit.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunawayTable {
    /// The same request, or the same tool call with the same result, among the run's last 32.
    pub identical_requests: u32,
    /// Failed requests in a row. One more may try half a minute after the last.
    pub failures_in_a_row: u32,
    /// Requests in all, until the run has been silent for an hour. Raise it for sessions of days.
    pub requests_per_task: u32,
}

impl Default for RunawayTable {
    fn default() -> Self {
        let policy = RouteDefaults::default().runaway;
        let number = |limit: Option<NonZeroU32>| limit.map_or(0, NonZeroU32::get);
        Self {
            identical_requests: number(policy.identical_requests),
            failures_in_a_row: number(policy.failures_in_a_row),
            requests_per_task: number(policy.requests_per_task),
        }
    }
}
