//! Fingerprints of text that need not be kept.
//!
//! Each request of an agent repeats a hundred kilobytes that were sent before, so a fingerprint must
//! cost far less than a microsecond per kilobyte, and a body is cut into a hundred pieces: BLAKE3
//! needs about 70 µs for such a body, piece by piece. So BLAKE3 makes the key material once from a
//! secret, and a keyed multiply-and-fold hash (the scheme of wyhash and of Rust's foldhash: 64×64
//! bits to 128, both halves xored) runs over the text.
//!
//! Limits: without the secret neither the text nor a collision can be found by trying, but this is
//! no signature. Fingerprints live in memory only and mean nothing in another process with another
//! secret.

use core::fmt;

/// A keyed fingerprint of one piece of a prompt, or of a run of pieces.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

const STRIPE: usize = 64;

/// Makes fingerprints under one secret.
#[derive(Clone)]
pub struct Fingerprinter {
    start: [u64; 4],
    lanes: [u64; 4],
    tail: [u64; 4],
}

impl fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprinter(secret)")
    }
}

impl Fingerprinter {
    /// Draws the key material from `secret`.
    pub fn new(secret: &[u8; 32]) -> Self {
        let mut material = [0; 96];
        blake3::Hasher::new_keyed(secret)
            .update(b"whippletree prefix fingerprints v1")
            .finalize_xof()
            .fill(&mut material);
        let (words, _) = material.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut four = || core::array::from_fn(|_| words.next().unwrap_or_default());
        Self {
            start: four(),
            lanes: four(),
            tail: four(),
        }
    }

    /// The fingerprint of `text` in the role `tag`: equal text under another tag differs.
    #[inline]
    pub fn of(&self, tag: u8, text: &[u8]) -> Fingerprint {
        let mut lanes = self.start;
        let (stripes, rest) = text.as_chunks::<STRIPE>();
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<16>();
            for ((lane, key), pair) in lanes.iter_mut().zip(&self.lanes).zip(words) {
                let both = u128::from_le_bytes(*pair);
                *lane = fold(low(both) ^ key, high(both) ^ *lane);
            }
        }
        let [a, b, c, d] = lanes;
        let [key_a, key_b, key_c, key_d] = self.tail;
        let mut last = fold(a ^ key_a, b) ^ fold(c ^ key_b, d);
        let (pairs, rest) = rest.as_chunks::<16>();
        for pair in pairs {
            let both = u128::from_le_bytes(*pair);
            last = fold(low(both) ^ key_c, high(both) ^ last);
        }
        let mut padded = [0; 16];
        for (to, from) in padded.iter_mut().zip(rest) {
            *to = *from;
        }
        let both = u128::from_le_bytes(padded);
        last = fold(low(both) ^ key_d, high(both) ^ last);
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Fingerprint(fold(
            length ^ u64::from(tag) << 56 ^ key_b,
            last ^ key_a.rotate_left(17),
        ))
    }

    /// The fingerprint of a run: what stood before, and the piece that follows.
    #[inline]
    pub fn follow(&self, before: Fingerprint, piece: Fingerprint) -> Fingerprint {
        let [a, b, c, d] = self.tail;
        Fingerprint(
            fold(before.0 ^ a, piece.0 ^ b) ^ fold(before.0 ^ c, piece.0.rotate_left(31) ^ d),
        )
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    low(product) ^ high(product)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is meant"
)]
#[inline]
const fn low(both: u128) -> u64 {
    both as u64
}

#[inline]
const fn high(both: u128) -> u64 {
    (both >> 64) as u64
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;

    fn text(length: usize) -> Vec<u8> {
        (0..length)
            .map(|i| u8::try_from(i * 7 % 251).unwrap())
            .collect()
    }

    #[test]
    fn every_length_bit_tag_and_secret_changes_the_fingerprint() {
        let print = Fingerprinter::new(&[1; 32]);
        let mut seen = BTreeSet::new();
        let mut count = 0;
        for length in 0..200 {
            count += 1;
            seen.insert(print.of(0, &text(length)));
            for bit in 0..length * 8 {
                let mut flipped = text(length);
                flipped[bit / 8] ^= 1 << (bit % 8);
                count += 1;
                seen.insert(print.of(0, &flipped));
            }
        }
        assert_eq!(seen.len(), count);
        assert_ne!(print.of(0, b"abc"), print.of(1, b"abc"));
        assert_ne!(
            print.of(0, b"abc"),
            Fingerprinter::new(&[2; 32]).of(0, b"abc")
        );
        assert_eq!(
            print.of(0, b"abc"),
            Fingerprinter::new(&[1; 32]).of(0, b"abc")
        );
    }

    #[test]
    fn a_run_depends_on_order() {
        let print = Fingerprinter::new(&[1; 32]);
        let (a, b) = (print.of(0, b"a"), print.of(0, b"b"));
        let start = Fingerprint::default();
        let ab = print.follow(print.follow(start, a), b);
        let ba = print.follow(print.follow(start, b), a);
        assert_ne!(ab, ba);
    }
}
