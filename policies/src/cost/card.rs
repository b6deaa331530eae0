//! The prices of one model, and how they are written.

use alloc::vec::Vec;
use core::iter;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use super::{Service, Writes};
use crate::units::{Money, Price, Ratio, Tokens};

/// The prices of one model at one vendor.
///
/// Written with decimal strings of dollars per million tokens (or per another number, `per`):
///
/// ```
/// # use whippletree_policies::cost::PriceCard;
/// let card: PriceCard = serde_json::from_str(
///     r#"{
///         "input": "3.00", "cache_read": "0.30", "output": "15.00",
///         "tiers": [{"above": 200000, "input": "6.00", "output": "22.50"}],
///         "service": {"batch": "0.5"}
///     }"#,
/// )?;
/// assert_eq!(card.base.input.0, 3_000_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceCard {
    /// What a call below every tier pays.
    pub base: Rates,
    /// What a call pays instead once its whole input passes a threshold.
    pub tiers: Vec<Tier>,
    /// Factors on the price of tokens for other service tiers.
    pub service: ServiceRatios,
    /// For each image made or read, where it is charged by the piece.
    pub image: Option<Money>,
    /// For each call, whatever its size.
    pub request: Option<Money>,
}

impl PriceCard {
    /// A card of the two rates that every model has.
    pub const fn new(input: Price, output: Price) -> Self {
        Self {
            base: Rates::new(input, output),
            tiers: Vec::new(),
            service: ServiceRatios {
                batch: None,
                flex: None,
                priority: None,
            },
            image: None,
            request: None,
        }
    }

    /// The rates for a call that read `input` in all, with the threshold of their tier.
    pub fn rates_for(&self, input: Tokens) -> (Option<Tokens>, &Rates) {
        self.tiers
            .iter()
            .filter(|tier| input > tier.above)
            .max_by_key(|tier| tier.above)
            .map_or((None, &self.base), |tier| (Some(tier.above), &tier.rates))
    }

    /// The rates that a call of at most `input` may meet.
    pub(super) fn rates_up_to(&self, input: Tokens) -> impl Iterator<Item = &Rates> {
        let tiers = self.tiers.iter().filter(move |tier| input > tier.above);
        iter::once(&self.base).chain(tiers.map(|tier| &tier.rates))
    }
}

/// Prices per token by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Input that was neither read from nor written to the cache.
    pub input: Price,
    /// Input read from the vendor's cache. Absent: as `input`.
    pub cache_read: Option<Price>,
    /// Input written to the cache with its short lifetime. Absent: as `input`.
    pub cache_write_5m: Option<Price>,
    /// Input written to the cache with its long lifetime. Absent: as the short one.
    pub cache_write_1h: Option<Price>,
    /// Everything written.
    pub output: Price,
    /// Reasoning within the output. Absent: as `output`, which is how nearly all vendors charge it.
    pub reasoning: Option<Price>,
    /// Audio within the input. Absent: as `input`.
    pub audio_input: Option<Price>,
    /// Audio within the output. Absent: as `output`.
    pub audio_output: Option<Price>,
}

impl Rates {
    /// The two rates that every model has.
    pub const fn new(input: Price, output: Price) -> Self {
        Self {
            input,
            cache_read: None,
            cache_write_5m: None,
            cache_write_1h: None,
            output,
            reasoning: None,
            audio_input: None,
            audio_output: None,
        }
    }

    pub(super) fn dearest_input(&self, writes: Writes) -> Price {
        let short = self.cache_write_5m.filter(|_| writes >= Writes::Short);
        let long = self.cache_write_1h.filter(|_| writes >= Writes::Long);
        // A missing rate stands for `input`, which is among the candidates anyway.
        [self.cache_read, self.audio_input, short, long]
            .into_iter()
            .flatten()
            .fold(self.input, Price::max)
    }

    pub(super) fn dearest_output(&self) -> Price {
        [self.reasoning, self.audio_output]
            .into_iter()
            .flatten()
            .fold(self.output, Price::max)
    }
}

/// The rates of a long context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The tier applies to calls that read more than this, cached or not, and then to all of the
    /// call.
    pub above: Tokens,
    /// Its rates.
    pub rates: Rates,
}

/// Factors on the price of tokens. Absent: the standard price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceRatios {
    /// For batches: `"0.5"` at most vendors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Ratio>,
    /// For the flexible tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flex: Option<Ratio>,
    /// For the priority tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Ratio>,
}

