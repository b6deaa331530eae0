//! What was sent before: a bounded memory of prefixes.
//!
//! Every segment of a request has a chain fingerprint, so "which prefix is known" is a look-up from
//! the end backwards: a conversation that only grows is found within a few steps. An entry says
//! which conversation sent that prefix last, when, and until when the vendor keeps it.
//!
//! Text is kept only for the leading segments of each conversation, shared between conversations
//! that begin alike, so that a divergence can be shown; everything else is fingerprints. All memory
//! is bounded by [`Bounds`]; the least recently used conversation goes first.

mod reading;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::reading::{MEASURES, Measure};
use super::fingerprint::Fingerprint;
use super::habits::Habits;
use super::prompt::{Address, Call, Kind, Mark, Place, Prompt, Segment, Tier};
use crate::time::Instant;

/// How much may be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Conversations.
    pub conversations: usize,
    /// Segments of all conversations together; about 150 bytes each.
    pub segments: usize,
    /// Bytes of leading text for one conversation.
    pub text_of_one: u64,
    /// Bytes of leading text for all conversations together.
    pub text_of_all: u64,
}

impl Default for Bounds {
    /// 4,096 conversations, 400,000 segments (60 MB), 64 KiB of text for one conversation and
    /// 64 MiB for all.
    fn default() -> Self {
        Self {
            conversations: 4096,
            segments: 400_000,
            text_of_one: 64 << 10,
            text_of_all: 64 << 20,
        }
    }
}

/// A segment that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) own: Fingerprint,
    pub(crate) chain: Fingerprint,
    pub(crate) tier: Tier,
    pub(crate) kind: Kind,
    pub(crate) address: Address,
    pub(crate) bytes: u32,
    pub(crate) mark: Option<Mark>,
    pub(crate) text: Option<Arc<[u8]>>,
}

/// Requests of which each grew out of the one before.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) known: Vec<Known>,
    /// Of all known segments.
    pub(crate) bytes: u64,
    pub(crate) last: Instant,
    /// The caller's number of the latest request.
    pub(crate) number: u64,
    pub(crate) model: Arc<str>,
    pub(crate) effort: Option<Fingerprint>,
    pub(crate) tool_choice: Option<Fingerprint>,
    pub(crate) cache_key: Option<Fingerprint>,
    pub(crate) task: Option<Fingerprint>,
    pub(crate) place: Place,
    pub(crate) marks: u32,
    pub(crate) habits: Habits,
    measures: Vec<Measure>,
    stale: Vec<Fingerprint>,
    anchors: [Option<Fingerprint>; 4],
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    conversation: u32,
    seen: Instant,
    /// The vendor keeps an entry that ends here until then.
    kept_until: Option<Instant>,
}

/// The memory of one shard.
#[derive(Debug)]
pub(crate) struct History {
    bounds: Bounds,
    entries: BTreeMap<Fingerprint, Entry>,
    conversations: BTreeMap<u32, Box<Conversation>>,
    order: BTreeSet<(Instant, u32)>,
    next: u32,
    anchors: BTreeMap<Fingerprint, u32>,
    tasks: BTreeMap<Fingerprint, u32>,
    texts: BTreeMap<Fingerprint, Arc<[u8]>>,
    text_bytes: u64,
    segments: usize,
    /// Bytes and tokens told for each model, to guess the length of what was not told.
    rates: BTreeMap<Arc<str>, (u64, u64)>,
}

