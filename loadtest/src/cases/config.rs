//! From a case's suggestive configuration to the gateway's own form.
//!
//! A name that is not mapped here fails the case: a setting left out in silence would test
//! something else than what is written.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::bail;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toml::Table;
use toml::Value as Toml;

use super::case::Case;

/// The gateway's configuration under construction.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    table: Table,
    /// The route's name.
    pub(crate) model: String,
    /// Vendors in the route's order; empty means all of them by name.
    pub(crate) plan: Vec<String>,
    /// Whether they share the load instead.
    pub(crate) balance: bool,
    /// Per vendor: the kind, where it is not its dialect's.
    pub(crate) kinds: BTreeMap<String, String>,
    per_vendor: Vec<(Option<String>, String, Toml)>,
    price: Option<Table>,
}

impl Settings {
    /// The configuration of a case.
    ///
    /// # Errors
    ///
    /// When a name of the case's configuration is not mapped.
    pub(crate) fn of(case: &Case) -> anyhow::Result<Self> {
        let mut settings = Self::new(&case.model());
        for (name, value) in &case.input.config {
            settings.map(name, value)?;
        }
        Ok(settings)
    }

    /// The configuration that every case starts from, with one route of this name.
    pub(crate) fn new(model: &str) -> Self {
        let mut settings = Self {
            table: Table::new(),
            model: model.to_owned(),
            plan: Vec::new(),
            balance: false,
            kinds: BTreeMap::new(),
            per_vendor: Vec::new(),
            price: None,
        };
        settings.set("allow_literal_secrets", true);
        settings.set("store.path", "whippletree.db");
        settings.set("prices.unknown_model.input", "1.00");
        settings.set("prices.unknown_model.output", "2.00");
        settings.set("prices.unknown_model.per", 1_000_000);
        // Faults are played in milliseconds; waiting half a second for each retry would only be slow.
        settings.route("retry.base", "20ms");
        settings.route("retry.cap", "200ms");
        settings
    }

    /// Sets a key by its dotted path.
    pub(crate) fn set(&mut self, path: &str, value: impl Into<Toml>) {
        let keys: Vec<&str> = path.split('.').collect();
        insert(&mut self.table, &keys, value.into());
    }

    /// Sets a key of the route.
    pub(crate) fn route(&mut self, path: &str, value: impl Into<Toml>) {
        let model = self.model.clone();
        let mut keys = vec!["routes", model.as_str()];
        keys.extend(path.split('.'));
        insert(&mut self.table, &keys, value.into());
    }

    /// Sets a key of one provider, or of all.
    pub(crate) fn provider(&mut self, vendor: Option<&str>, path: &str, value: impl Into<Toml>) {
        self.per_vendor
            .push((vendor.map(str::to_owned), path.to_owned(), value.into()));
    }

    /// Adds a tenant with one key and these limits on requests.
    pub(crate) fn tenant(&mut self, key: &str, requests_per_minute: Option<i64>) {
        let digest = Sha256::digest(key.as_bytes());
        let hex: String = digest
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(hex_digit)
            .collect();
        let mut row = Table::new();
        row.insert("name".to_owned(), "k".into());
        row.insert("sha256".to_owned(), hex.into());
        self.set("tenants.t.keys", Toml::Array(vec![Toml::Table(row)]));
        if let Some(limit) = requests_per_minute {
            self.set("tenants.t.limits.requests_per_minute", limit);
        }
    }

    /// The file's text for these listeners and vendors (name, dialect, address).
    ///
    /// # Errors
    ///
    /// When the table cannot be written as TOML.
    pub(crate) fn text(
        &self,
        listen: SocketAddr,
        admin: SocketAddr,
        vendors: &[(String, String, SocketAddr)],
    ) -> anyhow::Result<String> {
        let mut whole = self.clone();
        whole.set("server.listen", listen.to_string());
        whole.set("admin.listen", admin.to_string());
        for (name, dialect, addr) in vendors {
            let id = name.to_lowercase();
            let kind = self
                .kinds
                .get(name)
                .map_or_else(|| kind(dialect), String::as_str);
            whole.set(&format!("providers.{id}.kind"), kind);
            whole.set(
                &format!("providers.{id}.base_url"),
                format!("http://{addr}/v1"),
            );
            whole.set(
                &format!("providers.{id}.keys"),
                Toml::Array(vec![format!("sk-vendor-{id}").into()]),
            );
            for (wanted, path, value) in &self.per_vendor {
                if wanted.as_ref().is_none_or(|wanted| wanted == name) {
                    whole.set(&format!("providers.{id}.{path}"), value.clone());
                }
            }
        }
        let plan: Vec<String> = if self.plan.is_empty() {
            vendors.iter().map(|(name, _, _)| name.clone()).collect()
        } else {
            self.plan.clone()
        };
        let mut targets = Vec::new();
        for name in &plan {
            let target = format!("{}/{}", name.to_lowercase(), self.model);
            if let Some(price) = &self.price {
                whole.set(
                    &format!("targets.{target}.price"),
                    Toml::Table(price.clone()),
                );
            }
            targets.push(if self.balance {
                let mut row = Table::new();
                row.insert("target".to_owned(), target.into());
                row.insert("weight".to_owned(), 1.into());
                Toml::Table(row)
            } else {
                Toml::String(target)
            });
        }
        whole.route("targets", Toml::Array(targets));
        Ok(toml::to_string(&whole.table)?)
    }

