//! How a request shows a vendor who pays.
//!
//! The problem: some vendors take a key as it is, others a signature over each request or a token
//! that lives for an hour. A token that is fetched when it is missed costs a client a round trip to
//! another host, once an hour for every worker at once.
//!
//! The idea: [`authorize`] puts on a request whatever its credential calls for. A token is kept by
//! [`tokens::TokenSource`], one for each grant and all workers; a thread beside the data plane
//! renews it well before it ends, so a request finds one and reads a pointer. Only before the first
//! one has come, or when the token endpoint has failed for long, does a request wait for it.
//!
//! Limits: credentials of AWS come from the configuration alone, not from an instance's metadata;
//! those that expire are renewed by changing the file or variable that they are read from.

mod service_account;
pub mod tokens;

use http::header::{self, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use whippletree_policies::ids::KeyIndex;
use whippletree_policies::time::UnixTime;
use whippletree_providers::bedrock::sign;
use whippletree_providers::provider::Auth;

pub use self::service_account::{ServiceAccount, ServiceAccountError};
pub use self::tokens::TokenError;
use crate::clock;
use crate::config::Provider;
use crate::config::credential::{AwsKeys, Credential};
use crate::gateway::Snapshot;
use crate::upstream::Call;

const AMZ_DATE: &str = "x-amz-date";
const AMZ_TOKEN: &str = "x-amz-security-token";
/// The service that Bedrock's signatures are for.
const BEDROCK: &str = "bedrock";

/// Puts on a call what the provider's credential of that place calls for; nothing where it has none.
///
/// # Errors
/// A token is needed and none is to be had.
pub async fn authorize(
    snapshot: &Snapshot,
    provider: &Provider,
    auth: Auth,
    key: KeyIndex,
    call: &mut Call,
) -> Result<(), TokenError> {
    match provider.keys.get(usize::from(key.0)) {
        None => {}
        Some(Credential::Key(secret)) => {
            let secret = secret.expose_secret();
            let (name, value) = match auth {
                Auth::Bearer => (header::AUTHORIZATION, format!("Bearer {secret}")),
                Auth::Header(name) => (HeaderName::from_static(name), secret.to_owned()),
            };
            insert(call, name, value);
        }
        Some(Credential::Aws(keys)) => sign(provider, keys, call, clock::unix_now()),
        Some(Credential::Grant(grant)) => {
            // Every grant of a snapshot has its source; without one the vendor says 401.
            if let Some(source) = snapshot.tokens(grant) {
                // Boxed: few providers have grants, and every call carries this future's size.
                let token = Box::pin(source.token()).await?;
                call.headers.insert(header::AUTHORIZATION, token);
            }
        }
    }
    Ok(())
}

/// A vendor has refused what the credential of that place brought: a token is not used again.
pub fn refused(snapshot: &Snapshot, provider: &Provider, key: KeyIndex) {
    if let Some(Credential::Grant(grant)) = provider.keys.get(usize::from(key.0))
        && let Some(source) = snapshot.tokens(grant)
    {
        source.forget();
    }
}

fn insert(call: &mut Call, name: HeaderName, value: String) {
    if let Ok(mut value) = HeaderValue::try_from(value) {
        value.set_sensitive(true);
        call.headers.insert(name, value);
    }
}

/// Signs a call to AWS. The body is hashed once, in one pass.
fn sign(provider: &Provider, keys: &AwsKeys, call: &mut Call, now: UnixTime) {
    let mut hash = Sha256::new();
    call.body.pieces().for_each(|piece| hash.update(piece));
    let date = sign::timestamp(now);
    let token = keys
        .session_token
        .as_ref()
        .map(secrecy::ExposeSecret::expose_secret);
    let authority = provider.base_url.authority().map_or("", |a| a.as_str());
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let mut headers = vec![("host", host), (AMZ_DATE, date.as_str())];
    headers.extend(token.map(|token| (AMZ_TOKEN, token)));
    let request = sign::Request {
        method: call.method.as_str(),
        path: call.path_and_query.path(),
        query: call.path_and_query.query().unwrap_or_default(),
        headers: &headers,
        payload: hash.finalize().into(),
    };
    let signer = sign::Signer {
        access_key_id: &keys.access_key_id,
        secret_access_key: keys.secret_access_key.expose_secret(),
        region: &keys.region,
        service: BEDROCK,
    };
    let authorization = sign::authorization(signer, &request, now);
    if let Some(token) = token {
        insert(call, HeaderName::from_static(AMZ_TOKEN), token.to_owned());
    }
    insert(call, HeaderName::from_static(AMZ_DATE), date);
    insert(call, header::AUTHORIZATION, authorization);
}
