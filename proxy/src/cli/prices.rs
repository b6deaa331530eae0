//! `whippletree prices`: what calls are charged at.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;
use whippletree_policies::cost::{PriceCard, Rates};
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::{Price, Tokens};
use whippletree_providers::prices::compare::compare;
use whippletree_providers::prices::import::{genai, litellm};
use whippletree_providers::prices::{PriceList, Row};

use super::{Ending, say, say_json, table};
use crate::clock;

/// Shows the list prices that come with the gateway, and checks them against public catalogues.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree prices list openai/gpt-5
  whippletree prices check litellm.json genai-prices.json")]
pub(super) struct Prices {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
    List(List),
}

/// Lists the prices in force now, in dollars a million tokens.
///
/// A price of `[targets]` in the configuration goes before the list's.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  whippletree prices list anthropic/")]
struct List {
    /// Only vendors and models that contain this, written `vendor/model`.
    #[arg(default_value = "")]
    name: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Names the models whose list price differs from a public catalogue's.
///
/// Reads files of LiteLLM (`model_prices_and_context_window.json`) and of genai-prices. Ends with 1
/// when anything differs.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  whippletree prices check model_prices_and_context_window.json")]
struct Check {
    /// Catalogues.
    #[arg(required = true)]
    catalogues: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Prices {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let list = PriceList::builtin()?;
        match self.command {
            Command::Check(check) => check.run(&list),
            Command::List(show) => show.run(&list),
        }
    }
}

/// Whether a row is what one of its models is charged at: no later one or one for these hours goes
/// before it.
fn in_force(list: &PriceList, row: &Row, now: UnixTime) -> bool {
    let mut models = row.models.iter();
    models.any(|model| {
        let found = list.look_up(&row.vendor, model, now);
        found.is_some_and(|found| std::ptr::eq(found, row))
    })
}

#[derive(Serialize)]
struct Shown<'a> {
    vendor: &'a str,
    models: &'a [String],
    version: &'a str,
    source: &'a str,
    price: &'a PriceCard,
}

impl List {
    fn run(self, list: &PriceList) -> anyhow::Result<Ending> {
        let now = clock::unix_now();
        let named = |row: &&Row| {
            let mut names = row.models.iter();
            names.any(|model| format!("{}/{model}", row.vendor).contains(&self.name))
        };
        let rows: Vec<_> = list
            .rows()
            .iter()
            .filter(named)
            .filter(|row| in_force(list, row, now))
            .collect();
        if rows.is_empty() {
            super::complain(format_args!(
                "no price in {} fits `{}`",
                list.version(),
                self.name
            ));
            return Ok(Ending::Findings);
        }
        if self.json {
            let shown: Vec<_> = rows.iter().map(|row| Shown::of(row)).collect();
            say_json(&shown)?;
            return Ok(Ending::Done);
        }
        let lines: Vec<_> = rows.iter().flat_map(|row| lines(row)).collect();
        say(table::render(&HEADER.map(str::to_owned), &lines))?;
        say(format_args!(
            "\ndollars a million tokens; {}",
            list.version()
        ))?;
        Ok(Ending::Done)
    }
}

impl<'a> Shown<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            vendor: &row.vendor,
            models: &row.models,
            version: &row.version,
            source: &row.source,
            price: &row.card,
        }
    }
}

const HEADER: [&str; 7] = [
    "model",
    "above",
    "input",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "output",
];

/// A line for the base rates and one for each tier.
fn lines(row: &Row) -> Vec<Vec<String>> {
    let model = row.models.first().map_or("", String::as_str);
    let name = format!("{}/{model}", row.vendor);
    let line = |above: Option<Tokens>, rates: &Rates| {
        let million = |price: Price| {
            price
                .times(Tokens(1_000_000))
                .unwrap_or_default()
                .to_string()
        };
        let optional = |price: Option<Price>| price.map(million).unwrap_or_default();
        vec![
            name.clone(),
            above.map(|tokens| tokens.to_string()).unwrap_or_default(),
            million(rates.input),
            optional(rates.cache_read),
            optional(rates.cache_write_5m),
            optional(rates.cache_write_1h),
            million(rates.output),
        ]
    };
    let tiers = row.card.tiers.iter();
    std::iter::once(line(None, &row.card.base))
        .chain(tiers.map(|tier| line(Some(tier.above), &tier.rates)))
        .collect()
}

#[derive(Serialize)]
struct Compared {
    catalogue: String,
    models: usize,
    differences: Vec<String>,
}

impl Check {
    fn run(self, list: &PriceList) -> anyhow::Result<Ending> {
        let now = clock::unix_now();
        let mut compared = Vec::new();
        for path in &self.catalogues {
            let catalogue = read(path)?;
            let (models, found) = compare(list, &catalogue, now);
            compared.push(Compared {
                catalogue: path.display().to_string(),
                models,
                differences: found.iter().map(ToString::to_string).collect(),
            });
        }
        let agree = compared.iter().all(|one| one.differences.is_empty());
        if self.json {
            say_json(&compared)?;
        } else {
            for one in &compared {
                for difference in &one.differences {
                    say(difference)?;
                }
                let (count, models) = (one.differences.len(), one.models);
                say(format_args!(
                    "{}: {models} models compared, {count} differences",
                    one.catalogue
                ))?;
            }
        }
        Ok(if agree {
            Ending::Done
        } else {
            Ending::Findings
        })
    }
}

fn read(path: &Path) -> anyhow::Result<PriceList> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let version = name.to_string();
    // The two have nothing in common, so at most one of them reads it.
    let imported = genai::read(&text, &version)
        .or_else(|_| litellm::read(&text, &version))
        .with_context(|| format!("{name} is neither LiteLLM's catalogue nor genai-prices'"))?;
    Ok(imported.list)
}
