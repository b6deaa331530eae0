//! The facts of one request: what the vendor should read, what was lost, what is new.

use super::Lint;
use crate::lint::align::{Alignment, Edit};
use crate::lint::finding::{Finding, Scope};
use crate::lint::fingerprint::Fingerprint;
use crate::lint::habits::Habits;
use crate::lint::history::Conversation;
use crate::lint::prompt::{Call, Mark, Place, Prompt, Tier};
use crate::lint::registry;
use crate::lint::rules::{Shrinking, shrinking};
use crate::lint::scene::{Switched, Turn};
use crate::lint::vendor::{Caching, Entries};
use crate::lint::words;
use crate::time::Instant;
use crate::units::{Money, Tokens};

impl Lint {
    pub(super) fn turn(
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
                    && c.known.iter().any(|k| k.mark == Some(Mark::Long)))
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
pub(super) fn cacheable(caching: &Caching, tokens: Tokens) -> Tokens {
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

pub(super) fn place_switched(before: Place, now: Place) -> Switched {
    let differs =
        |a: Option<Fingerprint>, b: Option<Fingerprint>| a.is_some() && b.is_some() && a != b;
    Switched {
        key: differs(before.key, now.key),
        region: differs(before.region, now.region),
        fallback: before.fallback != now.fallback,
        ..Switched::default()
    }
}

pub(super) fn note_places(habits: &mut Habits, switched: Switched) {
    habits.key_switches += u32::from(switched.key);
    habits.region_switches += u32::from(switched.region);
    habits.fallback_switches += u32::from(switched.fallback);
}

pub(super) fn keep_habits(
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
    let shrinking = alignment.map(|a| shrinking(a, &conversation.known, prompt, message_bytes));
    let habits = &mut conversation.habits;
    habits.requests += 1;
    note_places(habits, turn.switched);
    habits.model_switches += u32::from(turn.switched.model);
    habits.effort_switches += u32::from(turn.switched.effort);
    match shrinking {
        Some(Shrinking::Compacted) => {
            habits.compactions += 1;
            habits.since_compaction = habits.requests - habits.last_compaction;
            habits.last_compaction = habits.requests;
        }
        Some(Shrinking::Trimmed) => habits.trims += 1,
        Some(Shrinking::No) | None => {}
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
pub(super) fn charge(findings: &mut [Finding], call: &Call<'_>, turn: &Turn) {
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
