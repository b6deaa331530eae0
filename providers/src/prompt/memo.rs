//! Messages that were cut before.
//!
//! Where contents come in blocks, each block must be found, and that means reading the message's
//! bytes as JSON: 40 µs for a request of 105 KB. But an agent sends nearly all of it again each time.
//! So what a message was cut into is remembered under the fingerprint of its bytes, which costs a
//! tenth of that.
//!
//! Bounded by generations: when the young one is full it becomes the old one, and what is still in
//! use moves back. No lock: each worker keeps its own.

use std::collections::HashMap;

use whippletree_policies::lint::{Fingerprint, Kind, Mark, Segment, Tier};

/// One segment of a message, with places counted from the message's first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) tier: Tier,
    pub(super) kind: Kind,
    pub(super) block: Option<u32>,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) own: Fingerprint,
    pub(super) mark: Option<Mark>,
}

impl Piece {
    pub(super) fn of(segment: &Segment, message_start: usize) -> Self {
        let from = u32::try_from(message_start).unwrap_or(u32::MAX);
        Self {
            tier: segment.tier,
            kind: segment.kind,
            block: segment.address.block,
            start: segment.start.saturating_sub(from),
            end: segment.end.saturating_sub(from),
            own: segment.own,
            mark: segment.mark,
        }
    }
}

/// Messages that were cut before, at most as many pieces as it was made for.
#[derive(Debug)]
pub struct Memo {
    young: HashMap<Fingerprint, Box<[Piece]>>,
    old: HashMap<Fingerprint, Box<[Piece]>>,
    pieces: usize,
    most: usize,
}

impl Default for Memo {
    /// Up to 64,000 pieces: 2 to 4 MB.
    fn default() -> Self {
        Self::new(64_000)
    }
}

impl Memo {
    /// A memo of at most `most` pieces.
    pub fn new(most: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            pieces: 0,
            most,
        }
    }

    pub(super) fn find(&mut self, message: Fingerprint) -> Option<&[Piece]> {
        if !self.young.contains_key(&message) {
            let pieces = self.old.remove(&message)?;
            self.keep(message, pieces);
        }
        self.young.get(&message).map(|pieces| &**pieces)
    }

    pub(super) fn keep(&mut self, message: Fingerprint, pieces: Box<[Piece]>) {
        // An entry costs about as much as a piece.
        self.pieces += pieces.len() + 1;
        if self.pieces > self.most / 2 {
            self.old = std::mem::take(&mut self.young);
            self.pieces = pieces.len() + 1;
        }
        self.young.insert(message, pieces);
    }
}
