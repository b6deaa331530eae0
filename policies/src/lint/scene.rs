//! What the rules look at: one request beside the one it grew out of.
//!
//! The scene names every difference once. A rule claims those that it can explain, in the order of
//! the registry, so that one cause is one finding; what nobody claims goes to the general rules at
//! the end of each family.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use super::align::{Alignment, Edit};
use super::difference::{Difference, Hunk, Nature, differences};
use super::finding::{Finding, Meta, Scope, Severity, Spot};
use super::habits::Habits;
use super::history::Known;
use super::prompt::{Call, Kind, Prompt, Segment, Tier};
use super::window;
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

/// What rules write to.
#[derive(Debug)]
pub(crate) struct Report<'s, 'a> {
    pub(crate) scene: &'s Scene<'a>,
    pub(crate) findings: Vec<Finding>,
    rule: Option<&'static Meta>,
    claimed_hunks: Vec<(usize, usize)>,
    claimed_changes: Vec<usize>,
    claimed_edits: Vec<usize>,
}

impl<'s, 'a> Report<'s, 'a> {
    pub(crate) const fn new(scene: &'s Scene<'a>) -> Self {
        Self {
            scene,
            findings: Vec::new(),
            rule: None,
            claimed_hunks: Vec::new(),
            claimed_changes: Vec::new(),
            claimed_edits: Vec::new(),
        }
    }

    /// The rule that runs next.
    pub(crate) const fn begin(&mut self, rule: &'static Meta) {
        self.rule = Some(rule);
    }

