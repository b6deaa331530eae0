//! Session logs of harnesses: conversations, not requests.
//!
//! Known forms: a trajectory `{"messages": […], "kind": "messages"}` with optional `tools`, mini-SWE-agent's
//! `.traj.json` (`messages`, `trajectory_format`), SWE-agent's `.traj` (`history`), tau-bench's runs
//! (`traj`), the sessions of pi (`{"type": "message", "message": …}` a line) and of Claude Code
//! (`{"type": "user" | "assistant", "message": …}` a line), and Codex's rollouts
//! (`{"type": "response_item", "payload": …}` a line).
//!
//! The requests are put together from it: each is what stood before an answer of the model. So a log
//! shows what a harness keeps, not what it sent: faults of serialisation and of fleets cannot be
//! seen in it, and cache marks are not in it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::trace::{Known, Request, milliseconds};

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Conversations found so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    done: Vec<Conversation>,
    /// Of logs that have one event a line.
    open: Option<Conversation>,
}

#[derive(Debug, Default)]
struct Conversation {
    list: &'static str,
    tools: Option<String>,
    messages: Vec<Message>,
    known: Known,
    /// When each answer was asked for, in milliseconds, as far as told beside the messages.
    asked: Vec<u64>,
    line: usize,
}

#[derive(Debug)]
struct Message {
    text: String,
    answers: bool,
    time_ms: Option<u64>,
}

/// Whether an object is a session log, or an event of one.
pub(super) fn is_log(fields: &Fields<'_>) -> bool {
    let is = |name: &str, value: &str| {
        fields
            .get(name)
            .is_some_and(|raw| raw.get().trim_matches('"') == value)
    };
    let has = |name: &str, start: char| {
        fields
            .get(name)
            .is_some_and(|raw| raw.get().starts_with(start))
    };
    (has("messages", '[') && (is("kind", "messages") || fields.contains_key("trajectory_format")))
        || has("history", '[')
        || has("traj", '[')
        || ((is("type", "message") || is("type", "user") || is("type", "assistant"))
            && has("message", '{'))
        || is("type", "response_item")
        || is("type", "session")
        || is("type", "session_meta")
        || is("type", "summary")
}

impl Log {
    pub(super) fn add(&mut self, fields: &Fields<'_>, known: &Known, line: usize, folder: &Path) {
        for name in ["messages", "history", "traj"] {
            if let Some(list) = fields.get(name) {
                let mut conversation = Conversation {
                    list: "messages",
                    tools: fields
                        .get("tools")
                        .and_then(|tools| tools_of(tools, folder)),
                    known: known.clone(),
                    asked: fields
                        .get("usage")
                        .map(|usage| asked(usage))
                        .unwrap_or_default(),
                    line,
                    ..Conversation::default()
                };
                for message in
                    serde_json::from_str::<Vec<&RawValue>>(list.get()).unwrap_or_default()
                {
                    conversation.push(message, None);
                }
                self.done.push(conversation);
                return;
            }
        }
        let text = |name: &str| {
            fields
                .get(name)
                .map(|raw| raw.get().trim_matches('"').to_owned())
                .unwrap_or_default()
        };
        match text("type").as_str() {
            "message" | "user" | "assistant" => {
                if let Some(message) = fields.get("message") {
                    self.open("messages", known, line)
                        .push(message, known.time_ms);
                }
            }
            "response_item" => {
                if let Some(item) = fields.get("payload") {
                    self.open("input", known, line).push(item, known.time_ms);
                }
            }
            // A new session begins.
            _ => self.done.extend(self.open.take()),
        }
    }

    fn open(&mut self, list: &'static str, known: &Known, line: usize) -> &mut Conversation {
        self.open.get_or_insert_with(|| Conversation {
            list,
            known: Known {
                time_ms: None,
                ..known.clone()
            },
            line,
            ..Conversation::default()
        })
    }

    /// The requests of all conversations.
    pub(super) fn requests(mut self, file: usize) -> Vec<Request> {
        self.done.extend(self.open.take());
        self.done
            .iter()
            .flat_map(|conversation| conversation.requests(file))
            .collect()
    }
}

impl Conversation {
    fn push(&mut self, message: &RawValue, time_ms: Option<u64>) {
        let Ok(value) = serde_json::from_str::<Value>(message.get()) else {
            return;
        };
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let role = text("role").or_else(|| text("type"));
        let Some(role) = role else { return };
        let answers = matches!(
            role,
            "assistant" | "function_call" | "reasoning" | "custom_tool_call"
        );
        if let Some(model) = text("model") {
            self.known.model.get_or_insert_with(|| model.to_owned());
        }
        self.messages.push(Message {
            text: message.get().to_owned(),
            answers,
            time_ms,
        });
    }

    /// Each run of messages before an answer.
    fn requests(&self, file: usize) -> Vec<Request> {
        let model = self.known.model.as_deref().unwrap_or("unknown");
        let mut head = format!("{{\"model\":{}", Value::from(model));
        if let Some(tools) = &self.tools {
            head.push_str(",\"tools\":");
            head.push_str(tools);
        }
        head.extend([",\"", self.list, "\":["]);
        let mut body = head;
        let mut requests = Vec::new();
        let mut answered = true;
        for (at, message) in self.messages.iter().enumerate() {
            if message.answers && !answered {
                let time_ms = self.asked.get(requests.len()).copied().or(message.time_ms);
                requests.push(Request {
                    file,
                    number: 0,
                    line: self.line,
                    span: None,
                    body: [body.as_bytes(), b"]}"].concat(),
                    known: Known {
                        time_ms,
                        ..self.known.clone()
                    },
                });
            }
            answered = message.answers;
            if at > 0 {
                body.push(',');
            }
            body.push_str(&message.text);
        }
        requests
    }
}

/// The tools themselves, or those of a file that is named.
fn tools_of(raw: &RawValue, folder: &Path) -> Option<String> {
    if raw.get().starts_with('[') {
        return Some(raw.get().to_owned());
    }
    let value: Value = serde_json::from_str(raw.get()).ok()?;
    let name = value.get("$ref").and_then(Value::as_str)?;
    // A log names a file beside it, never one elsewhere.
    let plain = !name.contains(['/', '\\']);
    std::fs::read_to_string(folder.join(name))
        .ok()
        .filter(|_| plain)
}

/// When each answer was asked for.
fn asked(usage: &RawValue) -> Vec<u64> {
    let calls: Vec<Value> = serde_json::from_str(usage.get()).unwrap_or_default();
    calls
        .iter()
        .map_while(|call| call.get("created").and_then(milliseconds))
        .collect()
}
