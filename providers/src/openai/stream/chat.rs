//! Chat and text completions.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use whippletree_policies::time::UnixTime;

use super::{finish, inside, is_error, text, text_bytes};
use crate::decoder::{Event, Kind, Missing, Progress, StreamDecoder, ToolCall, Verdict};
use crate::openai::dialects::{Dialect, Terminator};
use crate::openai::failure::classify_event;
use crate::openai::usage::Counts;
use crate::sse::Frame;

/// Reads a stream of chat or text completion chunks.
#[derive(Debug)]
pub struct ChatDecoder {
    dialect: Dialect,
    progress: Progress,
    /// Indexes of choices that began, and of those that finished.
    begun: Vec<u64>,
    finished: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Form {
    Chunk,
    Whole,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Box<Counts>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    service_tier: Option<&'a RawValue>,
    #[serde(default)]
    x_groq: Option<GroqPart>,
}

#[derive(Deserialize)]
struct GroqPart {
    #[serde(default)]
    usage: Option<Box<Counts>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    /// Whole answers. Perplexity sends it beside the delta, with all of the text so far.
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    /// Text completions.
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Box<Counts>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio: Option<&'a RawValue>,
    #[serde(borrow, default)]
    images: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolDelta<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
    #[serde(borrow, default)]
    custom: Option<CustomDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CustomDelta<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

impl ChatDecoder {
    /// A decoder at the start of a stream.
    pub fn new(dialect: &Dialect) -> Self {
        Self {
            dialect: *dialect,
            progress: Progress::default(),
            begun: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Reads a whole answer as if it were one chunk.
    pub(crate) fn whole(mut self, body: &[u8], now: UnixTime) -> (Progress, Verdict) {
        let event = self.parse(body, now, Form::Whole);
        self.progress.record(&event);
        self.progress.done = true;
        // A chunk without choices is one thing, an answer without them another.
        if matches!(event.kind, Kind::Unknown | Kind::Usage) {
            self.progress.malformed = true;
        }
        let verdict = self.progress.judge(None);
        (self.progress, verdict)
    }

    fn event(&mut self, frame: &Frame, now: UnixTime) -> Event {
        let Some(data) = frame.data() else {
            return Event::of(Kind::Comment);
        };
        if data.trim_ascii() == b"[DONE]" {
            return Event::of(Kind::Done);
        }
        if frame.name().is_some_and(|name| name == "error") {
            return self.failed(data, now);
        }
        self.parse(data, now, Form::Chunk)
    }

    fn parse(&mut self, data: &[u8], now: UnixTime, form: Form) -> Event {
        // Checked at once: from a slice, each string would be checked by itself.
        let Ok(text) = simdutf8::basic::from_utf8(data) else {
            return Event::of(Kind::Malformed);
        };
        let chunk: Chunk<'_> = match serde_json::from_str(text) {
            Ok(chunk) => chunk,
            Err(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                return Event::of(Kind::Unknown);
            }
            Err(_) => return Event::of(Kind::Malformed),
        };
        let mut choices = chunk.choices.iter().flatten();
        if is_error(chunk.error)
            || chunk
                .object
                .is_some_and(|object| object.get() == "\"error\"")
            || choices.any(|choice| is_error(choice.error))
        {
            return self.failed(data, now);
        }
        self.chunk(&chunk, form)
    }

    fn failed(&self, data: &[u8], now: UnixTime) -> Event {
        Event::of(Kind::Failed(Box::new(classify_event(
            &self.dialect,
            data,
            now,
        ))))
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, form: Form) -> Event {
        if let Some(tier) = chunk.service_tier.and_then(inside)
            && self.progress.service_tier.as_deref() != Some(tier)
        {
            self.progress.service_tier = Some(tier.to_owned());
        }
        let choices = chunk.choices.as_deref().unwrap_or_default();
        let mut event = Event::of(Kind::Start);
        for choice in choices {
            let kind = self.choice(choice, form);
            if rank(&kind) > rank(&event.kind) {
                event.kind = kind;
            }
            event.finish = finish(choice.finish_reason).or(event.finish);
        }
        let within = choices.iter().find_map(|choice| choice.usage.as_deref());
        event.usage = [
            chunk.usage.as_deref(),
            chunk.x_groq.as_ref().and_then(|groq| groq.usage.as_deref()),
            within,
        ]
        .into_iter()
        .flatten()
        .find_map(|counts| counts.normalise(self.dialect.usage));
        if choices.is_empty() {
            event.kind = match (&chunk.choices, event.usage) {
                (_, Some(_)) => Kind::Usage,
                (Some(_), None) => Kind::Start,
                (None, None) => Kind::Unknown,
            };
        }
        event
    }

    fn choice(&mut self, choice: &Choice<'_>, form: Form) -> Kind {
        let delta = match form {
            Form::Chunk => &choice.delta,
            Form::Whole => &choice.message,
        };
        let index = choice.index.unwrap_or(0);
        if !self.begun.contains(&index) {
            self.begun.push(index);
        }
        let finished = finish(choice.finish_reason).is_some();
        if finished && !self.finished.contains(&index) {
            self.finished.push(index);
        }
        let mut kind = if finished { Kind::Finish } else { Kind::Start };
        let mut content = text_bytes(choice.text);
        if let Some(delta) = delta {
            let reasoning = reasoning_bytes(delta);
            if reasoning > 0 {
                self.progress.reasoning = true;
                self.progress.written_bytes += reasoning;
                kind = Kind::Reasoning;
            }
            content += text_bytes(delta.content.filter(|raw| !is_thinking(raw)))
                + text_bytes(delta.refusal)
                + text_bytes(delta.audio)
                + text_bytes(delta.images);
        }
        if content > 0 {
            self.progress.content = true;
            self.progress.written_bytes += content;
            kind = Kind::Content;
        }
        if let Some(delta) = delta
            && self.tool_calls(index, delta)
        {
            kind = Kind::ToolCall;
        }
        kind
    }

    /// Takes in parts of tool calls; says whether there were any.
    fn tool_calls(&mut self, choice: u64, delta: &Delta<'_>) -> bool {
        let mut any = false;
        for (position, call) in delta.tool_calls.iter().flatten().enumerate() {
            any = true;
            let id = call.id.and_then(text).filter(|id| !id.is_empty());
            // Without an index a part with an id of its own begins a call, and one without goes on
            // with the last.
            let index = call
                .index
                .unwrap_or_else(|| self.implied_index(id.as_deref(), position));
            let custom = call.custom.is_some();
            let (name, arguments) = match (&call.function, &call.custom) {
                (Some(function), _) => (function.name, function.arguments),
                (None, Some(custom)) => (custom.name, custom.input),
                (None, None) => (None, None),
            };
            let slot = self.slot(choice, index, id.as_deref());
            slot.free_form |= custom;
            if id.is_some() {
                slot.id.clone_from(&id);
            }
            self.extend(choice, index, id.as_deref(), name, arguments);
        }
        if let Some(call) = &delta.function_call {
            any = true;
            self.extend(choice, 0, None, call.name, call.arguments);
        }
        any
    }

    fn implied_index(&self, id: Option<&str>, position: usize) -> u64 {
        let known = |id: &str| {
            self.progress
                .tool_calls
                .iter()
                .position(|call| call.id.as_deref() == Some(id))
        };
        let begun = self.progress.tool_calls.len();
        let index = match id {
            Some(id) => known(id).unwrap_or(begun),
            None => begun.saturating_sub(1).max(position),
        };
        index as u64
    }

    /// The call at that index of that choice. Calls of a second choice get indexes of their own.
    ///
    /// Some vendors send several whole calls under one index: an id other than the one that the
    /// index has begins another call, and parts without an id belong to the last.
    fn slot(&mut self, choice: u64, index: u64, id: Option<&str>) -> &mut ToolCall {
        let index = key(choice, index);
        let calls = &mut self.progress.tool_calls;
        let at = calls.iter().rposition(|call| {
            call.index == index && (id.is_none() || call.id.is_none() || call.id.as_deref() == id)
        });
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

    fn extend(
        &mut self,
        choice: u64,
        index: u64,
        id: Option<&str>,
        name: Option<&RawValue>,
        arguments: Option<&RawValue>,
    ) {
        let bytes = text_bytes(name) + text_bytes(arguments);
        self.progress.written_bytes += bytes;
        let slot = self.slot(choice, index, id);
        if let Some(name) = name.and_then(text) {
            // A name comes whole; some vendors repeat it with every part.
            if slot.name.is_empty() {
                slot.name = name;
            }
        }
        if let Some(arguments) = arguments {
            match text(arguments) {
                Some(part) => slot.arguments.push_str(&part),
                None => slot.arguments.push_str(arguments.get()),
            }
        }
    }
}

impl StreamDecoder for ChatDecoder {
    fn read(&mut self, frame: &Frame, now: UnixTime) -> Event {
        let event = self.event(frame, now);
        self.progress.record(&event);
        event
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn verdict(&self) -> Verdict {
        let unfinished = self.begun.is_empty()
            || self
                .begun
                .iter()
                .any(|index| !self.finished.contains(index));
        let missing = if unfinished {
            Some(Missing::Finish)
        } else if !self.progress.done && self.dialect.terminator == Terminator::DoneMarker {
            Some(Missing::Terminator)
        } else {
            None
        };
        self.progress.judge(missing)
    }
}

/// Calls of choice 0 keep the vendor's index; there are never 2^32 of them.
const fn key(choice: u64, index: u64) -> u64 {
    choice << 32 | index
}

const fn rank(kind: &Kind) -> u8 {
    match kind {
        Kind::ToolCall => 4,
        Kind::Content => 3,
        Kind::Reasoning => 2,
        Kind::Finish => 1,
        _ => 0,
    }
}

fn reasoning_bytes(delta: &Delta<'_>) -> u64 {
    // `reasoning` and `reasoning_details` say the same at OpenRouter.
    let longest = [
        delta.reasoning_content,
        delta.reasoning,
        delta.reasoning_details,
    ]
    .into_iter()
    .map(text_bytes)
    .max()
    .unwrap_or(0);
    longest + text_bytes(delta.content.filter(|raw| is_thinking(raw)))
}

/// Mistral's content is a list when it is thinking.
fn is_thinking(raw: &RawValue) -> bool {
    raw.get().starts_with('[') && raw.get().contains("\"thinking\"")
}
