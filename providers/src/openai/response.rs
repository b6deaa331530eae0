//! Whole answers in OpenAI's dialect: usage, tool calls, and whether they are answers at all.

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use whippletree_policies::time::UnixTime;

use super::dialects::Dialect;
use super::failure::classify;
use super::stream::{ChatDecoder, ResponsesDecoder, is_error};
use super::usage::Counts;
use crate::anthropic::{self, MessagesDecoder};
use crate::decoder::{Answer, Progress, Verdict};
use crate::provider::Api;

#[derive(Deserialize)]
struct Embeddings<'a> {
    #[serde(default)]
    data: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    usage: Option<Box<Counts>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads a whole answer: its status, headers and body.
pub fn read(
    dialect: &Dialect,
    api: Api,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: UnixTime,
) -> Answer {
    let failed = || {
        let failure = classify(dialect, status, headers, body, now);
        Verdict::Failed(Box::new(failure))
    };
    if !status.is_success() {
        return Answer {
            progress: Progress::default(),
            verdict: failed(),
        };
    }
    let (progress, verdict) = match api {
        Api::Chat | Api::Completions => ChatDecoder::new(dialect).whole(body, now),
        Api::CountTokens => anthropic::count(body),
        Api::Embeddings => embeddings(dialect, body),
        Api::Messages => MessagesDecoder::new(dialect).whole(body, now),
        Api::Responses => ResponsesDecoder::new(dialect).whole(body, now),
    };
    // Classified again, with what the headers say.
    let verdict = match verdict {
        Verdict::Failed(_) => failed(),
        other => other,
    };
    Answer { progress, verdict }
}

fn embeddings(dialect: &Dialect, body: &[u8]) -> (Progress, Verdict) {
    let mut progress = Progress::default();
    let Ok(answer) = serde_json::from_slice::<Embeddings<'_>>(body) else {
        progress.malformed = true;
        return (progress, Verdict::Malformed);
    };
    progress.done = true;
    progress.usage = answer
        .usage
        .and_then(|counts| counts.normalise(dialect.usage));
    progress.content = answer.data.as_ref().is_some_and(|data| !data.is_empty());
    let verdict = if is_error(answer.error) {
        Verdict::Failed(Box::new(classify(
            dialect,
            StatusCode::OK,
            &HeaderMap::new(),
            body,
            UnixTime(0),
        )))
    } else if answer.data.is_none() {
        Verdict::Malformed
    } else {
        progress.judge(None)
    };
    (progress, verdict)
}
