//! K6: clients that send what they should not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::case::padded;
use super::super::run::{Run, mib, send};
use super::super::world::World;
use crate::client::{Answer, Call, Ended};
use crate::clock;
use crate::vendor::{Reply, Script, Vendor};
use crate::wire::Wire;

fn ok_vendor() -> BTreeMap<String, Script> {
    BTreeMap::from([("A".to_owned(), Script::replies([Reply::stub("openai_ok")]))])
}

fn chat() -> Call {
    Call::post(
        "/v1/chat/completions",
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
    )
}

/// The second request meets the vendor's reset, so that an error with a URL in it is made.
pub(super) async fn secret_in_failures(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    for _ in 0..2 {
        let answer = run.case.call().send(world.gateway.addr).await;
        run.expect(answer.status >= 400, format!("status {}", answer.status));
        run.expect(
            !answer.text().contains("PLANTEDSECRET"),
            "the planted secret stands in an answer",
        );
    }
    run.expect(
        !world.gateway.log().contains("PLANTEDSECRET"),
        "the planted secret stands in the log",
    );
    Ok(())
}

pub(super) async fn refused_keys(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run
        .world_of(ok_vendor(), |settings| {
            settings.tenant(super::super::config::CLIENT_KEY, None);
        })
        .await?;
    let long = format!("Bearer sk-{}", "k".repeat(10 * 1024));
    let variants = [
        ("unknown key", Some("Bearer sk-unknown-0001".to_owned())),
        ("no header", None),
        ("empty Bearer", Some("Bearer ".to_owned())),
        ("10 KiB key", Some(long)),
        ("non-ASCII key", Some("Bearer sk-schlüssel-é".to_owned())),
    ];
    let mut bodies = Vec::new();
    for (variant, value) in variants {
        let mut call = chat();
        if let Some(value) = value {
            call = call.header("authorization", &value);
        }
        let answer = call.send(world.gateway.addr).await;
        run.expect(
            answer.status == 401,
            format!("[{variant}] status {}", answer.status),
        );
        let mut body = answer.text();
        if let Some(id) = answer.header("x-request-id") {
            body = body.replace(id, "ID");
        }
        bodies.push((variant, body));
    }
    if let Some((_, first)) = bodies.first() {
        for (variant, body) in &bodies {
            run.expect(
                body == first,
                format!("[{variant}] the body differs: {body}"),
            );
        }
    }
    // A NUL cannot stand in a header: the request as a whole is malformed.
    let answer = chat()
        .header("authorization", "Bearer sk-\0-nul")
        .send(world.gateway.addr)
        .await;
    run.expect(
        [400, 401].contains(&answer.status),
        format!("[key with NUL] status {}", answer.status),
    );
    let reached = world.attempts();
    run.expect(
        reached == 0,
        format!("{reached} refused requests reached the vendor"),
    );
    Ok(())
}

