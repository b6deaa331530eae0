//! `whippletree explain`: what would be done with a request, without sending it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use whippletree_providers::envelope::Envelope;

use super::{Ending, check, say, say_json};
use crate::config::load::{LoadError, Source, load};
use crate::exchange::{Api, Millis};
use crate::explain::{Explained, Happening, Imagined, explain};
use crate::gateway::Snapshot;
use crate::pipeline::authenticate::Caller;
use crate::pipeline::plan::Plan;
use crate::tls::install_provider;

/// Prints the plan for a request and each step of it, for outcomes that you imagine.
///
/// Nothing is sent. The configuration, the planner and the machine that decides on attempts are those
/// of the gateway; time is not waited for. Outcomes are taken in order and the last one repeats.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree explain request.json
  whippletree explain request.json --outcome 429:retry-after=3 --outcome timeout --outcome ok
  whippletree explain request.json --outcome 500 --json

Outcomes are ok, timeout, reset, refused or a status, and may be followed by :retry-after=SECONDS,
:took=SECONDS, :code=CODE and :x-should-retry=true or false.")]
pub(super) struct Explain {
    /// The request's body, as a client would send it.
    file: PathBuf,
    /// What the next attempt comes to. Without any: ok.
    #[arg(long, value_name = "OUTCOME")]
    outcome: Vec<Imagined>,
    /// The form of API. Without it: what the body looks like.
    #[arg(long, value_enum)]
    api: Option<Form>,
    /// The configuration. Without it: whippletree.toml here, else the vendors' environment variables.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Another number tells another story: waits and the choice among equals are random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A form of API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Chat,
    Completions,
    Embeddings,
    Messages,
    Responses,
}

impl Explain {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let loaded = match load(&Source::choose(self.config)) {
            Ok(loaded) => loaded,
            Err(LoadError::Invalid { report, .. }) => {
                check::show(&report);
                return Ok(Ending::Misused);
            }
            Err(error) => return Err(error.into()),
        };
        let envelope = read(&self.file)?;
        let Some(model) = envelope.model() else {
            bail!("{}: the body names no model", self.file.display());
        };
        let api = self.api.map_or_else(|| api_of(&envelope), Form::api);
        // Pools are part of what a plan is made from, though none connects.
        install_provider();
        let snapshot = Snapshot::new(loaded.config, None)?;
        let plan = match Plan::of(&snapshot, &Caller::Loopback, model, api) {
            Ok(plan) => plan,
            Err(rejection) => bail!(
                "{} {}",
                rejection.status(api.dialect()).as_u16(),
                rejection.message()
            ),
        };
        let explained = explain(
            &snapshot.config,
            &plan,
            api.dialect(),
            &self.outcome,
            self.seed,
        );
        if self.json {
            say_json(&explained)?;
        } else {
            say(text(&explained).trim_end())?;
        }
        Ok(Ending::Done)
    }
}

impl Form {
    const fn api(self) -> Api {
        match self {
            Self::Chat => Api::Chat,
            Self::Completions => Api::Completions,
            Self::Embeddings => Api::Embeddings,
            Self::Messages => Api::Messages,
            Self::Responses => Api::Responses,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Envelope> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let envelope = Envelope::parse(Bytes::from(body));
    envelope.with_context(|| format!("{} is no request", file.display()))
}

fn api_of(envelope: &Envelope) -> Api {
    let has = |name| envelope.field(name).is_some();
    if has("messages") && (has("system") || has("anthropic_version")) {
        Api::Messages
    } else if has("messages") {
        Api::Chat
    } else if has("input") {
        Api::Responses
    } else {
        Api::Completions
    }
}

fn text(explained: &Explained) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "route {}: at most {} attempts in {}\n\nplan",
        explained.route,
        explained.max_attempts,
        seconds(explained.deadline_ms)
    );
    for (number, place) in explained.plan.iter().enumerate() {
        let keys = match place.keys.len() {
            0 | 1 => String::new(),
            count => format!(", {count} keys"),
        };
        let _ = writeln!(
            out,
            "  {}. {}  rank {}{keys}",
            number + 1,
            place.target,
            place.rank
        );
    }
    out.push_str("\nsteps\n");
    for told in &explained.steps {
        let _ = writeln!(out, "{:>12}  {}", seconds(told.at_ms), line(&told.what));
    }
    out
}

fn line(what: &Happening) -> String {
    match what {
        Happening::Answered { target, attempts } => {
            format!("answered by {target}, attempts: {attempts}")
        }
        Happening::Failed {
            class,
            status,
            wait_hint_ms,
            ambiguous,
        } => {
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            let hint = wait_hint_ms.map_or_else(String::new, |hint| {
                format!(", the vendor asks for {}", seconds(hint))
            });
            let billed = if *ambiguous {
                ", perhaps served and billed"
            } else {
                ""
            };
            format!("failed: {class}{status}{hint}{billed}")
        }
        Happening::Sent {
            target,
            key,
            attempt,
            may_repeat,
        } => {
            let twice = if *may_repeat {
                ", perhaps for the second time"
            } else {
                ""
            };
            format!("attempt {attempt}: send to {target} with key {key}{twice}")
        }
        Happening::TurnedAway {
            reason,
            class,
            status,
            should_retry,
            retry_after,
        } => {
            let after = retry_after
                .as_ref()
                .map_or_else(String::new, |after| format!(", retry-after: {after}"));
            format!(
                "given up ({reason}); the client is told {status} {class}, \
                 x-should-retry: {should_retry}{after}"
            )
        }
        Happening::Waits { until_ms } => format!("wait until {}", seconds(*until_ms)),
    }
}

fn seconds(millis: Millis) -> String {
    format!("{:.3} s", millis.seconds())
}
