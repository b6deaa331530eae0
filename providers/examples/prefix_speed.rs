//! How long it takes to cut a large agent request into its chain.
//!
//! `cargo run --release -p whippletree-providers --example prefix_speed`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement for people to read, no part of the product"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use whippletree_policies::lint::Fingerprinter;
use whippletree_providers::envelope::Envelope;
use whippletree_providers::prompt::{Form, read};

fn main() {
    let print = Fingerprinter::new(&[7; 32]);
    for (name, form, body) in [
        ("chat", Form::Chat, chat(105_000)),
        ("messages", Form::Messages, messages(105_000)),
    ] {
        let envelope = Envelope::parse(Bytes::from(body.to_string())).unwrap();
        let prompt = read(&envelope, form, "m", &print);
        println!(
            "{name}: {} bytes, {} segments",
            envelope.body().len(),
            prompt.segments.len()
        );
        report("  envelope", || {
            black_box(Envelope::parse(envelope.body().clone()).unwrap());
        });
        report("  hash whole", || {
            black_box(print.of(0, envelope.body()));
        });
        report("  hash parts", || {
            for s in &prompt.segments {
                black_box(print.of(0, s.text(prompt.body)));
            }
        });
        report("  chain", || {
            black_box(read(&envelope, form, "m", &print));
        });
    }
}

fn report(name: &str, run: impl Fn()) {
    let mut times: Vec<Duration> = (0..60_000)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!(
        "{name:24} median {:9.2?}   best {:9.2?}",
        times[times.len() / 2],
        times[0]
    );
}

fn text(length: usize) -> String {
    const LINE: &str = "the \"provider\" returns self.poll(0x1f) from src/lib.rs\n";
    LINE.chars().cycle().take(length).collect()
}

fn chat(size: usize) -> Value {
    let tools: Vec<Value> = (0..14)
        .map(|i| json!({"type": "function", "function": {"name": format!("tool_{i}"), "description": text(800)}}))
        .collect();
    let mut messages = vec![json!({"role": "system", "content": text(6_000)})];
    let mut length = 18_000;
    while length < size {
        messages.push(json!({"role": "user", "content": text(200)}));
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{length}"),
            "type": "function", "function": {"name": "tool_3", "arguments": json!({"content": text(300)}).to_string()}}]}));
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("c{length}"), "content": text(1_500)}),
        );
        length += 2_300;
    }
    json!({"model": "gpt-5", "messages": messages, "tools": tools, "stream": true})
}

fn messages(size: usize) -> Value {
    let tools: Vec<Value> = (0..14)
        .map(|i| json!({"name": format!("tool_{i}"), "description": text(800), "input_schema": {}}))
        .collect();
    let mut messages = Vec::new();
    let mut length = 18_000;
    while length < size {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": text(200)}]}));
        messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": text(100)},
            {"type": "tool_use", "id": format!("c{length}"), "name": "tool_3", "input": {"content": text(300)}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": format!("c{length}"), "content": text(1_500)}]}));
        length += 2_300;
    }
    messages.push(json!({"role": "user", "content": [
        {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]}));
    json!({"model": "claude-sonnet-4-5", "system": text(6_000), "messages": messages, "tools": tools})
}
