//! Which targets may serve a request, in order.

use std::sync::Arc;

use whippletree_policies::ids::{RouteId, TargetId};

use super::authenticate::Caller;
use crate::api::rejection::Rejection;
use crate::clock;
use crate::config::{Config, Route, RouteTarget};
use crate::exchange::Api;
use crate::gateway::Snapshot;
use crate::prices::{self, Priced};

/// Targets in order, each able to serve the request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The route that was asked for.
    pub route: Arc<Route>,
    /// Never empty.
    pub targets: Vec<Planned>,
}

/// A target with the price of its calls.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Who serves.
    pub target: RouteTarget,
    /// `None` for relayed paths, which are not priced by tokens.
    pub price: Option<Priced>,
}

impl Plan {
    /// The plan for `model` as a client names it.
    ///
    /// # Errors
    /// [`Rejection`] when the name is unknown or not for this caller, or when no target of the route
    /// speaks this form of API or has a price.
    pub fn of(
        snapshot: &Snapshot,
        caller: &Caller,
        model: &str,
        api: Api,
    ) -> Result<Self, Rejection> {
        let route = snapshot
            .route(model)
            .map_err(|no_route| Rejection::UnknownModel {
                model: model.chars().take(128).collect(),
                nearest: no_route
                    .nearest
                    .into_iter()
                    .filter(|n| caller.may_use(n))
                    .collect(),
            })?;
        if !caller.may_use(route.id.as_str()) {
            return Err(Rejection::RouteForbidden {
                model: route.id.to_string(),
            });
        }
        let now = clock::unix_now();
        let mut first_fault = None;
        let targets: Vec<Planned> = route
            .targets
            .iter()
            .filter_map(|target| match planned(&snapshot.config, target, api, now) {
                Ok(planned) => Some(planned),
                Err(fault) => {
                    first_fault.get_or_insert(fault);
                    None
                }
            })
            .collect();
        match first_fault {
            Some(fault) if targets.is_empty() => Err(fault),
            _ => Ok(Self { route, targets }),
        }
    }

    /// The target of that name.
    pub fn target(&self, id: &TargetId) -> Option<&Planned> {
        self.targets.iter().find(|planned| planned.target.id == *id)
    }

    /// The plan for a path that names no model.
    ///
    /// # Errors
    /// [`Rejection`] when no provider is set for such paths, or it is not for this caller.
    pub fn relay(snapshot: &Snapshot, caller: &Caller) -> Result<Self, Rejection> {
        let config = &snapshot.config;
        let provider = config
            .relay
            .as_ref()
            .and_then(|id| config.providers.get(id));
        let Some(provider) = provider else {
            return Err(Rejection::NoProvider);
        };
        let settings = config.direct.clone().unwrap_or_default();
        let name = format!("{}/-", provider.id);
        if !caller.may_use(&name) {
            return Err(Rejection::RouteForbidden { model: name });
        }
        let target = RouteTarget {
            id: TargetId::from(name.as_str()),
            provider: Arc::clone(provider),
            model: String::new(),
            weight: 1,
            rank: 0,
        };
        let route = Route {
            id: RouteId::from(name.as_str()),
            targets: vec![target.clone()],
            settings,
        };
        Ok(Self {
            route: Arc::new(route),
            targets: vec![Planned {
                target,
                price: None,
            }],
        })
    }
}

fn planned(
    config: &Config,
    target: &RouteTarget,
    api: Api,
    now: whippletree_policies::time::UnixTime,
) -> Result<Planned, Rejection> {
    if api == Api::Other {
        return Ok(Planned {
            target: target.clone(),
            price: None,
        });
    }
    if !target.provider.apis.contains(&api) {
        return Err(Rejection::UnsupportedApi {
            path: api.path(),
            target: target.id.clone(),
        });
    }
    if api == Api::CountTokens {
        // Counting costs nothing.
        return Ok(Planned {
            target: target.clone(),
            price: None,
        });
    }
    let price = prices::price(config, target, now).ok_or_else(|| Rejection::Unpriced {
        target: target.id.clone(),
    })?;
    Ok(Planned {
        target: target.clone(),
        price: Some(price),
    })
}
