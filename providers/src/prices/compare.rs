//! Two price lists side by side.
//!
//! Public catalogues disagree: one keeps a tier that the vendor dropped, the other lists the peak
//! price as the price. Which of them is right is for a person to look up; here is where to look.

use std::fmt;

use whippletree_policies::cost::{PriceCard, Rates};
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::{Price, Tokens};

use super::PriceList;

/// A price on which two lists disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The vendor.
    pub vendor: String,
    /// The model.
    pub model: String,
    /// Which price: `input`, `output above 272000` and so on.
    pub what: String,
    /// What the first list says, for one token.
    pub first: Option<Price>,
    /// What the second list says.
    pub second: Option<Price>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {}: ", self.vendor, self.model, self.what)?;
        let million = |f: &mut fmt::Formatter<'_>, price: Option<Price>| match price
            .and_then(|price| price.times(Tokens(1_000_000)))
        {
            Some(money) => write!(f, "{money}"),
            None => f.write_str("none"),
        };
        million(f, self.first)?;
        f.write_str(" or ")?;
        million(f, self.second)?;
        f.write_str(" dollars a million tokens")
    }
}

/// Where the lists disagree at that moment, over the models that the first names and both price; and
/// how many those are.
pub fn compare(first: &PriceList, second: &PriceList, at: UnixTime) -> (usize, Vec<Disagreement>) {
    let mut compared = 0;
    let mut found = Vec::new();
    let mut names: Vec<(&str, &str)> = first
        .rows()
        .iter()
        .flat_map(|row| row.models.iter().map(|m| (row.vendor.as_str(), m.as_str())))
        .filter(|(_, model)| !model.contains('*'))
        .collect();
    names.sort_unstable();
    names.dedup();
    for (vendor, model) in names {
        let (Some(a), Some(b)) = (
            first.look_up(vendor, model, at),
            second.look_up(vendor, model, at),
        ) else {
            continue;
        };
        compared += 1;
        differences(&a.card, &b.card, |what, first, second| {
            found.push(Disagreement {
                vendor: vendor.to_owned(),
                model: model.to_owned(),
                what,
                first,
                second,
            });
        });
    }
    (compared, found)
}

fn differences(
    a: &PriceCard,
    b: &PriceCard,
    mut found: impl FnMut(String, Option<Price>, Option<Price>),
) {
    let mut sizes: Vec<Tokens> = a
        .tiers
        .iter()
        .chain(&b.tiers)
        .map(|tier| tier.above)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    // A tier is compared just above its threshold, so that one that only one list has shows as the
    // difference that it makes.
    let places = sizes
        .iter()
        .map(|above| (format!(" above {above}"), above.plus(Tokens(1))));
    for (suffix, input) in [(String::new(), Tokens::ZERO)].into_iter().chain(places) {
        let (_, a) = a.rates_for(input);
        let (_, b) = b.rates_for(input);
        for (name, price) in FIELDS {
            let (a, b) = (price(a), price(b));
            if a != b {
                found(format!("{name}{suffix}"), a, b);
            }
        }
    }
}

type Field = (&'static str, fn(&Rates) -> Option<Price>);

const FIELDS: [Field; 8] = [
    ("input", |rates| Some(rates.input)),
    ("cache_read", |rates| rates.cache_read),
    ("cache_write_5m", |rates| rates.cache_write_5m),
    ("cache_write_1h", |rates| rates.cache_write_1h),
    ("output", |rates| Some(rates.output)),
    ("reasoning", |rates| rates.reasoning),
    ("audio_input", |rates| rates.audio_input),
    ("audio_output", |rates| rates.audio_output),
];
