//! What passes of an event stream, and what it means: no sockets, no clock.
//!
//! A vendor's stream goes to the client event by event, each as its own bytes. Only these are
//! touched: the usage event that the gateway asked for and the client did not; the event that ends
//! the stream, which waits until the call is on record; the events between the reason why the model
//! stopped and that end, which wait for it, so that no stream looks finished and breaks then; and the
//! few faults that [`repair`] mends. What ends without its end is broken, whatever the connection says.

mod fault;
mod repair;

use std::collections::VecDeque;

use bytes::Bytes;
use whippletree_policies::ids::RequestId;
use whippletree_policies::time::UnixTime;
use whippletree_policies::usage::Usage;
use whippletree_providers::anthropic::with_stop_reason;
use whippletree_providers::decoder::{Finish, Kind, StreamDecoder, ToolCall, Verdict};
use whippletree_providers::openai::dialects::Dialect;
use whippletree_providers::openai::stream::{ChatDecoder, decoder, with_finish_reason};
use whippletree_providers::provider::Api;
use whippletree_providers::sse::{Frame, Framer};

pub use fault::StreamFault;

use crate::config::Commit;
use crate::exchange::Attempt;
use crate::upstream::Gunzip;

/// The most that a compressed stream may come to, in bytes.
const MAX_UNPACKED: usize = 1 << 30;

/// The most bytes that wait between the reason why the model stopped and the end of the stream.
const MAX_CLOSING: usize = 256 << 10;

/// What breaks the silence among message events.
const PING: Bytes = Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n");

/// What the client asked for, as far as its stream is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// The usage event at the end.
    pub usage: UsageEvent,
    /// The most tokens that it let the model write.
    pub output_limit: Option<u64>,
    /// What is held back.
    pub commit: Commit,
}

/// What happens to the event that carries nothing but usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageEvent {
    /// The client asked for it.
    Pass,
    /// The client did not.
    TakeOut,
}

/// The reader of one stream.
#[derive(Debug)]
pub struct Passing {
    api: Api,
    wishes: Wishes,
    /// For a vendor that compresses although it was asked not to.
    gunzip: Option<Gunzip>,
    framer: Framer,
    decoder: Box<dyn StreamDecoder>,
    /// A finish that claims whole calls where one is cut: held until it is known whether the output
    /// limit explains it.
    cut_finish: Option<Frame>,
    /// The client was told that the output limit cut a call.
    told_length: bool,
    /// Events that wait for their tool calls to be whole (`commit = "tool_calls"`).
    waiting: Vec<Bytes>,
    /// The event with the reason why the model stopped, and what came behind it, until the end comes
    /// or the answer goes on after all.
    closing: Vec<Bytes>,
    /// The data of an ordinary event, as the frame for added ones.
    like: Option<Bytes>,
    /// What ends the stream; held until the call is on record.
    end: Option<Bytes>,
    begun: bool,
    committed: bool,
    events: usize,
    passed: usize,
}

impl Passing {
    /// A reader at the start of a stream.
    pub fn new(api: Api, dialect: &'static Dialect, wishes: Wishes) -> Self {
        Self {
            api,
            wishes,
            gunzip: None,
            framer: Framer::default(),
            decoder: decoder(dialect, api).unwrap_or_else(|| Box::new(ChatDecoder::new(dialect))),
            cut_finish: None,
            told_length: false,
            waiting: Vec::new(),
            closing: Vec::new(),
            like: None,
            end: None,
            begun: false,
            committed: false,
            events: 0,
            passed: 0,
        }
    }

    /// The same for a stream that comes compressed.
    #[must_use]
    pub fn unpacking(mut self) -> Self {
        self.gunzip = Some(Gunzip::new(MAX_UNPACKED));
        self
    }

