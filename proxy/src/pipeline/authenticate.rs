//! Head → caller. Nothing of the body is read before this.
//!
//! A key is looked up by the SHA-256 of its secret, so no secret is held and the look-up leaks
//! nothing through its timing: an attacker who can measure which bucket was touched learns about a
//! hash of their own input. The stored hash is compared in constant time all the same. A missing, a
//! malformed and an unknown key take the same path and get the same answer.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{self, HeaderMap};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use whippletree_policies::ids::{KeyId, TenantId};

use crate::api::rejection::Rejection;
use crate::config::{Config, Key, Tenant};

/// The tenant of callers on loopback where none is configured.
pub const DEFAULT_TENANT: &str = "default";

/// The longest secret looked at: longer ones are wrong, and hashing them is work for an attacker to
/// order.
const MAX_SECRET: usize = 512;

/// Who is calling.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A key of a tenant.
    Key(Arc<Key>),
    /// Someone on this machine, where no tenants are configured.
    Loopback,
}

impl Caller {
    /// Who pays.
    pub fn tenant_id(&self) -> TenantId {
        match self {
            Self::Key(key) => key.tenant.id.clone(),
            Self::Loopback => TenantId::from(DEFAULT_TENANT),
        }
    }

    /// The key's name.
    pub fn key_id(&self) -> Option<KeyId> {
        self.tenant_key().map(|key| key.id.clone())
    }

    /// The tenant's settings.
    pub fn tenant(&self) -> Option<&Arc<Tenant>> {
        self.tenant_key().map(|key| &key.tenant)
    }

    fn tenant_key(&self) -> Option<&Arc<Key>> {
        match self {
            Self::Key(key) => Some(key),
            Self::Loopback => None,
        }
    }

    /// Whether the tenant's list of routes has `name`, or the pattern `provider/*` that covers it.
    pub fn may_use(&self, name: &str) -> bool {
        let Some(tenant) = self.tenant() else {
            return true;
        };
        tenant.routes.is_empty()
            || tenant
                .routes
                .iter()
                .any(|allowed| match allowed.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => allowed == name,
                })
    }
}

/// Finds the caller.
///
/// # Errors
/// [`Rejection::Unauthenticated`], whatever is wrong.
pub fn authenticate(
    config: &Config,
    headers: &HeaderMap,
    peer: IpAddr,
) -> Result<Caller, Rejection> {
    if config.tenants.is_empty() {
        let local = peer.to_canonical().is_loopback();
        return if local {
            Ok(Caller::Loopback)
        } else {
            Err(Rejection::Unauthenticated)
        };
    }
    let secret = secret(headers)
        .filter(|s| s.len() <= MAX_SECRET)
        .unwrap_or_default();
    let hash: [u8; 32] = Sha256::digest(secret).into();
    match config.keys.get(&hash) {
        Some(key) if bool::from(key.sha256.ct_eq(&hash)) => Ok(Caller::Key(Arc::clone(key))),
        _ => Err(Rejection::Unauthenticated),
    }
}

/// The secret, from the first header that has one of the forms that vendors' clients use.
fn secret(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, rest) = value.as_bytes().split_at_checked(7)?;
        return scheme
            .eq_ignore_ascii_case(b"bearer ")
            .then(|| rest.trim_ascii());
    }
    ["x-api-key", "api-key", "x-goog-api-key"]
        .iter()
        .find_map(|name| headers.get(*name))
        .map(|value| value.as_bytes().trim_ascii())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn secret_of(name: &'static str, value: &'static str) -> Option<Vec<u8>> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        secret(&headers).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_secret_is_taken_from_every_form_that_clients_send() {
        assert_eq!(secret_of("authorization", "Bearer k1").unwrap(), b"k1");
        assert_eq!(secret_of("authorization", "bearer k1").unwrap(), b"k1");
        assert_eq!(secret_of("x-api-key", "k1").unwrap(), b"k1");
        assert_eq!(secret_of("api-key", "k1").unwrap(), b"k1");
        assert_eq!(secret_of("x-goog-api-key", "k1").unwrap(), b"k1");
        assert_eq!(secret_of("authorization", "Basic abc"), None);
        assert_eq!(secret_of("authorization", "B"), None);
    }
}
