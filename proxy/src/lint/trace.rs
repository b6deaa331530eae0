//! Files of requests, in the forms that they come in.
//!
//! - a request body: a JSON object with `messages`, `input` or `contents`;
//! - a JSON list of any of these;
//! - JSONL: one of these a line, each a body, or an object that holds one as `body`, `request` or
//!   `request.body`, beside what is known of the call (`time`, `model`, `task`, `key`, `region`,
//!   `target`, `fallback`; a recorder's line has them in `exchange`);
//! - a recorded session: `{"kind": "requests", "requests": [{"body": …}]}`;
//! - a session log of a harness, see [`session`].
//!
//! Bodies keep their bytes: white space and key order are what the linter looks at.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;

use super::session;

/// A request, as far as a file tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The file, by position among those given.
    pub file: usize,
    /// Which request of the file, from 1.
    pub number: usize,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Where its body stands in the file; `None` where it was put together from a session log.
    pub span: Option<Range<usize>>,
    /// The body.
    pub body: Vec<u8>,
    /// What is known beside it.
    pub known: Known,
}

/// What a file tells of a request beside its body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The model, where it stands outside the body.
    pub model: Option<String>,
    /// When it was sent, in milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// The agent run.
    pub task: Option<String>,
    /// The vendor's key.
    pub key: Option<String>,
    /// The region, the deployment or the target.
    pub region: Option<String>,
    /// A stand-in answered.
    pub fallback: bool,
    /// Input tokens as the vendor counted them.
    pub input_tokens: Option<u64>,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes.
    pub text: Vec<u8>,
}

/// Why a file cannot be linted.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is no JSON.
    #[error("{path}:{line}: expected json: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// Nothing in it looks like a request.
    #[error(
        "{path}: expected a request body, a trace with one request a line, or a session log of a harness"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
}

/// Reads one file and finds its requests.
///
/// # Errors
/// [`TraceError`] when it cannot be read, is no JSON, or holds no request.
pub fn read(path: &Path, file: usize) -> Result<(File, Vec<Request>), TraceError> {
    let text = std::fs::read(path).map_err(|source| TraceError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut finder = Finder {
        file,
        folder: path.parent().unwrap_or(Path::new("")),
        text: &text,
        found: Vec::new(),
        log: session::Log::default(),
    };
    finder
        .whole_or_lines()
        .map_err(|(line, source)| TraceError::Json {
            path: path.to_owned(),
            line,
            source,
        })?;
    let mut found = finder.found;
    found.extend(finder.log.requests(file));
    if found.is_empty() {
        return Err(TraceError::Unknown {
            path: path.to_owned(),
        });
    }
    for (request, number) in found.iter_mut().zip(1..) {
        request.number = number;
    }
    Ok((
        File {
            path: path.to_owned(),
            text,
        },
        found,
    ))
}

struct Finder<'a> {
    file: usize,
    folder: &'a Path,
    text: &'a [u8],
    found: Vec<Request>,
    log: session::Log,
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

impl<'a> Finder<'a> {
    /// The file as one JSON value, or else line by line.
    fn whole_or_lines(&mut self) -> Result<(), (usize, serde_json::Error)> {
        if let Ok(whole) = serde_json::from_slice::<&RawValue>(self.text) {
            self.value(whole, &Known::default());
            return Ok(());
        }
        let text = self.text;
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let value =
                serde_json::from_slice::<&RawValue>(line).map_err(|error| (number + 1, error))?;
            self.value(value, &Known::default());
        }
        Ok(())
    }

    fn value(&mut self, value: &'a RawValue, around: &Known) {
        if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
            for element in list {
                self.value(element, around);
            }
            return;
        }
        let Ok(fields) = serde_json::from_str::<Fields<'a>>(value.get()) else {
            return;
        };
        let known = around.with(&fields);
        if let Some(exchange) = fields.get("exchange")
            && let Ok(inner) = serde_json::from_str::<Fields<'a>>(exchange.get())
        {
            let known = known.with(&inner);
            self.held(&fields, &known);
        } else if session::is_log(&fields) {
            self.log
                .add(&fields, &known, self.line_of(value), self.folder);
        } else if is_body(&fields) {
            self.push(value, known);
        } else if let Some(requests) = fields.get("requests") {
            let usage = fields
                .get("usage")
                .and_then(|raw| serde_json::from_str::<Vec<Value>>(raw.get()).ok());
            self.session(requests, &known, usage.as_deref().unwrap_or_default());
        } else {
            self.held(&fields, &known);
        }
    }

    /// A body within an object that tells of the call.
    fn held(&mut self, fields: &Fields<'a>, known: &Known) {
        for name in ["body", "request", "input", "payload", "params"] {
            if let Some(inner) = fields
                .get(name)
                .filter(|inner| inner.get().starts_with('{'))
            {
                self.value(inner, known);
                return;
            }
        }
    }

    /// The requests of a recorded session, with what the vendor counted for each.
    fn session(&mut self, requests: &'a RawValue, known: &Known, usage: &[Value]) {
        let Ok(requests) = serde_json::from_str::<Vec<&'a RawValue>>(requests.get()) else {
            return;
        };
        for (at, request) in requests.into_iter().enumerate() {
            let counted = usage
                .get(at)
                .and_then(|usage| usage.get("input_tokens"))
                .and_then(Value::as_u64);
            let known = Known {
                input_tokens: counted,
                ..known.clone()
            };
            self.value(request, &known);
        }
    }

    fn push(&mut self, body: &'a RawValue, known: Known) {
        let start = self.offset(body);
        self.found.push(Request {
            file: self.file,
            number: 0,
            line: self.line_of(body),
            span: Some(start..start + body.get().len()),
            body: body.get().as_bytes().to_vec(),
            known,
        });
    }

    /// Values borrow from the file's text.
    fn offset(&self, value: &RawValue) -> usize {
        let start = value.get().as_ptr().addr();
        start
            .saturating_sub(self.text.as_ptr().addr())
            .min(self.text.len())
    }

    fn line_of(&self, value: &RawValue) -> usize {
        let before = self.text.get(..self.offset(value)).unwrap_or_default();
        memchr::memchr_iter(b'\n', before).count() + 1
    }
}