    /// Takes in what the vendor sent; what may go to the client is appended to `out`.
    ///
    /// # Errors
    /// [`StreamFault`] when the stream turns out to be broken or to be an error.
    pub fn push(
        &mut self,
        chunk: Bytes,
        now: UnixTime,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), StreamFault> {
        let chunk = match &mut self.gunzip {
            Some(gunzip) => gunzip.push(&chunk).map_err(|_| StreamFault::malformed())?,
            None => chunk,
        };
        self.framer.push(chunk);
        while self.end.is_none() {
            let Some(frame) = self
                .framer
                .next_frame()
                .map_err(|_| StreamFault::too_long())?
            else {
                break;
            };
            self.frame(frame, now, out)?;
            self.bounded()?;
        }
        Ok(())
    }

    /// The vendor's body has ended.
    ///
    /// # Errors
    /// [`StreamFault`] when the answer is not whole.
    pub fn end(&mut self, now: UnixTime, out: &mut VecDeque<Bytes>) -> Result<(), StreamFault> {
        if let Some(gunzip) = self.gunzip.take() {
            let rest = gunzip.finish().map_err(|_| StreamFault::cut())?;
            self.push(rest, now, out)?;
        }
        if self.end.is_none() {
            let last = self.framer.finish().map_err(|_| StreamFault::too_long())?;
            // A last event without its blank line counts if it is whole; a fragment does not.
            if let Some(frame) = last
                && frame.data().is_some_and(is_whole)
            {
                self.frame(frame, now, out)?;
            }
        }
        if self.cut_finish.is_some() {
            return Err(StreamFault::cut_tool_call());
        }
        match self.decoder.verdict() {
            Verdict::Complete => {}
            Verdict::PartialToolCall { .. } if self.told_length => {}
            Verdict::Cut(_) => return Err(StreamFault::cut()),
            Verdict::Empty => return Err(StreamFault::empty()),
            Verdict::Failed(failure) => return Err(StreamFault::said(*failure)),
            Verdict::Malformed => return Err(StreamFault::malformed()),
            Verdict::PartialToolCall { .. } => return Err(StreamFault::cut_tool_call()),
        }
        self.release_closing(out);
        if self.end.is_none() && !matches!(self.api, Api::Messages | Api::Responses) {
            // The vendor's dialect knows no end marker; the client's does.
            self.end = Some(Bytes::from_static(b"data: [DONE]\n\n"));
        }
        Ok(())
    }

    /// The event that tells the client of a broken stream, in its dialect.
    pub fn fault_event(&self, fault: &StreamFault, id: RequestId, attempts: &[Attempt]) -> Bytes {
        match self.api {
            Api::Messages => fault.messages_event(id, attempts),
            Api::Responses => fault.responses_event(self.events as u64),
            Api::Chat | Api::Completions | Api::CountTokens | Api::Embeddings => {
                fault.chat_event(id, attempts)
            }
        }
    }

    fn frame(
        &mut self,
        frame: Frame,
        now: UnixTime,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), StreamFault> {
        self.events += 1;
        let event = self.decoder.read(&frame, now);
        match &event.kind {
            Kind::Failed(failure) => return Err(StreamFault::said((**failure).clone())),
            Kind::Malformed => return Err(StreamFault::malformed()),
            Kind::Done => return self.done(frame, out),
            Kind::Comment => {
                // Held comments would only delay; what a client never sees is not part of an answer.
                if self.committed {
                    self.pass(frame.into_raw(), out);
                }
                return Ok(());
            }
            _ => {}
        }
        self.begun = true;
        if self.like.is_none() && self.api == Api::Chat {
            self.like = frame.data().cloned();
        }
        if event.kind == Kind::Usage {
            self.usage_event(&frame, out);
            return Ok(());
        }
        if matches!(event.kind, Kind::Content | Kind::Reasoning | Kind::ToolCall) {
            // Another choice's, or a vendor that gives a reason with every event.
            self.release_closing(out);
        }
        if event.finish.is_some() {
            self.finish(frame, event.finish, out);
            return Ok(());
        }
        let bytes = match event.kind {
            Kind::ToolCall => self.tool_call(&frame),
            _ => None,
        };
        if event.kind == Kind::ToolCall && self.wishes.commit == Commit::ToolCalls {
            self.waiting.push(bytes.unwrap_or_else(|| frame.into_raw()));
            return Ok(());
        }
        self.committed |= event.kind.commits();
        self.pass(bytes.unwrap_or_else(|| frame.into_raw()), out);
        Ok(())
    }

