//! Where secrets and credentials come from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::values::{BaseUrl, Written};

/// Where a secret comes from: `{ env = "NAME" }` or `{ file = "path" }`.
///
/// It prints and serialises without the secret.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SecretSource {
    /// Elsewhere.
    Reference(SecretReference),
    /// The secret itself; refused unless `allow_literal_secrets = true`.
    Literal(#[schemars(extend("format" = "secret"))] Literal),
}

/// A secret as it stands in the file. It prints and serialises as `…`.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Literal(pub String);

impl Serialize for Literal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("…")
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"…\"")
    }
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

/// A provider's credential: a secret as it is, or what signatures and tokens are made with.
///
/// It prints and serialises without secrets.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum KeySource {
    /// Elsewhere, or made.
    Written(Box<KeyTable>),
    /// The secret itself; refused unless `allow_literal_secrets = true`.
    Literal(#[schemars(extend("format" = "secret"))] Literal),
}

/// One of the ways to a credential.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(extend(
    "minProperties" = 1,
    "maxProperties" = 1,
    "x-expected" = "{ env = \"NAME\" }, { file = \"path\" } or a table aws, entra or google"
))]
pub struct KeyTable {
    /// The name of an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub env: Option<String>,
    /// A file that holds the secret alone, relative to the configuration file. White space at its
    /// end is cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub file: Option<String>,
    /// Keys of AWS: each request is signed (Signature Version 4). For the kind `bedrock-openai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsTable>,
    /// An application of Microsoft Entra ID: requests carry its token. For the kind `azure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entra: Option<EntraTable>,
    /// A service account of Google Cloud: requests carry its token. For the kind `vertex-openai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub google: Option<GoogleTable>,
}

impl KeySource {
    /// The secret's place, where the credential is a secret as it is.
    pub fn as_secret(&self) -> Option<SecretSource> {
        match self {
            Self::Literal(text) => Some(SecretSource::Literal(text.clone())),
            Self::Written(table) if table.env.is_some() || table.file.is_some() => {
                Some(SecretSource::Reference(SecretReference {
                    env: table.env.clone(),
                    file: table.file.clone(),
                }))
            }
            Self::Written(_) => None,
        }
    }
}

/// Keys of AWS.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwsTable {
    /// The region of the endpoint, such as `us-east-1`.
    #[schemars(length(min = 1))]
    pub region: String,
    /// The public half of the key.
    pub access_key_id: SecretSource,
    /// The secret half.
    pub secret_access_key: SecretSource,
    /// What goes with keys that expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<SecretSource>,
}

/// An application of Microsoft Entra ID.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntraTable {
    /// The directory: its id or a domain.
    #[schemars(length(min = 1))]
    pub tenant: String,
    /// The application's id.
    #[schemars(length(min = 1))]
    pub client_id: String,
    /// The application's secret.
    pub client_secret: SecretSource,
    /// What the token is for.
    #[serde(default = "entra_scope")]
    #[schemars(length(min = 1))]
    pub scope: String,
    /// Where tokens are to be had; sovereign clouds have their own address.
    #[serde(default = "entra_authority")]
    pub authority: Written<BaseUrl>,
    /// A PEM file: a private authority that the certificate of `authority` may come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

fn entra_scope() -> String {
    "https://cognitiveservices.azure.com/.default".to_owned()
}

fn entra_authority() -> Written<BaseUrl> {
    let url = http::Uri::from_static("https://login.microsoftonline.com");
    Written(BaseUrl(url))
}

/// A service account of Google Cloud.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoogleTable {
    /// The key's JSON, as Google hands it out.
    pub service_account: SecretSource,
    /// What the token is for.
    #[serde(default = "google_scope")]
    #[schemars(length(min = 1))]
    pub scope: String,
    /// A PEM file: a private authority that the certificate of the account's `token_uri` may come
    /// from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

fn google_scope() -> String {
    "https://www.googleapis.com/auth/cloud-platform".to_owned()
}
