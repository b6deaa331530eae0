//! Google's service accounts: a file with a private key, which signs what a token is given for.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;
use whippletree_policies::time::UnixTime;

/// How long a statement is good for, in seconds: the most that Google takes.
const LIFETIME: i64 = 3600;

/// A service account. It prints without its key.
pub struct ServiceAccount {
    email: String,
    key_id: String,
    key: RsaKeyPair,
    /// Where the account's tokens are to be had.
    pub token_uri: String,
}

/// Why a text is no service account.
#[derive(Debug, thiserror::Error)]
pub enum ServiceAccountError {
    /// Not JSON, or not such an object. The source is left out: it may quote the text.
    #[error("not the JSON of a service account's key: {missing}")]
    Form {
        /// What is wrong with it, without its content.
        missing: &'static str,
    },
    /// The private key cannot be used.
    #[error("the service account's private key is no RSA key in PEM (PKCS #8)")]
    Key,
}

impl std::fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccount")
            .field("email", &self.email)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    client_email: Option<String>,
    #[serde(default)]
    private_key: Option<String>,
    #[serde(default)]
    private_key_id: Option<String>,
    #[serde(default)]
    token_uri: Option<String>,
}

impl ServiceAccount {
    /// Reads the file that Google hands out.
    ///
    /// # Errors
    /// See [`ServiceAccountError`].
    pub fn parse(text: &str) -> Result<Self, ServiceAccountError> {
        let form = |missing| ServiceAccountError::Form { missing };
        let file: File = serde_json::from_str(text).map_err(|_| form("it is no JSON object"))?;
        let email = file.client_email.ok_or(form("it has no client_email"))?;
        let pem = file.private_key.ok_or(form("it has no private_key"))?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
        let key = key.map_err(|_| ServiceAccountError::Key)?;
        let PrivateKeyDer::Pkcs8(der) = key else {
            return Err(ServiceAccountError::Key);
        };
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der());
        Ok(Self {
            email,
            key_id: file.private_key_id.unwrap_or_default(),
            key: key.map_err(|_| ServiceAccountError::Key)?,
            token_uri: file
                .token_uri
                .unwrap_or_else(|| "https://oauth2.googleapis.com/token".to_owned()),
        })
    }

    /// A signed statement (RFC 7515, RS256) that the account wants a token for `scope` from `audience`;
    /// `None` when the signature failed.
    pub fn statement(&self, scope: &str, audience: &str, now: UnixTime) -> Option<String> {
        let seconds = now.0.div_euclid(1000);
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.key_id});
        let claims = json!({
            "iss": self.email,
            "scope": scope,
            "aud": audience,
            "iat": seconds,
            "exp": seconds.saturating_add(LIFETIME),
        });
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let text = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        let mut signature = vec![0; self.key.public_modulus_len()];
        let random = SystemRandom::new();
        let signed = self
            .key
            .sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature);
        signed.ok()?;
        Some(format!("{text}.{}", encode(&signature)))
    }
}
