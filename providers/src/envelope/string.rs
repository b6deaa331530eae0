//! Strings: where one ends, and what it says.
//!
//! Nearly all bytes of an agent's request lie inside strings, with an escaped line end or quote
//! every few dozen bytes: too many to branch on each. So the search for the closing quote takes 64
//! bytes at once, makes bit masks of what matters in them, and finds which characters are escaped by
//! arithmetic, as simdjson does (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019,
//! section 3.1.1, and its later `json_escape_scanner`). Only rare escapes are visited one by one. The
//! short strings that keys are get a first look at 16 bytes.

use std::borrow::Cow;

use wide::{u8x16, u8x32};

/// The offset of the quote that closes the string whose first byte is at `start`, and whether the
/// string holds an escape.
///
/// # Errors
/// The offset of the first byte that no string may hold, or the length when the bytes end first.
#[inline]
pub(super) fn close(bytes: &[u8], start: usize) -> Result<(usize, bool), usize> {
    let first = bytes.get(start..).and_then(<[u8]>::first_chunk::<16>);
    let marks = first.map_or(1, specials);
    if marks == 0 {
        return close_by_blocks(bytes, start + 16);
    }
    let place = start + marks.trailing_zeros() as usize;
    if first.is_some() && bytes.get(place) == Some(&b'"') {
        return Ok((place, false));
    }
    close_by_blocks(bytes, start)
}

fn close_by_blocks(bytes: &[u8], start: usize) -> Result<(usize, bool), usize> {
    let mut seen = false;
    let mut at = start;
    // One when the first byte of the block is escaped by the last one of the block before.
    let mut carry = 0_u64;
    while let Some(block) = bytes
        .get(at..)
        .and_then(|rest| rest.as_chunks::<32>().0.first_chunk::<2>())
    {
        let marks = Marks::of(block);
        let escaped = escaped_places(marks.backslash, &mut carry);
        seen |= escaped != 0;
        let quotes = marks.quote & !escaped;
        // The bits below the closing quote, or all of them.
        let inside = (quotes & quotes.wrapping_neg()).wrapping_sub(1);
        let usual = if escaped == 0 {
            0
        } else {
            usual_escapes(block)
        };
        let unusual = (escaped & !usual | marks.control) & inside;
        if unusual != 0 {
            check_unusual(bytes, at, unusual, marks.control)?;
        }
        if quotes != 0 {
            return Ok((at + quotes.trailing_zeros() as usize, seen));
        }
        at += 64;
    }
    let at = at - usize::from(carry != 0);
    close_slowly(bytes, at, seen)
}

/// One bit for each byte of a block that matters.
struct Marks {
    quote: u64,
    backslash: u64,
    /// Nonzero when there is a control character.
    control: u64,
}

impl Marks {
    #[inline]
    fn of(block: &[[u8; 32]; 2]) -> Self {
        let halves = block.map(u8x32::new);
        let [low, high] = halves.map(|half| half.min(u8x32::splat(0x1f)).simd_eq(half));
        let control = if (low | high).to_bitmask() == 0 {
            0
        } else {
            mask([low, high])
        };
        Self {
            quote: places(halves, b'"'),
            backslash: places(halves, b'\\'),
            control,
        }
    }
}

/// The bytes that may follow a backslash and often do: `n`, `t`, a quote or a backslash.
#[inline]
fn usual_escapes(block: &[[u8; 32]; 2]) -> u64 {
    let halves = block.map(u8x32::new);
    mask(halves.map(|half| {
        half.simd_eq(u8x32::splat(b'n'))
            | half.simd_eq(u8x32::splat(b't'))
            | half.simd_eq(u8x32::splat(b'"'))
            | half.simd_eq(u8x32::splat(b'\\'))
    }))
}

#[inline]
fn places(halves: [u8x32; 2], byte: u8) -> u64 {
    mask(halves.map(|half| half.simd_eq(u8x32::splat(byte))))
}

#[inline]
fn mask([low, high]: [u8x32; 2]) -> u64 {
    u64::from(low.to_bitmask()) | u64::from(high.to_bitmask()) << 32
}

/// One bit for each quote, backslash and control character.
#[inline]
fn specials(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::new(*block);
    let special = bytes.simd_eq(u8x16::splat(b'"'))
        | bytes.simd_eq(u8x16::splat(b'\\'))
        | bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    special.to_bitmask()
}

/// The places whose byte is escaped, given those of the backslashes; a run of backslashes escapes
/// what follows it when it is of odd length. `carry` goes from block to block.
#[inline]
fn escaped_places(backslash: u64, carry: &mut u64) -> u64 {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    if backslash == 0 {
        return std::mem::take(carry);
    }
    let starts = backslash & !*carry;
    let series = (starts << 1 | ODD).wrapping_sub(starts) ^ ODD;
    let escaped = series ^ (backslash | *carry);
    *carry = (series & backslash) >> 63;
    escaped
}

/// Judges escapes that are not the usual ones, and control characters, lowest first.
#[inline(never)]
fn check_unusual(bytes: &[u8], at: usize, mut marks: u64, control: u64) -> Result<(), usize> {
    while marks != 0 {
        let bit = marks.trailing_zeros();
        let place = at + bit as usize;
        if control >> bit & 1 == 1 {
            return Err(place);
        }
        check_escape(bytes, place)?;
        marks &= marks - 1;
    }
    Ok(())
}

/// Judges the byte after a backslash, at `place`.
fn check_escape(bytes: &[u8], place: usize) -> Result<(), usize> {
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

/// The last bytes of a body, too few for a block.
#[cold]
fn close_slowly(bytes: &[u8], start: usize, mut escaped: bool) -> Result<(usize, bool), usize> {
    let mut at = start;
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok((at, escaped)),
            Some(b'\\') => {
                escaped = true;
                check_escape(bytes, at + 1)?;
                at += 2;
            }
            Some(0x20..) => at += 1,
            Some(_) => return Err(at),
            None => return Err(bytes.len()),
        }
    }
}

/// What the inside of a valid string says, as UTF-8; a lone surrogate is kept in the way of WTF-8,
/// so that two spellings are equal exactly when their code units are.
pub(super) fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', raw).is_none() {
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
