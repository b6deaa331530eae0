//! Answers passed on as they come.
//!
//! [`Relay`] drives an event stream: bytes in from the vendor, whole events out to the client, what
//! they mean decided in [`super::stream`]. It reads from the vendor only when the client has taken
//! what came before, so a slow client slows the vendor down instead of filling memory. [`Passage`]
//! does the same for answers of unknown content.
//!
//! The exchange is recorded before the event that ends the stream goes out. When the client leaves,
//! hyper drops the body: the settlement in it records what is known, and dropping the vendor's body
//! closes that connection, which cancels the call.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, Sleep};
use whippletree_policies::outcome::Class;

use super::recording::Head;
use super::settle::{Ended, Settlement};
use super::share::Share;
use super::stream::{Passing, StreamFault};
use super::twin;
use crate::api::body::Cut;
use crate::clock;
use crate::exchange::End;
use crate::upstream::{UpstreamBody, UpstreamError};

/// How long a vendor's connection is waited for after its stream has ended, so that it can be used
/// again.
const LINGER: Duration = Duration::from_millis(50);

/// A stream that is committed to a target, not yet handed to hyper.
#[derive(Debug)]
pub struct Open {
    /// The reader of events.
    pub passing: Passing,
    /// The vendor's side; `None` when it has ended already.
    pub upstream: Option<UpstreamBody>,
    /// What has been held back until the commit point.
    pub held: VecDeque<Bytes>,
    /// Silence towards the client is broken this often.
    pub keepalive: Duration,
    /// The status that the client gets.
    pub status: u16,
    /// The client asked for a trailing comment line.
    pub trailer: bool,
}

/// An event stream on its way to the client.
pub struct Relay {
    passing: Passing,
    /// `None` once the vendor's side has ended or was given up.
    upstream: Option<UpstreamBody>,
    /// Ready for the client, in order.
    out: VecDeque<Bytes>,
    keepalive: Duration,
    timer: Pin<Box<Sleep>>,
    /// When something last went to the client.
    spoke: Instant,
    status: u16,
    trailer: bool,
    phase: Phase,
    /// Chunks told to those who have a share in the call.
    told: u64,
    settlement: Settlement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Events are passed on.
    Open,
    /// All is said; the vendor's connection may still become free.
    Linger,
    /// Nothing more comes.
    Done,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Begins to relay what has been held, then the rest. `headers` are the answer's.
    pub fn new(open: Open, headers: &HeaderMap, mut settlement: Settlement) -> Self {
        settlement.first_content();
        if let Some(share) = settlement.share() {
            share.opened(Head {
                status: StatusCode::from_u16(open.status).unwrap_or_default(),
                headers: headers.clone(),
                target: settlement.answered_by(),
                keepalive: Some((open.passing.keepalive(), open.keepalive)),
            });
        }
        let now = Instant::now();
        let mut relay = Self {
            passing: open.passing,
            upstream: open.upstream,
            out: open.held,
            keepalive: open.keepalive,
            timer: Box::pin(tokio::time::sleep_until(now + open.keepalive)),
            spoke: now,
            status: open.status,
            trailer: open.trailer,
            phase: Phase::Open,
            told: 0,
            settlement,
        };
        relay.tell(0);
        if relay.upstream.is_none() || relay.passing.is_done() {
            relay.complete();
        }
        relay
    }

