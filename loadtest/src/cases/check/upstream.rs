//! What the vendors must have received: `assert_upstream`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::world::World;
use super::equal;
use crate::vendor::{Request, Vendor};

/// Checks each name of `assert_upstream` against the last request that a vendor got, or against
/// all of them where the name speaks of many. `sent` is the client's body.
pub(super) async fn check(wanted: &Value, world: &World, sent: &[u8]) -> Vec<String> {
    let mut requests: Vec<Request> = world.vendors.values().flat_map(Vendor::requests).collect();
    requests.sort_by_key(|request| request.received);
    let mut faults = Vec::new();
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        if name == "socket_closed_before_ms" {
            faults.extend(closed_before(wanted, world).await);
        } else if name == "TRAP_requests" {
            let count = world.vendors.get("TRAP").map(Vendor::connections);
            faults.extend(equal(name, &json!(count), wanted));
        } else if let Some(last) = requests.last() {
            faults.extend(of_requests(name, wanted, last, &requests, sent));
        } else {
            faults.push(format!("{name}: no request reached a vendor"));
        }
    }
    faults
}

fn of_requests(
    name: &str,
    wanted: &Value,
    last: &Request,
    all: &[Request],
    sent: &[u8],
) -> Vec<String> {
    let body = last.json();
    let got = match name {
        "distinct_bodies" => json!(
            all.iter()
                .map(|request| &request.body)
                .collect::<BTreeSet<_>>()
                .len()
        ),
        "equals_client_body" | "body_equals_client_body" => json!(last.body == sent),
        "has" | "has_not" => {
            let names = wanted
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let wrong: Vec<&str> = names
                .filter(|key| body.get(*key).is_some() != (name == "has"))
                .collect();
            return if wrong.is_empty() {
                Vec::new()
            } else {
                vec![format!("{name}: {wrong:?}")]
            };
        }
        "tool_ids_match" => return tool_ids(&body, wanted),
        "distinct" => json!(
            tool_call_ids(&body)
                .into_iter()
                .collect::<BTreeSet<_>>()
                .len()
        ),
        "pairs_kept" => json!(tool_call_ids(&body) == strings(&body, "/messages", "tool_call_id")),
        "roles" => json!(strings(&body, "/messages", "role")),
        "tool_use" => json!(blocks(&body, "tool_use").len()),
        "tool_result" | "tool_result_blocks" => json!(blocks(&body, "tool_result").len()),
        "signatures" => fields(&blocks(&body, "thinking"), "signature"),
        "redacted" => fields(&blocks(&body, "redacted_thinking"), "data"),
        "thinking_enabled" => json!(
            body.pointer("/thinking/type")
                .is_some_and(|kind| kind == "enabled")
        ),
        "thinking.budget_tokens<max_tokens" => {
            let number = |pointer| body.pointer(pointer).and_then(Value::as_u64);
            match (number("/thinking/budget_tokens"), number("/max_tokens")) {
                (Some(budget), Some(most)) => json!(budget < most),
                // Without thinking there is no budget to exceed the limit.
                (None, Some(_)) => json!(true),
                _ => Value::Null,
            }
        }
        "blank_text_blocks" => json!(
            texts(&body)
                .iter()
                .filter(|text| text.trim().is_empty())
                .count()
        ),
        "system_contains" => return contains(name, body.get("system"), wanted),
        "messages_contain" => return contains(name, body.get("messages"), wanted),
        "cache_control_count" => json!(occurrences(&body, "cache_control")),
        "cachePoints_total" => json!(occurrences(&body, "cachePoint")),
        _ => match path(name).and_then(|pointer| body.pointer(&pointer).cloned()) {
            Some(found) => found,
            None if name.contains('.') || name.contains('[') => Value::Null,
            None => return vec![format!("not checked: assert_upstream.{name}")],
        },
    };
    equal(name, &got, wanted)
}

