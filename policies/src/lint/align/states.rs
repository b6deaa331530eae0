//! Whether two segments are two states of one.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::TierAlignment;
use crate::lint::json;
use crate::lint::prompt::{Kind, Tier};
use crate::lint::words;

impl TierAlignment<'_> {
    /// Pairs old and new segments that are two states of one: tools by name, the rest in order by
    /// likeness and kind.
    pub(super) fn pair_up(
        &self,
        left: &[usize],
        came: &[usize],
    ) -> (Vec<(usize, usize)>, Vec<usize>, Vec<usize>) {
        let mut pairs = Vec::new();
        let mut rest_new: Vec<usize> = came.to_vec();
        let mut rest_old = Vec::new();
        for o in left {
            let by_name = |n: &&usize| {
                self.tool_name_old(*o)
                    .is_some_and(|name| self.tool_name_new(**n) == Some(name))
            };
            let in_order = |n: &&usize| self.kind_old(*o) == self.kind_new(**n);
            let found = if self.tier == Tier::Tools {
                rest_new.iter().find(by_name).copied()
            } else if left.len() == came.len() {
                // As many as before: each is the old one changed.
                rest_new.first().copied().filter(|n| in_order(&n))
            } else {
                rest_new
                    .iter()
                    .find(|n| in_order(n) && self.is_changed(*o, **n))
                    .copied()
            };
            match found {
                Some(n) => {
                    pairs.push((*o, n));
                    rest_new.retain(|at| *at != n);
                }
                None => rest_old.push(*o),
            }
        }
        (pairs, rest_old, rest_new)
    }

    /// Whether two segments of the conversation are plainly two states of one.
    pub(super) fn is_changed(&self, old: usize, new: usize) -> bool {
        const ALIKE: u32 = 60;
        const SURE: u32 = 80;
        if self.kind_old(old) != self.kind_new(new) {
            return false;
        }
        if self.kind_new(new) == Some(Kind::Image) {
            return true;
        }
        let (Some(before), Some(after)) = (self.text_old(old), self.text_new(new)) else {
            return false;
        };
        let least = match (call_id(before), call_id(after)) {
            (Some(a), Some(b)) if a == b => return true,
            (Some(_), Some(_)) => SURE,
            _ => ALIKE,
        };
        words::likeness(&said(before), &said(after)) >= least
    }

    /// Whether two segments are so alike that nothing else need speak for it.
    pub(super) fn is_surely_changed(&self, old: usize, new: usize) -> bool {
        const SURE: u32 = 95;
        const LONG: usize = 64;
        const WORD: usize = 16;
        let (Some(before), Some(after)) = (self.text_old(old), self.text_new(new)) else {
            return false;
        };
        let (before, after) = (said(before), said(after));
        words::likeness(&before, &after) >= SURE
            || (before.len() >= LONG && words::middle(&before, &after) <= WORD)
    }

    /// Whether two segments differ in no more than a value, or in their spelling.
    pub(super) fn is_nearly(&self, old: usize, new: usize) -> bool {
        const VALUE: usize = 64;
        let (Some(before), Some(after)) = (self.text_old(old), self.text_new(new)) else {
            // What is no longer kept is taken for the same.
            return true;
        };
        let spelled = |text: &[u8]| json::parse(text).map(|node| json::canonical(&node, text));
        let (said_before, said_after) = (said(before), said(after));
        words::middle(&said_before, &said_after) <= VALUE
            || (self.tier == Tier::Tools && spelled(before) == spelled(after))
    }

    fn kind_old(&self, at: usize) -> Option<Kind> {
        self.old.get(at).map(|known| known.kind)
    }

    fn kind_new(&self, at: usize) -> Option<Kind> {
        self.new.get(at).map(|segment| segment.kind)
    }

    fn text_old(&self, at: usize) -> Option<&[u8]> {
        self.old.get(at).and_then(|known| known.text.as_deref())
    }

    fn text_new(&self, at: usize) -> Option<&[u8]> {
        self.new.get(at).map(|segment| segment.text(self.body))
    }

    fn tool_name_old(&self, at: usize) -> Option<Vec<u8>> {
        self.text_old(at).and_then(tool_name)
    }

    fn tool_name_new(&self, at: usize) -> Option<Vec<u8>> {
        self.text_new(at).and_then(tool_name)
    }
}

/// The name of a tool, where the vendors put it.
pub(crate) fn tool_name(text: &[u8]) -> Option<Vec<u8>> {
    let root = json::parse(text)?;
    let inner = root
        .member(text, "function")
        .or_else(|| root.member(text, "toolSpec"));
    let name = inner
        .unwrap_or(&root)
        .member(text, "name")
        .or_else(|| root.member(text, "type"))?;
    Some(name.raw(text).to_vec())
}

/// What a message or block says, without the JSON around it; all of it where that is much, or no
/// plain text.
fn said(text: &[u8]) -> Cow<'_, [u8]> {
    const MUCH: usize = 64 << 10;
    let plain = || {
        let root = json::parse(text)?;
        let said = root
            .member(text, "content")
            .or_else(|| root.member(text, "text"))?;
        said.string(text)
            .map(|said| Cow::Owned(said.into_owned().into_bytes()))
    };
    let short = text.len() <= MUCH;
    short.then(plain).flatten().unwrap_or(Cow::Borrowed(text))
}

/// The call that a tool's answer belongs to.
fn call_id(text: &[u8]) -> Option<Vec<u8>> {
    let root = json::parse(text)?;
    ["tool_call_id", "tool_use_id", "call_id"]
        .into_iter()
        .find_map(|name| root.member(text, name))
        .map(|id| id.raw(text).to_vec())
}
