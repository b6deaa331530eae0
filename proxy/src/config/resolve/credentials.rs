//! Credentials: keys, and what signatures and tokens are made with.

use std::sync::Arc;

use http::Uri;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::Resolver;
use super::providers::is_loopback;
use crate::config::credential::{AwsKeys, Credential, Grant, Proof};
use crate::config::fault::Path;
use crate::config::secret::{AwsTable, EntraTable, GoogleTable, KeySource};
use crate::credentials::ServiceAccount;

impl Resolver<'_> {
    /// The credential of a provider of this kind; `None` when it cannot be had.
    pub(super) fn credential(
        &mut self,
        at: &Path,
        kind: &str,
        source: &KeySource,
    ) -> Option<Credential> {
        if let Some(source) = source.as_secret() {
            return self.secret(at, &source).map(Credential::Key);
        }
        let KeySource::Written(table) = source else {
            return None;
        };
        if let Some(table) = &table.aws {
            let at = at.key("aws");
            self.only_for(&at, "bedrock-openai", kind)?;
            let keys = self.aws(&at, table)?;
            return Some(Credential::Aws(Arc::new(keys)));
        }
        let grant = if let Some(table) = &table.entra {
            let at = at.key("entra");
            self.only_for(&at, "azure", kind)?;
            self.entra(&at, table)?
        } else {
            let table = table.google.as_ref()?;
            let at = at.key("google");
            self.only_for(&at, "vertex-openai", kind)?;
            self.google(&at, table)?
        };
        Some(Credential::Grant(Arc::new(grant)))
    }

    /// A vendor would answer every request with 401, so the mistake is told now.
    fn only_for(&mut self, at: &Path, right: &str, kind: &str) -> Option<()> {
        if kind == right {
            return Some(());
        }
        let message = format!("`{at}` is no credential for the kind \"{kind}\"");
        self.value_fault(at, message).expected = Some(format!("expected kind = \"{right}\""));
        None
    }

    fn aws(&mut self, at: &Path, table: &AwsTable) -> Option<AwsKeys> {
        let id = self.secret(&at.key("access_key_id"), &table.access_key_id);
        let secret = self.secret(&at.key("secret_access_key"), &table.secret_access_key);
        let token = table.session_token.as_ref();
        let token = token.map(|source| self.secret(&at.key("session_token"), source));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if !table.region.chars().all(plain) {
            let at = at.key("region");
            let fault = self.value_fault(&at, format!("`{at}` is no region"));
            fault.expected = Some("expected such as \"us-east-1\"".to_owned());
            return None;
        }
        Some(AwsKeys {
            access_key_id: id?.expose_secret().to_owned(),
            secret_access_key: secret?,
            session_token: match token {
                Some(token) => Some(token?),
                None => None,
            },
            region: table.region.clone(),
        })
    }

    fn entra(&mut self, at: &Path, table: &EntraTable) -> Option<Grant> {
        let secret = self.secret(&at.key("client_secret"), &table.client_secret);
        let authority = table.authority.0.0.to_string();
        let authority = authority.trim_end_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if !table.tenant.chars().all(plain) {
            let at = at.key("tenant");
            let fault = self.value_fault(&at, format!("`{at}` is no directory"));
            fault.expected = Some("expected its id or a domain".to_owned());
            return None;
        }
        let url = format!("{authority}/{}/oauth2/v2.0/token", table.tenant);
        let token_url = self.token_url(&at.key("authority"), &url)?;
        let ca = table.ca.as_ref().map(|path| self.authority(at, path));
        let secret = secret?;
        Some(Grant {
            fingerprint: fingerprint(&[
                &url,
                &table.scope,
                &table.client_id,
                secret.expose_secret(),
                table.ca.as_deref().unwrap_or_default(),
            ]),
            token_url,
            scope: table.scope.clone(),
            proof: Proof::Client {
                id: table.client_id.clone(),
                secret,
            },
            ca,
        })
    }

    fn google(&mut self, at: &Path, table: &GoogleTable) -> Option<Grant> {
        let place = at.key("service_account");
        let text: SecretString = self.secret_text(&place, &table.service_account)?;
        let account = match ServiceAccount::parse(text.expose_secret()) {
            Ok(account) => account,
            Err(error) => {
                self.value_fault(&place, error.to_string()).expected =
                    Some("expected the JSON file of a service account's key".to_owned());
                return None;
            }
        };
        let token_url = self.token_url(&place, &account.token_uri)?;
        let ca = table.ca.as_ref().map(|path| self.authority(at, path));
        Some(Grant {
            fingerprint: fingerprint(&[
                &table.scope,
                text.expose_secret(),
                table.ca.as_deref().unwrap_or_default(),
            ]),
            token_url,
            scope: table.scope.clone(),
            proof: Proof::ServiceAccount(account),
            ca,
        })
    }

    /// What is shown for a token is worth as much as a key: it never travels unencrypted.
    fn token_url(&mut self, at: &Path, url: &str) -> Option<Uri> {
        let parsed = url.parse::<Uri>().ok();
        let safe = parsed.filter(|url| match url.scheme_str() {
            Some("https") => url.host().is_some(),
            Some("http") => url.host().is_some_and(is_loopback),
            _ => false,
        });
        if safe.is_none() {
            let fault = self.value_fault(at, format!("`{at}` names no safe address for tokens"));
            fault.expected = Some("expected an address with https".to_owned());
        }
        safe
    }
}

fn fingerprint(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
