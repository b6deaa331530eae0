//! Recorded traffic of every vendor that speaks OpenAI's dialect, read where it lies.
//!
//! What is expected is computed here a second time and in another way: usage by a table of what each
//! vendor documents, failures by a table written by hand. The report says for each vendor what passed
//! and what did not apply, and why: `cargo test -p whippletree-providers --test conformance -- --nocapture`

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

mod expected;
mod recordings;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;
use whippletree_policies::usage::Usage;
use whippletree_providers::decoder::{Event, Kind, Progress, Verdict};
use whippletree_providers::envelope::{Edits, Envelope, Fault};
use whippletree_providers::openai::stream;
use whippletree_providers::provider::{Api, Provider, UsageChunk};
use whippletree_providers::registry::provider;
use whippletree_providers::sse::{Frame, Framer};

use self::recordings::{Recording, recordings};

const NOW: UnixTime = UnixTime(1_796_040_000_000);

/// What came of one exchange.
enum Tested {
    Pass(&'static str),
    NotApplicable(&'static str),
}

#[test]
fn every_recorded_exchange_is_read_as_expected() {
    let mut report: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut faults = Vec::new();
    let mut failures_seen = Vec::new();
    for recording in recordings() {
        let Some((vendor, api)) = dialect_of(&recording) else {
            continue;
        };
        let name = format!("{} {}", recording.vendor, recording.id);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&recording, vendor, api)
        }));
        match result {
            Ok(tested) => {
                let line = match tested {
                    Tested::Pass(what) => format!("pass: {what}"),
                    Tested::NotApplicable(why) => format!("not applicable: {why}"),
                };
                *report.entry((recording.vendor.clone(), line)).or_default() += 1;
            }
            Err(_) => faults.push(name),
        }
        if expected::failure(&recording.id).is_some() {
            failures_seen.push(recording.id.clone());
        }
    }
    for ((vendor, line), count) in &report {
        println!("{vendor:18} {count:4} {line}");
    }
    let total: usize = report.values().sum();
    println!("{total} exchanges, {} faults", faults.len());
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(total > 1_000, "the recordings are not all there: {total}");
    assert_eq!(failures_seen.len(), expected::FAILURES.len());
}

/// Which provider row and API an exchange belongs to; none for other dialects.
fn dialect_of(recording: &Recording) -> Option<(&'static dyn Provider, Api)> {
    let body = recording.response_body.as_deref().unwrap_or_default();
    let api = match recording.endpoint.as_str() {
        // One recording was filed under another path than its body belongs to.
        "responses" if body.contains("\"object\": \"chat.completion\"") => Api::Chat,
        "chat.completions" => Api::Chat,
        "completions(legacy)" | "completions" => Api::Completions,
        "responses" => Api::Responses,
        "embeddings" => Api::Embeddings,
        _ => return None,
    };
    let kind = match (recording.vendor.as_str(), api) {
        ("alibaba", _) => "qwen",
        ("gemini", Api::Chat) => "gemini-openai",
        ("ollama-cloud" | "ollama-local", _) => "ollama",
        ("openai-codex", _) => "openai",
        ("zai", _) => "zhipu",
        (
            "anthropic" | "bedrock" | "heroku" | "meta-llama-api" | "opencode-zen"
            | "pydantic-gateway" | "replicate" | "voyage" | "writer",
            Api::Chat | Api::Responses,
        ) => "openai-compatible",
        (other, _) => provider(other)?.kind(),
    };
    Some((provider(kind)?, api))
}

/// A row's base URL and paths are those at which its vendor was reached.
#[test]
fn every_row_points_where_its_vendor_was_reached() {
    let mut checked = std::collections::BTreeSet::new();
    for recording in recordings() {
        let Some((vendor, api)) = dialect_of(&recording) else {
            continue;
        };
        // Azure's base is the tenant's own; a deployment's name is in the path.
        let base = vendor
            .base_url()
            .unwrap_or("https://tenant.openai.azure.com");
        let known = recording.host.as_str();
        if !base.contains(&format!("//{known}")) {
            continue;
        }
        let path = recording.path.split('?').next().unwrap();
        let model = path
            .split_once("/deployments/")
            .and_then(|(_, rest)| rest.split('/').next())
            .unwrap_or("m");
        let base = match path.split_once("/openai/v1/") {
            Some(("", _)) if vendor.kind() == "azure" => format!("{base}/openai/v1"),
            _ => base.to_owned(),
        };
        let url = vendor.url(&base, api, model);
        let url = url.split('?').next().unwrap();
        if url == format!("https://{known}{path}") {
            checked.insert((vendor.kind(), api));
        }
    }
    let kinds: Vec<String> = checked
        .iter()
        .map(|(kind, api)| format!("{kind}/{api}"))
        .collect();
    println!("{kinds:?}");
    for expected in [
        "azure/chat",
        "azure/responses",
        "cerebras/chat",
        "deepseek/chat",
        "groq/chat",
        "mistral/chat",
        "openai/chat",
        "openai/completions",
        "openai/embeddings",
        "openai/responses",
        "openrouter/chat",
        "perplexity/chat",
        "xai/chat",
        "xai/responses",
    ] {
        assert!(kinds.iter().any(|kind| kind == expected), "{expected}");
    }
}

