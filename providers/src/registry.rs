//! All providers by name.

use crate::openai::dialects::DIALECTS;
use crate::provider::Provider;

/// The provider of that kind, as the configuration names it.
pub fn provider(kind: &str) -> Option<&'static dyn Provider> {
    providers().find(|provider| provider.kind() == kind)
}

/// All of them.
pub fn providers() -> impl Iterator<Item = &'static dyn Provider> {
    DIALECTS.iter().map(|dialect| dialect as &dyn Provider)
}
