//! What strict vendors refuse, each with the sentence that its 400 says.
//!
//! These are the rules that translations break: blocks that do not pair, text that is empty,
//! parameters that exclude each other. They are stated in `cases/README.md`.

use serde_json::Value;

/// Why the stub of this name refuses the request; `None` when it is content.
pub(super) fn fault(stub: &str, strict_schema: bool, request: &Value) -> Option<String> {
    match stub {
        "anthropic_strict" => anthropic(request),
        "bedrock_strict" => bedrock(request),
        "gemini_ok" if strict_schema => schema_keyword(request),
        "gemini_strict_thought_signature" => unsigned_call(request),
        "max_4_cache_control" => too_many_marks(request),
        "rejects_cache_ttl" => has_key(request, "ttl").then(|| "cachePoint.ttl: extraneous key".to_owned()),
        "rejects_max_tokens" => request.get("max_tokens").map(|_| {
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
                .to_owned()
        }),
        "rejects_temperature_with_top_p" => {
            let both = (has_key(request, "temperature")) && (has_key(request, "topP") || has_key(request, "top_p"));
            both.then(|| "temperature and top_p cannot both be specified for this model".to_owned())
        }
        "requires_reasoning_content" => without_reasoning(request),
        _ => None,
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn anthropic(request: &Value) -> Option<String> {
    let messages = list(request, "messages");
    roles(messages)
        .or_else(|| unpaired(messages))
        .or_else(|| empty_text(request, messages))
        .or_else(|| thinking(request, messages))
        .or_else(|| {
            let forced = request.get("tool_choice").is_some() && list(request, "tools").is_empty();
            forced.then(|| "tool_choice may only be specified while providing tools".to_owned())
        })
        .or_else(|| too_many_marks(request))
}

fn roles(messages: &[Value]) -> Option<String> {
    let odd = messages
        .iter()
        .find(|message| !["user", "assistant"].contains(&text(message, "role")));
    if let Some(message) = odd {
        return Some(format!(
            "messages: unexpected role {:?}",
            text(message, "role")
        ));
    }
    let twice = messages.windows(2).position(|pair| match pair {
        [one, next] => text(one, "role") == text(next, "role"),
        _ => false,
    });
    twice.map(|at| {
        format!(
            "messages.{}: roles must alternate between \"user\" and \"assistant\"",
            at + 1
        )
    })
}

fn ids<'a>(message: &'a Value, kind: &str, name: &str) -> Vec<&'a str> {
    list(message, "content")
        .iter()
        .filter(|block| text(block, "type") == kind)
        .map(|block| text(block, name))
        .collect()
}

/// Every `tool_use` is answered in the very next message, and every result answers one.
fn unpaired(messages: &[Value]) -> Option<String> {
    let nothing = Value::Null;
    for (at, message) in messages.iter().enumerate() {
        let next = messages.get(at + 1).unwrap_or(&nothing);
        let before = at
            .checked_sub(1)
            .and_then(|at| messages.get(at))
            .unwrap_or(&nothing);
        let answered = ids(next, "tool_result", "tool_use_id");
        if let Some(id) = ids(message, "tool_use", "id")
            .into_iter()
            .find(|id| !answered.contains(id))
        {
            return Some(format!(
                "messages.{at}: `tool_use` {id} has no `tool_result` block in the next message"
            ));
        }
        let asked = ids(before, "tool_use", "id");
        if let Some(id) = ids(message, "tool_result", "tool_use_id")
            .into_iter()
            .find(|id| !asked.contains(id))
        {
            return Some(format!(
                "messages.{at}: unexpected `tool_use_id` {id} in `tool_result`"
            ));
        }
    }
    None
}

fn empty_text(request: &Value, messages: &[Value]) -> Option<String> {
    let blocks = messages
        .iter()
        .flat_map(|message| list(message, "content"))
        .chain(list(request, "system"));
    let mut texts = blocks
        .filter(|block| text(block, "type") == "text")
        .map(|block| text(block, "text"));
    let empty_block = texts.any(|text| text.trim().is_empty());
    let empty_message = messages
        .iter()
        .any(|message| message.get("content").is_some_and(|content| content == ""));
    (empty_block || empty_message)
        .then(|| "messages: text content blocks must be non-empty".to_owned())
}

