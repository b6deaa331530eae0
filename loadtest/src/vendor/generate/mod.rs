//! A vendor that behaves as a model would, without one.
//!
//! Budgets, cache alerts and agent loops need answers whose usage is true to the request: a prompt
//! that was seen before must be reported as cached, a tool that is offered must be called, a schema
//! must be met. The generator does all that deterministically: tokens are estimated as bytes / 4,
//! prefixes are remembered in blocks as vendors do, and the same request gets the same answer.
//!
//! Limits: OpenAI's shapes and Anthropic's messages only; a prompt's bytes are its tools and messages with the white space
//! between JSON tokens left out, which is near to what a vendor's template sees.

mod cache;
mod chat;
mod messages;
mod other;
mod responses;
mod schema;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::Asked;
use super::chaos::Chaos;
use super::script::Reply;
use crate::clock;
use cache::Prefixes;
use messages::{Cached, Prompt};
pub use schema::smallest_instance;

/// How the generator answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Generator {
    /// Tokens per second of a stream; 0 for no pace at all.
    pub tokens_per_second: u32,
    /// Milliseconds before the first token.
    pub first_token_ms: u64,
    /// Tokens of an answer's text where the request sets no lower limit.
    pub output_tokens: u32,
    /// How many rounds of tool calls follow a user's message before the final text.
    pub tool_rounds: u32,
    /// The models listed and served; empty serves any name.
    pub models: Vec<String>,
    /// The prompt cache.
    pub cache: CacheRules,
    /// Faults by chance.
    pub chaos: Chaos,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            tokens_per_second: 100,
            first_token_ms: 50,
            output_tokens: 24,
            tool_rounds: 2,
            models: Vec::new(),
            cache: CacheRules::default(),
            chaos: Chaos::default(),
        }
    }
}

/// How a vendor remembers prefixes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheRules {
    /// Tokens in a block: only whole blocks are remembered.
    pub block_tokens: u32,
    /// Tokens below which nothing is reported as cached.
    pub minimum_tokens: u32,
    /// Seconds after its last use for which a prefix is remembered.
    pub ttl_s: u64,
}

impl Default for CacheRules {
    fn default() -> Self {
        Self {
            block_tokens: 128,
            minimum_tokens: 1024,
            ttl_s: 300,
        }
    }
}

/// The generator with its memory.
#[derive(Debug)]
pub(super) struct Generating {
    rules: Generator,
    prefixes: Mutex<Prefixes>,
}

/// What one answer is made of.
#[derive(Debug)]
struct Turn<'a> {
    rules: &'a Generator,
    model: String,
    streams: bool,
    include_usage: bool,
    number: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    say: Say,
}

/// What the model says.
#[derive(Debug, PartialEq)]
enum Say {
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    Text {
        tokens: Vec<String>,
        cut: bool,
    },
}

impl Say {
    fn tokens(&self) -> u64 {
        match self {
            Self::Call {
                name, arguments, ..
            } => tokens_of(name.len() + arguments.len()) + 4,
            Self::Text { tokens, .. } => tokens.len() as u64,
        }
    }
}

fn is_anthropic(path: &str) -> bool {
    path.contains("/messages")
}

fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// The fields of a request that matter here, its prompt left as it was written.
#[derive(Debug, Deserialize)]
struct Asking<'a> {
    #[serde(default)]
    model: Option<String>,
    #[serde(default, borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    input: Option<&'a RawValue>,
    #[serde(default, borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(default, borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tools: Option<&'a RawValue>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    response_format: Option<Value>,
    #[serde(default)]
    text: Option<Value>,
    #[serde(default)]
    output_config: Option<Value>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<Value>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_completion_tokens: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    dimensions: Option<u32>,
    #[serde(default)]
    encoding_format: Option<String>,
}

impl Generating {
    pub(super) fn new(rules: Generator) -> Self {
        let prefixes = Mutex::new(Prefixes::new(&rules.cache));
        Self { rules, prefixes }
    }

    pub(super) fn answer(&self, asked: Asked<'_>) -> Reply {
        let (number, anthropic) = (asked.number, is_anthropic(asked.path));
        self.rules
            .chaos
            .spoil(number, anthropic, self.proper(asked))
    }

