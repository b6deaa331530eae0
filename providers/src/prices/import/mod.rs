//! The two public catalogues, read into rows.
//!
//! Neither is the truth (see [`super::compare`]), both are better than nothing for a model that the
//! built-in list lacks. A reader takes what a [`PriceCard`] can say and counts what it left out;
//! numbers are read as text, so nothing is lost on the way.

pub mod genai;
pub mod litellm;

use serde_json::value::RawValue;
use whippletree_policies::cost::{PriceCard, Rates, ServiceRatios, Tier};
use whippletree_policies::units::{Price, Ratio, Tokens};

use super::decimal::{Exactness, pico_per_token};
use super::{PriceList, Row};

/// A catalogue, as far as it could be read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// What was read.
    pub list: PriceList,
    /// Entries without a price by the token: images, speech by the second and the like.
    pub without_token_price: usize,
    /// Prices that are finer than a picodollar and were rounded to one.
    pub rounded: usize,
    /// Model patterns that our lists cannot say.
    pub patterns_skipped: usize,
}

/// Why a catalogue was refused as a whole.
#[derive(Debug, thiserror::Error)]
#[error("price catalogue: {0}")]
pub struct InvalidCatalogue(#[from] serde_json::Error);

/// Counts what happens while reading.
#[derive(Debug, Default)]
struct Reader {
    rows: Vec<Row>,
    without_token_price: usize,
    rounded: usize,
    patterns_skipped: usize,
}

impl Reader {
    /// A price for one token, when the number is that of 10^`per_exponent` tokens.
    fn price(&mut self, raw: &RawValue, per_exponent: i32) -> Option<Price> {
        let (pico, exactness) = pico_per_token(raw.get(), per_exponent).ok()?;
        self.rounded += usize::from(exactness == Exactness::Rounded);
        Some(Price(pico))
    }

    fn finish(self, version: &str) -> Imported {
        Imported {
            list: PriceList::new(version, self.rows),
            without_token_price: self.without_token_price,
            rounded: self.rounded,
            patterns_skipped: self.patterns_skipped,
        }
    }
}

/// Prices of one tier, each perhaps missing.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    input: Option<Price>,
    cache_read: Option<Price>,
    cache_write_5m: Option<Price>,
    cache_write_1h: Option<Price>,
    output: Option<Price>,
    reasoning: Option<Price>,
    audio_input: Option<Price>,
    audio_output: Option<Price>,
}

impl Partial {
    /// The rates, with what is missing taken from `base`. Something that is charged for its input
    /// only (an embedding) has output at no cost, for it has none.
    fn rates(&self, base: &Self) -> Option<Rates> {
        let input = self.input.or(base.input)?;
        let output = self.output.or(base.output).unwrap_or(Price(0));
        let mut rates = Rates::new(input, output);
        rates.cache_read = self.cache_read.or(base.cache_read);
        rates.cache_write_5m = self.cache_write_5m.or(base.cache_write_5m);
        rates.cache_write_1h = self.cache_write_1h.or(base.cache_write_1h);
        rates.reasoning = self
            .reasoning
            .or(base.reasoning)
            .filter(|price| *price != output);
        rates.audio_input = self.audio_input.or(base.audio_input);
        rates.audio_output = self.audio_output.or(base.audio_output);
        Some(rates)
    }
}

/// A card of a base and of tiers, each with its threshold.
fn card(base: &Partial, tiers: &[(u64, Partial)], service: ServiceRatios) -> Option<PriceCard> {
    let rates = base.rates(base)?;
    let mut card = PriceCard::new(rates.input, rates.output);
    card.base = rates;
    card.service = service;
    for (above, partial) in tiers {
        card.tiers.push(Tier {
            above: Tokens(*above),
            rates: partial.rates(base)?,
        });
    }
    card.tiers.sort_by_key(|tier| tier.above);
    Some(card)
}

/// The one factor by which all of `pairs` (price elsewhere, standard price) differ, if there is one
/// and it can be written.
fn common_ratio(pairs: &[(Option<Price>, Option<Price>)]) -> Option<Ratio> {
    let mut common = None;
    for (other, standard) in pairs {
        let (Some(other), Some(standard)) = (other, standard) else {
            continue;
        };
        if standard.0 == 0 {
            continue;
        }
        let scaled = i128::from(other.0).checked_mul(1_000_000_000)?;
        if scaled % i128::from(standard.0) != 0 {
            return None;
        }
        let ratio = u64::try_from(scaled / i128::from(standard.0)).ok()?;
        if *common.get_or_insert(ratio) != ratio {
            return None;
        }
    }
    common.map(Ratio::from_billionths)
}