impl ServiceRatios {
    pub(super) const fn ratio(&self, service: Service) -> Option<Ratio> {
        match service {
            Service::Batch => self.batch,
            Service::Flex => self.flex,
            Service::Priority => self.priority,
            Service::Standard => None,
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a written price card was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPriceCard {
    /// Finer than a picodollar for one token.
    #[error("price {0} for {1} tokens: expected a whole number of picodollars for each token")]
    Inexact(Money, u64),
    /// Below zero.
    #[error("price {0}: expected zero or more")]
    Negative(Money),
    /// A price for no tokens.
    #[error("per = 0: expected a number of tokens such as 1000000")]
    PerNothing,
    /// Two tiers begin at the same size.
    #[error("two tiers above {0} tokens: expected one")]
    TwoTiers(Tokens),
}

const MILLION: u64 = 1_000_000;

/// The written form. A tier repeats the rates because serde can flatten only at the price of the
/// positions in its errors, and of refusing unknown keys.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCard {
    input: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_5m: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_1h: Option<Money>,
    output: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_input: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_output: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Money>,
    #[serde(default = "million")]
    per: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tiers: Vec<WrittenTier>,
    #[serde(default, skip_serializing_if = "ServiceRatios::is_empty")]
    service: ServiceRatios,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTier {
    above: Tokens,
    input: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_5m: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_1h: Option<Money>,
    output: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_input: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_output: Option<Money>,
}

const fn million() -> u64 {
    MILLION
}

impl WrittenTier {
    fn read(&self, per: u64) -> Result<Rates, InvalidPriceCard> {
        let optional = |money: Option<Money>| money.map(|money| price(money, per)).transpose();
        Ok(Rates {
            input: price(self.input, per)?,
            cache_read: optional(self.cache_read)?,
            cache_write_5m: optional(self.cache_write_5m)?,
            cache_write_1h: optional(self.cache_write_1h)?,
            output: price(self.output, per)?,
            reasoning: optional(self.reasoning)?,
            audio_input: optional(self.audio_input)?,
            audio_output: optional(self.audio_output)?,
        })
    }

    fn write(above: Tokens, rates: &Rates) -> Option<Self> {
        let optional = |price: Option<Price>| match price {
            None => Some(None),
            Some(price) => price.times(Tokens(MILLION)).map(Some),
        };
        Some(Self {
            above,
            input: rates.input.times(Tokens(MILLION))?,
            cache_read: optional(rates.cache_read)?,
            cache_write_5m: optional(rates.cache_write_5m)?,
            cache_write_1h: optional(rates.cache_write_1h)?,
            output: rates.output.times(Tokens(MILLION))?,
            reasoning: optional(rates.reasoning)?,
            audio_input: optional(rates.audio_input)?,
            audio_output: optional(rates.audio_output)?,
        })
    }
}

/// The price of one token when `per` of them cost `money`.
fn price(money: Money, per: u64) -> Result<Price, InvalidPriceCard> {
    not_negative(money)?;
    let tokens = i64::try_from(per).map_err(|_| InvalidPriceCard::Inexact(money, per))?;
    match (
        money.pico().checked_div(tokens),
        money.pico().checked_rem(tokens),
    ) {
        (Some(pico), Some(0)) => Ok(Price(pico)),
        (Some(_), Some(_)) => Err(InvalidPriceCard::Inexact(money, per)),
        _ => Err(InvalidPriceCard::PerNothing),
    }
}

fn not_negative(money: Money) -> Result<Money, InvalidPriceCard> {
    if money < Money::ZERO {
        return Err(InvalidPriceCard::Negative(money));
    }
    Ok(money)
}

impl TryFrom<WrittenCard> for PriceCard {
    type Error = InvalidPriceCard;

    fn try_from(written: WrittenCard) -> Result<Self, InvalidPriceCard> {
        let mut tiers = Vec::with_capacity(written.tiers.len());
        for tier in &written.tiers {
            let rates = tier.read(written.per)?;
            tiers.push(Tier {
                above: tier.above,
                rates,
            });
        }
        tiers.sort_by_key(|tier| tier.above);
        let mut pairs = tiers.iter().zip(tiers.iter().skip(1));
        if let Some((tier, _)) = pairs.find(|(a, b)| a.above == b.above) {
            return Err(InvalidPriceCard::TwoTiers(tier.above));
        }
        let base = WrittenTier {
            above: Tokens::ZERO,
            input: written.input,
            cache_read: written.cache_read,
            cache_write_5m: written.cache_write_5m,
            cache_write_1h: written.cache_write_1h,
            output: written.output,
            reasoning: written.reasoning,
            audio_input: written.audio_input,
            audio_output: written.audio_output,
        };
        Ok(Self {
            base: base.read(written.per)?,
            tiers,
            service: written.service,
            image: written.image.map(not_negative).transpose()?,
            request: written.request.map(not_negative).transpose()?,
        })
    }
}

impl<'de> Deserialize<'de> for PriceCard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenCard::deserialize(deserializer)?;
        written.try_into().map_err(de::Error::custom)
    }
}

impl Serialize for PriceCard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let too_large = || ser::Error::custom("a price passes nine dollars per token");
        let base = WrittenTier::write(Tokens::ZERO, &self.base).ok_or_else(too_large)?;
        let tiers = self
            .tiers
            .iter()
            .map(|tier| WrittenTier::write(tier.above, &tier.rates))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(too_large)?;
        WrittenCard {
            input: base.input,
            cache_read: base.cache_read,
            cache_write_5m: base.cache_write_5m,
            cache_write_1h: base.cache_write_1h,
            output: base.output,
            reasoning: base.reasoning,
            audio_input: base.audio_input,
            audio_output: base.audio_output,
            image: self.image,
            request: self.request,
            per: MILLION,
            tiers,
            service: self.service,
        }
        .serialize(serializer)
    }
}
