//! Streams in OpenAI's dialect: chat completions, text completions and responses.
//!
//! Vendors' habits that this file knows (section H and D of the vendor facts, and recorded streams):
//! usage in a last chunk with empty `choices` (OpenAI, Together, vLLM), with the finish reason
//! (DeepSeek, Mistral), in every chunk and cumulative (xAI, Perplexity, vLLM on request), in
//! `choices[0].usage` (Moonshot), in `x_groq.usage` (Groq); a first chunk of Azure's with empty
//! `choices` and filter results; an error as `{"error": …}` in any chunk, with `event: error` (Groq),
//! flat with `"object": "error"` (older vLLM), or beside a finish reason `error` (OpenRouter); tool
//! calls without an `index` (Gemini) or with arguments that are an object; content that is a list
//! with thinking in it (Mistral).

mod chat;
mod responses;

use bytes::Bytes;
use serde_json::value::RawValue;

pub use self::chat::ChatDecoder;
pub use self::responses::ResponsesDecoder;
use super::dialects::Dialect;
use crate::anthropic::MessagesDecoder;
use crate::decoder::{Finish, StreamDecoder};
use crate::envelope::{Edits, Envelope};
use crate::provider::Api;
use crate::sse::Frame;

/// The decoder for streams of that API; `None` for one that does not stream.
pub fn decoder(dialect: &Dialect, api: Api) -> Option<Box<dyn StreamDecoder>> {
    match api {
        Api::Chat | Api::Completions => Some(Box::new(ChatDecoder::new(dialect))),
        Api::Messages => Some(Box::new(MessagesDecoder::new(dialect))),
        Api::Responses => Some(Box::new(ResponsesDecoder::new(dialect))),
        Api::CountTokens | Api::Embeddings => None,
    }
}

/// The same frame with every finish reason that it gives replaced, all other bytes as they were.
/// `None` when it gives none.
pub fn with_finish_reason(frame: &Frame, reason: &str) -> Option<Bytes> {
    let data = Envelope::parse(frame.data()?.clone()).ok()?;
    let mut edits = Edits::default();
    for choice in data.elements(data.field("choices")?.value) {
        for member in data.members(choice) {
            let given = member.value.of(data.body()).starts_with(b"\"");
            if given && data.name(&member) == "finish_reason" {
                edits.replace(member.value, format!("\"{reason}\""));
            }
        }
    }
    if edits.is_empty() {
        return None;
    }
    Some(frame.with_data(&edits.apply(&data).to_bytes()))
}

/// A raw string's inside, still escaped; `None` when the value is no string.
pub(crate) fn inside(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// What a raw string says.
pub(crate) fn text(raw: &RawValue) -> Option<String> {
    let inside = inside(raw)?;
    if inside.contains('\\') {
        // A lone surrogate, which JSON allows and a string cannot hold, leaves the escapes as they are.
        return Some(serde_json::from_str(raw.get()).unwrap_or_else(|_| inside.to_owned()));
    }
    Some(inside.to_owned())
}

/// How many bytes of text a value holds: a string, or a list of parts.
pub(crate) fn text_bytes(raw: Option<&RawValue>) -> u64 {
    let Some(raw) = raw else { return 0 };
    let length = match raw.get() {
        "\"\"" | "[]" | "{}" | "false" | "null" => 0,
        other => other.len().saturating_sub(2),
    };
    length as u64
}

/// Whether an `error` field means one: present, and true as a script would see it.
pub(super) fn is_error(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "0" | "\"\"" | "{}" | "[]"))
}

fn finish(raw: Option<&RawValue>) -> Option<Finish> {
    match inside(raw?)? {
        "" => None,
        "stop" | "eos" | "end_turn" | "stop_sequence" => Some(Finish::Stop),
        "length" | "max_tokens" | "model_length" => Some(Finish::Length),
        "tool_calls" | "function_call" | "tool_use" => Some(Finish::ToolCalls),
        "content_filter" | "refusal" | "sensitive" => Some(Finish::ContentFilter),
        "error" | "insufficient_system_resource" | "network_error" => Some(Finish::Error),
        _ => Some(Finish::Other),
    }
}
