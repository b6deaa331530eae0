//! K6: many, large, stalled and sudden.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::case::padded;
use super::super::run::{Run, mib, send, send_each};
use super::super::world::{Gateway, World};
use crate::bench::cpu::peak_bytes;
use crate::client::{Answer, Call, Ended, Session, request_head};
use crate::clock;
use crate::vendor::{Recording, Reply, Script};

const MIB: u64 = 1 << 20;

fn ok_vendor() -> BTreeMap<String, Script> {
    BTreeMap::from([("A".to_owned(), Script::replies([Reply::stub("openai_ok")]))])
}

pub(super) async fn stalled_reader(run: &mut Run<'_>) -> anyhow::Result<()> {
    const STALLED: u64 = 8;
    let world = run.world().await?;
    let call = run.case.call();
    // The first streams bring the process to its working size; these are read for a while.
    for _ in 0..4 {
        let call = Call {
            leave_after_events: Some(5_000),
            ..call.clone()
        };
        call.send(world.gateway.addr).await;
    }
    let before = world.gateway.resident_bytes()?;
    let mut one = stalled(&world, &call).await?;
    let grown = growth(&world, before).await?;
    run.expect(
        grown <= 8 * MIB,
        format!(
            "memory grew by {} KiB for a client that reads nothing",
            grown / 1024
        ),
    );
    let vendor = world.vendor("A")?;
    let held = vendor
        .requests()
        .last()
        .is_some_and(|request| request.answered.is_none());
    run.expect(
        held,
        "the vendor could write all of it: there is no back-pressure",
    );
    // It was alive all the time: what was held back comes when the client reads.
    let mut bytes = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(5), one.read(&mut bytes)).await;
    run.expect(
        matches!(read, Ok(Ok(count)) if count > 0),
        "nothing came when the client began to read",
    );
    let before = world.gateway.resident_bytes()?;
    let mut more = Vec::new();
    for _ in 0..STALLED {
        more.push(stalled(&world, &call).await?);
    }
    let each = growth(&world, before).await? / STALLED;
    run.expect(
        each < MIB,
        format!(
            "memory grew by {} KiB for each of {STALLED} more such clients",
            each / 1024
        ),
    );
    Ok(())
}

/// A client that sends its request and reads nothing.
async fn stalled(world: &World, call: &Call) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(world.gateway.addr).await?;
    let head = request_head(&call.path, &[], call.body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&call.body).await?;
    Ok(stream)
}

/// The most that the gateway's memory grows in three seconds.
async fn growth(world: &World, before: u64) -> anyhow::Result<u64> {
    let mut peak = before;
    for _ in 0..60 {
        sleep(Duration::from_millis(50)).await;
        peak = peak.max(world.gateway.resident_bytes()?);
    }
    Ok(peak.saturating_sub(before))
}

pub(super) async fn label_values(run: &mut Run<'_>) -> anyhow::Result<()> {
    const REQUESTS: usize = 100_000;
    const CONNECTIONS: usize = 16;
    let world = run
        .world_recording(ok_vendor(), Recording::Count, |_| {})
        .await?;
    let addr = world.gateway.addr;
    let body = |model: &str, n: usize| {
        format!(
            r#"{{"model":"{model}","user":"u-{n}","messages":[{{"role":"user","content":"hi"}}]}}"#
        )
    };
    // Every label value that these requests can take shows once: served and refused.
    for model in ["m", "m-0"] {
        Call::post("/v1/chat/completions", body(model, 0))
            .send(addr)
            .await;
    }
    let before = series(&world.gateway).await;
    run.expect(before > 0, "no metrics at all");
    let mut sending = JoinSet::new();
    for part in 0..CONNECTIONS {
        sending.spawn(async move {
            let mut session = Session::new(addr);
            let mut answered = 0;
            for n in (part..REQUESTS).step_by(CONNECTIONS) {
                // Every tenth goes to the route, the others name models that do not exist.
                let model = if n % 10 == 0 {
                    "m".to_owned()
                } else {
                    format!("m-{n}")
                };
                let text = body(&model, n);
                answered += usize::from(
                    session
                        .post("/v1/chat/completions", &[], text.as_bytes())
                        .await
                        .is_ok(),
                );
            }
            answered
        });
    }
    let answered: usize = sending.join_all().await.into_iter().sum();
    run.expect(
        answered == REQUESTS,
        format!("{answered} of {REQUESTS} answered"),
    );
    let after = series(&world.gateway).await;
    run.expect(
        after <= before + 50,
        format!("{before} series became {after}"),
    );
    Ok(())
}

