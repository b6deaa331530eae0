//! What a vendor received, exactly, and what became of each connection.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::clock;
use crate::wire::{Head, find};

/// How much of each request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recording {
    /// Numbers only: for load.
    Count,
    /// Head, body and times.
    #[default]
    Full,
    /// Head and times, no body.
    Heads,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// From 1, in the order in which heads arrived.
    pub number: u64,
    /// From 1, in the order in which connections were accepted.
    pub connection: u64,
    /// The method.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/2`.
    pub version: String,
    /// Names and values in order, as they were written (HTTP/2: pseudo-headers left out).
    pub headers: Vec<(String, String)>,
    /// The head's bytes; empty for HTTP/2.
    pub raw_head: Bytes,
    /// The body's bytes without transfer framing.
    pub body: Bytes,
    /// When the head was whole.
    pub received: Instant,
    /// When the body was whole.
    pub read: Option<Instant>,
    /// When the answer's last byte was written.
    pub answered: Option<Instant>,
    /// When the client was seen to be gone before the answer's end.
    pub disconnected: Option<Instant>,
}

impl Request {
    /// The first value of a header, by name without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The vendor's memory.
#[derive(Debug, Default)]
pub(super) struct Record {
    recording: Recording,
    requests: Mutex<Vec<Request>>,
    heads: AtomicU64,
    gone: AtomicU64,
    accepted: AtomicU64,
    open: AtomicUsize,
    changed: Notify,
}

impl Record {
    pub(super) fn new(recording: Recording) -> Self {
        Self {
            recording,
            ..Self::default()
        }
    }

    /// A connection was accepted; its number.
    pub(super) fn accepted(&self) -> u64 {
        self.open.fetch_add(1, Ordering::Relaxed);
        let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        self.changed.notify_waiters();
        number
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// A head has come; the request's number.
    pub(super) fn head(&self, connection: u64, head: &Head) -> u64 {
        let mut words = head.start.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let version = words.next().unwrap_or_default().to_owned();
        self.open_request(|number| Request {
            number,
            connection,
            method,
            target,
            version,
            headers: head.headers.clone(),
            raw_head: head.raw.clone(),
            body: Bytes::new(),
            received: clock::now(),
            read: None,
            answered: None,
            disconnected: None,
        })
    }

    pub(super) fn open_request(&self, request: impl FnOnce(u64) -> Request) -> u64 {
        let number = if self.recording == Recording::Count {
            self.heads.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            let number = self.heads.fetch_add(1, Ordering::Relaxed) + 1;
            requests.push(request(number));
            number
        };
        self.changed.notify_waiters();
        number
    }

    pub(super) fn body(&self, number: u64, body: &Bytes) {
        let keep = self.recording == Recording::Full;
        self.amend(number, |request| {
            request.read = Some(clock::now());
            if keep {
                request.body = body.clone();
            }
        });
    }

    pub(super) fn answered(&self, number: u64) {
        self.amend(number, |request| request.answered = Some(clock::now()));
    }

    pub(super) fn disconnected(&self, number: u64) {
        self.gone.fetch_add(1, Ordering::Relaxed);
        self.amend(number, |request| request.disconnected = Some(clock::now()));
    }

    fn amend(&self, number: u64, change: impl FnOnce(&mut Request)) {
        if self.recording != Recording::Count {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
            if let Some(request) = requests.get_mut(index) {
                change(request);
            }
        }
        self.changed.notify_waiters();
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn request_count(&self) -> u64 {
        self.heads.load(Ordering::Relaxed)
    }

    pub(super) fn disconnect_count(&self) -> u64 {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn connection_count(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Waits until `done` holds of the requests, at most `limit`; whether it does.
    pub(super) async fn wait(&self, limit: Duration, done: impl Fn(&[Request]) -> bool) -> bool {
        let check = || done(&self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        let watch = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if check() {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(limit, watch).await.is_ok()
    }
}
