//! A gateway with keys and limits, and a client that shows what comes of each request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use whippletree::boot::Whippletree;
use whippletree::config::load::{Source, load};
use whippletree::keys;
use whippletree_loadtest::client::Call;
use whippletree_loadtest::vendor::{End, Reply, Script, Vendor};
use whippletree_loadtest::wire::Wire;

use After::{Closed, Open};

/// A key of a team's own.
pub(crate) const KEY: &str = "a team's own secret of some length";

/// The largest body that the gateway takes.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// A generous bound on whatever is waited for.
const SOON: Duration = Duration::from_secs(20);

/// What is true of the client's connection right behind the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The gateway has closed it.
    Closed,
    /// The next request is answered on it.
    Open,
}

/// What has to come of bad input.
pub(crate) struct Expected {
    pub(crate) status: u16,
    /// `error.code`.
    pub(crate) code: &'static str,
    /// Part of `error.message`.
    pub(crate) message: &'static str,
    /// The exchange's outcome and error.
    pub(crate) record: (&'static str, &'static str),
    pub(crate) after: After,
}

/// A gateway with a key, and one vendor and route for each reply: `vendor-0`, `vendor-1`, …
pub(crate) struct World {
    gateway: Whippletree,
    faults: Vec<String>,
    _vendors: Vec<Vendor>,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(replies: Vec<Reply>) -> Self {
        watch_panics();
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut places = vec![
            ("coder".to_owned(), nobody.local_addr().unwrap()),
            ("down".to_owned(), nobody.local_addr().unwrap()),
        ];
        drop(nobody);
        let mut vendors = Vec::new();
        for (number, reply) in replies.into_iter().enumerate() {
            let vendor = Vendor::start(Script::replies([reply])).await.unwrap();
            places.push((format!("vendor-{number}"), vendor.addr()));
            vendors.push(vendor);
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("whippletree.toml");
        std::fs::write(&file, configuration(&places)).unwrap();
        let loaded = load(&Source::choose(Some(file))).unwrap();
        Self {
            gateway: Whippletree::start(loaded).unwrap(),
            faults: Vec::new(),
            _vendors: vendors,
            _directory: directory,
        }
    }

    /// Asks vendors, each of which answers like this, for an answer to `body`.
    pub(crate) async fn of_vendors(rows: Vec<(&str, Reply, Expected)>, body: &Value) -> Self {
        let (names, rest): (Vec<_>, Vec<_>) = rows
            .into_iter()
            .map(|(name, reply, expected)| (name, (reply, expected)))
            .unzip();
        let (replies, expected): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
        let mut world = Self::new(replies).await;
        for (number, (name, expected)) in names.into_iter().zip(expected).enumerate() {
            let mut body = body.clone();
            body["model"] = format!("vendor-{number}").into();
            let request = post(body.to_string().as_bytes());
            world
                .check(&format!("a vendor that {name}"), &request, &expected)
                .await;
        }
        world
    }

    /// Sends these bytes on a connection of their own and compares what comes of them.
    pub(crate) async fn check(&mut self, name: &str, request: &[u8], expected: &Expected) {
        let mut client = Client::connect(self.gateway.data_address()).await;
        // It may be answered, and closed, before all of it is written.
        let _ = client.write.write_all(request).await;
        self.compare(name, client, expected).await;
    }

    /// The same, from a client that closes its side behind the bytes.
    pub(crate) async fn check_cut(&mut self, name: &str, request: &[u8], expected: &Expected) {
        let mut client = Client::connect(self.gateway.data_address()).await;
        client.write.write_all(request).await.unwrap();
        client.write.shutdown().await.unwrap();
        self.compare(name, client, expected).await;
    }

    /// A head of which a byte comes now and then: there is never a pause, and never an end.
    pub(crate) async fn check_slow(&mut self, name: &str, head: &str, expected: &Expected) {
        let mut client = Client::connect(self.gateway.data_address()).await;
        let dribble = async {
            for byte in head.bytes().chain(std::iter::repeat(b'x')) {
                if client.write.write_all(&[byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = answer(&mut client.read) => answer,
            () = dribble => None,
        };
        self.judge(name, answer, client, expected).await;
    }

    async fn compare(&mut self, name: &str, mut client: Client, expected: &Expected) {
        let answer = answer(&mut client.read).await;
        self.judge(name, answer, client, expected).await;
    }

    async fn judge(
        &mut self,
        name: &str,
        answer: Option<Answer>,
        mut client: Client,
        expected: &Expected,
    ) {
        let Some(answer) = answer else {
            return self
                .faults
                .push(format!("{name}: closed without an answer"));
        };
        let exchange = self.exchange(&answer.id).await;
        let seen = format!(
            "{} {} {:?} on record as {} {} {}",
            answer.status,
            answer.error["code"],
            client.after().await,
            exchange["status"],
            exchange["outcome"],
            exchange["error"],
        );
        let wanted = format!(
            "{} {:?} {:?} on record as {} {:?} {:?}",
            expected.status,
            expected.code,
            expected.after,
            expected.status,
            expected.record.0,
            expected.record.1,
        );
        let message = answer.error["message"].as_str().unwrap_or_default();
        if seen != wanted || !message.contains(expected.message) {
            self.faults.push(format!(
                "{name}:\n  seen   {seen}: {message}\n  wanted {wanted}: … {} …",
                expected.message
            ));
        }
        self.faults
            .extend(answer.faults.iter().map(|fault| format!("{name}: {fault}")));
    }

    /// All rows are through.
    pub(crate) fn end(self) {
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n"));
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread panicked");
    }

    async fn exchange(&self, id: &str) -> Value {
        let call = Call::get(&format!("/admin/v1/requests/{id}"));
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let answer = call.send(self.gateway.admin_address()).await;
            if answer.status == 200 {
                return answer.json();
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "{id} is not on record"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn configuration(places: &[(String, SocketAddr)]) -> String {
    let server = format!(
        r#"
[server]
listen = "127.0.0.1:0"
workers = 2
max_body = "{}KiB"
body_timeout = "300ms"
header_timeout = "300ms"
[admin]
listen = "127.0.0.1:0"
[store]
path = ":memory:"
[prices]
unknown_model = {{ input = "1.00", output = "2.00", per = 1_000_000 }}
[tenants.team]
keys = [{{ name = "own", sha256 = "{}" }}]
"#,
        MAX_BODY / 1024,
        keys::to_hex(&keys::hash(KEY))
    );
    let routes = places.iter().map(|(name, address)| {
        format!(
            r#"
[providers.{name}]
kind = "openai-compatible"
base_url = "http://{address}/v1"
keys = []
timeouts = {{ first_byte = "500ms" }}
[routes.{name}]
targets = ["{name}/m"]
retry = {{ max_attempts = 1 }}
"#
        )
    });
    std::iter::once(server).chain(routes).collect()
}

/// An error as it came.
struct Answer {
    status: u16,
    error: Value,
    id: String,
    /// What is wrong with its form.
    faults: Vec<String>,
}

/// A connection that shows all that comes over it.
struct Client {
    read: Wire<ReadHalf<TcpStream>>,
    write: WriteHalf<TcpStream>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, write) = split(stream);
        Self {
            read: Wire::new(read),
            write,
        }
    }

    /// Whether another request is answered.
    async fn after(&mut self) -> After {
        let next = with_key("GET /v1/models HTTP/1.1\r\nhost: x\r\n", "\r\n");
        // Writing to a closed connection may fail or not; what counts is what comes back.
        let _ = self.write.write_all(&next).await;
        match timeout(SOON, self.read.head()).await.unwrap() {
            Ok(Some(head)) => {
                assert_eq!(head.status(), Some(200));
                Open
            }
            Ok(None) | Err(_) => Closed,
        }
    }
}

/// The next answer, if there is one.
async fn answer(read: &mut Wire<ReadHalf<TcpStream>>) -> Option<Answer> {
    let head = timeout(SOON, read.head())
        .await
        .expect("an answer or the end");
    let head = head.ok()??;
    let body = read.body(head.answer_framing("POST").ok()?).await.ok()?;
    let error = serde_json::from_slice::<Value>(&body).unwrap_or_default()["error"].take();
    let id = head.header("x-request-id").unwrap_or_default().to_owned();
    let form = [
        (error["message"].is_string(), "no message"),
        (error["type"].is_string(), "no type"),
        (error.get("param").is_some(), "no param"),
        (
            error["whippletree"]["request_id"] == id,
            "another id in the body",
        ),
        (
            head.header("x-wt-request-id") == Some(&id),
            "another x-wt-request-id",
        ),
        (
            head.header("content-type") == Some("application/json"),
            "another content-type",
        ),
        (head.header("x-should-retry").is_some(), "no x-should-retry"),
    ];
    let faults = form.into_iter().filter(|(good, _)| !good);
    Some(Answer {
        status: head.status()?,
        faults: faults.map(|(_, fault)| fault.to_owned()).collect(),
        error,
        id,
    })
}

pub(crate) fn with_key(head: &str, rest: &str) -> Vec<u8> {
    format!("{head}authorization: Bearer {KEY}\r\n{rest}").into_bytes()
}

/// The head of a chat with one more header.
pub(crate) fn head(header: &str) -> String {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
    String::from_utf8(with_key(head, &format!("{header}\r\n"))).unwrap()
}

pub(crate) fn post(body: &[u8]) -> Vec<u8> {
    [
        head(&format!("content-length: {}\r\n", body.len())).as_bytes(),
        body,
    ]
    .concat()
}

pub(crate) fn chat(model: &str) -> String {
    json!({"model": model, "messages": [{"role": "user", "content": "hi"}]}).to_string()
}

pub(crate) fn raw(content_type: &str, text: &str) -> Reply {
    Reply {
        text: Some(text.to_owned()),
        ..Reply::default()
    }
    .header("content-type", content_type)
}

/// Bytes that are no answer in HTTP.
pub(crate) fn no_http(text: &str) -> Reply {
    Reply {
        text: Some(text.to_owned()),
        ..Reply::none(End::Clean)
    }
}

pub(crate) fn status(status: u16, reply: Reply) -> Reply {
    Reply { status, ..reply }
}

pub(crate) fn completion() -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    })
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A panic of a worker is caught by its runtime; nobody would see it.
fn watch_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
}
