//! What the vendor still has of a prompt, and how long prompts are in tokens.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::History;
use crate::lint::fingerprint::Fingerprint;
use crate::lint::prompt::{Kind, Mark, Prompt, Segment};
use crate::lint::vendor::{Caching, Entries};
use crate::time::Instant;
use crate::units::Tokens;

/// A point of a conversation whose length in tokens the vendor has told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) chain: Fingerprint,
    pub(super) bytes: u64,
    pub(super) tokens: Tokens,
}

pub(super) const MEASURES: usize = 16;
/// Four bytes a token, until the vendor tells.
const GUESS: (u64, u64) = (4, 1);

impl History {
    /// Tokens in `bytes` of a prompt of `model`.
    pub(crate) fn guess(&self, model: &str, bytes: u64) -> Tokens {
        let (told_bytes, told_tokens) = self.rates.get(model).copied().unwrap_or(GUESS);
        scale(bytes, told_tokens, told_bytes)
    }

    /// Tokens in the first `bytes` of a conversation: as told by the vendor for its requests, between
    /// them in proportion.
    pub(crate) fn tokens_at(&self, id: Option<u32>, model: &str, bytes: u64) -> Tokens {
        let measures = id
            .and_then(|id| self.conversation(id))
            .map_or(&[][..], |conversation| &conversation.measures);
        let below = measures.iter().rfind(|measure| measure.bytes <= bytes);
        let above = measures.iter().find(|measure| measure.bytes > bytes);
        match (below, above) {
            (Some(below), _) if below.bytes == bytes => below.tokens,
            (below, Some(above)) => {
                let (from, base) = below.map_or((0, Tokens::ZERO), |m| (m.bytes, m.tokens));
                let span = above.tokens.minus(base).0;
                base.plus(scale(bytes - from, span, above.bytes - from))
            }
            (Some(below), None) => below.tokens.plus(self.guess(model, bytes - below.bytes)),
            (None, None) => self.guess(model, bytes),
        }
    }

    /// Whether the vendor still has the prefix that ends at a segment, were it kept anywhere.
    fn alive(&self, segment: &Segment, at: usize, lifetime: Duration, now: Instant) -> bool {
        let Some(entry) = self.entries.get(&segment.chain) else {
            return false;
        };
        // Each later request of a conversation has read its whole known prefix again.
        let seen = self
            .conversation(entry.conversation)
            .filter(|owner| {
                owner
                    .known
                    .get(at)
                    .is_some_and(|known| known.chain == segment.chain)
            })
            .map_or(entry.seen, |owner| owner.last.max(entry.seen));
        now.since(seen) <= lifetime
    }

    /// How many leading segments the vendor should read from its cache.
    pub(crate) fn readable(
        &self,
        prompt: &Prompt<'_>,
        known: usize,
        caching: &Caching,
        now: Instant,
    ) -> usize {
        let segments = prompt.segments.get(..known).unwrap_or_default();
        let kept = |segment: &Segment| {
            self.entries
                .get(&segment.chain)
                .is_some_and(|entry| entry.kept_until.is_some_and(|until| now <= until))
        };
        match caching.entries {
            Entries::Anywhere => segments
                .iter()
                .enumerate()
                .rev()
                .find(|(at, segment)| self.alive(segment, *at, caching.lifetime, now))
                .map_or(0, |(at, _)| at + 1),
            Entries::Ends { .. } => segments.iter().rposition(kept).map_or(0, |at| at + 1),
            Entries::Marks { look_back, .. } => {
                let whole = &prompt.segments;
                let mut marks: Vec<usize> = (0..whole.len())
                    .filter(|at| whole.get(*at).is_some_and(|segment| segment.mark.is_some()))
                    .collect();
                if prompt.automatic_mark && !whole.is_empty() {
                    marks.push(whole.len() - 1);
                }
                marks
                    .iter()
                    .filter_map(|mark| {
                        within_reach(whole, *mark, look_back, |at| {
                            at < known && whole.get(at).is_some_and(kept)
                        })
                    })
                    .max()
                    .map_or(0, |at| at + 1)
            }
        }
    }

    /// Notes what the vendor keeps of a request.
    pub(super) fn keep(
        &mut self,
        prompt: &Prompt<'_>,
        caching: &Caching,
        model: &str,
        id: u32,
        now: Instant,
    ) {
        let ends = match caching.entries {
            Entries::Anywhere => return,
            Entries::Ends { .. } => true,
            Entries::Marks { .. } => prompt.automatic_mark,
        };
        let last = prompt.segments.len().saturating_sub(1);
        let mut bytes = 0;
        for (at, segment) in prompt.segments.iter().enumerate() {
            bytes += segment.bytes();
            let mark = match segment.mark {
                Some(mark) => mark,
                None if ends && at == last => Mark::Short,
                None => continue,
            };
            if self.tokens_at(Some(id), model, bytes) < caching.minimum {
                continue;
            }
            let lifetime = match mark {
                Mark::Short => caching.lifetime,
                Mark::Long => caching.long_lifetime,
            };
            if let Some(entry) = self.entries.get_mut(&segment.chain) {
                entry.kept_until = entry.kept_until.max(Some(now.after(lifetime)));
            }
        }
    }

    /// A read keeps the entry alive for another lifetime.
    pub(crate) fn refresh(&mut self, segment: &Segment, caching: &Caching, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&segment.chain)
            && entry.kept_until.is_some()
        {
            entry.kept_until = entry.kept_until.max(Some(now.after(caching.lifetime)));
        }
    }

    /// Learns how many tokens the vendor counted for a request.
    pub(crate) fn measure(&mut self, id: u32, chain: Fingerprint, bytes: u64, tokens: Tokens) {
        let Some(conversation) = self.conversations.get_mut(&id) else {
            return;
        };
        if tokens == Tokens::ZERO || bytes == 0 {
            return;
        }
        let (sum_bytes, sum_tokens) = self
            .rates
            .entry(Arc::clone(&conversation.model))
            .or_default();
        *sum_bytes = *sum_bytes / 2 + bytes;
        *sum_tokens = *sum_tokens / 2 + tokens.0;
        let measures = &mut conversation.measures;
        measures.retain(|measure| measure.bytes != bytes);
        if measures.len() >= MEASURES {
            measures.remove(MEASURES / 2);
        }
        measures.push(Measure {
            chain,
            bytes,
            tokens,
        });
        measures.sort_unstable_by_key(|measure| measure.bytes);
    }
}

/// The last segment at or before `mark`, at most `look_back` positions away, that is `kept`. A run
/// of tool calls, or of tool results, counts as one position.
fn within_reach(
    segments: &[Segment],
    mark: usize,
    look_back: u32,
    kept: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut positions = 0;
    let mut run = None;
    for (at, segment) in segments.iter().enumerate().take(mark + 1).rev() {
        let same_run =
            matches!(segment.kind, Kind::ToolCall | Kind::ToolResult) && run == Some(segment.kind);
        if !same_run {
            positions += 1;
        }
        run = Some(segment.kind);
        if positions > look_back {
            return None;
        }
        if kept(at) {
            return Some(at);
        }
    }
    None
}

fn scale(amount: u64, by: u64, over: u64) -> Tokens {
    let product = u128::from(amount) * u128::from(by) / u128::from(over.max(1));
    Tokens(u64::try_from(product).unwrap_or(u64::MAX))
}
