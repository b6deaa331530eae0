//! One call: a connection, the request, the answer's head.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::HOST;
use http::uri::{PathAndQuery, Uri};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::answer::{Answer, UpstreamBody};
use super::error::{Kind, Phase, Sent, UpstreamError};
use super::http2::StreamLease;
use super::link::{Line, Link, Upload};
use super::now;
use super::pool::{Found, Inner, Pool, Want};
use super::request::{Call, Deadlines, RequestBody};
use super::timer::LazyTimer;

impl Pool {
    /// Sends one request and waits for the answer's head. Dropping the future cancels the call.
    ///
    /// Sends once, with one exception: a kept connection that turns out to be closed before any of
    /// the request was written. Then the request goes out on a new connection.
    ///
    /// # Errors
    ///
    /// See [`UpstreamError`]. Every answer is a success here, whatever its status.
    pub async fn send(&self, call: Call) -> Result<Answer, UpstreamError> {
        self.inner.attend();
        let result = send(&self.inner, call).await;
        if let Err(error) = &result {
            self.inner.counters.failed(error);
        }
        result
    }
}

async fn send(pool: &Arc<Inner>, call: Call) -> Result<Answer, UpstreamError> {
    let start = now();
    let deadlines = Deadlines::new(&call, start);
    let mut request = Request::new(call.body);
    *request.method_mut() = call.method;
    *request.headers_mut() = call.headers;
    if pool.streams.enabled() {
        let target = call.path_and_query.clone();
        match Box::pin(send_http2(pool, request, target, &deadlines, start)).await? {
            Http2Call::Answer(answer) => return Ok(*answer),
            Http2Call::NotSpoken(returned) => request = *returned,
        }
    }
    *request.uri_mut() = Uri::from(call.path_and_query);
    let headers = request.headers_mut();
    if !headers.contains_key(HOST) {
        headers.insert(HOST, pool.host.clone());
    }
    send_http1(pool, request, &deadlines, start).await
}

/// What came of trying HTTP/2.
enum Http2Call {
    Answer(Box<Answer>),
    /// The vendor speaks HTTP/1.1 only; the request was not sent.
    NotSpoken(Box<Request<RequestBody>>),
}

async fn send_http1(
    pool: &Arc<Inner>,
    mut request: Request<RequestBody>,
    deadlines: &Deadlines,
    start: Instant,
) -> Result<Answer, UpstreamError> {
    let mut lease = pool.lease(deadlines.end).await?;
    let waited = now();
    let pool_wait = waited.saturating_duration_since(start);
    let mut want = Want::Any;
    loop {
        let mut connect = None;
        let mut link = match pool.find(want).await {
            Found::Link(link) => {
                pool.counters.reused();
                link
            }
            Found::Slot(slot) => {
                let begun = now();
                let limit = deadlines.end.min(begun + deadlines.timeouts.connect);
                let link = pool.open(slot, limit).await?;
                connect = Some(now().saturating_duration_since(begun));
                link
            }
        };
        link.lease = Some(lease);
        let reused = connect.is_none();
        match converse(link, request, deadlines).await {
            Ok((link, response)) => {
                let (head, incoming) = response.into_parts();
                return Ok(Answer {
                    status: head.status,
                    headers: head.headers,
                    body: UpstreamBody::http1(link, incoming, Arc::clone(pool), deadlines),
                    reused,
                    pool_wait,
                    connect,
                });
            }
            Err(Failed {
                unsent: Some(unsent),
                ..
            }) if reused => {
                (request, lease) = *unsent;
                want = Want::New;
            }
            Err(Failed { error, .. }) => return Err(error.on_reused(reused)),
        }
    }
}

struct Failed {
    error: UpstreamError,
    /// The request, if the connection certainly took nothing of it.
    unsent: Option<Box<(Request<RequestBody>, OwnedSemaphorePermit)>>,
}

impl From<UpstreamError> for Failed {
    fn from(error: UpstreamError) -> Self {
        Self {
            error,
            unsent: None,
        }
    }
}

