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

const MESSAGES: &str = "/v1/messages?beta=true";

fn counted(usage: &Value) -> [u64; 3] {
    ["input", "cache_read_input", "cache_creation_input"]
        .map(|count| usage[format!("{count}_tokens")].as_u64().unwrap())
}

#[test]
fn messages_are_cached_as_far_as_they_are_marked() {
    let generating = generating();
    let long = "y".repeat(8_000);
    let mut messages = Vec::new();
    let mut usages = Vec::new();
    for turn in 0..3 {
        let mut asked = messages.clone();
        let block = json!({"type": "text", "text": format!("turn {turn}")});
        let mut marked = block.clone();
        marked["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
        asked.push(json!({"role": "user", "content": [marked]}));
        messages.push(json!({"role": "user", "content": [block]}));
        let body = json!({"model": "m", "max_tokens": 99, "system": long, "messages": asked});
        usages.push(ask(&generating, MESSAGES, &body).body.unwrap()["usage"].clone());
    }
    let whole: Vec<u64> = usages
        .iter()
        .map(|usage| counted(usage).iter().sum())
        .collect();
    let read: Vec<u64> = usages.iter().map(|usage| counted(usage)[1]).collect();
    assert_eq!(read, [0, 1920, 1920]);
    for (usage, whole) in usages.iter().zip(whole) {
        let [input, read, written] = counted(usage);
        assert_eq!((input, read + written), (0, whole));
        assert_eq!(
            usage["cache_creation"]["ephemeral_1h_input_tokens"],
            written
        );
        assert_eq!(usage["cache_creation"]["ephemeral_5m_input_tokens"], 0);
    }
}

#[test]
fn messages_without_a_mark_are_not_cached() {
    let generating = generating();
    let body = json!({"model": "m", "max_tokens": 99,
        "messages": [{"role": "user", "content": "y".repeat(8_000)}]});
    for _ in 0..2 {
        let usage = ask(&generating, MESSAGES, &body).body.unwrap()["usage"].clone();
        let [input, read, written] = counted(&usage);
        assert!(input > 2_000 && (read, written) == (0, 0), "{usage}");
        let count = ask(&generating, "/v1/messages/count_tokens", &body);
        assert_eq!(count.body.unwrap()["input_tokens"], input);
    }
}

#[test]
fn an_agent_of_messages_calls_its_tools_in_turn_and_then_speaks() {
    let generating = generating();
    let schema =
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tools = json!([{"name": "read", "input_schema": schema}, {"name": "list", "input_schema": {"type": "object"}}]);
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    let mut said = Vec::new();
    for _ in 0..3 {
        let body = json!({"model": "m", "max_tokens": 99, "messages": messages, "tools": tools,
            "tool_choice": {"type": "auto"}});
        let answer = ask(&generating, MESSAGES, &body).body.unwrap();
        let block = answer["content"][0].clone();
        said.push((
            answer["stop_reason"].clone(),
            block["name"].clone(),
            block["input"].clone(),
        ));
        messages.push(json!({"role": "assistant", "content": [block]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_000007", "content": "done"}]}));
    }
    assert_eq!(
        said,
        [
            (json!("tool_use"), json!("read"), json!({"path": ""})),
            (json!("tool_use"), json!("list"), json!({})),
            (json!("end_turn"), Value::Null, Value::Null),
        ]
    );
}

#[test]
fn a_stream_of_messages_has_every_event_in_order() {
    let generating = generating();
    let body = json!({"model": "m", "max_tokens": 2, "stream": true,
        "messages": [{"role": "user", "content": "x"}]});
    let events = texts(&ask(&generating, MESSAGES, &body));
    let names: Vec<&str> = events
        .iter()
        .map(|event| event.lines().next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "event: message_start",
            "event: content_block_start",
            "event: ping",
            "event: content_block_delta",
            "event: content_block_delta",
            "event: content_block_stop",
            "event: message_delta",
            "event: message_stop",
        ]
    );
    assert!(events[6].contains(r#""stop_reason":"max_tokens""#));
    assert!(events[6].contains(r#""output_tokens":2"#));
}

#[test]
fn messages_are_refused_in_their_own_shape() {
    let generating = generating();
    let reply = ask(
        &generating,
        MESSAGES,
        &json!({"model": "m", "messages": []}),
    );
    assert_eq!(reply.status, 400);
    let body = reply.body.unwrap();
    assert_eq!(
        (&body["type"], &body["error"]["type"]),
        (&json!("error"), &json!("invalid_request_error"))
    );
}
