//! What comes of bad input, item by item: a clear error in the dialect's shape, the call on record,
//! no panic, and a connection of which both sides know whether it goes on.
//!
//! Each test is a table; a row is what is sent, or what the vendor does, and what has to come of it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "helpers of tests; what fails is the test"
)]

mod world;

use serde_json::json;
use whippletree::keys;
use whippletree_loadtest::vendor::{End, Reply};

use world::After::{Closed, Open};
use world::{
    Expected, KEY, MAX_BODY, World, chat, completion, head, no_http, post, raw, status, with_key,
};

#[tokio::test]
async fn keys_that_are_none() {
    let mistyped = {
        let key = "sk-wt-0000000000000000000000000000000000000000000000000";
        assert!(keys::check(key).is_err(), "its checksum must not fit");
        format!("Bearer {key}")
    };
    let authorizations = [
        ("no key", None),
        ("an unknown key", Some(format!("Bearer not {KEY}"))),
        ("a key with a wrong checksum", Some(mistyped)),
        ("an empty key", Some("Bearer ".to_owned())),
        ("another scheme", Some("Basic dTpw".to_owned())),
        (
            "a very long key",
            Some(format!("Bearer {}", "x".repeat(8000))),
        ),
    ];
    let mut world = World::new(vec![]).await;
    for (name, authorization) in authorizations {
        let header = authorization.map_or_else(String::new, |a| format!("authorization: {a}\r\n"));
        let body = chat("m");
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{header}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let expected = Expected {
            status: 401,
            code: "invalid_api_key",
            message: "the key is missing or not valid here",
            record: ("refused", "unauthenticated"),
            after: Open,
        };
        world.check(name, request.as_bytes(), &expected).await;
    }
    world.end();
}

#[tokio::test]
async fn heads_that_are_no_requests() {
    let refused = |status, code, message| Expected {
        status,
        code,
        message,
        record: ("refused", code),
        after: Closed,
    };
    let too_large = || {
        refused(
            431,
            "head_too_large",
            "raise server.max_head or server.max_headers",
        )
    };
    let malformed = || refused(400, "invalid_head", "not valid HTTP");
    let chat = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
    let rows = [
        (
            "one large field",
            format!("{chat}x: {}\r\n\r\n", "x".repeat(70_000)),
            too_large(),
        ),
        (
            "one field without end",
            format!("{chat}x: {}", "x".repeat(4_000_000)),
            too_large(),
        ),
        (
            "many fields",
            format!("{chat}{}\r\n", "x: y\r\n".repeat(101)),
            too_large(),
        ),
        (
            "fields without end",
            format!("{chat}{}", "x: y\r\n".repeat(500_000)),
            too_large(),
        ),
        ("no HTTP", "hello?\r\n\r\n".into(), malformed()),
        (
            "a field without a name",
            format!("{chat}: x\r\n\r\n"),
            malformed(),
        ),
        (
            "a field with a line break",
            format!("{chat}x: a\rb\r\n\r\n"),
            malformed(),
        ),
        (
            "two lengths",
            format!("{chat}content-length: 1\r\ncontent-length: 2\r\n\r\n"),
            malformed(),
        ),
        (
            "a length that is none",
            format!("{chat}content-length: -1\r\n\r\n"),
            malformed(),
        ),
        (
            "an unknown coding of the body",
            format!("{chat}transfer-encoding: gzip\r\n\r\n"),
            malformed(),
        ),
        (
            "a head that stops",
            format!("{chat}authorization: Bear"),
            refused(408, "head_timeout", "did not come in time"),
        ),
    ];
    let mut world = World::new(vec![]).await;
    for (name, request, expected) in rows {
        world.check(name, request.as_bytes(), &expected).await;
    }
    let late = refused(408, "head_timeout", "did not come in time");
    world
        .check_slow("a head byte by byte", &format!("{chat}x: "), &late)
        .await;
    world.end();
}

