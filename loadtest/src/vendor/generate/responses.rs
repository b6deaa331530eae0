//! `/v1/responses`, whole and streaming.

use serde_json::{Value, json};

use super::super::script::Reply;
use super::super::stub::{numbered, paced};
use super::{Say, Turn, created, pace_ms, pieces, whole_ms};

pub(super) fn answer(turn: &Turn<'_>) -> Reply {
    if turn.streams {
        stream(turn)
    } else {
        Reply::json(200, response(turn, &ids(turn))).after_ms(whole_ms(turn))
    }
}

struct Ids {
    response: String,
    item: String,
}

fn ids(turn: &Turn<'_>) -> Ids {
    let kind = if matches!(turn.say, Say::Call { .. }) {
        "fc"
    } else {
        "msg"
    };
    Ids {
        response: format!("resp_{:06}", turn.number),
        item: format!("{kind}_{:06}", turn.number),
    }
}

fn item(turn: &Turn<'_>, ids: &Ids) -> Value {
    match &turn.say {
        Say::Call {
            id,
            name,
            arguments,
        } => json!({"id": ids.item, "type": "function_call", "status": "completed",
            "call_id": id, "name": name, "arguments": arguments}),
        Say::Text { tokens, .. } => json!({"id": ids.item, "type": "message", "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": tokens.concat(), "annotations": []}]}),
    }
}

fn response(turn: &Turn<'_>, ids: &Ids) -> Value {
    let output = turn.say.tokens();
    let cut = matches!(turn.say, Say::Text { cut: true, .. });
    json!({
        "id": ids.response, "object": "response", "created_at": created(), "model": turn.model,
        "status": if cut { "incomplete" } else { "completed" },
        "incomplete_details": if cut { json!({"reason": "max_output_tokens"}) } else { Value::Null },
        "error": null, "output": [item(turn, ids)],
        "usage": {
            "input_tokens": turn.prompt_tokens, "input_tokens_details": {"cached_tokens": turn.cached_tokens},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": turn.prompt_tokens + output,
        },
    })
}

fn stream(turn: &Turn<'_>) -> Reply {
    let ids = ids(turn);
    let whole = response(turn, &ids);
    let at = |kind: &str, key: &str, value: Value| json!({"type": kind, "item_id": ids.item, "output_index": 0, "content_index": 0, key: value});
    let opened = json!({"id": ids.response, "object": "response", "created_at": created(), "status": "in_progress",
        "model": turn.model, "output": [], "error": null});
    let mut events = vec![
        json!({"type": "response.created", "response": opened}),
        json!({"type": "response.in_progress", "response": opened}),
    ];
    match &turn.say {
        Say::Call {
            id,
            name,
            arguments,
        } => {
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": ids.item,
                "type": "function_call", "status": "in_progress", "call_id": id, "name": name, "arguments": ""}}));
            for piece in pieces(arguments) {
                events.push(
                    json!({"type": "response.function_call_arguments.delta", "item_id": ids.item,
                    "output_index": 0, "delta": piece}),
                );
            }
            events.push(
                json!({"type": "response.function_call_arguments.done", "item_id": ids.item,
                "output_index": 0, "arguments": arguments}),
            );
        }
        Say::Text { tokens, .. } => {
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": ids.item,
                "type": "message", "role": "assistant", "status": "in_progress", "content": []}}));
            let part =
                |text: String| json!({"type": "output_text", "text": text, "annotations": []});
            events.push(at(
                "response.content_part.added",
                "part",
                part(String::new()),
            ));
            events.extend(
                tokens
                    .iter()
                    .map(|token| at("response.output_text.delta", "delta", json!(token))),
            );
            events.push(at(
                "response.output_text.done",
                "text",
                json!(tokens.concat()),
            ));
            events.push(at(
                "response.content_part.done",
                "part",
                part(tokens.concat()),
            ));
        }
    }
    events.push(
        json!({"type": "response.output_item.done", "output_index": 0, "item": item(turn, &ids)}),
    );
    let end = if whole
        .get("status")
        .is_some_and(|status| status == "incomplete")
    {
        "incomplete"
    } else {
        "completed"
    };
    events.push(json!({"type": format!("response.{end}"), "response": whole}));
    paced(
        turn.rules.first_token_ms,
        pace_ms(turn.rules),
        numbered(events),
    )
}
