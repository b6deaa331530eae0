//! The responses API: named events, ended by one that holds the whole response.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use whippletree_policies::time::UnixTime;
use whippletree_policies::usage::Usage;

use super::{inside, is_error, text, text_bytes};
use crate::decoder::{Event, Finish, Kind, Missing, Progress, StreamDecoder, ToolCall, Verdict};
use crate::openai::dialects::Dialect;
use crate::openai::failure::classify_event;
use crate::openai::usage::Counts;
use crate::sse::Frame;

/// Reads a stream of response events.
#[derive(Debug)]
pub struct ResponsesDecoder {
    dialect: Dialect,
    progress: Progress,
    ended: bool,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<Item<'a>>,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Box<Counts>>,
    #[serde(borrow, default)]
    output: Option<Vec<Item<'a>>>,
    #[serde(borrow, default)]
    incomplete_details: Option<Incomplete<'a>>,
    #[serde(borrow, default)]
    service_tier: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl ResponsesDecoder {
    /// A decoder at the start of a stream.
    pub fn new(dialect: &Dialect) -> Self {
        Self {
            dialect: *dialect,
            progress: Progress::default(),
            ended: false,
        }
    }

    /// Reads a whole response.
    pub(crate) fn whole(mut self, body: &[u8], now: UnixTime) -> (Progress, Verdict) {
        self.ended = true;
        self.progress.done = true;
        let event = match serde_json::from_slice::<Response<'_>>(body) {
            Ok(response) if is_error(response.error) || response.output.is_none() => {
                let failure = classify_event(&self.dialect, body, now);
                let mut event = Event::of(Kind::Failed(Box::new(failure)));
                event.usage = self.counted(&response);
                event
            }
            Ok(response) => {
                let status = response.status.and_then(inside).unwrap_or("completed");
                self.conclude(status, &response)
            }
            Err(_) => Event::of(Kind::Malformed),
        };
        self.progress.record(&event);
        let verdict = match self.progress.finish {
            // A response in the background has not begun to answer.
            None if self.progress.failure.is_none() && !self.progress.malformed => {
                Verdict::Complete
            }
            _ => self.progress.judge(None),
        };
        (self.progress, verdict)
    }

