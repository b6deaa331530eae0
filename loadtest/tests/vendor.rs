//! The scripted vendor, seen through sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::json;
use whippletree_loadtest::client::{Call, Ended};
use whippletree_loadtest::vendor::{End, Generator, Identity, Options, Reply, Script, Vendor};

const SOON: Duration = Duration::from_secs(10);

async fn vendor(replies: impl IntoIterator<Item = Reply>) -> Vendor {
    Vendor::start(Script::replies(replies)).await.unwrap()
}

#[tokio::test]
async fn replies_come_in_order_and_the_last_repeats() {
    let vendor = vendor([Reply::json(500, json!({"a": 1})), Reply::stub("openai_ok")]).await;
    let call = Call::post("/v1/chat/completions", r#"{"model":"m"}"#);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(call.send(vendor.addr()).await.status);
    }
    assert_eq!(statuses, [500, 200, 200]);
    assert_eq!(vendor.requests().len(), 3);
    assert_eq!(vendor.connections(), 3);
}

#[tokio::test]
async fn a_request_is_recorded_as_it_was_written() {
    let vendor = vendor([Reply::stub("openai_ok")]).await;
    let call = Call::post("/v1/x?y=1", "{ \"b\" : 1 }").header("X-Odd-CASE", "v");
    call.send(vendor.addr()).await;
    let requests = vendor.requests();
    let request = &requests[0];
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("POST", "/v1/x?y=1")
    );
    assert!(
        request
            .headers
            .contains(&("X-Odd-CASE".to_owned(), "v".to_owned()))
    );
    assert_eq!(&request.body[..], b"{ \"b\" : 1 }");
    assert!(request.answered.is_some() && request.disconnected.is_none());
}

#[tokio::test]
async fn every_end_looks_to_a_client_as_it_is_named() {
    let stream = || Reply::events(["data: 1\n\n", "data: 2\n\n"]);
    let cases = [
        (stream(), 200, Ended::Clean, "data: 1\n\ndata: 2\n\n"),
        (
            stream().ending(End::Cut),
            200,
            Ended::Cut,
            "data: 1\n\ndata: 2\n\n",
        ),
        (
            stream().ending(End::Hang),
            200,
            Ended::TimedOut,
            "data: 1\n\ndata: 2\n\n",
        ),
        (Reply::none(End::Cut), 0, Ended::Cut, ""),
        (Reply::none(End::Reset), 0, Ended::Reset, ""),
        (Reply::none(End::Hang), 0, Ended::TimedOut, ""),
        (
            Reply::json(200, json!(1)).header("content-length", "9"),
            200,
            Ended::Cut,
            "1",
        ),
    ];
    for (reply, status, ended, body) in cases {
        let vendor = vendor([reply]).await;
        let call = Call {
            timeout: Duration::from_millis(200),
            ..Call::post("/", "{}")
        };
        let answer = call.send(vendor.addr()).await;
        assert_eq!(
            (answer.status, answer.ended, answer.text().as_str()),
            (status, ended, body)
        );
    }
}

#[tokio::test]
async fn a_stream_can_be_reset_behind_its_last_event() {
    let script = Script::from_json(
        r#"{"replies":[{"writes":["data: 1\n\n",{"sleep_ms":50}],"end":"reset"}]}"#,
    );
    let vendor = Vendor::start(script.unwrap()).await.unwrap();
    let answer = Call::post("/", "{}").send(vendor.addr()).await;
    assert_eq!(
        (answer.ended, answer.text().as_str()),
        (Ended::Reset, "data: 1\n\n")
    );
}

