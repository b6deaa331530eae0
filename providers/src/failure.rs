//! A failed attempt, as far as the vendor explained it.
//!
//! Vendors disagree on statuses, shapes and words; a codec reads them once into a
//! [`Class`] and what goes with it. The rules of OpenAI's dialect, which most vendors follow, are in
//! [`crate::openai::failure`].

use std::time::Duration;

use serde_json::Value;
use whippletree_policies::outcome::Class;

use crate::mask::mask;

/// What a vendor's error came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its meaning.
    pub class: Class,
    /// The HTTP status, or the one that an error inside a stream names.
    pub status: Option<u16>,
    /// How long the vendor asks to wait.
    pub wait: Option<Duration>,
    /// The vendor's `code`, as it came.
    pub code: Option<String>,
    /// The vendor's `type`, as it came.
    pub kind: Option<String>,
    /// The vendor's `param`: the field of the request that it complains about.
    pub param: Option<String>,
    /// The vendor's message, with everything masked that looks like a credential.
    pub message: Option<String>,
    /// The sizes of a prompt that did not fit, where the message tells them.
    pub overflow: Option<Overflow>,
}

/// By how much a prompt does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The tokens asked for, where told.
    pub requested: Option<u64>,
    /// The most that fit, where told.
    pub limit: Option<u64>,
}

/// The parts of an error body, whatever its shape.
///
/// Known shapes: `{"error": {message, type, code, …}}` (OpenAI, Anthropic, Google and most others),
/// the same in an array of one (Google's compatible endpoint), `{"error": "text", "code"}` (xAI,
/// Ollama), flat `{message, type, code}` (Mistral, Cerebras, `SGLang`, `DashScope`), `{"detail": …}`
/// (`FastAPI` servers), `{title, detail, status}` (RFC 9457), and the events `error` and
/// `response.failed` of the responses API.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorBody {
    pub(crate) code: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) param: Option<String>,
    /// A status that the body itself names.
    pub(crate) status: Option<u16>,
    /// Codes in deeper places, which are more exact than `code`.
    pub(crate) details: Vec<String>,
    /// OpenRouter's sign of a refusal by moderation.
    pub(crate) moderated: bool,
}

impl ErrorBody {
    /// Reads a body; what is not JSON becomes the message, unless it is a page of HTML.
    pub(crate) fn parse(body: &[u8]) -> Self {
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            return Self::of(&value);
        }
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        let page = text.is_empty() || text.starts_with('<');
        Self {
            message: (!page).then(|| text.chars().take(500).collect()),
            ..Self::default()
        }
    }

    pub(crate) fn of(value: &Value) -> Self {
        let outer = value.get(0).unwrap_or(value);
        let error = outer
            .get("error")
            .or_else(|| outer.get("response")?.get("error"))
            .filter(|error| error.is_object())
            .unwrap_or(outer);
        let nested = !std::ptr::eq(error, outer);
        let number = |name| error.get(name).and_then(Value::as_u64);
        let code = word(error, "code").or_else(|| word(outer, "code"));
        let status = number("status_code")
            .or_else(|| number("status"))
            .or_else(|| code.as_deref()?.parse().ok())
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (400..600).contains(status));
        let kind = word(error, "type").or_else(|| word(error, "error_type"));
        Self {
            // An event's own `type` is not the error's.
            kind: kind.filter(|kind| nested || (kind != "error" && !kind.starts_with("response."))),
            message: message(outer, error),
            param: word(error, "param"),
            details: details(error),
            moderated: error
                .get("metadata")
                .is_some_and(|m| m.get("flagged_input").is_some() || m.get("reasons").is_some()),
            code,
            status,
        }
    }

    pub(crate) fn into_failure(
        self,
        class: Class,
        status: Option<u16>,
        wait: Option<Duration>,
    ) -> Failure {
        let overflow = match (class, &self.message) {
            (Class::ContextOverflow, Some(message)) => overflow(message),
            _ => None,
        };
        Failure {
            class,
            status: status.or(self.status),
            wait,
            code: self.code,
            kind: self.kind,
            message: self.message.map(|text| mask(&text).into_owned()),
            param: self.param.map(|text| mask(&text).into_owned()),
            overflow,
        }
    }
}

/// A field that is a string or, at some vendors, a number.
fn word(object: &Value, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn message(outer: &Value, error: &Value) -> Option<String> {
    let text = |object: &Value, name: &str| match object.get(name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        // FastAPI lists what it found wrong.
        list @ Value::Array(_) => {
            let first = list.get(0)?;
            Some(first.get("msg").unwrap_or(first).as_str()?.to_owned())
        }
        _ => None,
    };
    let raw = || text(error.get("metadata")?, "raw");
    let own = text(error, "message");
    // OpenRouter says only that the provider failed; what the provider said is beside it.
    let vague = own.as_deref() == Some("Provider returned error");
    let own = if vague { raw().or(own) } else { own };
    own.or_else(|| text(outer, "error"))
        .or_else(|| text(outer, "message"))
        .or_else(|| text(outer, "detail"))
        .or_else(|| text(outer, "title"))
}

fn details(error: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |value: Option<&Value>| {
        found.extend(value.and_then(Value::as_str).map(str::to_owned));
    };
    add(error.get("innererror").and_then(|inner| inner.get("code")));
    add(error.get("status"));
    add(error.get("metadata").and_then(|m| m.get("limit_source")));
    match error.get("details") {
        Some(Value::Array(list)) => {
            for detail in list {
                add(detail.get("reason"));
            }
        }
        Some(object) => add(object.get("error_code")),
        None => {}
    }
    found
}

/// The numbers in a message about a prompt that is too long.
fn overflow(message: &str) -> Option<Overflow> {
    const LIMIT: [&str; 12] = [
        "maximum context length is ",
        "context length is only ",
        "tokens > ",
        "token limit: ",
        "context size (",
        "number of tokens allowed (",
        "limit is ",
        "limit for this model is ",
        "maximum input length of ",
        "context length of ",
        "context window of ",
        "range of input length should be [1, ",
    ];
    const REQUESTED: [&str; 9] = [
        "you requested about ",
        "you requested ",
        "(requested: ",
        "resulted in ",
        "prompt is too long: ",
        "request (",
        "input token count (",
        "current length is ",
        "you passed ",
    ];
    let lower = message.to_ascii_lowercase();
    let after = |marks: &[&str]| {
        marks.iter().find_map(|mark| {
            let (_, rest) = lower.split_once(mark)?;
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',');
            let digits = rest.get(..end.unwrap_or(rest.len()))?;
            digits.replace(',', "").parse::<u64>().ok()
        })
    };
    let found = Overflow {
        requested: after(&REQUESTED),
        limit: after(&LIMIT),
    };
    (found.requested.is_some() || found.limit.is_some()).then_some(found)
}
