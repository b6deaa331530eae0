//! Tokens and money, in integers.
//!
//! A cached-token price such as $0.0075 per million tokens is 7.5 nano-dollars a token, so nano is
//! too coarse: money is counted in picodollars (10⁻¹² dollars). An `i64` of picodollars holds nine
//! million dollars, enough for one row; sums use `i128` ([`MoneySum`]).

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Picodollars in one dollar.
pub const PICO_PER_DOLLAR: i64 = 1_000_000_000_000;

/// A count of tokens.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Self = Self(0);

    /// The sum, held at `u64::MAX` rather than wrapping.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, zero when `other` is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An amount of money in picodollars (10⁻¹² dollars).
///
/// Reads and prints as a decimal string of dollars without loss: `"0.000051"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount of picodollars.
    pub const fn from_pico(pico: i64) -> Self {
        Self(pico)
    }

    /// The amount in picodollars.
    pub const fn pico(self) -> i64 {
        self.0
    }

    /// The sum, or `None` past nine million dollars.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(pico) => Some(Self(pico)),
            None => None,
        }
    }

    /// The difference, or `None` when it does not fit.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(pico) => Some(Self(pico)),
            None => None,
        }
    }
}

/// A sum of many amounts, in picodollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoneySum(i128);

impl MoneySum {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// A sum of picodollars.
    pub const fn from_pico(pico: i128) -> Self {
        Self(pico)
    }

    /// The sum in picodollars.
    pub const fn pico(self) -> i128 {
        self.0
    }

    /// Adds one amount. Cannot overflow for fewer than 2⁶⁴ amounts.
    pub const fn add(&mut self, amount: Money) {
        self.0 = self.0.saturating_add(amount.0 as i128);
    }
}

/// The price of one token, in picodollars: $3.00 per million tokens is 3,000,000.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Price(pub i64);

impl Price {
    /// What `tokens` cost, or `None` past nine million dollars.
    #[must_use]
    pub fn times(self, tokens: Tokens) -> Option<Money> {
        let pico = i128::from(self.0).checked_mul(i128::from(tokens.0))?;
        i64::try_from(pico).ok().map(Money)
    }
}

/// An exact, non-negative factor such as a batch discount of 0.5.
///
/// Reads and prints as a decimal string of at most nine digits after the point: `"0.5"`, `"2"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio {
    billionths: u64,
}

impl Ratio {
    /// No change.
    pub const ONE: Self = Self {
        billionths: BILLION,
    };

    /// A factor in billionths: `500_000_000` is one half.
    pub const fn from_billionths(billionths: u64) -> Self {
        Self { billionths }
    }

    /// The factor in billionths.
    pub const fn billionths(self) -> u64 {
        self.billionths
    }

    /// This share of `pico`, a fraction of a picodollar counted as a whole one, or `None` when it
    /// does not fit. Money is rounded here alone, and never to the gateway's favour.
    #[must_use]
    pub fn of_pico(self, pico: i128) -> Option<i128> {
        let billion = i128::from(BILLION);
        let product = pico.checked_mul(i128::from(self.billionths))?;
        let rest = i128::from(product.rem_euclid(billion) != 0);
        product.div_euclid(billion).checked_add(rest)
    }
}

const BILLION: u64 = 1_000_000_000;

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal::<9>(f, self.billionths / BILLION, self.billionths % BILLION)
    }
}

/// The text is not a factor such as `"0.5"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a factor such as \"0.5\", with at most nine digits after the decimal point")]
pub struct InvalidRatio;

impl FromStr for Ratio {
    type Err = InvalidRatio;

    fn from_str(text: &str) -> Result<Self, InvalidRatio> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
            return Err(InvalidRatio);
        }
        let whole: u64 = whole.parse().map_err(|_| InvalidRatio)?;
        let mut billionths: u64 = fraction.parse().map_err(|_| InvalidRatio)?;
        for _ in fraction.len()..9 {
            billionths *= 10;
        }
        whole
            .checked_mul(BILLION)
            .and_then(|w| w.checked_add(billionths))
            .map(Self::from_billionths)
            .ok_or(InvalidRatio)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

