//! What a streamed answer says, event by event, and whether it was whole when it ended.
//!
//! A relay must know of each event whether it may still be taken back, whether it carries usage, and
//! whether it is an error in disguise; and of the whole whether the vendor finished what it began.
//! A [`StreamDecoder`] reads frames and never changes them: what is passed on is [`Frame::raw`].

use std::fmt;

use serde_json::value::RawValue;
use whippletree_policies::time::UnixTime;
use whippletree_policies::usage::Usage;

use crate::failure::Failure;
use crate::sse::Frame;

/// Reads the frames of one stream, in order.
pub trait StreamDecoder: fmt::Debug + Send {
    /// Takes in a frame and says what it is. `now` is when it came; a wait that an error names may
    /// depend on it.
    fn read(&mut self, frame: &Frame, now: UnixTime) -> Event;

    /// What the stream has said so far.
    fn progress(&self) -> &Progress;

    /// What the stream came to, once it has ended.
    fn verdict(&self) -> Verdict;
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The most that it carries.
    pub kind: Kind,
    /// Usage, where it carries a report. Reports are cumulative: the last one counts.
    pub usage: Option<Usage>,
    /// Why the model stopped, where it says so.
    pub finish: Option<Finish>,
}

impl Event {
    pub(crate) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            usage: None,
            finish: None,
        }
    }
}

/// What an event carries; of several things the first in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An error of the vendor after its status 200.
    Failed(Box<Failure>),
    /// Not what the dialect allows: no JSON.
    Malformed,
    /// A part of a tool call.
    ToolCall,
    /// A part of the answer: text, refusal, image, audio.
    Content,
    /// A part of the reasoning.
    Reasoning,
    /// The reason why the model stopped, and no more.
    Finish,
    /// The report of usage that was asked for by `stream_options`, and no more: to be removed for a
    /// client that did not ask.
    Usage,
    /// The end marker.
    Done,
    /// The beginning of an answer or of a part of it, still empty.
    Start,
    /// A sign of life.
    Ping,
    /// A comment, a blank line or an event without data: nothing that a client sees.
    Comment,
    /// Well-formed, but not known.
    Unknown,
}

impl Kind {
    /// Whether the client has seen something of the answer once this was passed on.
    pub const fn commits(&self) -> bool {
        matches!(
            self,
            Self::ToolCall | Self::Content | Self::Reasoning | Self::Finish | Self::Done
        )
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The vendor's policy cut the answer.
    ContentFilter,
    /// The vendor failed (OpenRouter's `error`, DeepSeek's `insufficient_system_resource`).
    Error,
    /// The output limit or the context window was reached.
    Length,
    /// A reason that we do not know.
    Other,
    /// The model was done.
    Stop,
    /// The model wants tools called.
    ToolCalls,
}

/// A tool call as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The vendor's index, which tells calls of one answer apart.
    pub index: u64,
    /// The vendor's id, where given.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments so far.
    pub arguments: String,
    /// The arguments are text of the tool's own grammar, not JSON.
    pub free_form: bool,
}

impl ToolCall {
    /// Whether the arguments are a whole JSON value. None at all count as whole: some vendors send
    /// nothing for a tool without parameters.
    pub fn is_whole(&self) -> bool {
        self.free_form
            || self.arguments.trim().is_empty()
            || serde_json::from_str::<&RawValue>(&self.arguments).is_ok()
    }
}

/// What an answer has said so far.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, none of which excludes another"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Text, refusal or media came.
    pub content: bool,
    /// Reasoning came.
    pub reasoning: bool,
    /// Tool calls in the order of their beginning.
    pub tool_calls: Vec<ToolCall>,
    /// The first failing, else the last finish reason.
    pub finish: Option<Finish>,
    /// The end marker came.
    pub done: bool,
    /// The last report of usage.
    pub usage: Option<Usage>,
    /// The error that came inside the stream.
    pub failure: Option<Failure>,
    /// An event was no JSON.
    pub malformed: bool,
    /// The service tier that the vendor says it served at.
    pub service_tier: Option<String>,
    /// Bytes of text, reasoning and arguments as written in JSON: what an estimate of the output
    /// goes by when the stream ends before its report of usage.
    pub written_bytes: u64,
}

impl Progress {
    /// Whether anything of an answer came.
    pub const fn answered(&self) -> bool {
        self.content || self.reasoning || !self.tool_calls.is_empty()
    }

    /// The first tool call that is not whole.
    pub fn partial_tool_call(&self) -> Option<&ToolCall> {
        self.tool_calls.iter().find(|call| !call.is_whole())
    }

    pub(crate) fn record(&mut self, event: &Event) {
        match &event.kind {
            Kind::Failed(failure) => {
                self.failure.get_or_insert_with(|| (**failure).clone());
            }
            Kind::Malformed => self.malformed = true,
            Kind::Done => self.done = true,
            _ => {}
        }
        if let Some(usage) = event.usage {
            // A report of nothing does not take back an earlier one.
            let empty = usage.input.0 == 0 && usage.output.0 == 0;
            if !empty || self.usage.is_none() {
                self.usage = Some(usage);
            }
        }
        if event.finish.is_some() {
            self.finish = event.finish;
        }
    }

    /// The verdict on an answer whose end the dialect confirms, or does not.
    pub(crate) fn judge(&self, missing: Option<Missing>) -> Verdict {
        if let Some(failure) = &self.failure {
            return Verdict::Failed(Box::new(failure.clone()));
        }
        if self.malformed {
            return Verdict::Malformed;
        }
        if let Some(missing) = missing {
            return Verdict::Cut(missing);
        }
        match self.finish {
            Some(Finish::Error) => Verdict::Cut(Missing::Finish),
            // A tool call that the limit cut is what `length` says.
            Some(Finish::Length | Finish::ContentFilter) => Verdict::Complete,
            Some(Finish::Other | Finish::Stop | Finish::ToolCalls) | None => {
                match self.partial_tool_call() {
                    Some(call) => Verdict::PartialToolCall { index: call.index },
                    None if !self.answered() => Verdict::Empty,
                    None => Verdict::Complete,
                }
            }
        }
    }
}

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it came.
    Complete,
    /// It ended before its end.
    Cut(Missing),
    /// It ended well and said nothing.
    Empty,
    /// It is an error.
    Failed(Box<Failure>),
    /// It is not what the dialect allows.
    Malformed,
    /// It claims to have ended well, but the arguments of a tool call are not whole.
    PartialToolCall {
        /// The call's index.
        index: u64,
    },
}

/// What an answer that was cut lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The reason why the model stopped.
    Finish,
    /// The end marker or last event of the dialect.
    Terminator,
}

/// A whole answer, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it says.
    pub progress: Progress,
    /// What it came to.
    pub verdict: Verdict,
}
