//! What all requests share: the configuration snapshot and the long-lived state.
//!
//! A [`Snapshot`] is immutable; one request sees one from start to end, and a reload swaps the whole.
//! State that outlives a reload — the record, metrics, health, limits — hangs on [`Gateway`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use whippletree_policies::ids::{ProviderId, RouteId, TargetId};

use crate::api::models::Model;
use crate::config::credential::{Credential, Grant};
use crate::config::{Config, Provider, Route, RouteTarget};
use crate::credentials::tokens::TokenSource;
use crate::exchange::Exchange;
use crate::limits::Limiters;
use crate::pipeline::share::Calls;
use crate::prices;
use crate::server::InflightBytes;
use crate::state::State;
use crate::store::Recorder;
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;
use crate::tls::TlsError;
use crate::upstream::Pool;

/// Routes made for `provider/model` names that are remembered; beyond that they are made anew for
/// each request, since clients choose the names.
const DIRECT_ROUTES: usize = 1024;

/// What all requests share.
#[derive(Debug)]
pub struct Gateway {
    snapshot: ArcSwap<Snapshot>,
    recorder: Recorder,
    /// Counters and histograms.
    pub metrics: Arc<Metrics>,
    /// Health, retry budgets and counts in flight.
    pub state: State,
    /// Request rates and concurrency per tenant.
    pub limiters: Limiters,
    /// Calls that may be repeated by their clients.
    pub calls: Calls,
    /// Memory for request bodies.
    pub inflight_bytes: InflightBytes,
    draining: AtomicBool,
}

/// The configuration that one request sees, with what is derived from it.
#[derive(Debug)]
pub struct Snapshot {
    /// The configuration.
    pub config: Arc<Config>,
    pools: HashMap<ProviderId, Arc<Pool>>,
    /// By the grant's fingerprint.
    tokens: HashMap<[u8; 32], Arc<TokenSource>>,
    direct: DashMap<String, Arc<Route>>,
    models: Vec<Model>,
}

/// Why a name leads to no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoute {
    /// Names that were perhaps meant.
    pub nearest: Vec<String>,
}

impl Gateway {
    /// Starts from a first configuration.
    ///
    /// # Errors
    /// A provider's private authority cannot be read.
    pub fn new(
        config: Arc<Config>,
        recorder: Recorder,
        metrics: Arc<Metrics>,
    ) -> Result<Self, TlsError> {
        let inflight_bytes = InflightBytes::new(config.server.max_inflight_bytes);
        let state = State::new(Arc::clone(&metrics));
        state.configure(&config);
        Ok(Self {
            snapshot: ArcSwap::from_pointee(Snapshot::new(config, None)?),
            recorder,
            metrics,
            state,
            limiters: Limiters::default(),
            calls: Calls::default(),
            inflight_bytes,
            draining: AtomicBool::new(false),
        })
    }

    /// The snapshot that a new request sees.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Swaps the configuration; requests under way keep theirs.
    ///
    /// # Errors
    /// A provider's private authority cannot be read; the old configuration stays.
    pub fn reload(&self, config: &Arc<Config>) -> Result<(), TlsError> {
        let next = Snapshot::new(Arc::clone(config), Some(&self.snapshot.load()))?;
        self.state.configure(config);
        self.metrics.configure(config);
        self.snapshot.store(Arc::new(next));
        Ok(())
    }

    /// Records a call that has ended: the store first, since the last byte waits for it.
    pub fn record(&self, exchange: &Exchange) {
        self.recorder.record(exchange);
        self.metrics.observe(exchange);
        log::exchange(exchange);
    }

    /// New requests are turned away from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether new requests are turned away.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

impl Snapshot {
    /// Pools of providers that did not change are kept, so that a reload closes no connection.
    pub(crate) fn new(config: Arc<Config>, before: Option<&Snapshot>) -> Result<Self, TlsError> {
        let mut pools = HashMap::new();
        for provider in config.providers.values() {
            let pool = match before.and_then(|b| b.kept_pool(provider)) {
                Some(kept) => kept,
                None => Arc::new(Pool::new(provider, config.server.workers)?),
            };
            pools.insert(provider.id.clone(), pool);
        }
        let tokens = tokens(&config, before)?;
        let models = models(&config);
        Ok(Self {
            config,
            pools,
            tokens,
            direct: DashMap::new(),
            models,
        })
    }

