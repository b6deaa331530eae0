//! Plays the failure cases against a gateway, each against a fresh process.
//!
//! A case passes on positive evidence only. What is asserted is checked; an assertion, variant or
//! step that this code does not know how to check fails the case by name. Cases of features that
//! are still to come are listed in [`not_yet`] with the reason, never as passed.

mod case;
mod check;
mod config;
mod hand;
mod not_yet;
mod run;
mod seen;
mod world;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use case::Case;
pub(crate) use config::Settings;
use run::Run;
pub use seen::Seen;
pub(crate) use world::{World, free_port};

use crate::clock;

/// How long one case may take.
const CASE_LIMIT: Duration = Duration::from_mins(6);

/// What to play.
#[derive(Debug, Clone)]
pub struct Options {
    /// `cases.jsonl`.
    pub cases: PathBuf,
    /// The gateway's executable.
    pub gateway: PathBuf,
    /// Ids, or kinds such as `K2`; empty means all.
    pub only: Vec<String>,
    /// How many light cases are played at once.
    pub parallel: usize,
    /// Plays cases that are listed as not yet, too.
    pub all: bool,
}

/// How a case came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Something did not hold.
    Failed {
        /// What, each in a sentence.
        reasons: Vec<String>,
    },
    /// Its feature is still to come.
    NotYet {
        /// Which.
        reason: String,
    },
    /// All that is asserted holds.
    Passed,
}

/// A case and how it came out.
#[derive(Debug, Clone, Serialize)]
pub struct Played {
    /// The case.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// How it came out.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// Plays the cases and tells each result as it comes.
///
/// # Errors
///
/// When the cases cannot be read, none is selected, or the gateway does not exist.
pub async fn play(options: &Options, mut tell: impl FnMut(&Played)) -> anyhow::Result<Vec<Played>> {
    let mut cases = Case::read(&options.cases)?;
    cases.retain(|case| {
        options.only.is_empty()
            || options
                .only
                .iter()
                .any(|only| *only == case.id || *only == case.kind)
    });
    let known: BTreeSet<&str> = cases
        .iter()
        .flat_map(|case| [case.id.as_str(), case.kind.as_str()])
        .collect();
    if let Some(unknown) = options
        .only
        .iter()
        .find(|only| !known.contains(only.as_str()))
    {
        bail!("no case and no kind is called {unknown:?}");
    }
    if !options.gateway.is_file() {
        bail!("the gateway {} does not exist", options.gateway.display());
    }
    let gateway =
        Arc::new(std::path::absolute(&options.gateway).context("resolving the gateway's path")?);
    let mut played = Vec::new();
    let (heavy, light): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| hand::is_heavy(&case.id));
    let slots = Arc::new(Semaphore::new(options.parallel.max(1)));
    let mut playing = JoinSet::new();
    for case in light {
        let (slots, gateway, all) = (Arc::clone(&slots), Arc::clone(&gateway), options.all);
        playing.spawn(async move {
            let _slot = slots.acquire_owned().await;
            one(&case, &gateway, all).await
        });
    }
    while let Some(done) = playing.join_next().await {
        let done = done.context("playing a case")?;
        tell(&done);
        played.push(done);
    }
    // Load-heavy ones would disturb each other and be disturbed.
    for case in heavy {
        let done = one(&case, &gateway, options.all).await;
        tell(&done);
        played.push(done);
    }
    played.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(played)
}

async fn one(case: &Case, gateway: &std::path::Path, all: bool) -> Played {
    let started = clock::now();
    let outcome = match not_yet::reason(case) {
        Some(reason) if !all => Outcome::NotYet {
            reason: reason.to_owned(),
        },
        _ => {
            let reasons = match tokio::time::timeout(CASE_LIMIT, judged(case, gateway)).await {
                Ok(faults) => faults,
                Err(_) => vec![format!("not over after {CASE_LIMIT:?}")],
            };
            if reasons.is_empty() {
                Outcome::Passed
            } else {
                Outcome::Failed { reasons }
            }
        }
    };
    let took_ms = clock::nanos_between(started, clock::now()) / 1_000_000;
    Played {
        id: case.id.clone(),
        kind: case.kind.clone(),
        outcome,
        took_ms,
    }
}

async fn judged(case: &Case, gateway: &std::path::Path) -> Vec<String> {
    let mut run = Run::new(case, gateway);
    let by_hand = hand::entry(&case.id);
    let claimed = by_hand.map_or(&[][..], |entry| entry.claims);
    for name in case.input.rest.keys() {
        let mechanical =
            name.starts_with("assert_") && by_hand.is_none_or(|entry| entry.plays_input);
        if !mechanical && !claimed.contains(&name.as_str()) {
            run.fault(format!("not checked: {name}"));
        }
    }
    if by_hand.is_none_or(|entry| entry.plays_input)
        && let Err(error) = run.play(claimed).await
    {
        run.fault(format!("{error:#}"));
    }
    if by_hand.is_some()
        && let Err(error) = hand::play(&mut run).await
    {
        run.fault(format!("{error:#}"));
    }
    run.end()
}