    /// An event goes on, behind those that wait.
    fn pass(&mut self, bytes: Bytes, out: &mut VecDeque<Bytes>) {
        if !self.closing.is_empty() {
            self.closing.push(bytes);
        } else if !self.waiting.is_empty() {
            self.waiting.push(bytes);
        } else {
            self.passed += bytes.len();
            out.push_back(bytes);
        }
    }

    fn release_waiting(&mut self, out: &mut VecDeque<Bytes>) {
        self.committed |= !self.waiting.is_empty();
        for bytes in self.waiting.drain(..) {
            self.passed += bytes.len();
            out.push_back(bytes);
        }
    }

    /// What the end lets go, in order.
    fn release_closing(&mut self, out: &mut VecDeque<Bytes>) {
        self.committed |= !self.closing.is_empty();
        for bytes in std::mem::take(&mut self.closing) {
            self.pass(bytes, out);
        }
    }

    /// A vendor that says that it has ended and does not end is not waited for without bound.
    fn bounded(&self) -> Result<(), StreamFault> {
        if self.closing.iter().map(Bytes::len).sum::<usize>() > MAX_CLOSING {
            return Err(StreamFault::too_long());
        }
        Ok(())
    }

    /// The event with the calls' indexes put right where two calls share one, which some vendors do;
    /// `None` where they are right.
    fn tool_call(&self, frame: &Frame) -> Option<Bytes> {
        let calls = &self.decoder.progress().tool_calls;
        let shared = calls
            .iter()
            .enumerate()
            .any(|(place, call)| calls.iter().take(place).any(|c| c.index == call.index));
        if !shared {
            return None;
        }
        let place = |choice: u64, index: u64, id: Option<&str>| {
            if choice > 0 {
                return index;
            }
            let same = |call: &ToolCall| match id.filter(|id| !id.is_empty()) {
                Some(id) => call.id.as_deref() == Some(id),
                None => call.index == index,
            };
            calls
                .iter()
                .rposition(same)
                .map_or(index, |place| place as u64)
        };
        let data = repair::with_tool_indexes(frame.data()?, place)?;
        Some(frame.with_data(&data))
    }

    /// The event with the reason why the model stopped.
    fn finish(&mut self, frame: Frame, reason: Option<Finish>, out: &mut VecDeque<Bytes>) {
        let claims_whole = !matches!(reason, Some(Finish::Length | Finish::ContentFilter));
        if claims_whole && self.decoder.progress().partial_tool_call().is_some() {
            self.cut_finish = Some(frame);
            self.settle_cut_finish(out);
            return;
        }
        self.release_waiting(out);
        if claims_whole && self.api == Api::Chat {
            self.give_empty_arguments(out);
        }
        self.closing.push(frame.into_raw());
    }

    /// A call that was cut by the output limit is what `length` says, and the vendor should have said
    /// so. Whether the limit was reached may be known only with the usage that comes later.
    fn settle_cut_finish(&mut self, out: &mut VecDeque<Bytes>) {
        let written = self.decoder.progress().usage.map(|usage| usage.output.0);
        let (Some(written), Some(limit)) = (written, self.wishes.output_limit) else {
            return;
        };
        if written < limit {
            return;
        }
        let Some(frame) = self.cut_finish.take() else {
            return;
        };
        let told = match self.api {
            Api::Messages => with_stop_reason(&frame, "max_tokens"),
            _ => with_finish_reason(&frame, "length"),
        };
        self.told_length = true;
        self.release_waiting(out);
        self.closing.push(told.unwrap_or_else(|| frame.into_raw()));
    }

