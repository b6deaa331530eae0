//! Secrets, masked before a text is shown.

use alloc::string::String;

use super::token;

const PREFIXES: [&str; 18] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "hf_",
    "npm_",
];

const LABELS: [&str; 12] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "authorization",
    "bearer",
    "credential",
    "apikey",
    "api_key",
    "密码",
    "密钥",
];

/// The text with every token that looks like a credential replaced by `•••`, its first four
/// characters kept.
pub(crate) fn mask(text: &str) -> String {
    let belongs =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/' | '=');
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let length: usize = rest
            .chars()
            .take_while(|c| belongs(*c))
            .map(char::len_utf8)
            .sum();
        if length == 0 {
            let step = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(rest.get(..step).unwrap_or_default());
            at += step;
            continue;
        }
        let word = rest.get(..length).unwrap_or_default();
        if is_secret(word, text.get(..at).unwrap_or_default()) {
            out.push_str(word.get(..4).unwrap_or_default());
            out.push_str("•••");
        } else {
            out.push_str(word);
        }
        at += length;
    }
    out
}

fn is_secret(word: &str, before: &str) -> bool {
    let long = word.len() >= 16;
    if long && PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
        return true;
    }
    let mixed =
        word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().any(|b| b.is_ascii_alphabetic());
    let label =
        before.get(crate::lint::words::floor_boundary(before, before.len().saturating_sub(24))..);
    let labelled = label.is_some_and(|label| token::mentions(label, &LABELS));
    labelled && (word.len() >= 8 && mixed || word.len() >= 12 && !word.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_and_the_rest_is_not() {
        assert_eq!(mask("use sk-proj-abcdef1234567890 now"), "use sk-p••• now");
        assert_eq!(
            mask("Authorization: Bearer abc123def456"),
            "Authorization: Bearer abc1•••"
        );
        assert_eq!(mask("password = hunter2hunter2"), "password = hunt•••");
        let plain = "Now: 2026-11-30 10:00:01, /home/dev/project, token count 12";
        assert_eq!(mask(plain), plain);
    }
}
