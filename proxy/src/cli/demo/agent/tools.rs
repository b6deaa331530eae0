//! What the agent can do: look things up in a manual.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::ToolCall;

/// What the agent knows. It stands in its prompt too, which so becomes worth caching.
pub(super) const MANUAL: &str = include_str!("../../../../docs/request.md");

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Arguments {
    heading: String,
}

/// The tools as a model is told of them.
pub(super) fn tools() -> Value {
    json!([
        { "type": "function", "function": {
            "name": "list_sections",
            "description": "The headings of the manual",
            "parameters": { "type": "object", "properties": {} } } },
        { "type": "function", "function": {
            "name": "read_section",
            "description": "A section of the manual",
            "parameters": {
                "type": "object",
                "properties": { "heading": { "type": "string", "enum": headings() } },
                "required": ["heading"] } } },
    ])
}

/// Does what a tool is called for.
pub(super) fn run(call: &ToolCall) -> String {
    let arguments: Arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
    match call.name.as_str() {
        "list_sections" => headings().join("\n"),
        "read_section" => section(&arguments.heading)
            .unwrap_or("there is no such section")
            .to_owned(),
        other => format!("there is no tool {other}"),
    }
}

fn headings() -> Vec<&'static str> {
    MANUAL
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect()
}

fn section(heading: &str) -> Option<&'static str> {
    let (_, rest) = MANUAL.split_once(&format!("## {heading}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_find_what_stands_in_the_manual() {
        let call = |name: &str, arguments: &str| {
            run(&ToolCall {
                id: "1".to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            })
        };
        let listed = call("list_sections", "{}");
        let first = listed.lines().next().unwrap();
        let read = call("read_section", &json!({ "heading": first }).to_string());
        assert!(read.len() > 100 && !read.contains("\n## "), "{read}");
        assert_eq!(call("read_section", "{}"), "there is no such section");
    }
}
