//! The catalogue genai-prices: a list of providers with their models, dollars a million tokens.
//!
//! Form: <https://github.com/pydantic/genai-prices>, version 0.2.3, as its package's data written out
//! as JSON and as its published `data.json` (`starts_with` for `startswith`). A price may be a number
//! or a base with tiers that begin *above* their `start`; several prices of one model are told apart
//! by a first day or by hours of the day.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use whippletree_policies::cost::ServiceRatios;
use whippletree_policies::units::Price;

use super::{Imported, InvalidCatalogue, Partial, Reader, card, common_ratio};
use crate::prices::{Row, Window, start_of};

#[derive(Deserialize)]
struct Provider<'a> {
    id: String,
    #[serde(default)]
    pricing_urls: Option<Vec<String>>,
    #[serde(borrow)]
    models: Vec<Model<'a>>,
}

#[derive(Deserialize)]
struct Model<'a> {
    id: String,
    #[serde(rename = "match")]
    clause: Clause,
    #[serde(borrow)]
    prices: &'a RawValue,
    #[serde(borrow, default)]
    price_variants: Option<Vec<Variant<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Clause {
    And(IgnoredAny),
    Contains(String),
    #[serde(alias = "ends_with")]
    EndsWith(String),
    Equals(String),
    Or(Vec<Clause>),
    Regex(String),
    #[serde(alias = "starts_with")]
    StartsWith(String),
}

#[derive(Deserialize)]
struct Dated<'a> {
    #[serde(default)]
    constraint: Option<Constraint>,
    #[serde(borrow)]
    prices: Prices<'a>,
}

#[derive(Default, Deserialize)]
struct Constraint {
    start_date: Option<String>,
    start_time: Option<String>,
    end_time: Option<String>,
}

#[derive(Deserialize)]
struct Variant<'a> {
    when: BTreeMap<String, String>,
    #[serde(default)]
    constraint: Option<Constraint>,
    #[serde(borrow)]
    prices: &'a RawValue,
}

type Prices<'a> = BTreeMap<&'a str, &'a RawValue>;

#[derive(Deserialize)]
struct Tiered<'a> {
    #[serde(borrow)]
    base: &'a RawValue,
    #[serde(borrow, default)]
    tiers: Vec<Step<'a>>,
}

#[derive(Deserialize)]
struct Step<'a> {
    start: u64,
    #[serde(borrow)]
    price: &'a RawValue,
}

/// Reads the catalogue. `version` names it in ledger lines.
///
/// # Errors
/// [`InvalidCatalogue`] when it is not a list of providers.
pub fn read(json: &str, version: &str) -> Result<Imported, InvalidCatalogue> {
    let providers: Vec<Provider<'_>> = serde_json::from_str(json)?;
    let mut reader = Reader::default();
    for provider in &providers {
        let source = provider.pricing_urls.iter().flatten().next();
        let source = source.cloned().unwrap_or_default();
        for model in &provider.models {
            if !read_model(&mut reader, vendor(&provider.id), &source, model) {
                reader.without_token_price += 1;
            }
        }
    }
    Ok(reader.finish(version))
}

/// The vendor's kind in our configuration.
fn vendor(id: &str) -> &str {
    match id {
        "aws" => "bedrock",
        "google" => "gemini",
        "moonshotai" => "moonshot",
        "x-ai" => "xai",
        "zai" => "zhipu",
        other => other,
    }
}

fn read_model(reader: &mut Reader, vendor: &str, source: &str, model: &Model<'_>) -> bool {
    let mut models = Vec::new();
    reader.patterns_skipped += patterns(&model.clause, &mut models);
    if models.is_empty() {
        models.push(model.id.clone());
    }
    let dated: Vec<Dated<'_>> = match serde_json::from_str::<Prices<'_>>(model.prices.get()) {
        Ok(prices) => vec![Dated {
            constraint: None,
            prices,
        }],
        // An empty string in the package's data: no price is known.
        Err(_) => match serde_json::from_str(model.prices.get()) {
            Ok(dated) => dated,
            Err(_) => return false,
        },
    };
    let mut any = false;
    for price in dated {
        let (base, tiers) = split(reader, &price.prices);
        let constraint = price.constraint.unwrap_or_default();
        let service = service(reader, model, &base, constraint.start_date.as_deref());
        let Some(card) = card(&base, &tiers, service) else {
            continue;
        };
        let Some(windows) = windows(&constraint) else {
            continue;
        };
        any = true;
        reader.rows.push(Row {
            vendor: vendor.to_owned(),
            models: models.clone(),
            from: constraint.start_date.as_deref().and_then(start_of),
            windows,
            source: source.to_owned(),
            card,
            version: String::new(),
        });
    }
    any
}

