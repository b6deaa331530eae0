//! The messages API: named events, ended by `message_stop`; and whole messages.
//!
//! `ping` may come at any time and says nothing of an answer; `error` may, and ends it. Blocks open
//! and close by index: text, thinking (whose signature comes as a delta), tool calls (whose
//! arguments come as pieces of JSON), and what the vendor's own tools did.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use whippletree_policies::time::UnixTime;

use super::usage::Counts;
use crate::decoder::{Event, Finish, Kind, Missing, Progress, StreamDecoder, ToolCall, Verdict};
use crate::envelope::{Edits, Envelope};
use crate::openai::dialects::Dialect;
use crate::openai::failure::classify_event;
use crate::openai::stream::{inside, text, text_bytes};
use crate::sse::Frame;

/// Reads a stream of message events.
#[derive(Debug)]
pub struct MessagesDecoder {
    dialect: Dialect,
    progress: Progress,
    counts: Counts,
    ended: bool,
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    message: Option<Whole<'a>>,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(default)]
    usage: Option<Counts>,
}

/// A whole message, or the beginning of one.
#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Served<'a> {
    #[serde(borrow, default)]
    service_tier: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
}

impl MessagesDecoder {
    /// A decoder at the start of a stream.
    pub fn new(dialect: &Dialect) -> Self {
        Self {
            dialect: *dialect,
            progress: Progress::default(),
            counts: Counts::default(),
            ended: false,
        }
    }

