//! Credentials masked in text that others wrote.
//!
//! Harnesses act on a vendor's error message, so it is passed on; but a vendor may quote the key that
//! it was given, or a client its own. A word is masked when it starts like a credential of a known
//! vendor, when it stands where a credential is announced, or when it is long and random enough to be
//! one. Too much masked is a worse message; too little is a leak.

use std::borrow::Cow;

/// What stands for a masked word.
pub const MASK: &str = "***";

/// How credentials of known vendors begin.
const PREFIXES: [&str; 17] = [
    "sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "pplx-", "hf_", "r8_", "fw_", "csk-", "nvapi-",
    "AIza", "AKIA", "ASIA", "ghp_", "eyJ",
];

/// Text after which the next word is a credential.
const ANNOUNCED: [&str; 8] = [
    "bearer ",
    "basic ",
    "key provided: ",
    "api key: ",
    "api_key=",
    "apikey=",
    "key=",
    "token=",
];

/// A run of letters and digits of this length, mixed, is taken for a secret.
const RANDOM_FROM: usize = 32;

/// The text with every word that looks like a credential replaced by [`MASK`].
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some((start, end)) = next_word(text, at) {
        at = end;
        let word = text.get(start..end).unwrap_or_default();
        let before = text.get(..start).unwrap_or_default();
        if is_secret(word) || is_announced(before) || is_password(text, start, end) {
            masked.push_str(text.get(copied..start).unwrap_or_default());
            masked.push_str(MASK);
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(masked)
}

/// Characters of which credentials are made. The full stop belongs to a word only within it.
fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '~' | '*')
}

fn next_word(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = text.get(from..)?;
    let start = from + rest.find(in_word)?;
    let mut end = start;
    let mut chars = text.get(start..)?.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        let joins = matches!(c, '.') && chars.peek().is_some_and(|(_, next)| in_word(*next));
        if !in_word(c) && !joins {
            break;
        }
        end = start + i + c.len_utf8();
    }
    Some((start, end))
}

fn is_secret(word: &str) -> bool {
    let prefixed = PREFIXES.iter().any(|prefix| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= 8)
    });
    prefixed || word.split(['-', '.', '~', '*']).any(is_random)
}

fn is_random(run: &str) -> bool {
    run.len() >= RANDOM_FROM
        && run.bytes().any(|b| b.is_ascii_digit())
        && run.bytes().any(|b| b.is_ascii_alphabetic())
}

fn is_announced(before: &str) -> bool {
    let before = before.trim_end_matches(['<', '\'', '"', '`', '(', '[']);
    ANNOUNCED.iter().any(|announcement| {
        before
            .len()
            .checked_sub(announcement.len())
            .and_then(|at| before.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(announcement))
    })
}

/// `scheme://user:password@host`
fn is_password(text: &str, start: usize, end: usize) -> bool {
    let authority = text
        .get(..start)
        .and_then(|before| before.rsplit_once("://"))
        .map(|(_, authority)| authority);
    text.get(end..).is_some_and(|after| after.starts_with('@'))
        && authority.is_some_and(|user| {
            user.ends_with(':') && !user.contains(|c: char| c.is_whitespace() || c == '/')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_credential_is_masked() {
        for (text, masked) in [
            (
                "Incorrect API key provided: bad-key. You can find",
                "Incorrect API key provided: ***. You can find",
            ),
            ("API key: '<a-key>'", "API key: '<***>'"),
            ("use sk-proj-abcdefgh12345678, please", "use ***, please"),
            (
                "Authorization: Bearer abc.def-1",
                "Authorization: Bearer ***",
            ),
            ("\"AIzaSyA1234567890abcdef\"", "\"***\""),
            ("GET /v1?key=abc&alt=sse", "GET /v1?key=***&alt=sse"),
            ("http://me:hunter2@host/x", "http://me:***@host/x"),
            ("id 0123456789abcdef0123456789abcdef is", "id *** is"),
            ("sk-wt-0123456789", "***"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn what_people_need_to_read_stays() {
        for text in [
            "",
            "This model's maximum context length is 128000 tokens. However, you requested 130001 tokens.",
            "The model `gpt-4.1-nano` does not exist or you do not have access to it.",
            "request id 01980f5e-8c3a-7000-8000-000000000000, see https://example.com/errors",
            "accounts/fireworks/models/llama-v3p1-405b-instruct is not a token=",
            "risk-free, task-list, desk-top",
            "größer als erlaubt: 5 €",
        ] {
            assert!(matches!(mask(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
