//! Two refusals that look like others and mean something else.

use serde::Deserialize;
use serde_json::{Value, json};
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;

use super::{agent, first_call, key, tell_attempts};
use crate::cli::demo::agent::{Agent, Form};
use crate::cli::demo::faults;
use crate::cli::demo::page::Page;
use crate::cli::demo::stage::Stage;
use crate::clock;

/// What the vendor says that its model can read, and what it was asked to.
const WINDOW: u64 = 128_000;
/// See [`WINDOW`].
const MESSAGES: u64 = 131_074;

#[derive(Debug, Deserialize)]
struct Targets {
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    target: String,
    keys: Vec<Key>,
}

/// How a vendor's key stands.
#[derive(Debug, Deserialize)]
struct Key {
    #[serde(rename = "key")]
    position: u32,
    locked: Option<Class>,
    cooling_until: Option<UnixTime>,
}

pub(super) async fn play(stage: &Stage, page: &mut Page, grown: &mut Agent) -> anyhow::Result<()> {
    page.act(
        "Two refusals, two meanings",
        "429 again, but the code says insufficient_quota: the account is empty, and no wait will fill \
         it. That key is put away until a person or a probe clears it; another key or the stand-in \
         serves.",
    )?;
    let mut planner = agent(stage, "planner", "empty-account");
    stage.gamma.play_first([faults::quota_exhausted()])?;
    let seen = first_call(&mut planner, Form::Whole).await?;
    let exchange = tell_attempts(stage, page, "quota_exhausted", &seen).await?;
    if let Some(refused) = exchange.attempts.first() {
        keys(stage, page, refused.target.as_str()).await?;
    }

    page.scene(
        "400 context_length_exceeded: the conversation of act 1 has outgrown the model. No other try \
         helps, and the stand-in is not known to read more, so the client is told at once, by the code \
         that agents act on.",
    )?;
    let before = grown.messages();
    let overflow = faults::context_overflow(WINDOW, MESSAGES);
    stage.alpha.play_first([overflow])?;
    let calls = grown.ask("Say it all again.", Form::Whole).await?;
    let mut calls = calls.iter();
    if let Some(refused) = calls.next() {
        tell_attempts(stage, page, "context_overflow", refused).await?;
        if let Some(error) = &refused.error {
            page.text_line(&format!(
                "The client got {} {} with x-should-retry: {}. It dropped its older turns ({} messages \
                 before the question) and asked again:",
                refused.status,
                error.code(),
                refused.should_retry.as_deref().unwrap_or("not said"),
                before,
            ))?;
        }
    }
    if let Some(again) = calls.next() {
        tell_attempts(stage, page, "compacted", again).await?;
    }
    Ok(())
}

/// Tells how the keys of a target stand.
async fn keys(stage: &Stage, page: &Page, target: &str) -> anyhow::Result<()> {
    let all: Value = stage.admin().json("/admin/v1/targets").await?;
    let Targets { targets } = serde_json::from_value(all)?;
    let found = targets.into_iter().find(|found| found.target == target);
    let keys = found.map_or_else(Vec::new, |found| found.keys);
    let now = clock::unix_now();
    let stand: Vec<_> = keys.iter().map(|key| standing(key, now)).collect();
    page.text_line(&format!("The keys of {target} now: {}.", stand.join("; ")))?;
    let shown: Vec<_> = keys
        .iter()
        .map(|key| json!({ "key": key.position, "locked": key.locked, "cooling_until": key.cooling_until }))
        .collect();
    page.fact("keys", json!({ "target": target, "keys": shown }))
}

fn standing(of: &Key, now: UnixTime) -> String {
    let number = key(Some(of.position));
    if let Some(class) = of.locked {
        return format!("{number} put away ({class})");
    }
    match of.cooling_until {
        Some(until) if until > now => {
            let left = until.0.saturating_sub(now.0) / 1000;
            format!("{number} left alone for another {left} s")
        }
        _ => format!("{number} in use"),
    }
}
