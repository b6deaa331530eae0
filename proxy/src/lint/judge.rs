//! Requests through the linter, findings grouped by cause.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::Serialize;
use whippletree_policies::lint::{
    Bounds, Call, Finding, Fingerprinter, Lint, Place, Severity, caching,
};
use whippletree_policies::time::{Instant, UnixTime};
use whippletree_policies::units::{Money, MoneySum, Tokens};
use whippletree_policies::usage::Usage;
use whippletree_providers::envelope::{Envelope, InvalidEnvelope};
use whippletree_providers::prices::PriceList;
use whippletree_providers::prompt::{Form, read};

use super::trace::Request;

/// Whatever a file holds is compared in full.
const EVERYTHING: Bounds = Bounds {
    conversations: 1 << 20,
    segments: 1 << 26,
    text_of_one: u64::MAX >> 1,
    text_of_all: u64::MAX >> 1,
};

/// One cause, with all requests in which it shows.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// Its first finding, or the first of its gravest.
    pub finding: Finding,
    /// The file of that finding, by position.
    #[serde(skip)]
    pub file: usize,
    /// The request of that finding, from 1 within its file.
    pub request: usize,
    /// The request that it was compared with.
    pub previous: Option<usize>,
    /// The line of the request.
    pub line: usize,
    /// The place of the request's body in the file.
    #[serde(skip)]
    pub body_at: Option<usize>,
    /// Requests in which it shows, from 1 within its file.
    pub requests: Vec<usize>,
    /// In all of them.
    pub lost_tokens: Tokens,
    /// What they cost beyond a cache read, where prices are known.
    pub lost_usd: Option<Money>,
    /// Someone decided to live with it, for this reason.
    pub allowed: Option<String>,
    /// It was there before.
    pub known: bool,
}

impl Cause {
    /// Whether it makes a run fail.
    pub fn fails(&self) -> bool {
        self.finding.severity >= Severity::Warning && self.allowed.is_none() && !self.known
    }
}

/// A request that is no valid body.
#[derive(Clone, Copy, Debug)]
pub struct Unreadable {
    /// The file, by position.
    pub file: usize,
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub fault: InvalidEnvelope,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// The dearest first.
    pub causes: Vec<Cause>,
    /// Requests judged.
    pub requests: usize,
    /// Conversations among them.
    pub conversations: usize,
    /// Tokens of all requests, by estimate.
    pub tokens: Tokens,
    /// Tokens that the vendors should have read from their caches.
    pub expected_cached: Tokens,
    /// Requests that are no valid bodies.
    pub unreadable: Vec<Unreadable>,
}

