//! The description of the admin plane (`OpenAPI` 3.1).

use axum::Json;
use serde_json::{Value, json};

/// `GET /admin/v1/openapi.json`
pub(super) async fn document() -> Json<Value> {
    Json(describe())
}

/// The whole description.
pub(crate) fn describe() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Whippletree admin plane",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Errors are problem details (RFC 9457). Times are milliseconds since 1970 unless said otherwise; money is a decimal string of US dollars.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths(),
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of [admin]. Where none is configured, loopback is served without.",
                },
            },
            "responses": {
                "Problem": {
                    "description": "What is wrong",
                    "content": {"application/problem+json": {"schema": schema("Problem")}},
                },
            },
            "schemas": schemas(),
        },
    })
}

fn paths() -> Value {
    let exchange_filters = [
        text("tenant"),
        text("task"),
        text("route"),
        text("target"),
        choice(
            "outcome",
            &["ok", "failed", "interrupted", "client_gone", "refused"],
        ),
        time("since"),
        time("until"),
    ];
    let ledger_filters = [
        text("tenant"),
        text("task"),
        text("route"),
        text("target"),
        text("request_id"),
        choice(
            "kind",
            &["reserve", "settle", "release", "expire", "adjust"],
        ),
        time("since"),
        time("until"),
    ];
    let usage = [
        list(
            "group_by",
            "tenant, key, user, task, provider, model, target, route, harness, api or tag:NAME, separated by commas",
        ),
        choice("bucket", &["minute", "hour", "day", "month"]),
        text("time_zone"),
        time("from"),
        time("to"),
        choice("format", &["json", "csv"]),
    ];
    let picked = [
        "api", "harness", "key", "model", "provider", "route", "target", "task", "tenant", "user",
    ];
    let usage = usage.into_iter().chain(picked.map(text));
    let openai = [
        seconds("start_time"),
        seconds("end_time"),
        list("project_ids", "tenants"),
        list("api_key_ids", "names of virtual keys"),
        list(
            "group_by",
            "project_id, user_id, api_key_id, model, line_item, batch or service_tier",
        ),
        text("bucket_width"),
        number("limit"),
        text("page"),
    ];
    let completions = openai.clone().into_iter().chain([
        list("user_ids", "users"),
        list("models", "models"),
        text("batch"),
    ]);
    let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string", "format": "uuid"}});
    json!({
        "/": {"get": operation("A status page", &[], &html())},
        "/healthz": {"get": open("The process answers", "Probe")},
        "/readyz": {"get": open("It takes requests and can record them; else 503", "Probe")},
        "/metrics": {"get": operation("Metrics for Prometheus", &[], &plain("text/plain"))},
        "/admin/v1/requests": {"get": operation("Exchanges, newest first", &paged(exchange_filters), &answer("Requests"))},
        "/admin/v1/requests/{id}": {"get": operation("One exchange", &[id], &answer("Exchange"))},
        "/admin/v1/ledger": {"get": operation("Ledger entries, newest first", &paged(ledger_filters), &answer("Ledger"))},
        "/admin/v1/usage": {"get": operation("Totals of the ledger, by span and then the dearest first", &paged(usage), &answer("UsageRows"))},
        "/admin/v1/targets": {"get": operation("Breakers, cool-downs and calls under way", &[], &answer("Targets"))},
        "/admin/v1/targets/{id}/restore": {"post": operation("A person says that a shut target works again", &[segment("id", "The target, its / written %2F", "string")], &answer("Restored"))},
        "/admin/v1/providers/{id}/keys/{key}/unlock": {"post": operation("A person says that a locked key of a provider works again", &[segment("id", "The provider", "string"), segment("key", "Position in the provider's keys", "integer")], &answer("Unlocked"))},
        "/admin/v1/keys": {"get": operation("Virtual keys, without their secrets", &[], &answer("Keys"))},
        "/admin/v1/config": {"get": operation("The configuration in force, secrets masked", &[], &answer("Config"))},
        "/admin/v1/reload": {"post": operation("Reads the configuration again; 422 says why it was refused", &[], &answer("Reloaded"))},
        "/admin/v1/openapi.json": {"get": operation("This description", &[], &plain("application/json"))},
        "/v1/organization/usage/completions": {"get": operation("Usage in OpenAI's shape; a project is a tenant", &completions.collect::<Vec<_>>(), &answer("Page"))},
        "/v1/organization/costs": {"get": operation("Costs in OpenAI's shape; a line item is a model", &openai, &answer("Page"))},
    })
}