    /// Reads a whole message.
    pub(crate) fn whole(mut self, body: &[u8], now: UnixTime) -> (Progress, Verdict) {
        self.ended = true;
        self.progress.done = true;
        let event = match serde_json::from_slice::<Whole<'_>>(body) {
            Ok(whole) if whole.kind.and_then(inside) == Some("error") => self.failed(body, now),
            Ok(whole) if whole.content.is_some() => {
                self.served(&whole);
                for (index, block) in (0..).zip(whole.content.iter().flatten()) {
                    self.block(block, index);
                }
                Event {
                    kind: Kind::Finish,
                    usage: self.counts.normalise(),
                    finish: finish(whole.stop_reason),
                }
            }
            Ok(_) | Err(_) => Event::of(Kind::Malformed),
        };
        self.progress.record(&event);
        let verdict = self.judge(None);
        (self.progress, verdict)
    }

    /// A model may end its turn with nothing to say, above all behind the results of tools.
    fn judge(&self, missing: Option<Missing>) -> Verdict {
        match self.progress.judge(missing) {
            Verdict::Empty if self.progress.finish == Some(Finish::Stop) => Verdict::Complete,
            verdict => verdict,
        }
    }

    fn event(&mut self, frame: &Frame, now: UnixTime) -> Event {
        let Some(data) = frame.data() else {
            return Event::of(Kind::Comment);
        };
        let told: Told<'_> = match serde_json::from_slice(data) {
            Ok(told) => told,
            Err(_) if serde_json::from_slice::<IgnoredAny>(data).is_ok() => {
                return Event::of(Kind::Unknown);
            }
            Err(_) => return Event::of(Kind::Malformed),
        };
        let named = frame.name().and_then(|name| std::str::from_utf8(name).ok());
        let kind = told.kind.and_then(inside).or(named).unwrap_or_default();
        match kind {
            "error" => self.failed(data, now),
            "ping" => Event::of(Kind::Ping),
            "message_start" => {
                if let Some(whole) = &told.message {
                    self.served(whole);
                }
                self.counted(Kind::Start)
            }
            "content_block_start" => {
                let index = told.index.unwrap_or(0);
                let block = told.content_block.as_ref();
                Event::of(block.map_or(Kind::Start, |block| self.block(block, index)))
            }
            "content_block_delta" => {
                let index = told.index.unwrap_or(0);
                let delta = told.delta.as_ref();
                Event::of(delta.map_or(Kind::Unknown, |delta| self.delta(delta, index)))
            }
            "content_block_stop" => Event::of(Kind::Start),
            "message_delta" => {
                if let Some(counts) = &told.usage {
                    self.counts.update(counts);
                }
                let reason = told.delta.as_ref().and_then(|delta| delta.stop_reason);
                let mut event = self.counted(Kind::Finish);
                event.finish = finish(reason);
                if event.finish.is_none() {
                    event.kind = Kind::Start;
                }
                event
            }
            "message_stop" => {
                self.ended = true;
                Event::of(Kind::Done)
            }
            _ => Event::of(Kind::Unknown),
        }
    }

    fn failed(&self, data: &[u8], now: UnixTime) -> Event {
        let failure = classify_event(&self.dialect, data, now);
        Event::of(Kind::Failed(Box::new(failure)))
    }

    fn counted(&self, kind: Kind) -> Event {
        Event {
            kind,
            usage: self.counts.normalise(),
            finish: None,
        }
    }

    /// The usage of a whole message or of its beginning, and the tier that stands in it.
    fn served(&mut self, whole: &Whole<'_>) {
        let Some(usage) = whole.usage else { return };
        if let Ok(counts) = serde_json::from_str::<Counts>(usage.get()) {
            self.counts.update(&counts);
        }
        if let Ok(served) = serde_json::from_str::<Served<'_>>(usage.get()) {
            self.progress.service_tier = served.service_tier.and_then(text);
        }
    }

    /// A block, whole or at its beginning.
    fn block(&mut self, block: &Block<'_>, index: u64) -> Kind {
        match block.kind.and_then(inside) {
            Some("text") => self.content(block.text),
            Some("thinking") => self.reasoning(block.thinking),
            Some("redacted_thinking") => {
                self.progress.reasoning = true;
                Kind::Reasoning
            }
            Some("tool_use") => {
                let id = block.id.and_then(text);
                let name = block.name.and_then(text).unwrap_or_default();
                // A stream begins with an empty object and then sends the arguments in pieces.
                let given = block
                    .input
                    .map(RawValue::get)
                    .filter(|input| *input != "{}");
                self.progress.written_bytes += given.map_or(0, |input| input.len() as u64);
                self.progress.tool_calls.push(ToolCall {
                    index,
                    id,
                    name,
                    arguments: given.unwrap_or_default().to_owned(),
                    free_form: false,
                });
                Kind::ToolCall
            }
            // What the vendor's own tools were asked and did is an answer too.
            Some(_) => {
                self.progress.content = true;
                Kind::Content
            }
            None => Kind::Unknown,
        }
    }

    fn delta(&mut self, delta: &Delta<'_>, index: u64) -> Kind {
        match delta.kind.and_then(inside) {
            Some("text_delta") => self.content(delta.text),
            Some("thinking_delta") => self.reasoning(delta.thinking),
            Some("signature_delta") => Kind::Reasoning,
            Some("input_json_delta") => {
                self.progress.written_bytes += text_bytes(delta.partial_json);
                let part = delta.partial_json.and_then(text).unwrap_or_default();
                let calls = &mut self.progress.tool_calls;
                match calls.iter_mut().find(|call| call.index == index) {
                    Some(call) => {
                        call.arguments.push_str(&part);
                        Kind::ToolCall
                    }
                    // The arguments of a tool that the vendor itself runs.
                    None => Kind::Content,
                }
            }
            Some(_) => Kind::Content,
            None => Kind::Unknown,
        }
    }

    fn content(&mut self, written: Option<&RawValue>) -> Kind {
        match text_bytes(written) {
            0 => Kind::Start,
            bytes => {
                self.progress.written_bytes += bytes;
                self.progress.content = true;
                Kind::Content
            }
        }
    }

    fn reasoning(&mut self, written: Option<&RawValue>) -> Kind {
        match text_bytes(written) {
            0 => Kind::Start,
            bytes => {
                self.progress.written_bytes += bytes;
                self.progress.reasoning = true;
                Kind::Reasoning
            }
        }
    }
}

impl StreamDecoder for MessagesDecoder {
    fn read(&mut self, frame: &Frame, now: UnixTime) -> Event {
        let event = self.event(frame, now);
        self.progress.record(&event);
        event
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn verdict(&self) -> Verdict {
        let missing = (!self.ended).then_some(Missing::Terminator);
        self.judge(missing)
    }
}

/// Why the model stopped. A pause (of a turn in which the vendor's own tools work on) is no end of
/// the conversation, but one of the answer.
fn finish(raw: Option<&RawValue>) -> Option<Finish> {
    Some(match inside(raw?)? {
        "end_turn" | "stop_sequence" | "pause_turn" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::ContentFilter,
        _ => Finish::Other,
    })
}

/// The same frame with the reason to stop that it gives replaced, all other bytes as they were.
/// `None` when it gives none.
pub fn with_stop_reason(frame: &Frame, reason: &str) -> Option<Bytes> {
    let data = Envelope::parse(frame.data()?.clone()).ok()?;
    let mut edits = Edits::default();
    for member in data.members(data.field("delta")?.value) {
        let given = member.value.of(data.body()).starts_with(b"\"");
        if given && data.name(&member) == "stop_reason" {
            edits.replace(member.value, format!("\"{reason}\""));
        }
    }
    if edits.is_empty() {
        return None;
    }
    Some(frame.with_data(&edits.apply(&data).to_bytes()))
}
