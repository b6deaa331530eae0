//! Texts compared by words.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// How many leading bytes are equal.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const CHUNK: usize = 32;
    let (x, _) = a.as_chunks::<CHUNK>();
    let (y, _) = b.as_chunks::<CHUNK>();
    let same = CHUNK * x.iter().zip(y).take_while(|(x, y)| x == y).count();
    let rest = |text: &'_ [u8]| text.len().min(same)..text.len();
    let (x, y) = (
        a.get(rest(a)).unwrap_or_default(),
        b.get(rest(b)).unwrap_or_default(),
    );
    same + x.iter().zip(y).take_while(|(x, y)| x == y).count()
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let pairs = a.iter().rev().zip(b.iter().rev());
    pairs.take_while(|(x, y)| x == y).count()
}

/// The words of a text: equal for two texts that differ only in white space.
pub(crate) fn squeezed(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// Whether a character belongs to a word.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The last start of a word at or before `at`.
pub(crate) fn word_start(text: &str, at: usize) -> usize {
    let mut start = floor_boundary(text, at);
    let mut before = text.get(..start).unwrap_or_default().chars();
    while let Some(character) = before.next_back().filter(|c| is_word(*c)) {
        start -= character.len_utf8();
    }
    start
}

/// The first end of a word at or after `at`.
pub(crate) fn word_end(text: &str, at: usize) -> usize {
    let mut end = at.min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let inside = text
        .get(..end)
        .unwrap_or_default()
        .chars()
        .next_back()
        .is_some_and(is_word);
    if inside {
        let rest = text.get(end..).unwrap_or_default().chars();
        end += rest
            .take_while(|c| is_word(*c))
            .map(char::len_utf8)
            .sum::<usize>();
    }
    end
}

/// The largest character boundary that is not past `at`.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A text cut into words and single other characters.
fn cut(text: &str, range: &Range<usize>) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut last_word = false;
    for (at, character) in text.get(range.clone()).unwrap_or_default().char_indices() {
        let at = at + range.start;
        let end = at + character.len_utf8();
        let word = is_word(character);
        match pieces.last_mut() {
            Some(piece) if word && last_word => piece.end = end,
            _ => pieces.push(at..end),
        }
        last_word = word;
    }
    pieces
}

const MOST_WORDS: usize = 600;
const MANY: usize = 3;

/// The ranges in which two texts differ, by whole words. Differences with nothing but a byte or two
/// between them are one.
pub(crate) fn changed(before: &str, after: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let prefix = common_prefix(before.as_bytes(), after.as_bytes());
    if prefix == before.len() && prefix == after.len() {
        return Vec::new();
    }
    let start = word_start(before, prefix).min(word_start(after, prefix));
    let tail = |text: &str| text.len() - start;
    let bytes = |text: &'_ str| start..text.len();
    let suffix = common_suffix(
        before.as_bytes().get(bytes(before)).unwrap_or_default(),
        after.as_bytes().get(bytes(after)).unwrap_or_default(),
    )
    .min(tail(before).min(tail(after)));
    // The suffix begins where a word does, on both sides.
    let ends = |text: &str| {
        let at = text.len() - suffix;
        let end = if at < text.len() && text.is_char_boundary(at) {
            let next_is_word = text
                .get(at..)
                .and_then(|rest| rest.chars().next())
                .is_some_and(is_word);
            if next_is_word {
                word_end(text, at + 1)
            } else {
                at
            }
        } else {
            word_end(text, at)
        };
        text.len() - end
    };
    let suffix = ends(before).min(ends(after));
    let old = start..before.len() - suffix;
    let new = start..after.len() - suffix;
    let (a, b) = (cut(before, &old), cut(after, &new));
    if a.len() > MOST_WORDS || b.len() > MOST_WORDS || a.is_empty() || b.is_empty() {
        return vec![(old, new)];
    }
    let words = |text: &'_ str, pieces: &[Range<usize>]| -> Vec<Vec<u8>> {
        let word = |piece: &Range<usize>| text.get(piece.clone()).unwrap_or_default().into();
        pieces.iter().map(word).collect()
    };
    let pairs = longest_common(&words(before, &a), &words(after, &b));
    let mut gaps = Vec::new();
    let (mut at_old, mut at_new) = (old.start, new.start);
    let piece = |pieces: &[Range<usize>], at: usize| pieces.get(at).cloned().unwrap_or_default();
    let ends = pairs.iter().map(|(i, j)| (piece(&a, *i), piece(&b, *j)));
    for (x, y) in ends.chain([(old.end..old.end, new.end..new.end)]) {
        if at_old < x.start || at_new < y.start {
            push_gap(&mut gaps, at_old..x.start, at_new..y.start);
        }
        (at_old, at_new) = (x.end, y.end);
    }
    let changed: usize = gaps.iter().map(|(a, b)| a.len().max(b.len())).sum();
    if gaps.len() > MANY && changed * 2 > before.len().max(after.len()) {
        // Another text, with a word here and there in common.
        return vec![(old, new)];
    }
    gaps
}

