//! K1: what is retried, when, and what the client is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::run::{Run, send, send_each};
use super::super::seen::Seen;
use super::super::world::World;
use crate::client::Call;
use crate::vendor::{Reply, Script, Vendor};

const CHAT: &str = "/v1/chat/completions";

fn limited(name: &str, value: &str) -> Reply {
    let error = json!({"error": {"message": "Rate limit reached", "type": "rate_limit_error", "param": null,
        "code": "rate_limit_exceeded"}});
    Reply::json(429, error).header(name, value)
}

fn one(name: &str, script: Script) -> BTreeMap<String, Script> {
    BTreeMap::from([(name.to_owned(), script)])
}

fn gap_ms(vendor: &Vendor) -> Option<u128> {
    let requests = vendor.requests();
    let (first, second) = (requests.first()?, requests.get(1)?);
    Some(
        second
            .received
            .saturating_duration_since(first.received)
            .as_millis(),
    )
}

pub(super) async fn http_date(run: &mut Run<'_>) -> anyhow::Result<()> {
    let call = run.case.call();
    let world = run.world().await?;
    let answer = call.send(world.gateway.addr).await;
    run.expect(
        answer.status == 200,
        format!("status {} after the date had come", answer.status),
    );
    let gap = gap_ms(world.vendor("A")?).unwrap_or(0);
    // The date is rounded up to a whole second, then up to a tenth of jitter is added.
    run.expect_within("gap in ms", gap, 3_000, 4_900);

    let past = Script::replies([
        limited("retry-after", "Thu, 01 Jan 2015 00:00:00 GMT"),
        Reply::stub("openai_ok"),
    ]);
    let world = run.world_of(one("A", past), |_| {}).await?;
    let answer = call.send(world.gateway.addr).await;
    run.expect(
        answer.status == 200,
        format!("[date in the past] status {}", answer.status),
    );
    run.expect_within(
        "[date in the past] gap in ms",
        gap_ms(world.vendor("A")?).unwrap_or(9_999),
        0,
        1_500,
    );

    let always = Script::replies([limited("retry-after", "{HTTP-DATE now+3s}")]);
    let world = run.world_of(one("A", always), |_| {}).await?;
    let answer = call.send(world.gateway.addr).await;
    run.expect(
        answer.status == 429,
        format!("[attempts run out] status {}", answer.status),
    );
    let told: u64 = answer
        .header("retry-after")
        .and_then(|value| value.parse().ok())
        .unwrap_or(0);
    run.expect_within("[attempts run out] retry-after", told, 1, 5);
    Ok(())
}

pub(super) async fn seconds(run: &mut Run<'_>) -> anyhow::Result<()> {
    let script = Script::replies([limited("retry-after-ms", "400"), Reply::stub("openai_ok")]);
    let world = run.world_of(one("A", script), |_| {}).await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    run.expect(
        answer.status == 200,
        format!("[retry-after-ms] status {}", answer.status),
    );
    run.expect_within(
        "[retry-after-ms] gap in ms",
        gap_ms(world.vendor("A")?).unwrap_or(0),
        400,
        1_200,
    );
    Ok(())
}

pub(super) async fn vendor_wants_no_retry(run: &mut Run<'_>) -> anyhow::Result<()> {
    let refused =
        json!({"error": {"message": "try again", "type": "conflict", "param": null, "code": null}});
    let script = Script::replies([
        Reply::json(409, refused).header("x-should-retry", "true"),
        Reply::stub("openai_ok"),
    ]);
    let world = run.world_of(one("A", script), |_| {}).await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    run.expect(
        answer.status == 200,
        format!(
            "[x-should-retry: true on a 409] status {} after {} attempts",
            answer.status,
            world.attempts()
        ),
    );
    Ok(())
}

/// Thirty requests limited together must not come back together. The contract adds up to a tenth
/// of the hint as jitter, so their spread cannot pass a tenth: half of it is asked for here.
pub(super) async fn jitter(run: &mut Run<'_>) -> anyhow::Result<()> {
    const CLIENTS: usize = 30;
    const HINT: Duration = Duration::from_secs(2);
    let world = run
        .world_of(run.case.scripts()?, |settings| {
            // The bound on retries per second is another case's.
            settings.route("retry.budget.ratio", 1.0);
            settings.route("retry.budget.min_per_second", 100);
        })
        .await?;
    let calls = (0..CLIENTS).map(|number| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": format!("client {number}")}]});
        Arc::new(Call::post(CHAT, body.to_string()))
    });
    send_each(calls, world.gateway.addr).await;
    let mut attempts: BTreeMap<Vec<u8>, Vec<_>> = BTreeMap::new();
    for request in world.vendor("A")?.requests() {
        attempts
            .entry(request.body.to_vec())
            .or_default()
            .push(request);
    }
    let limited = attempts
        .values()
        .flatten()
        .filter_map(|request| request.answered)
        .min();
    let mut waits = Vec::new();
    for made in attempts.values() {
        // Who came when the key was cooling already was kept back before the first attempt.
        let (from, to) = match &made[..] {
            [first, second, ..] => (first.answered, second.received),
            [only] => (limited, only.received),
            [] => continue,
        };
        waits.push(to.saturating_duration_since(from.unwrap_or(to)));
    }
    run.expect(
        waits.len() == CLIENTS,
        format!("{} of {CLIENTS} were retried", waits.len()),
    );
    waits.sort();
    let (Some(first), Some(last)) = (waits.first(), waits.last()) else {
        return Ok(());
    };
    run.expect(
        *first >= HINT,
        format!("a wait of {first:?}, below the hint"),
    );
    let spread = last.saturating_sub(*first);
    run.expect(spread >= HINT / 20, format!("a spread of {spread:?} only"));
    let bucket = |wait: &Duration| wait.saturating_sub(*first).as_millis() / 50;
    let fullest = waits
        .iter()
        .map(|wait| {
            waits
                .iter()
                .filter(|other| bucket(other) == bucket(wait))
                .count()
        })
        .max();
    run.expect(
        fullest.unwrap_or(CLIENTS) <= CLIENTS / 2,
        format!("{fullest:?} retries within 50 ms"),
    );
    Ok(())
}

