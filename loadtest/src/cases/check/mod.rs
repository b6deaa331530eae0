//! The assertions that need no code of their own.
//!
//! Each returns nothing when it holds and a sentence when it does not. One that is not known here
//! says `not checked`, which fails the case: only positive evidence counts.

mod client;
mod ledger;
mod upstream;

use serde_json::{Map, Value, json};

use super::world::World;
use crate::client::Answer;
use crate::vendor::Vendor;

/// Checks one `assert_…` entry against what happened; `sent` is the client's body.
pub(super) async fn assertion(
    name: &str,
    wanted: &Value,
    world: &World,
    sent: &[u8],
    answers: &[Answer],
) -> Vec<String> {
    match name {
        "assert_client" => client::check(wanted, world, answers),
        "assert_upstream" => upstream::check(wanted, world, sent).await,
        "assert_attempts" => {
            let attempts = json!(world.attempts());
            equal("attempts", &attempts, wanted)
        }
        "assert_attempts_max" => {
            let attempts = world.attempts();
            let within = wanted.as_u64().is_some_and(|most| attempts <= most);
            if within {
                Vec::new()
            } else {
                vec![format!("{attempts} attempts, at most {wanted} wanted")]
            }
        }
        "assert_gap_ms" => gap(wanted, world),
        "assert_ledger" => ledger::check(wanted, world).await,
        "assert_no_secret" => no_secret(wanted, world, answers).await,
        _ => vec![format!("not checked: {name}")],
    }
}

fn gap(wanted: &Value, world: &World) -> Vec<String> {
    let number = |pointer: &str| wanted.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let mut arrivals: Vec<_> = world.vendors.values().flat_map(Vendor::requests).collect();
    arrivals.sort_by_key(|request| request.received);
    let at = |number: u64| {
        usize::try_from(number)
            .ok()
            .and_then(|n| arrivals.get(n.checked_sub(1)?))
    };
    let (Some(from), Some(to)) = (at(number("/between/0")), at(number("/between/1"))) else {
        return vec![format!(
            "{} attempts, gap between {} wanted",
            arrivals.len(),
            wanted["between"]
        )];
    };
    let gap = to
        .received
        .saturating_duration_since(from.received)
        .as_millis();
    if (u128::from(number("/min"))..=u128::from(number("/max"))).contains(&gap) {
        return Vec::new();
    }
    vec![format!(
        "gap of {gap} ms, {}..{} wanted",
        number("/min"),
        number("/max")
    )]
}

/// Looks for a planted secret in everything that the gateway lets out.
async fn no_secret(wanted: &Value, world: &World, answers: &[Answer]) -> Vec<String> {
    use base64::Engine as _;
    let secret = wanted.as_str().unwrap_or_default();
    let encoded = secret
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect::<Vec<_>>()
        .concat();
    let mut forms = vec![secret.to_owned(), encoded];
    // A secret inside a longer text has three alignments in base64; the middle of each is fixed.
    for shift in 0..3 {
        let text = format!("{}{secret}", "x".repeat(shift));
        let code = base64::engine::general_purpose::STANDARD_NO_PAD.encode(text);
        forms.extend(code.get(4..code.len().saturating_sub(4)).map(str::to_owned));
    }
    let mut places = vec![("standard output or log".to_owned(), world.gateway.log())];
    for answer in answers {
        let head = answer
            .head
            .as_ref()
            .map(|head| String::from_utf8_lossy(&head.raw).into_owned());
        places.push((
            "an answer".to_owned(),
            head.unwrap_or_default() + &answer.text(),
        ));
    }
    let pages = [
        "/admin/v1/requests",
        "/admin/v1/ledger",
        "/admin/v1/config",
        "/admin/v1/targets",
        "/metrics",
    ];
    for page in pages {
        places.push((page.to_owned(), world.gateway.ask(page).await.text()));
    }
    let mut faults = Vec::new();
    for (place, text) in places {
        if forms
            .iter()
            .any(|form| !form.is_empty() && text.contains(form))
        {
            faults.push(format!("the planted secret stands in {place}"));
        }
    }
    faults
}

fn equal(name: &str, got: &Value, wanted: &Value) -> Vec<String> {
    let same = match (got, wanted) {
        (Value::Object(got), Value::Object(wanted)) => holds(got, wanted),
        _ => got == wanted,
    };
    if same {
        Vec::new()
    } else {
        vec![format!("{name} is {got}, {wanted} wanted")]
    }
}

fn holds(got: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted
        .iter()
        .all(|(name, value)| got.get(name) == Some(value))
}