    fn event(&mut self, frame: &Frame, now: UnixTime) -> Event {
        let Some(data) = frame.data() else {
            return Event::of(Kind::Comment);
        };
        // Not of this API, but OpenRouter sends it here too.
        if data.trim_ascii() == b"[DONE]" {
            return Event::of(Kind::Done);
        }
        let message: Message<'_> = match serde_json::from_slice(data) {
            Ok(message) => message,
            Err(_) if serde_json::from_slice::<IgnoredAny>(data).is_ok() => {
                return Event::of(Kind::Unknown);
            }
            Err(_) => return Event::of(Kind::Malformed),
        };
        let named = frame.name().and_then(|name| std::str::from_utf8(name).ok());
        let kind = message.kind.and_then(inside).or(named).unwrap_or_default();
        if kind == "error"
            || kind == "response.failed"
            || (!kind.starts_with("response.") && is_error(message.error))
        {
            let mut event = Event::of(Kind::Failed(Box::new(classify_event(
                &self.dialect,
                data,
                now,
            ))));
            event.usage = message.response.as_ref().and_then(|r| self.counted(r));
            self.ended |= kind == "response.failed";
            return event;
        }
        self.message(kind, &message)
    }

    fn counted(&self, response: &Response<'_>) -> Option<Usage> {
        response.usage.as_ref()?.normalise(self.dialect.usage)
    }

    fn message(&mut self, kind: &str, message: &Message<'_>) -> Event {
        let name = kind.strip_prefix("response.").unwrap_or(kind);
        let is_delta = name.rsplit('.').next() == Some("delta");
        Event::of(match name {
            "completed" | "incomplete" => {
                self.ended = true;
                return match &message.response {
                    Some(response) => self.conclude(name, response),
                    None => Event::of(Kind::Malformed),
                };
            }
            "output_item.added" | "output_item.done" => match &message.item {
                Some(item) => self.item(item, message.output_index.unwrap_or(0)),
                None => Kind::Start,
            },
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                self.progress.written_bytes += text_bytes(message.delta);
                if let Some(part) = message.delta.and_then(text) {
                    self.slot(message.output_index).arguments.push_str(&part);
                }
                Kind::ToolCall
            }
            "function_call_arguments.done" => {
                if let Some(whole) = message.arguments.and_then(text) {
                    self.slot(message.output_index).arguments = whole;
                }
                Kind::ToolCall
            }
            "custom_tool_call_input.done" => {
                if let Some(whole) = message.input.and_then(text) {
                    self.slot(message.output_index).arguments = whole;
                }
                Kind::ToolCall
            }
            _ if name.starts_with("reasoning") => {
                if is_delta && text_bytes(message.delta) > 0 {
                    self.progress.written_bytes += text_bytes(message.delta);
                    self.progress.reasoning = true;
                }
                Kind::Reasoning
            }
            _ if is_delta => {
                self.progress.written_bytes += text_bytes(message.delta);
                self.progress.content = true;
                Kind::Content
            }
            _ if name.ends_with("partial_image") => {
                self.progress.content = true;
                Kind::Content
            }
            "keepalive" | "ping" => Kind::Ping,
            _ if kind.starts_with("response.") => Kind::Start,
            _ => Kind::Unknown,
        })
    }

    /// Takes in the whole response, of the event that ends a stream or of a whole answer.
    fn conclude(&mut self, status: &str, response: &Response<'_>) -> Event {
        for (index, item) in response.output.iter().flatten().enumerate() {
            match item.kind.and_then(inside) {
                Some("function_call" | "custom_tool_call") => {
                    self.item(item, index as u64);
                }
                Some("reasoning") | None => self.progress.reasoning = true,
                Some("message") => self.progress.content |= text_bytes(item.content) > 0,
                // What the vendor's own tools did is an answer too.
                Some(_) => self.progress.content = true,
            }
        }
        if let Some(tier) = response.service_tier.and_then(text) {
            self.progress.service_tier = Some(tier);
        }
        let details = response.incomplete_details.as_ref();
        let reason = details.and_then(|details| details.reason).and_then(inside);
        let finish = match (status, reason) {
            ("completed", _) if self.progress.tool_calls.is_empty() => Some(Finish::Stop),
            ("completed", _) => Some(Finish::ToolCalls),
            ("queued" | "in_progress", _) => None,
            (_, Some("content_filter")) => Some(Finish::ContentFilter),
            (_, Some("max_output_tokens" | "max_tokens")) => Some(Finish::Length),
            _ => Some(Finish::Other),
        };
        Event {
            kind: Kind::Finish,
            usage: self.counted(response),
            finish,
        }
    }

    /// The beginning or the end of an item: for a tool call, its name, and at its end all of it.
    fn item(&mut self, item: &Item<'_>, index: u64) -> Kind {
        let free_form = match item.kind.and_then(inside) {
            Some("function_call") => false,
            Some("custom_tool_call") => true,
            _ => return Kind::Start,
        };
        let whole = item.arguments.or(item.input).and_then(text);
        let name = item.name.and_then(text);
        let id = item.call_id.and_then(text);
        let slot = self.slot(Some(index));
        slot.free_form = free_form;
        slot.id = id.or(slot.id.take());
        if let Some(name) = name {
            slot.name = name;
        }
        if let Some(whole) = whole.filter(|whole| !whole.is_empty()) {
            slot.arguments = whole;
        }
        Kind::ToolCall
    }

    fn slot(&mut self, index: Option<u64>) -> &mut ToolCall {
        let index = index.unwrap_or(0);
        let calls = &mut self.progress.tool_calls;
        let at = calls.iter().position(|call| call.index == index);
        let at = at.unwrap_or_else(|| {
            calls.push(ToolCall {
                index,
                ..ToolCall::default()
            });
            calls.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or pushed just above")]
        &mut calls[at]
    }
}

impl StreamDecoder for ResponsesDecoder {
    fn read(&mut self, frame: &Frame, now: UnixTime) -> Event {
        let event = self.event(frame, now);
        self.progress.record(&event);
        self.progress.done |= self.ended;
        event
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn verdict(&self) -> Verdict {
        let missing = (!self.ended).then_some(Missing::Terminator);
        self.progress.judge(missing)
    }
}
