//! Time series that are in use, kept so that a request finds them by small integers.

use std::hash::Hash;

use dashmap::DashMap;
use prometheus::{Counter, Histogram, IntCounter};
use whippletree_policies::units::Tokens;
use whippletree_policies::usage::Usage;

use super::labels::{Label, Labels};
use crate::exchange::{Attempt, End};

/// Series of one configuration, found by label.
#[derive(Debug)]
pub(super) struct Cached {
    pub(super) labels: Labels,
    pub(super) requests: DashMap<(Label, Label, End), IntCounter>,
    pub(super) routes: DashMap<Label, RouteSeries>,
    pub(super) targets: DashMap<Label, TargetSeries>,
    pub(super) spend: DashMap<(Label, Label, Label), SpendSeries>,
}

#[derive(Debug)]
pub(super) struct RouteSeries {
    pub(super) duration: Histogram,
    pub(super) first_token: Histogram,
}

#[derive(Debug)]
pub(super) struct TargetSeries {
    pub(super) duration: Histogram,
    pub(super) ok: IntCounter,
    pub(super) usage_missing: IntCounter,
    pub(super) usage_estimated: IntCounter,
    pub(super) unpriced: IntCounter,
}

#[derive(Debug)]
pub(super) struct SpendSeries {
    pub(super) input: IntCounter,
    pub(super) cache_read: IntCounter,
    pub(super) cache_write_5m: IntCounter,
    pub(super) cache_write_1h: IntCounter,
    pub(super) output: IntCounter,
    pub(super) reasoning: IntCounter,
    pub(super) cache_read_total: IntCounter,
    pub(super) cache_expected: IntCounter,
    pub(super) cost: Counter,
}

impl SpendSeries {
    pub(super) fn observe(&self, attempt: &Attempt) {
        #[expect(clippy::cast_precision_loss, reason = "the ledger has the exact sum")]
        self.cost
            .inc_by(attempt.cost_usd.pico().max(0) as f64 / 1e12);
        let Some(usage) = attempt.usage else { return };
        let Usage { input, output, .. } = usage;
        self.input.inc_by(input.0);
        self.output.inc_by(output.0);
        let part = |tokens: Option<Tokens>| tokens.unwrap_or_default().0;
        self.cache_read.inc_by(part(usage.cache_read));
        self.cache_read_total.inc_by(part(usage.cache_read));
        self.cache_write_5m.inc_by(part(usage.cache_write_5m));
        self.cache_write_1h.inc_by(part(usage.cache_write_1h));
        self.reasoning.inc_by(part(usage.reasoning));
    }
}

impl Cached {
    pub(super) fn new(labels: Labels) -> Self {
        Self {
            labels,
            requests: DashMap::new(),
            routes: DashMap::new(),
            targets: DashMap::new(),
            spend: DashMap::new(),
        }
    }
}

/// Uses the series at `key`, which is made if it is new.
pub(super) fn with<K: Eq + Hash, V>(
    map: &DashMap<K, V>,
    key: K,
    make: impl FnOnce() -> V,
    then: impl FnOnce(&V),
) {
    if let Some(series) = map.get(&key) {
        then(&series);
    } else {
        then(&map.entry(key).or_insert_with(make));
    }
}

pub(super) fn count<K: Eq + Hash>(
    map: &DashMap<K, IntCounter>,
    key: K,
    make: impl FnOnce() -> IntCounter,
) {
    with(map, key, make, IntCounter::inc);
}
