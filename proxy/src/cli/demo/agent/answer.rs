//! An answer taken apart: what the model said, and how the answer ended.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use whippletree_loadtest::client::{self, Ended};

/// An answer as the agent saw it.
#[derive(Clone, Debug, Serialize)]
pub(in crate::cli::demo) struct Seen {
    pub(in crate::cli::demo) request_id: String,
    pub(in crate::cli::demo) status: u16,
    /// The body came to its proper end.
    pub(in crate::cli::demo) ended: bool,
    /// Events of a stream, its end marker left out.
    pub(in crate::cli::demo) events: usize,
    /// Those that brought text or a part of a tool call.
    pub(in crate::cli::demo) content_events: usize,
    /// The stream's `[DONE]` came.
    pub(in crate::cli::demo) done: bool,
    /// Tools that the model called.
    pub(in crate::cli::demo) tools: Vec<String>,
    /// An error, as a status or as an event.
    pub(in crate::cli::demo) error: Option<Told>,
    /// What the answer says of another try.
    pub(in crate::cli::demo) should_retry: Option<String>,
    /// When the answer had ended or was left.
    #[serde(skip)]
    pub(in crate::cli::demo) until: Instant,
}

/// An error as the agent was told of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::cli::demo) struct Told {
    pub(in crate::cli::demo) code: Option<String>,
    pub(in crate::cli::demo) message: String,
}

impl Told {
    /// The code, or that there is none.
    pub(in crate::cli::demo) fn code(&self) -> &str {
        self.code.as_deref().unwrap_or("none")
    }
}

/// What the model said.
#[derive(Debug, Default)]
pub(super) struct Said {
    text: String,
    pub(super) calls: Vec<ToolCall>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A whole answer, or one chunk of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire {
    choices: Vec<Choice>,
    error: Option<Told>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    #[serde(alias = "delta")]
    message: Message,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    content: Option<String>,
    tool_calls: Option<Vec<Part>>,
}

/// A tool call, or a part of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    index: Option<usize>,
    id: Option<String>,
    function: Function,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

impl Said {
    /// The message as it goes into the conversation.
    pub(super) fn message(self) -> Value {
        let calls: Vec<Value> = self
            .calls
            .into_iter()
            .map(|call| {
                let ToolCall {
                    id,
                    name,
                    arguments,
                } = call;
                json!({ "id": id, "type": "function",
                        "function": { "name": name, "arguments": arguments } })
            })
            .collect();
        if calls.is_empty() {
            json!({ "role": "assistant", "content": self.text })
        } else {
            json!({ "role": "assistant", "content": null, "tool_calls": calls })
        }
    }

    /// Takes in a message or a part of one; whether it said anything. A part without an index is a
    /// call of its own.
    fn add(&mut self, message: Message) -> bool {
        let before = self.text.len();
        self.text.push_str(&message.content.unwrap_or_default());
        let mut spoke = self.text.len() > before;
        for part in message.tool_calls.unwrap_or_default() {
            let index = part.index.unwrap_or(usize::MAX).min(self.calls.len());
            if index == self.calls.len() {
                self.calls.push(ToolCall::default());
            }
            if let Some(call) = self.calls.get_mut(index) {
                call.id.push_str(&part.id.unwrap_or_default());
                let Function { name, arguments } = part.function;
                call.name.push_str(&name.unwrap_or_default());
                call.arguments.push_str(&arguments.unwrap_or_default());
            }
            spoke = true;
        }
        spoke
    }
}

pub(super) fn take_apart(answer: &client::Answer) -> (Seen, Said) {
    let header = |name: &str| answer.header(name).map(str::to_owned);
    let mut seen = Seen {
        request_id: header("x-wt-request-id").unwrap_or_default(),
        status: answer.status,
        ended: answer.ended == Ended::Clean,
        events: 0,
        content_events: 0,
        done: false,
        tools: Vec::new(),
        error: None,
        should_retry: header("x-should-retry"),
        until: answer.ended_at,
    };
    let mut said = Said::default();
    let streams = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    if streams {
        for event in answer.events() {
            if event.data == "[DONE]" {
                seen.done = true;
                continue;
            }
            seen.events += 1;
            let chunk: Wire = serde_json::from_str(&event.data).unwrap_or_default();
            seen.content_events += usize::from(read(chunk, &mut seen.error, &mut said));
        }
    } else {
        let whole: Wire = serde_json::from_slice(&answer.body()).unwrap_or_default();
        read(whole, &mut seen.error, &mut said);
    }
    seen.tools = said.calls.iter().map(|call| call.name.clone()).collect();
    (seen, said)
}

/// Takes in the first choice, and an error where there is one; whether anything was said.
fn read(wire: Wire, error: &mut Option<Told>, said: &mut Said) -> bool {
    if error.is_none() {
        *error = wire.error;
    }
    let first = wire.choices.into_iter().next();
    first.is_some_and(|choice| said.add(choice.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_is_put_together_from_its_parts() {
        let (mut said, mut error) = (Said::default(), None);
        let mut spoke = Vec::new();
        for delta in [
            json!({ "role": "assistant", "content": "" }),
            json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "" } }] }),
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"x\":" } }] }),
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "1}" } }] }),
        ] {
            let chunk = json!({ "choices": [{ "index": 0, "delta": delta }] });
            let chunk = serde_json::from_value(chunk).unwrap();
            spoke.push(read(chunk, &mut error, &mut said));
        }
        assert_eq!(spoke, [false, true, true, true]);
        assert!(error.is_none());
        let message = said.message();
        assert_eq!(message["tool_calls"][0]["id"], "a");
        let arguments = &message["tool_calls"][0]["function"]["arguments"];
        assert_eq!(arguments, "{\"x\":1}");
    }
}