    /// Prices per million tokens: one card, or one for small requests and one above 200,000 tokens.
    fn price(&mut self, value: &Value) {
        let card = |value: &Value| -> Table {
            let rows = value.as_object().into_iter().flatten();
            rows.map(|(name, price)| (name.clone(), Toml::String(price.to_string())))
                .collect()
        };
        let mut price = card(value.get("base").unwrap_or(value));
        price.insert("per".to_owned(), 1_000_000.into());
        if let Some(over) = value.get("over_200k") {
            let mut tier = card(over);
            tier.insert("above".to_owned(), 200_000.into());
            price.insert("tiers".to_owned(), Toml::Array(vec![Toml::Table(tier)]));
        }
        self.price = Some(price);
    }

    fn map(&mut self, name: &str, value: &Value) -> anyhow::Result<()> {
        let ms = || {
            value
                .as_u64()
                .map(|ms| format!("{ms}ms"))
                .unwrap_or_default()
        };
        match name {
            "plan" => self.plan = strings(value),
            "balance" => {
                self.plan = strings(value);
                self.balance = true;
            }
            "attempts" => self.route("retry.max_attempts", value.as_i64().unwrap_or(1)),
            "deadline_ms" => self.route("retry.deadline", ms()),
            "attempt_timeout_ms" => {
                self.provider(None, "timeouts.first_byte", ms());
                self.provider(None, "timeouts.total", ms());
            }
            "first_content_ms" => {
                // Behind the head it is the time between bytes that runs out.
                self.provider(None, "timeouts.first_byte", ms());
                self.provider(None, "timeouts.idle", ms());
                self.route("commit_wait", ms());
            }
            "idle_ms" => self.provider(None, "timeouts.idle", ms()),
            "connect_ms" => self.provider(None, "timeouts.connect", ms()),
            "pool_wait_ms" => self.provider(None, "pool.wait", ms()),
            "keepalive_ms" => self.route("keepalive", ms()),
            "ambiguous_retry" => {
                self.route(
                    "retry.ambiguous",
                    if value.as_bool().unwrap_or(false) {
                        "always"
                    } else {
                        "never"
                    },
                );
            }
            "inflight_bytes_mib" => self.set("server.max_inflight_bytes", format!("{value}MiB")),
            "log" => self.set("telemetry.log", value.as_str().unwrap_or_default()),
            "prices_usd_per_mtok" => self.price(value),
            // A tier is chosen by the whole request's input here, as vendors do.
            "tier_mode" if value == "whole_request" => {}
            // Reservations are always made.
            "reserve" if value == true => {}
            "tenant_rpm" => self.tenant(CLIENT_KEY, value.as_i64()),
            // Whatever is added to a hint is only ever positive here, in-flight counts are what
            // balancing goes by, and the time that a client may read nothing is the gateway's own.
            "jitter" | "strategy" | "write_idle_ms" => {}
            "error_classes" => {
                for (word, class) in value.as_object().into_iter().flatten() {
                    let class = match class.as_str() {
                        Some("transient") => "overloaded",
                        Some("quota_window" | "quota_terminal") => "quota_exhausted",
                        Some("auth") => "vendor_auth",
                        Some("too_long") => "context_overflow",
                        _ => "invalid_request",
                    };
                    self.provider(None, &format!("error_classes.{word}"), class);
                }
            }
            _ => match name.split_once('.') {
                Some((vendor, "key")) => {
                    self.provider(
                        Some(vendor),
                        "keys",
                        Toml::Array(vec![value.as_str().unwrap_or_default().into()]),
                    );
                }
                Some((vendor, "max_connections")) => {
                    self.provider(
                        Some(vendor),
                        "pool.max_connections",
                        value.as_i64().unwrap_or(1),
                    );
                }
                _ => bail!("config {name} is not mapped"),
            },
        }
        Ok(())
    }
}

/// The key that a case's client shows where tenants are configured.
pub(super) const CLIENT_KEY: &str = "sk-case-client-0123456789abcdef";

fn kind(dialect: &str) -> &str {
    match dialect {
        "openai-responses" => "openai",
        other => other,
    }
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn hex_digit(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap_or('0')
}

fn insert(table: &mut Table, keys: &[&str], value: Toml) {
    match keys {
        [] => {}
        [last] => {
            table.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let entry = table
                .entry((*first).to_owned())
                .or_insert_with(|| Toml::Table(Table::new()));
            if let Toml::Table(inner) = entry {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_becomes_a_route_with_providers() {
        let mut settings = Settings::new("m");
        settings
            .map("plan", &serde_json::json!(["B", "A"]))
            .unwrap();
        settings.map("idle_ms", &serde_json::json!(800)).unwrap();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let vendors = ["A", "B"].map(|name| (name.to_owned(), "openai".to_owned(), at(9)));
        let text = settings.text(at(1), at(2), &vendors).unwrap();
        let table: Table = toml::from_str(&text).unwrap();
        assert_eq!(
            table["routes"]["m"]["targets"].to_string(),
            r#"["b/m", "a/m"]"#
        );
        assert_eq!(
            table["providers"]["a"]["timeouts"]["idle"].as_str(),
            Some("800ms")
        );
        assert_eq!(table["server"]["listen"].as_str(), Some("127.0.0.1:1"));
    }

    #[test]
    fn a_name_that_is_not_mapped_is_refused() {
        assert!(Settings::new("m").map("novelty", &Value::Null).is_err());
    }
}
