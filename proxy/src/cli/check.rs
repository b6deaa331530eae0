//! `whippletree check`: all that is wrong with a configuration, before anything starts.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Ending, complain, complaints_in_colour, say, say_json};
use crate::config::diagnostics::{Entry, Report};
use crate::config::fault::Severity;
use crate::config::load::{LoadError, Source, load};
use crate::config::{Config, schema};

/// Checks a configuration and names every fault with its line.
///
/// Ends with 0 when the gateway would start with it, else with 2. Warnings do not count.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree check
  whippletree check /etc/whippletree/whippletree.toml --json
  whippletree check --schema > whippletree.schema.json")]
pub(super) struct Check {
    /// The file. Without it: whippletree.toml here, else the vendors' environment variables.
    file: Option<PathBuf>,
    /// The file, as `serve` takes it.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Print the faults as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of the file instead, for editors.
    #[arg(long, conflicts_with_all = ["file", "config", "json"])]
    schema: bool,
}

#[derive(Serialize)]
struct Checked {
    file: String,
    ok: bool,
    faults: Vec<Entry>,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        if self.schema {
            say_json(&schema::of_file())?;
            return Ok(Ending::Done);
        }
        let source = Source::choose(self.file.or(self.config));
        let file = source.to_string();
        let (config, report) = match load(&source) {
            Ok(loaded) => (Some(loaded.config), loaded.warnings),
            Err(LoadError::Invalid { report, .. }) => (None, *report),
            Err(error) => return Err(error.into()),
        };
        let ok = config.is_some();
        if self.json {
            let faults = report.entries();
            say_json(&Checked { file, ok, faults })?;
        } else {
            show(&report);
            match config {
                Some(config) => say(format_args!("{file}: ok, {}", summary(&config)))?,
                None => complain(format_args!("\n{file}: {}", count(&report))),
            }
        }
        Ok(if ok { Ending::Done } else { Ending::Misused })
    }
}

/// Shows faults to a person.
pub(super) fn show(report: &Report) {
    if report.is_empty() {
    } else if complaints_in_colour() {
        complain(report.styled());
    } else {
        complain(report);
    }
}

fn count(report: &Report) -> String {
    let errors = report
        .faults()
        .iter()
        .filter(|fault| fault.severity == Severity::Error);
    plural(errors.count(), "error")
}

fn summary(config: &Config) -> String {
    let parts = [
        plural(config.providers.len(), "provider"),
        plural(config.routes.len(), "route"),
        plural(config.tenants.len(), "tenant"),
        plural(config.keys.len(), "key"),
    ];
    parts.join(", ")
}

fn plural(count: usize, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}
