//! What the rules look at: one request beside the one it grew out of.
//!
//! The scene names every difference once. A rule claims those that it can explain, in the order of
//! the registry, so that one cause is one finding; what nobody claims goes to the general rules at
//! the end of each family.

use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use super::align::{Alignment, Edit};
use super::difference::{Difference, Hunk, differences};
use super::finding::Scope;
use super::habits::Habits;
use super::history::Known;
use super::prompt::{Call, Kind, Prompt, Segment, Tier};
use crate::units::Tokens;

/// Facts about one request, before any rule ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    /// Leading segments sent before.
    pub(crate) known: usize,
    /// Leading segments that the vendor should read from its cache.
    pub(crate) readable: usize,
    /// Tokens of those, by the vendor's rules.
    pub(crate) expected: Tokens,
    /// Tokens that would have been read as well, were it not for the divergence.
    pub(crate) lost: Tokens,
    /// Tokens of everything known, whether or not the vendor still has it.
    pub(crate) known_tokens: Tokens,
    /// Tokens of the whole prompt, by estimate.
    pub(crate) prompt_tokens: Tokens,
    /// Since the request before.
    pub(crate) gap: Duration,
    /// What changed beside the text.
    pub(crate) switched: Switched,
    /// The share, in hundredths, that a request shares with the one before under its cache key.
    pub(crate) shared_under_key: Option<u32>,
    /// Cache marks of the request before.
    pub(crate) marks_before: u32,
}

/// What changed beside the text, from one request of a conversation to the next.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "six independent facts, no state"
)]
pub(crate) struct Switched {
    pub(crate) model: bool,
    pub(crate) effort: bool,
    pub(crate) tool_choice: bool,
    pub(crate) key: bool,
    pub(crate) region: bool,
    pub(crate) fallback: bool,
}

/// One difference, in a pair of segments.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) old: usize,
    pub(crate) new: usize,
    pub(crate) difference: Difference,
}

/// Everything that a rule may look at.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) prompt: &'a Prompt<'a>,
    pub(crate) call: &'a Call<'a>,
    pub(crate) scope: Scope,
    pub(crate) previous: Option<u64>,
    pub(crate) old: &'a [Known],
    pub(crate) alignment: &'a Alignment,
    pub(crate) changes: Vec<Change>,
    pub(crate) habits: &'a Habits,
    pub(crate) turn: &'a Turn,
}

impl<'a> Scene<'a> {
    pub(crate) fn segment(&self, at: usize) -> Option<&'a Segment> {
        self.prompt.segments.get(at)
    }

    pub(crate) fn known(&self, at: usize) -> Option<&'a Known> {
        self.old.get(at)
    }

    pub(crate) fn text(&self, at: usize) -> &'a [u8] {
        self.segment(at)
            .map_or(&[][..], |segment| segment.text(self.prompt.body))
    }

    pub(crate) fn old_text(&self, at: usize) -> Option<&'a [u8]> {
        self.known(at).and_then(|known| known.text.as_deref())
    }

    /// The first segment that is not where it was.
    pub(crate) fn first_difference(&self) -> usize {
        let pairs = self.old.iter().zip(&self.prompt.segments);
        pairs
            .take_while(|(known, segment)| known.own == segment.own)
            .count()
    }

    /// Tokens of the first `count` segments, by their share of the whole.
    pub(crate) fn tokens_of(&self, count: usize) -> Tokens {
        let all = self.prompt.bytes_of(self.prompt.segments.len()).max(1);
        Tokens(
            self.turn
                .prompt_tokens
                .0
                .saturating_mul(self.prompt.bytes_of(count))
                / all,
        )
    }

    pub(crate) fn kind(&self, at: usize) -> Kind {
        self.segment(at).map_or(Kind::Other, |segment| segment.kind)
    }
}

/// The differences of all replaced segments whose former text is known.
pub(crate) fn changes(old: &[Known], prompt: &Prompt<'_>, alignment: &Alignment) -> Vec<Change> {
    const MOST_SEGMENTS: usize = 24;
    let replaced = alignment.edits.iter().filter_map(|edit| match edit {
        Edit::Replaced { old, new } => Some((*old, *new)),
        Edit::Inserted { .. } | Edit::Moved { .. } | Edit::Removed { .. } => None,
    });
    let mut found = Vec::new();
    for (o, n) in replaced.take(MOST_SEGMENTS) {
        let before = old.get(o).and_then(|known| known.text.as_deref());
        let after = prompt
            .segments
            .get(n)
            .map(|segment| segment.text(prompt.body));
        if let (Some(before), Some(after)) = (before, after) {
            found.extend(
                differences(before, after)
                    .into_iter()
                    .map(|difference| Change {
                        old: o,
                        new: n,
                        difference,
                    }),
            );
        }
    }
    found
}

/// A difference between two texts, as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) before: &'a str,
    pub(crate) after: &'a str,
    pub(crate) hunk: &'a Hunk,
    pub(crate) path: &'a str,
    pub(crate) kind: Kind,
    pub(crate) tier: Tier,
    pub(crate) scope: Scope,
}

impl<'a> Sight<'a> {
    /// What stood there.
    pub(crate) fn was(&self) -> &'a str {
        self.before
            .get(self.hunk.before.clone())
            .unwrap_or_default()
    }

    /// What stands there.
    pub(crate) fn is(&self) -> &'a str {
        self.after.get(self.hunk.after.clone()).unwrap_or_default()
    }

    /// A reading of both sides around the difference, when both have one and they differ.
    pub(crate) fn both<T: PartialEq>(
        &self,
        read: impl Fn(&'a str, &Range<usize>) -> Option<T>,
    ) -> Option<(T, T)> {
        const SMALL: usize = 256;
        if self.hunk.before.len() > SMALL || self.hunk.after.len() > SMALL {
            return None;
        }
        let was = read(self.before, &self.hunk.before)?;
        let is = read(self.after, &self.hunk.after)?;
        (was != is).then_some((was, is))
    }

    /// Whether one of the words stands right before the place, or in the path to it.
    pub(crate) fn is_labelled(&self, words: &[&str]) -> bool {
        use super::shape::token::{label, mentions};
        const NEAR: usize = 24;
        let label = label(self.after, &self.hunk.after);
        let from = super::words::floor_boundary(label, label.len().saturating_sub(NEAR));
        mentions(label.get(from..).unwrap_or_default(), words) || mentions(self.path, words)
    }

    /// What the place is called: the text before it, and the path to it.
    pub(crate) fn is_called(&self, words: &[&str]) -> bool {
        use super::shape::token::{label, mentions};
        mentions(label(self.after, &self.hunk.after), words) || mentions(self.path, words)
    }
}