    fn proper(&self, asked: Asked<'_>) -> Reply {
        let path = asked.path.split('?').next().unwrap_or_default();
        if asked.method == "GET" && path.ends_with("/models") {
            return other::models(&self.rules);
        }
        let refuse = if is_anthropic(path) {
            messages::refusal
        } else {
            refusal
        };
        let asking: Asking<'_> = match serde_json::from_slice(asked.body) {
            Ok(asking) => asking,
            Err(error) => return refuse(400, &format!("body is not a request: {error}")),
        };
        let Some(model) = asking.model.clone() else {
            return refuse(400, "you must provide a model parameter");
        };
        if !self.rules.models.is_empty() && !self.rules.models.contains(&model) {
            return refuse(404, &format!("the model {model:?} does not exist"));
        }
        if path.ends_with("/embeddings") {
            return other::embeddings(&model, &asking);
        }
        if path.ends_with("/messages/count_tokens") {
            return messages::count(&Prompt::read(asked.body));
        }
        if path.ends_with("/messages") {
            return self.message(&asking, model, asked);
        }
        let turn = self.turn(&asking, model, asked.number);
        if path.ends_with("/chat/completions") {
            chat::answer(&turn)
        } else if path.ends_with("/responses") {
            responses::answer(&turn)
        } else if path.ends_with("/completions") {
            other::completion(&turn)
        } else {
            refuse(
                404,
                &format!("unknown request URL: {} {path}", asked.method),
            )
        }
    }

    fn message(&self, asking: &Asking<'_>, model: String, asked: Asked<'_>) -> Reply {
        if asking.max_tokens.is_none() {
            return messages::refusal(400, "max_tokens: Field required");
        }
        let prompt = Prompt::read(asked.body);
        let marked = prompt.bytes.get(..prompt.marked).unwrap_or_default();
        let mut cached = Cached::default();
        let tokens = tokens_of(marked.len());
        if tokens >= u64::from(self.rules.cache.minimum_tokens.max(1)) {
            cached.read = self.reuse(&model, marked).min(tokens);
            cached.written = tokens - cached.read;
            cached.hour = prompt.hour;
        }
        let turn = Turn {
            rules: &self.rules,
            model,
            streams: asking.stream.unwrap_or(false),
            include_usage: true,
            number: asked.number,
            prompt_tokens: tokens_of(prompt.bytes.len()).max(1),
            cached_tokens: cached.read,
            say: say(&self.rules, asking, asked.number),
        };
        messages::answer(&turn, cached)
    }

    fn reuse(&self, model: &str, prompt: &[u8]) -> u64 {
        self.prefixes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .reuse(model, prompt, clock::now())
    }

    fn turn(&self, asking: &Asking<'_>, model: String, number: u64) -> Turn<'_> {
        let prompt = rendered(asking);
        let prompt_tokens = tokens_of(prompt.len()).max(1);
        let cached_tokens = self.reuse(&model, &prompt).min(prompt_tokens);
        Turn {
            rules: &self.rules,
            model,
            streams: asking.stream.unwrap_or(false),
            include_usage: asking
                .stream_options
                .as_ref()
                .and_then(|options| options.get("include_usage"))
                .and_then(Value::as_bool)
                .unwrap_or(false),
            number,
            prompt_tokens,
            cached_tokens,
            say: say(&self.rules, asking, number),
        }
    }
}

/// The prompt in the vendor's order, tools first, without white space between JSON tokens.
fn rendered(asking: &Asking<'_>) -> Vec<u8> {
    let mut prompt = Vec::new();
    let parts = [asking.tools, asking.instructions].into_iter().flatten();
    let messages = asking.messages.iter().flatten().copied();
    let rest = [asking.input, asking.prompt].into_iter().flatten();
    for part in parts.chain(messages).chain(rest) {
        squeeze(part.get(), &mut prompt);
    }
    prompt
}

fn squeeze(json: &str, out: &mut Vec<u8>) {
    let mut in_string = false;
    let mut escaped = false;
    for byte in json.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_string = byte == b'"';
        }
        out.push(byte);
    }
}

fn say(rules: &Generator, asking: &Asking<'_>, number: u64) -> Say {
    let history = history(asking);
    if let Some((name, arguments)) = wanted_call(rules, asking, &history) {
        return Say::Call {
            id: format!("call_{number:06}"),
            name,
            arguments,
        };
    }
    let whole = structured(asking).unwrap_or_else(|| "word ".repeat(rules.output_tokens as usize));
    let mut tokens = pieces(whole.trim_end());
    let limit = asking
        .max_completion_tokens
        .or(asking.max_tokens)
        .or(asking.max_output_tokens)
        .unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let cut = tokens.len() > limit;
    tokens.truncate(limit);
    Say::Text { tokens, cut }
}