pub(super) async fn one_deadline(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    run.expect(
        answer.status == 504,
        format!("status {}: {}", answer.status, answer.text()),
    );
    run.expect(
        answer.took() <= Duration::from_millis(3_100),
        format!("answered after {:?}", answer.took()),
    );
    let json = answer.json();
    let told = json
        .pointer("/error/whippletree/attempts")
        .and_then(|list| list.as_array())
        .map(Vec::len);
    let made = usize::try_from(world.attempts())?;
    run.expect(
        told == Some(made) && made > 0,
        format!("{told:?} attempts told, {made} made"),
    );
    Ok(())
}

pub(super) async fn cooldown_only_grows(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let call = run.case.call();
    let answers = send(&call, world.gateway.addr, 4).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    run.expect(served == 4, format!("{served} of 4 served"));
    let before = world.vendor("A")?.request_count();
    run.expect(
        before >= 2,
        format!("A got {before} requests, so the longer hint never came"),
    );
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let answer = call.send(world.gateway.addr).await;
    let after = world.vendor("A")?.request_count();
    run.expect(
        answer.status == 200,
        format!("status {} inside the longer cool-down", answer.status),
    );
    run.expect(
        after == before,
        format!(
            "A got {} more requests inside its cool-down",
            after - before
        ),
    );
    Ok(())
}

pub(super) async fn waits_for_the_only_target(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let call = run.case.call();
    call.send(world.gateway.addr).await;
    run.expect_within(
        "gap in ms",
        gap_ms(world.vendor("A")?).unwrap_or(0),
        1_000,
        2_500,
    );

    let long = Script::replies([limited("retry-after", "30")]);
    let world = run.world_of(one("A", long), |_| {}).await?;
    let first = call.send(world.gateway.addr).await;
    let second = call.send(world.gateway.addr).await;
    for (name, answer) in [("first", first), ("second", second)] {
        run.expect(
            answer.status == 429,
            format!("[hint past the deadline] {name} status {}", answer.status),
        );
        run.expect(
            answer.took() < Duration::from_secs(2),
            format!("[hint past the deadline] took {:?}", answer.took()),
        );
        let told: u64 = answer
            .header("retry-after")
            .and_then(|value| value.parse().ok())
            .unwrap_or(0);
        run.expect_within("[hint past the deadline] retry-after", told, 25, 34);
    }
    let attempts = world.attempts();
    run.expect_within("[hint past the deadline] attempts", attempts, 1, 2);
    Ok(())
}

pub(super) async fn attempts_told(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    run.expect(answer.status == 502, format!("status {}", answer.status));
    run.expect(
        answer.header("x-wt-attempts") == Some("1"),
        format!("x-wt-attempts is {:?}", answer.header("x-wt-attempts")),
    );
    let error = Seen::of(&answer).error.unwrap_or_default();
    let class = error
        .pointer("/whippletree/attempts/0/class")
        .cloned()
        .unwrap_or_default();
    run.expect(
        class == "server_error",
        format!("the attempt's class is {class}"),
    );
    Ok(())
}

pub(super) async fn own_limit(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let key = super::super::config::CLIENT_KEY;
    let call = run
        .case
        .call()
        .header("authorization", &format!("Bearer {key}"));
    let first = call.send(world.gateway.addr).await;
    let second = call.send(world.gateway.addr).await;
    run.expect(
        first.status == 200,
        format!("first status {}: {}", first.status, first.text()),
    );
    run.expect(
        second.status == 429,
        format!("second status {}", second.status),
    );
    let told: u64 = second
        .header("retry-after")
        .and_then(|value| value.parse().ok())
        .unwrap_or(0);
    run.expect_within("retry-after of the second", told, 1, 60);
    only_one_attempt(run, &world);
    Ok(())
}

fn only_one_attempt(run: &mut Run<'_>, world: &World) {
    let attempts = world.attempts();
    run.expect(
        attempts == 1,
        format!("{attempts} requests reached the vendor"),
    );
}
