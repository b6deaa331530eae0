//! What the gateway would do with a request, told before anything is sent.
//!
//! The planner and the attempt machine are those of the data plane; only time and the vendors'
//! answers are imagined. Every wait is jumped over and every attempt comes to the next of a list of
//! outcomes, the last of which repeats. The same seed tells the same story.
//!
//! Limits: the gateway that is explained has just started: no breaker is open, no key cools, nothing
//! else is in flight.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;
use whippletree_policies::attempt::{Attempts, Context, Event, GaveUp, Send, Step, Verdict};
use whippletree_policies::ids::{RouteId, TargetId};
use whippletree_policies::outcome::{Class, Failure, Outcome, Sent};
use whippletree_policies::retry::budget::{RetryBudget, RetryBudgetPolicy};
use whippletree_policies::route::health::Fleet;
use whippletree_policies::route::plan::{self, Choice};
use whippletree_policies::time::{Instant, UnixTime};
use whippletree_providers::openai::{dialects, failure};

use crate::api::headers;
use crate::api::rejection::Rejection;
use crate::config::Config;
use crate::exchange::{Dialect, Millis};
use crate::pipeline::attempt::{candidate, retry_policy};
use crate::pipeline::judge::{Setback, vendor_retry};
use crate::pipeline::plan::{Plan, Planned};
use crate::state::health_policy;

/// More steps than a machine with at most a hundred attempts can take.
const MOST_STEPS: usize = 10_000;

/// An imagined outcome of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Imagined {
    what: What,
    /// How long the attempt takes; `None`: half a second, or until the time-out.
    took: Option<Duration>,
    retry_after: Option<String>,
    should_retry: Option<String>,
    code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// An answer.
    Ok,
    /// No connection.
    Refused,
    /// The connection breaks once the request is written.
    Reset,
    /// An error with this status.
    Status(u16),
    /// No byte of an answer in time.
    Timeout,
}

/// An outcome that cannot be imagined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "outcome {0:?}: expected ok, timeout, reset, refused or a status from 400 to 599, then \
     :retry-after=SECONDS, :took=SECONDS, :code=CODE or :x-should-retry=true|false"
)]
pub struct InvalidOutcome(String);

impl std::str::FromStr for Imagined {
    type Err = InvalidOutcome;

    fn from_str(text: &str) -> Result<Self, InvalidOutcome> {
        let invalid = || InvalidOutcome(text.to_owned());
        let mut parts = text.split(':');
        let what = match parts.next().unwrap_or_default() {
            "ok" => What::Ok,
            "timeout" => What::Timeout,
            "reset" => What::Reset,
            "refused" => What::Refused,
            status => match status.parse() {
                Ok(status @ 400..=599) => What::Status(status),
                Ok(_) | Err(_) => return Err(invalid()),
            },
        };
        let mut imagined = Self {
            what,
            took: None,
            retry_after: None,
            should_retry: None,
            code: None,
        };
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(invalid)?;
            match name {
                "took" => {
                    let seconds = value.parse().map_err(|_| invalid())?;
                    let took = Duration::try_from_secs_f64(seconds).map_err(|_| invalid())?;
                    imagined.took = Some(took);
                }
                "retry-after" => imagined.retry_after = Some(value.to_owned()),
                "x-should-retry" => imagined.should_retry = Some(value.to_owned()),
                "code" => imagined.code = Some(value.to_owned()),
                _ => return Err(invalid()),
            }
        }
        Ok(imagined)
    }
}

/// What would be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// The route that the request's model names.
    pub route: RouteId,
    /// Attempts over all targets.
    pub max_attempts: u32,
    /// Attempts and waits together.
    pub deadline_ms: Millis,
    /// The targets in the order in which they are tried.
    pub plan: Vec<Place>,
    /// In order.
    pub steps: Vec<Told>,
}

