//! Real agent conversations as the requests that made them, to be broken on purpose.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// One request before it is written down.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) tools: Vec<Value>,
    pub(crate) system: Vec<String>,
    pub(crate) messages: Vec<Value>,
    /// Further top-level fields.
    pub(crate) fields: Map<String, Value>,
    pub(crate) model: String,
    /// Seconds since the conversation began.
    pub(crate) time: u64,
    pub(crate) key: u8,
    pub(crate) region: u8,
    pub(crate) fallback: bool,
    pub(crate) style: Style,
    pub(crate) marks: Marks,
}

/// How JSON is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent switches")]
pub(crate) struct Style {
    /// Keys of tools from last to first.
    pub(crate) tool_keys_reversed: bool,
    /// Spaces within tools.
    pub(crate) tools_spaced: bool,
    /// Whole numbers of tools as `1.0`.
    pub(crate) tool_decimals: bool,
    /// Characters beyond ASCII in messages as `\u`.
    pub(crate) ascii: bool,
}

/// Where cache marks stand in the form that has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Marks {
    /// On the system prompt and the last two messages of the user, as good harnesses do.
    #[default]
    Moving,
    None,
    /// Only on the last message.
    LastOnly,
    /// Only on the system prompt.
    SystemOnly,
    /// On the system prompt for five minutes, then on the last message for an hour.
    WrongOrder,
    /// On six messages.
    Six,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Chat,
    Messages,
}

/// A conversation: a name and its requests, each going on from the one before.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) requests: Vec<Request>,
}

pub(crate) fn shared() -> PathBuf {
    std::env::var_os("WHIPPLETREE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
        PathBuf::from,
    )
}

/// At most `most` conversations of a file, of at most `turns` requests each.
pub(crate) fn load(file: &str, most: usize, turns: usize) -> Vec<Conversation> {
    let folder = shared().join("trajectories");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    text.lines()
        .take(most)
        .map(|line| read(&folder, line, turns))
        .collect()
}

fn read(folder: &std::path::Path, line: &str, turns: usize) -> Conversation {
    let row: Value = serde_json::from_str(line).unwrap();
    let tools = match &row["tools"] {
        Value::Object(reference) => {
            let name = reference["$ref"].as_str().unwrap();
            serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
        }
        Value::Array(tools) => tools.clone(),
        _ => Vec::new(),
    };
    let mut system = Vec::new();
    let mut messages = Vec::new();
    let mut requests = Vec::new();
    let created: Vec<u64> = row["usage"]
        .as_array()
        .map(|usage| {
            usage
                .iter()
                .map(|call| call["created"].as_u64().unwrap_or(0))
                .collect()
        })
        .unwrap_or_default();
    for message in row["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "assistant" && requests.len() < turns && !messages.is_empty() {
            let turn = requests.len();
            let time = created
                .get(turn)
                .zip(created.first())
                .map_or(turn as u64 * 20, |(at, from)| at - from);
            requests.push(Request {
                tools: tools.clone(),
                system: system.clone(),
                messages: messages.clone(),
                fields: Map::new(),
                model: String::new(),
                time,
                key: 0,
                region: 0,
                fallback: false,
                style: Style::default(),
                marks: Marks::default(),
            });
        }
        if role == "system" && messages.is_empty() {
            system.push(message["content"].as_str().unwrap_or_default().to_owned());
        } else {
            messages.push(message.clone());
        }
    }
    Conversation {
        name: row["id"].as_str().unwrap_or_default().to_owned(),
        requests,
    }
}

impl Request {
    pub(crate) fn body(&self, form: Form) -> String {
        match form {
            Form::Chat => self.chat(),
            Form::Messages => self.anthropic(),
        }
    }

    pub(crate) fn model(&self, form: Form) -> &str {
        match (form, self.model.as_str()) {
            (Form::Chat, "") => "gpt-4.1",
            (Form::Messages, "") => "claude-sonnet-4-5",
            (_, model) => model,
        }
    }

    fn tool_style(&self) -> Writing {
        Writing {
            reversed: self.style.tool_keys_reversed,
            spaced: self.style.tools_spaced,
            decimals: self.style.tool_decimals,
            ascii: false,
        }
    }

    fn fields(&self, body: &mut String) {
        for (name, value) in &self.fields {
            write!(body, ",{}:{}", Value::from(name.as_str()), value).unwrap();
        }
    }

    fn chat(&self) -> String {
        let mut body = format!("{{\"model\":\"{}\"", self.model(Form::Chat));
        self.fields(&mut body);
        if !self.tools.is_empty() {
            let style = self.tool_style();
            let tools: Vec<String> = self.tools.iter().map(|tool| style.write(tool)).collect();
            write!(body, ",\"tools\":[{}]", tools.join(",")).unwrap();
        }
        let style = Writing {
            ascii: self.style.ascii,
            ..Writing::default()
        };
        let systems = self
            .system
            .iter()
            .map(|text| json!({"role": "system", "content": text}));
        let messages: Vec<String> = systems
            .chain(self.messages.iter().cloned())
            .map(|message| role_first(&message, style))
            .collect();
        write!(body, ",\"messages\":[{}]}}", messages.join(",")).unwrap();
        body
    }