/// `body.a.b`, `a[1].b` as a JSON pointer.
fn path(name: &str) -> Option<String> {
    let inner = name.strip_prefix("body.").unwrap_or(name);
    let pointer = inner.replace('[', ".").replace(']', "").replace('.', "/");
    (name.contains('.') || name.contains('[')).then(|| format!("/{pointer}"))
}

fn strings(body: &Value, list: &str, name: &str) -> Vec<String> {
    let items = body.pointer(list).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item.get(name)?.as_str())
        .map(str::to_owned)
        .collect()
}

fn tool_call_ids(body: &Value) -> Vec<String> {
    let messages = body.get("messages").and_then(Value::as_array);
    messages
        .into_iter()
        .flatten()
        .flat_map(|message| strings(message, "/tool_calls", "id"))
        .collect()
}

/// Of the pattern language, the one form that the cases use: a class repeated so many times.
fn tool_ids(body: &Value, wanted: &Value) -> Vec<String> {
    if wanted != "^[A-Za-z0-9]{9}$" {
        return vec![format!("not checked: the pattern {wanted}")];
    }
    let fits = |id: &String| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let ids = tool_call_ids(body);
    let odd: Vec<&String> = ids.iter().filter(|id| !fits(id)).collect();
    if odd.is_empty() && !ids.is_empty() {
        Vec::new()
    } else {
        vec![format!("tool ids {odd:?} of {}", ids.len())]
    }
}

/// Content blocks of a type, in order.
fn blocks<'a>(body: &'a Value, kind: &str) -> Vec<&'a Value> {
    let messages = body.get("messages").and_then(Value::as_array);
    let blocks = messages
        .into_iter()
        .flatten()
        .filter_map(|message| message.get("content")?.as_array())
        .flatten();
    blocks
        .filter(|block| block.get("type").is_some_and(|own| own == kind))
        .collect()
}

fn fields(blocks: &[&Value], name: &str) -> Value {
    blocks
        .iter()
        .filter_map(|block| block.get(name))
        .cloned()
        .collect()
}

fn texts(body: &Value) -> Vec<&str> {
    let messages = body.get("messages").and_then(Value::as_array);
    let blocks = messages
        .into_iter()
        .flatten()
        .filter_map(|message| message.get("content")?.as_array())
        .flatten();
    blocks
        .filter_map(|block| block.get("text")?.as_str())
        .collect()
}

fn contains(name: &str, place: Option<&Value>, wanted: &Value) -> Vec<String> {
    let text = place.map(Value::to_string).unwrap_or_default();
    let found = wanted.as_str().is_some_and(|wanted| text.contains(wanted));
    if found {
        Vec::new()
    } else {
        vec![format!("{name}: {wanted} is not in {text:.200}")]
    }
}

fn occurrences(value: &Value, name: &str) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| usize::from(key == name) + occurrences(value, name))
            .sum(),
        Value::Array(items) => items.iter().map(|item| occurrences(item, name)).sum(),
        _ => 0,
    }
}

async fn closed_before(wanted: &Value, world: &World) -> Option<String> {
    let limit = Duration::from_millis(wanted.as_u64().unwrap_or(0));
    let called = world
        .vendors
        .values()
        .find(|vendor| vendor.request_count() > 0);
    let Some(vendor) = called else {
        return Some("no request reached a vendor".to_owned());
    };
    let gone = |requests: &[Request]| {
        requests
            .iter()
            .all(|request| request.disconnected.is_some())
    };
    vendor.wait_until(limit * 3, gone).await;
    let slow = |request: &Request| match request.disconnected {
        Some(at) => {
            let took = at.saturating_duration_since(request.received);
            (took > limit).then(|| format!("upstream closed after {took:?}, {limit:?} wanted"))
        }
        None => Some(format!("upstream still open after {:?}", limit * 3)),
    };
    vendor.requests().iter().find_map(slow)
}
