//! Tokens: identifiers, counts, paths, and the label in front of them.

use core::ops::Range;

use crate::lint::words::floor_boundary;

/// A place widened to all neighbours that `belongs` accepts.
pub(crate) fn widen(
    text: &str,
    place: &Range<usize>,
    belongs: impl Fn(char) -> bool,
) -> Range<usize> {
    let mut start = floor_boundary(text, place.start);
    let mut end = floor_boundary(text, place.end.max(place.start));
    let mut before = text.get(..start).unwrap_or_default().chars();
    while let Some(character) = before.next_back().filter(|c| belongs(*c)) {
        start -= character.len_utf8();
    }
    let after = text.get(end..).unwrap_or_default().chars();
    end += after
        .take_while(|c| belongs(*c))
        .map(char::len_utf8)
        .sum::<usize>();
    start..end
}

/// The identifier around a place: letters, digits, `-` and `_`.
pub(crate) fn identifier<'a>(text: &'a str, place: &Range<usize>) -> &'a str {
    let range = widen(text, place, |c| {
        c.is_ascii_alphanumeric() || c == '-' || c == '_'
    });
    text.get(range).unwrap_or_default().trim_matches(['-', '_'])
}

/// The file path around a place, if it is one: it has a `/` or a drive letter.
pub(crate) fn path<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    let stops = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | '`' | '<' | '>' | '(' | ')' | ',' | ';' | '|' | '='
            )
    };
    let range = widen(text, place, |c| !stops(c));
    let token = text.get(range)?.trim_end_matches(['.', ':']);
    let windows = || token.as_bytes().get(1..3) == Some(b":\\");
    let rooted = token.starts_with(['/', '~', '.']) && token.contains('/') || windows();
    (rooted && token.len() > 2 && !token.contains("://")).then_some(token)
}

/// Whether a path lies in a folder for temporary files, or ends in a random name.
pub(crate) fn is_temporary(path: &str) -> bool {
    const ROOTS: [&str; 8] = [
        "/tmp/",
        "/var/tmp/",
        "/var/folders/",
        "/private/var/",
        "/dev/shm/",
        "\\Temp\\",
        "/.tmp/",
        "/temp/",
    ];
    ROOTS.iter().any(|root| path.contains(root))
}

/// 8-4-4-4-12 hexadecimal digits.
pub(crate) fn is_uuid(token: &str) -> bool {
    let mut groups = token.split('-');
    let fits = |group: &str, length: usize| {
        group.len() == length && group.bytes().all(|b| b.is_ascii_hexdigit())
    };
    [8, 4, 4, 4, 12]
        .into_iter()
        .all(|length| groups.next().is_some_and(|group| fits(group, length)))
        && groups.next().is_none()
}

/// Whether a token looks drawn at random: hexadecimal or base 62, digits and letters mixed. A short
/// prefix with `_` or `-` is left aside (`req_`, `session-`).
pub(crate) fn is_random(token: &str) -> bool {
    if is_uuid(token) {
        return true;
    }
    let body = token.rsplit(['_', '-']).next().unwrap_or(token);
    let digits = body.bytes().filter(u8::is_ascii_digit).count();
    let letters = body.bytes().filter(u8::is_ascii_alphabetic).count();
    if digits + letters != body.len() {
        return false;
    }
    let hex = body.bytes().all(|byte| byte.is_ascii_hexdigit());
    let switches = class_switches(body);
    match body.len() {
        0..6 => false,
        6..12 => (digits >= 1 && letters >= 1 && switches >= 2) || (hex && switches >= 2),
        _ => (digits >= 2 && letters >= 2 && switches >= 3) || (digits == 0 && switches >= 5),
    }
}

/// How often letters, digits and cases alternate.
fn class_switches(token: &str) -> usize {
    let class = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    };
    let bytes = token.as_bytes();
    bytes
        .iter()
        .zip(bytes.iter().skip(1))
        .filter(|(a, b)| class(**a) != class(**b))
        .count()
}

/// The number around a place, its decimals, separators and percent sign with it.
pub(crate) fn number<'a>(text: &'a str, place: &Range<usize>) -> Option<&'a str> {
    let range = widen(text, place, |c| {
        c.is_ascii_digit() || matches!(c, '.' | ',' | '%' | '$')
    });
    let token = text
        .get(range.clone())?
        .trim_end_matches(['.', ','])
        .trim_start_matches(['.', ',']);
    let beside = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let glued = beside(text.get(..range.start).and_then(|t| t.chars().next_back()));
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '%' | '$');
    let digits = token.bytes().any(|byte| byte.is_ascii_digit());
    (digits && token.chars().all(plain) && !glued).then_some(token)
}

/// The text before a place on its line and the line above, at most 96 bytes: what the place is
/// called.
pub(crate) fn label<'a>(text: &'a str, place: &Range<usize>) -> &'a str {
    let start = floor_boundary(text, place.start);
    let from = floor_boundary(text, start.saturating_sub(96));
    let before = text.get(from..start).unwrap_or_default();
    let mut breaks = before.rmatch_indices('\n');
    let line = breaks.nth(1).map_or(0, |(at, _)| at + 1);
    before.get(line..).unwrap_or_default()
}

/// The text around a place, at most 160 bytes on each side, within its paragraph.
pub(crate) fn surroundings<'a>(text: &'a str, place: &Range<usize>) -> &'a str {
    let from = floor_boundary(text, place.start.saturating_sub(160));
    let to = floor_boundary(text, place.end + 160);
    text.get(from..to).unwrap_or_default()
}

/// Whether one of the words stands in a text, ignoring case; a word of plain letters must not be
/// part of a longer one.
pub(crate) fn mentions(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        let ascii = word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let length = word.len();
        let found = |at: usize| {
            let Some(candidate) = text.as_bytes().get(at..at + length) else {
                return false;
            };
            let edge = |byte: Option<&u8>| !byte.is_some_and(u8::is_ascii_alphabetic);
            let bytes = text.as_bytes();
            candidate.eq_ignore_ascii_case(word.as_bytes())
                && (!ascii
                    || (edge(at.checked_sub(1).and_then(|at| bytes.get(at)))
                        && edge(bytes.get(at + length))))
        };
        (0..text.len()).any(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_identifiers_are_told_from_words_and_counts() {
        for token in [
            "9f86d081884c",
            "req_8Kx2mQp1",
            "toolu_01A09q90qw90lq917835lq9",
            "a1b2c3d4e5f60718",
            "0198a0e1-5e8c-7a3a-8000-0123456789ab",
            "QxYzAbKmPqRsTuVw",
        ] {
            assert!(is_random(token), "{token}");
        }
        for token in [
            "conversation",
            "README",
            "tool_3",
            "step-12",
            "gpt-4o",
            "v1",
            "utf-8",
            "sha256",
            "12345678",
            "camelCaseName",
        ] {
            assert!(!is_random(token), "{token}");
        }
    }

    #[test]
    fn paths_and_labels_are_read_around_a_place() {
        let text = "Working directory: /home/dev/a1\nTemp: /tmp/run-7/x";
        assert_eq!(path(text, &(28..29)), Some("/home/dev/a1"));
        assert!(is_temporary(path(text, &(44..45)).unwrap()));
        assert!(label(text, &(19..20)).contains("Working directory"));
        assert!(mentions("Git branch: main", &["branch"]));
        assert!(!mentions("digital", &["git"]));
        assert_eq!(number("step 12 of 50", &(5..7)), Some("12"));
        assert_eq!(number("cost $1,204.50.", &(7..8)), Some("$1,204.50"));
    }
}