    fn anthropic(&self) -> String {
        let mut body = format!(
            "{{\"model\":\"{}\",\"max_tokens\":4096",
            self.model(Form::Messages)
        );
        self.fields(&mut body);
        if !self.tools.is_empty() {
            let style = self.tool_style();
            let tools: Vec<String> = self
                .tools
                .iter()
                .map(|tool| {
                    let function = &tool["function"];
                    style.write(
                        &json!({"name": function["name"], "description": function["description"],
                        "input_schema": function["parameters"]}),
                    )
                })
                .collect();
            write!(body, ",\"tools\":[{}]", tools.join(",")).unwrap();
        }
        let style = Writing {
            ascii: self.style.ascii,
            ..Writing::default()
        };
        let mut system: Vec<Value> = self
            .system
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let short = json!({"type": "ephemeral"});
        if matches!(
            self.marks,
            Marks::Moving | Marks::SystemOnly | Marks::WrongOrder | Marks::Six
        ) && let Some(last) = system.last_mut()
        {
            last["cache_control"] = short.clone();
        }
        if !system.is_empty() {
            let blocks: Vec<String> = system.iter().map(|block| style.write(block)).collect();
            write!(body, ",\"system\":[{}]", blocks.join(",")).unwrap();
        }
        let mut messages = blocks(&self.messages);
        let marked = match self.marks {
            Marks::Moving => 2,
            Marks::LastOnly | Marks::WrongOrder => 1,
            Marks::Six => 6,
            Marks::None | Marks::SystemOnly => 0,
        };
        let users = messages
            .iter_mut()
            .rev()
            .filter(|message| message["role"] == "user");
        for message in users.take(marked) {
            let last = message["content"]
                .as_array_mut()
                .and_then(|blocks| blocks.last_mut())
                .unwrap();
            last["cache_control"] = if self.marks == Marks::WrongOrder {
                json!({"type": "ephemeral", "ttl": "1h"})
            } else {
                short.clone()
            };
        }
        let messages: Vec<String> = messages
            .iter()
            .map(|message| role_first(message, style))
            .collect();
        write!(body, ",\"messages\":[{}]}}", messages.join(",")).unwrap();
        body
    }
}

/// Messages in Anthropic's form: blocks, results of tools within messages of the user.
fn blocks(messages: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for message in messages {
        let role = if message["role"] == "assistant" {
            "assistant"
        } else {
            "user"
        };
        let mut blocks = Vec::new();
        if let Some(reasoning) = message["reasoning_content"].as_str() {
            blocks.push(json!({"type": "thinking", "thinking": reasoning, "signature": "c2ln"}));
        }
        if message["role"] == "tool" {
            blocks.push(json!({"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}));
        } else if let Some(text) = message["content"].as_str().filter(|text| !text.is_empty()) {
            blocks.push(json!({"type": "text", "text": text}));
        } else if let Some(parts) = message["content"].as_array() {
            blocks.extend(parts.iter().map(|part| match part["image_url"]["url"].as_str() {
                Some(url) => {
                    let data = url.rsplit(',').next().unwrap();
                    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
                }
                None => part.clone(),
            }));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
            let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            blocks.push(json!({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": input}));
        }
        if blocks.is_empty() {
            blocks.push(json!({"type": "text", "text": "(no text)"}));
        }
        match out.last_mut() {
            Some(last) if last["role"] == role && message["role"] == "tool" => {
                last["content"].as_array_mut().unwrap().extend(blocks);
            }
            _ => out.push(json!({"role": role, "content": blocks})),
        }
    }
    out
}

fn role_first(message: &Value, style: Writing) -> String {
    let mut out = format!("{{\"role\":{}", message["role"]);
    for (key, value) in message.as_object().unwrap() {
        if key != "role" {
            write!(out, ",\"{key}\":{}", style.write(value)).unwrap();
        }
    }
    out + "}"
}

#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four independent switches")]
struct Writing {
    reversed: bool,
    spaced: bool,
    decimals: bool,
    ascii: bool,
}

impl Writing {
    fn write(self, value: &Value) -> String {
        let (comma, colon) = if self.spaced {
            (", ", ": ")
        } else {
            (",", ":")
        };
        match value {
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.write(item)).collect();
                format!("[{}]", items.join(comma))
            }
            Value::Object(members) => {
                let mut members: Vec<String> = members
                    .iter()
                    .map(|(key, value)| {
                        format!("{}{colon}{}", Value::from(key.as_str()), self.write(value))
                    })
                    .collect();
                if self.reversed {
                    members.reverse();
                }
                format!("{{{}}}", members.join(comma))
            }
            Value::Number(number) if self.decimals && number.is_u64() => format!("{number}.0"),
            Value::String(text) if self.ascii => {
                let mut out = String::new();
                for character in Value::from(text.as_str()).to_string().chars() {
                    if character.is_ascii() {
                        out.push(character);
                    } else {
                        for unit in character.encode_utf16(&mut [0; 2]) {
                            write!(out, "\\u{unit:04x}").unwrap();
                        }
                    }
                }
                out
            }
            other => other.to_string(),
        }
    }
}
