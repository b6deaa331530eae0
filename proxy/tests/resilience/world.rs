//! A gateway with one vendor behind it.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use whippletree::boot::Whippletree;
use whippletree::config::load::{Source, load};
use whippletree_loadtest::client::{Answer, Call};
use whippletree_loadtest::vendor::{Reply, Script, Vendor, Write};

/// A generous bound on whatever is waited for.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The route's name.
pub(crate) const MODEL: &str = "m";

pub(crate) struct World {
    pub(crate) vendor: Vendor,
    pub(crate) gateway: Whippletree,
    _directory: tempfile::TempDir,
}

impl World {
    /// `route` is what stands in the route's table behind its targets.
    pub(crate) async fn new(replies: impl IntoIterator<Item = Reply>, route: &str) -> Self {
        let vendor = Vendor::start(Script::replies(replies)).await.unwrap();
        let (gateway, directory) = gateway(vendor.addr(), route);
        Self {
            vendor,
            gateway,
            _directory: directory,
        }
    }

    pub(crate) async fn send(&self, call: &Call) -> Answer {
        call.send(self.gateway.data_address()).await
    }

    /// The exchanges on record, the first one first, once there are so many.
    pub(crate) async fn exchanges(&self, count: usize) -> Vec<Value> {
        let admin = self.gateway.admin_address();
        let began = tokio::time::Instant::now();
        loop {
            let listed = Call::get("/admin/v1/requests").send(admin).await.json();
            let mut list = listed["requests"].as_array().cloned().unwrap_or_default();
            if list.len() >= count {
                list.reverse();
                return list;
            }
            assert!(began.elapsed() < SOON, "on record: {list:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn metrics(&self) -> String {
        let admin = self.gateway.admin_address();
        Call::get("/metrics").send(admin).await.text()
    }
}

/// A gateway in front of `vendor`.
pub(crate) fn gateway(vendor: SocketAddr, route: &str) -> (Whippletree, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("whippletree.toml");
    let config = format!(
        r#"
[server]
listen = "127.0.0.1:0"
workers = 2
[admin]
listen = "127.0.0.1:0"
[store]
path = ":memory:"
[prices]
unknown_model = {{ input = "1.00", output = "2.00", per = 1_000_000 }}
[providers.a]
kind = "openai-compatible"
base_url = "http://{vendor}/v1"
keys = []
[routes.m]
targets = ["a/m"]
{route}
"#
    );
    std::fs::write(&file, config).unwrap();
    let loaded = load(&Source::choose(Some(file))).unwrap();
    (Whippletree::start(loaded).unwrap(), directory)
}

/// A question for a whole answer.
pub(crate) fn ask(text: &str) -> Call {
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": text}]});
    Call::post("/v1/chat/completions", body.to_string())
}

/// A question for a stream.
pub(crate) fn ask_stream(text: &str) -> Call {
    let body =
        json!({"model": MODEL, "stream": true, "messages": [{"role": "user", "content": text}]});
    Call::post("/v1/chat/completions", body.to_string())
}

/// What an SDK says of itself in its try of this number, from 0.
pub(crate) fn counted(call: Call, count: u32) -> Call {
    call.header("x-stainless-retry-count", &count.to_string())
}

/// A whole answer that says `text`.
pub(crate) fn says(text: &str) -> Reply {
    Reply::json(
        200,
        json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }),
    )
}

/// An error of a vendor.
pub(crate) fn fails(status: u16) -> Reply {
    Reply::json(
        status,
        json!({"error": {"message": "no", "type": "server_error", "param": null, "code": null}}),
    )
}

/// The event of a piece of text.
pub(crate) fn delta(text: &str) -> String {
    event(
        &json!({"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null}),
    )
}

fn event(choice: &Value) -> String {
    let data = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [choice],
    });
    format!("data: {data}\n\n")
}

/// What ends a stream: the finish, the usage, the marker.
pub(crate) fn ending() -> [String; 3] {
    let usage = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    });
    [
        event(&json!({"index": 0, "delta": {}, "finish_reason": "stop"})),
        format!("data: {usage}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ]
}

/// A stream that says these with a pause of so many milliseconds behind each.
pub(crate) fn streams(texts: &[&str], pause_ms: u64) -> Reply {
    let mut reply = Reply::events(Vec::<String>::new());
    let mut writes = Vec::new();
    for text in texts {
        writes.push(Write::Text(delta(text)));
        writes.push(Write::Sleep { sleep_ms: pause_ms });
    }
    writes.extend(ending().map(Write::Text));
    reply.writes = Some(writes);
    reply
}

/// The text that a stream's events make up.
pub(crate) fn text_of(answer: &Answer) -> String {
    let of = |event: whippletree_loadtest::client::Event| {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        data["choices"][0]["delta"]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    answer.events().into_iter().map(of).collect()
}

/// The code of the error that a client was told.
pub(crate) fn code(answer: &Answer) -> String {
    let json = answer.json();
    json["error"]["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
