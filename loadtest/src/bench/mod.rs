//! The gateway beside nginx, a bare relay and no proxy at all.
//!
//! All of it in one run on one machine, with the same client, the same vendor and the same rate:
//! numbers from different days or machines say little, the ratio between neighbours says much. The
//! rounds are interleaved and medians reported, so that a busy minute does not fall on one alone.

pub mod bodies;
pub mod cpu;
pub mod driver;
pub mod instructions;
pub mod relay;
pub mod report;
pub mod streams;
pub mod subject;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use bodies::Body;
use driver::{Load, drive};
pub use report::{Report, Verdict};
use subject::Subject;

use crate::vendor::{Options as VendorOptions, Recording, Reply, Script, Vendor};

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The gateway's executable; absent leaves it out.
    pub gateway: Option<PathBuf>,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// Rounds over all subjects.
    pub rounds: usize,
    /// Chats per second.
    pub chat_rate: u32,
    /// Agent turns per second.
    pub agent_rate: u32,
    /// Connections of the client.
    pub connections: usize,
}

/// The vendor's answer to a whole request: what a short completion weighs.
fn completion() -> Script {
    let text = "The notes say that the release is late because a test was flaky. ".repeat(6);
    Script::replies([Reply::json(
        200,
        serde_json::json!({
            "id": "chatcmpl-bench", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 250, "completion_tokens": 90, "total_tokens": 340,
                "prompt_tokens_details": {"cached_tokens": 0}},
        }),
    )])
}

/// How long the subjects stand idle before their memory is weighed.
const SETTLING: Duration = Duration::from_secs(1);

/// Measures all subjects; `say` gets a line about each step.
///
/// # Errors
///
/// When a subject does not start or ends meanwhile.
pub async fn run(options: &Options, mut say: impl FnMut(&str)) -> anyhow::Result<Report> {
    let vendor_options = VendorOptions {
        recording: Recording::Count,
        ..VendorOptions::default()
    };
    let vendor = Vendor::bind(completion(), vendor_options).await?;
    let mut subjects = vec![Subject::direct(vendor.addr())];
    match Subject::nginx(vendor.addr()).await? {
        Some(nginx) => subjects.push(nginx),
        None => say("NGINX IS NOT INSTALLED: no ratio can be given (apt-get install nginx-light)"),
    }
    subjects.push(Subject::relay(vendor.addr()).await?);
    if let Some(gateway) = &options.gateway {
        subjects.push(Subject::gateway(gateway, vendor.addr()).await?);
    }
    let mut bench = Bench {
        options,
        vendor,
        headers: vec![(
            "authorization".to_owned(),
            format!("Bearer {}", subject::KEY),
        )],
        report: Report::on(subjects.iter().map(|subject| subject.name)),
        sent: 0,
    };
    // A process that has just started is still busy with that.
    tokio::time::sleep(SETTLING).await;
    for subject in &subjects {
        if !subject.pids().is_empty() {
            let bytes = subject.resident_bytes()?;
            bench.note(subject, "memory idle", count(bytes / 1024));
        }
    }
    for round in 1..=options.rounds.max(1) {
        for subject in &subjects {
            say(&format!("round {round}: {}", subject.name));
            bench
                .whole(subject, &bodies::chat(), options.chat_rate, &CHAT)
                .await?;
            bench
                .whole(subject, &bodies::agent(), options.agent_rate, &AGENT)
                .await?;
            bench.streams(subject).await?;
        }
    }
    for subject in &subjects {
        bench.idle(subject).await?;
    }
    Ok(bench.report)
}

/// The names of one body's rows.
struct Names {
    p50: &'static str,
    p99: &'static str,
    cpu: &'static str,
}

const CHAT: Names = Names {
    p50: "chat p50",
    p99: "chat p99",
    cpu: "chat cpu",
};

const AGENT: Names = Names {
    p50: "agent p50",
    p99: "agent p99",
    cpu: "agent cpu",
};

