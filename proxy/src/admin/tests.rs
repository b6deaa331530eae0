mod description;

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;
use whippletree_policies::ids::{KeyIndex, ProviderId, TargetId};
use whippletree_policies::outcome::Class;
use whippletree_policies::route::breaker::BreakerState;
use whippletree_policies::route::health::Standing;
use whippletree_policies::time::UnixTime;

use super::*;
use crate::config;
use crate::config::load::{Source, load};
use crate::config::reload::{Follower, Live, Refused};
use crate::exchange::{Exchange, Millis};
use crate::server::Counts;
use crate::store::Store;
use crate::store::tests::{exchange, id};
use crate::telemetry::metrics::Metrics;
use crate::upstream::PoolCounts;

const CONFIG: &str = r#"
[providers.openai]
kind = "openai"
keys = [{ file = "vendor.key" }]

[routes.coder]
targets = ["openai/gpt-5.6"]
"#;

#[derive(Debug)]
struct Idle;

impl Gateway for Idle {
    fn standings(&self) -> Vec<Standing> {
        vec![Standing {
            target: "openai/gpt-5.6".into(),
            breaker: BreakerState::Closed,
            shut: Some(Class::ModelUnavailable),
            keys: Vec::new(),
        }]
    }

    fn in_flight(&self, _target: &TargetId) -> u32 {
        3
    }

    fn pools(&self) -> Vec<(ProviderId, PoolCounts)> {
        Vec::new()
    }

    fn connections(&self) -> Counts {
        Counts {
            open: 2,
            accepted: 5,
            refused: 1,
        }
    }

    fn restore(&self, target: &TargetId) -> bool {
        target.as_str() == "openai/gpt-5.6"
    }

    fn unlock(&self, provider: &str, key: KeyIndex) -> bool {
        (provider, key) == ("openai", KeyIndex(0))
    }

    fn is_draining(&self) -> bool {
        false
    }
}

/// Has nothing to take over.
struct Nobody;

impl Follower for Nobody {
    fn take_over(&self, _: &config::Config, _: &Arc<config::Config>) -> anyhow::Result<()> {
        Ok(())
    }

    fn reloaded(&self, _: Option<&Refused>) {}
}

/// An admin plane over a store in memory.
struct Plane {
    directory: tempfile::TempDir,
    state: Arc<AdminState>,
    store: Store,
}

impl Plane {
    fn new(exchanges: &[Exchange]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("whippletree.toml");
        std::fs::write(directory.path().join("vendor.key"), "sk-PLANTEDSECRET").unwrap();
        std::fs::write(&path, CONFIG).unwrap();
        let loaded = load(&Source::File(path)).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        metrics.configure(&loaded.config);
        let store = Store::open(&config::Store::Memory).unwrap();
        for exchange in exchanges {
            store.recorder().record(exchange);
            metrics.observe(exchange);
        }
        let state = AdminState::new(
            Arc::new(Idle),
            Arc::new(Live::new(loaded, Nobody)),
            metrics,
            store.recorder(),
            store.reader(),
        );
        Self {
            directory,
            state: Arc::new(state),
            store,
        }
    }

