//! Values that the configuration writes as text: durations, sizes, money, addresses.
//!
//! A value has one [`Form`]: how it is written, what to say when it is not, and how it prints. The
//! JSON Schema carries the form's name as `format`, so the check that runs over the file's spans and
//! the typed read that follows it use the same parser and cannot disagree.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use whippletree_policies::units::Money;

/// How a value is written.
pub trait Form: Sized {
    /// The name in the schema's `format`.
    const NAME: &'static str;
    /// What was expected, for messages and the manual.
    const EXPECTED: &'static str;

    /// Reads the text; `None` when it is not of this form.
    fn read(text: &str) -> Option<Self>;

    /// Writes the value as the file would.
    fn write(&self) -> String;

    /// How large the value is, for bounds; `None` where values have no order.
    fn magnitude(&self) -> Option<u64> {
        None
    }
}

/// A value in its written form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written<T>(pub T);

impl<'de, T: Form> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        T::read(&text)
            .map(Self)
            .ok_or_else(|| de::Error::custom(format_args!("expected {}", T::EXPECTED)))
    }
}

impl<T: Form> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.write())
    }
}

impl<T: Form> JsonSchema for Written<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::NAME.into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": T::NAME })
    }
}

/// What a schema's `format` stands for.
#[derive(Clone, Copy)]
pub struct Check {
    /// The name in the schema.
    pub name: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// Whether the text is of this form.
    pub accepts: fn(&str) -> bool,
    /// How large the value is that the text stands for, for bounds.
    pub magnitude: fn(&str) -> Option<u64>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

const fn check<T: Form>() -> Check {
    Check {
        name: T::NAME,
        expected: T::EXPECTED,
        accepts: |text| T::read(text).is_some(),
        magnitude: |text| T::read(text)?.magnitude(),
    }
}

const CHECKS: [Check; 7] = [
    check::<BaseUrl>(),
    check::<Duration>(),
    check::<Money>(),
    check::<Sha256>(),
    check::<Size>(),
    check::<SocketAddr>(),
    check::<Zone>(),
];

/// The check behind a schema's `format`.
pub fn check_named(format: &str) -> Option<Check> {
    CHECKS.into_iter().find(|check| check.name == format)
}

/// Splits `30s` into the number and its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit))
}

/// Milliseconds in each unit of time, largest first.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl Form for Duration {
    const NAME: &'static str = "duration";
    const EXPECTED: &'static str =
        "a duration such as \"250ms\", \"30s\", \"5m\", \"1h\" or \"30d\"";

    fn read(text: &str) -> Option<Self> {
        let (number, unit) = number_and_unit(text)?;
        let (_, ms) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit)?;
        // A hundred years: no timer of the gateway overflows when such a duration is added to now.
        let longest = 36_500 * 86_400_000;
        number
            .checked_mul(ms)
            .filter(|ms| *ms <= longest)
            .map(Self::from_millis)
    }

    fn write(&self) -> String {
        let ms = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        let unit = TIME_UNITS
            .into_iter()
            .find(|(_, unit)| ms != 0 && ms.is_multiple_of(*unit));
        let (name, unit) = unit.unwrap_or(("s", 1_000));
        format!("{}{name}", ms / unit)
    }

    fn magnitude(&self) -> Option<u64> {
        u64::try_from(self.as_millis()).ok()
    }
}

/// A count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const SIZE_UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Form for Size {
    const NAME: &'static str = "size";
    const EXPECTED: &'static str = "a size such as \"256KiB\", \"32MiB\" or \"1GiB\"";

    fn read(text: &str) -> Option<Self> {
        let (number, unit) = number_and_unit(text)?;
        let (_, bytes) = SIZE_UNITS.into_iter().find(|(name, _)| *name == unit)?;
        // A tebibyte: no sum of a few sizes overflows.
        number
            .checked_mul(bytes)
            .filter(|bytes| *bytes <= 1 << 40)
            .map(Self)
    }

    fn write(&self) -> String {
        let unit = SIZE_UNITS
            .into_iter()
            .find(|(_, unit)| self.0 != 0 && self.0.is_multiple_of(*unit));
        let (name, unit) = unit.unwrap_or(("B", 1));
        format!("{}{name}", self.0 / unit)
    }

    fn magnitude(&self) -> Option<u64> {
        Some(self.0)
    }
}

