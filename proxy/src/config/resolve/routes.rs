//! Routes, their targets, and the prices of targets.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use whippletree_policies::cost::PriceCard;
use whippletree_policies::ids::{ProviderId, RouteId, TargetId};
use whippletree_policies::task::runaway::RunawayPolicy;
use whippletree_policies::units::Tokens;

use super::{Resolver, Shared, Slash};
use crate::config::fault::Path;
use crate::config::file::{
    BreakerTable, PriceTable, RetryTable, RouteTable, RunawayTable, TargetEntry, TargetTable,
    UnknownModelEntry,
};
use crate::config::{
    BreakerSettings, Provider, Retry, Route, RouteDefaults, RouteTarget, TargetSettings,
    UnknownModel,
};

impl Resolver<'_> {
    pub(super) fn routes(
        &mut self,
        tables: &BTreeMap<String, RouteTable>,
        providers: &Shared<ProviderId, Provider>,
    ) -> Shared<RouteId, Route> {
        let mut routes = BTreeMap::new();
        for (name, table) in tables {
            let at = Path::of(["routes", name]);
            self.name(&at, name, Slash::Allowed);
            let route = Route {
                id: RouteId::from(name.as_str()),
                targets: self.route_targets(&at.key("targets"), &table.targets, providers),
                settings: self.settings(&at, table),
            };
            routes.insert(route.id.clone(), Arc::new(route));
        }
        routes
    }

    fn route_targets(
        &mut self,
        at: &Path,
        entries: &[TargetEntry],
        providers: &Shared<ProviderId, Provider>,
    ) -> Vec<RouteTarget> {
        let mut targets: Vec<RouteTarget> = Vec::new();
        let mut seen: BTreeMap<&str, Path> = BTreeMap::new();
        let mut rank = 0_u32;
        let mut sharing = false;
        for (index, entry) in entries.iter().enumerate() {
            let at = at.index(index);
            let (name, weight, place) = match entry {
                TargetEntry::Name(name) => (name, None, at),
                TargetEntry::Weighted(entry) => {
                    (&entry.target, Some(entry.weight), at.key("target"))
                }
            };
            if index > 0 && !(sharing && weight.is_some()) {
                rank += 1;
            }
            sharing = weight.is_some();
            self.unique(&mut seen, name, &place, "target");
            if let Some((provider, model)) = self.target(&place, name, providers) {
                targets.push(RouteTarget {
                    id: TargetId::from(name.as_str()),
                    provider: Arc::clone(provider),
                    model: model.to_owned(),
                    weight: weight.unwrap_or(1),
                    rank,
                });
            }
        }
        targets
    }

    /// Who serves a target and what they call the model; reports a name that says neither.
    fn target<'p, 'n>(
        &mut self,
        at: &Path,
        name: &'n str,
        providers: &'p Shared<ProviderId, Provider>,
    ) -> Option<(&'p Arc<Provider>, &'n str)> {
        match name.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => self
                .known_provider(at, provider, providers)
                .map(|provider| (provider, model)),
            _ => {
                let fault = self.value_fault(at, format!("`{name}` names no target"));
                fault.expected = Some("expected \"provider/model\"".to_owned());
                None
            }
        }
    }

    fn settings(&mut self, at: &Path, table: &RouteTable) -> RouteDefaults {
        RouteDefaults {
            commit: table.commit,
            commit_wait: table.commit_wait.0,
            on_disconnect: table.on_disconnect,
            resume: table.resume,
            keepalive: table.keepalive.0,
            max_output: Tokens(table.max_output),
            client_retry: table.client_retry,
            retry: self.retry(&at.key("retry"), &table.retry),
            breaker: breaker(&table.breaker),
            runaway: runaway(&table.runaway),
        }
    }

    fn retry(&mut self, at: &Path, table: &RetryTable) -> Retry {
        if table.base.0 > table.cap.0 {
            let place = if self.document.node(&at.key("base")).is_some() {
                at.key("base")
            } else {
                at.key("cap")
            };
            let message = format!("the first back-off of `{at}` is longer than the longest");
            self.value_fault(&place, message).expected =
                Some("expected `base` to be at most `cap`".to_owned());
        }
        Retry {
            max_attempts: table.max_attempts,
            base: table.base.0,
            cap: table.cap.0,
            max_wait: table.max_wait.0,
            deadline: table.deadline.0,
            ambiguous: table.ambiguous,
            budget_ratio: table.budget.ratio,
            budget_min_per_second: table.budget.min_per_second,
        }
    }

    pub(super) fn targets(
        &mut self,
        tables: &BTreeMap<String, TargetTable>,
        providers: &Shared<ProviderId, Provider>,
    ) -> Shared<TargetId, TargetSettings> {
        let mut targets = BTreeMap::new();
        for (name, table) in tables {
            let at = Path::of(["targets", name]);
            let known = self.target(&at, name, providers).is_some();
            let price = table
                .price
                .as_ref()
                .and_then(|price| self.price(&at.key("price"), price));
            if known {
                let settings = TargetSettings {
                    context_window: table.context_window.map(Tokens),
                    max_output_tokens: table.max_output_tokens.map(Tokens),
                    price,
                };
                targets.insert(TargetId::from(name.as_str()), Arc::new(settings));
            }
        }
        targets
    }

    pub(super) fn unknown_model(&mut self, entry: &UnknownModelEntry) -> UnknownModel {
        match entry {
            UnknownModelEntry::Word(_) => UnknownModel::Refuse,
            UnknownModelEntry::Price(table) => {
                let at = Path::of(["prices", "unknown_model"]);
                self.price(&at, table)
                    .map_or(UnknownModel::Refuse, UnknownModel::Price)
            }
        }
    }

    /// A price card; reports one whose numbers do not fit together.
    fn price(&mut self, at: &Path, table: &PriceTable) -> Option<Arc<PriceCard>> {
        let card = serde_json::to_value(table).and_then(serde_json::from_value);
        card.map(Arc::new)
            .map_err(|error: serde_json::Error| {
                self.value_fault(at, format!("`{at}`: {error}"));
            })
            .ok()
    }
}

fn runaway(table: &RunawayTable) -> RunawayPolicy {
    RunawayPolicy {
        identical_requests: NonZeroU32::new(table.identical_requests),
        failures_in_a_row: NonZeroU32::new(table.failures_in_a_row),
        requests_per_task: NonZeroU32::new(table.requests_per_task),
    }
}

fn breaker(table: &BreakerTable) -> BreakerSettings {
    BreakerSettings {
        failure_ratio: table.failure_ratio,
        window: table.window.0,
        min_requests: table.min_requests,
        open_for: table.open_for.0,
    }
}
