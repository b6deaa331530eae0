//! `commit = "complete"`: the answer is held, and the connection is kept alive meanwhile.

use whippletree_loadtest::vendor::{End, Reply};

use crate::world::{World, ask_stream, delta, fails, streams, text_of};

const HELD: &str = "commit = \"complete\"\nkeepalive = \"100ms\"\nretry = { base = \"1ms\" }";

#[tokio::test]
async fn comments_flow_while_a_broken_stream_is_tried_again_unseen() {
    let broken = Reply::events([delta("half")]).ending(End::Cut);
    let world = World::new([broken.after_ms(350), streams(&["a", "b"], 150)], HELD).await;
    let answer = world.send(&ask_stream("q")).await;
    assert_eq!((answer.status, text_of(&answer).as_str()), (200, "ab"));
    assert!(answer.text().starts_with(": keep-alive\n"));
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(world.vendor.requests().len(), 2);
}

#[tokio::test]
async fn a_failure_has_its_status_at_first_and_is_an_event_later() {
    let once = "retry = { max_attempts = 1 }";
    let route = format!("commit = \"complete\"\nkeepalive = \"100ms\"\n{once}");
    let world = World::new([fails(500)], &route).await;
    assert_eq!(world.send(&ask_stream("q")).await.status, 502);

    let world = World::new([fails(500).after_ms(350)], &route).await;
    let answer = world.send(&ask_stream("q")).await;
    assert_eq!(answer.status, 200);
    let last = answer.events().pop().unwrap();
    let data: serde_json::Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!(data["error"]["code"], "server_error");
    assert!(!answer.text().contains("[DONE]"));
}
