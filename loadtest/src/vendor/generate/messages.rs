//! `/v1/messages`, whole and streaming, and `/v1/messages/count_tokens`.
//!
//! This vendor caches what is marked, not what it happens to know: a prompt counts as cacheable up
//! to the last block with `cache_control`, or whole where the request itself has it. Marks are no
//! part of the prompt, so that one which moves on with the conversation loses nothing.

use serde_json::{Map, Value, json};

use super::super::script::Reply;
use super::super::stub::{event, paced};
use super::{Say, Turn, pace_ms, pieces, squeeze, tokens_of, whole_ms};

/// A prompt as this vendor sees it.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    /// Tools, system and messages, in this order.
    pub(super) bytes: Vec<u8>,
    /// The end of what is marked for the cache.
    pub(super) marked: usize,
    /// Whether the last mark asks for an hour instead of five minutes.
    pub(super) hour: bool,
}

impl Prompt {
    /// Reads a request's body, which is JSON.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut prompt = Self::default();
        let Ok(Value::Object(mut request)) = serde_json::from_slice(body) else {
            return prompt;
        };
        let whole = request.remove("cache_control");
        for field in ["tools", "system", "messages"] {
            match request.remove(field) {
                Some(Value::Array(items)) => items.into_iter().for_each(|item| prompt.add(item)),
                Some(other) => prompt.add(other),
                None => {}
            }
        }
        prompt.mark(whole.as_ref());
        prompt
    }

    /// A tool, a block, or a message with its blocks.
    fn add(&mut self, mut item: Value) {
        let mark = item.as_object_mut().and_then(unmarked);
        let content = item.get_mut("content").map(Value::take);
        squeeze(&item.to_string(), &mut self.bytes);
        match content {
            Some(Value::Array(blocks)) => blocks.into_iter().for_each(|block| self.add(block)),
            Some(other) => squeeze(&other.to_string(), &mut self.bytes),
            None => {}
        }
        self.mark(mark.as_ref());
    }

    fn mark(&mut self, mark: Option<&Value>) {
        if let Some(mark) = mark.filter(|mark| !mark.is_null()) {
            self.marked = self.bytes.len();
            self.hour = mark.get("ttl").is_some_and(|ttl| ttl == "1h");
        }
    }
}

fn unmarked(fields: &mut Map<String, Value>) -> Option<Value> {
    fields.remove("cache_control")
}

/// What of a prompt came from the cache and what went into it, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cached {
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) hour: bool,
}

pub(super) fn answer(turn: &Turn<'_>, cached: Cached) -> Reply {
    let usage = usage(turn, cached);
    if turn.streams {
        return stream(turn, usage);
    }
    let (block, reason) = said(turn);
    let mut message = message(turn, usage, turn.say.tokens());
    if let Some(fields) = message.as_object_mut() {
        fields.insert("content".to_owned(), json!([block]));
        fields.insert("stop_reason".to_owned(), json!(reason));
    }
    Reply::json(200, message).after_ms(whole_ms(turn))
}

pub(super) fn count(prompt: &Prompt) -> Reply {
    let tokens = tokens_of(prompt.bytes.len()).max(1);
    Reply::json(200, json!({"input_tokens": tokens}))
}

/// An error in Anthropic's shape.
pub(super) fn refusal(status: u16, message: &str) -> Reply {
    let kind = if status == 404 {
        "not_found_error"
    } else {
        "invalid_request_error"
    };
    Reply::json(
        status,
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": null}),
    )
}

/// The three counts of input are disjoint.
fn usage(turn: &Turn<'_>, cached: Cached) -> Value {
    let (short, long) = if cached.hour {
        (0, cached.written)
    } else {
        (cached.written, 0)
    };
    let rest = turn
        .prompt_tokens
        .saturating_sub(cached.read)
        .saturating_sub(cached.written);
    json!({
        "input_tokens": rest,
        "cache_read_input_tokens": cached.read,
        "cache_creation_input_tokens": cached.written,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "service_tier": "standard",
    })
}

/// A message of which nothing is said yet.
fn message(turn: &Turn<'_>, mut usage: Value, output_tokens: u64) -> Value {
    if let Some(fields) = usage.as_object_mut() {
        fields.insert("output_tokens".to_owned(), json!(output_tokens));
    }
    json!({
        "id": format!("msg_{:06}", turn.number), "type": "message", "role": "assistant",
        "model": turn.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage,
    })
}

/// The one block of an answer and why the model stopped behind it.
fn said(turn: &Turn<'_>) -> (Value, &'static str) {
    match &turn.say {
        Say::Call {
            name, arguments, ..
        } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            (called(turn, name, &input), "tool_use")
        }
        Say::Text { tokens, cut } => (
            json!({"type": "text", "text": tokens.concat()}),
            if *cut { "max_tokens" } else { "end_turn" },
        ),
    }
}

fn called(turn: &Turn<'_>, name: &str, input: &Value) -> Value {
    let id = format!("toolu_{:06}", turn.number);
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn stream(turn: &Turn<'_>, usage: Value) -> Reply {
    let (_, reason) = said(turn);
    let (opened, deltas): (Value, Vec<Value>) = match &turn.say {
        Say::Call {
            name, arguments, ..
        } => (
            called(turn, name, &json!({})),
            pieces(arguments)
                .into_iter()
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
        ),
        Say::Text { tokens, .. } => (
            json!({"type": "text", "text": ""}),
            tokens
                .iter()
                .map(|token| json!({"type": "text_delta", "text": token}))
                .collect(),
        ),
    };
    let mut events = vec![
        json!({"type": "message_start", "message": message(turn, usage, 1)}),
        json!({"type": "content_block_start", "index": 0, "content_block": opened}),
        json!({"type": "ping"}),
    ];
    let delta = |delta| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    events.extend(deltas.into_iter().map(delta));
    events.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": turn.say.tokens()}}),
        json!({"type": "message_stop"}),
    ]);
    let named = |data: Value| {
        let name = data.get("type").and_then(Value::as_str);
        event(name.unwrap_or_default(), &data)
    };
    paced(
        turn.rules.first_token_ms,
        pace_ms(turn.rules),
        events.into_iter().map(named).collect(),
    )
}
