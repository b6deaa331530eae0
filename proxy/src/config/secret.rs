//! Where a secret comes from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Where a secret comes from: `{ env = "NAME" }` or `{ file = "path" }`.
///
/// It prints and serialises without the secret.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SecretSource {
    /// Elsewhere.
    Reference(SecretReference),
    /// The secret itself; refused unless `allow_literal_secrets = true`.
    Literal(#[schemars(extend("format" = "secret"))] String),
}

/// A place that a secret is read from.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(extend(
    "minProperties" = 1,
    "maxProperties" = 1,
    "x-expected" = "{ env = \"NAME\" } or { file = \"path\" }"
))]
pub struct SecretReference {
    /// The name of an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub env: Option<String>,
    /// A file that holds the secret alone, relative to the configuration file. White space at its
    /// end is cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub file: Option<String>,
}

impl Serialize for SecretSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Reference(reference) => reference.serialize(serializer),
            Self::Literal(_) => serializer.serialize_str("…"),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(reference) => reference.fmt(f),
            Self::Literal(_) => f.write_str("\"…\""),
        }
    }
}