impl Form for Money {
    const NAME: &'static str = "dollars";
    const EXPECTED: &'static str = "an amount of dollars as a string, such as \"12.50\"";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().filter(|money| *money >= Self::ZERO)
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Form for SocketAddr {
    const NAME: &'static str = "socket-address";
    const EXPECTED: &'static str =
        "an address with a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// The address that an API's paths are appended to: no slash at its end, no query, no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(pub http::Uri);

impl Form for BaseUrl {
    const NAME: &'static str = "base-url";
    const EXPECTED: &'static str =
        "an http or https URL without credentials or query, such as \"https://api.example.com/v1\"";

    fn read(text: &str) -> Option<Self> {
        let uri: http::Uri = text.trim_end_matches('/').parse().ok()?;
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority()?;
        let host = !uri.host()?.is_empty() && !authority.as_str().contains('@');
        (scheme && host && uri.query().is_none() && !text.contains('#')).then_some(Self(uri))
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Form for Sha256 {
    const NAME: &'static str = "sha256";
    const EXPECTED: &'static str =
        "a SHA-256 in 64 hexadecimal digits, as `whippletree keys new` prints it";

    fn read(text: &str) -> Option<Self> {
        crate::keys::from_hex(text).map(Self)
    }

    fn write(&self) -> String {
        crate::keys::to_hex(&self.0)
    }
}

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(pub jiff::tz::TimeZone);

impl Form for Zone {
    const NAME: &'static str = "time-zone";
    const EXPECTED: &'static str = "an IANA time zone such as \"Europe/Berlin\" or \"UTC\"";

    fn read(text: &str) -> Option<Self> {
        jiff::tz::TimeZone::get(text).ok().map(Self)
    }

    fn write(&self) -> String {
        self.0.iana_name().unwrap_or("UTC").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_a_whole_number_and_a_unit() {
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
        ] {
            let read = Duration::read(text).unwrap();
            assert_eq!(read, Duration::from_millis(ms));
            assert_eq!(read.write(), text);
        }
        for text in [
            "",
            "s",
            "5",
            "1.5s",
            "-1s",
            "5 s",
            "5S",
            "5sec",
            "99999999999d",
            "36501d",
        ] {
            assert_eq!(Duration::read(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(Size::read("256KiB"), Some(Size(262_144)));
        assert_eq!(Size::read("512B"), Some(Size(512)));
        for text in [
            "",
            "5",
            "5KB",
            "5k",
            "1.5MiB",
            "2000GiB",
            "99999999999999GiB",
        ] {
            assert_eq!(Size::read(text), None, "{text}");
        }
    }

    #[test]
    fn base_urls_name_a_host_and_nothing_secret() {
        assert_eq!(
            BaseUrl::read("https://a.example/v1/").unwrap().write(),
            "https://a.example/v1"
        );
        for text in [
            "a.example/v1",
            "ftp://a.example",
            "https://",
            "https://user:pass@a.example",
            "https://a.example/v1?key=1",
            "https://a.example/v1#x",
            "/v1",
        ] {
            assert_eq!(BaseUrl::read(text), None, "{text}");
        }
    }

    #[test]
    fn money_is_never_negative() {
        assert_eq!(<Money as Form>::read("-1"), None);
        assert_eq!(<Money as Form>::read("1.250").unwrap().write(), "1.25");
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_as_itself(ms in 0_u64..36_500 * 86_400_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(Duration::read(&duration.write()), Some(duration));
        }

        #[test]
        fn a_written_size_reads_as_itself(bytes in 0_u64..1 << 40) {
            prop_assert_eq!(Size::read(&Size(bytes).write()), Some(Size(bytes)));
        }

        #[test]
        fn no_text_makes_a_form_panic(text in any::<String>()) {
            for check in CHECKS {
                let _ = (check.accepts)(&text);
            }
        }
    }
}