    fn kept_pool(&self, provider: &Provider) -> Option<Arc<Pool>> {
        let old = self.config.providers.get(&provider.id)?;
        let same = old.base_url == provider.base_url
            && old.pool == provider.pool
            && old.timeouts == provider.timeouts
            && old.ca == provider.ca;
        same.then(|| self.pools.get(&provider.id).cloned())
            .flatten()
    }

    /// The connections to a provider of this snapshot.
    pub fn pool(&self, provider: &ProviderId) -> Option<&Arc<Pool>> {
        self.pools.get(provider)
    }

    /// Where the tokens of a grant of this snapshot come from.
    pub fn tokens(&self, grant: &Grant) -> Option<&Arc<TokenSource>> {
        self.tokens.get(&grant.fingerprint)
    }

    /// All sources of tokens.
    pub fn token_sources(&self) -> impl Iterator<Item = &Arc<TokenSource>> {
        self.tokens.values()
    }

    /// All pools, by provider.
    pub fn pools(&self) -> impl Iterator<Item = (&ProviderId, &Arc<Pool>)> {
        self.pools.iter()
    }

    /// What `GET /v1/models` lists: named routes first, then what is known of direct ones.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The route that clients mean by `name`.
    ///
    /// # Errors
    /// [`NoRoute`] with the nearest names.
    pub fn route(&self, name: &str) -> Result<Arc<Route>, NoRoute> {
        if let Some(route) = self.config.routes.get(&RouteId::from(name)) {
            return Ok(Arc::clone(route));
        }
        if let Some(route) = self.direct.get(name) {
            return Ok(Arc::clone(&route));
        }
        let Some(route) = self.direct_route(name) else {
            let names = self.models.iter().map(Model::id);
            return Err(NoRoute {
                nearest: crate::api::models::nearest(name, names),
            });
        };
        let route = Arc::new(route);
        if self.direct.len() < DIRECT_ROUTES {
            self.direct.insert(name.to_owned(), Arc::clone(&route));
        }
        Ok(route)
    }

    fn direct_route(&self, name: &str) -> Option<Route> {
        let settings = self.config.direct.clone()?;
        let (provider, model) = name.split_once('/')?;
        let provider = self.config.providers.get(&ProviderId::from(provider))?;
        if model.is_empty() {
            return None;
        }
        let target = RouteTarget {
            id: TargetId::from(name),
            provider: Arc::clone(provider),
            model: model.to_owned(),
            weight: 1,
            rank: 0,
        };
        Some(Route {
            id: RouteId::from(name),
            targets: vec![target],
            settings,
        })
    }
}

/// Sources of grants that did not change are kept, with their tokens.
fn tokens(
    config: &Config,
    before: Option<&Snapshot>,
) -> Result<HashMap<[u8; 32], Arc<TokenSource>>, TlsError> {
    let mut tokens = HashMap::new();
    let credentials = config
        .providers
        .values()
        .flat_map(|provider| &provider.keys);
    for credential in credentials {
        let Credential::Grant(grant) = credential else {
            continue;
        };
        let source = match before.and_then(|before| before.tokens(grant)) {
            Some(kept) => Arc::clone(kept),
            None => Arc::new(TokenSource::new(Arc::clone(grant), config.server.workers)?),
        };
        tokens.insert(grant.fingerprint, source);
    }
    Ok(tokens)
}

fn models(config: &Config) -> Vec<Model> {
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    for route in config.routes.keys() {
        models.insert(route.to_string(), Model::new(route.as_str(), "whippletree"));
    }
    if config.direct.is_some() {
        for provider in config.providers.values() {
            for model in prices::known_models(provider.kind) {
                let name = format!("{}/{model}", provider.id);
                models
                    .entry(name.clone())
                    .or_insert_with(|| Model::new(name, provider.kind));
            }
        }
        for target in config.targets.keys() {
            models
                .entry(target.to_string())
                .or_insert_with(|| Model::new(target.as_str(), "whippletree"));
        }
    }
    models.into_values().collect()
}
