//! Providers: vendors, addresses, credentials.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use whippletree_policies::ids::ProviderId;
use whippletree_policies::outcome::Class;
use whippletree_providers::openai::dialects::Dialect;

use super::{Resolver, Shared, Slash};
use crate::config::fault::{Fault, Path, chain, nearest};
use crate::config::file::{ApiName, ErrorClass, PoolTable, ProviderTable, TimeoutsTable};
use crate::config::vendors;
use crate::config::{PoolSettings, Provider, Timeouts};
use crate::exchange::Api;

impl Resolver<'_> {
    pub(super) fn providers(
        &mut self,
        tables: &BTreeMap<String, ProviderTable>,
    ) -> Shared<ProviderId, Provider> {
        let mut providers = BTreeMap::new();
        for (name, table) in tables {
            let at = Path::of(["providers", name]);
            self.name(&at, name, Slash::Refused);
            if let Some(provider) = self.provider(&at, name, table) {
                providers.insert(provider.id.clone(), Arc::new(provider));
            }
        }
        providers
    }

    fn provider(&mut self, at: &Path, name: &str, table: &ProviderTable) -> Option<Provider> {
        // The schema lists the kinds, so another one was dropped before.
        let vendor = vendors::vendor_of(&table.kind)?;
        let keys: Vec<_> = table
            .keys
            .iter()
            .enumerate()
            .filter_map(|(index, source)| {
                self.credential(&at.key("keys").index(index), vendor.kind, source)
            })
            .collect();
        let base_url = self.base_url(at, table, vendor)?;
        let loopback = base_url.host().is_some_and(is_loopback);
        if base_url.scheme_str() == Some("http") && !loopback && !keys.is_empty() {
            let path = at.key("base_url");
            let span = self.document.value_span(&path);
            let message = format!("the keys of `{name}` travel unencrypted");
            let fault = Fault::new(&path, span, message).expected("expected https".to_owned());
            self.report(fault.warning());
        }
        let ca = table.ca.as_ref().map(|path| self.authority(at, path));
        Some(Provider {
            id: ProviderId::from(name),
            kind: vendor.kind,
            base_url,
            keys,
            timeouts: timeouts(&table.timeouts),
            pool: self.pool(at, &table.pool),
            apis: match &table.apis {
                Some(names) => names.iter().copied().map(Api::from).collect(),
                None => vendors::apis(vendor),
            },
            error_classes: table
                .error_classes
                .iter()
                .map(|(word, class)| (word.clone(), Class::from(*class)))
                .collect(),
            ca,
        })
    }

    pub(super) fn authority(&mut self, at: &Path, path: &str) -> PathBuf {
        let at = at.key("ca");
        let before = self.faults.len();
        let path = self.readable(&at, path);
        let readable = self.faults.len() == before;
        if readable && let Err(error) = (self.surroundings.authority)(&path) {
            self.value_fault(&at, chain(&error));
        }
        path
    }

    fn base_url(
        &mut self,
        at: &Path,
        table: &ProviderTable,
        vendor: &Dialect,
    ) -> Option<http::Uri> {
        if let Some(url) = &table.base_url {
            return Some(url.0.0.clone());
        }
        let own = vendor.base_url.and_then(|url| url.parse().ok());
        if own.is_none() && !self.document.has(at, "base_url") {
            let message = format!("`{at}` lacks the key `base_url`");
            let fault = self.key_fault(at, message);
            fault.path = at.key("base_url");
            fault.expected = Some(format!(
                "the kind \"{}\" has no address of its own: expected such as base_url = \"http://127.0.0.1:8000/v1\"",
                vendor.kind
            ));
        }
        own
    }

    fn pool(&mut self, at: &Path, table: &PoolTable) -> PoolSettings {
        if table.warm > table.max_connections {
            let message = format!(
                "`{at}` keeps {} connections warm but may have {}",
                table.warm, table.max_connections
            );
            let path = at.key("pool").key("warm");
            self.value_fault(&path, message).expected =
                Some("expected at most `max_connections`".to_owned());
        }
        PoolSettings {
            max_connections: table.max_connections,
            warm: table.warm,
            http2: table.http2,
            wait: table.wait.0,
            idle_timeout: table.idle_timeout.0,
            max_lifetime: table.max_lifetime.0,
        }
    }

    pub(super) fn relay(
        &mut self,
        wanted: Option<&str>,
        providers: &Shared<ProviderId, Provider>,
    ) -> Option<ProviderId> {
        let Some(name) = wanted else {
            let first = self.document.keys_in_order(&Path::of(["providers"]));
            let mut ids = first.into_iter().map(ProviderId::from);
            return ids.find(|id| providers.contains_key(id));
        };
        let at = Path::of(["routing", "relay"]);
        self.known_provider(&at, name, providers)
            .map(|provider| provider.id.clone())
    }

    /// The provider of this name; reports one that does not exist.
    pub(super) fn known_provider<'p>(
        &mut self,
        at: &Path,
        name: &str,
        providers: &'p Shared<ProviderId, Provider>,
    ) -> Option<&'p Arc<Provider>> {
        let found = providers.get(&ProviderId::from(name));
        if found.is_none() && !self.document.has(&Path::of(["providers"]), name) {
            let names: Vec<_> = providers.keys().map(ProviderId::as_str).collect();
            let near = nearest(name, names.iter().copied());
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let expected = if names.is_empty() {
                format!("expected a table [providers.{name}] in this file")
            } else {
                format!("expected one of {}", names.join(", "))
            };
            let fault = self.value_fault(at, format!("unknown provider `{name}`"));
            fault.expected = Some(expected);
            fault.help = help;
        }
        found
    }
}

fn timeouts(table: &TimeoutsTable) -> Timeouts {
    Timeouts {
        connect: table.connect.0,
        first_byte: table.first_byte.0,
        idle: table.idle.0,
        total: table.total.0,
    }
}

/// Whether a URL's host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

impl From<ErrorClass> for Class {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::ContentPolicy => Self::ContentPolicy,
            ErrorClass::ContextOverflow => Self::ContextOverflow,
            ErrorClass::InvalidRequest => Self::InvalidRequest,
            ErrorClass::ModelUnavailable => Self::ModelUnavailable,
            ErrorClass::Overloaded => Self::Overloaded,
            ErrorClass::QuotaExhausted => Self::QuotaExhausted,
            ErrorClass::RateLimited => Self::RateLimited,
            ErrorClass::ServerError => Self::ServerError,
            ErrorClass::Timeout => Self::Timeout,
            ErrorClass::VendorAuth => Self::VendorAuth,
        }
    }
}

impl From<ApiName> for Api {
    fn from(name: ApiName) -> Self {
        match name {
            ApiName::Chat => Self::Chat,
            ApiName::Completions => Self::Completions,
            ApiName::CountTokens => Self::CountTokens,
            ApiName::Embeddings => Self::Embeddings,
            ApiName::Messages => Self::Messages,
            ApiName::Responses => Self::Responses,
        }
    }
}
