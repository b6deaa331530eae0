//! The smallest value that a JSON Schema admits.
//!
//! Enough of the vocabulary for tool parameters and response formats: `const`, `enum`, `default`
//! aside, `type` (also as a list), `required`, `minItems`, `minLength`, `minimum`,
//! `exclusiveMinimum`, `anyOf`, `oneOf`, `allOf`, local `$ref`. Not: `pattern`, `not`, formats.

use serde_json::{Map, Value, json};

/// Deeper references than this are taken for a cycle and left null.
const DEPTH: usize = 32;

/// The smallest instance of a schema.
pub fn smallest_instance(schema: &Value) -> Value {
    instance(schema, schema, DEPTH)
}

fn instance(root: &Value, schema: &Value, depth: usize) -> Value {
    let Some(deeper) = depth.checked_sub(1) else {
        return Value::Null;
    };
    if let Some(fixed) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
        return fixed.clone();
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer));
        return found.map_or(Value::Null, |found| instance(root, found, deeper));
    }
    if let Some(first) = ["anyOf", "oneOf"]
        .iter()
        .find_map(|key| schema.get(*key)?.get(0))
    {
        return instance(root, first, deeper);
    }
    if let Some(Value::Array(parts)) = schema.get("allOf") {
        return merged(root, parts, deeper);
    }
    match kind(schema) {
        "array" => {
            let count = schema
                .get("minItems")
                .and_then(Value::as_u64)
                .unwrap_or(0)
                .min(1024);
            let items = schema.get("items").unwrap_or(&Value::Null);
            Value::Array((0..count).map(|_| instance(root, items, deeper)).collect())
        }
        "boolean" => json!(false),
        "integer" => integer(schema),
        "number" => number(schema),
        "object" => object(root, schema, deeper),
        "string" => {
            let length = schema
                .get("minLength")
                .and_then(Value::as_u64)
                .unwrap_or(0)
                .min(65_536);
            json!("x".repeat(usize::try_from(length).unwrap_or(0)))
        }
        _ => Value::Null,
    }
}

fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names.first().and_then(Value::as_str),
        _ => None,
    };
    named.unwrap_or(if schema.get("properties").is_some() {
        "object"
    } else {
        "null"
    })
}

fn object(root: &Value, schema: &Value, depth: usize) -> Value {
    let mut fields = Map::new();
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let property = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
            .unwrap_or(&Value::Null);
        fields.insert(name.to_owned(), instance(root, property, depth));
    }
    Value::Object(fields)
}

fn merged(root: &Value, parts: &[Value], depth: usize) -> Value {
    let mut fields = Map::new();
    let mut last = Value::Null;
    for part in parts {
        match instance(root, part, depth) {
            Value::Object(more) => fields.extend(more),
            Value::Null => {}
            other => last = other,
        }
    }
    if fields.is_empty() {
        last
    } else {
        Value::Object(fields)
    }
}

fn integer(schema: &Value) -> Value {
    let above = schema
        .get("exclusiveMinimum")
        .and_then(Value::as_i64)
        .map(|bound| bound.saturating_add(1));
    let least = schema.get("minimum").and_then(Value::as_i64).or(above);
    let most = schema.get("maximum").and_then(Value::as_i64);
    json!(
        least
            .unwrap_or(0)
            .max(0)
            .min(most.unwrap_or(i64::MAX))
            .max(least.unwrap_or(i64::MIN))
    )
}

fn number(schema: &Value) -> Value {
    let above = schema
        .get("exclusiveMinimum")
        .and_then(Value::as_f64)
        .map(|bound| bound + 1.0);
    let least = schema.get("minimum").and_then(Value::as_f64).or(above);
    let most = schema.get("maximum").and_then(Value::as_f64);
    json!(least.unwrap_or_else(|| most.map_or(0.0, |most| most.min(0.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_required_is_written() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"}, "limit": {"type": "integer", "minimum": 3}, "skip": {"type": "string"},
                "mode": {"enum": ["r", "w"]}, "tags": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/tag"}},
                "maybe": {"type": ["null", "string"]}, "either": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}
            },
            "required": ["path", "limit", "mode", "tags", "maybe", "either"],
            "$defs": {"tag": {"type": "string", "minLength": 2}}
        });
        assert_eq!(
            smallest_instance(&schema),
            json!({"path": "", "limit": 3, "mode": "r", "tags": ["xx", "xx"], "maybe": null, "either": false})
        );
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema =
            json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        let mut value = smallest_instance(&schema);
        let mut depth = 0;
        while let Some(next) = value.get("next").cloned() {
            value = next;
            depth += 1;
        }
        assert!(depth > 1 && depth < 64);
    }
}
