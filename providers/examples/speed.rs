//! How long one pass over a large agent request takes, beside what `serde_json` needs for less, and how
//! long an event of a stream takes to frame and to understand.
//!
//! `cargo run --release -p whippletree-providers --example speed`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::naive_bytecount,
    clippy::unwrap_used,
    reason = "a measurement for people to read, no part of the product"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use whippletree_policies::time::UnixTime;
use whippletree_providers::envelope::{Edits, Envelope};
use whippletree_providers::provider::Api;
use whippletree_providers::registry::provider;
use whippletree_providers::sse::Framer;

fn main() {
    let body = Bytes::from(agent_body(107_000).to_string());
    let escapes = body.iter().filter(|&&b| b == b'\\').count();
    println!(
        "{} bytes, an escape every {}",
        body.len(),
        body.len() / escapes
    );
    report("envelope", &body, |b| {
        black_box(Envelope::parse(b.clone()).unwrap());
    });
    let envelope = Envelope::parse(body.clone()).unwrap();
    report("model and usage edits", &body, |_| {
        let mut edits = Edits::default();
        edits.set_model(&envelope, "another");
        edits.ask_for_usage(&envelope);
        black_box(edits.apply(&envelope));
    });
    report("utf-8 check alone", &body, |b| {
        black_box(simdutf8::basic::from_utf8(b).unwrap());
    });
    report("serde_json RawValue", &body, |b| {
        black_box(serde_json::from_slice::<&RawValue>(b).unwrap());
    });
    report("serde_json Value", &body, |b| {
        black_box(serde_json::from_slice::<Value>(b).unwrap());
    });
    let stream = Bytes::from(chat_stream(1_000));
    report("frame 1000 events", &stream, |s| {
        let mut framer = Framer::default();
        framer.push(s.clone());
        while let Some(frame) = framer.next_frame().unwrap() {
            black_box(frame);
        }
    });
    report("frame and decode them", &stream, |s| {
        let mut framer = Framer::default();
        let vendor = provider("openai").unwrap();
        let mut decoder = vendor.stream_decoder(Api::Chat).unwrap();
        framer.push(s.clone());
        while let Some(frame) = framer.next_frame().unwrap() {
            black_box(decoder.read(&frame, UnixTime(0)));
        }
    });
}

fn chat_stream(events: usize) -> String {
    let event = |i: usize| {
        format!(
            "data: {{\"id\":\"chatcmpl-BG7OTM3ub2HDuZ1PCj137Me5EGRPt\",\"object\":\"chat.completion.chunk\",\"created\":1743181369,\"model\":\"gpt-5\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_8bde45cba6\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word {i}\"}},\"logprobs\":null,\"finish_reason\":null}}],\"usage\":null,\"obfuscation\":\"a8Kz\"}}\n\n"
        )
    };
    (0..events).map(event).collect::<Vec<_>>().concat()
}

fn report(name: &str, body: &Bytes, run: impl Fn(&Bytes)) {
    let mut times: Vec<Duration> = (0..3_000)
        .map(|_| {
            let start = Instant::now();
            run(body);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let (best, median) = (times[0], times[times.len() / 2]);
    println!("{name:24} median {median:9.2?}   best {best:9.2?}");
}

/// A conversation of an agent with tools, file contents and quoted text, of about `size` bytes.
fn agent_body(size: usize) -> Value {
    const WORDS: [&str; 12] = [
        "request",
        "provider",
        "stream",
        "returns",
        "budget",
        "\"quoted\"",
        "self.poll",
        "retry",
        "0x1f",
        "src/lib.rs",
        "match",
        "token",
    ];
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut text = move |length: usize| {
        let mut text = String::new();
        while text.len() < length {
            for _ in 0..3 + random(6) {
                text.push_str(WORDS[random(WORDS.len())]);
                text.push(' ');
            }
            text.push('\n');
        }
        text
    };
    let tools: Vec<Value> = (0..14)
        .map(|i| {
            json!({"type": "function", "function": {"name": format!("tool_{i}"),
                "description": text(600), "parameters": {"type": "object", "required": ["path"],
                "properties": {"path": {"type": "string", "description": text(60)},
                    "content": {"type": "string", "description": text(60)}}}}})
        })
        .collect();
    let mut messages = vec![json!({"role": "system", "content": text(6_000)})];
    let mut length = 18_000;
    while length < size {
        let id = format!("call_{length}");
        let arguments = json!({"path": "src/x.rs", "content": text(300)}).to_string();
        messages.push(json!({"role": "user", "content": text(200)}));
        messages.push(
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id,
            "type": "function", "function": {"name": "tool_3", "arguments": arguments}}]}),
        );
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text(2_500)}));
        length += 3_480;
    }
    json!({"model": "gpt-5", "messages": messages, "tools": tools, "stream": true,
        "max_completion_tokens": 4096, "temperature": 0.7})
}
