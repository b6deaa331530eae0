//! What a client makes of an answer, whole or streaming.

use serde_json::Value;

use crate::client::{Answer, Event, EventReader};

/// An answer read as its dialect's clients do.
#[derive(Debug, Default)]
pub struct Seen {
    /// All text of the first choice.
    pub text: String,
    /// The finish or stop reason.
    pub finish_reason: Option<String>,
    /// Tool calls in the order of their first piece: index, id, arguments.
    pub calls: Vec<(u64, String, String)>,
    /// The last error object: of the answer or of an event.
    pub error: Option<Value>,
    /// Whether `[DONE]` or `message_stop` came.
    pub done: bool,
    /// Chunks whose delta names a role.
    pub role_chunks: usize,
    /// Response ids that are not empty, each once.
    pub ids: Vec<String>,
    /// The last usage object.
    pub usage: Option<Value>,
    /// Chunks with usage and no choice.
    pub usage_chunks: usize,
    /// Chunks without a `choices` array.
    pub without_choices: usize,
    /// `ping` events.
    pub pings: usize,
    /// Types of content blocks in the order of their opening (Messages).
    pub blocks: Vec<String>,
    /// Deltas of no length (Messages).
    pub empty_deltas: usize,
    /// The name or type of the last event.
    pub last_event: String,
    /// How often an empty line followed comments alone, or an event had no data.
    pub empty_events: usize,
    /// Lines of an event stream that are no field.
    pub unframed: usize,
}

impl Seen {
    /// Reads an answer.
    pub fn of(answer: &Answer) -> Self {
        let mut seen = Self::default();
        let streams = answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if !streams {
            seen.whole(&answer.json());
            return seen;
        }
        let mut reader = EventReader::default();
        for piece in &answer.pieces {
            reader.push(&piece.bytes, piece.at);
        }
        seen.empty_events = reader.bare_comments();
        for event in reader.events() {
            seen.event(event);
        }
        seen.unframed = unframed(&answer.text());
        seen
    }

    fn whole(&mut self, body: &Value) {
        self.error = body.get("error").cloned();
        self.usage = body.get("usage").filter(|usage| !usage.is_null()).cloned();
        if let Some(text) = body
            .pointer("/choices/0/message/content")
            .and_then(Value::as_str)
        {
            self.text.push_str(text);
        }
        for block in body
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.text.push_str(
                block
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            );
        }
        let reason = body
            .pointer("/choices/0/finish_reason")
            .or_else(|| body.get("stop_reason"));
        self.finish_reason = reason.and_then(Value::as_str).map(str::to_owned);
        self.id(body.get("id"));
        let calls = body
            .pointer("/choices/0/message/tool_calls")
            .and_then(Value::as_array);
        for (index, call) in (0..).zip(calls.into_iter().flatten()) {
            let text = |pointer| {
                call.pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            self.calls
                .push((index, text("/id"), text("/function/arguments")));
        }
    }

    fn event(&mut self, event: &Event) {
        if event.data_lines == 0 {
            self.empty_events += 1;
            return;
        }
        if event.data == "[DONE]" {
            self.done = true;
            "[DONE]".clone_into(&mut self.last_event);
            return;
        }
        let json = event.json();
        let kind = json.get("type").and_then(Value::as_str).unwrap_or_default();
        self.last_event = if event.name.is_empty() {
            kind.to_owned()
        } else {
            event.name.clone()
        };
        if let Some(error) = json.get("error").filter(|error| error.is_object()) {
            self.error = Some(error.clone());
            return;
        }
        match kind {
            "" => self.chunk(&json),
            _ => self.anthropic(kind, &json),
        }
    }

    fn chunk(&mut self, json: &Value) {
        self.id(json.get("id"));
        let choices = json.get("choices").and_then(Value::as_array);
        self.without_choices += usize::from(choices.is_none());
        if let Some(usage) = json.get("usage").filter(|usage| usage.is_object()) {
            self.usage_chunks += usize::from(choices.is_none_or(Vec::is_empty));
            self.usage = Some(usage.clone());
        }
        let Some(choice) = choices.and_then(|choices| choices.first()) else {
            return;
        };
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
        let Some(delta) = choice.get("delta") else {
            return;
        };
        self.role_chunks += usize::from(delta.get("role").is_some());
        self.text.push_str(
            delta
                .get("content")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        for call in delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
            let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
            let arguments = call
                .pointer("/function/arguments")
                .and_then(Value::as_str)
                .unwrap_or_default();
            self.call(index, id, arguments);
        }
    }

    fn anthropic(&mut self, kind: &str, json: &Value) {
        let text = |pointer: &str| {
            json.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let index = json.get("index").and_then(Value::as_u64).unwrap_or(0);
        if kind == "content_block_start" {
            self.blocks.push(text("/content_block/type").to_owned());
        }
        match kind {
            "ping" => self.pings += 1,
            "message_stop" => self.done = true,
            "message_start" => {
                self.role_chunks += 1;
                self.id(json.pointer("/message/id"));
            }
            "content_block_start" if text("/content_block/type") == "tool_use" => {
                self.call(index, text("/content_block/id"), "");
            }
            "content_block_delta" => {
                let length = text("/delta/text").len()
                    + text("/delta/partial_json").len()
                    + text("/delta/thinking").len()
                    + text("/delta/signature").len();
                self.empty_deltas += usize::from(length == 0);
                self.text.push_str(text("/delta/text"));
                if json.pointer("/delta/partial_json").is_some() {
                    self.call(index, "", text("/delta/partial_json"));
                }
            }
            "response.output_text.delta" => self.text.push_str(text("/delta")),
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.usage = json.pointer("/response/usage").cloned();
                self.id(json.pointer("/response/id"));
                self.done = kind != "response.failed";
            }
            "message_delta" => {
                self.finish_reason = json
                    .pointer("/delta/stop_reason")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                self.usage = json.get("usage").cloned().or_else(|| self.usage.take());
            }
            _ => {}
        }
    }

    /// Merges by index, as the common accumulators do.
    fn call(&mut self, index: u64, id: &str, arguments: &str) {
        if let Some((_, known, text)) = self.calls.iter_mut().find(|(at, _, _)| *at == index) {
            if known.is_empty() {
                known.push_str(id);
            }
            text.push_str(arguments);
        } else {
            self.calls
                .push((index, id.to_owned(), arguments.to_owned()));
        }
    }

    fn id(&mut self, id: Option<&Value>) {
        if let Some(id) = id.and_then(Value::as_str)
            && !id.is_empty()
            && !self.ids.iter().any(|known| known == id)
        {
            self.ids.push(id.to_owned());
        }
    }
}

fn unframed(text: &str) -> usize {
    let fields = ["data:", "event:", "id:", "retry:", ":"];
    text.lines()
        .filter(|line| !line.is_empty() && !fields.iter().any(|field| line.starts_with(field)))
        .count()
}
