//! One request after another: place it, compare it, judge it, remember it.

use alloc::vec::Vec;

use super::align::{Alignment, Edit, align};
use super::finding::{self, Family, Finding, Scope, Severity};
use super::fingerprint::Fingerprint;
use super::fleet::Fleet;
use super::habits::Habits;
use super::history::{Bounds, Conversation, History, Known};
use super::prompt::{Call, Kind, Place, Prompt, Segment, Tier};
use super::registry;
use super::scene::{Report, Scene, Switched, Turn, changes};
use super::vendor::{Caching, Entries};
use super::words;
use crate::time::Instant;
use crate::units::{Money, Tokens};
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

/// How a request stands to what was sent before.
enum Relation {
    /// It goes on from a conversation without touching it.
    Extends(u32),
    /// It begins a conversation.
    New,
    /// It goes on from a conversation and changes what was sent.
    Rewrites(u32, Alignment),
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

    fn relate(
        &self,
        prompt: &Prompt<'_>,
        call: &Call<'_>,
        longest: Option<(usize, u32)>,
        now: Instant,
    ) -> Relation {
        let segments = &prompt.segments;
        if let Some((known, owner)) = longest {
            if let Some(id) = self.history.ends_within(segments, known) {
                return Relation::Extends(id);
            }
            // Sent again from an earlier point, a second try; long after, it is another run.
            let again = known == segments.len()
                && self
                    .history
                    .conversation(owner)
                    .is_some_and(|conversation| {
                        holds(conversation, known, segments)
                            && now.since(conversation.last) <= call.caching.lifetime
                    });
            if again {
                return Relation::Extends(owner);
            }
        }
        let mut candidates = self.history.candidates(segments, call.task);
        if let Some((_, owner)) = longest
            && !candidates.contains(&owner)
        {
            candidates.push(owner);
        }
        candidates.truncate(6);
        let best = candidates
            .into_iter()
            .filter_map(|id| {
                let conversation = self.history.conversation(id)?;
                let alignment = align(&conversation.known, segments, prompt.body);
                self.goes_on(id, prompt, call, &alignment)
                    .then_some((id, alignment))
            })
            .max_by_key(|(id, alignment)| {
                // To the letter first: texts made from one template are all alike.
                (
                    alignment.equal_message_bytes,
                    alignment.shared_message_bytes,
                    *id,
                )
            });
        match best {
            Some((id, alignment)) if alignment.edits.is_empty() => Relation::Extends(id),
            Some((id, alignment)) => Relation::Rewrites(id, alignment),
            None => Relation::New,
        }
    }

    /// Whether a request goes on from a conversation although it changes it.
    ///
    /// A run that leaves a conversation at some point and goes another way (a second sample, an edited
    /// question, another call from the same template) is a conversation of its own. One that goes on
    /// repeats what was there up to about its end, and has something new after that; or it repeats all
    /// messages under another system prompt or other tools.
    fn goes_on(
        &self,
        id: u32,
        prompt: &Prompt<'_>,
        call: &Call<'_>,
        alignment: &Alignment,
    ) -> bool {
        const NEAR_END: usize = 3;
        const TELLING: u64 = 200;
        const CONVERSATION: usize = 3;
        let Some(conversation) = self.history.conversation(id) else {
            return false;
        };
        let in_messages = |segments: &[Segment]| -> u64 {
            let messages = segments.iter().filter(|s| s.tier == Tier::Messages);
            messages.map(Segment::bytes).sum()
        };
        let segments = &prompt.segments;
        let old_messages = conversation
            .known
            .iter()
            .filter(|k| k.tier == Tier::Messages);
        let old: u64 = old_messages.map(|known| u64::from(known.bytes)).sum();
        let repeated = in_messages(segments.get(..alignment.last_shared).unwrap_or_default());
        let shared = alignment.shared_message_bytes;
        let same_task = call.task.is_some() && call.task == conversation.task;
        // All that was there is still there, but for a part that changed.
        let complete =
            alignment.dropped_tail == 0 && alignment.matched_after > 0 && shared >= TELLING;
        let enough = shared * 3 >= old.min(repeated) || complete || (same_task && shared > 0);
        let edited = |tier: Tier| {
            let new = |edit: &Edit| segments.get(edit.place()).is_some_and(|s| s.tier == tier);
            alignment.edits.iter().any(new) || alignment.gaps.iter().any(|gap| gap.tier == tier)
        };
        // Two agents may both be greeted with "hi".
        let head: u64 = segments
            .iter()
            .filter(|s| s.tier < Tier::Messages)
            .map(Segment::bytes)
            .sum();
        let same_agent =
            alignment.shared_head_bytes * 2 >= head || alignment.shared_messages >= CONVERSATION;
        // Nor need one task be put to one agent only: at its start, a conversation has no past.
        let begun = segments
            .iter()
            .any(|s| matches!(s.kind, Kind::Assistant | Kind::ToolCall));
        if !same_task && (!same_agent || (!begun && alignment.other_head)) {
            return false;
        }
        if !edited(Tier::Messages) && alignment.dropped_tail == 0 {
            return shared > 0 || old == 0;
        }
        let appended = segments.len() > alignment.last_shared;
        let status_only = || {
            let mut tail = conversation.known.iter().rev().take(alignment.dropped_tail);
            tail.all(|k| matches!(k.kind, Kind::User | Kind::System | Kind::Other))
        };
        let replaced = alignment.gaps.iter().any(|gap| gap.tier == Tier::Messages);
        // Tasks put to a model in one form are alike, and are not one task.
        let known_again = alignment.equal_message_bytes > 0 || alignment.surely_changed > 0;
        enough
            && appended
            && known_again
            && shared > 0
            && alignment.dropped_tail <= NEAR_END
            && (alignment.matched_after > 0
                || alignment.dropped_tail == 0
                || replaced
                || status_only())
    }

