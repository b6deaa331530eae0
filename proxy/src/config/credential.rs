//! What a provider is shown: a key, a signature, or a token that a key is exchanged for.

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use secrecy::SecretString;

use crate::credentials::ServiceAccount;

/// One credential of a provider. It prints without its secret.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A pair of AWS keys: each request is signed.
    Aws(Arc<AwsKeys>),
    /// A key, sent as the vendor wants it.
    Key(SecretString),
    /// Something that a token is had for, which is sent as `Authorization: Bearer`.
    Grant(Arc<Grant>),
}

impl Credential {
    /// The key, where it is one.
    pub const fn as_key(&self) -> Option<&SecretString> {
        match self {
            Self::Key(key) => Some(key),
            Self::Aws(_) | Self::Grant(_) => None,
        }
    }
}

/// Keys of AWS.
#[derive(Clone, Debug)]
pub struct AwsKeys {
    /// The public half.
    pub access_key_id: String,
    /// The secret half.
    pub secret_access_key: SecretString,
    /// What goes with keys that expire.
    pub session_token: Option<SecretString>,
    /// The region that a signature is for.
    pub region: String,
}

/// What a token is asked for with, and where.
#[derive(Debug)]
pub struct Grant {
    /// Where tokens are to be had.
    pub token_url: Uri,
    /// What the token is for.
    pub scope: String,
    /// What is shown for it.
    pub proof: Proof,
    /// SHA-256 of all of it, so that a token outlives a reload that changes nothing of this.
    pub fingerprint: [u8; 32],
    /// PEM of a private authority that the certificate of `token_url` may come from.
    pub ca: Option<PathBuf>,
}

/// What a token is given for.
#[derive(Debug)]
pub enum Proof {
    /// The secret of an application (OAuth 2.0's client credentials, RFC 6749, section 4.4).
    Client {
        /// The application.
        id: String,
        /// Its secret.
        secret: SecretString,
    },
    /// A statement signed by a service account (RFC 7523).
    ServiceAccount(ServiceAccount),
}
