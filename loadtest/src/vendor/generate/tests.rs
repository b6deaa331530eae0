use bytes::Bytes;

use super::super::script::Write;
use super::*;

fn ask(generating: &Generating, path: &str, body: &Value) -> Reply {
    let body = Bytes::from(body.to_string());
    generating.answer(Asked {
        number: 7,
        method: "POST",
        path,
        body: &body,
    })
}

fn generating() -> Generating {
    Generating::new(Generator {
        first_token_ms: 0,
        tokens_per_second: 0,
        ..Generator::default()
    })
}

fn texts(reply: &Reply) -> Vec<String> {
    reply
        .writes
        .iter()
        .flatten()
        .filter_map(|write| {
            if let Write::Text(text) = write {
                Some(text.clone())
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn a_longer_conversation_reports_its_beginning_as_cached() {
    let generating = generating();
    let long = "y".repeat(8_000);
    let mut messages = vec![json!({"role": "system", "content": long})];
    let mut cached = Vec::new();
    for turn in 0..3 {
        messages.push(json!({"role": "user", "content": format!("turn {turn}")}));
        let reply = ask(
            &generating,
            "/v1/chat/completions",
            &json!({"model": "m", "messages": messages}),
        );
        cached.push(
            reply
                .body
                .unwrap()
                .pointer("/usage/prompt_tokens_details/cached_tokens")
                .unwrap()
                .as_u64()
                .unwrap(),
        );
    }
    assert_eq!(cached, [0, 1920, 1920]);
}

#[test]
fn an_agent_calls_its_tools_in_turn_and_then_speaks() {
    let generating = generating();
    let tools = json!([
        {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}},
        {"type": "function", "function": {"name": "list"}}
    ]);
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    let mut said = Vec::new();
    for _ in 0..3 {
        let reply = ask(
            &generating,
            "/v1/chat/completions",
            &json!({"model": "m", "messages": messages, "tools": tools}),
        );
        let message = reply
            .body
            .unwrap()
            .pointer("/choices/0/message")
            .cloned()
            .unwrap();
        said.push(
            message
                .pointer("/tool_calls/0/function")
                .cloned()
                .unwrap_or(json!("text")),
        );
        messages.push(message);
        messages.push(json!({"role": "tool", "tool_call_id": "call_000007", "content": "done"}));
    }
    assert_eq!(
        said,
        [
            json!({"name": "read", "arguments": "{\"path\":\"\"}"}),
            json!({"name": "list", "arguments": "{}"}),
            json!("text")
        ]
    );
}

#[test]
fn a_schema_is_met_and_a_limit_obeyed() {
    let generating = generating();
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}});
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": format});
    let reply = ask(&generating, "/v1/chat/completions", &body);
    assert_eq!(
        reply.body.unwrap().pointer("/choices/0/message/content"),
        Some(&json!("{\"a\":0}"))
    );
    let body =
        json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3});
    let answer = ask(&generating, "/v1/chat/completions", &body)
        .body
        .unwrap();
    assert_eq!(
        answer.pointer("/choices/0/finish_reason"),
        Some(&json!("length"))
    );
    assert_eq!(answer.pointer("/usage/completion_tokens"), Some(&json!(3)));
}

#[test]
fn a_stream_tells_usage_only_when_asked() {
    let generating = generating();
    let mut body =
        json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": true});
    let plain = texts(&ask(&generating, "/v1/chat/completions", &body)).concat();
    assert!(!plain.contains("usage") && plain.ends_with("data: [DONE]\n\n"));
    body["stream_options"] = json!({"include_usage": true});
    let counted = texts(&ask(&generating, "/v1/chat/completions", &body)).concat();
    assert_eq!(counted.matches("\"total_tokens\"").count(), 1);
}

#[test]
fn responses_stream_ends_with_the_whole_response() {
    let generating = generating();
    let body = json!({"model": "m", "input": "hi", "stream": true});
    let events = texts(&ask(&generating, "/v1/responses", &body));
    assert!(
        events
            .first()
            .unwrap()
            .starts_with("event: response.created\n")
    );
    assert!(
        events
            .last()
            .unwrap()
            .starts_with("event: response.completed\n")
    );
}

#[test]
fn equal_texts_have_equal_unit_vectors() {
    let generating = generating();
    let body = json!({"model": "m", "input": ["a", "a", "b"], "dimensions": 16});
    let answer = ask(&generating, "/v1/embeddings", &body).body.unwrap();
    let vector = |index: usize| {
        answer
            .pointer(&format!("/data/{index}/embedding"))
            .cloned()
            .unwrap()
    };
    assert_eq!(vector(0), vector(1));
    assert_ne!(vector(0), vector(2));
}

#[test]
fn white_space_between_tokens_is_no_part_of_the_prompt() {
    let mut out = Vec::new();
    squeeze("{ \"a b\" : [1,\n \"c\\\" d\"] }", &mut out);
    assert_eq!(out, b"{\"a b\":[1,\"c\\\" d\"]}");
}