/// Sends on a connection of its own and waits for the head of the answer.
async fn converse(
    mut link: Box<Link>,
    mut request: Request<RequestBody>,
    deadlines: &Deadlines,
) -> Result<(Box<Link>, Response<Incoming>), Failed> {
    link.begin_call();
    request.body_mut().attach(&link.line);
    let mut response = pin!(link.sender.try_send_request(request));
    let result = poll_fn(|cx| {
        if let Poll::Ready(result) = link.poll_with(cx, |cx| response.as_mut().poll(cx)) {
            return Poll::Ready(result.map_err(|error| Trouble::Hyper(Box::new(error))));
        }
        let (deadline, phase) = head_deadline(&link.line, deadlines);
        link.poll_deadline(deadline)
            .map(|()| Err(Trouble::Slow(phase)))
    })
    .await;
    let sent = if link.line.has_written() {
        Sent::Maybe
    } else {
        Sent::Nothing
    };
    match result {
        Ok(response) => Ok((link, response)),
        Err(Trouble::Slow(phase)) => Err(UpstreamError::new(phase, Kind::TimedOut, sent).into()),
        Err(Trouble::Hyper(mut error)) => {
            let message = error.take_message();
            let unsent = message.and_then(|request| Some(Box::new((request, link.lease.take()?))));
            let phase = sending_phase(&link.line);
            let error = UpstreamError::from_hyper(phase, sent, error.into_error());
            Err(Failed { error, unsent })
        }
    }
}

enum Trouble {
    Hyper(Box<TrySendError<Request<RequestBody>>>),
    Slow(Phase),
}

/// The vendor has `first_byte` from the last piece of the request; each piece as long from the one
/// before.
fn head_deadline(line: &Line, deadlines: &Deadlines) -> (Instant, Phase) {
    let (at, _) = line.progress();
    let step = at + deadlines.timeouts.first_byte;
    if step <= deadlines.end {
        (step, sending_phase(line))
    } else {
        (deadlines.end, Phase::Total)
    }
}

fn sending_phase(line: &Line) -> Phase {
    match line.progress().1 {
        Upload::Done => Phase::FirstByte,
        Upload::Running => Phase::Send,
    }
}

async fn send_http2(
    pool: &Arc<Inner>,
    mut request: Request<RequestBody>,
    target: PathAndQuery,
    deadlines: &Deadlines,
    start: Instant,
) -> Result<Http2Call, UpstreamError> {
    let uri = Uri::builder()
        .scheme(pool.scheme.clone())
        .authority(pool.authority.clone())
        .path_and_query(target)
        .build();
    *request.uri_mut() = match uri {
        Ok(uri) => uri,
        Err(error) => {
            let error =
                UpstreamError::new(Phase::Send, Kind::Malformed, Sent::Nothing).with_source(error);
            return Err(error);
        }
    };
    // The authority stands in the request line's place already.
    request.headers_mut().remove(HOST);
    let mut retried = false;
    loop {
        let begun = now();
        let Some(lease) = pool
            .stream(deadlines.timeouts.connect, deadlines.end)
            .await?
        else {
            return Ok(Http2Call::NotSpoken(Box::new(request)));
        };
        let waited = now().saturating_duration_since(begun);
        let reused = lease.reused;
        if reused {
            pool.counters.reused();
        }
        match converse_http2(&lease, request, deadlines).await {
            Ok((response, timer)) => {
                let (head, incoming) = response.into_parts();
                let (pool_wait, connect) = if reused {
                    (now().saturating_duration_since(start).min(waited), None)
                } else {
                    (Duration::ZERO, Some(waited))
                };
                return Ok(Http2Call::Answer(Box::new(Answer {
                    status: head.status,
                    headers: head.headers,
                    body: UpstreamBody::http2(lease, incoming, timer, Arc::clone(pool), deadlines),
                    reused,
                    pool_wait,
                    connect,
                })));
            }
            Err((_, Some(returned))) if !retried => {
                lease.discard();
                retried = true;
                request = *returned;
            }
            Err((error, _)) => return Err(error.on_reused(reused)),
        }
    }
}

async fn converse_http2(
    lease: &StreamLease,
    mut request: Request<RequestBody>,
    deadlines: &Deadlines,
) -> Result<(Response<Incoming>, LazyTimer), (UpstreamError, Option<Box<Request<RequestBody>>>)> {
    let line = Arc::new(Line::default());
    request.body_mut().attach(&line);
    let mut timer = LazyTimer::default();
    let mut sender = lease.sender();
    let mut response = pin!(sender.try_send_request(request));
    let result = poll_fn(|cx| {
        if let Poll::Ready(result) = response.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| Trouble::Hyper(Box::new(error))));
        }
        let (deadline, phase) = head_deadline(&line, deadlines);
        timer.poll(cx, deadline).map(|()| Err(Trouble::Slow(phase)))
    })
    .await;
    match result {
        Ok(response) => Ok((response, timer)),
        Err(Trouble::Slow(phase)) => {
            Err((UpstreamError::new(phase, Kind::TimedOut, Sent::Maybe), None))
        }
        Err(Trouble::Hyper(mut error)) => {
            let unsent = error.take_message().map(Box::new);
            let sent = if unsent.is_some() {
                Sent::Nothing
            } else {
                Sent::Maybe
            };
            let phase = sending_phase(&line);
            let error = UpstreamError::from_hyper(phase, sent, error.into_error());
            Err((error, unsent))
        }
    }
}
