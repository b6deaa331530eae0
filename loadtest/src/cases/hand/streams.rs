//! K2: streams that break, stall or come in odd pieces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::run::Run;
use super::super::seen::Seen;
use super::super::world::World;
use crate::client::{Answer, Call, Ended};
use crate::vendor::{End, Reply, Script, Write};

/// The text of the writes of a vendor's first reply.
fn writes(run: &Run<'_>, vendor: &str) -> anyhow::Result<Vec<Write>> {
    let scripts = run.case.scripts()?;
    let reply = scripts
        .get(vendor)
        .and_then(|script| script.replies.first());
    Ok(reply
        .and_then(|reply| reply.writes.clone())
        .unwrap_or_default())
}

fn stream(writes: Vec<Write>, end: End) -> Reply {
    let mut reply = Reply::events(Vec::<String>::new()).ending(end);
    reply.writes = Some(writes);
    reply
}

fn with(run: &Run<'_>, vendor: &str, reply: Reply) -> anyhow::Result<BTreeMap<String, Script>> {
    let mut scripts = run.case.scripts()?;
    scripts.insert(vendor.to_owned(), Script::replies([reply]));
    Ok(scripts)
}

/// What a client must see of a stream that broke behind its first content.
fn interrupted(run: &mut Run<'_>, answer: &Answer) {
    let seen = Seen::of(answer);
    let code = seen
        .error
        .as_ref()
        .and_then(|error| error.get("code"))
        .cloned()
        .unwrap_or_default();
    run.expect(answer.status == 200, format!("status {}", answer.status));
    run.expect(
        code == "stream_interrupted",
        format!("the error event's code is {code}"),
    );
    run.expect(
        seen.finish_reason.is_none(),
        format!("finish_reason {:?}", seen.finish_reason),
    );
    run.expect(!seen.done, "[DONE] was sent");
    run.expect(
        answer.ended == Ended::Clean,
        format!("the body ended as {:?}", answer.ended),
    );
}

async fn recorded_as_failed(run: &mut Run<'_>, world: &World) -> anyhow::Result<()> {
    let rows = world.gateway.exchanges(1).await?;
    let outcome = rows
        .first()
        .and_then(|row| row.get("outcome"))
        .cloned()
        .unwrap_or_default();
    run.expect(
        outcome == "interrupted",
        format!("the exchange's outcome is {outcome}"),
    );
    Ok(())
}

pub(super) async fn cut_after_content(run: &mut Run<'_>) -> anyhow::Result<()> {
    for (variant, end) in [
        ("cut", End::Cut),
        ("clean without an end mark", End::Clean),
        ("reset", End::Reset),
    ] {
        let faults = run.count();
        let mut played = writes(run, "A")?;
        if end == End::Reset {
            // A reset may overtake bytes that the peer has not read yet.
            played.push(Write::Sleep { sleep_ms: 100 });
        }
        let world = run
            .world_of(with(run, "A", stream(played, end))?, |_| {})
            .await?;
        let answer = run.case.call().send(world.gateway.addr).await;
        interrupted(run, &answer);
        let text = Seen::of(&answer).text;
        run.expect(text == "one two ", format!("text {text:?}"));
        let replayed = world.vendor("B")?.request_count();
        run.expect(
            replayed == 0,
            "the plan was replayed after content had gone out",
        );
        recorded_as_failed(run, &world).await?;
        run.label(faults, variant);
    }
    Ok(())
}