struct Bench<'a> {
    options: &'a Options,
    vendor: Vendor,
    headers: Vec<(String, String)>,
    report: Report,
    sent: u64,
}

impl Bench<'_> {
    async fn whole(
        &mut self,
        subject: &Subject,
        body: &Body,
        rate: u32,
        names: &Names,
    ) -> anyhow::Result<()> {
        self.vendor.set_script(completion())?;
        let load = |duration, first_number| Load {
            addr: subject.addr,
            body: body.clone(),
            headers: self.headers.clone(),
            rate,
            duration,
            connections: self.options.connections,
            first_number,
        };
        let warm = load(Duration::from_millis(500), self.sent);
        self.sent += 1_000_000;
        tokio::task::spawn_blocking(move || drive(&warm)).await??;
        let measured = load(Duration::from_secs(self.options.seconds), self.sent);
        self.sent += 1_000_000;
        let before = subject.busy()?;
        let driven = tokio::task::spawn_blocking(move || drive(&measured)).await??;
        let after = subject.busy()?;
        ensure!(
            driven.served > 0,
            "{} served none of the {} requests",
            subject.name,
            body.name
        );
        self.note(
            subject,
            names.p50,
            micros(driven.latency.value_at_quantile(0.5)),
        );
        self.note(
            subject,
            names.p99,
            micros(driven.latency.value_at_quantile(0.99)),
        );
        self.note(subject, "failed", count(driven.failed));
        if let (Some(before), Some(after)) = (before, after) {
            self.note(
                subject,
                names.cpu,
                micros(after.since(&before)) / count(driven.served),
            );
        }
        Ok(())
    }

    async fn streams(&mut self, subject: &Subject) -> anyhow::Result<()> {
        self.vendor.set_script(streams::script())?;
        let body = bodies::chat();
        streams::run(subject.addr, &body, &self.headers, self.sent).await?;
        let before = subject.busy()?;
        let streamed = streams::run(subject.addr, &body, &self.headers, self.sent + 1_000).await?;
        let after = subject.busy()?;
        self.sent += 1_000_000;
        ensure!(streamed.whole > 0, "{} served no stream", subject.name);
        self.note(
            subject,
            "stream first token p50",
            micros(streamed.first_token.value_at_quantile(0.5)),
        );
        self.note(
            subject,
            "stream lateness p50",
            micros(streamed.lateness.value_at_quantile(0.5)),
        );
        self.note(
            subject,
            "stream lateness p99",
            micros(streamed.lateness.value_at_quantile(0.99)),
        );
        self.note(
            subject,
            "broken streams",
            count(streams::STREAMS - streamed.whole),
        );
        if let (Some(before), Some(after)) = (before, after) {
            let events = count(streams::STREAMS * streams::EVENTS);
            self.note(subject, "stream cpu", micros(after.since(&before)) / events);
        }
        Ok(())
    }

    /// What a stream that is open and silent weighs: the growth of the process over many of them.
    async fn idle(&mut self, subject: &Subject) -> anyhow::Result<()> {
        if subject.pids().is_empty() {
            return Ok(());
        }
        self.vendor.set_script(streams::idle_script())?;
        let before = subject.resident_bytes()?;
        let open = streams::open(subject.addr, &bodies::chat(), &self.headers, self.sent).await?;
        self.sent += 1_000_000;
        let during = subject.resident_bytes()?;
        drop(open);
        self.note(subject, "memory after load", count(before / 1024));
        let grown = count(during.saturating_sub(before)) / 1024.0;
        self.note(
            subject,
            "memory per idle stream",
            grown / count(streams::STREAMS),
        );
        Ok(())
    }

    fn note(&mut self, subject: &Subject, name: &'static str, value: f64) {
        self.report.note(subject.name, name, value);
    }
}

fn micros(nanos: u64) -> f64 {
    count(nanos) / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "measurements, far below 2^52")]
fn count(number: u64) -> f64 {
    number as f64
}
