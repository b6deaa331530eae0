//! What the scripted vendors answer when they have a bad day, in OpenAI's words.

use serde_json::{Value, json};
use whippletree_loadtest::vendor::{End, Reply, Write};

/// Milliseconds between a stream's tokens.
const PACE_MS: u64 = 5;

/// No capacity; says nothing about when there will be.
pub(super) fn overloaded() -> Reply {
    error(
        503,
        "service_unavailable_error",
        None,
        "The engine is currently overloaded, please try again later",
    )
}

/// Too many requests, and how long to wait.
pub(super) fn rate_limited(seconds: u64) -> Reply {
    let message = format!("Rate limit reached. Please try again in {seconds}s.");
    error(429, "requests", Some("rate_limit_exceeded"), &message)
        .header("retry-after", &seconds.to_string())
}

/// The account is empty. The status is that of a rate limit.
pub(super) fn quota_exhausted() -> Reply {
    error(
        429,
        "insufficient_quota",
        Some("insufficient_quota"),
        "You exceeded your current quota, please check your plan and billing details.",
    )
}

/// The conversation is longer than the model can read.
pub(super) fn context_overflow(window: u64, messages: u64) -> Reply {
    let message = format!(
        "This model's maximum context length is {window} tokens. However, your messages resulted in \
         {messages} tokens. Please reduce the length of the messages."
    );
    error(
        400,
        "invalid_request_error",
        Some("context_length_exceeded"),
        &message,
    )
}

/// A stream that opens, says nothing and is reset.
pub(super) fn broken_before_the_first_token() -> Reply {
    Reply::events([opening()]).ending(End::Reset)
}

/// A stream that is cut after some tokens.
pub(super) fn broken_after(tokens: u64) -> Reply {
    stream(tokens, End::Cut)
}

/// A long answer, token by token.
pub(super) fn long_stream(tokens: u64) -> Reply {
    stream(tokens, End::Clean)
}

fn stream(tokens: u64, end: End) -> Reply {
    let mut reply = Reply::events([opening()]).ending(end);
    let mut rest = vec![
        Write::Repeat {
            repeat_every_ms: PACE_MS,
            write: chunk(&json!({ "content": "word" }), &Value::Null),
            times: tokens,
        },
        // What was written reaches the client before the end does.
        Write::Sleep {
            sleep_ms: PACE_MS * 4,
        },
    ];
    if end == End::Clean {
        rest.push(Write::Text(chunk(&json!({}), &json!("stop"))));
        rest.push(Write::Text("data: [DONE]\n\n".to_owned()));
    }
    reply.writes.get_or_insert_default().extend(rest);
    reply
}

/// The chunk that every stream begins with: a role, and nothing said yet.
fn opening() -> String {
    chunk(&json!({ "role": "assistant", "content": "" }), &Value::Null)
}

fn chunk(delta: &Value, finish: &Value) -> String {
    let chunk = json!({
        "id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 1, "model": "demo",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    });
    format!("data: {chunk}\n\n")
}

fn error(status: u16, kind: &str, code: Option<&str>, message: &str) -> Reply {
    Reply::json(
        status,
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }),
    )
}
