//! `/v1/chat/completions`, whole and streaming.

use serde_json::{Value, json};

use super::super::script::Reply;
use super::super::stub::{data, paced};
use super::{Say, Turn, created, pace_ms, whole_ms};

pub(super) fn answer(turn: &Turn<'_>) -> Reply {
    if turn.streams {
        stream(turn)
    } else {
        whole(turn)
    }
}

pub(super) fn usage(turn: &Turn<'_>) -> Value {
    let output = turn.say.tokens();
    json!({
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": output,
        "total_tokens": turn.prompt_tokens + output,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

fn whole(turn: &Turn<'_>) -> Reply {
    let (message, finish) = match &turn.say {
        Say::Call {
            id,
            name,
            arguments,
        } => (
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}),
            "tool_calls",
        ),
        Say::Text { tokens, cut } => (
            json!({"role": "assistant", "content": tokens.concat()}),
            if *cut { "length" } else { "stop" },
        ),
    };
    let body = json!({
        "id": format!("chatcmpl-{:06}", turn.number), "object": "chat.completion", "created": created(),
        "model": turn.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": usage(turn), "service_tier": "default",
    });
    Reply::json(200, body).after_ms(whole_ms(turn))
}

fn stream(turn: &Turn<'_>) -> Reply {
    let at = created();
    let id = format!("chatcmpl-{:06}", turn.number);
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = json!({"id": id, "object": "chat.completion.chunk", "created": at, "model": turn.model,
            "choices": choices});
        if let (true, Some(fields)) = (turn.include_usage, chunk.as_object_mut()) {
            fields.insert("usage".to_owned(), usage.unwrap_or(Value::Null));
        }
        data(&chunk)
    };
    let delta = |delta: Value| {
        chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            None,
        )
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    let finish = match &turn.say {
        Say::Call {
            id,
            name,
            arguments,
        } => {
            events.push(delta(json!({"tool_calls": [
                {"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]})));
            for piece in super::pieces(arguments) {
                events.push(delta(
                    json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
                ));
            }
            "tool_calls"
        }
        Say::Text { tokens, cut } => {
            events.extend(tokens.iter().map(|token| delta(json!({"content": token}))));
            if *cut { "length" } else { "stop" }
        }
    };
    let pace = pace_ms(turn.rules);
    let mut reply = paced(turn.rules.first_token_ms, pace, events);
    let mut tail = vec![chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
        None,
    )];
    if turn.include_usage {
        tail.push(chunk(json!([]), Some(usage(turn))));
    }
    tail.push("data: [DONE]\n\n".to_owned());
    if let (Some(writes), Some(more)) = (&mut reply.writes, paced(0, 0, tail).writes) {
        writes.extend(more);
    }
    reply
}