/// A place in the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `provider/model`.
    pub target: TargetId,
    /// Targets of equal rank share the load.
    pub rank: u32,
    /// In the order of use, by position.
    pub keys: Vec<u16>,
}

/// A step, and when it is taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Since the request's beginning.
    pub at_ms: Millis,
    /// What is done, or happens.
    #[serde(flatten)]
    pub what: Happening,
}

/// What is done, or happens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Happening {
    /// The client has its answer.
    Answered {
        /// Whose.
        target: TargetId,
        /// After so many attempts.
        attempts: u32,
    },
    /// An attempt failed.
    Failed {
        /// What that means.
        class: Class,
        /// The vendor's status.
        status: Option<u16>,
        /// What the vendor asks for.
        wait_hint_ms: Option<Millis>,
        /// The vendor may have done the work, and billed it.
        ambiguous: bool,
    },
    /// Something is sent.
    Sent {
        /// Where to.
        target: TargetId,
        /// With which of the provider's keys, by position.
        key: u16,
        /// Counted from 1.
        attempt: u32,
        /// This attempt's cost may be a second one.
        may_repeat: bool,
    },
    /// The client is told that there is no answer.
    TurnedAway {
        /// Why there is no further attempt.
        reason: &'static str,
        /// What the client is told.
        class: Class,
        /// The HTTP status.
        status: u16,
        /// What the answer says of another try.
        should_retry: String,
        /// When to come back, in seconds.
        retry_after: Option<String>,
    },
    /// Nothing is done for a while.
    Waits {
        /// Until then, since the request's beginning.
        until_ms: Millis,
    },
}

/// Plays a request through.
pub fn explain(
    config: &Config,
    plan: &Plan,
    dialect: Dialect,
    imagined: &[Imagined],
    seed: u64,
) -> Explained {
    let settings = &plan.route.settings;
    let policy = retry_policy(&settings.retry);
    let mut rng = SmallRng::seed_from_u64(seed);
    let candidates = plan.targets.iter().map(|p| candidate(config, p)).collect();
    let ordered = plan::Plan::new(candidates, Choice::LeastInFlight, &|_| 0, &mut rng);
    // A start of zero would be the instant at which nothing was ever limited.
    let start = Instant(3_600_000_000_000);
    let mut story = Story {
        plan,
        dialect,
        imagined: imagined.iter(),
        last: imagined.last(),
        start,
        now: start,
        steps: Vec::new(),
    };
    let places = ordered.entries().iter().map(|entry| Place {
        target: entry.target.clone(),
        rank: entry.rank,
        keys: entry.keys.iter().map(|key| key.0).collect(),
    });
    let explained = Explained {
        route: plan.route.id.clone(),
        max_attempts: policy.max_attempts(),
        deadline_ms: Millis::of(settings.retry.deadline),
        plan: places.collect(),
        steps: Vec::new(),
    };
    let deadline = start.after(settings.retry.deadline);
    let mut attempts = Attempts::new(ordered, policy, start, deadline);
    let mut fleet = Fleet::default();
    for target in &plan.targets {
        fleet.configure(&target.target.id, health_policy(settings));
    }
    let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
    let mut event = Event::Start;
    for _ in 0..MOST_STEPS {
        let mut context = Context {
            now: story.now,
            rng: &mut rng,
            health: &mut fleet,
            tenant: Some(&mut budget),
        };
        event = match attempts.advance(event, &mut context) {
            Step::Done(verdict) => {
                story.end(verdict);
                break;
            }
            Step::Send(send) => Event::Finished(story.send(&send)),
            Step::Wait { until } => {
                let until_ms = Millis::of(until.since(start));
                story.tell(Happening::Waits { until_ms });
                story.now = until;
                Event::Woke
            }
        };
    }
    Explained {
        steps: story.steps,
        ..explained
    }
}

struct Story<'a> {
    /// Whose shapes the client expects.
    dialect: Dialect,
    plan: &'a Plan,
    imagined: std::slice::Iter<'a, Imagined>,
    last: Option<&'a Imagined>,
    start: Instant,
    now: Instant,
    steps: Vec<Told>,
}