#[tokio::test]
async fn bodies_that_are_no_requests() {
    let nested = format!(
        r#"{{"model":"m","x":{}{}}}"#,
        "[".repeat(1000),
        "]".repeat(1000)
    );
    let invalid = |message| Expected {
        status: 400,
        code: "invalid_body",
        message,
        record: ("refused", "invalid_body"),
        after: Open,
    };
    let rows: [(&str, &[u8], Expected); 13] = [
        ("no body", b"", invalid("ends before the json does")),
        (
            "not JSON",
            b"model=m&prompt=hi",
            invalid("not valid json (at byte 0)"),
        ),
        (
            "HTML",
            b"<html><body>hi</body></html>",
            invalid("not valid json (at byte 0)"),
        ),
        (
            "JSON that is cut",
            br#"{"model":"m","messages":[{"ro"#,
            invalid("ends before the json does"),
        ),
        (
            "JSON with more behind it",
            br#"{"model":"m"} {"model":"n"}"#,
            invalid("follows the json object (at byte 14)"),
        ),
        ("an array", br#"[{"model":"m"}]"#, invalid("object")),
        (
            "a key twice",
            br#"{"model":"m","model":"n"}"#,
            invalid("two top-level fields of the same name (at byte 14)"),
        ),
        (
            "a key twice, once escaped",
            br#"{"model":"m","mod\u0065l":"n"}"#,
            invalid("two top-level fields of the same name"),
        ),
        ("nested 1,000 deep", nested.as_bytes(), invalid("128")),
        (
            "invalid UTF-8",
            b"{\"model\":\"m\",\"x\":\"\xff\xfe\"}",
            invalid("not valid utf-8 (at byte 18)"),
        ),
        (
            "half a surrogate pair as bytes",
            b"{\"model\":\"m\",\"x\":\"\xed\xa0\x80\"}",
            invalid("not valid utf-8 (at byte 18)"),
        ),
        ("no model", br#"{"messages":[]}"#, invalid("names no model")),
        (
            "a model that is no name",
            br#"{"model":5,"messages":[]}"#,
            invalid("model"),
        ),
    ];
    let mut world = World::new(vec![]).await;
    for (name, body, expected) in rows {
        world.check(name, &post(body), &expected).await;
    }
    world.end();
}

#[tokio::test]
async fn bodies_that_do_not_come_whole() {
    let too_large = |after| Expected {
        status: 413,
        code: "body_too_large",
        message: "larger than the 65536 bytes allowed",
        record: ("refused", "body_too_large"),
        after,
    };
    // More than any buffer holds: what is behind the answer cannot be told apart from a request.
    let large = "x".repeat(16 * MAX_BODY);
    let rows = [
        (
            "too large, as announced",
            head(&format!("content-length: {}\r\n", large.len())) + &large,
            too_large(Closed),
        ),
        (
            "too large, in chunks",
            head("transfer-encoding: chunked\r\n")
                + &format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len()),
            too_large(Closed),
        ),
        (
            "broken chunks",
            head("transfer-encoding: chunked\r\n") + "zz\r\n",
            Expected {
                status: 400,
                code: "invalid_body",
                message: "ended before it was whole",
                record: ("refused", "invalid_body"),
                after: Closed,
            },
        ),
        (
            "stopped in the middle",
            head("content-length: 1000\r\n") + r#"{"model":"m","#,
            Expected {
                status: 408,
                code: "body_timeout",
                message: "the request body stopped coming",
                record: ("refused", "body_timeout"),
                after: Closed,
            },
        ),
    ];
    let mut world = World::new(vec![]).await;
    for (name, request, expected) in rows {
        world.check(name, request.as_bytes(), &expected).await;
    }
    let cut = Expected {
        status: 400,
        code: "invalid_body",
        message: "ended before it was whole",
        record: ("refused", "invalid_body"),
        after: Closed,
    };
    let request = head("content-length: 1000\r\n") + r#"{"model":"m","#;
    world
        .check_cut("cut, and the client listens", request.as_bytes(), &cut)
        .await;
    let request = head("transfer-encoding: chunked\r\n") + "5\r\n{\"mod";
    world
        .check_cut("cut in a chunk", request.as_bytes(), &cut)
        .await;
    world.end();
}

#[tokio::test]
async fn names_that_nobody_has() {
    let not_found = |message, record: &'static str, code| Expected {
        status: 404,
        code,
        message,
        record: ("refused", record),
        after: Open,
    };
    let named = |model: &str| post(chat(model).as_bytes());
    let rows = [
        (
            "a model with a typing error",
            named("codr"),
            not_found(
                r#"did you mean "coder""#,
                "unknown_model",
                "model_not_found",
            ),
        ),
        (
            "a model like no other",
            named("zzzzzzzzzzzz"),
            not_found(
                "GET /v1/models lists them",
                "unknown_model",
                "model_not_found",
            ),
        ),
        (
            "an empty name",
            named(""),
            not_found(
                "GET /v1/models lists them",
                "unknown_model",
                "model_not_found",
            ),
        ),
        (
            "a path outside the API",
            with_key(
                "POST /chat/completions HTTP/1.1\r\nhost: x\r\n",
                "content-length: 2\r\n\r\n{}",
            ),
            not_found("the API lives under /v1/", "unknown_path", "unknown_path"),
        ),
        (
            "a method that does not fit",
            with_key("GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\n", "\r\n"),
            Expected {
                status: 405,
                code: "method_not_allowed",
                message: "takes POST only",
                record: ("refused", "method_not_allowed"),
                after: Open,
            },
        ),
    ];
    let mut world = World::new(vec![]).await;
    for (name, request, expected) in rows {
        world.check(name, &request, &expected).await;
    }
    world.end();
}