/// Adds the names that a clause allows; the number of those that cannot be written as a pattern.
fn patterns(clause: &Clause, found: &mut Vec<String>) -> usize {
    found.push(match clause {
        Clause::Or(clauses) => {
            return clauses.iter().map(|clause| patterns(clause, found)).sum();
        }
        Clause::Equals(name) => name.clone(),
        Clause::StartsWith(start) => format!("{start}*"),
        Clause::EndsWith(end) => format!("*{end}"),
        Clause::Contains(part) => format!("*{part}*"),
        // A name with a day at its end is the only expression that matters.
        Clause::Regex(expression) => match expression
            .strip_prefix('^')
            .and_then(|e| {
                e.strip_suffix(r"-\d{4}-\d{2}-\d{2}$")
                    .or_else(|| e.strip_suffix(r"-\d{8}$"))
            })
            .map(|name| name.replace(r"\.", "."))
            .filter(|name| !name.contains(['\\', '(', '[', '?', '+', '*']))
        {
            Some(name) => format!("{name}-20*"),
            None => return 1,
        },
        Clause::And(_) => return 1,
    });
    0
}

/// The base prices and those of each tier.
fn split(reader: &mut Reader, prices: &Prices<'_>) -> (Partial, Vec<(u64, Partial)>) {
    let mut base = Partial::default();
    let mut tiers: Vec<(u64, Partial)> = Vec::new();
    for (field, raw) in prices {
        let Some(set) = setter(field) else { continue };
        if let Ok(tiered) = serde_json::from_str::<Tiered<'_>>(raw.get()) {
            set(&mut base, reader.price(tiered.base, 6));
            for step in tiered.tiers {
                let price = reader.price(step.price, 6);
                let at = tiers.iter().position(|(start, _)| *start == step.start);
                let at = at.unwrap_or_else(|| {
                    tiers.push((step.start, Partial::default()));
                    tiers.len() - 1
                });
                if let Some((_, tier)) = tiers.get_mut(at) {
                    set(tier, price);
                }
            }
        } else {
            set(&mut base, reader.price(raw, 6));
        }
    }
    (base, tiers)
}

fn setter(field: &str) -> Option<fn(&mut Partial, Option<Price>)> {
    Some(match field {
        "input_mtok" => |p, price| p.input = price,
        "cache_read_mtok" => |p, price| p.cache_read = price,
        "cache_write_mtok" => |p, price| p.cache_write_5m = price,
        "cache_write_1h_mtok" => |p, price| p.cache_write_1h = price,
        "output_mtok" => |p, price| p.output = price,
        "output_reasoning_mtok" => |p, price| p.reasoning = price,
        "input_audio_mtok" => |p, price| p.audio_input = price,
        "output_audio_mtok" => |p, price| p.audio_output = price,
        _ => return None,
    })
}

/// The factors of other service tiers. A variant may be dated, as the price is: the one of the same day
/// counts, else the last.
fn service(
    reader: &mut Reader,
    model: &Model<'_>,
    base: &Partial,
    from: Option<&str>,
) -> ServiceRatios {
    let mut ratios = ServiceRatios::default();
    let variants = model.price_variants.iter().flatten();
    let (same, other): (Vec<_>, Vec<_>) = variants.partition(|variant| {
        let constraint = variant.constraint.as_ref();
        constraint.and_then(|c| c.start_date.as_deref()) == from
    });
    for variant in other.into_iter().chain(same) {
        let Ok(prices) = serde_json::from_str::<Prices<'_>>(variant.prices.get()) else {
            continue;
        };
        let (other, _) = split(reader, &prices);
        let ratio = common_ratio(&[(other.input, base.input), (other.output, base.output)]);
        let when = variant.when.iter().next();
        match when.map(|(key, value)| (key.as_str(), value.as_str())) {
            Some(("processing", "batch")) => ratios.batch = ratio,
            Some(("service_tier", "flex")) => ratios.flex = ratio,
            Some(("service_tier", "priority")) => ratios.priority = ratio,
            _ => {}
        }
    }
    ratios
}

/// The hours of a constraint: `00:30:00+00:00` to `16:30:00+00:00`. `None` for hours not in UTC.
fn windows(constraint: &Constraint) -> Option<Vec<Window>> {
    let (Some(start), Some(end)) = (&constraint.start_time, &constraint.end_time) else {
        return Some(Vec::new());
    };
    let clock = |time: &str| {
        let utc = time
            .strip_suffix("+00:00")
            .or_else(|| time.strip_suffix('Z'))?;
        utc.get(..5).map(str::to_owned)
    };
    let hours = format!("{}-{}", clock(start)?, clock(end)?);
    Window::new(&hours, Vec::new())
        .ok()
        .map(|window| vec![window])
}
