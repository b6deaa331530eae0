//! The grammar of JSON (RFC 8259), checked without building anything.
//!
//! A scanner walks the bytes once and only moves forward. Nesting is kept in one bit per level
//! rather than on the call stack, so a hostile body cannot exhaust it.

use super::string;
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
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn stop<T>(&self, fault: Fault) -> Scan<T> {
        let fault = if self.at >= self.bytes.len() && matches!(fault, Fault::Syntax) {
            Fault::Cut
        } else {
            fault
        };
        Err(Stop {
            fault,
            offset: self.at.min(self.bytes.len()),
        })
    }

    #[inline]
    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Moves past `byte` if it is next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
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

    /// Moves past a string; the span leaves the quotes out. Says whether it holds an escape.
    #[inline]
    pub(super) fn string(&mut self) -> Scan<(Span, bool)> {
        self.expect(b'"')?;
        let start = self.at;
        match string::close(self.bytes, start) {
            Ok((end, escaped)) => {
                self.at = end + 1;
                Ok((Span::new(start, end), escaped))
            }
            Err(offset) => {
                self.at = offset;
                self.stop(Fault::Syntax)
            }
        }
    }

    /// Moves past a key and its colon, up to the value.
    #[inline]
    pub(super) fn key(&mut self) -> Scan<(Span, bool)> {
        let key = self.string()?;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(key)
    }

    /// Moves past one value that lies `depth` levels deep. Starts on its first byte.
    pub(super) fn value(&mut self, depth: u32) -> Scan<Span> {
        let start = self.at;
        // One bit per open level above `depth`: set for an object.
        let mut objects: u128 = 0;
        let mut open = 0_u32;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(bracket @ (b'{' | b'[')) => {
                    if depth + open >= MAX_DEPTH {
                        return self.stop(Fault::Depth);
                    }
                    self.at += 1;
                    open += 1;
                    objects = objects << 1 | u128::from(bracket == b'{');
                    self.space();
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    if self.take(close) {
                        objects >>= 1;
                        open -= 1;
                    } else {
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return self.stop(Fault::Syntax),
            }
            // After a value: close levels until a comma asks for the next one.
            loop {
                if open == 0 {
                    return Ok(Span::new(start, self.at));
                }
                self.space();
                let object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.space();
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if object => {}
                    Some(b']') if !object => {}
                    _ => return self.stop(Fault::Syntax),
                }
                self.at += 1;
                objects >>= 1;
                open -= 1;
            }
        }
    }

    /// Moves past one array that lies `depth` levels deep and hands out the span of each element.
    pub(super) fn array(&mut self, depth: u32, mut element: impl FnMut(Span)) -> Scan<Span> {
        let start = self.at;
        if depth >= MAX_DEPTH {
            return self.stop(Fault::Depth);
        }
        self.expect(b'[')?;
        self.space();
        if self.take(b']') {
            return Ok(Span::new(start, self.at));
        }
        loop {
            element(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Span::new(start, self.at));
            }
            self.expect(b',')?;
            self.space();
        }
    }

    #[inline]
    fn digits(&mut self) -> Scan<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return self.stop(Fault::Syntax);
        }
        Ok(())
    }

    fn number(&mut self) -> Scan<()> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Scan<()> {
        for &byte in word {
            self.expect(byte)?;
        }
        Ok(())
    }
}