pub(super) async fn silence(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    let seen = Seen::of(&answer);
    run.expect(
        answer.status == 200,
        format!("status {}: {}", answer.status, answer.text()),
    );
    run.expect(
        seen.text == "ok" && seen.done,
        format!("text {:?}, done {}", seen.text, seen.done),
    );
    run.expect(
        seen.role_chunks == 1,
        format!("{} opening chunks", seen.role_chunks),
    );
    run.expect(
        answer.took() < Duration::from_secs(4),
        format!("took {:?}", answer.took()),
    );

    let faults = run.count();
    let chunk = |text: &str| {
        let delta = json!({"role": "assistant", "content": text});
        let json = json!({"id": "chatcmpl-t1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        Write::Text(format!("data: {json}\n\n"))
    };
    let reply = stream(vec![chunk("one "), chunk("two ")], End::Hang);
    let world = run.world_of(with(run, "A", reply)?, |_| {}).await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    interrupted(run, &answer);
    let events = answer.events();
    let last_content = events
        .iter()
        .rev()
        .find(|event| event.data.contains("two "));
    let silent = last_content.map(|event| {
        answer
            .ended_at
            .saturating_duration_since(event.at)
            .as_millis()
    });
    run.expect_within(
        "ms from the last content to the error",
        silent.unwrap_or(0),
        700,
        1_000,
    );
    let vendor = world.vendor("A")?;
    let closed = vendor
        .wait_until(Duration::from_secs(1), |requests| {
            requests
                .iter()
                .all(|request| request.disconnected.is_some())
        })
        .await;
    run.expect(closed, "the upstream socket stayed open");
    run.label(faults, "two chunks, then silence");
    Ok(())
}

pub(super) async fn no_event_stream(run: &mut Run<'_>) -> anyhow::Result<()> {
    let page = Reply {
        text: Some("<html><body>please log in</body></html>".to_owned()),
        ..Reply::default().header("content-type", "text/html")
    };
    let whole = Reply::stub("openai_ok");
    let whole = Reply { body: Some(json!({"id": "chatcmpl-ok", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}})), stub: None, ..whole }
    .header("content-type", "application/json");
    for (variant, reply, may_succeed) in [
        ("login page", page, false),
        ("whole completion", whole, true),
    ] {
        let faults = run.count();
        let world = run
            .world_of(with(run, "A", reply)?, |settings| {
                settings.route("retry.max_attempts", 1);
            })
            .await?;
        let answer = run.case.call().send(world.gateway.addr).await;
        let seen = Seen::of(&answer);
        run.expect(
            seen.unframed == 0,
            format!("{} unframed lines in an event stream", seen.unframed),
        );
        let failed = answer.status >= 500 && seen.error.is_some();
        let told = answer.status == 200 && seen.error.is_some();
        let converted = may_succeed && answer.status == 200 && seen.text == "ok" && seen.done;
        let got = answer.text();
        run.expect(
            failed || told || converted,
            format!("status {} and {got:?}", answer.status),
        );
        run.label(faults, variant);
    }
    Ok(())
}

/// Argument bytes are never repaired: what the vendor wrote is what the client got.
pub(super) async fn arguments_relayed(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    let sent: String = world
        .vendor("A")?
        .scripted_events()
        .iter()
        .map(|data| arguments(data))
        .collect();
    let got: String = answer
        .events()
        .iter()
        .map(|event| arguments(&event.data))
        .collect();
    run.expect(
        sent == got && !sent.is_empty(),
        format!("arguments {got:?}, {sent:?} were sent"),
    );
    Ok(())
}

fn arguments(data: &str) -> String {
    let json: Value = serde_json::from_str(data).unwrap_or_default();
    let text = json
        .pointer("/choices/0/delta/tool_calls/0/function/arguments")
        .and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

pub(super) async fn every_split(run: &mut Run<'_>) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    let scripted = run.case.scripts()?;
    let replies = scripted
        .get("A")
        .map(|script| script.replies.clone())
        .unwrap_or_default();
    for write in replies
        .iter()
        .filter_map(|reply| reply.writes.as_ref())
        .flatten()
    {
        match write {
            Write::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            Write::Hex { hex } => bytes.extend(unhex(hex)),
            Write::Repeat { .. } | Write::Sleep { .. } => {}
        }
    }
    let split = |at: usize| {
        let hex = |part: &[u8]| Write::Hex {
            hex: part
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<Vec<_>>()
                .concat(),
        };
        let (before, after) = bytes.split_at(at);
        stream(
            vec![hex(before), Write::Sleep { sleep_ms: 3 }, hex(after)],
            End::Clean,
        )
    };
    let replies: Vec<Reply> = (1..bytes.len()).map(split).collect();
    let count = replies.len();
    let world = run
        .world_of(
            BTreeMap::from([("A".to_owned(), Script::replies(replies))]),
            |_| {},
        )
        .await?;
    let call = Arc::new(run.case.call());
    let mut wrong = 0;
    let mut sent = 0;
    while sent < count {
        let batch = (count - sent).min(16);
        let answers =
            super::super::run::send_each((0..batch).map(|_| Arc::clone(&call)), world.gateway.addr)
                .await;
        wrong += answers
            .iter()
            .filter(|answer| answer.body() != bytes)
            .count();
        sent += batch;
    }
    run.expect(
        wrong == 0 && count > 0,
        format!("{wrong} of {count} split positions changed the relayed bytes"),
    );
    Ok(())
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().collect();
    let pairs = digits
        .chunks(2)
        .filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect()
}

pub(super) async fn lone_cr(run: &mut Run<'_>) -> anyhow::Result<()> {
    let faults = run.count();
    let crs = writes(run, "A")?.into_iter().map(|write| match write {
        Write::Text(text) => Write::Text(text.replace("\r\n", "\r")),
        other => other,
    });
    let world = run
        .world_of(with(run, "A", stream(crs.collect(), End::Clean))?, |_| {})
        .await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    let seen = Seen::of(&answer);
    run.expect(
        seen.text == "ok" && seen.done,
        format!("text {:?}, done {}", seen.text, seen.done),
    );
    let first = answer
        .events()
        .first()
        .map(|event| event.at.saturating_duration_since(answer.sent).as_millis());
    run.expect_within("ms to the first event", first.unwrap_or(9_999), 0, 300);
    run.label(faults, "lone CR");
    Ok(())
}

pub(super) async fn usage_when_asked(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let mut body = run.case.input.client.body.clone().unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    let answer = Call {
        body: body.to_string().into(),
        ..run.case.call()
    }
    .send(world.gateway.addr)
    .await;
    let seen = Seen::of(&answer);
    run.expect(
        seen.usage_chunks == 1,
        format!("[asked for] {} usage chunks", seen.usage_chunks),
    );
    Ok(())
}

pub(super) async fn leaving_a_whole_answer(run: &mut Run<'_>) -> anyhow::Result<()> {
    let faults = run.count();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let slow = Reply::stub("openai_ok").after_ms(10_000);
    let world = run.world_of(with(run, "A", slow)?, |_| {}).await?;
    let call = Call {
        body: body.to_string().into(),
        leave_after: Some(Duration::from_millis(300)),
        ..run.case.call()
    };
    call.send(world.gateway.addr).await;
    let vendor = world.vendor("A")?;
    let gone = vendor
        .wait_until(Duration::from_secs(3), |requests| {
            requests
                .iter()
                .any(|request| request.disconnected.is_some())
        })
        .await;
    run.expect(gone, "the upstream call went on");
    let took = vendor.requests().first().and_then(|request| {
        request
            .disconnected
            .map(|at| at.saturating_duration_since(request.received).as_millis())
    });
    run.expect_within(
        "ms until the upstream was closed",
        took.unwrap_or(9_999),
        0,
        900,
    );
    run.label(faults, "whole answer");
    Ok(())
}

/// Chunks that carry annotations alone are neither lost nor held back.
pub(super) async fn annotations_pass(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let answer = run.case.call().send(world.gateway.addr).await;
    let seen = Seen::of(&answer);
    run.expect(
        seen.done && seen.error.is_none(),
        format!("done {}, error {:?}", seen.done, seen.error),
    );
    run.expect(
        seen.finish_reason.as_deref() == Some("stop"),
        format!("finish_reason {:?}", seen.finish_reason),
    );
    Ok(())
}