fn is_body(fields: &Fields<'_>) -> bool {
    let list = |name: &str| {
        fields
            .get(name)
            .is_some_and(|raw| raw.get().starts_with('['))
    };
    let text = |name: &str| {
        fields
            .get(name)
            .is_some_and(|raw| raw.get().starts_with('"'))
    };
    list("messages")
        || list("contents")
        || ((list("input") || text("input")) && fields.contains_key("model"))
}

impl Known {
    /// What these fields tell, before what stood around them.
    fn with(&self, fields: &Fields<'_>) -> Self {
        let value = |names: &[&str]| {
            let raw = names.iter().find_map(|name| fields.get(*name))?;
            serde_json::from_str::<Value>(raw.get()).ok()
        };
        let text = |names: &[&str]| {
            let value = value(names)?;
            value
                .as_str()
                .map(str::to_owned)
                .or_else(|| value.as_u64().map(|number| number.to_string()))
        };
        Self {
            model: text(&["model"]).or_else(|| self.model.clone()),
            time_ms: value(&["time", "timestamp", "ts", "created", "created_at"])
                .and_then(|value| milliseconds(&value))
                .or(self.time_ms),
            task: text(&[
                "task",
                "task_id",
                "session_id",
                "sessionId",
                "conversation_id",
                "trace_id",
            ])
            .or_else(|| self.task.clone()),
            key: text(&["key", "key_index", "api_key_id"]).or_else(|| self.key.clone()),
            region: text(&["region", "deployment", "target"]).or_else(|| self.region.clone()),
            fallback: value(&["fallback"])
                .and_then(|value| value.as_bool())
                .unwrap_or(self.fallback),
            input_tokens: self.input_tokens,
        }
    }
}

/// A moment, however written: seconds or milliseconds since 1970, or RFC 3339.
pub(super) fn milliseconds(value: &Value) -> Option<u64> {
    const SECONDS_BELOW: f64 = 100_000_000_000.0;
    if let Some(text) = value.as_str() {
        let moment: jiff::Timestamp = text.parse().ok()?;
        return u64::try_from(moment.as_millisecond()).ok();
    }
    let number = value.as_f64().filter(|number| *number >= 0.0)?;
    let millis = if number < SECONDS_BELOW {
        number * 1e3
    } else {
        number
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and such a cast saturates"
    )]
    Some(millis as u64)
}