    fn turn(
        &mut self,
        prompt: &Prompt<'_>,
        call: &Call<'_>,
        (known, readable): (usize, usize),
        (id, owner): (Option<u32>, Option<u32>),
        alignment: Option<&Alignment>,
        now: Instant,
    ) -> Turn {
        let caching = call.caching;
        let basis = id.or(owner);
        let tokens = |bytes: u64| self.history.tokens_at(basis, call.model, bytes);
        let known_bytes = prompt.bytes_of(known);
        let partial = match (id.and_then(|id| self.history.conversation(id)), alignment) {
            (Some(conversation), Some(alignment)) if readable == known => {
                reused_within(conversation, alignment, prompt, known)
            }
            _ => 0,
        };
        let within = if matches!(caching.entries, Entries::Anywhere) {
            partial
        } else {
            0
        };
        let read_bytes = prompt.bytes_of(readable) + if readable == known { within } else { 0 };
        let expected = cacheable(caching, tokens(read_bytes));
        let conversation = id.and_then(|id| self.history.conversation(id));
        let gap = conversation.map_or(core::time::Duration::ZERO, |c| now.since(c.last));
        let alive = conversation.is_some_and(|c| {
            gap <= caching.lifetime
                || (gap <= caching.long_lifetime
                    && c.known
                        .iter()
                        .any(|k| k.mark == Some(super::prompt::Mark::Long)))
        });
        let was_kept = conversation.is_some_and(|c| c.marks > 0)
            || !matches!(caching.entries, Entries::Marks { .. });
        let lost = match alignment {
            Some(alignment) if alive && was_kept => {
                let more = alignment.shared_bytes.saturating_sub(known_bytes);
                cacheable(caching, tokens(known_bytes + more)).minus(expected)
            }
            _ => Tokens::ZERO,
        };
        let switched = conversation.map_or_else(Switched::default, |c| switched(c, prompt, call));
        let (marks_before, old_tokens) =
            conversation.map_or((0, Tokens::ZERO), |c| (c.marks, tokens(c.bytes)));
        // What this conversation sent; others may have sent more, long ago.
        let known_here = conversation.map_or(known, |c| {
            let pairs = c.known.iter().zip(&prompt.segments);
            pairs
                .take_while(|(old, new)| old.chain == new.chain)
                .count()
        });
        let known_tokens = if switched.model {
            old_tokens.min(tokens(prompt.bytes_of(prompt.segments.len())))
        } else {
            tokens(prompt.bytes_of(known_here))
        };
        let whole = prompt.bytes_of(prompt.segments.len());
        let prompt_tokens = tokens(whole);
        let shared_under_key = prompt.cache_key.and_then(|key| {
            let before = self.fleet.under_key(key, whole)?;
            u32::try_from(known_bytes.saturating_mul(100) / before.max(1)).ok()
        });
        Turn {
            known: known_here,
            readable,
            expected,
            lost,
            known_tokens,
            prompt_tokens,
            gap,
            switched,
            shared_under_key,
            marks_before,
        }
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

/// Whether the first `known` segments are still what a conversation begins with.
fn holds(conversation: &Conversation, known: usize, segments: &[Segment]) -> bool {
    let last = known.checked_sub(1);
    let old = last.and_then(|at| conversation.known.get(at));
    let new = last.and_then(|at| segments.get(at));
    matches!((old, new), (Some(old), Some(new)) if old.chain == new.chain)
}

/// Bytes that two requests share within the first segment that differs.
fn reused_within(
    conversation: &Conversation,
    alignment: &Alignment,
    prompt: &Prompt<'_>,
    known: usize,
) -> u64 {
    let old = conversation.known.get(known);
    let new = prompt.segments.get(known);
    let replaced = alignment.edits.first().is_some_and(|edit| {
        *edit
            == Edit::Replaced {
                old: known,
                new: known,
            }
    });
    match (old.and_then(|old| old.text.as_deref()), new) {
        (Some(before), Some(after)) if replaced => {
            words::common_prefix(before, after.text(prompt.body)) as u64
        }
        _ => 0,
    }
}

/// What the vendor reads of a prefix of `tokens`.
fn cacheable(caching: &Caching, tokens: Tokens) -> Tokens {
    if tokens < caching.minimum {
        return Tokens::ZERO;
    }
    Tokens(tokens.0 - tokens.0 % caching.step.0.max(1))
}

fn switched(conversation: &Conversation, prompt: &Prompt<'_>, call: &Call<'_>) -> Switched {
    Switched {
        model: *conversation.model != *call.model,
        effort: call.caching.effort_matters && conversation.effort != prompt.effort,
        tool_choice: conversation.tool_choice != prompt.tool_choice,
        ..place_switched(conversation.place, call.place)
    }
}

fn place_switched(before: Place, now: Place) -> Switched {
    let differs =
        |a: Option<Fingerprint>, b: Option<Fingerprint>| a.is_some() && b.is_some() && a != b;
    Switched {
        key: differs(before.key, now.key),
        region: differs(before.region, now.region),
        fallback: before.fallback != now.fallback,
        ..Switched::default()
    }
}

fn note_places(habits: &mut Habits, switched: Switched) {
    habits.key_switches += u32::from(switched.key);
    habits.region_switches += u32::from(switched.region);
    habits.fallback_switches += u32::from(switched.fallback);
}

fn keep_habits(
    conversation: &mut Conversation,
    prompt: &Prompt<'_>,
    call: &Call<'_>,
    alignment: Option<&Alignment>,
    turn: &Turn,
) {
    let message_bytes: u64 = conversation
        .known
        .iter()
        .filter(|known| known.tier == Tier::Messages)
        .map(|known| u64::from(known.bytes))
        .sum();
    let shrinking =
        alignment.map(|a| super::rules::shrinking(a, &conversation.known, prompt, message_bytes));
    let habits = &mut conversation.habits;
    habits.requests += 1;
    note_places(habits, turn.switched);
    habits.model_switches += u32::from(turn.switched.model);
    habits.effort_switches += u32::from(turn.switched.effort);
    match shrinking {
        Some(super::rules::Shrinking::Compacted) => {
            habits.compactions += 1;
            habits.since_compaction = habits.requests - habits.last_compaction;
            habits.last_compaction = habits.requests;
        }
        Some(super::rules::Shrinking::Trimmed) => habits.trims += 1,
        Some(super::rules::Shrinking::No) | None => {}
    }
    let late = turn.gap > call.caching.lifetime
        && turn.gap <= call.caching.long_lifetime.max(call.caching.lifetime * 12);
    if late && turn.known > 0 && turn.readable < turn.known {
        habits.late += 1;
        habits.late_tokens += turn.known_tokens.0;
    }
    let first = alignment
        .and_then(|a| a.edits.first())
        .and_then(|edit| u32::try_from(edit.place()).ok());
    if let Some(place) = first {
        habits.restless = match habits.restless {
            Some((before, times)) if before == place => Some((place, times + 1)),
            _ => Some((place, 1)),
        };
    } else if habits.restless.is_some() && alignment.is_none() {
        habits.restless = None;
    }
    if let Entries::Marks { .. } = call.caching.entries {
        habits.unmarked += u32::from(prompt.marks == 0);
        let out_of_reach = prompt.marks > 0
            && turn.known_tokens >= call.caching.minimum
            && turn.readable == 0
            && turn.marks_before > 0;
        habits.unreached += u32::from(out_of_reach && turn.gap <= call.caching.lifetime);
    }
}

/// Gives the divergence's loss to the first finding that points to it, and prices all losses.
fn charge(findings: &mut [Finding], call: &Call<'_>, turn: &Turn) {
    let breaks =
        |finding: &Finding| finding.scope != Scope::Alone && registry::breaks(finding.rule);
    // What a misplaced mark lost is no part of what the divergence lost.
    let others = findings.iter().filter(|finding| !breaks(finding));
    let elsewhere = others.fold(Tokens::ZERO, |sum, finding| sum.plus(finding.lost_tokens));
    let charged = findings
        .iter()
        .any(|finding| breaks(finding) && finding.lost_tokens > Tokens::ZERO);
    let first = findings
        .iter_mut()
        .filter(|finding| breaks(finding))
        .min_by_key(|finding| finding.spot.from);
    if let Some(first) = first.filter(|_| !charged) {
        first.lost_tokens = turn.lost.minus(elsewhere);
    }
    for finding in findings {
        finding.lost = price(call, finding.lost_tokens, turn.prompt_tokens);
    }
}

/// What tokens cost when they are not read from the cache, beyond what reading them would cost.
fn price(call: &Call<'_>, lost: Tokens, prompt: Tokens) -> Option<Money> {
    if lost == Tokens::ZERO {
        return None;
    }
    let (_, rates) = call.card?.rates_for(prompt);
    let sent = match call.caching.entries {
        Entries::Anywhere => rates.input,
        Entries::Ends { .. } | Entries::Marks { .. } => rates.cache_write_5m.unwrap_or(rates.input),
    };
    let read = rates.cache_read.unwrap_or(rates.input);
    sent.times(lost)?.checked_sub(read.times(lost)?)
}
