//! Conversations that begin almost alike.
//!
//! A name or an identifier in the system prompt that stays the same within a conversation breaks
//! nothing there, yet no two conversations share a prefix. So the heads of conversations, tools and
//! system prompt, are kept for a while; a new conversation whose head is not known is laid beside
//! the one most like it. A rule that recognises the difference at enough cold starts has a finding.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::fingerprint::Fingerprint;
use super::history::Known;
use super::prompt::{Prompt, Segment};
use super::words;

const HEADS: usize = 24;
/// Heads below this length do not matter, and are all alike.
const SHORT: u64 = 256;
const ALIKE: u64 = 60;

/// The beginning of conversations: tools and system prompt.
#[derive(Clone, Debug)]
struct Head {
    known: Vec<Known>,
    chain: Fingerprint,
    family: u32,
    number: u64,
}

/// Heads that are alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family {
    /// Conversations.
    pub(crate) starts: u32,
    /// Requests of all of them.
    pub(crate) requests: u64,
    /// Conversations that began cold, by the rule that knows why.
    pub(crate) cold: BTreeMap<&'static str, u32>,
}

/// What is known of the beginnings of conversations, and of cache keys.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    heads: VecDeque<Head>,
    families: BTreeMap<u32, Family>,
    next: u32,
    /// The bytes of the latest request under each cache key.
    keys: BTreeMap<Fingerprint, u64>,
}

/// A head like that of a new conversation.
#[derive(Clone, Debug)]
pub(crate) struct Sibling {
    pub(crate) known: Vec<Known>,
    pub(crate) family: u32,
    pub(crate) number: u64,
}

impl Fleet {
    /// The head most like that of `prompt`; `None` where the same head is known, or none like it.
    pub(crate) fn sibling(&self, prompt: &Prompt<'_>, head: usize) -> Option<Sibling> {
        let segments = prompt.segments.get(..head)?;
        let chain = segments.last()?.chain;
        if prompt.bytes_of(head) < SHORT || self.heads.iter().any(|known| known.chain == chain) {
            return None;
        }
        self.heads
            .iter()
            .rev()
            .map(|known| (likeness(&known.known, segments, prompt.body), known))
            .filter(|(likeness, _)| *likeness >= ALIKE)
            .max_by_key(|(likeness, _)| *likeness)
            .map(|(_, head)| Sibling {
                known: head.known.clone(),
                family: head.family,
                number: head.number,
            })
    }

    /// Notes the head of a new conversation; its family.
    pub(crate) fn begin(
        &mut self,
        known: &[Known],
        family: Option<u32>,
        number: u64,
    ) -> Option<u32> {
        let chain = known.last()?.chain;
        let same = self.heads.iter().position(|head| head.chain == chain);
        let family = same
            .and_then(|at| self.heads.get(at))
            .map(|head| head.family)
            .or(family)
            .unwrap_or_else(|| {
                self.next = self.next.wrapping_add(1);
                self.next
            });
        let head = same
            .and_then(|at| self.heads.remove(at))
            .unwrap_or_else(|| Head {
                known: known.to_vec(),
                chain,
                family,
                number,
            });
        self.heads.push_back(head);
        self.families.entry(family).or_default().starts += 1;
        if self.heads.len() > HEADS {
            self.heads.pop_front();
            let living: Vec<u32> = self.heads.iter().map(|head| head.family).collect();
            self.families.retain(|family, _| living.contains(family));
        }
        Some(family)
    }

    pub(crate) fn family(&mut self, family: u32) -> Option<&mut Family> {
        self.families.get_mut(&family)
    }

    /// Notes a request under a cache key; the bytes of the one before it.
    pub(crate) fn under_key(&mut self, key: Fingerprint, bytes: u64) -> Option<u64> {
        const KEYS: usize = 4096;
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            self.keys.pop_first();
        }
        self.keys.insert(key, bytes)
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> u64 {
        let heads: usize = self
            .heads
            .iter()
            .map(|head| head.known.len() * size_of::<Known>())
            .sum();
        u64::try_from(heads + self.keys.len() * 24 + self.families.len() * 96).unwrap_or(u64::MAX)
    }
}

/// How alike two heads are, in hundredths of the longer one's bytes.
fn likeness(old: &[Known], new: &[Segment], body: &[u8]) -> u64 {
    let bytes = |known: &Known| u64::from(known.bytes);
    let longer = old
        .iter()
        .map(bytes)
        .sum::<u64>()
        .max(new.iter().map(Segment::bytes).sum());
    let mut left: Vec<&Known> = old.iter().collect();
    let mut same = 0;
    let mut rest = Vec::new();
    for segment in new {
        match left.iter().position(|known| known.own == segment.own) {
            Some(at) => {
                left.remove(at);
                same += segment.bytes();
            }
            None => rest.push(segment),
        }
    }
    for (known, segment) in left.iter().filter(|known| known.text.is_some()).zip(&rest) {
        let before = known.text.as_deref().unwrap_or_default();
        same += u64::from(words::ends_alike(before, segment.text(body))) * segment.bytes() / 100;
    }
    same * 100 / longer.max(1)
}
