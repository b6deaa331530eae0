//! Metrics for Prometheus.
//!
//! [`Metrics::observe`] derives every per-request metric from the one record of a call. Series are
//! looked up by small integers and kept, so a request costs some hash look-ups and atomic adds.
//! Label values come from the configuration only: see [`labels`](super::labels). Native histograms
//! and the `OpenMetrics` format are not offered.

use std::sync::Arc;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use prometheus::{
    CounterVec, Gauge, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Registry, TextEncoder,
};
use whippletree_policies::ids::{ProviderId, RouteId, TargetId};
use whippletree_policies::outcome::Class;
use whippletree_policies::route::breaker::BreakerState;
use whippletree_policies::route::health::Standing;
use whippletree_policies::time::UnixTime;

use super::declare::{Declare, Described};
use super::labels::{Label, Labels, OTHER};
use super::series::{Cached, RouteSeries, SpendSeries, TargetSeries, count, with};
use crate::config::Config;
use crate::config::reload::Refused;
use crate::exchange::{Api, Attempt, End, Exchange};
use crate::server::Counts;
use crate::store::Health;
use crate::upstream::{Phase, PoolCounts};

/// The most codes of refusals and rules of findings that get a series of their own. There are fewer
/// in the source; the bound is for mistakes.
const CODES: usize = 64;

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    catalogue: Vec<Described>,
    labels: ArcSwap<Cached>,

    requests: IntCounterVec,
    request_duration: HistogramVec,
    time_to_first_token: HistogramVec,
    gateway_overhead: Histogram,
    request_failures: IntCounterVec,
    refusals: IntCounterVec,
    refusal_codes: DashMap<String, IntCounter>,
    in_flight: IntGauge,
    repeats: IntCounterVec,

    attempts: IntCounterVec,
    attempt_duration: HistogramVec,
    retries: IntCounterVec,
    fallbacks: IntCounterVec,
    unclassified: IntCounterVec,
    breaker: IntGaugeVec,
    breaker_changes: IntCounterVec,

    tokens: IntCounterVec,
    cache_read: IntCounterVec,
    cache_expected: IntCounterVec,
    cost: CounterVec,
    usage_missing: IntCounterVec,
    usage_estimated: IntCounterVec,
    unpriced: IntCounterVec,
    cost_overflows: IntCounter,
    findings: IntCounterVec,
    finding_rules: DashMap<String, IntCounter>,

    connections: IntGauge,
    connections_accepted: IntCounter,
    connections_refused: IntCounter,
    pool_connections: IntGaugeVec,
    pool_opened: IntCounterVec,
    pool_reused: IntCounterVec,
    pool_cancelled: IntCounterVec,
    pool_failures: IntCounterVec,

    ledger_waiting: IntGauge,
    ledger_failing: IntGauge,
    spool_bytes: IntGauge,
    unspooled: IntCounter,
    unrecorded: IntCounter,
    log_dropped: IntCounter,

    reload_successful: IntGauge,
    reload_success_time: Gauge,
}

