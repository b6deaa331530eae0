//! Which label values there are.
//!
//! A label that takes what clients send grows a time series per value until the process dies. So
//! values come from the configuration; everything else shares one series, `other`.

use std::collections::{BTreeSet, HashMap};

use whippletree_policies::ids::{RouteId, TenantId};

use crate::config::Config;

/// What stands for every value that is not in the configuration.
pub(super) const OTHER: &str = "other";

/// What stands for the routes that `provider/model` names make.
const DIRECT: &str = "direct";

/// What stands for a request that was refused before it had a route.
const NONE: &str = "none";

/// Tenants with a series of their own; those beyond, in order of name, are `other`.
const TENANTS: usize = 100;

/// An index into one of the lists of [`Labels`].
pub(super) type Label = u16;

/// The values of one label.
#[derive(Debug, Default)]
pub(super) struct Names {
    index: HashMap<Box<str>, Label>,
    names: Vec<Box<str>>,
}

impl Names {
    /// `other` is at index 0; values beyond 65,535 are `other` too.
    fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = Self::default();
        for value in std::iter::once(OTHER).chain(values) {
            if let Ok(next) = Label::try_from(names.names.len())
                && !names.index.contains_key(value)
            {
                names.index.insert(value.into(), next);
                names.names.push(value.into());
            }
        }
        names
    }

    fn find(&self, value: &str) -> Option<Label> {
        self.index.get(value).copied()
    }

    /// The value at `label`.
    pub(super) fn name(&self, label: Label) -> &str {
        self.names
            .get(usize::from(label))
            .map_or(OTHER, |name| name)
    }
}

/// The label values of one configuration.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) tenants: Names,
    pub(super) routes: Names,
    pub(super) targets: Names,
}

impl Labels {
    /// Before there is a configuration, everything is `other`.
    pub(super) fn none() -> Self {
        Self {
            tenants: Names::new([]),
            routes: Names::new([DIRECT, NONE]),
            targets: Names::new([]),
        }
    }

    pub(super) fn new(config: &Config) -> Self {
        let tenants = config.tenants.keys().map(TenantId::as_str);
        let routes = config.routes.keys().map(RouteId::as_str);
        let mut targets: BTreeSet<String> = config
            .routes
            .values()
            .flat_map(|route| &route.targets)
            .map(|target| target.id.as_str().to_owned())
            .collect();
        targets.extend(
            config
                .targets
                .keys()
                .map(|target| target.as_str().to_owned()),
        );
        targets.extend(
            config
                .providers
                .keys()
                .map(|provider| format!("{provider}/{OTHER}")),
        );
        Self {
            tenants: Names::new(["default"].into_iter().chain(tenants.take(TENANTS))),
            routes: Names::new([DIRECT, NONE].into_iter().chain(routes)),
            targets: Names::new(targets.iter().map(String::as_str)),
        }
    }

    pub(super) fn tenant(&self, name: &str) -> Label {
        self.tenants.find(name).unwrap_or_default()
    }

    pub(super) fn route(&self, name: Option<&str>) -> Label {
        let label = match name {
            None => self.routes.find(NONE),
            Some(name) => self.routes.find(name).or_else(|| {
                // The route of a `provider/model` name has that name.
                name.contains('/')
                    .then(|| self.routes.find(DIRECT))
                    .flatten()
            }),
        };
        label.unwrap_or_default()
    }

    /// A model that a client named is `provider/other`.
    pub(super) fn target(&self, name: &str) -> Label {
        self.targets.find(name).unwrap_or_else(|| {
            let Some((provider, _)) = name.split_once('/') else {
                return Label::default();
            };
            self.targets
                .find(&format!("{provider}/{OTHER}"))
                .unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_configuration_share_other() {
        let labels = Labels {
            tenants: Names::new(["default", "research"]),
            routes: Names::new([DIRECT, NONE, "coder"]),
            targets: Names::new(["openai/gpt-5.6", "openai/other"]),
        };
        let tenant = |name| labels.tenants.name(labels.tenant(name)).to_owned();
        let route = |name| labels.routes.name(labels.route(name)).to_owned();
        let target = |name| labels.targets.name(labels.target(name)).to_owned();
        assert_eq!(tenant("research"), "research");
        assert_eq!(tenant("u-17"), "other");
        assert_eq!(route(Some("coder")), "coder");
        assert_eq!(route(Some("openai/m-17")), "direct");
        assert_eq!(route(Some("m-17")), "other");
        assert_eq!(route(None), "none");
        assert_eq!(target("openai/gpt-5.6"), "openai/gpt-5.6");
        assert_eq!(target("openai/m-17"), "openai/other");
        assert_eq!(target("nobody/m-17"), "other");
        assert_eq!(target("m-17"), "other");
    }
}