/// The trap's port is fixed by the cases, so another run on this machine may hold it for a while.
async fn trap() -> anyhow::Result<Vendor> {
    let script = Script {
        listen: Some("127.0.0.1:9999".to_owned()),
        ..Script::default()
    };
    for _ in 0..100 {
        if let Ok(trap) = Vendor::start(script.clone()).await {
            return Ok(trap);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(Vendor::start(script).await?)
}

fn untouched(run: &mut Run<'_>, trap: &Vendor, variant: &str) {
    let count = trap.connections();
    run.expect(
        count == 0,
        format!("[{variant}] {count} connections to the trap"),
    );
}

pub(super) async fn host_in_path(run: &mut Run<'_>) -> anyhow::Result<()> {
    let trap = trap().await?;
    let world = run.world_of(ok_vendor(), |_| {}).await?;
    let places = [
        "127.0.0.1%3A9999%23",
        "us-central1%40127.0.0.1",
        "..%2f..",
        "us-central1.evil.example%2f",
    ];
    for place in places {
        let path =
            format!("/v1/projects/p/locations/{place}/publishers/google/models/g:generateContent");
        let call = Call {
            path,
            ..run.case.call()
        };
        let answer = call.send(world.gateway.addr).await;
        run.expect(
            answer.status == 400,
            format!("[{place}] status {}", answer.status),
        );
        untouched(run, &trap, place);
    }
    Ok(())
}

pub(super) async fn host_in_header(run: &mut Run<'_>) -> anyhow::Result<()> {
    let trap = trap().await?;
    let hosts = [
        "http://127.0.0.1:9999",
        "http://2130706433/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/",
        "http://rebinding.test:9999/",
    ];
    let world = run.world_of(ok_vendor(), |_| {}).await?;
    for host in hosts {
        let answer = chat()
            .header("x-custom-host", host)
            .send(world.gateway.addr)
            .await;
        run.expect(
            answer.status == 200,
            format!("[{host}] status {}", answer.status),
        );
        untouched(run, &trap, host);
    }
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
        "api_base": "http://127.0.0.1:9999", "base_url": "http://127.0.0.1:9999"});
    let answer = Call {
        body: body.to_string().into(),
        ..chat()
    }
    .send(world.gateway.addr)
    .await;
    run.expect(
        [200, 400].contains(&answer.status),
        format!("[body field] status {}", answer.status),
    );
    untouched(run, &trap, "body field api_base");
    let served = world.vendor("A")?.requests();
    let told = served
        .iter()
        .filter(|request| request.header("x-custom-host").is_some())
        .count();
    run.expect(
        told == 0,
        format!("{told} requests carried the header to the vendor"),
    );

    let moved = Reply {
        status: 302,
        ..Reply::default()
    }
    .header("location", "http://127.0.0.1:9999/");
    let world = run
        .world_of(
            BTreeMap::from([("A".to_owned(), Script::replies([moved]))]),
            |_| {},
        )
        .await?;
    let answer = chat().send(world.gateway.addr).await;
    run.expect(
        answer.status != 0 && answer.status != 200,
        format!("[redirect] status {}", answer.status),
    );
    untouched(run, &trap, "redirect");
    Ok(())
}

pub(super) async fn body_limit(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world().await?;
    let fits = Call {
        body: padded(mib(1.2)).into(),
        ..chat()
    };
    let answer = fits.send(world.gateway.addr).await;
    run.expect(
        answer.status == 200,
        format!("[1.2 MiB] status {}", answer.status),
    );

    let large: Bytes = padded(mib(33.0)).into();
    let variants = [
        (
            "33 MiB with Content-Length",
            Call {
                body: large.clone(),
                ..chat()
            },
        ),
        (
            "33 MiB chunked",
            Call {
                body: large.clone(),
                chunked: Some(64 * 1024),
                ..chat()
            },
        ),
        (
            "33 MiB with Expect",
            Call {
                body: large.clone(),
                expect_continue: true,
                ..chat()
            },
        ),
    ];
    for (variant, call) in variants {
        let answer = call.send(world.gateway.addr).await;
        run.expect(
            answer.status == 413,
            format!(
                "[{variant}] status {}, ended {:?}",
                answer.status, answer.ended
            ),
        );
        let error = answer.json();
        let message = error
            .pointer("/error/message")
            .and_then(|text| text.as_str())
            .unwrap_or_default();
        run.expect(
            !message.is_empty(),
            format!(
                "[{variant}] the body is no error of the dialect: {}",
                answer.text()
            ),
        );
        run.expect(
            answer.ended == Ended::Clean,
            format!("[{variant}] the answer ended as {:?}", answer.ended),
        );
        if variant.contains("Expect") {
            run.expect(
                !answer.continued,
                format!("[{variant}] the body was asked for"),
            );
        }
    }
    let answer = Call {
        body: Bytes::from_static(b"{\"model\":\"m\",\"messages\":["),
        ..chat()
    };
    let answer = answer.send(world.gateway.addr).await;
    run.expect(
        answer.status == 400,
        format!("[malformed JSON] status {}", answer.status),
    );
    let reached = world.attempts();
    run.expect(
        reached == 1,
        format!("{reached} requests reached the vendor"),
    );
    Ok(())
}

/// What became of a connection that sends slowly.
#[derive(Debug)]
struct Fate {
    status: Option<u16>,
    closed_after: Option<Duration>,
}

