//! Anthropic's dialect from outside: a client of messages, the gateway, a scripted vendor.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

use std::time::Duration;

use serde_json::{Value, json};
use whippletree::boot::Whippletree;
use whippletree::config::load::{Source, load};
use whippletree_loadtest::client::{Answer, Call};
use whippletree_loadtest::vendor::{Reply, Script, Vendor, Write};

const KEY: &str = "sk-wt-client-0123456789abcdef";

struct World {
    vendor: Vendor,
    gateway: Whippletree,
    _directory: tempfile::TempDir,
}

impl World {
    async fn new(replies: impl IntoIterator<Item = Reply>, route: &str) -> Self {
        let vendor = Vendor::start(Script::replies(replies)).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("whippletree.toml");
        let hash = sha256(KEY);
        let config = format!(
            r#"
allow_literal_secrets = true
[server]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[store]
path = ":memory:"
[providers.claude]
kind = "anthropic"
base_url = "http://{}/v1"
keys = ["sk-ant-vendor"]
[providers.gpt]
kind = "openai"
base_url = "http://{}/v1"
keys = ["sk-vendor"]
[targets."claude/big"]
price = {{ input = "3.00", output = "15.00", cache_read = "0.30", cache_write_5m = "3.75", cache_write_1h = "6.00", per = 1_000_000 }}
[targets."gpt/other"]
price = {{ input = "1.00", output = "2.00", per = 1_000_000 }}
[tenants.t]
keys = [{{ name = "k", sha256 = "{hash}" }}]
[routes.other]
targets = ["gpt/other"]
[routes.m]
targets = ["claude/big"]
retry = {{ max_attempts = 2, base = "10ms", cap = "20ms" }}
{route}
"#,
            vendor.addr(),
            vendor.addr(),
        );
        std::fs::write(&file, config).unwrap();
        let loaded = load(&Source::choose(Some(file))).unwrap();
        Self {
            vendor,
            gateway: Whippletree::start(loaded).unwrap(),
            _directory: directory,
        }
    }

    async fn send(&self, call: &Call) -> Answer {
        call.send(self.gateway.data_address()).await
    }

    async fn exchange(&self) -> Value {
        let admin = self.gateway.admin_address();
        for _ in 0..500 {
            let listed = Call::get("/admin/v1/requests").send(admin).await.json();
            if let Some(first) = listed["requests"].get(0) {
                return first.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Value::Null
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(text);
    let digits: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// A client's request: white space and field order are its own.
fn ask(stream: bool) -> String {
    format!(
        r#"{{"model": "m", "max_tokens":64,"stream":{stream}, "system":[{{"type":"text","text":"s","cache_control":{{"type":"ephemeral"}}}}],"messages":[{{"role":"user","content":"hi"}}]}}"#
    )
}

fn call(path: &str, body: String) -> Call {
    Call::post(path, body)
        .header("x-api-key", KEY)
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "context-1m-2025-08-07")
}

fn message(usage: &Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "big",
        "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": usage,
    })
}

fn event(data: &Value) -> String {
    format!(
        "event: {}\ndata: {data}\n\n",
        data["type"].as_str().unwrap()
    )
}

fn beginning() -> Vec<String> {
    let mut whole = message(&json!({
        "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 5,
        "output_tokens": 1,
    }));
    whole["content"] = json!([]);
    whole["stop_reason"] = Value::Null;
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}});
    vec![
        event(&json!({"type": "message_start", "message": whole})),
        event(&json!({"type": "ping"})),
        event(&block),
        event(&delta),
    ]
}

fn ending() -> Vec<String> {
    vec![
        event(&json!({"type": "content_block_stop", "index": 0})),
        event(
            &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        ),
        event(&json!({"type": "message_stop"})),
    ]
}

