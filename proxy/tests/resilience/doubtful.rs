//! What a vendor may have served and billed is booked, as an estimate.

use serde_json::Value;
use whippletree_loadtest::vendor::{End, Reply};

use crate::world::{World, ask, fails, says};

const QUICK: &str = "retry = { max_attempts = 3, base = \"1ms\" }";

/// The attempts of the only exchange.
async fn attempts(replies: impl IntoIterator<Item = Reply>) -> (Vec<Value>, String) {
    let world = World::new(replies, QUICK).await;
    world.send(&ask("a")).await;
    let exchange = world.exchanges(1).await.remove(0);
    let cost = exchange["cost_usd"].as_str().unwrap().to_owned();
    (exchange["attempts"].as_array().unwrap().clone(), cost)
}

#[tokio::test]
async fn a_request_that_vanished_is_taken_to_have_cost_what_its_repetition_cost() {
    let (attempts, cost) = attempts([Reply::none(End::Reset), says("a")]).await;
    let [lost, answered] = attempts.as_slice() else {
        panic!("{attempts:?}");
    };
    assert_eq!(
        lost["usage"]["input_tokens"],
        answered["usage"]["input_tokens"]
    );
    assert_eq!(lost["usage"]["output_tokens"], 3);
    assert_eq!(lost["usage"]["estimated"], true);
    assert_eq!(answered["usage"]["estimated"], false);
    assert_eq!(lost["cost_usd"], "0.000013");
    assert_eq!(cost, "0.000026");
}

#[tokio::test]
async fn a_request_that_vanished_for_good_is_taken_to_have_been_read() {
    let (attempts, _) = attempts([Reply::none(End::Reset)]).await;
    assert_eq!(attempts.len(), 2);
    for lost in attempts {
        assert_eq!(lost["usage"]["estimated"], true);
        assert!(lost["usage"]["input_tokens"].as_u64().unwrap() > 0);
        assert_eq!(lost["usage"]["output_tokens"], 0);
    }
}

#[tokio::test]
async fn a_vendor_that_says_no_has_billed_nothing() {
    let (attempts, cost) = attempts([fails(500), fails(429), says("a")]).await;
    assert_eq!(attempts[0]["usage"], Value::Null);
    assert_eq!(attempts[0]["cost_usd"], "0");
    assert_eq!(attempts[1]["usage"], Value::Null);
    assert_eq!(cost, "0.000013");
}