impl History {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            entries: BTreeMap::new(),
            conversations: BTreeMap::new(),
            order: BTreeSet::new(),
            next: 0,
            anchors: BTreeMap::new(),
            tasks: BTreeMap::new(),
            texts: BTreeMap::new(),
            text_bytes: 0,
            segments: 0,
            rates: BTreeMap::new(),
        }
    }

    pub(crate) fn conversation(&self, id: u32) -> Option<&Conversation> {
        self.conversations
            .get(&id)
            .map(|conversation| &**conversation)
    }

    pub(crate) fn conversation_mut(&mut self, id: u32) -> Option<&mut Conversation> {
        self.conversations
            .get_mut(&id)
            .map(|conversation| &mut **conversation)
    }

    pub(crate) fn len(&self) -> usize {
        self.conversations.len()
    }

    /// Bytes in use, from the sizes of what is held; tree nodes are taken to be two thirds full.
    pub(crate) fn memory(&self) -> u64 {
        let sized = |count: usize, each: usize| u64::try_from(count * each * 3 / 2).unwrap_or(0);
        let known = sized(self.segments, size_of::<Known>());
        known
            + self.text_bytes
            + sized(self.entries.len(), size_of::<(Fingerprint, Entry)>())
            + sized(
                self.conversations.len(),
                size_of::<Conversation>()
                    + size_of::<(Instant, u32)>()
                    + MEASURES * size_of::<Measure>(),
            )
            + sized(self.anchors.len() + self.tasks.len(), 12)
            + sized(self.texts.len(), 24 + 16)
    }

    /// How many leading segments are known, and the conversation that sent them last.
    pub(crate) fn longest(&self, segments: &[Segment]) -> Option<(usize, u32)> {
        const STEPS: usize = 32;
        let known = |count: usize| {
            let last = segments.get(count.checked_sub(1)?)?;
            self.entries
                .get(&last.chain)
                .map(|entry| (count, entry.conversation))
        };
        let near = segments.len().saturating_sub(STEPS);
        if let Some(found) = (near + 1..=segments.len()).rev().find_map(known) {
            return Some(found);
        }
        // A prefix of a known prefix is known too, so the rest can be halved.
        let (mut low, mut high) = (0, near);
        let mut best = None;
        while low < high {
            let middle = (low + high).div_ceil(2);
            match known(middle) {
                Some(found) => {
                    best = Some(found);
                    low = middle;
                }
                None => high = middle - 1,
            }
        }
        best
    }

    /// The conversation that ends within the `known` leading segments: what a request that only
    /// appends goes on from.
    pub(crate) fn ends_within(&self, segments: &[Segment], known: usize) -> Option<u32> {
        const STEPS: usize = 48;
        let mut counts = (1..=known).rev().take(STEPS);
        counts.find_map(|count| {
            let last = segments.get(count - 1)?;
            let id = self.entries.get(&last.chain)?.conversation;
            let known = &self.conversation(id)?.known;
            let ends = known.len() == count && known.last()?.chain == last.chain;
            ends.then_some(id)
        })
    }

    /// Conversations that a request may have grown out of although its prefix is broken: those that
    /// ended with one of its last messages, began with its first one, or bear its task.
    pub(crate) fn candidates(&self, segments: &[Segment], task: Option<Fingerprint>) -> Vec<u32> {
        const LATE: usize = 48;
        let messages = segments
            .iter()
            .filter(|segment| segment.tier == Tier::Messages);
        let first = messages.clone().next();
        let by_task = task.and_then(|task| self.tasks.get(&task)).copied();
        let anchors = messages
            .rev()
            .take(LATE)
            .chain(first)
            .filter_map(|segment| self.anchors.get(&segment.own).copied());
        // A common message ("ok") leads to many conversations, the right one is led to often.
        let mut votes: Vec<(u32, u32)> = Vec::new();
        for id in anchors.chain(by_task) {
            match votes.iter_mut().find(|(known, _)| *known == id) {
                Some((_, count)) => *count += 1,
                None => votes.push((id, 1)),
            }
        }
        votes.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
        votes.into_iter().map(|(id, _)| id).collect()
    }

    /// Remembers a request as the latest of conversation `id`, or of a new one; the conversation.
    pub(crate) fn remember(
        &mut self,
        prompt: &Prompt<'_>,
        call: &Call<'_>,
        known: usize,
        into: Option<u32>,
        now: Instant,
    ) -> u32 {
        let id = into.unwrap_or_else(|| self.open(call, now));
        let Some(mut conversation) = self.conversations.remove(&id) else {
            return id;
        };
        self.order.remove(&(conversation.last, id));
        self.grow(
            id,
            &mut conversation,
            &prompt.segments,
            known,
            prompt.body,
            now,
        );
        conversation.last = conversation.last.max(now);
        conversation.number = call.number;
        if *conversation.model != *call.model {
            conversation.model = Arc::from(call.model);
        }
        conversation.effort = prompt.effort;
        conversation.tool_choice = prompt.tool_choice;
        conversation.cache_key = prompt.cache_key;
        conversation.place = call.place;
        conversation.marks = prompt.marks;
        if call.task.is_some() {
            conversation.task = call.task;
        }
        if let Some(task) = call.task {
            self.tasks.insert(task, id);
        }
        self.anchor(id, &mut conversation);
        self.order.insert((conversation.last, id));
        self.conversations.insert(id, conversation);
        self.keep(prompt, call.caching, call.model, id, now);
        self.shrink();
        id
    }

    fn open(&mut self, call: &Call<'_>, now: Instant) -> u32 {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let conversation = Conversation {
            known: Vec::new(),
            bytes: 0,
            last: now,
            number: call.number,
            model: Arc::from(call.model),
            effort: None,
            tool_choice: None,
            cache_key: None,
            task: None,
            place: Place::default(),
            marks: 0,
            habits: Habits::default(),
            measures: Vec::new(),
            stale: Vec::new(),
            anchors: [None; 4],
        };
        self.conversations.insert(id, Box::new(conversation));
        id
    }

    /// Makes the known segments of a conversation those of its latest request.
    fn grow(
        &mut self,
        id: u32,
        conversation: &mut Conversation,
        segments: &[Segment],
        known: usize,
        body: &[u8],
        now: Instant,
    ) {
        let own_prefix = conversation
            .known
            .iter()
            .zip(segments)
            .take_while(|(known, segment)| known.chain == segment.chain)
            .count();
        if own_prefix < conversation.known.len() && own_prefix == segments.len() {
            // Sent again from an earlier point: what followed is still true.
            if let Some(entry) = segments.last().and_then(|s| self.entries.get_mut(&s.chain)) {
                entry.seen = now;
            }
            return;
        }
        for dropped in conversation.known.split_off(own_prefix) {
            conversation.stale.push(dropped.chain);
            self.forget_text(dropped);
        }
        let mut bytes: u64 = conversation
            .known
            .iter()
            .map(|known| u64::from(known.bytes))
            .sum();
        for segment in segments.get(own_prefix..).unwrap_or_default() {
            let text = self.text_of(segment, bytes, body);
            conversation.known.push(Known {
                own: segment.own,
                chain: segment.chain,
                tier: segment.tier,
                kind: segment.kind,
                address: segment.address,
                bytes: u32::try_from(segment.bytes()).unwrap_or(u32::MAX),
                mark: segment.mark,
                text,
            });
            self.segments += 1;
            bytes += segment.bytes();
            let entry = self.entries.entry(segment.chain).or_insert(Entry {
                conversation: id,
                seen: now,
                kept_until: None,
            });
            entry.conversation = id;
            entry.seen = entry.seen.max(now);
        }
        conversation.bytes = bytes;
        if own_prefix > 0 && own_prefix == known {
            let last = segments.get(own_prefix - 1);
            if let Some(entry) = last.and_then(|segment| self.entries.get_mut(&segment.chain)) {
                entry.seen = entry.seen.max(now);
            }
        }
        let most = conversation.known.len() * 4 + 64;
        if conversation.stale.len() > most {
            let gone = conversation.stale.len() - most / 2;
            for chain in conversation.stale.drain(..gone) {
                forget_entry(&mut self.entries, chain, id);
            }
        }
        let chains: Vec<Fingerprint> = conversation.measures.iter().map(|m| m.chain).collect();
        if own_prefix < segments.len() && !chains.is_empty() {
            conversation.measures.retain(|measure| {
                conversation
                    .known
                    .iter()
                    .any(|known| known.chain == measure.chain)
            });
        }
    }

    fn text_of(&mut self, segment: &Segment, before: u64, body: &[u8]) -> Option<Arc<[u8]>> {
        if before + segment.bytes() > self.bounds.text_of_one {
            return None;
        }
        let written = segment.text(body);
        if let Some(text) = self.texts.get(&segment.own)
            && **text == *written
        {
            return Some(Arc::clone(text));
        }
        if self.text_bytes + segment.bytes() > self.bounds.text_of_all {
            return None;
        }
        let text: Arc<[u8]> = Arc::from(written);
        if let Some(old) = self.texts.insert(segment.own, Arc::clone(&text)) {
            self.text_bytes = self.text_bytes.saturating_sub(old.len() as u64);
        }
        self.text_bytes += segment.bytes();
        Some(text)
    }

    fn forget_text(&mut self, known: Known) {
        self.segments = self.segments.saturating_sub(1);
        let Some(text) = known.text else { return };
        // One here, one in the store: nobody else begins with it.
        if Arc::strong_count(&text) <= 2
            && self
                .texts
                .get(&known.own)
                .is_some_and(|kept| Arc::ptr_eq(kept, &text))
        {
            self.texts.remove(&known.own);
            self.text_bytes = self.text_bytes.saturating_sub(text.len() as u64);
        }
    }

    /// The first message and the last two lead back to a conversation whose prefix was broken.
    fn anchor(&mut self, id: u32, conversation: &mut Conversation) {
        for old in conversation.anchors.iter_mut().filter_map(Option::take) {
            if self.anchors.get(&old) == Some(&id) {
                self.anchors.remove(&old);
            }
        }
        let messages = || {
            conversation
                .known
                .iter()
                .filter(|known| known.tier == Tier::Messages)
        };
        let first = messages().next();
        let mut last = messages().rev();
        let anchors = [first, last.next(), last.next(), last.next()];
        conversation.anchors = anchors.map(|known| known.map(|known| known.own));
        for own in conversation.anchors.iter().flatten() {
            self.anchors.insert(*own, id);
        }
    }

    fn shrink(&mut self) {
        while self.conversations.len() > self.bounds.conversations.max(1)
            || (self.segments > self.bounds.segments && self.conversations.len() > 1)
        {
            let Some((_, id)) = self.order.pop_first() else {
                return;
            };
            let Some(conversation) = self.conversations.remove(&id) else {
                continue;
            };
            for chain in conversation.stale {
                forget_entry(&mut self.entries, chain, id);
            }
            for own in conversation.anchors.iter().flatten() {
                if self.anchors.get(own) == Some(&id) {
                    self.anchors.remove(own);
                }
            }
            if let Some(task) = conversation.task
                && self.tasks.get(&task) == Some(&id)
            {
                self.tasks.remove(&task);
            }
            for known in conversation.known {
                forget_entry(&mut self.entries, known.chain, id);
                self.forget_text(known);
            }
        }
    }
}

fn forget_entry(entries: &mut BTreeMap<Fingerprint, Entry>, chain: Fingerprint, owner: u32) {
    if entries
        .get(&chain)
        .is_some_and(|entry| entry.conversation == owner)
    {
        entries.remove(&chain);
    }
}
