//! Which segment of a request stands where in the request before it.
//!
//! Equal segments are matched by fingerprint, as many as keep their order (a longest increasing
//! subsequence over the places where they stood). What lies between two matches is a gap: segments
//! that were replaced, removed or inserted there. Tools have names, so a tool whose text changed is
//! still known.

mod states;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

pub(crate) use self::states::tool_name;
use super::fingerprint::Fingerprint;
use super::history::Known;
use super::prompt::{Segment, Tier};

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// New, with a match after it.
    Inserted { new: usize },
    /// The same, elsewhere.
    Moved { old: usize, new: usize },
    /// Gone, with a match after it.
    Removed { old: usize, new: usize },
    /// Another text in its place.
    Replaced { old: usize, new: usize },
}

impl Edit {
    /// Where it is in the new request; for a removal, what stands there now.
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Inserted { new }
            | Self::Moved { new, .. }
            | Self::Removed { new, .. }
            | Self::Replaced { new, .. } => new,
        }
    }
}

/// A run of the old request and what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
    pub(crate) tier: Tier,
}

/// How two requests lie beside each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alignment {
    /// In the order of the new request.
    pub(crate) edits: Vec<Edit>,
    /// Runs that differ, each with a match after it in its tier.
    pub(crate) gaps: Vec<Gap>,
    /// Segments of the old request at its end that are gone.
    pub(crate) dropped_tail: usize,
    /// Bytes of the new request that the old one had too, wherever.
    pub(crate) shared_bytes: u64,
    /// Bytes of the conversation, system prompt and tools aside, that both have.
    pub(crate) shared_message_bytes: u64,
    /// Bytes of tools and system prompt that both have, alike ones counted.
    pub(crate) shared_head_bytes: u64,
    /// Bytes of the conversation that both have to the letter.
    pub(crate) equal_message_bytes: u64,
    /// Segments of the conversation that both have.
    pub(crate) shared_messages: usize,
    /// One past the last segment of the new request that the old one had, in order.
    pub(crate) last_shared: usize,
    /// A part of the tools or the system prompt came, went, or became quite another.
    pub(crate) other_head: bool,
    /// Parts of the conversation that changed so little that they are surely what they were.
    pub(crate) surely_changed: usize,
    /// Segments of the conversation matched after the first edit.
    pub(crate) matched_after: usize,
}

/// Lays a request beside the one before it.
pub(crate) fn align(old: &[Known], new: &[Segment], body: &[u8]) -> Alignment {
    let mut alignment = Alignment::default();
    for tier in [Tier::Tools, Tier::System, Tier::Messages] {
        let old_range = range_of(old, |known| known.tier, tier);
        let new_range = range_of(new, |segment| segment.tier, tier);
        let mut tier = TierAlignment {
            tier,
            old,
            new,
            body,
            out: &mut alignment,
        };
        tier.align(old_range, new_range);
    }
    alignment.edits.sort_by_key(|edit| edit.place());
    alignment
}

fn range_of<T>(list: &[T], tier_of: impl Fn(&T) -> Tier, tier: Tier) -> Range<usize> {
    let start = list
        .iter()
        .position(|item| tier_of(item) == tier)
        .unwrap_or(list.len());
    let end = list
        .iter()
        .rposition(|item| tier_of(item) == tier)
        .map_or(start, |at| at + 1);
    start..end
}

struct TierAlignment<'a> {
    tier: Tier,
    old: &'a [Known],
    new: &'a [Segment],
    body: &'a [u8],
    out: &'a mut Alignment,
}

