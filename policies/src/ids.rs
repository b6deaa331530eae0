//! Names of things, each with a type of its own.

use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A paying party: a team, a customer, a project. Named in the configuration.
    TenantId
);
name!(
    /// The name of a virtual key, never its secret. Unique within a tenant.
    KeyId
);
name!(
    /// A route: the name that clients ask for as `model`.
    RouteId
);
name!(
    /// A provider: an endpoint of a vendor with its credentials. Named in the configuration.
    ProviderId
);
name!(
    /// A target in the form `provider/model`.
    TargetId
);

impl TargetId {
    /// The name of the provider: what stands before the first slash.
    pub fn provider(&self) -> &str {
        self.as_str()
            .split_once('/')
            .map_or(self.as_str(), |(provider, _)| provider)
    }
}

/// A credential of a provider by its place in the configuration, from 0.
///
/// A provider without credentials has the single index 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct KeyIndex(pub u16);

/// The identity of one client request: a UUID of version 7, so ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub [u8; 16]);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One write: every request's record and log line have its id.
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or_default();
        let mut text = [b'-'; 36];
        let mut places = text.iter_mut();
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                places.next();
            }
            for nibble in [byte >> 4, byte & 0xf] {
                if let Some(place) = places.next() {
                    *place = digit(nibble);
                }
            }
        }
        f.write_str(core::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a UUID of 36 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a request id such as 01980f5e-8c3a-7000-8000-000000000000")]
pub struct InvalidRequestId;

impl FromStr for RequestId {
    type Err = InvalidRequestId;

    fn from_str(text: &str) -> Result<Self, InvalidRequestId> {
        let mut bytes = [0; 16];
        let mut digits = 0_usize;
        if text.len() != 36 {
            return Err(InvalidRequestId);
        }
        for (i, c) in text.chars().enumerate() {
            if matches!(i, 8 | 13 | 18 | 23) {
                if c != '-' {
                    return Err(InvalidRequestId);
                }
                continue;
            }
            let value = c.to_digit(16).ok_or(InvalidRequestId)?;
            let byte = bytes.get_mut(digits / 2).ok_or(InvalidRequestId)?;
            *byte = *byte << 4 | u8::try_from(value).map_err(|_| InvalidRequestId)?;
            digits += 1;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_request_id_reads_as_it_prints() {
        let id = RequestId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255]);
        assert_eq!(id.to_string(), "01020304-0506-0708-090a-0b0c0d0e0fff");
        assert_eq!(id.to_string().parse::<RequestId>().unwrap(), id);
        assert!(
            "01020304-0506-0708-090a-0b0c0d0e0ff"
                .parse::<RequestId>()
                .is_err()
        );
        assert!(
            "0102030405-06-0708-090a-0b0c0d0e0fff"
                .parse::<RequestId>()
                .is_err()
        );
    }
}