#[tokio::test]
async fn each_write_is_a_piece_of_its_own() {
    let script = r#"{"replies":[{"writes":[{"hex":"c3"},{"sleep_ms":30},{"hex":"a9"},{"repeat_every_ms":20,"write":"{i};","times":3}]}]}"#;
    let vendor = Vendor::start(Script::from_json(script).unwrap())
        .await
        .unwrap();
    let answer = Call::post("/", "{}").send(vendor.addr()).await;
    assert_eq!(answer.text(), "é0;1;2;");
    assert_eq!(&answer.pieces[0].bytes[..], [0xc3]);
    assert!(answer.pieces.len() >= 4, "{:?}", answer.pieces);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_before_the_first_byte() {
    let vendor = vendor([Reply::stub("openai_ok").after_ms(60_000)]).await;
    let call = Call {
        leave_after: Some(Duration::from_millis(50)),
        ..Call::post("/", "{}")
    };
    assert_eq!(call.send(vendor.addr()).await.ended, Ended::Left);
    assert!(
        vendor
            .wait_until(SOON, |requests| requests
                .iter()
                .any(|r| r.disconnected.is_some()))
            .await
    );
}

#[tokio::test]
async fn a_chunked_upload_and_a_waiting_one_arrive_whole() {
    let vendor = vendor([Reply::stub("openai_ok")]).await;
    let body = format!("{{\"x\":\"{}\"}}", "y".repeat(300_000));
    let chunked = Call {
        chunked: Some(1000),
        ..Call::post("/", body.clone())
    };
    assert_eq!(chunked.send(vendor.addr()).await.status, 200);
    let waiting = Call {
        expect_continue: true,
        ..Call::post("/", body.clone())
    };
    let answer = waiting.send(vendor.addr()).await;
    assert!(answer.continued && answer.status == 200);
    assert!(
        vendor
            .requests()
            .iter()
            .all(|request| request.body == body.as_bytes())
    );
}

#[tokio::test]
async fn a_compressed_answer_says_so() {
    let reply = Reply {
        gzip: true,
        ..Reply::json(200, json!({"a": 1}))
    };
    let vendor = vendor([reply]).await;
    let answer = Call::get("/").send(vendor.addr()).await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(&answer.body()[..]),
        &mut text,
    )
    .unwrap();
    assert_eq!(text, r#"{"a":1}"#);
}

#[tokio::test]
async fn a_script_can_be_changed_while_it_plays() {
    let vendor = vendor([Reply::json(500, json!(1))]).await;
    let call = Call::post("/", "{}");
    assert_eq!(call.send(vendor.addr()).await.status, 500);
    vendor
        .set_script(Script::replies([Reply::json(201, json!(1))]))
        .unwrap();
    assert_eq!(call.send(vendor.addr()).await.status, 201);
}

#[tokio::test]
async fn replies_played_first_come_once_and_the_script_goes_on() {
    let vendor = vendor([
        Reply::json(200, json!(1)),
        Reply::json(201, json!(1)),
        Reply::json(202, json!(1)),
    ])
    .await;
    let call = Call::post("/", "{}");
    let status = async || call.send(vendor.addr()).await.status;
    let mut statuses = vec![status().await];
    let faults = [Reply::json(503, json!(1)), Reply::json(429, json!(1))];
    vendor.play_first(faults).unwrap();
    for _ in 0..3 {
        statuses.push(status().await);
    }
    vendor.play_first([Reply::json(500, json!(1))]).unwrap();
    vendor.play_first([]).unwrap();
    statuses.push(status().await);
    assert_eq!(statuses, [200, 503, 429, 201, 202]);
}

#[tokio::test]
async fn a_stopped_vendor_refuses_connections() {
    let vendor = vendor([Reply::none(End::Hang)]).await;
    let addr = vendor.addr();
    vendor.stop().await;
    assert_eq!(Call::get("/").send(addr).await.ended, Ended::Refused);
}

#[tokio::test]
async fn http2_gives_the_same_answers() {
    let options = Options {
        http2: true,
        ..Options::default()
    };
    let replies = Script::replies([
        Reply::events(["data: 1\n\n", "data: 2\n\n"]),
        Reply::none(End::Reset),
    ]);
    let vendor = Vendor::bind(replies, options).await.unwrap();
    let stream = tokio::net::TcpStream::connect(vendor.addr()).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io)
            .await
            .unwrap();
    let driving = tokio::spawn(connection);
    let request = || {
        http::Request::post(format!("http://{}/v1/x", vendor.addr()))
            .body(http_body_util::Full::new(bytes::Bytes::from_static(b"{}")))
            .unwrap()
    };
    let answer = send.send_request(request()).await.unwrap();
    let body = http_body_util::BodyExt::collect(answer.into_body())
        .await
        .unwrap()
        .to_bytes();
    assert_eq!(&body[..], b"data: 1\n\ndata: 2\n\n");
    assert!(send.send_request(request()).await.is_err());
    assert_eq!(vendor.requests().len(), 2);
    driving.abort();
}

#[tokio::test]
async fn tls_carries_the_byte_exact_side_too() {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let pem = identity.pem().to_owned();
    let options = Options {
        tls: Some(identity),
        ..Options::default()
    };
    let vendor = Vendor::bind(Script::replies([Reply::stub("openai_ok")]), options)
        .await
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    let der = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(pem.as_bytes());
    roots.add(der.unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let tcp = tokio::net::TcpStream::connect(vendor.addr()).await.unwrap();
    let mut stream = connector
        .connect("localhost".try_into().unwrap(), tcp)
        .await
        .unwrap();
    let request =
        b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request)
        .await
        .unwrap();
    let mut wire = whippletree_loadtest::wire::Wire::new(stream);
    let head = wire.head().await.unwrap().unwrap();
    assert_eq!(head.status(), Some(200));
    let body = wire
        .body(head.answer_framing("POST").unwrap())
        .await
        .unwrap();
    assert!(std::str::from_utf8(&body).unwrap().contains("chatcmpl-ok"));
}

#[tokio::test]
async fn a_generated_stream_comes_token_by_token() {
    let rules = Generator {
        tokens_per_second: 200,
        first_token_ms: 10,
        ..Generator::default()
    };
    let vendor = Vendor::start(Script::generate(rules)).await.unwrap();
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = Call::post("/v1/chat/completions", body)
        .send(vendor.addr())
        .await;
    let events = answer.events();
    assert_eq!(
        events.last().map(|event| event.data.as_str()),
        Some("[DONE]")
    );
    assert!(events.len() > 24);
}