impl Story<'_> {
    fn tell(&mut self, what: Happening) {
        let at_ms = Millis::of(self.now.since(self.start));
        self.steps.push(Told { at_ms, what });
    }

    fn send(&mut self, send: &Send) -> Outcome {
        self.tell(Happening::Sent {
            target: send.target.clone(),
            key: send.key.0,
            attempt: send.attempt,
            may_repeat: send.may_repeat,
        });
        let imagined = self.imagined.next().or(self.last);
        let planned = self.plan.target(&send.target);
        let (Some(imagined), Some(planned)) = (imagined, planned) else {
            return Outcome::Success;
        };
        let usual = match imagined.what {
            What::Timeout => planned.target.provider.timeouts.first_byte,
            What::Ok | What::Refused | What::Reset | What::Status(_) => Duration::from_millis(500),
        };
        let over = self.now.after(imagined.took.unwrap_or(usual));
        let in_time = over <= send.give_up_at;
        self.now = over.min(send.give_up_at);
        let failure = match imagined.what {
            _ if !in_time => Failure::new(Class::Timeout, Sent::Maybe),
            What::Ok => return Outcome::Success,
            What::Refused => Failure::new(Class::Transport, Sent::Nothing),
            What::Reset => Failure::new(Class::Transport, Sent::Maybe),
            What::Timeout => Failure::new(Class::Timeout, Sent::Maybe),
            What::Status(status) => refusal(planned, status, imagined),
        };
        self.tell(Happening::Failed {
            class: failure.class,
            status: failure.status,
            wait_hint_ms: failure.wait_hint.map(Millis::of),
            ambiguous: failure.is_ambiguous(),
        });
        Outcome::Failure(failure)
    }

    fn end(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Succeeded {
                target, attempts, ..
            } => self.tell(Happening::Answered { target, attempts }),
            Verdict::Failed(defeat) => {
                let rejection = Rejection::Failed {
                    class: defeat.class,
                    target: defeat.target,
                    retry_after: defeat.retry_after,
                };
                let id = whippletree_policies::ids::RequestId([0; 16]);
                let response = rejection.response(self.dialect, id, &[], None);
                let header = |name| {
                    let value: Option<&HeaderValue> = response.headers().get(name);
                    value.and_then(|v| v.to_str().ok()).map(str::to_owned)
                };
                self.tell(Happening::TurnedAway {
                    reason: GaveUp::as_str(defeat.reason),
                    class: defeat.class,
                    status: response.status().as_u16(),
                    should_retry: header(headers::SHOULD_RETRY).unwrap_or_default(),
                    retry_after: header(http::header::RETRY_AFTER),
                });
            }
        }
    }
}

/// What a vendor's refusal means, by the same rules that read a real one.
fn refusal(planned: &Planned, status: u16, imagined: &Imagined) -> Failure {
    let mut map = HeaderMap::new();
    let wishes = [
        (http::header::RETRY_AFTER, &imagined.retry_after),
        (headers::SHOULD_RETRY, &imagined.should_retry),
    ];
    for (name, value) in wishes {
        if let Some(value) = value.as_deref().and_then(|v| HeaderValue::try_from(v).ok()) {
            map.insert(name, value);
        }
    }
    let body = imagined.code.as_ref().map_or_else(Vec::new, |code| {
        let error = serde_json::json!({"error": {"message": "", "type": null, "code": code}});
        error.to_string().into_bytes()
    });
    let kind = planned.target.provider.kind;
    let dialect = dialects::dialect(kind).unwrap_or(&dialects::TYPICAL);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let said = failure::classify(dialect, status, &map, &body, UnixTime(0));
    let classes = &planned.target.provider.error_classes;
    let mut failure = Setback::said(said).meaning(classes).failure;
    failure.vendor_retry = vendor_retry(&map);
    failure
}
