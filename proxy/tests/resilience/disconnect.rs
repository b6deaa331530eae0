//! What happens upstream when the client leaves.

use std::time::Duration;

use whippletree_loadtest::vendor::Request;

use crate::world::{World, ask, ask_stream, says, streams};

fn is_cancelled(requests: &[Request]) -> bool {
    requests.iter().any(|r| r.disconnected.is_some())
}

#[tokio::test]
async fn a_drained_stream_is_settled_by_its_usage_report() {
    let world = World::new(
        [streams(&["a", "b", "c"], 100)],
        "on_disconnect = \"drain\"",
    )
    .await;
    let mut call = ask_stream("q");
    call.leave_after_events = Some(1);
    world.send(&call).await;
    let record = &world.exchanges(1).await[0];
    assert_eq!(record["outcome"], "client_gone");
    assert_eq!(record["usage"]["output_tokens"], 3);
    assert_eq!(record["usage"]["estimated"], false);
    assert!(!is_cancelled(&world.vendor.requests()));
}

#[tokio::test]
async fn a_drained_whole_answer_is_settled_and_no_further_attempt_is_made() {
    let slow = says("x").after_ms(600);
    let world = World::new([slow], "on_disconnect = \"drain\"").await;
    let mut call = ask("q");
    call.leave_after = Some(Duration::from_millis(150));
    world.send(&call).await;
    let record = &world.exchanges(1).await[0];
    assert_eq!(record["outcome"], "client_gone");
    assert_eq!(record["usage"]["output_tokens"], 3);

    let fails = crate::world::fails(500).after_ms(600);
    let world = World::new([fails, says("x")], "on_disconnect = \"drain\"").await;
    world.send(&call).await;
    let record = &world.exchanges(1).await[0];
    assert_eq!(record["outcome"], "client_gone");
    assert_eq!(record["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(world.vendor.requests().len(), 1);
}

#[tokio::test]
async fn without_drain_the_vendor_is_told_at_once() {
    let world = World::new([streams(&["a", "b", "c"], 2_000)], "").await;
    let mut call = ask_stream("q");
    call.leave_after_events = Some(1);
    world.send(&call).await;
    assert!(
        world
            .vendor
            .wait_until(Duration::from_secs(3), is_cancelled)
            .await
    );
    let record = &world.exchanges(1).await[0];
    assert_eq!(record["usage"]["estimated"], true);
}