/// Judges requests in their order.
pub fn judge(requests: &[Request], prices: &PriceList) -> Judged {
    let mut lint = Lint::new(EVERYTHING);
    // A run explains itself: nothing is kept, so the secret need not be one.
    let print = Fingerprinter::new(&[0x57; 32]);
    let mut judged = Judged::default();
    let mut causes: BTreeMap<(usize, &'static str, String), (Cause, MoneySum)> = BTreeMap::new();
    let mut conversations = BTreeSet::new();
    let mut clock = Clock::default();
    for (at, request) in requests.iter().enumerate() {
        let envelope = match Envelope::parse(Bytes::copy_from_slice(&request.body)) {
            Ok(envelope) => envelope,
            Err(fault) => {
                judged.unreadable.push(Unreadable {
                    file: request.file,
                    line: request.line,
                    fault,
                });
                continue;
            }
        };
        let now = clock.at(request.known.time_ms);
        let model = envelope
            .model()
            .or(request.known.model.as_deref())
            .unwrap_or("unknown");
        let caching = caching(model);
        let wall = UnixTime(
            request
                .known
                .time_ms
                .and_then(|ms| i64::try_from(ms).ok())
                .unwrap_or(i64::MAX),
        );
        let card = vendor_of(model).and_then(|(vendor, model)| prices.look_up(vendor, model, wall));
        let print_of =
            |text: &Option<String>| text.as_ref().map(|text| print.of(1, text.as_bytes()));
        let prompt = read(&envelope, Form::of(&envelope), model, &print);
        let call = Call {
            number: at as u64,
            model,
            caching: &caching,
            card: card.map(|row| &row.card),
            task: print_of(&request.known.task),
            place: Place {
                key: print_of(&request.known.key),
                region: print_of(&request.known.region),
                fallback: request.known.fallback,
            },
        };
        let observed = lint.observe(&prompt, &call, now);
        if let Some(tokens) = request.known.input_tokens {
            lint.settle(
                observed.ticket,
                &Usage {
                    input: Tokens(tokens),
                    ..Usage::default()
                },
            );
        }
        judged.requests += 1;
        judged.tokens = judged.tokens.plus(observed.prompt_tokens);
        judged.expected_cached = judged.expected_cached.plus(observed.expected_cached);
        conversations.insert(observed.conversation);
        for finding in observed.findings {
            group(&mut causes, requests, request, &finding);
        }
    }
    judged.conversations = conversations.len();
    judged.causes = causes
        .into_values()
        .map(|(cause, lost)| Cause {
            lost_usd: i64::try_from(lost.pico())
                .ok()
                .filter(|pico| *pico > 0)
                .map(Money::from_pico),
            ..cause
        })
        .collect();
    judged.causes.sort_by(|a, b| {
        let key = |cause: &Cause| (cause.finding.severity, cause.lost_usd, cause.lost_tokens);
        key(b).cmp(&key(a)).then_with(|| {
            (a.file, a.request, a.finding.spot.from).cmp(&(b.file, b.request, b.finding.spot.from))
        })
    });
    judged
}

fn group(
    causes: &mut BTreeMap<(usize, &'static str, String), (Cause, MoneySum)>,
    requests: &[Request],
    request: &Request,
    finding: &Finding,
) {
    let (code, path) = finding.cause();
    let previous = finding
        .previous
        .and_then(|at| requests.get(usize::try_from(at).ok()?));
    let key = (request.file, code, path);
    let (cause, lost) = causes.entry(key).or_insert_with(|| {
        let cause = Cause {
            file: request.file,
            request: request.number,
            previous: previous.map(|previous| previous.number),
            line: request.line,
            body_at: request.span.as_ref().map(|span| span.start),
            requests: Vec::new(),
            lost_tokens: Tokens::ZERO,
            lost_usd: None,
            allowed: None,
            known: false,
            finding: finding.clone(),
        };
        (cause, MoneySum::ZERO)
    });
    if finding.severity > cause.finding.severity {
        cause.request = request.number;
        cause.previous = previous.map(|previous| previous.number);
        cause.line = request.line;
        cause.body_at = request.span.as_ref().map(|span| span.start);
        cause.finding = finding.clone();
    }
    cause.requests.push(request.number);
    cause.lost_tokens = cause.lost_tokens.plus(finding.lost_tokens);
    lost.add(finding.lost.unwrap_or(Money::ZERO));
}

/// Time as the trace tells it; a second a request where it does not.
#[derive(Debug, Default)]
struct Clock {
    last: u64,
}

impl Clock {
    fn at(&mut self, told_ms: Option<u64>) -> Instant {
        const SECOND: u64 = 1_000;
        self.last = told_ms.unwrap_or(self.last + SECOND);
        Instant(self.last.saturating_mul(1_000_000))
    }
}

/// Who sells a model, by its name, and the name there.
fn vendor_of(model: &str) -> Option<(&'static str, &str)> {
    const VENDORS: [(&str, &str); 13] = [
        ("claude", "anthropic"),
        ("gpt-", "openai"),
        ("chatgpt-", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("gemini", "gemini"),
        ("deepseek", "deepseek"),
        ("kimi", "moonshot"),
        ("glm", "zhipu"),
        ("qwen", "qwen"),
        ("grok", "xai"),
        ("mistral", "mistral"),
    ];
    let name = model.rsplit('/').next().unwrap_or(model);
    VENDORS
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map(|(_, vendor)| (*vendor, name))
}

/// A stable name for a cause, for baselines and other programs' memories.
pub fn identity(cause: &Cause, file: &str) -> String {
    let (code, path) = cause.finding.cause();
    let mut hasher = blake3::Hasher::new();
    for part in [code, file, &path] {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex().chars().take(24).collect()
}