    /// A call that ends without a byte of arguments gets the empty object: no arguments is what it
    /// means, and clients that parse them expect JSON.
    fn give_empty_arguments(&mut self, out: &mut VecDeque<Bytes>) {
        let calls = &self.decoder.progress().tool_calls;
        let empty: Vec<u64> = calls
            .iter()
            .enumerate()
            .filter(|(_, call)| !call.free_form && call.arguments.is_empty())
            .map(|(place, _)| place as u64)
            .collect();
        for place in empty {
            let like = self.like.clone().unwrap_or_default();
            if let Some(data) = repair::empty_arguments(&like, 0, place) {
                self.committed = true;
                self.pass(repair::event(&data), out);
            }
        }
    }

    fn usage_event(&mut self, frame: &Frame, out: &mut VecDeque<Bytes>) {
        self.settle_cut_finish(out);
        if self.wishes.usage == UsageEvent::Pass {
            let repaired = frame.data().and_then(repair::with_choices);
            let bytes = match repaired {
                Some(data) => frame.with_data(&data),
                None => frame.raw().clone(),
            };
            self.pass(bytes, out);
        }
    }

    /// The event that ends the stream: held until [`Passing::release_end`].
    fn done(&mut self, frame: Frame, out: &mut VecDeque<Bytes>) -> Result<(), StreamFault> {
        match self.decoder.verdict() {
            Verdict::Complete | Verdict::PartialToolCall { .. }
                if self.cut_finish.is_none() && (self.told_length || self.calls_are_whole()) =>
            {
                self.committed = true;
                self.release_waiting(out);
                self.release_closing(out);
                self.end = Some(if frame.ended() {
                    frame.into_raw()
                } else {
                    [frame.raw(), &b"\n\n"[..]].concat().into()
                });
                Ok(())
            }
            Verdict::Complete | Verdict::PartialToolCall { .. } => {
                Err(StreamFault::cut_tool_call())
            }
            Verdict::Cut(_) => Err(StreamFault::cut()),
            Verdict::Empty => Err(StreamFault::empty()),
            Verdict::Failed(failure) => Err(StreamFault::said(*failure)),
            Verdict::Malformed => Err(StreamFault::malformed()),
        }
    }

    fn calls_are_whole(&self) -> bool {
        self.decoder.progress().partial_tool_call().is_none()
            || matches!(
                self.decoder.progress().finish,
                Some(Finish::Length | Finish::ContentFilter)
            )
    }

    /// Lets the end go, with a comment line before it where one is wanted.
    pub fn release_end(&mut self, note: Option<&str>, out: &mut VecDeque<Bytes>) {
        if let Some(note) = note {
            out.push_back(Bytes::copy_from_slice(note.as_bytes()));
        }
        if let Some(end) = self.end.take() {
            out.push_back(end);
        }
    }

    /// What breaks the silence without adding anything: an empty delta once a chat stream has
    /// begun, a ping among messages, else a comment line without the blank line that would make it
    /// an event.
    pub fn keepalive(&self) -> Bytes {
        if self.api == Api::Messages {
            return PING;
        }
        let delta = self.like.as_ref().and_then(repair::empty_delta);
        delta.map_or(Bytes::from_static(b": keep-alive\n"), |data| {
            repair::event(&data)
        })
    }

    /// Whether the event that ends the stream has come.
    pub const fn is_done(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the client may see what has been let through so far, under the route's rule.
    pub fn is_committed(&self) -> bool {
        match self.wishes.commit {
            Commit::FirstToken | Commit::ToolCalls => self.committed,
            Commit::Complete => self.is_done(),
        }
    }

    /// Whether anything of an answer came, be it an empty beginning.
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Events read so far.
    pub const fn events(&self) -> usize {
        self.events
    }

    /// The last usage that the vendor reported.
    pub fn usage(&self) -> Option<Usage> {
        self.decoder.progress().usage
    }

    /// Bytes of text that the vendor wrote so far.
    pub fn written(&self) -> u64 {
        self.decoder.progress().written_bytes
    }

    /// Bytes let through so far.
    pub const fn passed(&self) -> usize {
        self.passed
    }
}

fn is_whole(data: &Bytes) -> bool {
    data.trim_ascii() == b"[DONE]" || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}

#[cfg(test)]
mod tests;
