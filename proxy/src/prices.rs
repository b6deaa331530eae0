//! Which price a call has.
//!
//! First what the configuration says of the target, then the product's own list for the vendor's
//! model at that time, then the operator's rule for models that no price is known for. Without any,
//! a call is refused: nothing is silently free.

use std::sync::{Arc, OnceLock};

use whippletree_policies::cost::{self, Charge, Overflow, PriceCard, Service};
use whippletree_policies::time::UnixTime;
use whippletree_policies::usage::Usage;
use whippletree_providers::prices::{PriceList, Row};

use crate::config::{Config, RouteTarget, UnknownModel};

/// A price and where it comes from.
#[derive(Clone, Debug)]
pub enum Priced {
    /// A row of the product's own list.
    Listed(&'static Row),
    /// What the configuration says, and the version under which it goes on record.
    Configured(Arc<PriceCard>, Arc<str>),
}

impl Priced {
    /// What `usage` costs, and how that came about.
    ///
    /// # Errors
    /// [`Overflow`] past nine million dollars.
    pub fn charge(&self, usage: &Usage) -> Result<Charge, Overflow> {
        let card = match self {
            Self::Listed(row) => &row.card,
            Self::Configured(card, _) => &**card,
        };
        cost::charge(card, usage, Service::Standard)
    }

    /// The list and its version, as kept in the record.
    pub fn version(&self) -> &str {
        match self {
            Self::Listed(row) => &row.version,
            Self::Configured(_, version) => version,
        }
    }
}

/// The product's own list.
pub fn list() -> &'static PriceList {
    static LIST: OnceLock<PriceList> = OnceLock::new();
    LIST.get_or_init(|| {
        PriceList::builtin().unwrap_or_else(|error| {
            // A test reads the list as it is compiled in, so this is never met; without a list
            // every model is unknown, which refuses rather than charges nothing.
            tracing::error!(%error, "the built-in price list cannot be read");
            PriceList::default()
        })
    })
}

/// The models of a vendor that the list knows by their plain names.
pub fn known_models(kind: &str) -> impl Iterator<Item = &'static str> {
    list()
        .rows()
        .iter()
        .filter(move |row| row.vendor == kind)
        .flat_map(|row| &row.models)
        .filter(|name| !name.contains('*'))
        .map(String::as_str)
}

/// The price of a target's calls at `now`; `None` where the configuration refuses unknown ones.
pub fn price(config: &Config, target: &RouteTarget, now: UnixTime) -> Option<Priced> {
    let own = config
        .targets
        .get(&target.id)
        .and_then(|settings| settings.price.as_ref());
    if let Some(card) = own {
        return Some(Priced::Configured(
            Arc::clone(card),
            configured(config, "target"),
        ));
    }
    if let Some(row) = list().look_up(target.provider.kind, &target.model, now) {
        return Some(Priced::Listed(row));
    }
    match &config.unknown_model {
        UnknownModel::Refuse => None,
        UnknownModel::Price(card) => Some(Priced::Configured(
            Arc::clone(card),
            configured(config, "rule"),
        )),
    }
}

/// Prices of the configuration are versioned by the file they stand in.
fn configured(config: &Config, what: &str) -> Arc<str> {
    let hash = config.hash.get(..12).unwrap_or(&config.hash);
    Arc::from(format!("config-{what}:{hash}"))
}
