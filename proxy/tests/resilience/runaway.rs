//! An agent run that gets nowhere is stopped before it costs more.

use serde_json::json;
use whippletree_loadtest::client::Call;

use crate::world::{World, ask, code, counted, fails, says};

fn of_task(call: Call, task: &str) -> Call {
    call.header("x-wt-task", task)
}

#[tokio::test]
async fn the_same_request_over_and_over_is_stopped_and_another_passes() {
    let world = World::new([says("x")], "runaway = { identical_requests = 3 }").await;
    for _ in 0..3 {
        assert_eq!(world.send(&of_task(ask("q"), "t")).await.status, 200);
    }
    let stopped = world.send(&of_task(ask("q"), "t")).await;
    assert_eq!(
        (stopped.status, code(&stopped).as_str()),
        (429, "runaway_task")
    );
    assert_eq!(stopped.header("x-should-retry"), Some("false"));
    assert_eq!(
        stopped.json()["error"]["message"],
        "this task sent the same request 3 times, so it is stopped: another request is served; the \
         limit is routes.m.runaway.identical_requests"
    );
    assert_eq!(world.vendor.requests().len(), 3);
    assert_eq!(world.send(&of_task(ask("other"), "t")).await.status, 200);
    assert_eq!(world.send(&of_task(ask("q"), "u")).await.status, 200);
    let records = world.exchanges(6).await;
    // Requests of one millisecond are in no order.
    let refused: Vec<_> = records
        .iter()
        .filter(|r| r["outcome"] == "refused")
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0]["error"], "runaway_task");
}

#[tokio::test]
async fn an_agent_that_repeats_a_tool_call_is_stopped_though_its_history_grows() {
    let world = World::new([says("x")], "").await;
    let mut messages = vec![json!({"role": "user", "content": "q"})];
    let mut statuses = Vec::new();
    for turn in 0..6 {
        let id = format!("call_{turn}");
        messages.push(json!({"role": "assistant", "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"p\":1}"}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "no such file"}));
        let body = json!({"model": "m", "messages": messages});
        let call = Call::post("/v1/chat/completions", body.to_string());
        let answer = world
            .send(&call.header("x-claude-code-session-id", "s"))
            .await;
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
}

#[tokio::test]
async fn a_run_that_keeps_failing_is_stopped() {
    let route = "retry = { max_attempts = 1 }\nrunaway = { failures_in_a_row = 2 }
breaker = { min_requests = 1000 }";
    let world = World::new([fails(500)], route).await;
    for text in ["a", "b"] {
        assert_eq!(world.send(&of_task(ask(text), "t")).await.status, 502);
    }
    let stopped = world.send(&of_task(ask("c"), "t")).await;
    assert_eq!(code(&stopped), "runaway_task");
    assert_eq!(world.vendor.requests().len(), 2);
}

#[tokio::test]
async fn plain_clients_and_an_sdks_own_retries_are_not_stopped() {
    let world = World::new([says("x")], "runaway = { identical_requests = 1 }").await;
    for _ in 0..3 {
        assert_eq!(world.send(&ask("q")).await.status, 200);
    }
    for count in 1..3 {
        let retry = of_task(counted(ask("q"), count), "t");
        assert_eq!(world.send(&retry).await.status, 200);
    }
}
