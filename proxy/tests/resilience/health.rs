//! What breaks behind the commit point counts in the target's health, and what a vendor's words mean.

use serde_json::json;
use whippletree_loadtest::client::Call;
use whippletree_loadtest::vendor::{End, Reply};

use crate::world::{World, ask, ask_stream, code, delta, text_of};

#[tokio::test]
async fn streams_that_break_behind_the_commit_point_open_the_breaker() {
    // Each is taken for a success when it begins, and for a failure when it breaks.
    let route = "breaker = { min_requests = 4, failure_ratio = 0.5, open_for = \"1h\" }";
    let broken = Reply::events([delta("half")]).ending(End::Cut);
    let world = World::new([broken], route).await;
    for _ in 0..2 {
        let answer = world.send(&ask_stream("q")).await;
        assert_eq!((answer.status, text_of(&answer).as_str()), (200, "half"));
        assert!(answer.text().contains("stream_interrupted"));
    }
    let admin = world.gateway.admin_address();
    let targets = Call::get("/admin/v1/targets").send(admin).await.json();
    assert_eq!(targets["targets"][0]["breaker"], "open", "{targets}");
    let metrics = world.metrics().await;
    let change = "whippletree_breaker_changes_total{change=\"opened\",target=\"a/m\"} 1";
    assert!(metrics.contains(change), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoints_own_words_have_the_meaning_that_is_configured() {
    let says = |kind: &str| {
        let error = json!({"message": "m", "type": kind, "param": null, "code": null});
        Reply::json(429, json!({ "error": error }))
    };
    let classes = "retry = { base = \"10ms\", cap = \"20ms\" }\n\
        [providers.a.error_classes]\nbusy_today = \"overloaded\"\nspent_today = \"quota_exhausted\"\n";
    let world = World::new([says("busy_today"), says("spent_today")], classes).await;
    let answer = world.send(&ask("hi")).await;
    assert_eq!(answer.status, 429);
    assert_eq!(code(&answer), "insufficient_quota");
    let exchange = world.exchanges(1).await.remove(0);
    let attempts = exchange["attempts"].as_array().unwrap();
    let seen: Vec<&str> = attempts
        .iter()
        .map(|attempt| attempt["class"].as_str().unwrap())
        .collect();
    assert_eq!(seen, ["overloaded", "quota_exhausted"]);
}
