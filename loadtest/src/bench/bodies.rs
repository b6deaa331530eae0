//! Requests like those that agents send: a short chat and a long agent turn.

use serde_json::{Value, json};

/// A place in every body that is overwritten with the request's number, so that no two are equal.
const NUMBER: &str = "request 000000000000";

/// A request body and where its number stands.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its name in the report.
    pub name: &'static str,
    bytes: Vec<u8>,
    at: usize,
}

impl Body {
    fn of(name: &'static str, json: &Value) -> Self {
        let bytes = json.to_string().into_bytes();
        let number = NUMBER.as_bytes();
        let found = bytes
            .windows(number.len())
            .rposition(|window| window == number);
        Self {
            name,
            at: found.unwrap_or(0) + number.len() - 12,
            bytes,
        }
    }

    /// The body of the `number`th request.
    pub fn numbered(&self, number: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let digits = format!("{number:012}");
        if let Some(place) = bytes.get_mut(self.at..self.at + 12) {
            place.copy_from_slice(digits.as_bytes());
        }
        bytes
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// A chat of one kilobyte.
pub fn chat() -> Body {
    let system =
        "You are a careful assistant. Answer briefly, say \"I do not know\" where you do not, \
        and keep to the facts.\nUse plain words. "
            .repeat(8);
    let ask = format!("Summarise the notes below in one line ({NUMBER}).");
    Body::of(
        "1 KB chat",
        &json!({"model": "m", "temperature": 0.2, "messages": [
            {"role": "system", "content": system.get(..820).unwrap_or(&system)},
            {"role": "user", "content": ask}]}),
    )
}

/// An agent's turn of 107 KB: a long system prompt, tools with schemas, and a history of tool calls
/// whose arguments and results are full of escapes.
pub fn agent() -> Body {
    let mut messages = vec![json!({"role": "system", "content": SYSTEM.repeat(24)})];
    messages.push(
        json!({"role": "user", "content": "Fix the failing test and explain what was wrong."}),
    );
    let mut round = 0;
    while size(&messages) < 88_500 {
        let path = format!("src/module_{round}/handler.rs");
        let arguments = json!({"path": path, "pattern": "fn \"handle\"\\s*\\(", "limit": 200});
        messages.push(
            json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": format!("call_{round:024}"), "type": "function",
            "function": {"name": "search_files", "arguments": arguments.to_string()}}]}),
        );
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("call_{round:024}"),
            "content": SOURCE.repeat(3)}),
        );
        round += 1;
    }
    messages.push(json!({"role": "user", "content": format!("Go on ({NUMBER}).")}));
    let tools: Vec<Value> = (0..18).map(tool).collect();
    let body = json!({"model": "m", "messages": messages, "tools": tools, "tool_choice": "auto",
        "max_tokens": 4096});
    Body::of("107 KB agent turn", &body)
}

fn size(messages: &[Value]) -> usize {
    messages
        .iter()
        .map(|message| message.to_string().len())
        .sum()
}

fn tool(number: usize) -> Value {
    let text = "A path relative to the workspace; may not leave it.\nExample: \"src/main.rs\".";
    json!({"type": "function", "function": {
        "name": if number == 0 { "search_files".to_owned() } else { format!("tool_{number}") },
        "description": "Reads, searches or changes files in the workspace. Returns at most \"limit\" lines, \
            each with its number.\n\nUse it before you edit: an edit without a read is refused.".repeat(2),
        "parameters": {"type": "object", "additionalProperties": false, "required": ["path", "pattern"],
            "properties": {
                "path": {"type": "string", "description": text},
                "pattern": {"type": "string", "description": "A regular expression (RE2), e.g. \"fn \\\\w+\"."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 2000},
                "mode": {"type": "string", "enum": ["lines", "files", "count"]},
                "exclude": {"type": "array", "items": {"type": "string", "description": text}}}}}})
}

const SYSTEM: &str = "You work in a repository on the user's machine. Before you change a file, read it. \
Quote code as \"```rust\\n…\\n```\".\n\n# Rules\n- Never touch files outside of the workspace.\n\
- Say what you did, then stop; do not ask \"shall I go on?\".\n- Prefer small edits.\t(Tabs are kept.)\n";

const SOURCE: &str = "  41\tpub fn handle(&self, name: &str) -> Result<Reply, Error> {\n  42\t    \
let entry = self.table.get(name).ok_or_else(|| Error::Missing(name.to_owned()))?;\n  43\t    \
tracing::debug!(%name, \"found \\\"{}\\\"\", entry.title);\n  44\t    match entry.kind {\n  45\t        \
Kind::Text => Ok(Reply::text(\"naïve – “quoted” – 日本\")),\n  46\t        \
Kind::Path => Ok(Reply::path(r\"C:\\temp\\x\")),\n  47\t    }\n  48\t}\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_their_sizes_and_numbers() {
        assert!((950..1_100).contains(&chat().size()), "{}", chat().size());
        let agent = agent();
        assert!(
            (106_000..113_000).contains(&agent.size()),
            "{}",
            agent.size()
        );
        let text = String::from_utf8(agent.numbered(42)).unwrap();
        assert!(text.contains("request 000000000042") && text.len() == agent.size());
        assert!(text.matches("\\n").count() > 1_000 && text.matches("\\\"").count() > 500);
        serde_json::from_str::<Value>(&text).unwrap();
    }
}