fn write_pico(f: &mut fmt::Formatter<'_>, pico: i128) -> fmt::Result {
    if pico < 0 {
        f.write_str("-")?;
    }
    let unit = u128::from(PICO_PER_DOLLAR.unsigned_abs());
    let magnitude = pico.unsigned_abs();
    // Every amount of money is, and dividing by 128 bits takes many times as long.
    if let (Ok(magnitude), Ok(unit)) = (u64::try_from(magnitude), u64::try_from(unit)) {
        return write_decimal::<12>(f, magnitude / unit, magnitude % unit);
    }
    let rest = u64::try_from(magnitude % unit).unwrap_or(0);
    write_decimal::<12>(f, magnitude / unit, rest)
}

/// Writes `whole` and `rest`, which counts units of ten to the power of `-WIDTH`, without trailing
/// zeros.
fn write_decimal<const WIDTH: usize>(
    f: &mut fmt::Formatter<'_>,
    whole: impl fmt::Display,
    mut rest: u64,
) -> fmt::Result {
    write!(f, "{whole}")?;
    if rest == 0 {
        return Ok(());
    }
    let mut digits = [0; WIDTH];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
    }
    let kept = digits.iter().rposition(|&digit| digit != b'0');
    let digits = digits.get(..=kept.unwrap_or(0)).unwrap_or_default();
    f.write_str(".")?;
    f.write_str(core::str::from_utf8(digits).unwrap_or_default())
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_pico(f, i128::from(self.0))
    }
}

impl fmt::Display for MoneySum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_pico(f, self.0)
    }
}

/// Why a decimal string of dollars was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMoney {
    /// Not of the form `-12.345`.
    #[error("expected a decimal amount of dollars such as \"12.50\"")]
    Form,
    /// More than twelve digits after the point.
    #[error("expected at most twelve digits after the decimal point")]
    Precision,
    /// Past nine million dollars.
    #[error("expected an amount below 9223372 dollars")]
    Range,
}

impl FromStr for Money {
    type Err = InvalidMoney;

    fn from_str(text: &str) -> Result<Self, InvalidMoney> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return Err(InvalidMoney::Form);
        }
        if fraction.len() > 12 {
            return Err(InvalidMoney::Precision);
        }
        let whole: i64 = whole.parse().map_err(|_| InvalidMoney::Range)?;
        let mut pico: i64 = fraction.parse().map_err(|_| InvalidMoney::Form)?;
        for _ in fraction.len()..12 {
            pico *= 10;
        }
        let total = whole
            .checked_mul(PICO_PER_DOLLAR)
            .and_then(|w| w.checked_add(pico))
            .ok_or(InvalidMoney::Range)?;
        Ok(Self(if negative { -total } else { total }))
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for MoneySum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
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
    fn money_reads_and_prints_without_loss() {
        for text in [
            "0",
            "12.5",
            "0.000051",
            "-3.000000000001",
            "9223371.999999999999",
        ] {
            assert_eq!(text.parse::<Money>().unwrap().to_string(), text);
        }
        assert_eq!("12.50".parse::<Money>().unwrap().pico(), 12_500_000_000_000);
    }

    #[test]
    fn money_refuses_what_is_not_a_plain_decimal() {
        for text in ["", "1e3", ".5", "5.", "1,5", "+1", "NaN", "9223373"] {
            assert!(text.parse::<Money>().is_err(), "{text}");
        }
        assert_eq!(
            "0.0000000000001".parse::<Money>(),
            Err(InvalidMoney::Precision)
        );
    }

    #[test]
    fn a_ratio_reads_and_prints_without_loss_and_rounds_up() {
        for text in ["0", "0.5", "1", "2.5", "0.000000001"] {
            assert_eq!(text.parse::<Ratio>().unwrap().to_string(), text);
        }
        for text in ["", "-1", "1e3", ".5", "0.0000000001", "99999999999"] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
        let half = Ratio::from_billionths(500_000_000);
        assert_eq!(half.of_pico(10), Some(5));
        assert_eq!(half.of_pico(11), Some(6));
        assert_eq!(Ratio::ONE.of_pico(11), Some(11));
    }

    #[test]
    fn a_price_times_tokens_is_exact_or_refused() {
        assert_eq!(
            Price(7_500).times(Tokens(1_000_000)).unwrap().to_string(),
            "0.0075"
        );
        assert_eq!(Price(i64::MAX).times(Tokens(2)), None);
    }
}