fn operation(summary: &str, parameters: &[Value], answer: &Value) -> Value {
    json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {"200": answer, "default": {"$ref": "#/components/responses/Problem"}},
    })
}

/// Served without a token.
fn open(summary: &str, name: &str) -> Value {
    json!({
        "summary": summary,
        "security": [],
        "responses": {"200": answer(name), "503": answer(name)},
    })
}

fn answer(name: &str) -> Value {
    json!({"description": "The answer", "content": {"application/json": {"schema": schema(name)}}})
}

fn plain(kind: &str) -> Value {
    json!({"description": "The answer", "content": {kind: {}}})
}

fn html() -> Value {
    plain("text/html")
}

fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn parameter(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

fn segment(name: &str, description: &str, kind: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": kind}})
}

fn text(name: &str) -> Value {
    parameter(name, "", &json!({"type": "string"}))
}

fn number(name: &str) -> Value {
    parameter(name, "", &json!({"type": "integer", "minimum": 1}))
}

fn seconds(name: &str) -> Value {
    parameter(name, "Seconds since 1970", &json!({"type": "integer"}))
}

fn time(name: &str) -> Value {
    let form = "RFC 3339, or a date, or milliseconds since 1970";
    parameter(name, form, &json!({"type": "string"}))
}

fn choice(name: &str, values: &[&str]) -> Value {
    parameter(name, "", &json!({"type": "string", "enum": values}))
}

fn list(name: &str, description: &str) -> Value {
    parameter(
        name,
        description,
        &json!({"type": "array", "items": {"type": "string"}}),
    )
}

fn paged(parameters: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let page = [
        number("limit"),
        parameter(
            "cursor",
            "The next_cursor of the page before",
            &json!({"type": "string"}),
        ),
    ];
    parameters.into_iter().chain(page).collect()
}

fn schemas() -> Value {
    let text = json!({"type": "string"});
    let maybe_text = json!({"type": ["string", "null"]});
    let count = json!({"type": "integer", "minimum": 0});
    let maybe_count = json!({"type": ["integer", "null"], "minimum": 0});
    let flag = json!({"type": "boolean"});
    let millis = json!({"type": "integer", "description": "milliseconds since 1970"});
    let maybe_millis =
        json!({"type": ["integer", "null"], "description": "milliseconds since 1970"});
    let duration = json!({"type": ["number", "null"], "description": "milliseconds"});
    let money = json!({"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,12})?$"});
    let uuid = json!({"type": "string", "format": "uuid"});
    let maybe = |name: &str| json!({"anyOf": [schema(name), {"type": "null"}]});
    let listed = |name: &str, of: &str| {
        object(&[
            (name, json!({"type": "array", "items": schema(of)})),
            ("next_cursor", maybe_text.clone()),
        ])
    };
    json!({
        "Problem": object(&[("type", text.clone()), ("title", text.clone()), ("status", count.clone()), ("detail", text.clone())]),
        "Probe": object(&[("status", text.clone())]),
        "Usage": object(&[
            ("input_tokens", count.clone()), ("cache_read_tokens", maybe_count.clone()),
            ("cache_write_5m_tokens", maybe_count.clone()), ("cache_write_1h_tokens", maybe_count.clone()),
            ("output_tokens", count.clone()), ("reasoning_tokens", maybe_count.clone()), ("estimated", flag.clone()),
        ]),
        "Attempt": object(&[
            ("target", text.clone()), ("key", maybe_count.clone()), ("class", maybe_text.clone()), ("status", maybe_count.clone()),
            ("waited_ms", duration.clone()), ("first_byte_ms", duration.clone()), ("took_ms", duration.clone()),
            ("usage", maybe("Usage")), ("cost_usd", money.clone()), ("price_version", maybe_text.clone()),
            ("price_fallback", flag.clone()), ("rule", maybe_text.clone()),
        ]),
        "Exchange": object(&[
            ("request_id", uuid.clone()), ("time", millis.clone()), ("tenant", text.clone()), ("key", maybe_text.clone()),
            ("user", maybe_text.clone()), ("task", maybe_text.clone()),
            ("tags", json!({"type": "object", "additionalProperties": {"type": "string"}})),
            ("harness", maybe_text.clone()), ("route", maybe_text.clone()), ("api", text.clone()), ("dialect", text.clone()),
            ("stream", flag.clone()), ("status", count.clone()), ("outcome", text.clone()), ("error", maybe_text.clone()),
            ("target", maybe_text.clone()), ("fallback", flag.clone()),
            ("attempts", json!({"type": "array", "items": schema("Attempt")})), ("usage", maybe("Usage")),
            ("cost_usd", money.clone()), ("price_version", maybe_text.clone()),
            ("prefix", json!({"type": ["object", "null"]})), ("ttft_ms", duration.clone()), ("duration_ms", duration.clone()),
            ("overhead_ms", duration), ("request_bytes", count.clone()), ("response_bytes", count.clone()),
        ]),
        "Requests": listed("requests", "Exchange"),
        "LedgerEntry": object(&[
            ("id", text.clone()), ("request_id", uuid), ("attempt", count.clone()), ("kind", text.clone()), ("time", millis.clone()),
            ("tenant", text.clone()), ("key", maybe_text.clone()), ("user", maybe_text.clone()), ("task", maybe_text.clone()),
            ("route", maybe_text.clone()), ("target", text.clone()), ("budgets", json!({"type": "array", "items": {"type": "string"}})),
            ("usage", maybe("Usage")), ("cost_usd", money.clone()), ("price_version", maybe_text.clone()), ("estimated", flag.clone()),
            ("price_fallback", flag.clone()), ("rule", maybe_text.clone()),
        ]),
        "Ledger": listed("entries", "LedgerEntry"),
        "UsageRow": {
            "type": "object",
            "description": "With from and to where a bucket was asked for, and a field for each group.",
            "properties": {"requests": count, "attempts": count, "usage": schema("Usage"), "cost_usd": money, "estimated_cost_usd": money},
            "required": ["requests", "attempts", "usage", "cost_usd", "estimated_cost_usd"],
            "additionalProperties": maybe_text,
        },
        "UsageRows": listed("rows", "UsageRow"),
        "TargetKey": object(&[("key", count.clone()), ("breaker", text.clone()), ("locked", maybe_text.clone()), ("cooling_until", maybe_millis.clone())]),
        "Target": object(&[
            ("target", text.clone()), ("routes", json!({"type": "array", "items": {"type": "string"}})), ("breaker", text.clone()),
            ("opens_at", maybe_millis), ("shut", maybe_text.clone()), ("in_flight", count.clone()),
            ("keys", json!({"type": "array", "items": schema("TargetKey")})),
        ]),
        "Targets": listed("targets", "Target"),
        "Restored": object(&[("target", text.clone()), ("was_shut", flag.clone())]),
        "Unlocked": object(&[("provider", text.clone()), ("key", count.clone()), ("was_locked", flag.clone())]),
        "Key": object(&[("id", text.clone()), ("name", text.clone()), ("tenant", text.clone()), ("sha256_begins", text.clone())]),
        "Keys": listed("keys", "Key"),
        "Config": object(&[
            ("generation", count.clone()), ("hash", text.clone()), ("loaded_at", millis.clone()), ("source", text.clone()),
            ("last_error", json!({"type": ["object", "null"]})),
            ("waiting_for_restart", json!({"type": "array", "items": {"type": "string"}})), ("config", json!({"type": "object"})),
        ]),
        "Reloaded": object(&[
            ("changed", flag.clone()), ("generation", count), ("hash", text.clone()), ("loaded_at", millis),
            ("waiting_for_restart", json!({"type": "array", "items": {"type": "string"}})),
        ]),
        "Page": object(&[
            ("object", text), ("data", json!({"type": "array", "items": {"type": "object"}})), ("has_more", flag), ("next_page", maybe_text),
        ]),
    })
}

/// An object with these fields, all of them present.
fn object(fields: &[(&str, Value)]) -> Value {
    let properties: serde_json::Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}