async fn series(gateway: &Gateway) -> usize {
    let text = gateway.ask("/metrics").await.text();
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count()
}

pub(super) async fn many_streams(run: &mut Run<'_>) -> anyhow::Result<()> {
    const STREAMS: usize = 10_000;
    const AT_ONCE: usize = 50;
    const BASELINE: usize = 2_000;
    let world = run
        .world_recording(run.case.scripts()?, Recording::Count, |_| {})
        .await?;
    let call = run.case.call();
    let wrong = streams(&call, &world, AT_ONCE, BASELINE).await;
    let before = world.gateway.resident_bytes()?;
    let wrong = wrong + streams(&call, &world, AT_ONCE, STREAMS - BASELINE).await;
    let after = world.gateway.resident_bytes()?;
    run.expect(
        wrong == 0,
        format!("{wrong} of {STREAMS} streams were not whole"),
    );
    let grown = after.saturating_sub(before) * 100 / before.max(1);
    run.expect(
        grown <= 10,
        format!("memory grew by {grown} % from {} KiB", before / 1024),
    );
    Ok(())
}

/// Streams over kept connections; how many lacked their end mark.
async fn streams(call: &Call, world: &World, at_once: usize, count: usize) -> usize {
    let mut sending = JoinSet::new();
    for part in 0..at_once {
        let (addr, path, body) = (world.gateway.addr, call.path.clone(), call.body.clone());
        sending.spawn(async move {
            let mut session = Session::new(addr);
            let mut wrong = 0;
            for _ in (part..count).step_by(at_once) {
                let whole = session.post(&path, &[], &body).await.is_ok_and(|answer| {
                    answer.status == 200 && answer.body.ends_with(b"data: [DONE]\n\n")
                });
                wrong += usize::from(!whole);
            }
            wrong
        });
    }
    sending.join_all().await.into_iter().sum()
}

