//! A stream breaks: before its first token, and behind it.

use super::{agent, ending, first_call, outcome, tell_attempts};
use crate::cli::demo::agent::Form;
use crate::cli::demo::faults;
use crate::cli::demo::page::Page;
use crate::cli::demo::stage::Stage;

/// Tokens that are written before the second stream breaks.
const TOKENS: u64 = 12;

pub(super) async fn play(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    page.act(
        "A stream breaks",
        "Before the first token, twice in a row. Nothing has been shown yet, so the gateway may try \
         again unseen: once more here, then at the stand-in.",
    )?;
    let mut coder = agent(stage, "coder", "broken-stream");
    let broken = faults::broken_before_the_first_token;
    stage.alpha.play_first([broken(), broken()])?;
    let seen = first_call(&mut coder, Form::Stream).await?;
    tell_attempts(stage, page, "broken_before", &seen).await?;
    page.text_line(&format!("The client saw {}.", ending(&seen)))?;

    page.scene(
        "After the first tokens. They have been shown, so nothing is replayed: half an answer must not \
         look like a whole one, and two halves must not be glued.",
    )?;
    let mut coder = agent(stage, "coder", "broken-stream");
    stage.alpha.play_first([faults::broken_after(TOKENS)])?;
    let seen = first_call(&mut coder, Form::Stream).await?;
    let exchange = tell_attempts(stage, page, "broken_behind", &seen).await?;
    page.text_line(&format!(
        "The client saw {}. On record as {}; what had been written is estimated (~) and charged.",
        ending(&seen),
        outcome(exchange.outcome),
    ))
}
