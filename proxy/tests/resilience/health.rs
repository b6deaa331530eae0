//! What breaks behind the commit point counts in the target's health.

use whippletree_loadtest::client::Call;
use whippletree_loadtest::vendor::{End, Reply};

use crate::world::{World, ask_stream, delta, text_of};

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