fn thinking(request: &Value, messages: &[Value]) -> Option<String> {
    let thinking = request
        .get("thinking")
        .filter(|thinking| text(thinking, "type") == "enabled")?;
    let budget = thinking
        .get("budget_tokens")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    if budget
        >= request
            .get("max_tokens")
            .and_then(Value::as_u64)
            .unwrap_or(0)
    {
        return Some("`max_tokens` must be greater than `thinking.budget_tokens`".to_owned());
    }
    let last = messages.last()?;
    if ids(last, "tool_result", "tool_use_id").is_empty() {
        return None;
    }
    let turn = messages.iter().rev().nth(1)?;
    let first = list(turn, "content")
        .first()
        .map(|block| text(block, "type"))
        .unwrap_or_default();
    let begins = ["thinking", "redacted_thinking"].contains(&first);
    (!begins).then(|| {
        format!("messages: expected `thinking` or `redacted_thinking`, but found `{first}`")
    })
}

fn too_many_marks(request: &Value) -> Option<String> {
    let marks = count_key(request, "cache_control");
    (marks > 4)
        .then(|| format!("a maximum of 4 blocks with cache_control may be provided, found {marks}"))
}

fn bedrock(request: &Value) -> Option<String> {
    const KNOWN: [&str; 11] = [
        "additionalModelRequestFields",
        "additionalModelResponseFieldPaths",
        "guardrailConfig",
        "inferenceConfig",
        "messages",
        "modelId",
        "performanceConfig",
        "promptVariables",
        "requestMetadata",
        "system",
        "toolConfig",
    ];
    let unknown = request
        .as_object()?
        .keys()
        .find(|key| !KNOWN.contains(&key.as_str()));
    if let Some(unknown) = unknown {
        return Some(format!("#: extraneous key [{unknown}] is not permitted"));
    }
    let blocks = list(request, "messages")
        .iter()
        .flat_map(|message| list(message, "content"));
    let mut texts = blocks
        .chain(list(request, "system"))
        .filter_map(|block| block.get("text")?.as_str());
    texts.any(|text| text.trim().is_empty()).then(|| {
        "The text field in the ContentBlock object is blank. Add text to the text field.".to_owned()
    })
}

fn schema_keyword(request: &Value) -> Option<String> {
    let config = request.get("generationConfig");
    let answer = config.and_then(|config| {
        config
            .get("responseSchema")
            .or_else(|| config.get("response_schema"))
    });
    let tools = list(request, "tools")
        .iter()
        .flat_map(|tool| list(tool, "functionDeclarations"));
    let schemas = tools
        .filter_map(|function| function.get("parameters"))
        .chain(answer);
    for schema in schemas {
        let refused = ["additionalProperties", "$ref", "$defs"]
            .into_iter()
            .find(|key| has_key(schema, key));
        if let Some(key) = refused {
            return Some(format!(
                "Invalid JSON payload received. Unknown name \"{key}\": Cannot find field."
            ));
        }
        if has_type_list(schema) {
            return Some("Proto field is not repeating, cannot start list: type".to_owned());
        }
    }
    None
}

/// The current turn is what follows the last message of the user's own words.
fn unsigned_call(request: &Value) -> Option<String> {
    let contents = list(request, "contents");
    let speaks = |content: &Value| {
        text(content, "role") == "user"
            && list(content, "parts")
                .iter()
                .any(|part| part.get("text").is_some())
    };
    let begin = contents.iter().rposition(speaks).unwrap_or(0);
    let turn = contents.get(begin..).unwrap_or_default();
    // Of parallel calls, only the first carries the signature.
    let calls = turn.iter().filter_map(|content| {
        list(content, "parts")
            .iter()
            .find(|part| part.get("functionCall").is_some())
    });
    let mut unsigned = calls.filter(|part| part.get("thoughtSignature").is_none());
    unsigned
        .next()
        .map(|_| "Function call is missing a thought_signature in functionCall parts.".to_owned())
}