fn check(recording: &Recording, vendor: &'static dyn Provider, api: Api) -> Tested {
    if let Some(body) = &recording.request_body {
        check_request(body, vendor, api);
    }
    let Some(body) = &recording.response_body else {
        return Tested::NotApplicable("the body is binary");
    };
    if let Some((class, wait_ms)) = expected::failure(&recording.id) {
        check_failure(recording, vendor, api, body, class, wait_ms);
        return Tested::Pass("failure");
    }
    assert!(
        recording.status < 400,
        "no expectation: {} {:?}",
        recording.id,
        {
            let status = StatusCode::from_u16(recording.status).unwrap();
            vendor.failure(status, &recording.response_headers, body.as_bytes(), NOW)
        }
    );
    if recording.streaming {
        check_stream(recording, vendor, api, body)
    } else {
        check_whole(recording, vendor, api, body)
    }
}

/// The envelope reads what `serde_json` reads, and an edit changes what it names and nothing else.
fn check_request(text: &str, vendor: &dyn Provider, api: Api) {
    let body = Bytes::copy_from_slice(text.as_bytes());
    let Ok(mut value) = serde_json::from_str::<Value>(text) else {
        assert!(Envelope::parse(body).is_err());
        return;
    };
    let envelope = match Envelope::parse(body.clone()) {
        Ok(envelope) => envelope,
        // A client's mistake on purpose, which the vendor refused too.
        Err(error) if value["max_tokens"] == -1 => {
            assert!(matches!(error.fault, Fault::Type { .. }));
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(Edits::default().apply(&envelope).to_bytes(), body);
    assert_eq!(envelope.model(), value["model"].as_str());
    assert_eq!(envelope.stream(), value["stream"] == Value::Bool(true));
    for list in ["messages", "input", "tools"] {
        let length = value[list].as_array().map_or(0, Vec::len);
        assert_eq!(envelope.items(list).len(), length);
    }

    let mut edits = Edits::default();
    let chunk = vendor.prepare(api, &envelope, "another/model", &mut edits);
    let after: Value = serde_json::from_slice(&edits.apply(&envelope).to_bytes()).unwrap();
    value["model"] = "another/model".into();
    let asks = after["stream_options"]["include_usage"] == Value::Bool(true);
    let asked = value["stream_options"]["include_usage"] == Value::Bool(true);
    assert_eq!(chunk == UsageChunk::Remove, asks && !asked);
    let (mut before, mut after) = (value, after);
    for value in [&mut before, &mut after] {
        value.as_object_mut().unwrap().remove("stream_options");
    }
    assert_eq!(before, after);
}

fn check_failure(
    recording: &Recording,
    vendor: &dyn Provider,
    api: Api,
    body: &str,
    class: Class,
    wait_ms: Option<u64>,
) {
    let failure = if recording.streaming && recording.status < 400 {
        let (_, _, verdict) = read_stream(vendor, api, &frames(&[body.as_bytes()]));
        let Verdict::Failed(failure) = verdict else {
            panic!("{verdict:?}");
        };
        *failure
    } else {
        let status = StatusCode::from_u16(recording.status).unwrap();
        vendor.failure(status, &recording.response_headers, body.as_bytes(), NOW)
    };
    assert_eq!(failure.class, class);
    assert_eq!(
        failure.wait.map(|wait| wait.as_millis()),
        wait_ms.map(u128::from)
    );
}

fn check_whole(recording: &Recording, vendor: &dyn Provider, api: Api, body: &str) -> Tested {
    let status = StatusCode::from_u16(recording.status).unwrap();
    let answer = vendor.answer(
        api,
        status,
        &recording.response_headers,
        body.as_bytes(),
        NOW,
    );
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        assert_eq!(answer.verdict, Verdict::Malformed);
        return Tested::NotApplicable("the recorded body is no JSON; found to be malformed");
    };
    if !expected::is_answer(&value) {
        assert!(matches!(
            answer.verdict,
            Verdict::Failed(_) | Verdict::Malformed
        ));
        return Tested::NotApplicable("the recorded body is of another service; refused");
    }
    let expected = expected::usage(&recording.vendor, &value["usage"]);
    assert_usage(answer.progress.usage, expected);
    let calls = tool_calls(&answer.progress);
    assert_eq!(calls, expected::tool_calls(&value));
    match &answer.verdict {
        Verdict::Complete => Tested::Pass("whole answer"),
        Verdict::Empty if expected::is_empty(&value) => Tested::Pass("whole answer, empty"),
        other => panic!("{other:?}"),
    }
}

fn check_stream(recording: &Recording, vendor: &dyn Provider, api: Api, body: &str) -> Tested {
    let bytes = body.as_bytes();
    let whole = frames(&[bytes]);
    if body.matches("\"type\":\"response.created\"").count() > 1 {
        return Tested::NotApplicable("several streams in one recording");
    }
    for size in [1, 2, 3, 7, 61] {
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(frames(&chunks), whole, "cut every {size} bytes");
    }
    let raw: Vec<u8> = whole
        .iter()
        .flat_map(|frame| frame.raw().to_vec())
        .collect();
    assert_eq!(raw, bytes);

    let (events, progress, verdict) = read_stream(vendor, api, &whole);
    let broken = |data: &Bytes| data != "[DONE]" && serde_json::from_slice::<Value>(data).is_err();
    if whole.iter().filter_map(Frame::data).any(broken) {
        assert_eq!(verdict, Verdict::Malformed);
        return Tested::NotApplicable("a recorded event is no JSON; found to be malformed");
    }
    let data: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect();
    let usage = data.iter().filter_map(expected::usage_of_event).next_back();
    let expected_usage = usage.and_then(|usage| expected::usage(&recording.vendor, usage));
    assert_usage(progress.usage, expected_usage);
    assert_eq!(tool_calls(&progress), expected::streamed_tool_calls(&data));
    for (event, frame) in events.iter().zip(&whole) {
        let read = !matches!(event.kind, Kind::Unknown | Kind::Malformed);
        assert!(read, "{:?}: {:?}", event.kind, frame.raw());
        if event.finish.is_some() && api == Api::Chat {
            let length = stream::with_finish_reason(frame, "length").unwrap();
            assert!(
                String::from_utf8(length.to_vec())
                    .unwrap()
                    .contains("\"length\"")
            );
        }
    }
    match verdict {
        Verdict::Complete => Tested::Pass("stream"),
        Verdict::Empty if expected::is_empty_stream(&data) => Tested::Pass("stream, empty"),
        Verdict::Cut(_) if !expected::is_ended(body) => {
            Tested::NotApplicable("the recording ends early; found to be cut")
        }
        other => panic!("no expectation: {} {other:?}", recording.id),
    }
}

fn frames(chunks: &[&[u8]]) -> Vec<Frame> {
    let mut framer = Framer::default();
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = framer.next_frame().unwrap() {
            frames.push(frame);
        }
    }
    while let Some(frame) = framer.finish().unwrap() {
        frames.push(frame);
    }
    frames
}

fn read_stream(
    vendor: &dyn Provider,
    api: Api,
    frames: &[Frame],
) -> (Vec<Event>, Progress, Verdict) {
    let mut decoder = vendor.stream_decoder(api).unwrap();
    let events = frames
        .iter()
        .map(|frame| decoder.read(frame, NOW))
        .collect();
    (events, decoder.progress().clone(), decoder.verdict())
}

fn assert_usage(got: Option<Usage>, expected: Option<Usage>) {
    assert_eq!(got, expected);
    if let Some(usage) = got {
        let parts = [usage.cache_read, usage.cache_write_5m, usage.cache_write_1h];
        let parts: u64 = parts.into_iter().flatten().map(|tokens| tokens.0).sum();
        assert!(parts <= usage.input.0 && usage.reasoning.unwrap_or_default() <= usage.output);
    }
}

fn tool_calls(progress: &Progress) -> Vec<(String, String)> {
    let calls = progress.tool_calls.iter();
    calls
        .map(|call| (call.name.clone(), call.arguments.clone()))
        .collect()
}
