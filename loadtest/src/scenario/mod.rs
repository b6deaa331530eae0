//! Longer stories: an outage, a storm of rate limits, slow streams, clients that leave, chaos.
//!
//! A scenario is a file: vendors whose behaviour changes by phases, clients that come and go, and
//! thresholds. Afterwards the books are audited: every client had a whole answer or a well-formed
//! error, every call that the vendors saw is an attempt in the gateway's records, every reservation
//! came to an end, nothing is still in flight.

mod audit;
mod clients;
mod file;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;

use crate::cases::{Settings, World};
use crate::clock;
use crate::vendor::{Recording, Script, Vendor};
use clients::Tally;
pub use file::{Phase, Scenario, Thresholds, VendorStory};

/// What to run and against what.
#[derive(Debug, Clone)]
pub struct Options {
    /// The scenario's file.
    pub file: PathBuf,
    /// The gateway's executable.
    pub gateway: PathBuf,
    /// Instead of the scenario's own duration.
    pub seconds: Option<u64>,
    /// Instead of the scenario's own number of clients.
    pub clients: Option<usize>,
}

/// How a scenario came out.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The scenario's name.
    pub name: String,
    /// Requests that clients sent.
    pub requests: u64,
    /// Those that had a whole answer.
    pub whole: u64,
    /// Those that had a well-formed error.
    pub errors: u64,
    /// Those whose client left as it meant to.
    pub left: u64,
    /// Calls that the vendors saw.
    pub vendor_calls: u64,
    /// Milliseconds to the first content, at the median and the 99th percentile.
    pub first_content_ms: (u64, u64),
    /// What did not hold.
    pub faults: Vec<String>,
}

/// Runs a scenario; `say` gets a line now and then.
///
/// # Errors
///
/// When the file is not a scenario, or the vendors or the gateway do not start.
pub async fn run(options: &Options, mut say: impl FnMut(&str)) -> anyhow::Result<Outcome> {
    let text = std::fs::read_to_string(&options.file)
        .with_context(|| format!("reading scenario {}", options.file.display()))?;
    let mut scenario: Scenario = toml::from_str(&text)
        .with_context(|| format!("reading scenario {}", options.file.display()))?;
    scenario.stretch(options.seconds);
    scenario.clients = options.clients.unwrap_or(scenario.clients);
    if scenario.vendors.is_empty() {
        bail!("scenario {} has no vendor", scenario.name);
    }
    let world = start(options, &scenario).await?;
    let resting = world.gateway.resident_bytes()?;
    let ends = clock::now() + Duration::from_secs(scenario.duration_s);
    let begun = clock::now();
    let clients = clients::run(&scenario, world.gateway.addr, ends);
    tokio::pin!(clients);
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let mut told = 0;
    let mut phases = Phases::of(&scenario);
    let tally = loop {
        tokio::select! {
            tally = &mut clients => break tally,
            _ = tick.tick() => {
                let elapsed = clock::now().saturating_duration_since(begun);
                phases.advance(elapsed, &world, &mut say)?;
                if elapsed.as_secs() >= told + 10 {
                    told = elapsed.as_secs();
                    let resident = world.gateway.resident_bytes()? / 1024;
                    say(&format!("{told} s: {} vendor calls, {resident} KiB resident", world.attempts()));
                }
            }
        }
    };
    judge(&scenario, world, tally, resting).await
}

async fn start(options: &Options, scenario: &Scenario) -> anyhow::Result<World> {
    let mut settings = Settings::new("m");
    for (path, value) in &scenario.gateway {
        settings.set(path, value.clone());
    }
    for (path, value) in &scenario.providers {
        settings.provider(None, path, value.clone());
    }
    settings.balance = scenario.balance;
    let scripts = scenario
        .vendors
        .iter()
        .map(|(name, story)| (name.clone(), Script::generate(story.generate.clone())))
        .collect();
    let gateway = std::path::absolute(&options.gateway).context("resolving the gateway's path")?;
    World::start(&gateway, scripts, &settings, Recording::Count).await
}

/// Which phase each vendor is in.
struct Phases<'a> {
    scenario: &'a Scenario,
    current: Vec<(String, Option<usize>)>,
}

impl<'a> Phases<'a> {
    fn of(scenario: &'a Scenario) -> Self {
        let current = scenario
            .vendors
            .keys()
            .map(|name| (name.clone(), None))
            .collect();
        Self { scenario, current }
    }

    fn advance(
        &mut self,
        elapsed: Duration,
        world: &World,
        say: &mut impl FnMut(&str),
    ) -> anyhow::Result<()> {
        for (name, current) in &mut self.current {
            let Some(story) = self.scenario.vendors.get(name) else {
                continue;
            };
            let now = story.phase_at(elapsed);
            if now == *current {
                continue;
            }
            *current = now;
            let mut rules = story.generate.clone();
            if let Some(phase) = now.and_then(|index| story.phases.get(index)) {
                rules.chaos = phase.chaos.clone();
            }
            say(&format!("{} s: vendor {name} changes", elapsed.as_secs()));
            world.vendor(name)?.set_script(Script::generate(rules))?;
        }
        Ok(())
    }
}

async fn judge(
    scenario: &Scenario,
    world: World,
    tally: Tally,
    resting: u64,
) -> anyhow::Result<Outcome> {
    let vendor_calls = world.vendors.values().map(Vendor::request_count).sum();
    let quantile = |percent: usize| {
        let place = tally.first_content.len() * percent / 100;
        tally.first_content.get(place).copied().unwrap_or(0) / 1_000_000
    };
    let mut outcome = Outcome {
        name: scenario.name.clone(),
        requests: tally.sent,
        whole: tally.whole,
        errors: tally.errors,
        left: tally.left,
        vendor_calls,
        first_content_ms: (quantile(50), quantile(99)),
        faults: tally.malformed.clone(),
    };
    scenario.thresholds.check(&mut outcome);
    audit::check(&world, &tally, &mut outcome.faults).await?;
    let grown = world.gateway.resident_bytes()?.saturating_sub(resting) >> 20;
    if grown > scenario.thresholds.memory_growth_mib {
        outcome.faults.push(format!("memory grew by {grown} MiB"));
    }
    Ok(outcome)
}
