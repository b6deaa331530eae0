//! How long a vendor asks us to wait, in every way that a vendor has of saying it.
//!
//! A hint is a floor that the gateway never goes below, so a wrong one is worse than none: what is
//! not positive, not finite, in the past or longer than [`LONGEST`] counts as absent, and the next
//! way of saying it is tried. The order is: milliseconds header, `retry-after`, the vendor's reset
//! fields (only of a bucket that is empty), structured fields of the body, the text of the message.
//!
//! Who sends what, as of 2026-11-30 (section C and B of the vendor facts this crate was built from):
//!
//! | field | sent by |
//! |---|---|
//! | `retry-after-ms` | OpenAI, Azure OpenAI (read by the SDKs of OpenAI, Anthropic, Mistral and others) |
//! | `x-ms-retry-after-ms` | Azure |
//! | `x-amz-retry-after` (milliseconds) | AWS (botocore 1.44.8, `retries/standard.py`) |
//! | `retry-after` (seconds or HTTP date) | nearly everyone; RFC 9110, section 10.2.3 |
//! | `x-ratelimit-reset-<bucket>`, a Go duration (`6m0s`) | OpenAI, Groq, xAI |
//! | `x-ratelimit-reset-<bucket>`, seconds (`33011.4`) | Cerebras, Azure |
//! | `x-ratelimit-reset`, seconds or Unix time in s or ms | Together, Moonshot, OpenRouter |
//! | `anthropic-ratelimit-<bucket>-reset`, RFC 3339 | Anthropic |
//! | `anthropic-ratelimit-unified-reset`, Unix seconds | Anthropic |
//! | `x-codex-{primary,secondary}-reset-at`, Unix seconds | OpenAI's Codex backend |
//! | `error.details[].retryDelay` (`34.07s`) | Google (`google.rpc.RetryInfo`) |
//! | `error.metadata.headers` | OpenRouter |
//! | `error.resets_in_seconds`, `error.resets_at` | OpenAI's Codex backend |
//! | "try again in 41.724s", "retry after 37 seconds" | OpenAI, Groq, Azure, Google |

mod duration;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use serde_json::Value;
use whippletree_policies::time::UnixTime;

use self::duration::{date, go_duration, in_text, moment, positive};

/// Hints of more than this (a year) are nonsense.
pub const LONGEST: Duration = Duration::from_hours(366 * 24);

/// The wait that an answer asks for, if it asks for a sensible one.
///
/// `body` is the whole body of the answer, or the data of an error event in a stream; `now` is the
/// moment of its arrival.
pub fn wait_hint(headers: &HeaderMap, body: &[u8], now: UnixTime) -> Option<Duration> {
    milliseconds(headers)
        .or_else(|| retry_after(headers, now))
        .or_else(|| empty_bucket(headers, now))
        .or_else(|| {
            let body = serde_json::from_slice::<Value>(body).ok()?;
            in_body(&body, now)
        })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn milliseconds(headers: &HeaderMap) -> Option<Duration> {
    const NAMES: [&str; 3] = ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"];
    NAMES.iter().find_map(|name| {
        let ms: f64 = header(headers, name)?.parse().ok()?;
        positive(ms / 1_000.0)
    })
}

fn retry_after(headers: &HeaderMap, now: UnixTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<f64>() {
        Ok(seconds) => positive(seconds),
        Err(_) => go_duration(text).or_else(|| date(text, now)),
    }
}

/// The longest wait for a bucket that the headers say is empty.
fn empty_bucket(headers: &HeaderMap, now: UnixTime) -> Option<Duration> {
    headers
        .iter()
        .filter_map(|(name, value)| {
            let value = value.to_str().ok()?.trim();
            let reset = reset_field(name.as_str(), value)?;
            moment(header(headers, &reset)?, now)
        })
        .max()
}

/// The field that says when a bucket fills again, if this field says that it is empty.
fn reset_field(name: &str, value: &str) -> Option<String> {
    let zero = || value.parse::<f64>().is_ok_and(|left| left == 0.0);
    for family in ["x-ratelimit-", "ratelimit-"] {
        if let Some(bucket) = name.strip_prefix(family)
            && let Some(bucket) = bucket.strip_prefix("remaining")
        {
            return zero().then(|| format!("{family}reset{bucket}"));
        }
    }
    if let Some(bucket) = name.strip_prefix("anthropic-ratelimit-") {
        if let Some(bucket) = bucket.strip_suffix("-remaining") {
            return zero().then(|| format!("anthropic-ratelimit-{bucket}-reset"));
        }
        return (bucket == "unified-status" && value == "rejected")
            .then(|| "anthropic-ratelimit-unified-reset".to_owned());
    }
    let window = name
        .strip_prefix("x-codex-")?
        .strip_suffix("-used-percent")?;
    let used_up = value.parse::<f64>().is_ok_and(|percent| percent >= 100.0);
    used_up.then(|| format!("x-codex-{window}-reset-at"))
}

fn in_body(body: &Value, now: UnixTime) -> Option<Duration> {
    // Google's OpenAI-compatible endpoint wraps the object in an array of one.
    let body = body.get(0).unwrap_or(body);
    let error = body
        .get("error")
        .or_else(|| body.get("response")?.get("error"))
        .filter(|error| error.is_object())
        .unwrap_or(body);
    retry_info(error)
        .or_else(|| reset_fields(error, now))
        .or_else(|| headers_within(error, now))
        .or_else(|| messages(body, error).find_map(in_text))
}

/// Google's `RetryInfo`.
fn retry_info(error: &Value) -> Option<Duration> {
    error
        .get("details")?
        .as_array()?
        .iter()
        .find_map(|detail| go_duration(detail.get("retryDelay")?.as_str()?))
}

fn reset_fields(error: &Value, now: UnixTime) -> Option<Duration> {
    let number = |name: &str| error.get(name)?.as_f64();
    number("retry_after_ms")
        .and_then(|ms| positive(ms / 1_000.0))
        .or_else(|| number("retry_after").and_then(positive))
        .or_else(|| number("resets_in_seconds").and_then(positive))
        .or_else(|| moment(&number("resets_at")?.to_string(), now))
}

/// OpenRouter hands on the headers of its rate limit inside the body.
fn headers_within(error: &Value, now: UnixTime) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    for (name, value) in error.get("metadata")?.get("headers")?.as_object()? {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let (Ok(name), Ok(value)) = (
            name.parse::<http::HeaderName>(),
            text.parse::<http::HeaderValue>(),
        ) {
            headers.insert(name, value);
        }
    }
    milliseconds(&headers)
        .or_else(|| retry_after(&headers, now))
        .or_else(|| empty_bucket(&headers, now))
}

/// The texts in which a vendor may name a wait. The rest of a body is not searched: vendors echo
/// prompts there.
fn messages<'a>(body: &'a Value, error: &'a Value) -> impl Iterator<Item = &'a str> {
    let places = [
        error.get("message"),
        error.get("metadata").and_then(|m| m.get("raw")),
        body.get("message"),
        body.get("error"),
        body.get("detail"),
    ];
    places.into_iter().flatten().filter_map(Value::as_str)
}