fn push_gap(gaps: &mut Vec<(Range<usize>, Range<usize>)>, old: Range<usize>, new: Range<usize>) {
    const CLOSE: usize = 1;
    match gaps.last_mut() {
        Some((a, b)) if old.start - a.end <= CLOSE && new.start - b.end <= CLOSE => {
            a.end = old.end;
            b.end = new.end;
        }
        _ => gaps.push((old, new)),
    }
}

/// The pairs of equal elements of a longest common subsequence.
fn longest_common<T: PartialEq>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut lengths = vec![0_u16; (a.len() + 1) * width];
    let get =
        |lengths: &[u16], i: usize, j: usize| lengths.get(i * width + j).copied().unwrap_or(0);
    for (i, x) in a.iter().enumerate().rev() {
        for (j, y) in b.iter().enumerate().rev() {
            let best = if x == y {
                get(&lengths, i + 1, j + 1) + 1
            } else {
                get(&lengths, i + 1, j).max(get(&lengths, i, j + 1))
            };
            if let Some(cell) = lengths.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x == y {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if get(&lengths, i + 1, j) >= get(&lengths, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// How alike two texts are, in hundredths: the share of the longer one that stands unchanged at its
/// start and end, or the share of its words that the other has too, whichever is larger.
pub(crate) fn likeness(before: &[u8], after: &[u8]) -> u32 {
    const MOST: usize = 8 << 10;
    let ends = ends_alike(before, after);
    let (shorter, longer) = (before.len().min(after.len()), before.len().max(after.len()));
    if ends >= 90 || shorter * 5 < longer || longer > MOST {
        return ends;
    }
    ends.max(shared_words(before, after))
}

/// How many bytes of the longer of two texts lie between their equal beginnings and ends.
pub(crate) fn middle(before: &[u8], after: &[u8]) -> usize {
    let longer = before.len().max(after.len());
    let prefix = common_prefix(before, after);
    let most = before.len().min(after.len()) - prefix;
    longer - prefix - common_suffix(before, after).min(most)
}

/// The share of the longer of two texts that stands unchanged at its start and end, in hundredths.
pub(crate) fn ends_alike(before: &[u8], after: &[u8]) -> u32 {
    let longer = before.len().max(after.len());
    if longer == 0 {
        return 100;
    }
    u32::try_from((longer - middle(before, after)) * 100 / longer).unwrap_or(100)
}

/// The share of the bytes in words that both texts have, in hundredths.
fn shared_words(before: &[u8], after: &[u8]) -> u32 {
    let words = |text: &'_ [u8]| -> Vec<(u64, usize)> {
        let split = text.split(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric());
        let mut words: Vec<(u64, usize)> = split
            .filter(|word| !word.is_empty())
            .map(|word| (digest(word), word.len()))
            .collect();
        words.sort_unstable();
        words
    };
    let (a, b) = (words(before), words(after));
    let total = |words: &[(u64, usize)]| words.iter().map(|(_, length)| *length).sum::<usize>();
    let mut shared = 0;
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(x), Some(y)) = (left.peek(), right.peek()) {
        match x.cmp(y) {
            core::cmp::Ordering::Equal => {
                shared += x.1;
                left.next();
                right.next();
            }
            core::cmp::Ordering::Greater => {
                right.next();
            }
            core::cmp::Ordering::Less => {
                left.next();
            }
        }
    }
    u32::try_from(shared * 100 / total(&a).max(total(&b)).max(1)).unwrap_or(100)
}

/// FNV-1a: equal words meet, and that is all it is for.
fn digest(word: &[u8]) -> u64 {
    word.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &str, after: &str) -> Vec<(alloc::string::String, alloc::string::String)> {
        changed(before, after)
            .into_iter()
            .map(|(a, b)| (before[a].into(), after[b].into()))
            .collect()
    }

    #[test]
    fn texts_differ_in_whole_words() {
        assert_eq!(told("a 101 b", "a 109 b"), [("101".into(), "109".into())]);
        assert_eq!(
            told("one x two y three", "one u two v three"),
            [("x".into(), "u".into()), ("y".into(), "v".into())]
        );
        assert_eq!(
            told("10:00:01", "11:05:09"),
            [("10:00:01".into(), "11:05:09".into())]
        );
        assert_eq!(
            told("ab", "ab cd"),
            [(alloc::string::String::new(), " cd".into())]
        );
        assert_eq!(told("é1", "è1"), [("é1".into(), "è1".into())]);
        assert!(told("same", "same").is_empty());
    }

    #[test]
    fn likeness_is_the_unchanged_share() {
        assert_eq!(likeness(b"aaaa", b"aaaa"), 100);
        assert_eq!(likeness(b"aabb", b"aacc"), 50);
        assert_eq!(likeness(b"", b"x"), 0);
    }
}