impl TierAlignment<'_> {
    fn align(&mut self, old: Range<usize>, new: Range<usize>) {
        // What is in step from the start is matched so: texts that occur twice must not go astray.
        let in_step = self.in_step(&old, &new);
        let mut pairs = self.equal_pairs(
            &(old.start + in_step..old.end),
            &(new.start + in_step..new.end),
        );
        let start = (0..in_step).map(|step| (old.start + step, new.start + step));
        let mut kept: Vec<(usize, usize)> = start.chain(increasing(&pairs)).collect();
        if self.tier == Tier::Messages {
            let closing = closing(&kept, &old, &new);
            kept.truncate(kept.len() - closing);
            pairs.retain(|(o, _)| *o + closing < old.end);
        }
        let moved = self.moved(&pairs, &kept, &old, &new);
        let first_edit = self.first_edit(&kept, &old, &new);
        for n in kept.iter().map(|(_, n)| n).chain(moved.keys()) {
            let bytes = self.new.get(*n).map_or(0, Segment::bytes);
            self.out.shared_bytes += bytes;
            if self.tier == Tier::Messages {
                self.out.shared_message_bytes += bytes;
                self.out.equal_message_bytes += bytes;
                self.out.shared_messages += 1;
            } else {
                self.out.shared_head_bytes += bytes;
            }
        }
        if let Some((_, n)) = kept.last() {
            self.out.last_shared = self.out.last_shared.max(n + 1);
        }
        if self.tier == Tier::Messages {
            let later = |(_, n): &&(usize, usize)| first_edit.is_some_and(|edit| *n >= edit);
            self.out.matched_after = kept.iter().filter(later).count();
        }
        self.out
            .edits
            .extend(moved.iter().map(|(n, o)| Edit::Moved { old: *o, new: *n }));
        let gone: Vec<usize> = moved.values().copied().collect();
        if self.tier == Tier::Tools {
            // Tools are a set: one that moved and changed is still the tool of that name.
            let kept_old: Vec<usize> = kept.iter().map(|(o, _)| *o).chain(gone).collect();
            let kept_new: Vec<usize> = kept
                .iter()
                .map(|(_, n)| *n)
                .chain(moved.keys().copied())
                .collect();
            let left: Vec<usize> = old.clone().filter(|at| !kept_old.contains(at)).collect();
            let came: Vec<usize> = new.clone().filter(|at| !kept_new.contains(at)).collect();
            self.pair(&left, &came, &old, &new);
            return;
        }
        let (mut o, mut n) = (old.start, new.start);
        for (next_o, next_n) in kept.iter().copied() {
            self.gap(o..next_o, n..next_n, &moved, &gone);
            (o, n) = (next_o + 1, next_n + 1);
        }
        if self.tier == Tier::Messages {
            self.tail(o..old.end, n..new.end, &moved, &gone);
        } else {
            self.gap(o..old.end, n..new.end, &moved, &gone);
        }
    }

    /// Every new segment with every old one of equal text; for one new segment, the last old one
    /// comes first, so that a longest increasing run takes one of them.
    fn equal_pairs(&self, old: &Range<usize>, new: &Range<usize>) -> Vec<(usize, usize)> {
        const MOST: usize = 20_000;
        let mut places: BTreeMap<Fingerprint, Vec<usize>> = BTreeMap::new();
        for (at, known) in self
            .old
            .iter()
            .enumerate()
            .take(old.end)
            .skip(old.start)
            .rev()
        {
            places.entry(known.own).or_default().push(at);
        }
        let mut pairs = Vec::new();
        for (at, segment) in self.new.iter().enumerate().take(new.end).skip(new.start) {
            let found = places.get(&segment.own).into_iter().flatten();
            pairs.extend(found.map(|old| (*old, at)));
            if pairs.len() > MOST {
                break;
            }
        }
        pairs
    }

    /// New segments whose only equal stands elsewhere, with its place. A text that occurs more than
    /// once ("done", an empty result) is not taken for moved.
    fn moved(
        &self,
        pairs: &[(usize, usize)],
        kept: &[(usize, usize)],
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> BTreeMap<usize, usize> {
        const TELLING: u64 = 64;
        let once_old = |own| {
            self.old
                .iter()
                .take(old.end)
                .skip(old.start)
                .filter(|known| known.own == own)
                .count()
                == 1
        };
        let once_new = |own| {
            self.new
                .iter()
                .take(new.end)
                .skip(new.start)
                .filter(|s| s.own == own)
                .count()
                == 1
        };
        let in_place = |n: usize| kept.binary_search_by_key(&n, |(_, n)| *n).is_ok();
        // What follows the last match was appended, unless it stood near that match before.
        let near = |o: usize, n: usize| {
            self.tier != Tier::Messages
                || kept
                    .last()
                    .is_none_or(|(last_o, last_n)| n < *last_n || o + 3 >= *last_o)
        };
        pairs
            .iter()
            .filter(|(o, n)| !in_place(*n) && near(*o, *n))
            .filter(|(_, n)| {
                self.new.get(*n).is_some_and(|segment| {
                    (self.tier != Tier::Messages || segment.bytes() >= TELLING)
                        && once_old(segment.own)
                        && once_new(segment.own)
                })
            })
            .map(|(o, n)| (*n, *o))
            .collect()
    }

    fn in_step(&self, old: &Range<usize>, new: &Range<usize>) -> usize {
        let old = self.old.get(old.clone()).unwrap_or_default();
        let new = self.new.get(new.clone()).unwrap_or_default();
        let pairs = old.iter().zip(new);
        pairs
            .take_while(|(known, segment)| known.own == segment.own)
            .count()
    }

    fn first_edit(
        &self,
        kept: &[(usize, usize)],
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Option<usize> {
        let in_step = kept
            .iter()
            .zip(0..)
            .take_while(|((o, n), step)| *o == old.start + step && *n == new.start + step)
            .count();
        let ends = in_step == old.len() && self.out.edits.is_empty();
        (!ends).then_some(new.start + in_step)
    }

    /// A gap before a match.
    fn gap(
        &mut self,
        old: Range<usize>,
        new: Range<usize>,
        moved: &BTreeMap<usize, usize>,
        gone: &[usize],
    ) {
        let left: Vec<usize> = old.clone().filter(|at| !gone.contains(at)).collect();
        let came: Vec<usize> = new.clone().filter(|at| !moved.contains_key(at)).collect();
        self.pair(&left, &came, &old, &new);
    }

    /// What was left out and what came in its place.
    fn pair(&mut self, left: &[usize], came: &[usize], old: &Range<usize>, new: &Range<usize>) {
        if left.is_empty() && came.is_empty() {
            return;
        }
        let (replaced, rest_old, rest_new) = self.pair_up(left, came);
        let head = self.tier != Tier::Messages;
        self.out.other_head |= head && !(rest_old.is_empty() && rest_new.is_empty());
        for (o, n) in replaced {
            let alike = self.is_changed(o, n);
            self.out.other_head |= head && !self.is_nearly(o, n);
            self.share(n, alike);
            self.out.edits.push(Edit::Replaced { old: o, new: n });
        }
        let after = |o: usize| new.start + (o - old.start).min(new.len());
        let removed = rest_old.into_iter().map(|o| Edit::Removed {
            old: o,
            new: after(o),
        });
        self.out.edits.extend(removed);
        self.out
            .edits
            .extend(rest_new.into_iter().map(|n| Edit::Inserted { new: n }));
        self.out.gaps.push(Gap {
            old: old.clone(),
            new: new.clone(),
            tier: self.tier,
        });
    }

    /// The end of the conversation: what is new there was simply appended, unless it is plainly an
    /// old message changed.
    fn tail(
        &mut self,
        old: Range<usize>,
        new: Range<usize>,
        moved: &BTreeMap<usize, usize>,
        gone: &[usize],
    ) {
        let mut left: Vec<usize> = old.clone().filter(|at| !gone.contains(at)).collect();
        let came: Vec<usize> = new.clone().filter(|at| !moved.contains_key(at)).collect();
        let mut last_pair = None;
        for (o, n) in left.clone().into_iter().zip(came.iter().copied()) {
            if !self.is_changed(o, n) {
                break;
            }
            last_pair = Some((o, n));
            self.out.surely_changed += usize::from(self.is_surely_changed(o, n));
            self.share(n, true);
            self.out.edits.push(Edit::Replaced { old: o, new: n });
            left.retain(|at| *at != o);
        }
        if let Some((o, n)) = last_pair {
            self.out.gaps.push(Gap {
                old: old.start..o + 1,
                new: new.start..n + 1,
                tier: self.tier,
            });
        }
        self.out.dropped_tail += left.len();
    }

    /// Counts a segment that changed as one that both requests have.
    fn share(&mut self, new: usize, alike: bool) {
        let bytes = self.new.get(new).map_or(0, Segment::bytes);
        self.out.last_shared = self.out.last_shared.max(new + 1);
        self.out.shared_bytes += bytes;
        match self.tier {
            Tier::Messages if alike => {
                self.out.shared_message_bytes += bytes;
                self.out.shared_messages += 1;
            }
            Tier::System | Tier::Tools if alike => self.out.shared_head_bytes += bytes,
            Tier::Messages | Tier::System | Tier::Tools => {}
        }
    }
}

/// How many of the last pairs are a text that closes each request (a reminder, the present state) and
/// is not kept: it stands at both ends, and what is new was put right before it.
fn closing(kept: &[(usize, usize)], old: &Range<usize>, new: &Range<usize>) -> usize {
    const MOST: usize = 3;
    let ends = kept
        .iter()
        .rev()
        .zip(1..)
        .take_while(|((o, n), back)| o + back == old.end && n + back == new.end)
        .count();
    let before = kept.len().checked_sub(ends + 1).and_then(|at| kept.get(at));
    let (last_o, last_n) = before.map_or((old.start, new.start), |(o, n)| (o + 1, n + 1));
    let only_put_before = last_o + ends == old.end && last_n + ends < new.end;
    if (1..=MOST).contains(&ends) && only_put_before {
        ends
    } else {
        0
    }
}

/// A longest subsequence of pairs whose old places grow too.
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // Patience sorting: the smallest end of a run of each length, and who came before.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    let old = |at: usize| pairs.get(at).map_or(usize::MAX, |(o, _)| *o);
    for at in 0..pairs.len() {
        let place = ends.partition_point(|end| old(*end) < old(at));
        if let Some(cell) = before.get_mut(at) {
            *cell = place
                .checked_sub(1)
                .and_then(|place| ends.get(place))
                .copied();
        }
        match ends.get_mut(place) {
            // Of two new places for one old one, the earlier.
            Some(end) if old(*end) == old(at) => {}
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        run.extend(pairs.get(at).copied());
        next = before.get(at).copied().flatten();
    }
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_in_order_is_kept() {
        let pairs = [(1, 0), (0, 1), (2, 2), (4, 3), (3, 4)];
        let kept = increasing(&pairs);
        assert_eq!(kept.len(), 3);
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        assert!(increasing(&[]).is_empty());
    }
}
