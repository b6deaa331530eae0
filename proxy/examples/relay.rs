//! The data plane's sockets without the gateway: what receiving, sending and relaying cost alone.
//!
//! Takes the place of the gateway in the bench, to see which part of the cost is whose:
//!
//! ```text
//! whippletree-loadtest bench --gateway target/release/examples/relay
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a tool for measuring, started by hand with a file of known form"
)]

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use whippletree::config::{self, PoolSettings, Provider, Timeouts};
use whippletree::server::{
    self, Handler, HeadFault, InflightBytes, Listener, Peer, ReceiveLimits, Upload,
};
use whippletree::upstream::{Call, Pool, UpstreamBody};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_mins(1),
    idle: Duration::from_mins(2),
    total: Duration::from_mins(30),
};

const LIMITS: ReceiveLimits = ReceiveLimits {
    max_body: 64 << 20,
    pause: Duration::from_secs(30),
};

#[derive(Clone)]
struct Relay {
    pool: Pool,
    budget: InflightBytes,
}

impl Handler for Relay {
    type Body = Either<UpstreamBody, Full<Bytes>>;

    async fn handle(self, request: Request<Upload>, _: Peer) -> Response<Self::Body> {
        if request.uri().path() == "/readyz" {
            return Response::new(Either::Right(Full::default()));
        }
        let (head, body) = request.into_parts();
        let Ok(body) = server::receive_body(body, LIMITS, &self.budget).await else {
            return failed(StatusCode::BAD_REQUEST);
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sk-vendor"));
        let call = Call {
            method: head.method,
            path_and_query: head.uri.path_and_query().unwrap().clone(),
            headers,
            body: body.bytes.into(),
            timeouts: TIMEOUTS,
            give_up_at: None,
        };
        let Ok(answer) = self.pool.send(call).await else {
            return failed(StatusCode::BAD_GATEWAY);
        };
        let mut response = Response::new(Either::Left(answer.body));
        *response.status_mut() = answer.status;
        if let Some(value) = answer.headers.get(CONTENT_TYPE) {
            response.headers_mut().insert(CONTENT_TYPE, value.clone());
        }
        response
    }

    fn refuse(&self, _: HeadFault) -> Response<Self::Body> {
        failed(StatusCode::BAD_REQUEST)
    }
}

fn failed(status: StatusCode) -> Response<Either<UpstreamBody, Full<Bytes>>> {
    let mut response = Response::new(Either::Right(Full::default()));
    *response.status_mut() = status;
    response
}

fn main() {
    let path = std::env::args().skip_while(|arg| arg != "--config").nth(1);
    let text = std::fs::read_to_string(path.unwrap()).unwrap();
    let file: toml::Table = text.parse().unwrap();
    let workers = std::thread::available_parallelism().unwrap().get();
    let provider = Provider {
        id: "vendor".into(),
        kind: "openai",
        base_url: file["providers"]["v"]["base_url"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap(),
        keys: Vec::new(),
        timeouts: TIMEOUTS,
        pool: PoolSettings {
            max_connections: 4096,
            warm: 0,
            http2: false,
            wait: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(1),
            max_lifetime: Duration::from_mins(10),
        },
        apis: Vec::new(),
        error_classes: std::collections::BTreeMap::new(),
        ca: None,
    };
    let settings = config::Server {
        listen: file["server"]["listen"].as_str().unwrap().parse().unwrap(),
        workers,
        max_body: LIMITS.max_body,
        max_inflight_bytes: 1 << 30,
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_mins(2),
        max_head: 65_536,
        max_headers: 100,
        max_connections: 10_000,
        drain_timeout: Duration::from_mins(1),
        tls: None,
    };
    let relay = Relay {
        pool: Pool::new(&provider, workers).unwrap(),
        budget: InflightBytes::new(settings.max_inflight_bytes),
    };
    let admin = file["admin"]["listen"].as_str().unwrap().parse().unwrap();
    let listeners =
        [settings.listen, admin].map(|address| Listener::bind(address, 10_000).unwrap());
    server::start(&listeners, settings, None, &relay)
        .unwrap()
        .join();
}
