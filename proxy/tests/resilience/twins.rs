//! A client's own retry joins the call that runs, or hears its answer again; nothing is paid twice.

use std::time::Duration;

use whippletree_loadtest::client::Ended;
use whippletree_loadtest::vendor::Reply;

use crate::world::{World, ask, ask_stream, code, counted, ending, fails, says, streams, text_of};

const IMPATIENT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn an_sdk_whose_timer_was_shorter_joins_the_call_that_runs() {
    let world = World::new([says("once").after_ms(900), says("twice")], "").await;
    let mut first = counted(ask("q"), 0).header("x-stainless-timeout", "0.2");
    first.leave_after = Some(IMPATIENT);
    assert_eq!(world.send(&first).await.ended, Ended::Left);
    let second = world.send(&counted(ask("q"), 1)).await;
    assert_eq!(second.status, 200, "{}", second.text());
    assert!(second.text().contains("once"));
    assert_eq!(world.vendor.requests().len(), 1);
    let repeats = second.header("x-wt-repeats").unwrap();
    assert!(repeats.starts_with("joined; of="), "{repeats}");

    let records = world.exchanges(2).await;
    let (first, second) = match records[0]["outcome"].as_str() {
        Some("client_gone") => (&records[0], &records[1]),
        _ => (&records[1], &records[0]),
    };
    assert_eq!(first["outcome"], "client_gone");
    assert_eq!(first["usage"]["output_tokens"], 3);
    assert_ne!(first["cost_usd"], "0");
    assert_eq!(second["outcome"], "ok");
    assert_eq!(second["repeats"]["kind"], "joined");
    assert_eq!(second["repeats"]["of"], first["request_id"]);
    assert_eq!(second["attempts"].as_array().unwrap().len(), 0);
    assert_eq!(second["cost_usd"], "0");
    let metrics = world.metrics().await;
    assert!(metrics.contains("whippletree_repeats_total{kind=\"joined\"} 1"));
}

#[tokio::test]
async fn a_client_that_leaves_before_its_timer_is_taken_at_its_word() {
    let world = World::new([says("late").after_ms(5_000)], "").await;
    let mut first = counted(ask("q"), 0).header("x-stainless-timeout", "60");
    first.leave_after = Some(IMPATIENT);
    world.send(&first).await;
    let cancelled = |r: &[whippletree_loadtest::vendor::Request]| {
        r.iter().any(|request| request.disconnected.is_some())
    };
    assert!(
        world
            .vendor
            .wait_until(Duration::from_secs(3), cancelled)
            .await
    );
}

#[tokio::test]
async fn an_answer_is_given_again_for_its_idempotency_key_and_refused_for_another_body() {
    let world = World::new([says("once"), says("twice")], "").await;
    let keyed = |text| ask(text).header("idempotency-key", "k-1");
    let first = world.send(&keyed("q")).await;
    let again = world.send(&keyed("q")).await;
    assert_eq!(again.body(), first.body());
    assert!(
        again
            .header("x-wt-repeats")
            .unwrap()
            .starts_with("replayed; of=")
    );
    assert_eq!(again.header("x-wt-cost-usd"), Some("0"));
    assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    let other = world.send(&keyed("another")).await;
    assert_eq!(
        (other.status, code(&other).as_str()),
        (422, "idempotency_key_reused")
    );
    assert_eq!(other.header("x-should-retry"), Some("false"));
    assert_eq!(world.vendor.requests().len(), 1);
}

#[tokio::test]
async fn equal_requests_that_are_no_retries_are_all_asked() {
    let world = World::new([says("x")], "").await;
    for _ in 0..3 {
        assert_eq!(world.send(&counted(ask("q"), 0)).await.status, 200);
        assert_eq!(world.send(&ask("q")).await.status, 200);
    }
    assert_eq!(world.vendor.requests().len(), 6);
}

#[tokio::test]
async fn a_stream_is_joined_from_its_beginning() {
    let world = World::new([streams(&["a", "b", "c", "d"], 150)], "").await;
    let mut first = ask_stream("q").header("idempotency-key", "k");
    first.leave_after_events = Some(2);
    assert_eq!(world.send(&first).await.ended, Ended::Left);
    let second = world
        .send(&ask_stream("q").header("idempotency-key", "k"))
        .await;
    assert_eq!(text_of(&second), "abcd");
    assert!(second.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(world.vendor.requests().len(), 1);
    let third = world
        .send(&ask_stream("q").header("idempotency-key", "k"))
        .await;
    assert_eq!(third.body(), second.body());
    assert!(
        third
            .header("x-wt-repeats")
            .unwrap()
            .starts_with("replayed")
    );
    let records = world.exchanges(3).await;
    let paid: Vec<_> = records.iter().filter(|r| r["cost_usd"] != "0").collect();
    assert_eq!(paid.len(), 1, "{records:?}");
    assert_eq!(paid[0]["outcome"], "client_gone");
}

#[tokio::test]
async fn a_failure_is_told_again_when_no_attempt_is_left_and_continued_when_some_are() {
    let world = World::new([fails(500)], "retry = { max_attempts = 2, base = \"1ms\" }").await;
    let first = world.send(&counted(ask("q"), 0)).await;
    assert_eq!((first.status, world.vendor.requests().len()), (502, 2));
    for count in 1..3 {
        let again = world.send(&counted(ask("q"), count)).await;
        assert_eq!((again.status, code(&again)), (502, code(&first)));
        assert_eq!(again.header("x-should-retry"), Some("false"));
    }
    assert_eq!(world.vendor.requests().len(), 2);

    // One ambiguous outcome is enough for the route, so no attempt is left of four.
    let never = "retry = { max_attempts = 4, base = \"1ms\", ambiguous = \"never\" }";
    let world = World::new([Reply::none(whippletree_loadtest::vendor::End::Cut)], never).await;
    for count in 0..3 {
        assert_eq!(world.send(&counted(ask("q"), count)).await.status, 502);
    }
    assert_eq!(world.vendor.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_too_large_to_keep_is_not_made_again() {
    let long = "x".repeat(9 << 20);
    let world = World::new([says(&long), says("twice")], "").await;
    let keyed = || ask("q").header("idempotency-key", "k");
    assert_eq!(world.send(&keyed()).await.status, 200);
    // A whole answer is one chunk, which is kept however long it is; a stream is not.
    assert_eq!(world.send(&keyed()).await.status, 200);
    let event = crate::world::delta(&"y".repeat(1 << 20));
    let events = std::iter::repeat_n(event, 10).chain(ending());
    let world = World::new([Reply::events(events), says("twice")], "").await;
    let keyed = || ask_stream("q").header("idempotency-key", "k");
    assert_eq!(world.send(&keyed()).await.status, 200);
    let again = world.send(&keyed()).await;
    assert_eq!(
        (again.status, code(&again).as_str()),
        (409, "answer_not_kept")
    );
    assert_eq!(again.header("x-should-retry"), Some("false"));
    assert_eq!(world.vendor.requests().len(), 1);
}
