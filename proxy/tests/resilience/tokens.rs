//! Tokens per minute: what a call may use at most is held, and what it did not use comes back.

use serde_json::json;
use whippletree_loadtest::client::Call;
use whippletree_loadtest::vendor::Reply;

use crate::world::{World, ask, code, fails, says};

/// A key that the tenant brings; its hash stands in the configuration.
const KEY: &str = "Bearer a-key-of-sixteen-bytes-and-more";

/// A thousand tokens a minute, of which a call may take nine hundred.
const ROUTE: &str = r#"max_output = 900
retry = { max_attempts = 1 }
[tenants.acme]
limits = { tokens_per_minute = 1_000 }
[[tenants.acme.keys]]
name = "ci"
sha256 = "457aef2b59310881e2778d292c92f891e432c6a2ac779038bce617f9668f1b6b""#;

async fn world_of(target: &str, replies: impl IntoIterator<Item = Reply>) -> World {
    let route = format!("{ROUTE}\n{target}");
    World::new(replies, &route).await
}

async fn world(replies: impl IntoIterator<Item = Reply>) -> World {
    world_of("", replies).await
}

fn keyed(call: Call) -> Call {
    call.header("authorization", KEY)
}

#[tokio::test]
async fn a_call_that_used_little_or_failed_leaves_the_rest_to_others() {
    let world = world([says("a"), fails(500), says("b"), says("c")]).await;
    let mut statuses = Vec::new();
    for text in ["a", "x", "b", "c"] {
        statuses.push(world.send(&keyed(ask(text))).await.status);
    }
    assert_eq!(statuses, [200, 502, 200, 200]);
}

#[tokio::test]
async fn past_the_limit_a_client_is_told_when_to_come_back_and_no_vendor_is_asked() {
    let world = world([long()]).await;
    assert_eq!(world.send(&keyed(ask("a"))).await.status, 200);
    let refused = world.send(&keyed(ask("b"))).await;
    assert_eq!(
        (refused.status, code(&refused).as_str()),
        (429, "rate_limit_exceeded")
    );
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("tokens_per_minute = 1000"), "{message}");
    assert_eq!(world.vendor.requests().len(), 1);
    // A call that allows itself little still fits.
    let body =
        json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "c"}]});
    let small = Call::post("/v1/chat/completions", body.to_string());
    assert_eq!(world.send(&keyed(small)).await.status, 200);
}

#[tokio::test]
async fn no_more_is_held_than_the_target_can_write() {
    let little = "[targets.\"a/m\"]\nmax_output_tokens = 20";
    let world = world_of(little, [long(), says("x")]).await;
    assert_eq!(world.send(&keyed(ask("a"))).await.status, 200);
    assert_eq!(world.send(&keyed(ask("b"))).await.status, 200);
}

/// An answer that takes most of a minute's tokens.
fn long() -> Reply {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 900, "total_tokens": 910},
    });
    Reply::json(200, body)
}