fn without_reasoning(request: &Value) -> Option<String> {
    let at = list(request, "messages").iter().position(|message| {
        !list(message, "tool_calls").is_empty()
            && message.get("reasoning_content").is_none_or(Value::is_null)
    });
    at.map(|at| format!("thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"))
}

fn has_key(value: &Value, name: &str) -> bool {
    count_key(value, name) > 0
}

fn count_key(value: &Value, name: &str) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                usize::from(key == name && !value.is_null()) + count_key(value, name)
            })
            .sum(),
        Value::Array(items) => items.iter().map(|item| count_key(item, name)).sum(),
        _ => 0,
    }
}

fn has_type_list(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| (key == "type" && value.is_array()) || has_type_list(value)),
        Value::Array(items) => items.iter().any(has_type_list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn anthropic_refuses_what_it_is_known_to_refuse() {
        let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]});
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "d"}]});
        let user = json!({"role": "user", "content": "hi"});
        let good = json!({"max_tokens": 10, "messages": [user, call, result]});
        assert_eq!(anthropic(&good), None);
        let mark = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
        let bad = [
            (json!({"messages": [user, call]}), "no `tool_result`"),
            (json!({"messages": [result]}), "unexpected `tool_use_id`"),
            (json!({"messages": [user, user]}), "alternate"),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}),
                "non-empty",
            ),
            (
                json!({"messages": [user], "tools": [], "tool_choice": {"type": "any"}}),
                "tool_choice",
            ),
            (
                json!({"messages": [user], "system": [mark, mark, mark, mark, mark]}),
                "maximum of 4",
            ),
            (
                json!({"messages": [user], "max_tokens": 10, "thinking": {"type": "enabled", "budget_tokens": 10}}),
                "greater",
            ),
            (
                json!({"messages": [user, call, result], "max_tokens": 10, "thinking": {"type": "enabled", "budget_tokens": 5}}),
                "expected `thinking`",
            ),
        ];
        for (request, said) in bad {
            let fault = anthropic(&request).unwrap_or_default();
            assert!(fault.contains(said), "{fault:?} for {said}");
        }
    }

    #[test]
    fn the_other_stubs_refuse_just_their_own() {
        let refused = |stub: &str, request: Value| fault(stub, true, &request).is_some();
        assert!(refused("rejects_max_tokens", json!({"max_tokens": 1})));
        assert!(!refused(
            "rejects_max_tokens",
            json!({"max_completion_tokens": 1})
        ));
        assert!(refused(
            "rejects_temperature_with_top_p",
            json!({"inferenceConfig": {"temperature": 1, "topP": 1}})
        ));
        assert!(!refused(
            "rejects_temperature_with_top_p",
            json!({"inferenceConfig": {"temperature": 1}})
        ));
        assert!(refused(
            "rejects_cache_ttl",
            json!({"system": [{"cachePoint": {"type": "default", "ttl": "1h"}}]})
        ));
        assert!(refused(
            "requires_reasoning_content",
            json!({"messages": [{"tool_calls": [{}]}]})
        ));
        assert!(refused(
            "bedrock_strict",
            json!({"messages": [{"content": [{"text": " "}]}]})
        ));
        assert!(refused(
            "bedrock_strict",
            json!({"messages": [], "model": "m"})
        ));
        let tool = |schema: Value| json!({"tools": [{"functionDeclarations": [{"name": "a", "parameters": schema}]}]});
        assert!(refused(
            "gemini_ok",
            tool(json!({"type": "object", "additionalProperties": false}))
        ));
        assert!(refused(
            "gemini_ok",
            tool(json!({"properties": {"a": {"type": ["string", "null"]}}}))
        ));
        assert!(!refused("gemini_ok", tool(json!({"type": "object"}))));
        let call = |part: Value| json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [part]}]});
        assert!(refused(
            "gemini_strict_thought_signature",
            call(json!({"functionCall": {}}))
        ));
        assert!(!refused(
            "gemini_strict_thought_signature",
            call(json!({"functionCall": {}, "thoughtSignature": "s"}))
        ));
    }
}
