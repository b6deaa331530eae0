//! What the client must have seen: `assert_client`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::seen::Seen;
use super::super::world::World;
use super::equal;
use crate::client::{Answer, Ended};

/// Checks each name of `assert_client` against the last answer, or against all of them where the
/// name speaks of many.
pub(super) fn check(wanted: &Value, world: &World, answers: &[Answer]) -> Vec<String> {
    let Some(answer) = answers.last() else {
        return vec!["no answer at all".to_owned()];
    };
    let seen = Seen::of(answer);
    let mut faults = Vec::new();
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        let found = match of_one(name, &seen, answer).or_else(|| of_many(name, answers)) {
            Some(got) => equal(name, &got, wanted),
            None => by_rule(name, wanted, world, &seen, answers),
        };
        faults.extend(found.into_iter().map(|fault| with_reason(fault, answer)));
    }
    faults
}

/// Names whose value is compared.
fn of_one(name: &str, seen: &Seen, answer: &Answer) -> Option<Value> {
    let usage = |pointer: &str| {
        seen.usage
            .as_ref()
            .and_then(|usage| usage.pointer(pointer))
            .cloned()
    };
    Some(match name {
        "status" => json!(answer.status),
        "text" => json!(seen.text),
        "done" | "message_stop" => json!(seen.done),
        "role_chunks" => json!(seen.role_chunks),
        "finish_reason" | "stop_reason" => json!(seen.finish_reason),
        "error" => json!(seen.error.is_some()),
        "error_type" => seen
            .error
            .as_ref()?
            .get("type")
            .cloned()
            .unwrap_or_default(),
        "blocks" => json!(seen.blocks),
        "empty_deltas" => json!(seen.empty_deltas),
        "last_event" | "terminal_event" => json!(seen.last_event),
        "ids" => json!(seen.ids.len()),
        "indexes" => seen
            .calls
            .iter()
            .map(|(index, _, _)| json!(index))
            .collect(),
        "calls" => seen
            .calls
            .iter()
            .map(|(_, id, arguments)| json!([id, arguments]))
            .collect(),
        "input_json" => json!(seen.calls.first().map(|(_, _, arguments)| arguments)),
        "usage" => usage("").unwrap_or_default(),
        "usage.cached_tokens" => usage("/prompt_tokens_details/cached_tokens").unwrap_or_default(),
        "usage_chunk" => json!(seen.usage_chunks > 0),
        "choices_field_present" => json!(seen.without_choices == 0 && answer.status == 200),
        "no_empty_data_event" => json!(seen.empty_events == 0 && answer.status == 200),
        "served_by" => {
            let target = answer.header("x-wt-target")?;
            json!(target.split('/').next().unwrap_or_default().to_uppercase())
        }
        "retry-after" => json!(answer.header(name)),
        _ if name.starts_with("x-") => json!(answer.header(name)),
        _ => return None,
    })
}

/// Names that count over all answers.
fn of_many(name: &str, answers: &[Answer]) -> Option<Value> {
    let count = |is: fn(&Answer) -> bool| json!(answers.iter().filter(|answer| is(answer)).count());
    match name {
        "answers" => Some(count(|answer| answer.status > 0)),
        "resets" => Some(count(|answer| {
            matches!(answer.ended, Ended::Reset | Ended::Refused | Ended::Cut)
        })),
        _ => None,
    }
}

/// Names that state a rule instead of a value.
fn by_rule(
    name: &str,
    wanted: &Value,
    world: &World,
    seen: &Seen,
    answers: &[Answer],
) -> Vec<String> {
    let statuses = answers.iter().map(|answer| json!(answer.status));
    let fault = match name {
        "events_equal_upstream" => answers
            .last()
            .and_then(|answer| unequal_events(world, answer)),
        "first_event_before_ms" => answers.last().and_then(|answer| late(answer, wanted)),
        "ping_events_min" => wanted
            .as_u64()
            .is_none_or(|least| (seen.pings as u64) < least)
            .then(|| format!("{} ping events, at least {wanted} wanted", seen.pings)),
        "status_in" => {
            let allowed = wanted.as_array().map(Vec::as_slice).unwrap_or_default();
            let others: Vec<Value> = statuses
                .filter(|status| !allowed.contains(status))
                .collect();
            (!others.is_empty()).then(|| format!("statuses {others:?} besides {wanted}"))
        }
        "none" => {
            let count = statuses.filter(|status| status == wanted).count();
            (count > 0).then(|| format!("{count} answers with status {wanted}"))
        }
        _ => Some(format!("not checked: assert_client.{name}")),
    };
    fault.into_iter().collect()
}

/// A wrong status is explained by the body that came with it.
fn with_reason(fault: String, answer: &Answer) -> String {
    if answer.status < 400 {
        return fault;
    }
    let text: String = answer.text().chars().take(200).collect();
    format!("{fault} ({}: {text})", answer.status)
}

fn late(answer: &Answer, wanted: &Value) -> Option<String> {
    let limit = Duration::from_millis(wanted.as_u64().unwrap_or(0));
    let events = answer.events();
    let Some(first) = events.first() else {
        return Some("no event at all".to_owned());
    };
    let took = first.at.saturating_duration_since(answer.sent);
    (took > limit).then(|| format!("first event after {took:?}, {limit:?} wanted"))
}

/// Each event that the vendor's script holds against each that the client got, as JSON.
fn unequal_events(world: &World, answer: &Answer) -> Option<String> {
    let scripted = world.vendors.values().next()?.scripted_events();
    let sent: Vec<Value> = scripted.iter().map(|data| as_value(data)).collect();
    let got: Vec<Value> = answer
        .events()
        .iter()
        .map(|event| as_value(&event.data))
        .collect();
    if sent == got && !sent.is_empty() {
        return None;
    }
    let differs = sent.iter().zip(&got).position(|(sent, got)| sent != got);
    let first = differs.unwrap_or(sent.len().min(got.len()));
    Some(format!(
        "{} events came of {}; the first that differs is number {first}",
        got.len(),
        sent.len()
    ))
}

fn as_value(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_else(|_| json!(data))
}
