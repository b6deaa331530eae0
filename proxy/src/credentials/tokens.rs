//! Tokens that live for an hour or so, renewed before they end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use tokio::sync::Mutex;
use whippletree_policies::outcome::Class;
use whippletree_policies::time::Instant;
use whippletree_providers::percent;

use crate::clock;
use crate::config::credential::{Grant, Proof};
use crate::config::{PoolSettings, Provider, Timeouts};
use crate::tls::TlsError;
use crate::upstream::{Call, Pool, UpstreamError};

/// The longest answer of a token endpoint that is read.
const MAX_ANSWER: usize = 256 * 1024;
/// A token is renewed when this much of its life is left, or a quarter where that is less.
const RENEW_BEFORE: Duration = Duration::from_mins(5);
/// The last of a token's life, in which it is not sent: it has to outlive its way to the vendor.
const MARGIN: Duration = Duration::from_secs(10);
/// What a token lives where its endpoint does not say (RFC 6749 only recommends that it does).
const UNSTATED_LIFE: Duration = Duration::from_mins(5);
/// After a failure nobody asks again for so long.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the renewer looks.
const LOOK: Duration = Duration::from_millis(500);

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    /// The endpoint was not reached, or did not answer in time.
    #[error("the token endpoint was not reached")]
    Unreached(#[source] Arc<UpstreamError>),
    /// The endpoint refused.
    #[error("the token endpoint answered {status}{}", code.as_deref().map(|code| format!(": {code}")).unwrap_or_default())]
    Refused {
        /// Its status.
        status: StatusCode,
        /// OAuth's name of the error, such as `invalid_client`.
        code: Option<String>,
    },
    /// The answer has no token that can be sent.
    #[error("the token endpoint's answer has no usable token")]
    Malformed,
    /// The statement that the token is given for could not be signed.
    #[error("the service account's key could not sign")]
    Signature,
}

impl TokenError {
    /// What the failure means for the attempt that needed the token.
    pub fn class(&self) -> Class {
        match self {
            Self::Unreached(error) => error.class(),
            Self::Refused { status, .. } => match status.as_u16() {
                429 => Class::RateLimited,
                500.. => Class::ServerError,
                _ => Class::VendorAuth,
            },
            Self::Malformed => Class::ServerError,
            Self::Signature => Class::VendorAuth,
        }
    }
}

#[derive(Debug)]
struct Token {
    header: HeaderValue,
    renew_at: Instant,
    ends_at: Instant,
}

/// The tokens of one grant.
#[derive(Debug)]
pub struct TokenSource {
    grant: Arc<Grant>,
    pool: Pool,
    current: ArcSwapOption<Token>,
    /// Held by whoever asks the endpoint, with what came of asking last.
    turn: Mutex<Option<(Instant, TokenError)>>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct Denied {
    error: String,
}

impl TokenSource {
    /// Asks for nothing yet. `workers` threads will want tokens.
    ///
    /// # Errors
    /// The grant's `ca` cannot be used, or its host cannot be in a certificate.
    pub fn new(grant: Arc<Grant>, workers: usize) -> Result<Self, TlsError> {
        let endpoint = Provider {
            id: "token-endpoint".into(),
            kind: "",
            base_url: grant.token_url.clone(),
            keys: Vec::new(),
            timeouts: timeouts(),
            pool: PoolSettings {
                max_connections: 4,
                ..PoolSettings::default()
            },
            apis: Vec::new(),
            error_classes: BTreeMap::new(),
            ca: grant.ca.clone(),
        };
        Ok(Self {
            pool: Pool::new(&endpoint, workers)?,
            grant,
            current: ArcSwapOption::empty(),
            turn: Mutex::new(None),
        })
    }

    /// `Bearer` and the token: the one at hand, or else one that is fetched now.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn token(&self) -> Result<HeaderValue, TokenError> {
        if let Some(header) = self.at_hand() {
            return Ok(header);
        }
        let mut last = self.turn.lock().await;
        // Whoever had the turn before may have brought one, or have found that there is none.
        if let Some(header) = self.at_hand() {
            return Ok(header);
        }
        if let Some((failed, error)) = &*last
            && clock::now().since(*failed) < PAUSE
        {
            return Err(error.clone());
        }
        self.fetch(&mut last).await
    }

