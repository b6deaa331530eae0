//! The smaller APIs: models, embeddings and plain completions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::script::Reply;
use super::super::stub::{data, paced};
use super::{Asking, Generator, Say, Turn, chat, created, pace_ms, tokens_of, whole_ms};

pub(super) fn models(rules: &Generator) -> Reply {
    let any = ["generated".to_owned()];
    let names = if rules.models.is_empty() {
        any.as_slice()
    } else {
        rules.models.as_slice()
    };
    let rows: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 1, "owned_by": "whippletree-loadtest"}))
        .collect();
    Reply::json(200, json!({"object": "list", "data": rows}))
}

pub(super) fn embeddings(model: &str, asking: &Asking<'_>) -> Reply {
    let raw = asking.input.map_or("", |input| input.get());
    let inputs: Vec<Value> = match serde_json::from_str(raw) {
        Ok(Value::Array(items)) if !items.iter().all(Value::is_number) => items,
        Ok(one) => vec![one],
        Err(_) => Vec::new(),
    };
    let dimensions = asking.dimensions.unwrap_or(8);
    let as_base64 = asking.encoding_format.as_deref() == Some("base64");
    let rows: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| {
            let vector = vector(&input.to_string(), dimensions);
            let embedding = if as_base64 {
                json!(
                    STANDARD.encode(
                        vector
                            .iter()
                            .flat_map(|part| part.to_le_bytes())
                            .collect::<Vec<u8>>()
                    )
                )
            } else {
                json!(vector)
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    let tokens = tokens_of(raw.len()).max(1);
    Reply::json(
        200,
        json!({"object": "list", "model": model, "data": rows,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}),
    )
}

/// A unit vector that depends on the text alone (FNV-1a, read 2026-11-30 at isthe.com/chongo).
fn vector(text: &str, dimensions: u32) -> Vec<f32> {
    let mut state: u32 = 0x811c_9dc5;
    for byte in text.bytes() {
        state = (state ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let raw: Vec<f32> = (0..dimensions)
        .map(|part| {
            state = (state ^ part).wrapping_mul(0x0100_0193).rotate_left(13);
            // Sixteen bits are exact in an f32.
            f32::from(u16::try_from(state >> 16).unwrap_or(0)) / 32_768.0 - 1.0
        })
        .collect();
    let length = raw
        .iter()
        .map(|part| part * part)
        .sum::<f32>()
        .sqrt()
        .max(f32::MIN_POSITIVE);
    raw.into_iter().map(|part| part / length).collect()
}

pub(super) fn completion(turn: &Turn<'_>) -> Reply {
    let (tokens, finish) = match &turn.say {
        Say::Text { tokens, cut } => (tokens.clone(), if *cut { "length" } else { "stop" }),
        Say::Call { arguments, .. } => (super::pieces(arguments), "stop"),
    };
    let id = format!("cmpl-{:06}", turn.number);
    let at = created();
    let object = |text: &str, finish: Option<&str>| {
        json!({"id": id, "object": "text_completion", "created": at, "model": turn.model,
            "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]})
    };
    if !turn.streams {
        let mut body = object(&tokens.concat(), Some(finish));
        if let Some(fields) = body.as_object_mut() {
            fields.insert("usage".to_owned(), chat::usage(turn));
        }
        return Reply::json(200, body).after_ms(whole_ms(turn));
    }
    let mut events: Vec<String> = tokens
        .iter()
        .map(|token| data(&object(token, None)))
        .collect();
    events.push(data(&object("", Some(finish))));
    if turn.include_usage {
        events.push(data(
            &json!({"id": id, "object": "text_completion", "created": at, "model": turn.model,
            "choices": [], "usage": chat::usage(turn)}),
        ));
    }
    events.push("data: [DONE]\n\n".to_owned());
    paced(turn.rules.first_token_ms, pace_ms(turn.rules), events)
}
