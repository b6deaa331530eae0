//! An answer whose head goes out before the answer has begun.
//!
//! With `commit = "complete"` a stream is held until it is whole, which takes minutes, and whatever
//! stands between the client and the gateway cuts a connection that is silent so long. So the head is
//! sent after one `keepalive`, comment lines flow, and attempts go on behind them. What fails within
//! the first `keepalive` still has its true status; later it is an error event.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{self, HeaderValue};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};
use whippletree_providers::provider::Api;

use super::run::{Attended, Running};
use crate::api::body::{Body, Cut};

/// A comment line without the blank line that would make it an event.
const KEEPALIVE: Bytes = Bytes::from_static(b": keep-alive\n");

/// A stream that the client was promised.
pub struct Early {
    running: Option<Running>,
    attended: Option<Attended>,
    api: Api,
    every: Duration,
    timer: Pin<Box<Sleep>>,
}

impl fmt::Debug for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Early")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

/// The answer if it begins within `every`, else the promise of one.
pub(super) async fn early(mut running: Running, every: Duration, api: Api) -> Response<Body> {
    if let Ok(answer) = tokio::time::timeout(every, &mut running).await {
        return answer;
    }
    let early = Early {
        running: Some(running),
        attended: None,
        api,
        every,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    let mut response = Response::new(Body::Early(Box::new(early)));
    let map = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    map.insert(header::CONTENT_TYPE, kind);
    map.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Without this, nginx and its like would hold the comments back.
    map.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Early {
    /// The next bytes for the client.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            if let Some(attended) = &mut self.attended {
                return attended.poll_chunk(cx).map(|chunk| chunk.map(Ok));
            }
            let Some(running) = &mut self.running else {
                return Poll::Ready(None);
            };
            let Poll::Ready(answer) = Pin::new(running).poll(cx) else {
                break;
            };
            self.running = None;
            match answer.into_body() {
                Body::Relay(attended) => self.attended = Some(attended),
                Body::Whole(bytes) => {
                    let event = error_event(self.api, &bytes.unwrap_or_default());
                    return Poll::Ready(Some(Ok(event)));
                }
                // A stream was asked for, so nothing else is an answer.
                Body::Early(_) | Body::Following(_) | Body::Passage(_) => {
                    return Poll::Ready(Some(Err(Cut)));
                }
            }
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.timer.as_mut().reset(Instant::now() + self.every);
        Poll::Ready(Some(Ok(KEEPALIVE)))
    }
}

/// What a client is told in the stream, where it would have been the whole answer.
fn error_event(api: Api, body: &[u8]) -> Bytes {
    match api {
        Api::Responses => {}
        Api::Messages => return [b"event: error\ndata: ", body, b"\n\n"].concat().into(),
        Api::Chat | Api::Completions | Api::CountTokens | Api::Embeddings => {
            return [b"data: ", body, b"\n\n"].concat().into();
        }
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let part = |name| body.pointer(name).cloned().unwrap_or_default();
    let event = json!({
        "type": "error",
        "code": part("/error/code"),
        "message": part("/error/message"),
        "param": part("/error/param"),
        "sequence_number": 0,
    });
    format!("event: error\ndata: {event}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_an_event_in_the_clients_dialect() {
        let body = br#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#;
        let told = |api| String::from_utf8(error_event(api, body).to_vec()).unwrap();
        insta::assert_snapshot!(told(Api::Chat), @r#"data: {"error":{"message":"m","type":"t","param":null,"code":"c"}}"#);
        insta::assert_snapshot!(told(Api::Responses), @r#"
        event: error
        data: {"code":"c","message":"m","param":null,"sequence_number":0,"type":"error"}
        "#);
    }
}
