//! Which conversation a request goes on from, without any session id.

use super::Lint;
use crate::lint::align::{Alignment, Edit, align};
use crate::lint::history::Conversation;
use crate::lint::prompt::{Call, Kind, Prompt, Segment, Tier};
use crate::time::Instant;

/// How a request stands to what was sent before.
pub(super) enum Relation {
    /// It goes on from a conversation without touching it.
    Extends(u32),
    /// It begins a conversation.
    New,
    /// It goes on from a conversation and changes what was sent.
    Rewrites(u32, Alignment),
}

impl Lint {
    pub(super) fn relate(
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
}

/// Whether the first `known` segments are still what a conversation begins with.
fn holds(conversation: &Conversation, known: usize, segments: &[Segment]) -> bool {
    let last = known.checked_sub(1);
    let old = last.and_then(|at| conversation.known.get(at));
    let new = last.and_then(|at| segments.get(at));
    matches!((old, new), (Some(old), Some(new)) if old.chain == new.chain)
}
