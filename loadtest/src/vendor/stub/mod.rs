//! Stub vendors: the smallest valid answer in a dialect, whole or streaming as it was asked for.

mod strict;

use serde_json::{Value, json};

use super::answer::Asked;
use super::script::{Headers, Reply, ScriptError, Write};

/// Each stub and the dialect it answers in.
const STUBS: [(&str, Dialect); 13] = [
    ("anthropic_ok", Dialect::Anthropic),
    ("anthropic_strict", Dialect::Anthropic),
    ("bedrock_ok", Dialect::Bedrock),
    ("bedrock_strict", Dialect::Bedrock),
    ("gemini_ok", Dialect::Gemini),
    ("gemini_strict_thought_signature", Dialect::Gemini),
    ("max_4_cache_control", Dialect::Anthropic),
    ("openai_ok", Dialect::Chat),
    ("rejects_cache_ttl", Dialect::Bedrock),
    ("rejects_max_tokens", Dialect::Chat),
    ("rejects_temperature_with_top_p", Dialect::Bedrock),
    ("requires_reasoning_content", Dialect::Chat),
    ("responses_ok", Dialect::Responses),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Anthropic,
    Bedrock,
    Chat,
    Gemini,
    Responses,
}

fn dialect(stub: &str) -> Option<Dialect> {
    STUBS
        .iter()
        .find(|(name, _)| *name == stub)
        .map(|(_, dialect)| *dialect)
}

/// Whether there is a stub of this name.
pub(super) fn check(name: &str) -> Result<(), ScriptError> {
    if dialect(name).is_some() {
        Ok(())
    } else {
        Err(ScriptError::UnknownStub(name.to_owned()))
    }
}

/// The stub's answer to this request.
pub(super) fn answer(reply: &Reply, asked: Asked<'_>) -> Reply {
    let request: Value = serde_json::from_slice(asked.body).unwrap_or_default();
    let streams = request
        .get("stream")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let model = request
        .get("model")
        .and_then(Value::as_str)
        .unwrap_or("m")
        .to_owned();
    let usage = reply.usage.clone();
    let stub = reply.stub.as_deref().unwrap_or_default();
    let dialect = dialect(stub).unwrap_or(Dialect::Chat);
    let made = match dialect {
        _ if let Some(fault) = strict::fault(stub, reply.strict_schema, &request) => {
            Reply::json(400, refusal(dialect, &fault))
        }
        Dialect::Anthropic if streams => anthropic_stream(&model, usage),
        Dialect::Anthropic => Reply::json(200, anthropic(&model, usage)),
        Dialect::Bedrock => Reply::json(200, bedrock(usage)),
        Dialect::Gemini if asked.path.contains("streamGenerateContent") => {
            Reply::events([format!("data: {}\n\n", gemini(&model, usage))])
        }
        Dialect::Gemini => Reply::json(200, gemini(&model, usage)),
        Dialect::Responses if streams => responses_stream(&model, usage),
        Dialect::Responses => Reply::json(200, responses(&model, "completed", usage)),
        Dialect::Chat if streams => openai_stream(&model, usage, &request),
        Dialect::Chat => Reply::json(200, openai(&model, usage)),
    };
    let mut headers = made.headers;
    headers.0.extend(reply.headers.0.clone());
    Reply {
        headers,
        end: reply.end,
        sleep_ms: reply.sleep_ms,
        gzip: reply.gzip,
        ..made
    }
}

fn refusal(dialect: Dialect, message: &str) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        }
        Dialect::Bedrock => json!({"message": message}),
        Dialect::Gemini => {
            json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
        }
        Dialect::Chat | Dialect::Responses => {
            json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}})
        }
    }
}

fn openai(model: &str, usage: Option<Value>) -> Value {
    json!({
        "id": "chatcmpl-ok", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": usage.unwrap_or_else(openai_usage),
    })
}

fn openai_usage() -> Value {
    json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6})
}