    /// Renews the token where it is time to.
    pub async fn renew(&self) {
        if !self.is_due() {
            return;
        }
        let mut last = self.turn.lock().await;
        // A request may have been first.
        if !self.is_due() {
            return;
        }
        let now = clock::now();
        // Here more patience than for a client: the token at hand is good for some time.
        let pause = match (&*last, self.at_hand()) {
            (Some((failed, _)), Some(_)) => now.since(*failed) < PAUSE * 10,
            (Some((failed, _)), None) => now.since(*failed) < PAUSE * 2,
            (None, _) => false,
        };
        if !pause && let Err(error) = self.fetch(&mut last).await {
            let host = self.grant.token_url.host();
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                host,
                "no new token"
            );
        }
    }

    /// Drops the token at hand: the vendor does not take it.
    pub fn forget(&self) {
        self.current.store(None);
    }

    fn is_due(&self) -> bool {
        let token = self.current.load();
        let now = clock::now();
        token.as_ref().is_none_or(|token| token.renew_at <= now)
    }

    fn at_hand(&self) -> Option<HeaderValue> {
        let token = self.current.load();
        let token = token.as_ref()?;
        (clock::now() < token.ends_at).then(|| token.header.clone())
    }

    async fn fetch(
        &self,
        last: &mut Option<(Instant, TokenError)>,
    ) -> Result<HeaderValue, TokenError> {
        let asked = clock::now();
        match self.ask(asked).await {
            Ok(token) => {
                *last = None;
                let header = token.header.clone();
                self.current.store(Some(Arc::new(token)));
                Ok(header)
            }
            Err(error) => {
                *last = Some((clock::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn ask(&self, asked: Instant) -> Result<Token, TokenError> {
        let unreached = |error| TokenError::Unreached(Arc::new(error));
        let url = &self.grant.token_url;
        let path = url.path_and_query().cloned();
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let call = Call {
            method: Method::POST,
            path_and_query: path.unwrap_or(PathAndQuery::from_static("/")),
            headers,
            body: Bytes::from(self.form()?).into(),
            timeouts: timeouts(),
            give_up_at: None,
        };
        let answer = self.pool.send(call).await.map_err(unreached)?;
        let status = answer.status;
        let body = answer.body.collect(MAX_ANSWER).await.map_err(unreached)?;
        if !status.is_success() {
            let denied = serde_json::from_slice::<Denied>(&body).ok();
            return Err(TokenError::Refused {
                status,
                code: denied.map(|denied| denied.error),
            });
        }
        let granted: Granted = serde_json::from_slice(&body).map_err(|_| TokenError::Malformed)?;
        token(&granted, asked)
    }

    fn form(&self) -> Result<String, TokenError> {
        let grant = &self.grant;
        Ok(match &grant.proof {
            Proof::Client { id, secret } => encode(&[
                ("grant_type", "client_credentials"),
                ("client_id", id),
                ("client_secret", secret.expose_secret()),
                ("scope", &grant.scope),
            ]),
            Proof::ServiceAccount(account) => {
                let audience = grant.token_url.to_string();
                let statement = account
                    .statement(&grant.scope, &audience, clock::unix_now())
                    .ok_or(TokenError::Signature)?;
                encode(&[
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", &statement),
                ])
            }
        })
    }
}

/// Renews all tokens that a gateway needs, as long as it is polled. `sources` names those of the
/// configuration in force.
pub async fn keep_fresh(sources: impl Fn() -> Vec<Arc<TokenSource>>) {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        // A slow endpoint must not keep the others waiting.
        let mut renewals = tokio::task::JoinSet::new();
        for source in sources() {
            renewals.spawn(async move { source.renew().await });
        }
        while renewals.join_next().await.is_some() {}
    }
}

fn token(granted: &Granted, asked: Instant) -> Result<Token, TokenError> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", granted.access_token))
        .map_err(|_| TokenError::Malformed)?;
    header.set_sensitive(true);
    let life = granted
        .expires_in
        .map_or(UNSTATED_LIFE, Duration::from_secs)
        .min(Duration::from_hours(24));
    let quarter = life / 4;
    Ok(Token {
        header,
        renew_at: asked.after(life.saturating_sub(RENEW_BEFORE.min(quarter))),
        ends_at: asked.after(life.saturating_sub(MARGIN.min(quarter))),
    })
}

fn timeouts() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(10),
        idle: Duration::from_secs(10),
        total: Duration::from_secs(20),
    }
}

/// `application/x-www-form-urlencoded`.
fn encode(fields: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        percent::encode(value.as_bytes(), b"", &mut out);
    }
    out
}
