//! A client that leaves.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::{QUESTION, agent, outcome, tell_attempts};
use crate::cli::demo::faults;
use crate::cli::demo::page::{Page, count};
use crate::cli::demo::stage::Stage;

/// Tokens that the vendor would write.
const TOKENS: u64 = 400;
/// Events after which the client leaves.
const EVENTS: usize = 30;
/// How long the vendor waits to be left.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn play(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    page.act(
        "A client leaves",
        &format!(
            "The vendor has {TOKENS} tokens to write. The agent hangs up after {EVENTS} events. Nobody \
             will read the rest, so the vendor is stopped; what it wrote so far is owed."
        ),
    )?;
    let mut coder = agent(stage, "coder", "hung-up");
    stage.alpha.play_first([faults::long_stream(TOKENS)])?;
    let seen = coder.ask_and_leave(QUESTION, EVENTS).await?;
    let noticed = stage
        .alpha
        .wait_until(PATIENCE, |requests| {
            requests.last().is_some_and(|r| r.disconnected.is_some())
        })
        .await;
    ensure!(noticed, "the vendor was not stopped when the client left");
    let exchange = tell_attempts(stage, page, "client_gone", &seen).await?;
    let requests = stage.alpha.requests();
    let stopped = requests.last().and_then(|request| request.disconnected);
    let after = stopped.map(|at| at.saturating_duration_since(seen.until));
    let after = after.unwrap_or_default();
    let written = exchange.usage.map_or(0, |usage| usage.output.0);
    page.text_line(&format!(
        "The vendor's connection was closed {}.{:01} ms after the client had gone, with about {} of \
         {TOKENS} tokens written. On record as {}: ${}, estimated (~), for a stopped call reports no \
         usage.",
        after.as_millis(),
        after.subsec_micros() % 1000 / 100,
        count(written),
        outcome(exchange.outcome),
        exchange.cost_usd,
    ))?;
    page.fact(
        "cancelled",
        json!({
            "after_ms": after.as_secs_f64() * 1e3,
            "tokens_planned": TOKENS,
            "tokens_settled": written,
        }),
    )
}
