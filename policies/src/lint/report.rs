//! What rules write to: differences claimed, findings made.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::align::Edit;
use super::difference::{Hunk, Nature};
use super::finding::{Finding, Meta, Severity, Spot, Window};
use super::prompt::Segment;
use super::scene::{Change, Scene, Sight};
use super::window;
use crate::units::Tokens;

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
        (before, after): (Option<Window>, Option<Window>),
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
