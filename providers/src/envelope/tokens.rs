//! The bytes of a JSON text that its grammar turns on, 64 at a time.
//!
//! Nearly all bytes of an agent's request lie inside strings, with an escaped line end or quote
//! every few dozen bytes: too many to branch on each. So a block of 64 bytes is turned into bit
//! masks of what matters in it; which characters are escaped and which lie inside a string is then
//! arithmetic, as in simdjson (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019,
//! section 3.1, and its later `json_escape_scanner`). What is left are the [tokens](Tokens): the
//! quotes of strings, the brackets, colons and commas between them, and the first bytes of numbers
//! and words. White space never becomes a token, and anything else outside a string does, so that
//! nothing hides between two of them.
//!
//! The vector instructions are the widest that the processor has, chosen when a scan begins.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};

use super::string;

/// Bytes in a block: one bit of a mask for each.
const BLOCK: usize = 64;

/// A position on a token, moving forward.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    bytes: &'a [u8],
    /// The token's place; the length behind the last one.
    at: usize,
    /// The token; zero, which is none, at the end and on a byte that no string may hold.
    byte: u8,
    /// The tokens of the block that are still to come.
    marks: u64,
    /// Where the block begins.
    base: usize,
    /// Where the next one does.
    next: usize,
    /// One when the first byte of the next block is escaped by the last one of this.
    escape: u64,
    /// All ones when this block ends inside a string.
    inside: u64,
    /// One when this block ends inside a number or a word.
    word: u64,
    /// The first byte that no string may hold, once it is met. Nothing behind it is a token.
    bad: Option<usize>,
    level: Level,
}

impl<'a> Tokens<'a> {
    /// On the first token at or behind `at`, which lies outside of any string.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        let mut tokens = Self {
            bytes,
            at,
            byte: 0,
            marks: 0,
            base: at,
            next: at,
            escape: 0,
            inside: 0,
            word: 0,
            bad: None,
            level: Level::new(),
        };
        tokens.advance();
        tokens
    }

    /// The text.
    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The token's place; where the text ends, or a string holds what it may not, behind the last.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// The token's byte; zero where there is none.
    pub(super) const fn byte(&self) -> u8 {
        self.byte
    }

    /// Whether the text has ended.
    pub(super) const fn ended(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Moves to the next token.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.marks == 0 {
            self.advance_far();
        } else {
            self.step();
        }
    }

    /// To the next token, which lies in another block, or to the end.
    #[inline(never)]
    fn advance_far(&mut self) {
        self.refill();
        if self.marks == 0 {
            self.at = self.bad.unwrap_or(self.bytes.len());
            self.byte = 0;
        } else {
            self.step();
        }
    }

    #[inline]
    fn step(&mut self) {
        self.at = self.base + self.marks.trailing_zeros() as usize;
        self.marks &= self.marks - 1;
        self.byte = self.bytes.get(self.at).copied().unwrap_or(0);
    }

    /// Goes on to the next block that holds a token.
    fn refill(&mut self) {
        let level = self.level;
        dispatch!(level, simd => self.refill_with(simd));
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "compiled for the instructions of each level only where it is inlined"
    )]
    fn refill_with<S: Simd>(&mut self, simd: S) {
        while self.marks == 0 && self.bad.is_none() {
            let Some(rest) = self.bytes.get(self.next..).filter(|rest| !rest.is_empty()) else {
                return;
            };
            self.base = self.next;
            self.next += BLOCK;
            if let Some(block) = rest.first_chunk::<BLOCK>() {
                self.take(simd, block);
            } else {
                // Behind the text comes white space, which is no token.
                let mut block = [b' '; BLOCK];
                for (place, byte) in block.iter_mut().zip(rest) {
                    *place = *byte;
                }
                self.take(simd, &block);
            }
        }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "compiled for the instructions of each level only where it is inlined"
    )]
    fn take<S: Simd>(&mut self, simd: S, block: &[u8; BLOCK]) {
        let block = u8x64::from_slice(simd, block);
        let is = |byte: u8| block.simd_eq(byte);
        let backslashes = is(b'\\').to_bitmask();
        let escaped = escaped_places(backslashes, &mut self.escape);
        let quotes = is(b'"').to_bitmask() & !escaped;
        let inside = parity(quotes) ^ self.inside;
        self.inside = (inside.cast_signed() >> 63).cast_unsigned();
        let control = block.simd_lt(0x20).to_bitmask();

        let mut unusual = control & inside;
        if escaped != 0 {
            let usual = is(b'n') | is(b't') | is(b'"') | is(b'\\');
            unusual |= escaped & !usual.to_bitmask() & inside;
        }
        if unusual != 0 {
            self.bad = check(self.bytes, self.base, unusual, control);
        }
        if inside == u64::MAX && quotes == 0 {
            self.word = 0;
            return;
        }

        let brackets = block | 0x20;
        let between = brackets.simd_eq(b'{') | brackets.simd_eq(b'}') | is(b':') | is(b',');
        let between = between.to_bitmask() & !inside;
        let mut blank = is(b' ').to_bitmask();
        if control & !inside != 0 {
            blank |= (is(b'\n') | is(b'\r') | is(b'\t')).to_bitmask();
        }
        let words = !(between | blank | quotes | inside);
        let starts = words & !(words << 1 | self.word);
        self.word = words >> 63;
        self.marks = quotes | between | starts;
        if let Some(bad) = self.bad {
            // It may lie behind the block, where an escape does not end as it has to.
            let bit = u32::try_from(bad - self.base).unwrap_or(u32::MAX);
            self.marks &= 1_u64.checked_shl(bit).map_or(u64::MAX, |bit| bit - 1);
        }
    }
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

/// A bit is set where an odd number of bits is, up to and including its own place: from each opening
/// quote up to its closing one.
#[inline]
const fn parity(mut bits: u64) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mut shift = 1;
    while shift < 64 {
        bits ^= bits << shift;
        shift *= 2;
    }
    bits
}

/// Judges escapes that are not the usual ones, and control characters, lowest first: the place of
/// the first byte that no string may hold.
#[inline(never)]
fn check(bytes: &[u8], base: usize, mut marks: u64, control: u64) -> Option<usize> {
    while marks != 0 {
        let bit = marks.trailing_zeros();
        let place = base + bit as usize;
        if control >> bit & 1 == 1 {
            return Some(place);
        }
        if let Err(place) = string::check_escape(bytes, place) {
            return Some(place);
        }
        marks &= marks - 1;
    }
    None
}
