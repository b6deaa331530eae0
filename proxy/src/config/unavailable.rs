//! Keys of the documented form whose feature is not built yet.
//!
//! They are refused by name: a key that is accepted and ignored would promise what does not happen.
//! When a feature arrives its line here goes and the key joins [`super::file`].

use toml::de::DeValue;

use super::fault::Path;
use super::vendors;

/// What of a key is refused.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// The key, whatever its value.
    Key,
    /// The key, unless it holds this value, which is what happens anyway.
    Unless(Holds),
}

#[derive(Clone, Copy, Debug)]
enum Holds {
    EmptyArray,
}

const UNAVAILABLE: [(&str, Refused); 12] = [
    ("alerts", Refused::Key),
    ("prices.catalogue", Refused::Key),
    ("recorder", Refused::Key),
    ("routes.*.evidence", Refused::Key),
    ("routes.*.fallback", Refused::Unless(Holds::EmptyArray)),
    ("routes.*.prefix", Refused::Key),
    ("store.on_failure", Refused::Key),
    ("store.postgres", Refused::Key),
    ("store.redis", Refused::Key),
    ("targets.*.append_system", Refused::Key),
    ("telemetry.otlp", Refused::Key),
    ("tenants.*.budgets", Refused::Key),
];

/// How a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As the file's form has it.
    Known,
    /// Its feature is not built yet.
    NotYet,
    /// Its feature is not built yet, and the value asks for nothing.
    Vacuous,
}

/// How the key at `path` with this value stands.
pub fn standing(path: &Path, value: &DeValue<'_>) -> Standing {
    let Some((_, refused)) = UNAVAILABLE
        .into_iter()
        .find(|(pattern, _)| path.matches(pattern))
    else {
        return Standing::Known;
    };
    match (refused, value) {
        (Refused::Unless(Holds::EmptyArray), DeValue::Array(array)) if array.is_empty() => {
            Standing::Vacuous
        }
        (Refused::Key | Refused::Unless(_), _) => Standing::NotYet,
    }
}

/// Why a word that the documented form has is not among those that the key takes.
pub fn why_not(path: &Path, word: &str) -> Option<&'static str> {
    vendors::why_not(word).filter(|_| path.matches("providers.*.kind"))
}
