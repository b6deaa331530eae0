//! What the usage and cost record must say: `assert_ledger`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::world::World;
use super::equal;

/// Checks each name of `assert_ledger` against the settled entries.
pub(super) async fn check(wanted: &Value, world: &World) -> Vec<String> {
    let requests = wanted
        .get("nano_usd")
        .and_then(Value::as_array)
        .map_or(1, Vec::len);
    let rows = match world
        .gateway
        .ledger(|rows| settled(rows).len() >= requests)
        .await
    {
        Ok(rows) => rows,
        Err(error) => return vec![format!("{error:#}")],
    };
    let settled = settled(&rows);
    let mut faults = Vec::new();
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        faults.extend(one(name, wanted, &settled));
    }
    faults
}

/// The settled entries by request, oldest first.
fn settled(rows: &[Value]) -> Vec<Vec<&Value>> {
    let mut by_request: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    // Newest first as they come.
    for row in rows.iter().rev() {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
        if ["settle", "adjust"].contains(&text("kind")) {
            by_request
                .entry((text("time"), text("request_id")))
                .or_default()
                .push(row);
        }
    }
    let mut requests: Vec<(&str, Vec<&Value>)> = Vec::new();
    for ((_, id), rows) in by_request {
        match requests.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => known.extend(rows),
            None => requests.push((id, rows)),
        }
    }
    requests.into_iter().map(|(_, rows)| rows).collect()
}

fn one(name: &str, wanted: &Value, requests: &[Vec<&Value>]) -> Vec<String> {
    let last = requests.last().and_then(|rows| rows.last());
    let usage = last.and_then(|row| row.get("usage"));
    let count = |name: &str| {
        usage
            .and_then(|usage| usage.get(name))
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let cache = count("cache_read_tokens")
        + count("cache_write_5m_tokens")
        + count("cache_write_1h_tokens");
    let costs: Option<Vec<i128>> = requests.iter().map(|rows| cost(rows)).collect();
    let named = format!("ledger {name}");
    let least = |got: i128| match wanted.as_i64() {
        Some(least) if got >= i128::from(least) => Vec::new(),
        _ => vec![format!("{named} is {got}, at least {wanted} wanted")],
    };
    match name {
        "nano_usd" => {
            let wanted = wanted
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![wanted.clone()]);
            let mut wanted: Vec<i128> = wanted
                .iter()
                .map(|nano| i128::from(nano.as_i64().unwrap_or(-1)) * 1_000)
                .collect();
            // Requests of one millisecond have no order on record.
            wanted.sort_unstable();
            let mut got = costs.unwrap_or_default();
            got.sort_unstable();
            if got == wanted {
                Vec::new()
            } else {
                vec![format!("{named}: {got:?} picodollars, {wanted:?} wanted")]
            }
        }
        "nano_usd_min" => least(costs.unwrap_or_default().iter().sum::<i128>() / 1_000),
        "output_min" => least(i128::from(count("output_tokens"))),
        "records" => equal(&named, &json!(requests.len()), wanted),
        "estimated" => {
            let marked =
                |value: Option<&Value>| value.and_then(|value| value.get("estimated")).cloned();
            equal(
                &named,
                &marked(last.copied())
                    .or_else(|| marked(usage))
                    .unwrap_or_default(),
                wanted,
            )
        }
        "price_fallback" | "rule" => equal(
            &named,
            &last
                .and_then(|row| row.get(name))
                .cloned()
                .unwrap_or_default(),
            wanted,
        ),
        "prompt_tokens" => equal(&named, &json!(count("input_tokens")), wanted),
        "completion_tokens" | "output" => equal(&named, &json!(count("output_tokens")), wanted),
        "reasoning" => equal(&named, &json!(count("reasoning_tokens")), wanted),
        "total_tokens" => equal(
            &named,
            &json!(count("input_tokens") + count("output_tokens")),
            wanted,
        ),
        "input_uncached" => equal(
            &named,
            &json!(count("input_tokens").saturating_sub(cache)),
            wanted,
        ),
        "cache_read" => equal(&named, &json!(count("cache_read_tokens")), wanted),
        _ => vec![format!("not checked: assert_ledger.{name}")],
    }
}

/// What a request's entries cost in picodollars; `None` when one has no cost that can be read.
fn cost(rows: &[&Value]) -> Option<i128> {
    rows.iter()
        .map(|row| picodollars(row.get("cost_usd")?.as_str()?))
        .sum()
}

/// A decimal number of dollars, exactly.
fn picodollars(text: &str) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 12 {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let part: i128 = format!("{part:0<12}").parse().ok()?;
    Some(whole * 1_000_000_000_000 + if text.starts_with('-') { -part } else { part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_exactly() {
        assert_eq!(picodollars("0.0072"), Some(7_200_000_000));
        assert_eq!(picodollars("1"), Some(1_000_000_000_000));
        assert_eq!(picodollars("-0.000000000001"), Some(-1));
        assert_eq!(picodollars("0.0000000000001"), None);
    }

    #[test]
    fn entries_are_gathered_by_request_in_order() {
        let entry = |id: &str, time: &str, cost: &str| {
            json!({"kind": "settle", "request_id": id, "time": time,
            "cost_usd": cost, "usage": {"output_tokens": 3}})
        };
        let rows = [
            entry("b", "2", "0.2"),
            entry("a", "1", "0.1"),
            json!({"kind": "reserve", "request_id": "a"}),
        ];
        let settled = settled(&rows);
        assert_eq!(
            one("nano_usd", &json!([100_000_000, 200_000_000]), &settled),
            Vec::<String>::new()
        );
        assert_eq!(one("records", &json!(2), &settled), Vec::<String>::new());
        assert!(!one("nano_usd", &json!(100_000_000), &settled).is_empty());
        assert!(one("novelty", &json!(1), &settled)[0].starts_with("not checked"));
    }
}
