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
use whippletree_policies::lint::{Bounds, Call, Fingerprinter, Lint, Place, caching};
use whippletree_providers::envelope::Envelope;
use whippletree_providers::prompt::{Form, Memo, read, read_again};

fn main() {
    let print = Fingerprinter::new(&[7; 32]);
    for (name, form, build) in [
        ("chat", Form::Chat, chat as fn(usize, usize) -> Value),
        ("messages", Form::Messages, messages),
    ] {
        let envelope = Envelope::parse(Bytes::from(build(105_000, 0).to_string())).unwrap();
        let prompt = read(&envelope, form, "m", &print);
        println!(
            "{name}: {} bytes, {} segments",
            envelope.body().len(),
            prompt.segments.len()
        );
        report("  envelope", || {
            black_box(Envelope::parse(envelope.body().clone()).unwrap());
        });
        report("  chain", || {
            black_box(read(&envelope, form, "m", &print));
        });
        let mut memo = Memo::default();
        report("  chain, seen before", || {
            black_box(read_again(&envelope, form, "m", &print, &mut memo));
        });
        observed(name, form, build, &print);
    }
}

/// Conversations that grow by three messages a request up to 105 KB, through one linter.
fn observed(name: &str, form: Form, build: fn(usize, usize) -> Value, print: &Fingerprinter) {
    const CONVERSATIONS: usize = 200;
    let model = if name == "chat" {
        "gpt-4.1"
    } else {
        "claude-sonnet-4-5"
    };
    let rules = caching(model);
    let mut lint = Lint::new(Bounds::default());
    let (mut appended, mut broken) = (Vec::new(), Vec::new());
    let mut number = 0;
    for conversation in 0..CONVERSATIONS {
        for step in 1..41 {
            // Each conversation has questions of its own; every tenth request has a broken head.
            let own = build(18_000 + step * 2_300, conversation).to_string();
            let breaks = step % 10 == 9;
            let own = if breaks {
                own.replacen("step one", "step two", 1)
            } else {
                own
            };
            let envelope = Envelope::parse(Bytes::from(own)).unwrap();
            let prompt = read(&envelope, form, model, print);
            number += 1;
            let call = Call {
                number,
                model,
                caching: &rules,
                card: None,
                task: None,
                place: Place::default(),
            };
            let start = Instant::now();
            black_box(lint.observe(
                &prompt,
                &call,
                whippletree_policies::time::Instant(number * 1_000_000_000),
            ));
            let took = start.elapsed();
            if breaks {
                broken.push(took);
            } else if step > 0 && step % 10 != 0 {
                appended.push(took);
            }
        }
    }
    for (what, times) in [
        ("  observe, appended", &mut appended),
        ("  observe, broken", &mut broken),
    ] {
        times.sort_unstable();
        println!(
            "{what:24} median {:9.2?}   99 % {:9.2?}",
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
    }
    let memory = lint.memory();
    println!(
        "  memory                 {} conversations, {memory} bytes, {} each",
        lint.conversations(),
        memory / lint.conversations() as u64
    );
}

fn report(name: &str, mut run: impl FnMut()) {
    let mut times: Vec<Duration> = (0..3_000)
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

fn chat(size: usize, tag: usize) -> Value {
    let tools: Vec<Value> = (0..14)
        .map(|i| json!({"type": "function", "function": {"name": format!("tool_{i}"), "description": text(800)}}))
        .collect();
    let mut messages =
        vec![json!({"role": "system", "content": format!("This is step one. {}", text(6_000))})];
    let mut length = 18_000;
    while length < size {
        messages.push(
            json!({"role": "user", "content": format!("task {tag}, {length}: {}", text(200))}),
        );
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{length}"),
            "type": "function", "function": {"name": "tool_3", "arguments": json!({"content": text(300)}).to_string()}}]}));
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("c{length}"), "content": format!("{tag} {length} {}", text(1_500))}),
        );
        length += 2_300;
    }
    json!({"model": "gpt-5", "messages": messages, "tools": tools, "stream": true})
}

fn messages(size: usize, tag: usize) -> Value {
    let tools: Vec<Value> = (0..14)
        .map(|i| json!({"name": format!("tool_{i}"), "description": text(800), "input_schema": {}}))
        .collect();
    let mut messages = Vec::new();
    let mut length = 18_000;
    while length < size {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": format!("task {tag}, {length}: {}", text(200))}]}));
        messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": text(100)},
            {"type": "tool_use", "id": format!("c{length}"), "name": "tool_3", "input": {"content": text(300)}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": format!("c{length}"), "content": format!("{tag} {length} {}", text(1_500))}]}));
        length += 2_300;
    }
    messages.push(json!({"role": "user", "content": [
        {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]}));
    json!({"model": "claude-sonnet-4-5", "system": format!("This is step one. {}", text(6_000)), "messages": messages, "tools": tools})
}