    async fn send(&self, method: &str, target: &str) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", "localhost:8081")
            .body(Body::empty())
            .unwrap();
        let peer: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = router(&self.state).oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        (head.status, head.headers, text)
    }

    async fn json(&self, target: &str) -> Value {
        let (status, _, text) = self.send("GET", target).await;
        assert_eq!(status, StatusCode::OK, "{target}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// Times of one a second, so that pages have an order.
fn exchanges(count: u64) -> Vec<Exchange> {
    let at = |n| {
        let time = 1_764_500_000_000 + i64::try_from(n * 1000).unwrap();
        Exchange {
            request_id: id(time, n),
            time: UnixTime(time),
            task: (n % 2 == 0).then(|| "even".to_owned()),
            duration_ms: Millis(0),
            ..exchange(n)
        }
    };
    (0..count).map(at).collect()
}

fn ids(list: &Value) -> Vec<u64> {
    let items = list.as_array().unwrap();
    let id = |item: &Value| item["request_id"].as_str().unwrap()[24..].to_owned();
    items
        .iter()
        .map(|item| u64::from_str_radix(&id(item), 16).unwrap())
        .collect()
}

#[tokio::test]
async fn requests_come_newest_first_page_by_page_and_filtered() {
    let plane = Plane::new(&exchanges(7));
    let first = plane.json("/admin/v1/requests?limit=3").await;
    assert_eq!(ids(&first["requests"]), [6, 5, 4]);
    let cursor = first["next_cursor"].as_str().unwrap();
    // What is recorded meanwhile does not move the next page.
    plane.store.recorder().record(&exchange(9_000_000));
    let second = plane
        .json(&format!("/admin/v1/requests?limit=3&cursor={cursor}"))
        .await;
    assert_eq!(ids(&second["requests"]), [3, 2, 1]);
    let cursor = second["next_cursor"].as_str().unwrap();
    let last = plane
        .json(&format!("/admin/v1/requests?limit=3&cursor={cursor}"))
        .await;
    assert_eq!(ids(&last["requests"]), [0]);
    assert_eq!(last["next_cursor"], Value::Null);

    let picked = plane
        .json("/admin/v1/requests?task=even&tenant=research&route=coder&outcome=ok&target=openai/gpt-5.6&since=2025-11-30T10:53:22Z&until=1764500006000")
        .await;
    assert_eq!(ids(&picked["requests"]), [4, 2]);
    let none = plane.json("/admin/v1/requests?outcome=refused").await;
    assert_eq!(ids(&none["requests"]), [0; 0]);
}

#[tokio::test]
async fn one_request_and_its_ledger_entries_are_found_by_id() {
    let plane = Plane::new(&exchanges(3));
    let id = exchanges(3)[1].request_id;
    let one = plane.json(&format!("/admin/v1/requests/{id}")).await;
    assert_eq!(
        serde_json::from_value::<Exchange>(one).unwrap(),
        exchanges(3)[1]
    );
    let ledger = plane
        .json(&format!("/admin/v1/ledger?request_id={id}"))
        .await;
    assert_eq!(ledger["entries"].as_array().unwrap().len(), 1);
    assert_eq!(ledger["entries"][0]["cost_usd"], "0.000001234567");
    let page = plane.json("/admin/v1/ledger?limit=2").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = plane
        .json(&format!("/admin/v1/ledger?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(ids(&rest["entries"]), [0]);
    let unknown = exchange(77).request_id;
    let (status, headers, text) = plane
        .send("GET", &format!("/admin/v1/requests/{unknown}"))
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(headers["content-type"], "application/problem+json");
    insta::assert_snapshot!(
        text,
        @r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"there is no request with this id"}"#
    );
}

#[tokio::test]
async fn usage_is_the_same_as_json_and_as_csv() {
    let plane = Plane::new(&exchanges(3));
    let json = plane
        .json("/admin/v1/usage?group_by=tenant,model&bucket=day&time_zone=Europe/Berlin&from=2025-11-01&to=2025-12-01")
        .await;
    insta::assert_json_snapshot!(json);
    let (_, headers, csv) = plane
        .send("GET", "/admin/v1/usage?group_by=tenant&format=csv")
        .await;
    assert_eq!(
        headers["content-type"],
        "text/csv; charset=utf-8; header=present"
    );
    insta::assert_snapshot!(csv);
    let page = plane
        .json("/admin/v1/usage?bucket=minute&group_by=task&limit=1")
        .await;
    assert_eq!(page["rows"].as_array().unwrap().len(), 1);
    assert_eq!(page["next_cursor"], "1");
}

#[tokio::test]
async fn finance_tools_find_the_shapes_that_they_know() {
    let plane = Plane::new(&exchanges(3));
    let start = 1_764_460_800;
    let completions = plane
        .json(&format!("/v1/organization/usage/completions?start_time={start}&end_time={}&group_by[]=project_id&group_by[]=model&limit=1", start + 2 * 86_400))
        .await;
    insta::assert_json_snapshot!("completions", completions);
    let costs = plane
        .json(&format!(
            "/v1/organization/costs?start_time={start}&end_time={}&group_by=line_item",
            start + 86_400
        ))
        .await;
    insta::assert_json_snapshot!("costs", costs);
    let batch = plane
        .json(&format!(
            "/v1/organization/usage/completions?start_time={start}&batch=true&limit=1"
        ))
        .await;
    assert_eq!(batch["data"][0]["results"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn what_is_not_understood_is_refused_with_its_name() {
    let plane = Plane::new(&[]);
    let mut answers = Vec::new();
    for target in [
        "/admin/v1/requests?tenat=x",
        "/admin/v1/requests?tenant=a&tenant=b",
        "/admin/v1/requests?limit=0",
        "/admin/v1/requests?limit=many",
        "/admin/v1/requests?cursor=x",
        "/admin/v1/requests?since=yesterday",
        "/admin/v1/requests?outcome=good",
        "/admin/v1/requests/7",
        "/admin/v1/ledger?kind=spend",
        "/admin/v1/usage?group_by=colour",
        "/admin/v1/usage?bucket=week",
        "/admin/v1/usage?format=focus",
        "/admin/v1/usage?time_zone=Mars",
        "/v1/organization/costs",
        "/v1/organization/costs?start_time=99999999999999",
        "/v1/organization/usage/completions?start_time=1&bucket_width=2d",
        "/nowhere",
    ] {
        let (status, headers, text) = plane.send("GET", target).await;
        assert_eq!(
            headers["content-type"], "application/problem+json",
            "{target}"
        );
        let problem: Value = serde_json::from_str(&text).unwrap();
        answers.push(format!(
            "{target}\n    {} {}",
            status.as_u16(),
            problem["detail"].as_str().unwrap()
        ));
    }
    insta::assert_snapshot!(answers.join("\n"));
}

#[tokio::test]
async fn another_method_is_told_which_there_is() {
    let plane = Plane::new(&[]);
    for (method, target, allowed) in [
        ("DELETE", "/admin/v1/requests", "GET,HEAD"),
        ("GET", "/admin/v1/reload", "POST"),
    ] {
        let (status, headers, text) = plane.send(method, target).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(headers["allow"], allowed);
        assert_eq!(
            headers["content-type"], "application/problem+json",
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_reload_says_what_it_did_and_metrics_follow() {
    let plane = Plane::new(&[]);
    let reload = async || {
        let (status, _, text) = plane.send("POST", "/admin/v1/reload").await;
        (
            status.as_u16(),
            serde_json::from_str::<Value>(&text).unwrap(),
        )
    };
    let (status, answer) = reload().await;
    assert_eq!((status, &answer["changed"]), (200, &Value::Bool(false)));
    let path = plane.directory.path().join("whippletree.toml");
    std::fs::write(&path, "[providers.openai]\nkind = \"nobody\"\n").unwrap();
    let (status, answer) = reload().await;
    assert_eq!(status, 422);
    assert!(
        answer["detail"].as_str().unwrap().contains("nobody"),
        "{answer}"
    );
    let config = plane.json("/admin/v1/config").await;
    assert_eq!(config["generation"], 1);
    assert!(
        config["last_error"]["message"]
            .as_str()
            .unwrap()
            .contains("nobody")
    );
    let (_, _, metrics) = plane.send("GET", "/metrics").await;
    assert!(metrics.contains("\nwhippletree_config_last_reload_successful 0\n"));
    std::fs::write(&path, format!("{CONFIG}\n[server]\nmax_headers = 50\n")).unwrap();
    let (status, answer) = reload().await;
    assert_eq!((status, &answer["generation"]), (200, &Value::from(2)));
}

#[tokio::test]
async fn no_answer_holds_a_secret() {
    let plane = Plane::new(&exchanges(1));
    for endpoint in endpoints() {
        let path = endpoint
            .path
            .replace("{id}", &exchanges(1)[0].request_id.to_string());
        let (_, headers, text) = plane.send(endpoint.method.as_str(), &path).await;
        assert!(!text.contains("PLANTEDSECRET"), "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
    }
}

#[tokio::test]
async fn targets_show_their_health() {
    let plane = Plane::new(&[]);
    insta::assert_json_snapshot!(plane.json("/admin/v1/targets").await);
}

#[tokio::test]
async fn probes_and_metrics_answer() {
    let plane = Plane::new(&exchanges(2));
    assert_eq!(plane.json("/healthz").await["status"], "ok");
    assert_eq!(plane.json("/readyz").await["status"], "ok");
    let (_, headers, text) = plane.send("GET", "/metrics").await;
    assert_eq!(
        headers["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let line = "whippletree_requests_total{outcome=\"ok\",route=\"coder\",tenant=\"other\"} 2\n";
    assert!(text.contains(line), "{text}");
    let (_, headers, page) = plane.send("GET", "/").await;
    assert!(headers.contains_key("content-security-policy"));
    assert!(page.contains("generation 1"));
}

#[tokio::test]
async fn a_person_restores_a_target_and_unlocks_a_key() {
    let plane = Plane::new(&[]);
    let schemas = &openapi::describe()["components"]["schemas"];
    for (path, name, field) in [
        (
            "/admin/v1/targets/openai%2Fgpt-5.6/restore",
            "Restored",
            "was_shut",
        ),
        (
            "/admin/v1/providers/openai/keys/0/unlock",
            "Unlocked",
            "was_locked",
        ),
    ] {
        let (status, _, text) = plane.send("POST", path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer[field], true);
        description::fits(schemas, &schemas[name], &answer, name);
    }
    for path in [
        "/admin/v1/targets/openai%2Fother/restore",
        "/admin/v1/providers/openai/keys/1/unlock",
        "/admin/v1/providers/other/keys/0/unlock",
    ] {
        let (status, _, text) = plane.send("POST", path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {text}");
    }
}

/// Over a real socket, from the thread that serves it to its end.
#[test]
fn the_plane_serves_on_its_own_thread_until_the_shutdown() {
    use std::io::{Read as _, Write as _};

    let plane = Plane::new(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let thread = start(listener, Arc::clone(&plane.state), shutdown.clone()).unwrap();
    let ask = |host: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head =
            format!("GET /admin/v1/keys HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("localhost").starts_with("HTTP/1.1 200 "));
    assert!(ask("evil.example").starts_with("HTTP/1.1 403 "));
    shutdown.cancel();
    thread.join().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}
