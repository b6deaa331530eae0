//! One request after another: place it, compare it, judge it, remember it.

mod relation;
mod turn;

use alloc::vec::Vec;

use self::relation::Relation;
use self::turn::{cacheable, charge, keep_habits, note_places, place_switched};
use super::align::{Alignment, align};
use super::finding::{self, Family, Finding, Scope, Severity};
use super::fingerprint::Fingerprint;
use super::fleet::Fleet;
use super::habits::Habits;
use super::history::{Bounds, History, Known};
use super::prompt::{Call, Place, Prompt, Tier};
use super::registry;
use super::report::Report;
use super::scene::{Scene, Turn, changes};
use crate::time::Instant;
use crate::units::Tokens;
use crate::usage::Usage;

/// The linter of one shard of the traffic.
///
/// Requests of one conversation must come to the same shard; conversations that should share a
/// prefix, too, if rules over a fleet are to see them.
#[derive(Debug)]
pub struct Lint {
    history: History,
    fleet: Fleet,
}

/// What one request's prefix came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// For [`Lint::settle`].
    pub ticket: Ticket,
    /// The conversation, by a number that is unique within this linter's life up to 2³².
    pub conversation: u32,
    /// The request that this one goes on from.
    pub previous: Option<u64>,
    /// Leading segments sent before.
    pub reused_segments: usize,
    /// Their bytes.
    pub reused_bytes: u64,
    /// What the vendor should report as read from its cache.
    pub expected_cached: Tokens,
    /// Tokens of the whole prompt, by estimate.
    pub prompt_tokens: Tokens,
    /// In the order of the prompt.
    pub findings: Vec<Finding>,
}

/// A request that was observed and not yet settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    conversation: u32,
    chain: Fingerprint,
    bytes: u64,
}