fn error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(
        status,
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_passes_as_it_came_and_is_priced() {
    let usage = json!({
        "input_tokens": 7, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60},
        "output_tokens": 20,
    });
    let world = World::new([Reply::json(200, message(&usage))], "").await;
    let body = ask(false);
    let answer = world
        .send(&call("/v1/messages?beta=true", body.clone()))
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), message(&usage));
    let id = answer.header("x-wt-request-id");
    assert!(id.is_some() && answer.header("request-id") == id);
    // 7 × 3 + 1000 × 0.3 + 40 × 3.75 + 60 × 6 + 20 × 15 microdollars.
    assert_eq!(answer.header("x-wt-cost-usd"), Some("0.001131"));

    let sent = world.vendor.requests();
    let sent = &sent[0];
    assert_eq!(sent.target, "/v1/messages?beta=true");
    assert_eq!(
        String::from_utf8_lossy(&sent.body),
        body.replace("\"m\"", "\"big\"")
    );
    assert_eq!(sent.header("x-api-key"), Some("sk-ant-vendor"));
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(sent.header("anthropic-beta"), Some("context-1m-2025-08-07"));
    assert_eq!(sent.header("authorization"), None);

    let exchange = world.exchange().await;
    assert_eq!(exchange["api"], "messages");
    assert_eq!(exchange["dialect"], "anthropic");
    assert_eq!(exchange["usage"]["input_tokens"], 1107);
    assert_eq!(exchange["usage"]["cache_write_1h_tokens"], 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_named_for_a_client_that_names_none() {
    let reply = Reply::json(
        200,
        message(&json!({"input_tokens": 1, "output_tokens": 1})),
    );
    let world = World::new([reply], "").await;
    let bare =
        Call::post("/v1/messages", ask(false)).header("authorization", &format!("Bearer {KEY}"));
    assert_eq!(world.send(&bare).await.status, 200);
    let sent = world.vendor.requests();
    assert_eq!(sent[0].header("anthropic-version"), Some("2023-06-01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_passes_byte_for_byte() {
    let events: Vec<String> = beginning().into_iter().chain(ending()).collect();
    let world = World::new([Reply::events(events.clone())], "").await;
    let answer = world.send(&call("/v1/messages", ask(true))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text(), events.concat());
    let exchange = world.exchange().await;
    assert_eq!(exchange["usage"]["input_tokens"], 15);
    assert_eq!(exchange["usage"]["cache_read_tokens"], 5);
    assert_eq!(exchange["usage"]["output_tokens"], 7);
    assert_eq!(exchange["outcome"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_its_end_is_an_error_event() {
    for rest in [vec![], ending()[..2].to_vec()] {
        let events: Vec<String> = beginning().into_iter().chain(rest).collect();
        let world = World::new([Reply::events(events)], "").await;
        let answer = world.send(&call("/v1/messages", ask(true))).await;
        let last = answer.events().pop().unwrap();
        assert_eq!(last.name, "error");
        let data: Value = serde_json::from_str(&last.data).unwrap();
        assert_eq!(data["type"], "error");
        assert_eq!(data["error"]["type"], "api_error");
        assert_eq!(data["error"]["whippletree"]["class"], "stream_interrupted");
        // Nothing looks finished.
        assert!(!answer.text().contains("end_turn") && !answer.text().contains("message_stop"));
        assert_eq!(world.exchange().await["outcome"], "interrupted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_vendor_inside_a_stream_is_tried_again_unseen() {
    let mut failing = beginning()[..2].to_vec();
    failing.push(event(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ));
    let whole: Vec<String> = beginning().into_iter().chain(ending()).collect();
    let world = World::new([Reply::events(failing), Reply::events(whole.clone())], "").await;
    let answer = world.send(&call("/v1/messages", ask(true))).await;
    assert_eq!(answer.text(), whole.concat());
    let exchange = world.exchange().await;
    assert_eq!(exchange["attempts"][0]["class"], "overloaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_the_dialects_shape_and_status() {
    let overflow = "prompt is too long: 210000 tokens > 200000 maximum";
    for (replies, status, kind, says) in [
        (
            vec![error(529, "overloaded_error", "Overloaded"); 2],
            529,
            // By the other name Claude Code would send it all again.
            "api_error",
            "overloaded",
        ),
        (
            vec![error(400, "invalid_request_error", overflow)],
            400,
            "invalid_request_error",
            overflow,
        ),
        (
            vec![
                error(
                    400,
                    "invalid_request_error",
                    "Your credit balance is too low to access the API"
                );
                2
            ],
            429,
            "billing_error",
            "out of credit",
        ),
        (
            vec![error(401, "authentication_error", "invalid x-api-key"); 2],
            502,
            "api_error",
            "credential",
        ),
    ] {
        let world = World::new(replies, "").await;
        let answer = world.send(&call("/v1/messages", ask(false))).await;
        assert_eq!(answer.status, status, "{kind}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        let json = answer.json();
        assert_eq!(json["type"], "error");
        assert_eq!(json["error"]["type"], kind);
        let told = json["error"]["message"].as_str().unwrap();
        assert!(told.contains(says), "{told}");
        let id = answer.header("x-wt-request-id").unwrap();
        assert_eq!(json["request_id"], id);
        assert_eq!(answer.header("request-id"), Some(id));
        assert_eq!(json["error"]["whippletree"]["request_id"], id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_own_refusals_have_it_too() {
    let world = World::new([], "").await;
    let refused = |call: Call| {
        let world = &world;
        async move {
            let answer = world.send(&call).await;
            let kind = answer.json()["error"]["type"].clone();
            (answer.status, kind.as_str().unwrap_or_default().to_owned())
        }
    };
    let keyless = Call::post("/v1/messages", ask(false));
    assert_eq!(
        refused(keyless).await,
        (401, "authentication_error".to_owned())
    );
    let unknown = ask(false).replace("\"m\"", "\"nobody\"");
    let unknown = refused(call("/v1/messages", unknown)).await;
    assert_eq!(unknown, (404, "not_found_error".to_owned()));
    let broken = refused(call("/v1/messages", "{".to_owned())).await;
    assert_eq!(broken, (400, "invalid_request_error".to_owned()));
    // A vendor of another dialect is never sent what it cannot read.
    let foreign = ask(false).replace("\"m\"", "\"other\"");
    let foreign = refused(call("/v1/messages", foreign)).await;
    assert_eq!(foreign, (400, "invalid_request_error".to_owned()));
    // Claude Code takes this for a gateway without a counter.
    let count = ask(false).replace("\"m\"", "\"other\"");
    let count = refused(call("/v1/messages/count_tokens", count)).await;
    assert_eq!(count, (501, "not_supported".to_owned()));
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let chat = world
        .send(&call("/v1/chat/completions", chat.to_string()))
        .await;
    assert_eq!(chat.status, 400);
    assert_eq!(chat.json()["error"]["code"], "unsupported_api");
    assert!(world.vendor.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_counted_for_nothing() {
    let world = World::new([Reply::json(200, json!({"input_tokens": 14}))], "").await;
    let body = ask(false).replace(r#""max_tokens":64,"stream":false, "#, "");
    let answer = world.send(&call("/v1/messages/count_tokens", body)).await;
    assert_eq!(answer.json(), json!({"input_tokens": 14}));
    let sent = world.vendor.requests();
    assert_eq!(sent[0].target, "/v1/messages/count_tokens");
    let exchange = world.exchange().await;
    assert_eq!(exchange["api"], "count_tokens");
    assert_eq!(exchange["cost_usd"], "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_in_the_shape_of_the_client() {
    let world = World::new([], "").await;
    let list = Call::get("/v1/models").header("x-api-key", KEY);
    let openai = world.send(&list.clone()).await.json();
    assert_eq!(openai["object"], "list");
    let anthropic = world
        .send(&list.header("anthropic-version", "2023-06-01"))
        .await
        .json();
    assert_eq!(anthropic["has_more"], false);
    assert_eq!(anthropic["data"][0]["type"], "model");
    assert_eq!(anthropic["first_id"], anthropic["data"][0]["id"]);
    assert_eq!(
        anthropic["data"].as_array().unwrap().len(),
        openai["data"].as_array().unwrap().len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_gets_pings() {
    let mut writes: Vec<Write> = beginning()[..1].iter().cloned().map(Write::Text).collect();
    writes.push(Write::Sleep { sleep_ms: 1_300 });
    writes.extend(beginning()[2..].iter().cloned().map(Write::Text));
    writes.extend(ending().into_iter().map(Write::Text));
    let mut reply = Reply::events(Vec::<String>::new());
    reply.writes = Some(writes);
    let world = World::new([reply], "keepalive = \"1s\"").await;
    let answer = world.send(&call("/v1/messages", ask(true))).await;
    let names: Vec<String> = answer
        .events()
        .into_iter()
        .map(|event| event.name)
        .collect();
    assert_eq!(names[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(names.last().unwrap(), "message_stop");
}
