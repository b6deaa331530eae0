//! The story, act by act.

mod books;
mod breaks;
mod full;
mod leaving;
mod meanings;
mod work;

use anyhow::Context as _;
use serde_json::json;
use whippletree_policies::usage::Usage;

use super::agent::{Agent, Form, Seen};
use super::page::{Column, Mood, Page, Row, count};
use super::stage::Stage;
use crate::exchange::{Attempt, End, Exchange, Millis};

/// What a model is asked when the question does not matter.
const QUESTION: &str = "What happens behind the commit point?";

/// Plays all acts.
///
/// # Errors
/// Something did not come about that the story needs, or cannot be told.
pub(super) async fn play(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    let mut agent = work::play(stage, page).await?;
    full::play(stage, page).await?;
    breaks::play(stage, page).await?;
    meanings::play(stage, page, &mut agent).await?;
    leaving::play(stage, page).await?;
    books::play(stage, page).await
}

fn agent(stage: &Stage, model: &'static str, task: &'static str) -> Agent {
    Agent::new(stage.data_address(), stage.key(), model, task)
}

/// Asks, and gives back the first of the calls that it takes: the one that met the fault.
async fn first_call(agent: &mut Agent, form: Form) -> anyhow::Result<Seen> {
    let seen = agent.ask(QUESTION, form).await?;
    seen.into_iter().next().context("the agent made no call")
}

/// Tells what was tried for a request, from its record.
async fn tell_attempts(
    stage: &Stage,
    page: &Page,
    about: &'static str,
    seen: &Seen,
) -> anyhow::Result<Exchange> {
    let exchange = stage.admin().exchange(&seen.request_id).await?;
    let columns = [
        Column::Right("try"),
        Column::Left("target"),
        Column::Left("key"),
        Column::Left("vendor's answer"),
        Column::Right("waited"),
        Column::Right("took"),
        Column::Right("input"),
        Column::Right("output"),
        Column::Right("cost"),
    ];
    let rows: Vec<_> = (1..)
        .zip(&exchange.attempts)
        .map(|(number, attempt)| attempt_row(number, attempt))
        .collect();
    page.table(&columns, &rows)?;
    page.fact(
        "exchange",
        json!({ "about": about, "exchange": exchange, "client": seen }),
    )?;
    Ok(exchange)
}

fn attempt_row(number: u64, attempt: &Attempt) -> Row {
    let status = attempt.status.map_or("none".to_owned(), |s| s.to_string());
    let answer = match attempt.class {
        None => format!("{status} ok"),
        Some(class) => format!("{status} {class}"),
    };
    let [input, output] = tokens(attempt.usage.as_ref());
    Row {
        cells: vec![
            number.to_string(),
            attempt.target.to_string(),
            key(attempt.key),
            answer,
            if attempt.waited_ms.0 == 0 {
                "-".to_owned()
            } else {
                millis(attempt.waited_ms)
            },
            millis(attempt.took_ms),
            input,
            output,
            if attempt.usage.is_some() {
                format!("${}", attempt.cost_usd)
            } else {
                "-".to_owned()
            },
        ],
        mood: match attempt.class {
            None => Mood::Well,
            Some(_) => Mood::Ill,
        },
    }
}

/// A vendor's key by its place, as people count.
fn key(position: Option<u32>) -> String {
    position.map_or("-".to_owned(), |p| p.saturating_add(1).to_string())
}

/// Tokens read and written; an estimate has a wave before it.
fn tokens(usage: Option<&Usage>) -> [String; 2] {
    let Some(usage) = usage else {
        return ["-", "-"].map(str::to_owned);
    };
    let wave = if usage.estimated { "~" } else { "" };
    [usage.input, usage.output].map(|tokens| format!("{wave}{}", count(tokens.0)))
}

/// Whole milliseconds.
fn millis(time: Millis) -> String {
    format!("{} ms", count(time.0.saturating_add(500) / 1000))
}

/// How a client saw a stream end.
fn ending(seen: &Seen) -> String {
    let content = seen.content_events;
    let done = if seen.done {
        "and [DONE]"
    } else {
        "and no [DONE]"
    };
    match &seen.error {
        None if seen.done => {
            format!("one whole stream: {content} events with content and [DONE], no error")
        }
        None => format!("{content} events with content {done}"),
        Some(error) => {
            let code = error.code();
            format!("{content} events with content, then an error event (code {code}) {done}")
        }
    }
}

/// What came of a call, in a word.
const fn outcome(end: End) -> &'static str {
    match end {
        End::ClientGone => "client gone",
        End::Failed => "failed",
        End::Interrupted => "interrupted",
        End::Ok => "ok",
        End::Refused => "refused",
    }
}
