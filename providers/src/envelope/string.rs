//! Strings: which escapes they may hold, and what they say.

use std::borrow::Cow;

/// Whether the inside of a string holds an escape.
pub(super) fn has_escape(raw: &[u8]) -> bool {
    memchr::memchr(b'\\', raw).is_some()
}

/// Judges the byte after a backslash, at `place`.
///
/// # Errors
/// The offset of the first byte that no string may hold, or the length when the bytes end first.
pub(super) fn check_escape(bytes: &[u8], place: usize) -> Result<(), usize> {
    match bytes.get(place) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
        Some(b'u') => {
            for digit in place + 1..place + 5 {
                if !bytes.get(digit).is_some_and(u8::is_ascii_hexdigit) {
                    return Err(digit.min(bytes.len()));
                }
            }
            Ok(())
        }
        _ => Err(place),
    }
}

/// What the inside of a valid string says, as UTF-8; a lone surrogate is kept in the way of WTF-8,
/// so that two spellings are equal exactly when their code units are.
pub(super) fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    if !has_escape(raw) {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before);
        let length = match escape.get(1) {
            Some(b'u') => push_unicode(escape, &mut out),
            Some(&letter) => {
                out.push(match letter {
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    same => same,
                });
                2
            }
            None => 1,
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Writes the code point of `\uXXXX`, or of a surrogate pair of them; the length of what was read.
fn push_unicode(escape: &[u8], out: &mut Vec<u8>) -> usize {
    let unit = |at: usize| {
        escape
            .get(at..at + 6)
            .filter(|six| six.starts_with(b"\\u"))
            .and_then(|six| std::str::from_utf8(six.get(2..)?).ok())
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let Some(first) = unit(0) else { return 2 };
    let (point, length) = match (first, unit(6)) {
        (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => {
            (0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
        }
        _ => (first, 6),
    };
    if let Some(character) = char::from_u32(point) {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        let six_bits = |shift: u32| 0x80 | (point >> shift & 0x3f).to_le_bytes()[0];
        out.extend_from_slice(&[0xed, six_bits(6), six_bits(0)]);
    }
    length
}

/// What the inside of a valid string says; a lone surrogate becomes U+FFFD.
pub(super) fn text(raw: &[u8]) -> Cow<'_, str> {
    match unescape(raw) {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}