impl Lint {
    /// A linter that remembers as much as `bounds` allow.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            history: History::new(bounds),
            fleet: Fleet::default(),
        }
    }

    /// Bytes in use.
    pub fn memory(&self) -> u64 {
        self.history.memory() + self.fleet.memory()
    }

    /// Conversations remembered.
    pub fn conversations(&self) -> usize {
        self.history.len()
    }

    /// Judges one request and remembers it.
    pub fn observe(&mut self, prompt: &Prompt<'_>, call: &Call<'_>, now: Instant) -> Observed {
        let segments = &prompt.segments;
        let longest = self.history.longest(segments);
        let known = longest.map_or(0, |(known, _)| known);
        let readable = self.history.readable(prompt, known, call.caching, now);
        let relation = self.relate(prompt, call, longest, now);
        let (id, alignment) = match relation {
            Relation::Extends(id) => (Some(id), None),
            Relation::New => (None, None),
            Relation::Rewrites(id, alignment) => (Some(id), Some(alignment)),
        };
        let turn = self.turn(
            prompt,
            call,
            (known, readable),
            (id, longest.map(|(_, id)| id)),
            alignment.as_ref(),
            now,
        );
        let previous = id
            .and_then(|id| self.history.conversation(id))
            .map(|c| c.number);
        if let Some(id) = id
            && let Some(conversation) = self.history.conversation_mut(id)
        {
            keep_habits(conversation, prompt, call, alignment.as_ref(), &turn);
        }
        let mut findings = self.judge(prompt, call, id, alignment.as_ref(), &turn);
        let head = segments
            .iter()
            .take_while(|s| s.tier != Tier::Messages)
            .count();
        let sibling = match id {
            None if known < head => self.fleet.sibling(prompt, head),
            _ => None,
        };
        if readable > 0
            && let Some(read) = segments.get(readable - 1)
        {
            self.history.refresh(read, call.caching, now);
        }
        let conversation = self.history.remember(prompt, call, known, id, now);
        if id.is_none() {
            self.begin_family(conversation, head, call, sibling.as_ref().map(|s| s.family));
        }
        if let Some(sibling) = &sibling {
            findings.extend(self.judge_across(prompt, call, sibling, head, &turn));
        }
        self.count_request(conversation);
        charge(&mut findings, call, &turn);
        finding::sort(&mut findings);
        let bytes = prompt.bytes_of(segments.len());
        Observed {
            ticket: Ticket {
                conversation,
                chain: segments
                    .last()
                    .map_or(Fingerprint::default(), |last| last.chain),
                bytes,
            },
            conversation,
            previous,
            reused_segments: known,
            reused_bytes: prompt.bytes_of(known),
            expected_cached: turn.expected,
            prompt_tokens: turn.prompt_tokens,
            findings,
        }
    }

    /// Learns where an observed request was sent, where that was not known before; what it means.
    pub fn sent(&mut self, ticket: Ticket, call: &Call<'_>, place: Place) -> Vec<Finding> {
        let Some(conversation) = self.history.conversation_mut(ticket.conversation) else {
            return Vec::new();
        };
        let switched = place_switched(conversation.place, place);
        note_places(&mut conversation.habits, switched);
        conversation.place = place;
        let known = conversation.known.len();
        let turn = Turn {
            switched,
            known,
            known_tokens: self.history.tokens_at(
                Some(ticket.conversation),
                call.model,
                ticket.bytes,
            ),
            ..Turn::default()
        };
        let prompt = Prompt::default();
        let mut findings = self.judge(&prompt, call, Some(ticket.conversation), None, &turn);
        findings.retain(|finding| finding.rule.family == Family::Fleet);
        charge(&mut findings, call, &turn);
        findings
    }

    /// Learns what the vendor counted for an observed request.
    pub fn settle(&mut self, ticket: Ticket, usage: &Usage) {
        self.history
            .measure(ticket.conversation, ticket.chain, ticket.bytes, usage.input);
    }

    fn judge(
        &self,
        prompt: &Prompt<'_>,
        call: &Call<'_>,
        id: Option<u32>,
        alignment: Option<&Alignment>,
        turn: &Turn,
    ) -> Vec<Finding> {
        let nothing = Alignment::default();
        let fresh = Habits::default();
        let conversation = id.and_then(|id| self.history.conversation(id));
        let old = conversation.map_or(&[][..], |conversation| &conversation.known);
        let alignment = alignment.unwrap_or(&nothing);
        let scene = Scene {
            prompt,
            call,
            scope: if id.is_some() {
                Scope::Conversation
            } else {
                Scope::Alone
            },
            previous: conversation.map(|conversation| conversation.number),
            old,
            alignment,
            changes: changes(old, prompt, alignment),
            habits: conversation.map_or(&fresh, |conversation| &conversation.habits),
            turn,
        };
        run(&scene)
    }

    /// Judges the head of a new conversation beside the one most like it.
    fn judge_across(
        &mut self,
        prompt: &Prompt<'_>,
        call: &Call<'_>,
        sibling: &super::fleet::Sibling,
        head: usize,
        turn: &Turn,
    ) -> Vec<Finding> {
        /// Cold starts of one cause before it is a finding.
        const COLD: u32 = 3;
        let mut beginning = prompt.clone();
        beginning.segments.truncate(head);
        let alignment = align(&sibling.known, &beginning.segments, prompt.body);
        let head_tokens = self.history.guess(call.model, alignment.shared_bytes);
        let turn = Turn {
            lost: cacheable(call.caching, head_tokens).minus(turn.expected),
            ..turn.clone()
        };
        let fresh = Habits::default();
        let scene = Scene {
            prompt: &beginning,
            call,
            scope: Scope::Across,
            previous: Some(sibling.number),
            old: &sibling.known,
            alignment: &alignment,
            changes: changes(&sibling.known, &beginning, &alignment),
            habits: &fresh,
            turn: &turn,
        };
        let mut findings = run(&scene);
        findings.retain(|finding| registry::looks_across(finding.rule));
        if turn.lost == Tokens::ZERO {
            return Vec::new();
        }
        let Some(family) = self.fleet.family(sibling.family) else {
            return Vec::new();
        };
        let short_lived = family.requests < 4 * u64::from(family.starts);
        findings.retain_mut(|finding| {
            let cold = family.cold.entry(finding.rule.code).or_default();
            *cold += 1;
            if !registry::tells_across(finding.rule) && !short_lived {
                finding.severity = Severity::Advice;
            }
            // The first conversation of all began cold too.
            *cold + 1 >= COLD
        });
        charge(&mut findings, call, &turn);
        findings
    }

    fn begin_family(&mut self, id: u32, head: usize, call: &Call<'_>, family: Option<u32>) {
        let Some(conversation) = self.history.conversation_mut(id) else {
            return;
        };
        let known: &[Known] = conversation.known.get(..head).unwrap_or_default();
        conversation.habits.family = self.fleet.begin(known, family, call.number);
        conversation.habits.requests = 1;
    }

    fn count_request(&mut self, id: u32) {
        let family = self.history.conversation(id).and_then(|c| c.habits.family);
        if let Some(family) = family.and_then(|family| self.fleet.family(family)) {
            family.requests += 1;
        }
    }
}

fn run(scene: &Scene<'_>) -> Vec<Finding> {
    let mut report = Report::new(scene);
    for rule in registry::RULES {
        report.begin(&rule.meta);
        (rule.check)(&mut report);
    }
    report.findings
}
