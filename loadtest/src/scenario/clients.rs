//! The clients of a scenario, and what each of them saw.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinSet;

use super::Scenario;
use crate::cases::Seen;
use crate::client::{Answer, Call, Ended};
use crate::clock;

/// At most so many malformed answers are told.
const TOLD: usize = 10;
/// Who leaves sooner may have left before the request was read.
const AT_ONCE: Duration = Duration::from_millis(100);

/// What all clients together saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) whole: u64,
    pub(super) errors: u64,
    pub(super) left: u64,
    /// Those of them that left so early that the gateway may never have seen the request.
    pub(super) left_at_once: u64,
    /// Nanoseconds to the first content of whole streams.
    pub(super) first_content: Vec<u64>,
    /// Answers that were neither whole nor a proper error.
    pub(super) malformed: Vec<String>,
    /// Tokens of output that whole answers reported.
    pub(super) output_tokens: u64,
}

/// What a client had in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Had {
    Error,
    Left,
    Malformed(String),
    Whole,
}

/// Runs the clients until `ends`; each finishes the request it has begun.
pub(super) async fn run(scenario: &Scenario, addr: SocketAddr, ends: Instant) -> Tally {
    let numbers = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for client in 0..scenario.clients {
        let plan = Plan::of(scenario, client);
        clients.spawn(plan.follow(addr, ends, Arc::clone(&numbers)));
    }
    let mut all = Tally::default();
    for part in clients.join_all().await {
        all.sent += part.sent;
        all.whole += part.whole;
        all.errors += part.errors;
        all.left += part.left;
        all.left_at_once += part.left_at_once;
        all.output_tokens += part.output_tokens;
        all.first_content.extend(part.first_content);
        let room = TOLD.saturating_sub(all.malformed.len());
        all.malformed.extend(part.malformed.into_iter().take(room));
    }
    all.first_content.sort_unstable();
    all
}

struct Plan {
    dice: StdRng,
    stream_share: f64,
    leave_share: f64,
    pause: Duration,
    max_tokens: Option<u32>,
}

impl Plan {
    fn of(scenario: &Scenario, client: usize) -> Self {
        Self {
            dice: StdRng::seed_from_u64(client as u64),
            stream_share: scenario.stream_share,
            leave_share: scenario.leave_share,
            pause: Duration::from_millis(scenario.pause_ms),
            max_tokens: scenario.max_tokens,
        }
    }

    async fn follow(mut self, addr: SocketAddr, ends: Instant, numbers: Arc<AtomicU64>) -> Tally {
        let mut tally = Tally::default();
        while clock::now() < ends {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            let streams = self.dice.random::<f64>() < self.stream_share;
            let call = self.call(number, streams);
            let answer = call.send(addr).await;
            tally.sent += 1;
            match had(&answer, streams) {
                Had::Whole => {
                    tally.whole += 1;
                    tally.note(&answer);
                }
                Had::Error => tally.errors += 1,
                Had::Left => {
                    tally.left += 1;
                    tally.left_at_once += u64::from(answer.took() < AT_ONCE);
                }
                Had::Malformed(how) => tally.malformed.push(format!("request {number}: {how}")),
            }
            tokio::time::sleep(self.pause).await;
        }
        tally
    }

    fn call(&mut self, number: u64, streams: bool) -> Call {
        let mut body = json!({"model": "m", "stream": streams,
            "messages": [{"role": "user", "content": format!("request {number}")}]});
        if let (Some(limit), Some(fields)) = (self.max_tokens, body.as_object_mut()) {
            fields.insert("max_tokens".to_owned(), json!(limit));
        }
        let mut call = Call::post("/v1/chat/completions", body.to_string());
        if self.dice.random::<f64>() < self.leave_share {
            call.leave_after = Some(Duration::from_millis(self.dice.random_range(1..600)));
        }
        call
    }
}

impl Tally {
    fn note(&mut self, answer: &Answer) {
        let seen = Seen::of(answer);
        let tokens = seen
            .usage
            .as_ref()
            .and_then(|usage| usage.get("completion_tokens")?.as_u64());
        self.output_tokens += tokens.unwrap_or(0);
        let events = answer.events();
        let content = events.iter().find(|event| {
            let json = event.json();
            json.pointer("/choices/0/delta/content")
                .and_then(|text| text.as_str())
                .is_some_and(|text| !text.is_empty())
        });
        if let Some(first) = content {
            self.first_content
                .push(clock::nanos_between(answer.sent, first.at));
        }
    }
}

fn had(answer: &Answer, streams: bool) -> Had {
    if answer.ended == Ended::Left {
        return Had::Left;
    }
    let seen = Seen::of(answer);
    let told = || {
        // What matters stands at the end.
        let text = answer.text();
        let tail = text.char_indices().rev().nth(400).map_or(0, |(at, _)| at);
        let tail = text.get(tail..).unwrap_or_default();
        Had::Malformed(format!(
            "status {}, ended {:?}: {tail:?}",
            answer.status, answer.ended
        ))
    };

    if answer.ended != Ended::Clean {
        return told();
    }
    if answer.status != 200 {
        let proper = answer.status >= 400 && seen.error.is_some();
        return if proper { Had::Error } else { told() };
    }
    match (&seen.error, &seen.finish_reason) {
        (Some(_), None) if streams && !seen.done && seen.unframed == 0 => Had::Error,
        (None, Some(_)) if seen.done == streams && seen.unframed == 0 => Had::Whole,
        _ => told(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::{End, Reply, Script, Vendor};

    async fn of(reply: Reply, streams: bool) -> Had {
        let vendor = Vendor::start(Script::replies([reply])).await.unwrap();
        had(&Call::post("/", "{}").send(vendor.addr()).await, streams)
    }

    #[tokio::test]
    async fn an_answer_is_whole_an_error_or_malformed() {
        let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
        let stop =
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let done = "data: [DONE]\n\n";
        let error = "data: {\"error\":{\"message\":\"broke\"}}\n\n";
        assert_eq!(
            of(Reply::events([text, stop, done]), true).await,
            Had::Whole
        );
        assert_eq!(of(Reply::events([text, error]), true).await, Had::Error);
        assert_eq!(
            of(Reply::json(503, json!({"error": {"message": "m"}})), true).await,
            Had::Error
        );
        assert_eq!(of(Reply::stub("openai_ok"), false).await, Had::Whole);
        for broken in [
            Reply::events([text, stop]),
            Reply::events([text, error, done]),
            Reply::events([text, stop, done]).ending(End::Cut),
            Reply::json(503, json!("sorry")),
            Reply::none(End::Reset),
        ] {
            assert!(matches!(of(broken, true).await, Had::Malformed(_)));
        }
    }
}
