//! The grammar of JSON (RFC 8259), checked without building anything.
//!
//! A scanner goes from [token](Tokens) to token and only moves forward. Nesting is kept in one bit
//! per level rather than on the call stack, so a hostile body cannot exhaust it.

use super::tokens::Tokens;
use super::{Fault, MAX_DEPTH, Span};

/// Where the scan stopped, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) fault: Fault,
    pub(super) offset: usize,
}

pub(super) type Scan<T> = Result<T, Stop>;

/// A position in the bytes of a body.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    tokens: Tokens<'a>,
}

impl<'a> Scanner<'a> {
    /// On the first token at or behind `at`, which lies outside of any string.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self {
            tokens: Tokens::new(bytes, at),
        }
    }

    /// The text.
    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.tokens.bytes()
    }

    /// Where it is.
    pub(super) const fn at(&self) -> usize {
        self.tokens.at()
    }

    /// The byte that is next but for white space; zero at the end.
    pub(super) const fn peek(&self) -> u8 {
        self.tokens.byte()
    }

    /// Whether nothing but white space is left.
    pub(super) const fn ended(&self) -> bool {
        self.tokens.ended()
    }

    pub(super) fn stop<T>(&self, fault: Fault) -> Scan<T> {
        self.stop_at(self.at(), fault)
    }

    #[cold]
    fn stop_at<T>(&self, offset: usize, fault: Fault) -> Scan<T> {
        let length = self.tokens.bytes().len();
        let fault = match fault {
            Fault::Syntax if offset >= length => Fault::Cut,
            other => other,
        };
        let offset = offset.min(length);
        Err(Stop { fault, offset })
    }

    /// Moves past `byte` if it is next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == byte;
        if next {
            self.tokens.advance();
        }
        next
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.take(byte) {
            Ok(())
        } else {
            self.stop(Fault::Syntax)
        }
    }

    /// Moves past a string; the span leaves the quotes out.
    #[inline]
    fn string(&mut self) -> Scan<Span> {
        let open = self.at();
        self.expect(b'"')?;
        // What follows an opening quote is a token only if it is the closing one.
        let close = self.at();
        self.expect(b'"')?;
        Ok(Span::new(open + 1, close))
    }

    /// Moves past a key and its colon, up to the value.
    #[inline]
    pub(super) fn key(&mut self) -> Scan<Span> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Moves past one value that lies `depth` levels deep. Starts on its first byte.
    pub(super) fn value(&mut self, depth: u32) -> Scan<Span> {
        let start = self.at();
        // One bit per open level above `depth`: set for an object.
        let mut objects: u128 = 0;
        let mut open = 0_u32;
        loop {
            let mut end;
            match self.peek() {
                b'"' => end = self.string()?.end() + 1,
                bracket @ (b'{' | b'[') => {
                    if depth + open >= MAX_DEPTH {
                        return self.stop(Fault::Depth);
                    }
                    self.tokens.advance();
                    end = self.at() + 1;
                    let object = bracket == b'{';
                    if !self.take(if object { b'}' } else { b']' }) {
                        open += 1;
                        objects = objects << 1 | u128::from(object);
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => end = self.word(number)?,
                b't' => end = self.word(|rest| literal(rest, b"true"))?,
                b'f' => end = self.word(|rest| literal(rest, b"false"))?,
                b'n' => end = self.word(|rest| literal(rest, b"null"))?,
                _ => return self.stop(Fault::Syntax),
            }
            // After a value: close levels until a comma asks for the next one.
            loop {
                if open == 0 {
                    return Ok(Span::new(start, end));
                }
                let object = objects & 1 == 1;
                match self.peek() {
                    b',' => {
                        self.tokens.advance();
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    b'}' if object => {}
                    b']' if !object => {}
                    _ => return self.stop(Fault::Syntax),
                }
                end = self.at() + 1;
                self.tokens.advance();
                objects >>= 1;
                open -= 1;
            }
        }
    }

    /// Moves past one array that lies `depth` levels deep and hands out the span of each element.
    pub(super) fn array(&mut self, depth: u32, mut element: impl FnMut(Span)) -> Scan<Span> {
        let start = self.at();
        if depth >= MAX_DEPTH {
            return self.stop(Fault::Depth);
        }
        self.expect(b'[')?;
        let mut end = self.at() + 1;
        if self.take(b']') {
            return Ok(Span::new(start, end));
        }
        loop {
            element(self.value(depth + 1)?);
            end = self.at() + 1;
            if self.take(b']') {
                return Ok(Span::new(start, end));
            }
            self.expect(b',')?;
        }
    }

    /// Moves past a number or a word; the offset behind it. `read` says how long it is, or where it
    /// is wrong.
    #[inline]
    fn word(&mut self, read: impl Fn(&[u8]) -> Result<usize, usize>) -> Scan<usize> {
        let start = self.at();
        let rest = self.tokens.bytes().get(start..).unwrap_or_default();
        let (length, good) = match read(rest) {
            Ok(length) => (length, !rest.get(length).is_some_and(|&byte| goes_on(byte))),
            Err(length) => (length, false),
        };
        if !good {
            return self.stop_at(start + length, Fault::Syntax);
        }
        self.tokens.advance();
        Ok(start + length)
    }
}

/// Whether a number or word does not end before this byte.
const fn goes_on(byte: u8) -> bool {
    !matches!(
        byte,
        b' ' | b'\n' | b'\r' | b'\t' | b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"'
    )
}

fn digits(rest: &[u8], at: usize) -> Result<usize, usize> {
    let digits = rest.get(at..).unwrap_or_default();
    match digits.iter().take_while(|b| b.is_ascii_digit()).count() {
        0 => Err(at),
        count => Ok(at + count),
    }
}

/// The length of the number that comes first.
fn number(rest: &[u8]) -> Result<usize, usize> {
    let mut at = usize::from(rest.first() == Some(&b'-'));
    at = if rest.get(at) == Some(&b'0') {
        at + 1
    } else {
        digits(rest, at)?
    };
    if rest.get(at) == Some(&b'.') {
        at = digits(rest, at + 1)?;
    }
    if let Some(b'e' | b'E') = rest.get(at) {
        let sign = matches!(rest.get(at + 1), Some(b'+' | b'-'));
        at = digits(rest, at + 1 + usize::from(sign))?;
    }
    Ok(at)
}

fn literal(rest: &[u8], word: &[u8]) -> Result<usize, usize> {
    match word.iter().zip(rest).position(|(a, b)| a != b) {
        Some(wrong) => Err(wrong),
        None if rest.len() < word.len() => Err(rest.len()),
        None => Ok(word.len()),
    }
}
