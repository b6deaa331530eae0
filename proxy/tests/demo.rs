//! The demo as a newcomer runs it: what it tells holds, reads well, and leaves nothing behind.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use whippletree_policies::units::{Money, MoneySum};

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whippletree"));
    command.arg("demo").args(arguments).stdin(Stdio::null());
    command
}

const FREE: [&str; 4] = ["--port", "0", "--admin-port", "0"];

/// What a demo prints to its end, which must be a good one.
fn told(arguments: &[&str]) -> String {
    let output = demo(&FREE).arg("--once").args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
    String::from_utf8(output.stdout).unwrap()
}

/// A demo that runs, and what it tells as it comes.
struct Running {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut process = demo(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// The next line.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended");
        line
    }

    /// Reads on to this fact.
    fn fact(&mut self, name: &str) -> Value {
        loop {
            let fact: Value = serde_json::from_str(&self.line()).unwrap();
            if fact["fact"] == name {
                return fact;
            }
        }
    }

    fn interrupt(&mut self) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "INT", &pid]).status();
        assert!(sent.unwrap().success());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The story's facts.
struct Story(Vec<Value>);

impl Story {
    fn one(&self, fact: &str) -> &Value {
        self.0.iter().find(|told| told["fact"] == fact).unwrap()
    }

    fn all(&self, about: &str) -> Vec<&Value> {
        let found = self.0.iter().filter(|told| told["about"] == about);
        found.collect()
    }

    /// What is told of the one call that this is about.
    fn call(&self, about: &str) -> &Value {
        let all = self.all(about);
        assert_eq!(all.len(), 1, "{about}");
        all[0]
    }
}

/// One field of all attempts.
fn attempts(told: &Value, field: &str) -> Vec<Value> {
    let attempts = told["exchange"]["attempts"].as_array().unwrap();
    attempts.iter().map(|a| a[field].clone()).collect()
}

fn money(value: &Value) -> Money {
    value.as_str().unwrap().parse().unwrap()
}

fn sum<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut sum = MoneySum::ZERO;
    for value in values {
        sum.add(money(value));
    }
    sum.to_string()
}

#[test]
fn what_the_story_tells_holds() {
    let told = told(&["--json"]);
    let facts = told.lines().map(|line| serde_json::from_str(line).unwrap());
    let story = Story(facts.collect());
    let acts: Vec<_> = (1..=6)
        .filter(|act| story.0.iter().any(|told| told["act"] == *act))
        .collect();
    assert_eq!(acts, [1, 2, 3, 4, 5, 6]);

    let work = story.all("work");
    assert_eq!(work.len(), 6);
    for (index, call) in work.iter().enumerate() {
        let exchange = &call["exchange"];
        assert_eq!(exchange["outcome"], "ok");
        assert_eq!(exchange["stream"], index >= 3);
        assert_eq!(call["client"]["done"], index >= 3);
        assert_eq!(
            call["client"]["tools"].as_array().unwrap().len(),
            usize::from(index % 3 < 2)
        );
        assert!(money(&exchange["cost_usd"]) > Money::ZERO);
        let cached = exchange["usage"]["cache_read_tokens"].as_u64().unwrap();
        assert_eq!(cached > 0, index > 0, "{exchange}");
    }

    let busy = story.call("overloaded");
    assert_eq!(attempts(busy, "class"), [json!("overloaded"), json!(null)]);
    assert_eq!(attempts(busy, "status"), [503, 200]);
    let limited = story.call("rate_limited");
    assert_eq!(
        attempts(limited, "class"),
        [json!("rate_limited"), json!(null)]
    );
    assert!(attempts(limited, "waited_ms")[1].as_f64().unwrap() >= 1000.0);
    let keyed = story.call("rate_limited_key");
    assert_eq!(attempts(keyed, "key"), [0, 1]);
    assert_eq!(attempts(keyed, "waited_ms"), [0.0, 0.0]);

    let before = story.call("broken_before");
    let classes = attempts(before, "class");
    assert_eq!(
        classes,
        [
            json!("stream_interrupted"),
            json!("stream_interrupted"),
            json!(null)
        ]
    );
    assert_eq!(before["exchange"]["fallback"], true);
    assert_eq!(
        (&before["client"]["done"], &before["client"]["error"]),
        (&json!(true), &json!(null))
    );
    let behind = story.call("broken_behind");
    assert_eq!(behind["exchange"]["outcome"], "interrupted");
    assert_eq!(behind["client"]["error"]["code"], "stream_interrupted");
    assert_eq!(behind["client"]["done"], false);
    assert_eq!(behind["exchange"]["usage"]["estimated"], true);

    let quota = story.call("quota_exhausted");
    assert_eq!(
        attempts(quota, "class"),
        [json!("quota_exhausted"), json!(null)]
    );
    let keys = story.one("keys")["keys"].as_array().unwrap();
    assert!(keys.iter().any(|key| key["locked"] == "quota_exhausted"));
    assert!(keys.iter().any(|key| key["cooling_until"].is_i64()));
    let overflow = story.call("context_overflow");
    assert_eq!(attempts(overflow, "class"), ["context_overflow"]);
    assert_eq!(overflow["client"]["status"], 400);
    assert_eq!(
        overflow["client"]["error"]["code"],
        "context_length_exceeded"
    );
    assert_eq!(overflow["client"]["should_retry"], "false");
    assert_eq!(story.call("compacted")["exchange"]["outcome"], "ok");

    let gone = &story.call("client_gone")["exchange"];
    assert_eq!(gone["outcome"], "client_gone");
    assert_eq!(gone["usage"]["estimated"], true);
    assert!(money(&gone["cost_usd"]) > Money::ZERO);
    let cancelled = story.one("cancelled");
    assert!(cancelled["tokens_settled"].as_u64() < cancelled["tokens_planned"].as_u64());

    for told in story.0.iter().filter(|told| told["fact"] == "exchange") {
        let parts = attempts(told, "cost_usd");
        assert_eq!(sum(&parts), told["exchange"]["cost_usd"]);
    }
    let books = story.one("books");
    let rows = books["usage"]["rows"].as_array().unwrap();
    assert_eq!(
        sum(rows.iter().map(|row| &row["cost_usd"])),
        books["spent_usd"]
    );
    assert_eq!(books["spent_usd"], books["ledger_usd"]);
    assert!(books["metrics_series"].as_u64() > Some(0));

    let ledger = story.one("started")["ledger"].as_str().unwrap();
    assert!(!Path::new(ledger).parent().unwrap().exists());
}