impl Metrics {
    /// Declares all metrics.
    ///
    /// # Errors
    ///
    /// Two metrics have one name, or a name is not allowed: a mistake in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let mut new = Declare::default();
        let seconds = prometheus::exponential_buckets(0.01, 2.0, 17)?;
        let short = vec![
            0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0,
        ];
        let build = new.int_gauges(
            "build_info",
            "Always 1; the release is in the label.",
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            labels: ArcSwap::from_pointee(Cached::new(Labels::none())),

            requests: new.int_counters("requests_total", "Client requests that have ended, by how they ended.", &["tenant", "route", "outcome"])?,
            request_duration: new.histograms("request_duration_seconds", "From a request's head to its response's end.", &["route"], &seconds)?,
            time_to_first_token: new.histograms("time_to_first_token_seconds", "From a request's head to the first content sent to the client.", &["route"], &seconds)?,
            gateway_overhead: new.histogram("gateway_overhead_seconds", "Time within the gateway that no vendor, wait or client accounts for.", short)?,
            request_failures: new.int_counters("request_failures_total", "Requests that failed or whose answer broke, by the class of the last attempt's failure.", &["route", "class"])?,
            refusals: new.int_counters("refusals_total", "Requests refused before any attempt, by code.", &["code"])?,
            refusal_codes: DashMap::new(),
            in_flight: new.int_gauge("requests_in_flight", "Client requests that have not ended.")?,

            repeats: new.int_counters("repeats_total", "Requests answered by the call of an earlier one that they repeat: joined, replayed or resumed.", &["kind"])?,

            attempts: new.int_counters("attempts_total", "Calls to targets, by what they came to; class ok is a success.", &["target", "class"])?,
            attempt_duration: new.histograms("attempt_duration_seconds", "From sending a call to a target to its end.", &["target"], &seconds)?,
            retries: new.int_counters("retries_total", "Attempts at the target that had just failed, by the class of that failure.", &["route", "class"])?,
            fallbacks: new.int_counters("fallbacks_total", "Attempts at another target than the one that had just failed.", &["from", "to"])?,
            unclassified: new.int_counters("unclassified_failures_total", "Failures that no rule knows: a vendor has a new way to fail.", &["target"])?,
            breaker_changes: new.int_counters("breaker_changes_total", "Changes of what stands in the way of a target or of one of its keys.", &["target", "change"])?,
            breaker: new.int_gauges("breaker_state", "0 closed, 1 half-open, 2 open, or shut because its model or key is refused.", &["target"])?,

            tokens: new.int_counters("tokens_total", "Tokens by kind; cache_read and cache_write are parts of input, reasoning of output.", &["tenant", "route", "target", "kind"])?,
            cache_read: new.int_counters("cache_read_tokens_total", "Input tokens that vendors report as read from their prompt cache.", &["tenant", "route", "target"])?,
            cache_expected: new.int_counters("cache_expected_tokens_total", "Input tokens that the vendor's cache should have read, by the prefix chain.", &["tenant", "route", "target"])?,
            cost: new.counters("cost_usd_total", "Spend in US dollars at list price; the ledger has the exact sum.", &["tenant", "route", "target"])?,
            usage_missing: new.int_counters("usage_missing_total", "Answers without a usage report and without an estimate.", &["target"])?,
            usage_estimated: new.int_counters("usage_estimated_total", "Attempts whose usage is the gateway's estimate.", &["target"])?,
            unpriced: new.int_counters("unpriced_attempts_total", "Attempts with usage that no price was known for.", &["target"])?,
            cost_overflows: new.int_counter("cost_overflows_total", "Attempts whose cost was beyond nine million dollars and was not counted.")?,
            findings: new.int_counters("prefix_findings_total", "Requests whose prefix had a finding, by the gravest rule.", &["rule"])?,
            finding_rules: DashMap::new(),

            connections: new.int_gauge("client_connections", "Open connections from clients.")?,
connections_accepted: new.int_counter("client_connections_total", "Connections that clients have opened.")?,
            connections_refused: new.int_counter("client_connections_refused_total", "Connections turned away because server.max_connections were open.")?,
                        pool_connections: new.int_gauges("pool_connections", "Connections to a provider: idle, in_use, or requests waiting for one.", &["provider", "state"])?,

            pool_opened: new.int_counters("pool_connections_opened_total", "Connections opened to a provider.", &["provider"])?,
            pool_reused: new.int_counters("pool_connections_reused_total", "Calls that took a connection that was open already.", &["provider"])?,
            pool_cancelled: new.int_counters("pool_calls_cancelled_total", "Calls whose answer was dropped before its end.", &["provider"])?,
            pool_failures: new.int_counters("pool_failures_total", "Calls that failed below HTTP, by the phase that they were in.", &["provider", "phase"])?,

            ledger_waiting: new.int_gauge("ledger_waiting_exchanges", "Recorded exchanges that are not in the database yet.")?,
            ledger_failing: new.int_gauge("ledger_failing", "1 while the database cannot be written.")?,
            spool_bytes: new.int_gauge("spool_bytes", "Size of the log beside the database.")?,
            unspooled: new.int_counter("unspooled_exchanges_total", "Exchanges that the log refused: the disk is full or failing.")?,
            unrecorded: new.int_counter("unrecorded_exchanges_total", "Exchanges that will never be in the ledger.")?,
            log_dropped: new.int_counter("log_lines_dropped_total", "Log lines dropped because their reader was too slow.")?,

            reload_successful: new.int_gauge("config_last_reload_successful", "1 if the last configuration was accepted.")?,
            reload_success_time: new.gauge("config_last_reload_success_timestamp_seconds", "When a configuration was last accepted, in seconds since 1970.")?,

            catalogue: new.catalogue,
            registry: new.registry,
        };
        #[cfg(target_os = "linux")]
        metrics.registry.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))?;
        Ok(metrics)
    }

    /// Takes the label values of a configuration that is in force from now on. Series of labels that
    /// are gone stay until the process ends.
    pub fn configure(&self, config: &Config) {
        self.labels
            .store(Arc::new(Cached::new(Labels::new(config))));
    }

    /// How the last reload ended, and since when the configuration in force is so.
    pub fn set_reload(&self, refused: Option<&Refused>, since: UnixTime) {
        self.reload_successful.set(i64::from(refused.is_none()));
        #[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
        self.reload_success_time.set(since.0 as f64 / 1e3);
    }

    /// A client's request has begun. [`Self::request_ended`] must follow.
    pub fn request_started(&self) {
        self.in_flight.inc();
    }

    /// A client's request has ended, however.
    pub fn request_ended(&self) {
        self.in_flight.dec();
    }

    /// Something now stands in the way of a target or of one of its keys, or no longer does.
    pub fn breaker_changed(&self, target: &TargetId, change: &str) {
        let cached = self.labels.load();
        let label = cached.labels.target(target.as_str());
        let names = [cached.labels.targets.name(label), change];
        self.breaker_changes.with_label_values(&names).inc();
    }

    /// An attempt's cost did not fit.
    pub fn cost_overflowed(&self) {
        self.cost_overflows.inc();
    }

    /// Counts a finished exchange in everything that derives from it.
    pub fn observe(&self, exchange: &Exchange) {
        let cached = self.labels.load();
        let labels = &cached.labels;
        let tenant = labels.tenant(exchange.tenant.as_str());
        let route = labels.route(exchange.route.as_ref().map(RouteId::as_str));
        count(&cached.requests, (tenant, route, exchange.outcome), || {
            let outcome = exchange.outcome.as_str();
            let names = [
                labels.tenants.name(tenant),
                labels.routes.name(route),
                outcome,
            ];
            self.requests.with_label_values(&names)
        });
        with(
            &cached.routes,
            route,
            || self.route_series(labels, route),
            |series| {
                series.duration.observe(exchange.duration_ms.seconds());
                if let Some(first) = exchange.ttft_ms {
                    series.first_token.observe(first.seconds());
                }
            },
        );
        self.gateway_overhead
            .observe(exchange.overhead_ms.seconds());
        if matches!(exchange.outcome, End::Failed | End::Interrupted) {
            let last = exchange.attempts.last().and_then(|attempt| attempt.class);
            let class = last.map_or(OTHER, Class::as_str);
            self.request_failures
                .with_label_values(&[labels.routes.name(route), class])
                .inc();
        }
        if exchange.outcome == End::Refused {
            let code = exchange.error.as_deref().unwrap_or(OTHER);
            count_code(&self.refusals, &self.refusal_codes, code);
        }
        if let Some(repeated) = exchange.repeats {
            let kind = repeated.kind.as_str();
            self.repeats.with_label_values(&[kind]).inc();
        }
        if let Some(rule) = exchange
            .prefix
            .as_ref()
            .and_then(|prefix| prefix.finding.as_deref())
        {
            count_code(&self.findings, &self.finding_rules, rule);
        }
        self.observe_attempts(&cached, exchange, tenant, route);
    }

    fn observe_attempts(&self, cached: &Cached, exchange: &Exchange, tenant: Label, route: Label) {
        let labels = &cached.labels;
        let mut before: Option<(Label, &Attempt)> = None;
        for attempt in &exchange.attempts {
            let target = labels.target(attempt.target.as_str());
            self.observe_attempt(cached, exchange.api, attempt, target);
            if let Some((from, failed)) = before {
                self.observe_another_try(labels, route, (from, failed), (target, attempt));
            }
            let spends = attempt.usage.is_some() || attempt.cost_usd.pico() != 0;
            if spends {
                let key = (tenant, route, target);
                with(
                    &cached.spend,
                    key,
                    || self.spend_series(labels, key),
                    |series| {
                        series.observe(attempt);
                    },
                );
            }
            before = Some((target, attempt));
        }
        if let (Some(prefix), Some((target, _))) = (&exchange.prefix, before) {
            let key = (tenant, route, target);
            with(
                &cached.spend,
                key,
                || self.spend_series(labels, key),
                |series| {
                    series.cache_expected.inc_by(prefix.expected_cached_tokens);
                },
            );
        }
    }

    fn observe_attempt(&self, cached: &Cached, api: Api, attempt: &Attempt, target: Label) {
        let labels = &cached.labels;
        with(
            &cached.targets,
            target,
            || self.target_series(labels, target),
            |series| {
                series.duration.observe(attempt.took_ms.seconds());
                match (attempt.class, attempt.usage) {
                    (None, None) => {
                        series.ok.inc();
                        // What is relayed untouched is not known to use anything.
                        series.usage_missing.inc_by(u64::from(api != Api::Other));
                    }
                    (None, Some(_)) => series.ok.inc(),
                    (Some(_), _) => {}
                }
                if let Some(usage) = attempt.usage {
                    series.usage_estimated.inc_by(u64::from(usage.estimated));
                    series
                        .unpriced
                        .inc_by(u64::from(attempt.price_version.is_none()));
                }
            },
        );
        let Some(class) = attempt.class else { return };
        let name = labels.targets.name(target);
        self.attempts
            .with_label_values(&[name, class.as_str()])
            .inc();
        if class == Class::Other {
            self.unclassified.with_label_values(&[name]).inc();
        }
    }

    fn observe_another_try(
        &self,
        labels: &Labels,
        route: Label,
        (from, failed): (Label, &Attempt),
        (to, next): (Label, &Attempt),
    ) {
        if failed.target == next.target {
            let class = failed.class.map_or("ok", Class::as_str);
            self.retries
                .with_label_values(&[labels.routes.name(route), class])
                .inc();
        } else {
            let names = [labels.targets.name(from), labels.targets.name(to)];
            self.fallbacks.with_label_values(&names).inc();
        }
    }

    /// The state of targets' breakers. Targets beyond the configuration share a series, which shows
    /// the worst.
    pub fn set_breakers(&self, standings: &[Standing]) {
        let cached = self.labels.load();
        self.breaker.reset();
        for standing in standings {
            let label = cached.labels.target(standing.target.as_str());
            let gauge = self
                .breaker
                .with_label_values(&[cached.labels.targets.name(label)]);
            let state = match (standing.breaker, standing.shut) {
                (BreakerState::Open { .. }, _) | (_, Some(_)) => 2,
                (BreakerState::HalfOpen, None) => 1,
                (BreakerState::Closed, None) => 0,
            };
            gauge.set(gauge.get().max(state));
        }
    }

    /// Connections of clients.
    pub fn set_connections(&self, counts: Counts) {
        let open = i64::try_from(counts.open).unwrap_or(i64::MAX);
        self.connections.set(open);
        raise(&self.connections_accepted, counts.accepted);
        raise(&self.connections_refused, counts.refused);
    }

    /// Connections and calls of each provider, which are names of the configuration.
    pub fn set_pools<'a>(&self, pools: impl IntoIterator<Item = (&'a ProviderId, PoolCounts)>) {
        for (provider, pool) in pools {
            let provider = provider.as_str();
            let states = [
                ("idle", pool.idle),
                ("in_use", pool.in_use),
                ("waiting", pool.waiting),
            ];
            for (state, number) in states {
                let gauge = self.pool_connections.with_label_values(&[provider, state]);
                gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
            }
            let counter = |family: &IntCounterVec, to| {
                raise(&family.with_label_values(&[provider]), to);
            };
            counter(&self.pool_opened, pool.created);
            counter(&self.pool_reused, pool.reused);
            counter(&self.pool_cancelled, pool.cancelled);
            for (phase, failures) in Phase::ALL.iter().zip(pool.failures) {
                let names = [provider, phase.as_str()];
                raise(&self.pool_failures.with_label_values(&names), failures);
            }
        }
    }

    /// How the store and the log are doing; called before each scrape.
    pub fn set_health(&self, store: &Health, log_lines_dropped: u64) {
        let gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.ledger_waiting.set(gauge(store.waiting));
        self.ledger_failing.set(i64::from(store.failing));
        self.spool_bytes.set(gauge(store.spool_bytes));
        raise(&self.unspooled, store.unspooled);
        raise(&self.unrecorded, store.lost);
        raise(&self.log_dropped, log_lines_dropped);
    }

    /// All metrics in Prometheus' text format, version 0.0.4.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail, and a family without samples is not gathered.
        let _ = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        text
    }

    /// What metrics there are, in the order of their declaration.
    pub fn catalogue(&self) -> &[Described] {
        &self.catalogue
    }

    fn route_series(&self, labels: &Labels, route: Label) -> RouteSeries {
        let names = [labels.routes.name(route)];
        RouteSeries {
            duration: self.request_duration.with_label_values(&names),
            first_token: self.time_to_first_token.with_label_values(&names),
        }
    }

    fn target_series(&self, labels: &Labels, target: Label) -> TargetSeries {
        let name = labels.targets.name(target);
        TargetSeries {
            duration: self.attempt_duration.with_label_values(&[name]),
            ok: self.attempts.with_label_values(&[name, "ok"]),
            usage_missing: self.usage_missing.with_label_values(&[name]),
            usage_estimated: self.usage_estimated.with_label_values(&[name]),
            unpriced: self.unpriced.with_label_values(&[name]),
        }
    }

    fn spend_series(&self, labels: &Labels, key: (Label, Label, Label)) -> SpendSeries {
        let names = [
            labels.tenants.name(key.0),
            labels.routes.name(key.1),
            labels.targets.name(key.2),
        ];
        let [tenant, route, target] = names;
        let kind = |kind| {
            self.tokens
                .with_label_values(&[tenant, route, target, kind])
        };
        SpendSeries {
            input: kind("input"),
            cache_read: kind("cache_read"),
            cache_write_5m: kind("cache_write_5m"),
            cache_write_1h: kind("cache_write_1h"),
            output: kind("output"),
            reasoning: kind("reasoning"),
            cache_read_total: self.cache_read.with_label_values(&names),
            cache_expected: self.cache_expected.with_label_values(&names),
            cost: self.cost.with_label_values(&names),
        }
    }
}

fn count_code(family: &IntCounterVec, known: &DashMap<String, IntCounter>, code: &str) {
    if let Some(counter) = known.get(code) {
        counter.inc();
    } else {
        let label = if known.len() < CODES { code } else { OTHER };
        let counter = family.with_label_values(&[label]);
        counter.inc();
        known.insert(label.to_owned(), counter);
    }
}

/// Brings a counter up to a count that is kept elsewhere.
fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