    /// Claims every unexplained difference between texts that the rule recognises; the first one is
    /// where the finding points.
    pub(crate) fn claim_hunks(
        &mut self,
        recognise: impl Fn(&Sight<'_>) -> bool,
        say: impl Fn(&Sight<'_>) -> String,
    ) {
        let scene = self.scene;
        let mut places = 0;
        for (at, change) in scene.changes.iter().enumerate() {
            if change.difference.nature != Nature::Text {
                continue;
            }
            for (number, hunk) in change.difference.hunks.iter().enumerate() {
                let open = !self.claimed_hunks.contains(&(at, number));
                let Some(sight) =
                    sight(scene, change, hunk).filter(|sight| open && recognise(sight))
                else {
                    continue;
                };
                self.claimed_hunks.push((at, number));
                places += 1;
                if places == 1 {
                    let spot =
                        spot_in(scene, change, hunk.raw, Some(hunk.offset), sight.is().len());
                    let windows = (
                        Some(window::around(
                            sight.before,
                            &whole(sight.before, &hunk.before),
                        )),
                        Some(window::around(
                            sight.after,
                            &whole(sight.after, &hunk.after),
                        )),
                    );
                    self.push(spot, windows, say(&sight));
                }
            }
        }
        self.places(places);
    }

    /// Claims every unexplained difference of another nature.
    pub(crate) fn claim_changes(
        &mut self,
        recognise: impl Fn(&Change, &Segment) -> bool,
        say: impl Fn(&Change) -> String,
    ) {
        let scene = self.scene;
        let mut places = 0;
        for (at, change) in scene.changes.iter().enumerate() {
            let Some(segment) = scene.segment(change.new) else {
                continue;
            };
            if self.claimed_changes.contains(&at) || !recognise(change, segment) {
                continue;
            }
            self.claimed_changes.push(at);
            let hunks = 0..change.difference.hunks.len();
            self.claimed_hunks.extend(hunks.map(|hunk| (at, hunk)));
            places += 1;
            if places == 1 {
                let range = change.difference.after.clone();
                let spot = spot_in(scene, change, range.start, None, range.len());
                let before = scene
                    .old_text(change.old)
                    .map(|text| window::of_bytes(text, &change.difference.before));
                let after = Some(window::of_bytes(scene.text(change.new), &range));
                self.push(spot, (before, after), say(change));
            }
        }
        self.places(places);
    }

    /// Claims unexplained edits of whole segments.
    pub(crate) fn claim_edits(
        &mut self,
        recognise: impl Fn(&Edit) -> bool,
        say: impl Fn(&Edit, u32) -> String,
    ) {
        let scene = self.scene;
        let mut first = None;
        let mut places = 0;
        for (at, edit) in scene.alignment.edits.iter().enumerate() {
            if !self.is_open(at, edit) || !recognise(edit) {
                continue;
            }
            self.claimed_edits.push(at);
            places += 1;
            first = first.or(Some(*edit));
        }
        if let Some(edit) = first {
            self.add_at(edit, say(&edit, places));
            self.places(places);
        }
    }

    /// Whether nobody has explained an edit: not it, nor any difference within it.
    fn is_open(&self, at: usize, edit: &Edit) -> bool {
        let explained = match edit {
            Edit::Replaced { new, .. } => {
                self.scene.changes.iter().enumerate().any(|(change, c)| {
                    c.new == *new
                        && (self.claimed_changes.contains(&change)
                            || self.claimed_hunks.iter().any(|(owner, _)| *owner == change))
                })
            }
            Edit::Inserted { .. } | Edit::Moved { .. } | Edit::Removed { .. } => false,
        };
        !explained && !self.claimed_edits.contains(&at)
    }

    /// Claims all edits and differences within a range of new segments without a finding of their own.
    pub(crate) fn claim_range(&mut self, range: &Range<usize>, old: &Range<usize>) {
        let scene = self.scene;
        for (at, edit) in scene.alignment.edits.iter().enumerate() {
            let inside = match edit {
                Edit::Removed { old: o, .. } => old.contains(o),
                Edit::Inserted { new } | Edit::Moved { new, .. } | Edit::Replaced { new, .. } => {
                    range.contains(new)
                }
            };
            if inside {
                self.claimed_edits.push(at);
            }
        }
        for (at, change) in scene.changes.iter().enumerate() {
            if range.contains(&change.new) {
                self.claimed_changes.push(at);
                let hunks = 0..change.difference.hunks.len();
                self.claimed_hunks.extend(hunks.map(|hunk| (at, hunk)));
            }
        }
    }

    /// A finding that points to an edit.
    pub(crate) fn add_at(&mut self, edit: Edit, message: String) {
        let scene = self.scene;
        let mut spot = spot_of(scene, edit.place());
        if let Edit::Removed { old, .. } = edit
            && let Some(known) = scene.known(old)
        {
            spot.address = Some(known.address);
            spot.path = known.address.path();
        }
        let before = match edit {
            Edit::Removed { old, .. } | Edit::Replaced { old, .. } => {
                scene.old_text(old).map(window::head)
            }
            Edit::Inserted { .. } | Edit::Moved { .. } => None,
        };
        let after =
            (!matches!(edit, Edit::Removed { .. })).then(|| window::head(scene.text(edit.place())));
        self.push(spot, (before, after), message);
    }

    /// A finding that points to a segment.
    pub(crate) fn add(&mut self, segment: usize, message: String) {
        let spot = spot_of(self.scene, segment);
        let after = Some(window::head(self.scene.text(segment)));
        self.push(spot, (None, after), message);
    }

    /// A finding that points to a part of a segment's text.
    pub(crate) fn add_within(
        &mut self,
        segment: usize,
        text: &str,
        range: &Range<usize>,
        raw: Range<usize>,
        message: String,
    ) {
        let mut spot = spot_of(self.scene, segment);
        let start = self
            .scene
            .segment(segment)
            .map_or(0, |segment| segment.start as usize);
        spot.from = start + raw.start;
        spot.to = start + raw.end;
        spot.offset = Some(range.start);
        self.push(spot, (None, Some(window::around(text, range))), message);
    }

    /// Lets the finding that the rule added last point to another segment.
    pub(crate) fn point_to(&mut self, segment: usize) {
        let spot = spot_of(self.scene, segment);
        let after = window::head(self.scene.text(segment));
        let rule = self.rule;
        if let Some(last) = self
            .findings
            .last_mut()
            .filter(|last| Some(last.rule) == rule)
        {
            last.spot = spot;
            last.after = Some(after);
        }
    }

    /// Of the finding added last: what it lost, where that is not the divergence's loss.
    pub(crate) fn lost(&mut self, tokens: Tokens) {
        if let Some(last) = self.findings.last_mut() {
            last.lost_tokens = tokens;
        }
    }

    /// Of the finding added last: its severity, where circumstances change it.
    pub(crate) fn severity(&mut self, severity: Severity) {
        if let Some(last) = self.findings.last_mut() {
            last.severity = severity;
        }
    }

    fn places(&mut self, places: u32) {
        if places > 1
            && let Some(last) = self.findings.last_mut()
        {
            last.places = places;
        }
    }

    fn push(
        &mut self,
        spot: Spot,
        (before, after): (
            Option<super::finding::Window>,
            Option<super::finding::Window>,
        ),
        message: String,
    ) {
        let Some(rule) = self.rule else { return };
        self.findings.push(Finding {
            rule,
            severity: rule.severity,
            scope: self.scene.scope,
            request: self.scene.call.number,
            previous: self.scene.previous,
            spot,
            places: 1,
            before,
            after,
            message,
            lost_tokens: Tokens::ZERO,
            lost: None,
        });
    }
}

/// What a difference is part of: the whole moment, or the word with all that is glued to it.
fn whole(text: &str, place: &Range<usize>) -> Range<usize> {
    use super::shape::{time, token};
    const GLUED: usize = 64;
    if let Some(moment) = time::moment_at(text, place) {
        let covers = moment.range.start <= place.start && place.end <= moment.range.end;
        if covers {
            return moment.range;
        }
    }
    let stops = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '[' | ']' | ',' | ';'
            )
    };
    let wide = token::widen(text, place, |c| !stops(c));
    if wide.len() <= place.len() + GLUED {
        wide
    } else {
        place.clone()
    }
}

fn sight<'s>(scene: &'s Scene<'_>, change: &'s Change, hunk: &'s Hunk) -> Option<Sight<'s>> {
    let (before, after) = change.difference.texts.as_ref()?;
    let segment = scene.segment(change.new)?;
    Some(Sight {
        before,
        after,
        hunk,
        path: &change.difference.path,
        kind: segment.kind,
        tier: segment.tier,
        scope: scene.scope,
    })
}

fn spot_of(scene: &Scene<'_>, at: usize) -> Spot {
    let segment = scene.segment(at).or_else(|| scene.prompt.segments.last());
    Spot {
        address: segment.map(|segment| segment.address),
        path: segment.map_or_else(String::new, |segment| segment.address.path()),
        offset: None,
        from: segment.map_or(0, |segment| segment.start as usize),
        to: segment.map_or(0, |segment| segment.end as usize),
    }
}

fn spot_in(
    scene: &Scene<'_>,
    change: &Change,
    raw: usize,
    offset: Option<usize>,
    length: usize,
) -> Spot {
    let mut spot = spot_of(scene, change.new);
    spot.path.push_str(&change.difference.path);
    spot.offset = offset;
    let start = spot.from;
    spot.from = (start + raw).min(spot.to);
    spot.to = (spot.from + length).min(spot.to);
    spot
}