/// Text in tokens of about four bytes, cut between characters.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for letter in text.chars() {
        piece.push(letter);
        if piece.len() >= 4 {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// The roles of a conversation in order; a Responses item without a role is known by its type, and
/// Anthropic's users who bring the results of tools are no users.
fn history(asking: &Asking<'_>) -> Vec<String> {
    let items: Vec<Value> = match (&asking.messages, asking.input) {
        (Some(messages), _) => messages
            .iter()
            .filter_map(|message| serde_json::from_str(message.get()).ok())
            .collect(),
        (None, Some(input)) => {
            serde_json::from_str(input.get()).unwrap_or_else(|_| vec![json!({"role": "user"})])
        }
        (None, None) => Vec::new(),
    };
    items
        .iter()
        .map(|item| match (item.get("role"), item.get("type")) {
            (Some(_), _) if brings_results(item) => "tool".to_owned(),
            (Some(Value::String(role)), _) => role.clone(),
            (_, Some(Value::String(kind))) if kind == "function_call_output" => "tool".to_owned(),
            _ => "assistant".to_owned(),
        })
        .collect()
}

fn brings_results(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array);
    let mut kinds = blocks.into_iter().flatten().map(|block| block.get("type"));
    kinds.any(|kind| kind.is_some_and(|kind| kind == "tool_result"))
}

/// A tool call where tools are offered, not forbidden, and fewer rounds than wanted have passed
/// since the user last spoke. Each round calls the next tool of the list.
fn wanted_call(
    rules: &Generator,
    asking: &Asking<'_>,
    history: &[String],
) -> Option<(String, String)> {
    let tools: Vec<Value> = serde_json::from_str(asking.tools?.get()).ok()?;
    // A word of its own, or Anthropic's object with a type.
    let choice = asking
        .tool_choice
        .as_ref()
        .map(|choice| (choice, choice.get("type").unwrap_or(choice)));
    if choice.is_some_and(|(_, kind)| kind == "none") {
        return None;
    }
    let since_user = history.iter().rev().take_while(|role| *role != "user");
    let rounds = since_user.filter(|role| *role == "tool").count();
    let forced = choice.is_some_and(|(choice, kind)| {
        choice == "required" || (choice.is_object() && kind != "auto")
    });
    let speaks = history
        .last()
        .is_some_and(|role| role == "user" || role == "tool");
    if !forced && (!speaks || rounds >= rules.tool_rounds as usize) {
        return None;
    }
    let functions: Vec<&Value> = tools
        .iter()
        .map(|tool| tool.get("function").unwrap_or(tool))
        .collect();
    let named = asking.tool_choice.as_ref().and_then(|choice| {
        choice
            .pointer("/function/name")
            .or_else(|| choice.get("name"))
            .and_then(Value::as_str)
    });
    let function = match named {
        Some(name) => functions
            .iter()
            .find(|function| function.get("name").is_some_and(|own| own == name))?,
        None => functions.get(rounds.checked_rem(functions.len())?)?,
    };
    let name = function.get("name")?.as_str()?.to_owned();
    let arguments = function
        .get("parameters")
        .or_else(|| function.get("input_schema"))
        .map_or_else(|| json!({}), smallest_instance);
    Some((name, arguments.to_string()))
}

/// The smallest instance of a schema that the request demands.
fn structured(asking: &Asking<'_>) -> Option<String> {
    let format = asking
        .response_format
        .as_ref()
        .or_else(|| asking.text.as_ref()?.get("format"))
        .or_else(|| asking.output_config.as_ref()?.get("format"))?;
    match format.get("type")?.as_str()? {
        "json_schema" => {
            let schema = format
                .pointer("/json_schema/schema")
                .or_else(|| format.get("schema"))?;
            Some(smallest_instance(schema).to_string())
        }
        "json_object" => Some("{}".to_owned()),
        _ => None,
    }
}

/// Milliseconds between two tokens.
fn pace_ms(rules: &Generator) -> u64 {
    1000_u64
        .checked_div(u64::from(rules.tokens_per_second))
        .unwrap_or(0)
}

/// How long a whole answer takes to make.
fn whole_ms(turn: &Turn<'_>) -> u64 {
    turn.rules.first_token_ms + pace_ms(turn.rules) * turn.say.tokens().saturating_sub(1)
}

fn created() -> u64 {
    clock::unix().as_secs()
}

/// An error in OpenAI's shape.
fn refusal(status: u16, message: &str) -> Reply {
    let kind = "invalid_request_error";
    Reply::json(
        status,
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}}),
    )
}

/// For how long a prefix is remembered.
fn ttl(rules: &CacheRules) -> Duration {
    Duration::from_secs(rules.ttl_s)
}

#[cfg(test)]
mod tests;