#[test]
fn the_story_reads_well() {
    let mut running = Running::start(&[&FREE[..], &["--show-config"]].concat());
    let mut text = String::new();
    while !text.contains("until Ctrl-C") {
        text.push_str(&running.line());
    }
    running.interrupt();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
    insta::assert_snapshot!(masked(&text));
}

/// Numbers, addresses and other chance replaced, and paragraphs in one line: where they break
/// depends on the numbers in them.
fn masked(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut in_paragraph = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<_> = line.split_whitespace().map(masked_word).collect();
        let words = words.join(" ");
        let paragraph = indent == 3;
        match lines.last_mut() {
            Some(last) if paragraph && in_paragraph => {
                last.push(' ');
                last.push_str(&words);
            }
            _ => lines.push(format!("{}{words}", " ".repeat(indent.min(5)))),
        }
        in_paragraph = paragraph;
    }
    lines.join("\n")
}

fn masked_word(word: &str) -> String {
    if word.contains("sk-wt-") {
        return "KEY".to_owned();
    }
    if word.contains("whippletree-demo-") {
        return "PATH".to_owned();
    }
    if word.len() > 64 {
        return "HASH".to_owned();
    }
    let word = word.replace("127.0.0.1", "HOST");
    // Names keep their digits.
    if word.contains("gpt-") || word == "/v1" || word.contains("gamma-") {
        return word;
    }
    let mut masked = String::new();
    let mut rest = word.chars().peekable();
    while let Some(letter) = rest.next() {
        if !letter.is_ascii_digit() {
            masked.push(letter);
            continue;
        }
        masked.push('#');
        while let Some(next) = rest.peek().copied() {
            let mut ahead = rest.clone();
            ahead.next();
            let inside = ",.".contains(next) && ahead.peek().is_some_and(char::is_ascii_digit);
            if !next.is_ascii_digit() && !inside {
                break;
            }
            rest.next();
        }
    }
    masked
}

#[test]
fn the_gateway_stays_up_until_it_is_interrupted_and_leaves_nothing_behind() {
    let mut running = Running::start(&[&FREE[..], &["--json"]].concat());
    let started = running.fact("started");
    running.fact("up");
    let base_url = started["base_url"].as_str().unwrap();
    let host = base_url
        .trim_start_matches("http://")
        .trim_end_matches("/v1");
    let body = json!({ "model": "coder", "messages": [{ "role": "user", "content": "Hello" }] });
    let body = body.to_string();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        started["key"].as_str().unwrap(),
        body.len(),
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("\r\nx-wt-cost-usd: "), "{answer}");

    let directory = Path::new(started["ledger"].as_str().unwrap())
        .parent()
        .unwrap();
    assert!(directory.exists());
    running.interrupt();
    assert!(!directory.exists());
    assert!(TcpStream::connect(host).is_err());
}

#[test]
fn a_usual_port_that_is_taken_is_replaced_and_that_is_said() {
    // Whoever has it: it is taken.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let mut running = Running::start(&["--admin-port", "0", "--json"]);
    let started = running.fact("started");
    assert!(
        started["notes"][0].as_str().unwrap().contains("8080"),
        "{started}"
    );
    assert!(
        !started["base_url"].as_str().unwrap().contains(":8080/"),
        "{started}"
    );
    running.interrupt();
}

#[test]
fn what_cannot_be_had_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, b"");
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&mut demo(&["--once", "--port", &port, "--admin-port", "0"]));
    assert_eq!(
        error.replace(&port, "PORT"),
        "error: 127.0.0.1:PORT is in use; choose another port, or 0 for a free one\n"
    );
    let error = refused(demo(&["--once"]).env("TMPDIR", "/nowhere"));
    assert!(
        error.starts_with("error: cannot make a directory in /nowhere: "),
        "{error}"
    );
}
