//! By which rule each attempt is charged: the record says who failed and what that costs.

use std::time::Duration;

use serde_json::{Value, json};
use whippletree_loadtest::client::Call;
use whippletree_loadtest::vendor::{End, Reply};

use super::world::{World, ask, ask_stream, delta, fails, says, streams};

const ONE_TRY: &str = "[routes.m.retry]\nmax_attempts = 1";

/// Each kind of answer: its rule, and whether an estimate is charged.
#[tokio::test]
async fn the_record_says_by_which_rule_an_attempt_was_charged() {
    let mut unreported = says("hello");
    if let Some(Value::Object(body)) = &mut unreported.body {
        body.remove("usage");
    }
    let cut = Reply::events([delta("hello")]).ending(End::Cut);
    let silent = Reply::events([": nothing yet\n\n"]).ending(End::Hang);
    let rows = [
        (ask("a"), says("hello"), "reported", false),
        (ask("b"), unreported, "unreported", true),
        (ask("c"), fails(500), "vendor_failed_before_content", false),
        (ask("d"), fails(504), "perhaps_served", true),
        (ask("e"), Reply::none(End::Reset), "perhaps_served", true),
        (ask_stream("f"), streams(&["hello"], 0), "reported", false),
        (ask_stream("g"), cut, "interrupted_after_content", true),
        (
            ask_stream("h"),
            silent,
            "vendor_failed_before_content",
            false,
        ),
    ];
    for (call, reply, rule, estimated) in rows {
        let settings = format!("{ONE_TRY}\n[providers.a.timeouts]\nidle = \"200ms\"");
        let world = World::new([reply], &settings).await;
        world.send(&call).await;
        compare(&world, rule, estimated).await;
    }
}

#[tokio::test]
async fn who_leaves_in_the_middle_of_a_vendors_work_pays_for_it() {
    let begun = Reply::events([": nothing yet\n\n"]).ending(End::Hang);
    let spoken = Reply::events([delta("hello")]).ending(End::Hang);
    let rows = [
        (Reply::none(End::Hang), "client_left_before_answer", false),
        (begun, "client_left", true),
        (spoken, "client_left", true),
    ];
    for (reply, rule, estimated) in rows {
        let world = World::new([reply], ONE_TRY).await;
        let leaving = Call {
            leave_after: Some(Duration::from_millis(300)),
            ..ask_stream("hi")
        };
        world.send(&leaving).await;
        compare(&world, rule, estimated).await;
    }
}

async fn compare(world: &World, rule: &str, estimated: bool) {
    let exchange = world.exchanges(1).await.remove(0);
    let attempt = &exchange["attempts"][0];
    assert_eq!(attempt["rule"], rule, "{exchange}");
    let free = !estimated && rule != "reported";
    assert_eq!(attempt["cost_usd"] == "0", free, "{rule}: {exchange}");
    assert_eq!(attempt["usage"].is_null(), free, "{rule}: {exchange}");
    let marked = attempt["usage"]["estimated"].as_bool().unwrap_or_default();
    assert_eq!(marked, estimated, "{rule}: {exchange}");
    let admin = world.gateway.admin_address();
    let ledger = Call::get("/admin/v1/ledger").send(admin).await.json();
    assert_eq!(ledger["entries"][0]["rule"], rule, "{ledger}");
    assert_eq!(
        ledger["entries"][0]["cost_usd"], attempt["cost_usd"],
        "{ledger}"
    );
}

#[tokio::test]
async fn a_price_that_stands_in_for_a_missing_one_is_marked() {
    let mut cached = says("hello");
    if let Some(body) = &mut cached.body {
        body["usage"]["prompt_tokens_details"] = json!({"cached_tokens": 4});
    }
    for (reply, stands_in) in [(says("hello"), false), (cached, true)] {
        // The rule for unknown models of this gateway has an input and an output price alone.
        let world = World::new([reply], ONE_TRY).await;
        world.send(&ask("hi")).await;
        let exchange = world.exchanges(1).await.remove(0);
        assert_eq!(
            exchange["attempts"][0]["price_fallback"], stands_in,
            "{exchange}"
        );
        let admin = world.gateway.admin_address();
        let ledger = Call::get("/admin/v1/ledger").send(admin).await.json();
        assert_eq!(
            ledger["entries"][0]["price_fallback"], stands_in,
            "{ledger}"
        );
    }
}
