//! What one call costs, exactly.
//!
//! Every token of a call belongs to one class and is charged once, at that class's rate: cached
//! input at the cache rates and only the rest at the input rate, reasoning as the part of the
//! output that it is. A long-context tier is chosen by everything the call read and then prices the
//! whole call, its cache and its output too.
//!
//! A rate that the card lacks is taken from the same tier's input or output rate, and the
//! [`Charge`] says so: an absent rate is never free, while a rate of zero is. All arithmetic is in
//! whole picodollars; only a service tier's factor can leave a fraction, which is rounded up.
//!
//! Limits: how audio divides over cached and uncached input is not reported by any vendor, so audio
//! is taken to be uncached as far as that goes.

mod card;

use serde::{Deserialize, Serialize};

pub use self::card::{InvalidPriceCard, PriceCard, Rates, ServiceRatios, Tier};
use crate::units::{Money, Price, Tokens};
use crate::usage::Usage;

/// What `usage` costs at the standard service tier.
///
/// # Errors
///
/// [`Overflow`] when the amount passes nine million dollars.
pub fn cost(card: &PriceCard, usage: &Usage) -> Result<Money, Overflow> {
    charge(card, usage, Service::Standard).map(|charge| charge.amount)
}

/// What `usage` costs at a service tier, and how the amount came about.
///
/// # Errors
///
/// [`Overflow`] when the amount passes nine million dollars.
pub fn charge(card: &PriceCard, usage: &Usage, service: Service) -> Result<Charge, Overflow> {
    let (tier, rates) = card.rates_for(usage.input);
    let parts = Parts::of(usage);
    let mut price_fallback = false;
    let mut total: i128 = 0;
    for (tokens, own, instead) in parts.priced(rates) {
        if tokens == Tokens::ZERO {
            continue;
        }
        price_fallback |= own.is_none();
        total = add(total, own.unwrap_or(instead), tokens)?;
    }
    if let Some(ratio) = card.service.ratio(service) {
        total = ratio.of_pico(total).ok_or(Overflow)?;
    } else {
        price_fallback |= service != Service::Standard;
    }
    total = add_pieces(total, card.request, 1)?;
    total = add_pieces(total, card.image, usage.images.unwrap_or(0))?;
    Ok(Charge {
        amount: amount(total)?,
        tier,
        price_fallback,
        clamped: parts.clamped,
    })
}

/// The most that a call within `estimate` can cost: what a budget reserves for it.
///
/// No usage with at most this much input, output and images, and no other cache writes than the
/// estimate allows, costs more (a property test holds this).
///
/// # Errors
///
/// [`Overflow`] when the amount passes nine million dollars.
pub fn ceiling(card: &PriceCard, estimate: &Estimate) -> Result<Money, Overflow> {
    let mut dearest: i128 = 0;
    for rates in card.rates_up_to(estimate.input) {
        let input = add(0, rates.dearest_input(estimate.writes), estimate.input)?;
        let total = add(input, rates.dearest_output(), estimate.output)?;
        dearest = dearest.max(total);
    }
    if let Some(ratio) = card.service.ratio(estimate.service) {
        dearest = ratio.of_pico(dearest).ok_or(Overflow)?;
    }
    let total = add_pieces(dearest, card.request, 1)?;
    amount(add_pieces(total, card.image, estimate.images)?)
}

/// The service tier that a call was served at, as the vendor reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Asynchronous, within a day.
    Batch,
    /// Slower and cheaper, when there is room.
    Flex,
    /// Faster and dearer.
    Priority,
    /// The list price.
    #[default]
    Standard,
}

/// The cost of a call, with what a reader of the ledger must know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The amount.
    pub amount: Money,
    /// The threshold of the long-context tier that priced the call.
    pub tier: Option<Tokens>,
    /// A rate that the call needed was missing and another one stood in.
    pub price_fallback: bool,
    /// The parts were larger than their whole (the vendor counts differently than its codec says)
    /// and the remainder was held at zero.
    pub clamped: bool,
}

/// How large a call may become, for [`ceiling`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The most that it reads.
    pub input: Tokens,
    /// The most that it writes.
    pub output: Tokens,
    /// The most images that are charged by the piece.
    pub images: u64,
    /// What it may write to the vendor's prompt cache.
    pub writes: Writes,
    /// The service tier it asks for.
    pub service: Service,
}

/// Which cache writes a call can cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writes {
    /// None: no cache marks, and a vendor that charges nothing for its automatic cache.
    None,
    /// With the short lifetime, marked or automatic.
    #[default]
    Short,
    /// With the long lifetime too.
    Long,
}

/// The amount does not fit: more than nine million dollars for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cost of one call passes 9223372 dollars")]
pub struct Overflow;

/// A call's tokens, each in exactly one class.
struct Parts {
    uncached: Tokens,
    cache_read: Tokens,
    cache_write_5m: Tokens,
    cache_write_1h: Tokens,
    audio_input: Tokens,
    text_output: Tokens,
    reasoning: Tokens,
    audio_output: Tokens,
    clamped: bool,
}

impl Parts {
    fn of(usage: &Usage) -> Self {
        let cache_read = usage.cache_read.unwrap_or_default();
        let cache_write_5m = usage.cache_write_5m.unwrap_or_default();
        let cache_write_1h = usage.cache_write_1h.unwrap_or_default();
        let cached = cache_read.plus(cache_write_5m).plus(cache_write_1h);
        let uncached = usage.input.minus(cached);
        let audio_input = usage.audio_input.unwrap_or_default().min(uncached);
        let reasoning = usage.reasoning.unwrap_or_default().min(usage.output);
        let spoken = usage.output.minus(reasoning);
        let audio_output = usage.audio_output.unwrap_or_default().min(spoken);
        Self {
            uncached: uncached.minus(audio_input),
            cache_read,
            cache_write_5m,
            cache_write_1h,
            audio_input,
            text_output: spoken.minus(audio_output),
            reasoning,
            audio_output,
            clamped: cached > usage.input || usage.reasoning > Some(usage.output),
        }
    }

    /// Each class with its own rate and the rate that stands in for a missing one.
    fn priced(&self, rates: &Rates) -> [(Tokens, Option<Price>, Price); 8] {
        let long_write = rates.cache_write_5m.unwrap_or(rates.input);
        [
            (self.uncached, Some(rates.input), rates.input),
            (self.cache_read, rates.cache_read, rates.input),
            (self.cache_write_5m, rates.cache_write_5m, rates.input),
            (self.cache_write_1h, rates.cache_write_1h, long_write),
            (self.audio_input, rates.audio_input, rates.input),
            (self.text_output, Some(rates.output), rates.output),
            (
                self.reasoning,
                rates.reasoning.or(Some(rates.output)),
                rates.output,
            ),
            (self.audio_output, rates.audio_output, rates.output),
        ]
    }
}

fn add(total: i128, price: Price, tokens: Tokens) -> Result<i128, Overflow> {
    i128::from(price.0)
        .checked_mul(i128::from(tokens.0))
        .and_then(|pico| total.checked_add(pico))
        .ok_or(Overflow)
}

fn add_pieces(total: i128, each: Option<Money>, count: u64) -> Result<i128, Overflow> {
    add(total, Price(each.unwrap_or_default().pico()), Tokens(count))
}

fn amount(pico: i128) -> Result<Money, Overflow> {
    i64::try_from(pico)
        .map(Money::from_pico)
        .map_err(|_| Overflow)
}
