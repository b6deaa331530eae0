//! LiteLLM's map of prices: one object, an entry for each model, dollars a token.
//!
//! Form: <https://github.com/BerriAI/litellm>, `model_prices_and_context_window.json`, version
//! 1.110.2. Rates above a context size are fields with a suffix (`…_above_272k_tokens`), those of
//! other service tiers too (`_batches`, `_flex`, `_priority`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use whippletree_policies::cost::ServiceRatios;

use super::{Imported, InvalidCatalogue, Partial, Reader, card, common_ratio};
use crate::prices::{Row, Window};

type Entry<'a> = BTreeMap<&'a str, &'a RawValue>;

#[derive(Deserialize)]
struct OffPeak<'a> {
    #[serde(borrow)]
    windows: Vec<OffPeakWindow<'a>>,
}

#[derive(Deserialize)]
struct OffPeakWindow<'a> {
    #[serde(borrow)]
    hours_utc: &'a RawValue,
    #[serde(default)]
    weekdays: Vec<u8>,
}

/// Reads the catalogue. `version` names it in ledger lines.
///
/// # Errors
/// [`InvalidCatalogue`] when it is not an object of objects.
pub fn read(json: &str, version: &str) -> Result<Imported, InvalidCatalogue> {
    let entries: BTreeMap<&str, &RawValue> = serde_json::from_str(json)?;
    let mut reader = Reader::default();
    for (name, raw) in entries {
        if name == "sample_spec" {
            continue;
        }
        let entry: Entry<'_> = serde_json::from_str(raw.get())?;
        if !read_entry(&mut reader, name, &entry) {
            reader.without_token_price += 1;
        }
    }
    Ok(reader.finish(version))
}

fn read_entry(reader: &mut Reader, name: &str, entry: &Entry<'_>) -> bool {
    let Some(provider) = entry.get("litellm_provider").and_then(|raw| text(raw)) else {
        return false;
    };
    let (base, tiers) = match entry.get("tiered_pricing") {
        Some(raw) => match tiered(reader, raw) {
            Some(found) => found,
            None => return false,
        },
        None => (partial(reader, entry, ""), tiers(reader, entry)),
    };
    let ratios = service(reader, entry, &base);
    let Some(card_always) = card(&base, &tiers, ratios) else {
        return false;
    };
    let row = |windows: Vec<Window>, card| Row {
        vendor: vendor(provider).to_owned(),
        models: vec![model(name, provider).to_owned()],
        from: None,
        windows,
        source: entry
            .get("source")
            .and_then(|raw| text(raw))
            .unwrap_or_default()
            .to_owned(),
        card,
        version: String::new(),
    };
    reader.rows.push(row(Vec::new(), card_always));
    if let Some(raw) = entry.get("off_peak_pricing")
        && let Ok(cheap) = serde_json::from_str::<Entry<'_>>(raw.get())
    {
        let cheap = partial(reader, &cheap, "");
        let merged = cheap.rates(&base).map(|rates| Partial {
            input: Some(rates.input),
            output: Some(rates.output),
            cache_read: rates.cache_read,
            cache_write_5m: rates.cache_write_5m,
            cache_write_1h: rates.cache_write_1h,
            ..cheap
        });
        if let Some(windows) = windows(raw)
            && let Some(card) = merged.and_then(|merged| card(&merged, &[], ratios))
        {
            reader.rows.push(row(windows, card));
        }
    }
    true
}

/// The vendor's kind in our configuration.
fn vendor(provider: &str) -> &str {
    match provider {
        "azure_ai" => "azure",
        "bedrock_converse" => "bedrock",
        "dashscope" => "qwen",
        "fireworks_ai" => "fireworks",
        "together_ai" => "together",
        "zai" => "zhipu",
        other if other.starts_with("vertex_ai") => "vertex",
        other => other,
    }
}

/// The model's name without the provider that LiteLLM puts before it.
fn model<'a>(name: &'a str, provider: &str) -> &'a str {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    let prefixes = first == provider || first == vendor(provider) || provider.starts_with(first);
    if prefixes { rest } else { name }
}

fn text(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// The prices whose fields end in `suffix`.
fn partial(reader: &mut Reader, entry: &Entry<'_>, suffix: &str) -> Partial {
    let mut price = |field: &str| {
        let raw = entry.get(format!("{field}{suffix}").as_str())?;
        reader.price(raw, 0)
    };
    Partial {
        input: price("input_cost_per_token"),
        cache_read: price("cache_read_input_token_cost"),
        cache_write_5m: price("cache_creation_input_token_cost"),
        cache_write_1h: price("cache_creation_input_token_cost_above_1hr")
            .or_else(|| price("cache_creation_input_token_cost_above_12hr")),
        output: price("output_cost_per_token"),
        reasoning: price("output_cost_per_reasoning_token"),
        audio_input: price("input_cost_per_audio_token"),
        audio_output: price("output_cost_per_audio_token"),
    }
}

fn tiers(reader: &mut Reader, entry: &Entry<'_>) -> Vec<(u64, Partial)> {
    let sizes: BTreeSet<u64> = entry
        .keys()
        .filter_map(|field| {
            let size = field.strip_prefix("input_cost_per_token_above_")?;
            size.strip_suffix("k_tokens")?.parse().ok()
        })
        .collect();
    sizes
        .into_iter()
        .map(|size| {
            let suffix = format!("_above_{size}k_tokens");
            (size.saturating_mul(1_000), partial(reader, entry, &suffix))
        })
        .collect()
}

/// Alibaba's form: a list of ranges, each with its prices.
fn tiered(reader: &mut Reader, raw: &RawValue) -> Option<(Partial, Vec<(u64, Partial)>)> {
    let list: Vec<Entry<'_>> = serde_json::from_str(raw.get()).ok()?;
    let mut found: Vec<(u64, Partial)> = Vec::new();
    for entry in &list {
        let range: Vec<f64> = serde_json::from_str(entry.get("range")?.get()).ok()?;
        let start = range.first().copied()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a context size: whole, positive, far below 2^53"
        )]
        let start = (0.0..1e12).contains(&start).then_some(start as u64)?;
        found.push((start, partial(reader, entry, "")));
    }
    found.sort_by_key(|(start, _)| *start);
    let (_, base) = found.first().copied()?;
    found.remove(0);
    Some((base, found))
}

fn service(reader: &mut Reader, entry: &Entry<'_>, base: &Partial) -> ServiceRatios {
    let mut ratio = |suffix: &str| {
        let other = partial(reader, entry, suffix);
        common_ratio(&[(other.input, base.input), (other.output, base.output)])
    };
    ServiceRatios {
        batch: ratio("_batches"),
        flex: ratio("_flex"),
        priority: ratio("_priority"),
    }
}

fn windows(raw: &RawValue) -> Option<Vec<Window>> {
    let off_peak: OffPeak<'_> = serde_json::from_str(raw.get()).ok()?;
    let mut windows = Vec::new();
    for window in off_peak.windows {
        let hours: Vec<String> = serde_json::from_str(window.hours_utc.get())
            .or_else(|_| serde_json::from_str(window.hours_utc.get()).map(|one| vec![one]))
            .ok()?;
        for hours in hours {
            windows.push(Window::new(&hours, window.weekdays.clone()).ok()?);
        }
    }
    Some(windows)
}
