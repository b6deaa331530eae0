//! `whippletree keys`: make a virtual key, look at one.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::{Ending, say, say_json};
use crate::config::load::{Source, USUAL_FILE, load};
use crate::keys::{self, Shown};

/// Makes virtual keys, and looks at them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree keys new acme ci
  whippletree keys check sk-wt-…")]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(New),
    Check(Check),
}

/// Makes a key and prints it once, with the line that makes it known to the gateway.
///
/// The key is stored nowhere: the configuration holds its SHA-256.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  whippletree keys new acme ci")]
struct New {
    /// The tenant that pays.
    tenant: String,
    /// The key's name, unique within the tenant.
    name: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Says whether a key is whole, and whose it is.
///
/// Ends with 1 when it is mistyped, or unknown to the configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  pass show ci-key | whippletree keys check -")]
struct Check {
    /// The key, or - to read it from standard input, where no process list shows it.
    key: String,
    /// A configuration to look the key up in. Without it: whippletree.toml here, if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Keys {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        match self.command {
            Command::Check(check) => check.run(),
            Command::New(new) => new.run(),
        }
    }
}

impl New {
    fn run(self) -> anyhow::Result<Ending> {
        let key = keys::generate();
        let text = key.expose_secret();
        let sha256 = keys::to_hex(&keys::hash(text));
        let Self { tenant, name, json } = self;
        if json {
            say_json(&json!({ "tenant": tenant, "name": name, "key": text, "sha256": sha256 }))?;
            return Ok(Ending::Done);
        }
        let line = format!("{{ name = {}, sha256 = \"{sha256}\" }},", quoted(&name));
        say(format_args!("{text}\n"))?;
        say(
            "This is the key. It is shown once and stored nowhere. To make it known, add to `keys`",
        )?;
        say(format_args!(
            "of [tenants.{}] in {USUAL_FILE}:\n",
            bare_or_quoted(&tenant)
        ))?;
        say(format_args!("  {line}"))?;
        Ok(Ending::Done)
    }
}

impl Check {
    fn run(self) -> anyhow::Result<Ending> {
        let key = if self.key == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        } else {
            self.key
        };
        let key = SecretString::from(key.trim());
        let form = keys::check(key.expose_secret());
        let file = self
            .config
            .or_else(|| Path::new(USUAL_FILE).exists().then(|| USUAL_FILE.into()));
        let owner = match &file {
            None => None,
            Some(file) => {
                let config = load(&Source::File(file.clone()))?.config;
                keys::find(&config.keys, key.expose_secret())
                    .map(|key| (key.tenant.id.to_string(), key.id.to_string()))
            }
        };
        let good = owner.is_some() || (file.is_none() && form.is_ok());
        if self.json {
            let (tenant, name) = owner.unzip();
            say_json(&json!({
                "key": Shown(&key).to_string(),
                "checksum": form.is_ok(),
                "tenant": tenant,
                "name": name,
            }))?;
        } else {
            let shown = Shown(&key);
            match (&owner, &file, form) {
                (Some((tenant, name)), ..) => {
                    say(format_args!("{shown}: key `{name}` of tenant `{tenant}`"))?;
                }
                (None, Some(file), Ok(())) => {
                    let file = file.display();
                    say(format_args!("{shown}: a whole key, unknown to {file}"))?;
                }
                (None, None, Ok(())) => say(format_args!("{shown}: a whole key"))?,
                (None, _, Err(error)) => say(format_args!("{shown}: {error}"))?,
            }
        }
        Ok(if good { Ending::Done } else { Ending::Findings })
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A TOML key.
fn bare_or_quoted(text: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !text.is_empty() && text.bytes().all(bare) {
        text.to_owned()
    } else {
        quoted(text)
    }
}
