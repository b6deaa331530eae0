//! Faults by chance, the same ones for the same seed.
//!
//! A script of replies shows one fault at a time; a gateway that runs for hours meets them mixed.
//! Each request draws one fault or none from fixed odds. The draw depends on the seed and on the
//! request's number alone, so a run can be repeated.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Deserialize;
use serde_json::json;

use super::script::{End, Reply, Write};

/// The odds of each fault, as shares of all requests; what is left is answered properly.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chaos {
    /// Makes the draws repeatable.
    pub seed: u64,
    /// The connection is reset without an answer.
    pub reset: f64,
    /// The request is read and never answered.
    pub silent: f64,
    /// 500 with an error body.
    pub error: f64,
    /// 503 with an error body, 529 in Anthropic's dialect.
    pub overloaded: f64,
    /// 429 with `retry-after: 1`.
    pub rate_limited: f64,
    /// 200 with bytes that are neither JSON nor events.
    pub garbage: f64,
    /// The body is cut at a random place.
    pub cut: f64,
    /// The connection is reset at a random place of the body.
    pub reset_midway: f64,
    /// The body stops at a random place and the connection stays open.
    pub stall: f64,
    /// The answer comes two seconds late.
    pub slow: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Cut,
    Error,
    Garbage,
    Overloaded,
    RateLimited,
    Reset,
    ResetMidway,
    Silent,
    Slow,
    Stall,
}

impl Chaos {
    /// The answer to the `number`th request, spoilt or not; errors are in Anthropic's shape or
    /// OpenAI's.
    pub(super) fn spoil(&self, number: u64, anthropic: bool, reply: Reply) -> Reply {
        let mut dice =
            StdRng::seed_from_u64(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let Some(fault) = self.draw(dice.random::<f64>()) else {
            return reply;
        };
        let error = |kind: &str| {
            let message = format!("{kind} by chance");
            if anthropic {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            } else {
                json!({"error": {"message": message, "type": kind, "code": null}})
            }
        };
        match fault {
            Fault::Reset => Reply::none(End::Reset),
            Fault::Silent => Reply::none(End::Hang),
            Fault::Error if anthropic => Reply::json(500, error("api_error")),
            Fault::Error => Reply::json(500, error("server_error")),
            Fault::Overloaded if anthropic => Reply::json(529, error("overloaded_error")),
            Fault::Overloaded => Reply::json(503, error("overloaded_error")),
            Fault::RateLimited => {
                Reply::json(429, error("rate_limit_error")).header("retry-after", "1")
            }
            Fault::Garbage => Reply {
                text: Some("\u{0}\u{1}<<< not what you asked for >>>\n".to_owned()),
                writes: None,
                body: None,
                ..reply
            },
            Fault::Cut => broken(reply, End::Cut, dice.random::<f64>()),
            Fault::ResetMidway => broken(reply, End::Reset, dice.random::<f64>()),
            Fault::Stall => broken(reply, End::Hang, dice.random::<f64>()),
            Fault::Slow => Reply {
                sleep_ms: reply.sleep_ms + 2_000,
                ..reply
            },
        }
    }

    fn draw(&self, mut dice: f64) -> Option<Fault> {
        let odds = [
            (self.reset, Fault::Reset),
            (self.silent, Fault::Silent),
            (self.error, Fault::Error),
            (self.overloaded, Fault::Overloaded),
            (self.rate_limited, Fault::RateLimited),
            (self.garbage, Fault::Garbage),
            (self.cut, Fault::Cut),
            (self.reset_midway, Fault::ResetMidway),
            (self.stall, Fault::Stall),
            (self.slow, Fault::Slow),
        ];
        odds.into_iter().find_map(|(share, fault)| {
            dice -= share;
            (dice < 0.0).then_some(fault)
        })
    }
}

/// The first part of an answer, then this end. A whole body is cut inside its bytes; a stream
/// between two writes or inside one.
fn broken(mut reply: Reply, end: End, at: f64) -> Reply {
    reply.end = end;
    if let Some(body) = reply.body.take() {
        reply.writes = Some(vec![Write::Text(body.to_string())]);
    }
    let writes = reply.writes.take().unwrap_or_default();
    let place = at * cast(writes.len());
    let mut kept = Vec::new();
    for (index, write) in writes.into_iter().enumerate() {
        let left = place - cast(index);
        if left <= 0.0 {
            break;
        }
        kept.push(if left < 1.0 {
            shortened(write, left)
        } else {
            write
        });
    }
    reply.writes = Some(kept);
    reply
}

fn shortened(write: Write, share: f64) -> Write {
    let Write::Text(text) = write else {
        return write;
    };
    let wanted = share * cast(text.len());
    let end = text
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| cast(*at) <= wanted)
        .last();
    Write::Text(text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "lengths of bodies, far below 2^52"
)]
fn cast(length: usize) -> f64 {
    length as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odds_come_true_and_the_draws_repeat() {
        let chaos = Chaos {
            seed: 7,
            reset: 0.1,
            cut: 0.2,
            ..Chaos::default()
        };
        let ends = || -> Vec<End> {
            (0..10_000)
                .map(|number| chaos.spoil(number, false, Reply::events(["a", "b"])).end)
                .collect()
        };
        let drawn = ends();
        let share = |end| drawn.iter().filter(|drawn| **drawn == end).count();
        assert!(
            (800..1_200).contains(&share(End::Reset)),
            "{}",
            share(End::Reset)
        );
        assert!(
            (1_800..2_200).contains(&share(End::Cut)),
            "{}",
            share(End::Cut)
        );
        assert_eq!(drawn, ends());
    }

    #[test]
    fn an_error_has_the_shape_of_the_dialect() {
        let chaos = Chaos {
            overloaded: 1.0,
            ..Chaos::default()
        };
        let spoilt = |anthropic| chaos.spoil(1, anthropic, Reply::events(["a"]));
        assert_eq!(spoilt(false).status, 503);
        let reply = spoilt(true);
        assert_eq!(reply.status, 529);
        let body = reply.body.unwrap_or_default();
        assert_eq!(body.get("type"), Some(&json!("error")));
        assert_eq!(
            body.pointer("/error/type"),
            Some(&json!("overloaded_error"))
        );
    }

    #[test]
    fn a_broken_stream_is_a_beginning_of_the_whole_one() {
        let text = |reply: &Reply| -> String {
            reply
                .writes
                .iter()
                .flatten()
                .filter_map(|write| {
                    if let Write::Text(text) = write {
                        Some(text.as_str())
                    } else {
                        None
                    }
                })
                .collect()
        };
        for step in 0..100 {
            let reply = Reply::events(["data: one\n\n", "data: zwölf\n\n", "data: [DONE]\n\n"]);
            let whole = text(&reply);
            let part = text(&broken(reply, End::Cut, f64::from(step) / 100.0));
            assert!(
                whole.starts_with(&part) && part.len() < whole.len(),
                "{part:?}"
            );
        }
    }
}