fn openai_stream(model: &str, usage: Option<Value>, request: &Value) -> Reply {
    let chunk = |choices: Value| json!({"id": "chatcmpl-ok", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices});
    let mut events = vec![
        data(&chunk(
            json!([{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": null}]),
        )),
        data(&chunk(
            json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        )),
    ];
    if request
        .pointer("/stream_options/include_usage")
        .and_then(Value::as_bool)
        .unwrap_or(false)
    {
        let mut last = chunk(json!([]));
        if let Some(last) = last.as_object_mut() {
            last.insert("usage".to_owned(), usage.unwrap_or_else(openai_usage));
        }
        events.push(data(&last));
    }
    events.push("data: [DONE]\n\n".to_owned());
    Reply::events(events)
}

fn anthropic(model: &str, usage: Option<Value>) -> Value {
    json!({
        "id": "msg_ok", "type": "message", "role": "assistant", "model": model,
        "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": usage.unwrap_or_else(|| json!({"input_tokens": 5, "output_tokens": 1})),
    })
}

fn anthropic_stream(model: &str, usage: Option<Value>) -> Reply {
    let usage = usage.unwrap_or_else(|| json!({"input_tokens": 5, "output_tokens": 1}));
    let output = usage.get("output_tokens").cloned().unwrap_or(json!(1));
    Reply::events([
        event(
            "message_start",
            &json!({"type": "message_start", "message": {
                "id": "msg_ok", "type": "message", "role": "assistant", "model": model, "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": usage}}),
        ),
        event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}}),
        ),
        event(
            "content_block_stop",
            &json!({"type": "content_block_stop", "index": 0}),
        ),
        event(
            "message_delta",
            &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                "usage": {"output_tokens": output}}),
        ),
        event("message_stop", &json!({"type": "message_stop"})),
    ])
}

fn responses(model: &str, status: &str, usage: Option<Value>) -> Value {
    json!({
        "id": "resp_ok", "object": "response", "created_at": 1, "status": status, "model": model,
        "output": [{"id": "msg_ok", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}]}],
        "usage": usage.unwrap_or_else(|| json!({
            "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 6})),
    })
}

fn responses_stream(model: &str, usage: Option<Value>) -> Reply {
    let opened = json!({"id": "resp_ok", "object": "response", "created_at": 1, "status": "in_progress",
        "model": model, "output": []});
    let item = json!({"id": "msg_ok", "type": "message", "role": "assistant", "status": "in_progress", "content": []});
    let part = json!({"type": "output_text", "text": "", "annotations": []});
    let whole = responses(model, "completed", usage);
    let done_item = whole.pointer("/output/0").cloned().unwrap_or_default();
    let events = [
        json!({"type": "response.created", "response": opened}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.content_part.added", "item_id": "msg_ok", "output_index": 0, "content_index": 0, "part": part}),
        json!({"type": "response.output_text.delta", "item_id": "msg_ok", "output_index": 0, "content_index": 0, "delta": "ok"}),
        json!({"type": "response.output_text.done", "item_id": "msg_ok", "output_index": 0, "content_index": 0, "text": "ok"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": done_item}),
        json!({"type": "response.completed", "response": whole}),
    ];
    Reply::events(numbered(events))
}

fn gemini(model: &str, usage: Option<Value>) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage.unwrap_or_else(|| json!({
            "promptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 6})),
        "modelVersion": model,
    })
}

fn bedrock(usage: Option<Value>) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
        "stopReason": "end_turn", "metrics": {"latencyMs": 1},
        "usage": usage.unwrap_or_else(|| json!({"inputTokens": 5, "outputTokens": 1, "totalTokens": 6})),
    })
}

/// One OpenAI event.
pub(super) fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// One named event.
pub(super) fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// Responses events with their sequence numbers, named by their type.
pub(super) fn numbered(events: impl IntoIterator<Item = Value>) -> Vec<String> {
    events
        .into_iter()
        .enumerate()
        .map(|(number, mut value)| {
            if let Some(fields) = value.as_object_mut() {
                fields.insert("sequence_number".to_owned(), json!(number));
            }
            let name = value
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            event(&name, &value)
        })
        .collect()
}

/// An event stream from events with a pause before each.
pub(super) fn paced(first_ms: u64, every_ms: u64, events: Vec<String>) -> Reply {
    let mut writes = Vec::with_capacity(events.len() * 2);
    for (number, event) in events.into_iter().enumerate() {
        let sleep_ms = if number == 0 { first_ms } else { every_ms };
        if sleep_ms > 0 {
            writes.push(Write::Sleep { sleep_ms });
        }
        writes.push(Write::Text(event));
    }
    Reply {
        headers: Headers::of([("content-type", "text/event-stream")]),
        writes: Some(writes),
        ..Reply::default()
    }
}
