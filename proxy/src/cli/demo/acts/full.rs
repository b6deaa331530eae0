//! A vendor has no room: overload, and rate limits with a hint.

use super::{agent, first_call, tell_attempts};
use crate::cli::demo::agent::Form;
use crate::cli::demo::faults;
use crate::cli::demo::page::Page;
use crate::cli::demo::stage::Stage;

/// Seconds that a vendor asks to wait, where that is worth it.
const SHORT_WAIT: u64 = 1;
/// Seconds that nobody wants to wait.
const LONG_WAIT: u64 = 120;

pub(super) async fn play(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    page.act(
        "A vendor has no room",
        "503 overloaded: the gateway backs off for a random moment and asks again. (A question takes \
         the agent three calls. From here on, only the call that met the fault is shown.)",
    )?;
    let mut coder = agent(stage, "coder", "rush-hour");
    stage.alpha.play_first([faults::overloaded()])?;
    let seen = first_call(&mut coder, Form::Whole).await?;
    tell_attempts(stage, page, "overloaded", &seen).await?;

    page.scene(&format!(
        "429 with Retry-After: {SHORT_WAIT}. It waits at least as long as the vendor says."
    ))?;
    stage.alpha.play_first([faults::rate_limited(SHORT_WAIT)])?;
    let seen = first_call(&mut coder, Form::Whole).await?;
    tell_attempts(stage, page, "rate_limited", &seen).await?;

    page.scene(&format!(
        "429 with Retry-After: {LONG_WAIT} at a vendor with two keys. The first key is left alone for \
         that long; the second is asked at once."
    ))?;
    let mut planner = agent(stage, "planner", "rush-hour");
    stage.gamma.play_first([faults::rate_limited(LONG_WAIT)])?;
    let seen = first_call(&mut planner, Form::Whole).await?;
    tell_attempts(stage, page, "rate_limited_key", &seen).await?;
    Ok(())
}
