//! The books after a scenario: what vendors saw, what the gateway wrote down, what clients had.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::clients::Tally;
use crate::cases::World;
use crate::clock;
use crate::vendor::Vendor;

/// The most pages of a list that are read.
const PAGES: usize = 10_000;

/// Notes what does not add up.
///
/// # Errors
///
/// When the admin plane does not answer.
pub(super) async fn check(
    world: &World,
    tally: &Tally,
    faults: &mut Vec<String>,
) -> anyhow::Result<()> {
    // Clients that left last are still being settled.
    let exchanges = settled(world, tally.sent).await?;
    let recorded = exchanges.len() as u64;
    if recorded > tally.sent || recorded + tally.left_at_once < tally.sent {
        faults.push(format!(
            "{} requests were sent, {recorded} are on record",
            tally.sent
        ));
    }
    let attempts: u64 = exchanges
        .iter()
        .map(|row| {
            row.get("attempts")
                .and_then(Value::as_array)
                .map_or(0, |list| list.len() as u64)
        })
        .sum();
    let seen: u64 = world.vendors.values().map(Vendor::request_count).sum();
    // An attempt whose connection never came about reached no vendor.
    let unsent = exchanges.iter().flat_map(|row| {
        row.get("attempts")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    });
    let unsent = unsent.filter(|attempt| never_sent(attempt)).count() as u64;
    if attempts < seen || attempts - unsent > seen {
        faults.push(format!(
            "vendors saw {seen} calls, {attempts} attempts are on record ({unsent} of them unsent)"
        ));
    }
    let outcome = |name: &str| {
        exchanges
            .iter()
            .filter(|row| row.get("outcome").is_some_and(|outcome| outcome == name))
            .count() as u64
    };
    // A client may leave when its whole answer is already on the way: both sides are right then.
    let (ok, gone) = (outcome("ok"), outcome("client_gone"));
    if ok < tally.whole || ok > tally.whole + tally.left {
        faults.push(format!(
            "{} answers were whole, {ok} are on record as ok ({gone} clients gone)",
            tally.whole
        ));
    }
    reservations(world, faults).await?;
    in_flight(world, faults).await;
    let log = world.gateway.log();
    if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
        faults.push(format!("the gateway panicked: {line}"));
    }
    Ok(())
}

fn never_sent(attempt: &Value) -> bool {
    let class = attempt
        .get("class")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let status = attempt.get("status").is_some_and(Value::is_number);
    !status
        && [
            "transport",
            "timeout",
            "client_gone",
            "rate_limited",
            "overloaded",
        ]
        .contains(&class)
}

async fn settled(world: &World, sent: u64) -> anyhow::Result<Vec<Value>> {
    let begun = clock::now();
    loop {
        let rows = pages(world, "/admin/v1/requests", "requests").await?;
        let waited = clock::now().saturating_duration_since(begun);
        if rows.len() as u64 >= sent || waited > Duration::from_secs(10) {
            return Ok(rows);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Every reservation was settled, released or expired, and nothing twice.
async fn reservations(world: &World, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let entries = pages(world, "/admin/v1/ledger", "entries").await?;
    let mut open: HashMap<(String, u64), i64> = HashMap::new();
    for entry in &entries {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let attempt = entry.get("attempt").and_then(Value::as_u64).unwrap_or(0);
        let change = match text("kind") {
            "reserve" => 1,
            "release" | "expire" => -1,
            _ => 0,
        };
        *open
            .entry((text("request_id").to_owned(), attempt))
            .or_default() += change;
    }
    let settled: std::collections::HashSet<_> = entries
        .iter()
        .filter(|entry| entry.get("kind").is_some_and(|kind| kind == "settle"))
        .filter_map(|entry| entry.get("request_id")?.as_str())
        .collect();
    let left = open
        .iter()
        .filter(|((id, _), count)| **count > 0 && !settled.contains(id.as_str()))
        .count();
    if left > 0 {
        faults.push(format!("{left} reservations never came to an end"));
    }
    Ok(())
}

async fn in_flight(world: &World, faults: &mut Vec<String>) {
    let metrics = world.gateway.ask("/metrics").await.text();
    let flying = metrics
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains("in_flight"));
    for line in flying.filter(|line| !line.ends_with(" 0")) {
        faults.push(format!("still in flight: {line}"));
    }
}

/// All rows of an admin list.
async fn pages(world: &World, path: &str, name: &str) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let query = cursor
            .as_ref()
            .map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let answer = world
            .gateway
            .ask(&format!("{path}?limit=1000{query}"))
            .await;
        let page = answer.json();
        let found = page.get(name).and_then(Value::as_array);
        let found =
            found.with_context(|| format!("GET {path} gave {} without {name}", answer.status))?;
        rows.extend(found.iter().cloned());
        cursor = page
            .get("next_cursor")
            .and_then(Value::as_str)
            .map(str::to_owned);
        if cursor.is_none() || found.is_empty() {
            return Ok(rows);
        }
    }
    ensure!(cursor.is_none(), "GET {path} has more than {PAGES} pages");
    Ok(rows)
}
