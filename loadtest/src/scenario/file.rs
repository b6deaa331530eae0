//! A scenario as it is written down.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Outcome;
use crate::vendor::{Chaos, Generator};

/// Vendors, clients and thresholds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, for the reader.
    pub about: String,
    /// How long clients begin new requests.
    pub duration_s: u64,
    /// Clients at once; each sends one request after the other.
    pub clients: usize,
    /// The share of requests that ask for a stream.
    #[serde(default = "all")]
    pub stream_share: f64,
    /// The share of clients that leave in the middle.
    #[serde(default)]
    pub leave_share: f64,
    /// Milliseconds between a client's requests.
    #[serde(default)]
    pub pause_ms: u64,
    /// Tokens that clients ask for at most.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Whether the vendors share the load instead of standing in order.
    #[serde(default)]
    pub balance: bool,
    /// Keys of the gateway's configuration by dotted path.
    #[serde(default)]
    pub gateway: BTreeMap<String, toml::Value>,
    /// Keys of every provider by dotted path.
    #[serde(default)]
    pub providers: BTreeMap<String, toml::Value>,
    /// By name; their order is the route's.
    pub vendors: BTreeMap<String, VendorStory>,
    /// What must hold.
    pub thresholds: Thresholds,
}

const fn all() -> f64 {
    1.0
}

/// A vendor and how it changes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VendorStory {
    /// How it answers outside of phases.
    #[serde(default)]
    pub generate: Generator,
    /// Times with faults.
    #[serde(default)]
    pub phases: Vec<Phase>,
}

/// A time with faults.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Seconds after the start.
    pub from_s: f64,
    /// Seconds after the start.
    pub to_s: f64,
    /// Their odds.
    pub chaos: Chaos,
}

/// What must hold in the end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// The least share of requests with a whole answer, of those whose client stayed.
    pub whole_min: f64,
    /// The most vendor calls per client request.
    pub amplification_max: f64,
    /// The most milliseconds to the first content, at the 99th percentile of the answered.
    #[serde(default)]
    pub first_content_p99_ms: Option<u64>,
    /// The most that the gateway's memory may have grown, in MiB.
    #[serde(default = "growth")]
    pub memory_growth_mib: u64,
}

const fn growth() -> u64 {
    200
}

impl Scenario {
    /// Gives it another duration, its phases in proportion.
    pub(super) fn stretch(&mut self, seconds: Option<u64>) {
        let Some(seconds) = seconds else { return };
        let by = Duration::from_secs(seconds).as_secs_f64()
            / Duration::from_secs(self.duration_s.max(1)).as_secs_f64();
        for phase in self
            .vendors
            .values_mut()
            .flat_map(|story| &mut story.phases)
        {
            phase.from_s *= by;
            phase.to_s *= by;
        }
        self.duration_s = seconds;
    }
}

impl VendorStory {
    /// The phase at a time, by its place in the list.
    pub(super) fn phase_at(&self, elapsed: Duration) -> Option<usize> {
        let at = elapsed.as_secs_f64();
        self.phases
            .iter()
            .position(|phase| phase.from_s <= at && at < phase.to_s)
    }
}

impl Thresholds {
    /// Notes what does not hold.
    pub(super) fn check(&self, outcome: &mut Outcome) {
        let stayed = outcome.requests.saturating_sub(outcome.left);
        let whole = ratio(outcome.whole, stayed);
        if whole < self.whole_min {
            outcome.faults.push(format!(
                "{whole:.4} of the requests had a whole answer, {} wanted",
                self.whole_min
            ));
        }
        let amplification = ratio(outcome.vendor_calls, outcome.requests);
        if amplification > self.amplification_max {
            outcome.faults.push(format!(
                "{amplification:.3} vendor calls per request, at most {} wanted",
                self.amplification_max
            ));
        }
        let (_, p99) = outcome.first_content_ms;
        if let Some(most) = self.first_content_p99_ms
            && p99 > most
        {
            outcome.faults.push(format!(
                "first content after {p99} ms at the 99th percentile, {most} wanted"
            ));
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of requests, far below 2^52"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_file_is_one() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut seen = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let scenario: Scenario = toml::from_str(&std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(
                path.file_stem().and_then(|stem| stem.to_str()),
                Some(scenario.name.as_str())
            );
            seen += 1;
        }
        assert!(seen >= 5);
    }

    #[test]
    fn a_stretched_scenario_keeps_its_proportions() {
        let mut scenario: Scenario = toml::from_str(
            r#"
            name = "x"
            about = "y"
            duration_s = 10
            clients = 1
            [vendors.a]
            phases = [{ from_s = 2, to_s = 4, chaos = { error = 1.0 } }]
            [thresholds]
            whole_min = 1.0
            amplification_max = 1.0
            "#,
        )
        .unwrap();
        scenario.stretch(Some(100));
        let story = &scenario.vendors["a"];
        assert_eq!(story.phase_at(Duration::from_secs(19)), None);
        assert_eq!(story.phase_at(Duration::from_secs(20)), Some(0));
        assert_eq!(story.phase_at(Duration::from_secs(40)), None);
    }
}
