//! `[targets]` and `[prices]`: what the catalogue does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whippletree_policies::units::Money;

use crate::config::values::Written;

/// What differs from the catalogue for one target.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetTable {
    /// The model's context window in tokens.
    #[schemars(range(min = 1))]
    pub context_window: Option<u64>,
    /// The most tokens that the model can write: no more are held of the tenant's
    /// `tokens_per_minute`.
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u64>,
    /// Replaces the catalogue's price.
    pub price: Option<PriceTable>,
}

/// The prices of one model, in dollars per `per` tokens.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Input that no cache was involved in.
    pub input: Written<Money>,
    /// Input read from the vendor's cache. Without it: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Written<Money>>,
    /// Input written to the cache for five minutes. Without it: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<Written<Money>>,
    /// Input written to the cache for an hour. Without it: as `cache_write_5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Written<Money>>,
    /// Everything written.
    pub output: Written<Money>,
    /// Reasoning within the output. Without it: as `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Written<Money>>,
    /// Audio within the input. Without it: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_input: Option<Written<Money>>,
    /// Audio within the output. Without it: as `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_output: Option<Written<Money>>,
    /// For each image made or read, where it is charged by the piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Written<Money>>,
    /// For each call, whatever its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Written<Money>>,
    /// The number of tokens that the prices are for.
    #[serde(default = "million")]
    #[schemars(range(min = 1))]
    pub per: u64,
    /// Dearer rates for long contexts. The tier that fits prices the whole call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierTable>,
}

const fn million() -> u64 {
    1_000_000
}

/// The rates of a long context.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierTable {
    /// The tier applies to calls that read more tokens than this, cached or not.
    pub above: u64,
    /// As above.
    pub input: Written<Money>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Written<Money>>,
    /// As above.
    pub output: Written<Money>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_input: Option<Written<Money>>,
    /// As above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_output: Option<Written<Money>>,
}

/// Models that no price is known for.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PricesTable {
    /// `"refuse"`, or the price that such models are charged at. Refusing is the safe side: a model
    /// without a price would spend without end.
    pub unknown_model: UnknownModelEntry,
}

/// What happens to a model that no price is known for.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UnknownModelEntry {
    /// The request is refused.
    Word(Refuse),
    /// It is charged at this price.
    Price(Box<PriceTable>),
}

impl Default for UnknownModelEntry {
    fn default() -> Self {
        Self::Word(Refuse::Refuse)
    }
}

/// The word `"refuse"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refuse {
    /// The request is refused.
    Refuse,
}
