//! Small windows of text, for people to see what a finding means.
//!
//! A prompt is private, so no more is shown than the offending words with a little around them, and
//! what looks like a credential is masked.

use alloc::string::String;
use core::ops::Range;

use super::finding::Window;
use super::shape::secret;
use super::words::floor_boundary;

const AROUND: usize = 32;
const MOST: usize = 80;

/// The text around a range, with the range marked.
pub(crate) fn around(text: &str, range: &Range<usize>) -> Window {
    let start = floor_boundary(text, range.start);
    let end = floor_boundary(text, range.end.max(start));
    let shown_end = floor_boundary(text, end.min(start + MOST));
    let from = floor_boundary(text, start.saturating_sub(AROUND));
    let to = floor_boundary(text, shown_end + AROUND);
    let part = |range: Range<usize>| printable(text.get(range).unwrap_or_default());
    let (before, mut inside, after) = (
        part(from..start),
        part(start..shown_end),
        part(shown_end..to),
    );
    if shown_end < end {
        inside.push('…');
    }
    let ellipsis = if from > 0 { "…" } else { "" };
    // Masked as a whole: a credential may begin before the range.
    let whole = secret::mask(&alloc::format!("{ellipsis}{before}{inside}{after}"));
    let untouched = whole.contains(&*inside) || inside.is_empty();
    let lead = ellipsis.chars().count() + before.chars().count();
    let width = if untouched { inside.chars().count() } else { 4 };
    let count = whole.chars().count();
    Window {
        from: lead.min(count),
        to: (lead + width).min(count),
        text: if to < text.len() {
            whole + "…"
        } else {
            whole
        },
    }
}

/// The bytes around a range of a part of a body.
pub(crate) fn of_bytes(text: &[u8], range: &Range<usize>) -> Window {
    let lossy = String::from_utf8_lossy(text);
    // Offsets hold, because bodies are valid UTF-8.
    around(&lossy, range)
}

/// The beginning of a part of a body.
pub(crate) fn head(text: &[u8]) -> Window {
    let lossy = String::from_utf8_lossy(text.get(..MOST + 4 * AROUND).unwrap_or(text));
    around(&lossy, &(0..lossy.len().min(MOST)))
}

fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => '⏎',
            '\t' => ' ',
            c if c.is_control() => '·',
            c => c,
        })
        .collect()
}

/// A few words of a text, masked, in quotation marks of code, for a message.
pub(crate) fn quoted(text: &str) -> String {
    const WORDS: usize = 48;
    let cut = floor_boundary(text, WORDS);
    let shown = secret::mask(&printable(text.get(..cut).unwrap_or_default()));
    let more = if cut < text.len() { "…" } else { "" };
    alloc::format!("`{shown}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_shows_the_range_and_a_little_around_it() {
        let text = "You help.\nNow: 2026-11-30 10:00:09\nBe kind and never rude to anybody at all, please do.";
        let shown = around(text, &(15..34));
        let marked: String = shown
            .text
            .chars()
            .skip(shown.from)
            .take(shown.to - shown.from)
            .collect();
        assert_eq!(marked, "2026-11-30 10:00:09");
        assert_eq!(
            shown.text,
            "You help.⏎Now: 2026-11-30 10:00:09⏎Be kind and never rude to anybo…"
        );
    }

    #[test]
    fn a_window_hides_credentials() {
        let text = "Bearer sk-live-0123456789abcdef and more";
        assert!(!around(text, &(7..31)).text.contains("0123456789"));
        assert!(!quoted(text).contains("0123456789"));
    }
}