#[tokio::test]
async fn vendors_that_do_not_answer_as_they_should() {
    let page = "<!DOCTYPE html><html><body><h1>It works!</h1></body></html>";
    let answer = completion().to_string();
    let failed = |status, class, code, message| Expected {
        status,
        code,
        message,
        record: ("failed", class),
        after: Open,
    };
    let malformed = || {
        failed(
            502,
            "malformed_response",
            "malformed_response",
            "could not be read",
        )
    };
    let transport = || failed(502, "transport", "transport", "could not be reached");
    let json = |text: &str| raw("application/json", text);
    let rows = vec![
        ("closes", Reply::none(End::Clean), transport()),
        ("resets", Reply::none(End::Reset), transport()),
        (
            "is silent",
            Reply::none(End::Hang),
            failed(504, "timeout", "timeout", "did not answer in time"),
        ),
        (
            "sends garbage",
            no_http("\u{1}\u{2} no HTTP at all\r\n\r\n"),
            malformed(),
        ),
        (
            "sends a head without end",
            no_http(&format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(1 << 20))),
            malformed(),
        ),
        ("sends nothing", json(""), malformed()),
        ("sends HTML", raw("text/html", page), malformed()),
        ("sends HTML as JSON", json(page), malformed()),
        (
            "fails in HTML",
            status(500, raw("text/html", page)),
            failed(502, "server_error", "server_error", "failed"),
        ),
        (
            "is overloaded in HTML",
            status(503, raw("text/html", page)),
            failed(503, "overloaded", "server_is_overloaded", "is overloaded"),
        ),
        (
            "sends events for a whole answer",
            raw("text/event-stream", "data: [DONE]\n\n"),
            malformed(),
        ),
        (
            "sends JSON of another kind",
            json(r#"{"ok":true}"#),
            malformed(),
        ),
        ("sends no choices", json(r#"{"choices":[]}"#), malformed()),
        (
            "sends less than announced",
            json(&answer).header("content-length", "4096"),
            malformed(),
        ),
        (
            "sends more than announced",
            json(&answer).header("content-length", "20"),
            malformed(),
        ),
        (
            "announces two lengths",
            json(&answer)
                .header("content-length", "20")
                .header("content-length", "30"),
            malformed(),
        ),
        (
            "says gzip and sends none",
            json(&answer).header("content-encoding", "gzip"),
            malformed(),
        ),
        (
            "breaks off in the middle",
            json(&answer[..30]).ending(End::Cut),
            malformed(),
        ),
    ];
    let mut world = World::of_vendors(rows, &json!({"messages": []})).await;
    let down = transport();
    world
        .check(
            "a vendor that is down",
            &post(chat("down").as_bytes()),
            &down,
        )
        .await;
    world.end();
}

#[tokio::test]
async fn vendors_that_do_not_stream_as_they_should() {
    let opening = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}"#;
    let stream = |text: &str| raw("text/event-stream", text);
    let failed = |class| Expected {
        status: 502,
        code: class,
        message: "vendor-",
        record: ("failed", class),
        after: Open,
    };
    let rows = vec![
        ("sends nothing", stream(""), failed("stream_interrupted")),
        (
            "sends HTML",
            raw("text/html", "<html></html>"),
            failed("malformed_response"),
        ),
        (
            "sends HTML as events",
            stream("<html></html>\n\n"),
            failed("stream_interrupted"),
        ),
        (
            "sends events that are no JSON",
            stream("data: <html>\n\ndata: [DONE]\n\n"),
            failed("malformed_response"),
        ),
        (
            "ends at once",
            stream("data: [DONE]\n\n"),
            failed("stream_interrupted"),
        ),
        (
            "ends before any content",
            stream(&format!("{opening}\n\n")),
            failed("stream_interrupted"),
        ),
        (
            "is cut in an event",
            stream(&opening[..40]),
            failed("stream_interrupted"),
        ),
        (
            "sends less than announced",
            stream(&format!("{opening}\n\n")).header("content-length", "4096"),
            failed("stream_interrupted"),
        ),
        (
            "sends an error as an event",
            stream(
                "data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
            ),
            failed("server_error"),
        ),
    ];
    World::of_vendors(rows, &json!({"stream": true, "messages": []}))
        .await
        .end();
}
