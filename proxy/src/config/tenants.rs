//! Who pays, what they may use, and the keys that they show.

use std::num::NonZeroU32;
use std::sync::Arc;

use whippletree_policies::ids::{KeyId, TenantId};

/// A paying party.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The name.
    pub id: TenantId,
    /// IANA name, for its calendar days and months.
    pub time_zone: jiff::tz::TimeZone,
    /// Routes it may use: names, or `provider/*`. Empty: all.
    pub routes: Vec<String>,
    /// Rates and concurrency.
    pub limits: Limits,
    /// Whether its agent runs may be stopped.
    pub runaway: bool,
}

/// Rates and concurrency; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens in a minute, read and written.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// Requests at once.
    pub concurrent: Option<NonZeroU32>,
}

/// A virtual key.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name, unique within the tenant.
    pub id: KeyId,
    /// Whose it is.
    pub tenant: Arc<Tenant>,
    /// SHA-256 of the secret.
    pub sha256: [u8; 32],
}