pub(super) async fn many_large_bodies(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run
        .world_recording(run.case.scripts()?, Recording::Count, |_| {})
        .await?;
    let body: Bytes = padded(mib(12.0)).into();
    let call = Call {
        body,
        timeout: Duration::from_mins(2),
        ..run.case.call()
    };
    let answers = send(&call, world.gateway.addr, 100).await;
    let count = |status: u16| {
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    let (served, refused) = (count(200), count(503));
    run.expect(
        served + refused == 100 && served > 0,
        format!("{served} served, {refused} refused with 503 of 100"),
    );
    let told = answers
        .iter()
        .filter(|answer| answer.status == 503)
        .all(|answer| answer.header("retry-after").is_some());
    run.expect(told, "a 503 came without retry-after");
    let peak = peak_bytes(world.gateway.pid())? / MIB;
    run.expect(peak <= 1_400, format!("peak memory {peak} MiB"));
    let after = Call {
        body: padded(1024).into(),
        ..call
    }
    .send(world.gateway.addr)
    .await;
    run.expect(
        after.status == 200,
        format!("status {} afterwards", after.status),
    );
    Ok(())
}

pub(super) async fn burst(run: &mut Run<'_>) -> anyhow::Result<()> {
    const BURST: usize = 512;
    let world = run.world().await?;
    let call = Arc::new(run.case.call());
    let answers = send_each((0..BURST).map(|_| Arc::clone(&call)), world.gateway.addr).await;
    let answered = answers
        .iter()
        .filter(|answer| [200, 503].contains(&answer.status))
        .count();
    run.expect(
        answered == BURST,
        format!("{answered} of {BURST} answered with 200 or 503"),
    );
    let broken =
        |answer: &&Answer| matches!(answer.ended, Ended::Reset | Ended::Refused | Ended::Cut);
    let resets = answers.iter().filter(broken).count();
    run.expect(
        resets == 0,
        format!("{resets} connections were reset, refused or cut"),
    );
    Ok(())
}

pub(super) async fn saturated_pool(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let call = run.case.call();
    let answers = send(&call, world.gateway.addr, 20).await;
    let refused: Vec<&Answer> = answers
        .iter()
        .filter(|answer| answer.status == 503)
        .collect();
    run.expect(
        !refused.is_empty(),
        "nothing was refused, so the pool was never saturated",
    );
    let told = refused
        .iter()
        .all(|answer| answer.header("retry-after").is_some());
    run.expect(told, "a 503 came without retry-after");
    let most = world.vendor("A")?.connections();
    run.expect(
        most <= 4,
        format!("{most} connections to a vendor with a pool of 4"),
    );
    let after = call.send(world.gateway.addr).await;
    run.expect(
        after.status == 200,
        format!(
            "status {} afterwards: saturation cooled the target",
            after.status
        ),
    );
    Ok(())
}

pub(super) async fn added_latency(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run
        .world_recording(run.case.scripts()?, Recording::Count, |_| {})
        .await?;
    let vendor = world.vendor("A")?.addr();
    for (size, rounds, most) in [(0.001, 200, 2.0), (0.5, 200, 5.0), (8.0, 40, 40.0)] {
        let body = padded(mib(size));
        let (mut direct, mut through) = (Session::new(vendor), Session::new(world.gateway.addr));
        let (mut base, mut whole) = (Vec::new(), Vec::new());
        for round in 0..rounds + 5 {
            let direct = timed(&mut direct, &body).await?;
            let through = timed(&mut through, &body).await?;
            if round >= 5 {
                base.push(direct);
                whole.push(through);
            }
        }
        let added = median(whole) - median(base);
        run.expect(
            added < most,
            format!("{size} MiB: {added:.2} ms added at the median, under {most} wanted"),
        );
    }
    Ok(())
}

async fn timed(session: &mut Session, body: &str) -> anyhow::Result<f64> {
    let begun = clock::now();
    let answer = session
        .post("/v1/chat/completions", &[], body.as_bytes())
        .await?;
    anyhow::ensure!(answer.status == 200, "status {}", answer.status);
    Ok(clock::now().saturating_duration_since(begun).as_secs_f64() * 1000.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The case runs for an hour of fake time; the same number of requests is sent in half a minute.
pub(super) async fn even_balance(run: &mut Run<'_>) -> anyhow::Result<()> {
    const REQUESTS: usize = 6_000;
    const PER_SECOND: u64 = 200;
    let world = run
        .world_recording(run.case.scripts()?, Recording::Count, |settings| {
            // Clients that leave are no failures of the target.
            settings.route("on_disconnect", "cancel");
        })
        .await?;
    let (addr, call) = (world.gateway.addr, run.case.call());
    let mut sending = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    for number in 0..REQUESTS {
        tick.tick().await;
        let mut call = call.clone();
        if number % 10 < 3 {
            call.leave_after = Some(Duration::from_millis(100));
        }
        sending.spawn(async move { (call.leave_after.is_some(), call.send(addr).await) });
    }
    let answers = sending.join_all().await;
    let failed = answers
        .iter()
        .filter(|(leaves, answer)| !leaves && answer.status != 200)
        .count();
    run.expect(
        failed == 0,
        format!("{failed} requests of clients that stayed failed"),
    );
    let counts: Vec<u64> = world
        .vendors
        .values()
        .map(crate::vendor::Vendor::request_count)
        .collect();
    let even = REQUESTS as u64 / 4;
    let fair = counts.iter().all(|count| count.abs_diff(even) * 10 <= even);
    run.expect(
        fair,
        format!("the targets got {counts:?}, {even} each wanted"),
    );
    sleep(Duration::from_millis(500)).await;
    let mut metrics = world.gateway.ask("/metrics").await;
    for _ in 0..10 {
        if metrics.status == 200 {
            break;
        }
        sleep(Duration::from_millis(200)).await;
        metrics = world.gateway.ask("/metrics").await;
    }
    run.expect(
        metrics.status == 200,
        format!("/metrics gave {} and {:?}", metrics.status, metrics.ended),
    );
    let metrics = metrics.text();
    let flying: Vec<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains("in_flight"))
        .collect();
    let zero = !flying.is_empty() && flying.iter().all(|line| line.ends_with(" 0"));
    run.expect(zero, format!("in-flight metrics at the end: {flying:?}"));
    Ok(())
}
