//! Virtual keys: what agents show to the gateway instead of a vendor's secret.
//!
//! A key is `sk-wt-`, 43 base62 characters (256 random bits) and 6 more that are the CRC-32 of all
//! before them. The checksum serves scanners and people who mistype; it is no protection. The
//! gateway keeps the SHA-256 of a key alone: with 256 random bits no slow hash is needed. Keys that
//! a team already has are welcome too: any secret of at least [`SHORTEST`] bytes whose SHA-256 is
//! configured is a key.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a generated key starts with.
pub const PREFIX: &str = "sk-wt-";

/// Shorter secrets are never keys, in bytes.
pub const SHORTEST: usize = 16;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_CHARS: usize = 43;
const CHECKSUM_CHARS: usize = 6;

/// Makes a new key.
pub fn generate() -> SecretString {
    encode(&rand::random())
}

fn encode(bits: &[u8; 32]) -> SecretString {
    let mut text = String::with_capacity(PREFIX.len() + RANDOM_CHARS + CHECKSUM_CHARS);
    text.push_str(PREFIX);
    push_base62(&mut text, bits, RANDOM_CHARS);
    let checksum = crc32fast::hash(text.as_bytes());
    push_base62(&mut text, &checksum.to_be_bytes(), CHECKSUM_CHARS);
    SecretString::from(text)
}

/// Appends the big-endian number in base 62, padded with zeros to `width` characters.
fn push_base62(text: &mut String, number: &[u8], width: usize) {
    let mut number = number.to_vec();
    let mut digits = vec![b'0'; width];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            // Below 256, for `rest` is below 62: the quotient of a long division's step.
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            rest = value % 62;
        }
        let index = usize::try_from(rest).unwrap_or(0);
        *digit = ALPHABET.get(index).copied().unwrap_or(b'0');
    }
    text.extend(digits.into_iter().map(char::from));
}

/// What a secret looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The checksum does not fit: a character was changed or lost.
    #[error("the key's checksum does not fit: it was mistyped or cut")]
    Checksum,
    /// It is not of the form that `keys new` prints.
    #[error("expected a key of the form sk-wt- and 49 letters and digits")]
    Form,
}

/// Whether the text is a key as [`generate`] makes them.
///
/// # Errors
/// [`InvalidKey`] says what is wrong.
pub fn check(text: &str) -> Result<(), InvalidKey> {
    let rest = text.strip_prefix(PREFIX).ok_or(InvalidKey::Form)?;
    let whole = rest.len() == RANDOM_CHARS + CHECKSUM_CHARS;
    if !whole || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(InvalidKey::Form);
    }
    let (signed, checksum) = text
        .split_at_checked(PREFIX.len() + RANDOM_CHARS)
        .ok_or(InvalidKey::Form)?;
    let mut expected = String::with_capacity(CHECKSUM_CHARS);
    push_base62(
        &mut expected,
        &crc32fast::hash(signed.as_bytes()).to_be_bytes(),
        CHECKSUM_CHARS,
    );
    if expected == checksum {
        Ok(())
    } else {
        Err(InvalidKey::Checksum)
    }
}

/// The SHA-256 of a secret, the form in which the gateway knows it.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Finds what belongs to a secret in a map by hash.
///
/// The map's lookup compares hashes, not secrets, so its timing tells an attacker nothing they can
/// steer; the comparison that decides is constant-time all the same. Secrets shorter than
/// [`SHORTEST`] are never found.
pub fn find<'a, T, S: BuildHasher>(
    keys: &'a HashMap<[u8; 32], T, S>,
    secret: &str,
) -> Option<&'a T> {
    if secret.len() < SHORTEST {
        return None;
    }
    let wanted = hash(secret);
    let (known, value) = keys.get_key_value(&wanted)?;
    bool::from(known.ct_eq(&wanted)).then_some(value)
}

/// A secret as it may be shown: its prefix and last four characters.
#[derive(Debug)]
pub struct Shown<'a>(pub &'a SecretString);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.expose_secret();
        let prefix = if text.starts_with(PREFIX) { PREFIX } else { "" };
        // Of a short secret four characters would be too much.
        let last = match text.char_indices().rev().nth(3) {
            Some((at, _)) if text.len() >= SHORTEST => text.get(at..).unwrap_or_default(),
            _ => "",
        };
        write!(f, "{prefix}…{last}")
    }
}

/// Bytes in lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Reads 64 hexadecimal digits, in either case.
pub fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | u8::try_from(value).ok()?;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_generated_key_has_the_promised_form() {
        let key = generate();
        let text = key.expose_secret();
        assert_eq!(text.len(), 6 + 43 + 6);
        assert_eq!(check(text), Ok(()));
        assert_ne!(generate().expose_secret(), text);
    }

    #[test]
    fn the_extremes_of_256_bits_fill_the_width() {
        let zero = encode(&[0; 32]);
        assert!(
            zero.expose_secret()
                .starts_with(&format!("sk-wt-{}", "0".repeat(43)))
        );
        let most = encode(&[255; 32]);
        assert_eq!(check(most.expose_secret()), Ok(()));
        assert!(!most.expose_secret().starts_with("sk-wt-0"));
    }

    #[test]
    fn a_secret_is_shown_as_prefix_and_last_four() {
        let key = encode(&[7; 32]);
        let text = key.expose_secret();
        let shown = Shown(&key).to_string();
        assert_eq!(shown, format!("sk-wt-…{}", &text[text.len() - 4..]));
        let short = SecretString::from("hunter2".to_owned());
        assert_eq!(Shown(&short).to_string(), "…");
    }

    #[test]
    fn a_secret_that_a_team_brings_is_found_when_it_is_long_enough() {
        let keys = HashMap::from([(hash("0123456789abcdef"), "ours"), (hash("short"), "never")]);
        assert_eq!(find(&keys, "0123456789abcdef"), Some(&"ours"));
        assert_eq!(find(&keys, "0123456789abcdeX"), None);
        assert_eq!(find(&keys, "short"), None);
    }

    proptest! {
        #[test]
        fn different_bits_are_different_keys(a: [u8; 32], b: [u8; 32]) {
            let (a_key, b_key) = (encode(&a), encode(&b));
            prop_assert_eq!(a == b, a_key.expose_secret() == b_key.expose_secret());
            prop_assert_eq!(check(a_key.expose_secret()), Ok(()));
        }

        #[test]
        fn one_changed_character_never_passes(bits: [u8; 32], at in 6_usize..55, to in 0_usize..62) {
            let key = encode(&bits);
            let mut bytes = key.expose_secret().as_bytes().to_vec();
            prop_assume!(bytes[at] != ALPHABET[to]);
            bytes[at] = ALPHABET[to];
            let text = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(check(&text), Err(InvalidKey::Checksum));
        }

        #[test]
        fn hexadecimal_reads_as_it_prints(bytes: [u8; 32]) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        }

        #[test]
        fn no_text_makes_the_check_panic(text in any::<String>()) {
            let _ = check(&text);
            let _ = Shown(&SecretString::from(text)).to_string();
        }
    }
}