    /// The next bytes for the client.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                self.spoke = Instant::now();
                return Poll::Ready(Some(bytes));
            }
            match self.phase {
                Phase::Done => return Poll::Ready(None),
                Phase::Linger => {
                    if self.poll_linger(cx).is_pending() {
                        return Poll::Pending;
                    }
                    self.phase = Phase::Done;
                }
                Phase::Open => match self.poll_upstream(cx) {
                    Poll::Ready(Some(Ok(chunk))) => self.read(chunk),
                    Poll::Ready(Some(Err(error))) => {
                        let fault = StreamFault::broke(&error);
                        self.break_off(&fault);
                    }
                    Poll::Ready(None) => self.upstream_ended(),
                    Poll::Pending => {
                        if self.poll_keepalive(cx).is_pending() {
                            return Poll::Pending;
                        }
                    }
                },
            }
        }
    }

    fn poll_upstream(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        match &mut self.upstream {
            Some(upstream) => upstream.poll_next(cx),
            None => Poll::Ready(None),
        }
    }

    fn read(&mut self, chunk: Bytes) {
        let before = self.out.len();
        let result = self.passing.push(chunk, clock::unix_now(), &mut self.out);
        self.tell(before);
        self.account();
        match result {
            Ok(()) if self.passing.is_done() => self.complete(),
            Ok(()) => {}
            Err(fault) => self.break_off(&fault),
        }
    }

    fn upstream_ended(&mut self) {
        self.upstream = None;
        let before = self.out.len();
        let result = self.passing.end(clock::unix_now(), &mut self.out);
        self.tell(before);
        self.account();
        match result {
            Ok(()) => self.complete(),
            Err(fault) => self.break_off(&fault),
        }
    }

    /// Tells those who have a share in the call what has come since `from`, and gives it ids.
    fn tell(&mut self, from: usize) {
        self.identify(from);
        if let Some(share) = self.settlement.share() {
            for chunk in self.out.range(from..) {
                share.said(chunk);
            }
        }
    }

    /// Events that can be resumed from carry ids; lone comment lines are no events.
    fn identify(&mut self, from: usize) {
        let resumes = self.settlement.share().is_some_and(|share| share.resumes());
        if !resumes {
            return;
        }
        let id = self.settlement.id();
        for chunk in self.out.range_mut(from..) {
            if !chunk.starts_with(b":") {
                let line = twin::id_line(id, self.told);
                *chunk = [line.as_bytes(), chunk].concat().into();
            }
            self.told += 1;
        }
    }

    /// Who else has a share in the call.
    pub(super) const fn share(&self) -> Option<&Arc<Share>> {
        self.settlement.share()
    }

    /// Whether more of the answer is to come.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    fn account(&mut self) {
        if let Some(usage) = self.passing.usage() {
            self.settlement.usage(usage);
        }
        self.settlement.written(self.passing.written());
    }

    /// The stream is whole. What ends it (`[DONE]`, the last event) is still in `passing`, so that
    /// the record is made before it goes out.
    fn complete(&mut self) {
        self.account();
        self.settlement.attempt_ended(Ended::Whole);
        let note = self.trailer.then(|| {
            let cost = self.settlement.cost();
            format!(
                ": x-wt-cost-usd={cost}; x-wt-attempts={}\n",
                self.settlement.sends()
            )
        });
        let before = self.out.len();
        self.passing.release_end(note.as_deref(), &mut self.out);
        self.finish(End::Ok, None);
        self.identify(before);
        if let Some(share) = self.settlement.share() {
            share.finished(self.out.range(before..).map(|chunk| &**chunk));
        }
        self.phase = Phase::Linger;
        self.timer.as_mut().reset(Instant::now() + LINGER);
    }

    fn break_off(&mut self, fault: &StreamFault) {
        self.account();
        self.upstream = None;
        let class = fault.class();
        self.settlement.attempt_ended(Ended::Partial(class));
        self.settlement.broke(class);
        let event =
            self.passing
                .fault_event(fault, self.settlement.id(), self.settlement.attempts());
        self.finish(End::Interrupted, Some(class));
        if let Some(share) = self.settlement.share() {
            share.interrupted(&event);
        }
        self.out.push_back(event);
        self.phase = Phase::Done;
    }

    fn finish(&mut self, end: End, class: Option<Class>) {
        let bytes: usize = self.out.iter().map(Bytes::len).sum();
        self.settlement.relayed(self.passing.passed() + bytes);
        self.settlement
            .finish(self.status, end, class.map(Class::as_str));
    }

    /// Waits a moment for the end of the vendor's body, which frees its connection.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.poll_upstream(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => break,
                Poll::Pending => {
                    if self.timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    break;
                }
            }
        }
        self.upstream = None;
        Poll::Ready(())
    }

    /// Breaks the silence when it has lasted for `keepalive`. The timer is moved only when it fires,
    /// not at every event.
    fn poll_keepalive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            let due = self.spoke + self.keepalive;
            if due <= now {
                self.timer.as_mut().reset(now + self.keepalive);
                self.out.push_back(self.passing.keepalive());
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.phase == Phase::Open {
            self.account();
            self.settlement.client_left(self.status);
        }
    }
}

/// An answer of unknown content on its way to the client.
pub struct Passage {
    upstream: UpstreamBody,
    status: u16,
    /// The last chunk read, held until it is known whether another follows: the record is made
    /// before the last one goes out.
    held: Option<Bytes>,
    settlement: Settlement,
}

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passage").finish_non_exhaustive()
    }
}

impl Passage {
    /// Begins to pass on a vendor's body.
    pub fn new(upstream: UpstreamBody, status: u16, settlement: Settlement) -> Self {
        Self {
            upstream,
            status,
            held: None,
            settlement,
        }
    }

    /// The next bytes for the client. An event is not held back for the next one: only bytes that
    /// are there already decide which chunk is the last.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            match self.upstream.poll_next(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    self.settlement.relayed(data.len());
                    if let Some(before) = self.held.replace(data) {
                        return Poll::Ready(Some(Ok(before)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.settlement.attempt_ended(Ended::Partial(error.class()));
                    self.settlement.finish(
                        self.status,
                        End::Interrupted,
                        Some(error.class().as_str()),
                    );
                    return Poll::Ready(Some(Err(Cut)));
                }
                Poll::Ready(None) => {
                    self.settlement.attempt_ended(Ended::Whole);
                    self.settlement.finish(self.status, End::Ok, None);
                    return Poll::Ready(self.held.take().map(Ok));
                }
                Poll::Pending => {
                    return match self.held.take() {
                        Some(bytes) => Poll::Ready(Some(Ok(bytes))),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.settlement.client_left(self.status);
    }
}
