//! HTTP/2 for replies that are well-formed.
//!
//! An end other than `clean` resets the stream. `status: 0` refuses it (`hang`: leaves it open).

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::answer::{Asked, Stage};
use super::plan::{Plan, Step};
use super::record::Request;
use super::script::End;
use crate::clock;

/// Serves one connection until it ends.
pub(super) async fn serve<S>(stream: S, stage: &Arc<Stage>, connection: u64)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request| exchange(request, Arc::clone(stage), connection));
    // An error here is the peer's way of ending; what it did is on record.
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn exchange(
    request: http::Request<Incoming>,
    stage: Arc<Stage>,
    connection: u64,
) -> Result<Response<Played>, io::Error> {
    let (parts, body) = request.into_parts();
    let headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let number = stage.record.open_request(|number| Request {
        number,
        connection,
        method: parts.method.to_string(),
        target: target.clone(),
        version: "HTTP/2".to_owned(),
        headers: headers.clone(),
        raw_head: Bytes::new(),
        body: Bytes::new(),
        received: clock::now(),
        read: None,
        answered: None,
        disconnected: None,
    });
    let mut leaving = Leaving {
        stage: Arc::clone(&stage),
        number,
        over: false,
    };
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    stage.record.body(number, &body);
    let Some(picked) = stage.pick() else {
        leaving.over = true;
        return Err(io::ErrorKind::ConnectionAborted.into());
    };
    let plan = picked.plan(Asked {
        number,
        method: parts.method.as_str(),
        path: &target,
        body: &body,
    });
    sleep(plan.delay).await;
    if plan.status == 0 {
        if plan.end == End::Hang {
            std::future::pending::<Infallible>().await;
        }
        leaving.over = true;
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(plan.status).unwrap_or_default();
    for (name, value) in &plan.headers {
        let hop = ["connection", "transfer-encoding", "keep-alive"]
            .contains(&name.to_ascii_lowercase().as_str());
        if let (false, Ok(name), Ok(value)) = (
            hop,
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response.map(|()| Played {
        plan,
        step: 0,
        repeated: 0,
        due: None,
        sleeping: None,
        leaving,
    }))
}

/// Notes the client as gone when it is dropped before the answer's end.
#[derive(Debug)]
struct Leaving {
    stage: Arc<Stage>,
    number: u64,
    over: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.over {
            self.stage.record.answered(self.number);
        } else {
            self.stage.record.disconnected(self.number);
        }
    }
}

/// A body that plays a plan.
#[derive(Debug)]
struct Played {
    plan: Arc<Plan>,
    step: usize,
    repeated: u64,
    due: Option<Instant>,
    sleeping: Option<Pin<Box<Sleep>>>,
    leaving: Leaving,
}

impl Body for Played {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(sleeping) = &mut this.sleeping {
                ready!(sleeping.as_mut().poll(cx));
                this.sleeping = None;
                // A pause is over; a repeated write is due.
                if let Some(Step::Sleep(_)) = this.plan.steps.get(this.step) {
                    this.step += 1;
                    continue;
                }
            } else if let Some(wait) = this.waits() {
                this.sleeping = Some(Box::pin(wait));
                continue;
            }
            match this.plan.steps.get(this.step) {
                Some(Step::Send(bytes)) => {
                    this.step += 1;
                    return Poll::Ready(Some(Ok(Frame::data(bytes.clone()))));
                }
                Some(Step::Repeat { text, times, .. }) => {
                    if this.repeated < *times {
                        this.repeated += 1;
                        return Poll::Ready(Some(Ok(Frame::data(text.clone()))));
                    }
                    this.step += 1;
                    this.repeated = 0;
                    this.due = None;
                }
                Some(Step::Sleep(_)) => {}
                None => return this.end(),
            }
        }
    }
}

impl Played {
    /// The pause before the next frame, if there is one.
    fn waits(&mut self) -> Option<Sleep> {
        match self.plan.steps.get(self.step)? {
            Step::Sleep(pause) => Some(sleep(*pause)),
            Step::Repeat { every, times, .. } if !every.is_zero() && self.repeated < *times => {
                let due = self.due.unwrap_or_else(Instant::now) + *every;
                self.due = Some(due);
                Some(sleep_until(due))
            }
            Step::Repeat { .. } | Step::Send(_) => None,
        }
    }

    fn end(&mut self) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.plan.end {
            End::Clean => {
                self.leaving.over = true;
                Poll::Ready(None)
            }
            End::Hang => Poll::Pending,
            End::Cut | End::Reset => {
                self.leaving.over = true;
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
            }
        }
    }
}
