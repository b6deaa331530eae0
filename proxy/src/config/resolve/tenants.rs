//! Tenants and their keys.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use whippletree_policies::ids::{KeyId, ProviderId, TenantId};

use super::{Resolver, Shared, Slash};
use crate::config::fault::{Path, nearest};
use crate::config::file::{File, TenantTable};
use crate::config::{Key, Limits, Provider, Tenant};

impl Resolver<'_> {
    pub(super) fn tenants(
        &mut self,
        file: &File,
        providers: &Shared<ProviderId, Provider>,
    ) -> Shared<TenantId, Tenant> {
        let mut tenants = BTreeMap::new();
        for (name, table) in &file.tenants {
            let at = Path::of(["tenants", name]);
            self.name(&at, name, Slash::Allowed);
            let routes = table.routes.as_deref().unwrap_or_default();
            for (index, route) in routes.iter().enumerate() {
                self.allowed_route(&at.key("routes").index(index), route, file, providers);
            }
            let tenant = Tenant {
                id: TenantId::from(name.as_str()),
                time_zone: table.time_zone.0.0.0.clone(),
                routes: routes.to_vec(),
                limits: Limits {
                    requests_per_minute: table.limits.requests_per_minute,
                    tokens_per_minute: table.limits.tokens_per_minute,
                    concurrent: table.limits.concurrent,
                },
                runaway: table.runaway,
            };
            tenants.insert(tenant.id.clone(), Arc::new(tenant));
        }
        tenants
    }

    /// Reports an entry of a tenant's routes that no request could match.
    fn allowed_route(
        &mut self,
        at: &Path,
        name: &str,
        file: &File,
        providers: &Shared<ProviderId, Provider>,
    ) {
        if self.document.has(&Path::of(["routes"]), name) {
            return;
        }
        if let Some((provider, _model)) = name.split_once('/') {
            let known = self.known_provider(at, provider, providers).is_some();
            if known && !file.routing.direct {
                let message = format!("`{name}` can never be asked for");
                self.value_fault(at, message).expected =
                    Some("expected the name of a route, for `routing.direct` is off".to_owned());
            }
            return;
        }
        let names: Vec<_> = file.routes.keys().map(String::as_str).collect();
        let near = nearest(name, names.iter().copied());
        let help = near.map(|near| format!("did you mean `{near}`?"));
        let expected = if names.is_empty() {
            "expected \"provider/model\" or \"provider/*\", for the file has no routes".to_owned()
        } else {
            format!("expected one of {}, or \"provider/*\"", names.join(", "))
        };
        let fault = self.value_fault(at, format!("unknown route `{name}`"));
        fault.expected = Some(expected);
        fault.help = help;
    }

    pub(super) fn keys(
        &mut self,
        tables: &BTreeMap<String, TenantTable>,
        tenants: &Shared<TenantId, Tenant>,
    ) -> HashMap<[u8; 32], Arc<Key>> {
        let mut keys: HashMap<[u8; 32], Arc<Key>> = HashMap::new();
        let mut places: HashMap<[u8; 32], Path> = HashMap::new();
        for (name, table) in tables {
            let at = Path::of(["tenants", name, "keys"]);
            let mut names = BTreeMap::new();
            let Some(tenant) = tenants.get(&TenantId::from(name.as_str())) else {
                continue;
            };
            for (index, entry) in table.keys.iter().enumerate() {
                let at = at.index(index);
                self.unique(&mut names, &entry.name, &at.key("name"), "key");
                let sha256 = entry.sha256.0.0;
                let place = at.key("sha256");
                if let Some(first) = places.get(&sha256) {
                    let first = self.document.value_span(first);
                    let fault = self.value_fault(&place, "two keys have the same SHA-256");
                    fault.expected = Some("expected a key of its own".to_owned());
                    fault.related = Some((first, "the first"));
                    continue;
                }
                places.insert(sha256, place);
                let key = Key {
                    id: KeyId::from(entry.name.as_str()),
                    tenant: Arc::clone(tenant),
                    sha256,
                };
                keys.insert(sha256, Arc::new(key));
            }
        }
        keys
    }
}