/// Sends `start`, then a byte of `rest` every so often until the peer closes or `limit` is over.
async fn dribble(
    addr: std::net::SocketAddr,
    start: &'static [u8],
    rest: u8,
    every: Duration,
    limit: Duration,
) -> Fate {
    let opened = clock::now();
    let nothing = Fate {
        status: None,
        closed_after: Some(Duration::ZERO),
    };
    let Ok(stream) = TcpStream::connect(addr).await else {
        return nothing;
    };
    let (read, mut write) = stream.into_split();
    let reading = async move {
        let mut wire = Wire::new(read);
        let status = wire
            .head()
            .await
            .ok()
            .flatten()
            .and_then(|head| head.status());
        wire.closed().await;
        status
    };
    let writing = async move {
        // A refused write shows on the reading side.
        let _ = write.write_all(start).await;
        loop {
            sleep(every).await;
            let _ = write.write_all(&[rest]).await;
        }
    };
    tokio::select! {
        status = reading => {
            Fate { status, closed_after: Some(clock::now().saturating_duration_since(opened)) }
        }
        () = writing => Fate { status: None, closed_after: None },
        () = sleep(limit) => Fate { status: None, closed_after: None },
    }
}

pub(super) async fn slow_senders(run: &mut Run<'_>) -> anyhow::Result<()> {
    const SOCKETS: usize = 2_000;
    let world = run
        .world_of(ok_vendor(), |settings| {
            settings.set("server.body_timeout", "3s");
        })
        .await?;
    let addr = world.gateway.addr;
    let every = Duration::from_secs(2);
    let mut slow = JoinSet::new();
    for _ in 0..SOCKETS {
        let limit = Duration::from_secs(25);
        slow.spawn(dribble(
            addr,
            b"POST /v1/chat/completions HTTP/1.1\r\nx-slow: ",
            b'a',
            every,
            limit,
        ));
    }
    sleep(Duration::from_secs(1)).await;
    let mut took = Vec::new();
    let mut failed = 0;
    for _ in 0..200 {
        let answer = chat().send(addr).await;
        failed += usize::from(answer.status != 200);
        took.push(answer.took());
        sleep(Duration::from_millis(30)).await;
    }
    took.sort();
    run.expect(failed == 0, format!("{failed} of 200 probes failed"));
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    run.expect(
        p99 < Duration::from_millis(100),
        format!("the probes' p99 is {p99:?}"),
    );
    let fates = slow.join_all().await;
    let open = fates
        .iter()
        .filter(|fate| fate.closed_after.is_none())
        .count();
    run.expect(
        open == 0,
        format!("{open} of {SOCKETS} slow sockets were never closed"),
    );
    let latest = fates
        .iter()
        .filter_map(|fate| fate.closed_after)
        .max()
        .unwrap_or_default();
    run.expect(
        latest < Duration::from_secs(14),
        format!("the last slow socket was closed after {latest:?}"),
    );
    variants(run, &world).await;
    Ok(())
}

async fn variants(run: &mut Run<'_>, world: &World) {
    let addr = world.gateway.addr;
    let slow_body: &[u8] =
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{";
    let unfinished: &[u8] =
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"mod\r\n";
    let pauses = [
        ("slow body", slow_body, Duration::from_secs(5)),
        (
            "unfinished chunked body",
            unfinished,
            Duration::from_mins(1),
        ),
    ];
    for (variant, start, every) in pauses {
        let fate = dribble(addr, start, b' ', every, Duration::from_secs(12)).await;
        run.expect(
            fate.closed_after.is_some(),
            format!("[{variant}] the connection stayed open"),
        );
        run.expect(
            fate.status == Some(408),
            format!("[{variant}] status {:?}", fate.status),
        );
    }
    let mut many = chat();
    for number in 0..300 {
        many = many.header(&format!("x-h{number}"), "v");
    }
    let long = chat().header("x-long", &"v".repeat(64 * 1024));
    for (variant, call) in [("300 headers", many), ("one 64 KiB header", long)] {
        let answer: Answer = call.send(addr).await;
        run.expect(
            answer.status == 431,
            format!(
                "[{variant}] status {}, ended {:?}",
                answer.status, answer.ended
            ),
        );
    }
    let answers = send(&Arc::new(chat()), addr, 4).await;
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    run.expect(
        served == 4,
        format!("{served} of 4 normal requests served afterwards"),
    );
}
