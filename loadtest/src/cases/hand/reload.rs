//! K6: a configuration that changes under load, or would like to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::super::config::Settings;
use super::super::run::Run;
use super::super::world::{World, free_port};
use crate::client::{Call, Ended};
use crate::clock;
use crate::vendor::{Reply, Script};

fn ask(model: &str) -> Call {
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    Call {
        timeout: Duration::from_secs(5),
        ..Call::post("/v1/chat/completions", body)
    }
}

fn vendors() -> BTreeMap<String, Script> {
    BTreeMap::from([("A".to_owned(), Script::replies([Reply::stub("openai_ok")]))])
}

async fn reload(world: &World) -> u16 {
    let call = Call {
        method: "POST".to_owned(),
        ..Call::get("/admin/v1/reload")
    };
    call.send(world.gateway.admin).await.status
}

async fn status(world: &World) -> Value {
    world.gateway.ask("/admin/v1/config").await.json()
}

/// The case speaks of paths; here a route is the model's name.
pub(super) async fn routes_and_port(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run
        .world_of(vendors(), |settings| *settings = Settings::new("one"))
        .await?;
    let old_port = world.gateway.addr;
    let new_port = free_port()?;
    let before = ask("one").send(old_port).await.status;
    run.expect(
        before == 200,
        format!("P/one gave {before} before the reload"),
    );
    world
        .gateway
        .write_config(&Settings::new("two"), new_port)?;
    let asked = clock::now();
    let answered = reload(&world).await;
    run.expect(
        (200..300).contains(&answered),
        format!("reload gave {answered}"),
    );
    let mut added = ask("two").send(new_port).await;
    while added.status != 200
        && clock::now().saturating_duration_since(asked) < Duration::from_secs(1)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
        added = ask("two").send(new_port).await;
    }
    run.expect(
        added.status == 200,
        format!("Q/two gave {} within a second", added.status),
    );
    let removed = ask("one").send(new_port).await;
    run.expect(
        removed.status == 404,
        format!("Q/one gave {}", removed.status),
    );
    // A connection that was on its way when the listener closed is reset rather than refused.
    let mut closed = ask("two").send(old_port).await;
    while closed.ended != Ended::Refused
        && clock::now().saturating_duration_since(asked) < Duration::from_secs(1)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
        closed = ask("two").send(old_port).await;
    }
    run.expect(
        closed.ended == Ended::Refused,
        format!("P gave {} and {:?}", closed.status, closed.ended),
    );
    let shown = status(&world).await;
    let text = shown.to_string();
    run.expect(
        text.contains("two") && !text.contains("\"one\""),
        "the admin view does not show what is served",
    );
    Ok(())
}

pub(super) async fn refused(run: &mut Run<'_>) -> anyhow::Result<()> {
    let world = run.world_of(vendors(), |_| {}).await?;
    let before = status(&world).await;
    let hash = before.get("hash").cloned().unwrap_or_default();
    run.expect(
        hash.is_string(),
        format!("the configuration's hash is {hash}"),
    );
    let good = std::fs::read_to_string(world.gateway.config_path())?;
    std::fs::write(
        world.gateway.config_path(),
        format!("{good}\n[routes.m2]\ntargets = [\"nobody/m\"]\n"),
    )?;
    let answered = reload(&world).await;
    run.expect(
        answered >= 400,
        format!("reloading an invalid file gave {answered}"),
    );
    let after = status(&world).await;
    run.expect(
        after.get("hash") == Some(&hash),
        "the refused file's hash is shown as applied",
    );
    run.expect(
        after
            .get("last_error")
            .is_some_and(|error| !error.is_null()),
        "no reload error is shown",
    );
    run.expect(
        !after.to_string().contains("sk-vendor-a"),
        "a secret stands in the view",
    );
    metric(run, &world, 0).await;
    let served = ask("m").send(world.gateway.addr).await.status;
    run.expect(
        served == 200,
        format!("status {served} after the refused reload"),
    );
    std::fs::write(world.gateway.config_path(), good)?;
    let answered = reload(&world).await;
    run.expect(
        (200..300).contains(&answered),
        format!("reloading the mended file gave {answered}"),
    );
    metric(run, &world, 1).await;
    Ok(())
}

async fn metric(run: &mut Run<'_>, world: &World, wanted: u8) {
    let metrics = world.gateway.ask("/metrics").await.text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("whippletree_config_last_reload_successful"));
    let shows = line.is_some_and(|line| line.ends_with(&format!(" {wanted}")));
    run.expect(shows, format!("the metric says {line:?}, {wanted} wanted"));
}
