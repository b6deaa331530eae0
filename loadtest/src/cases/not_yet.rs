//! Cases of features that are still to come, each with its reason. Lines go as features arrive.

use super::case::Case;

const ANTHROPIC: &str = "the Anthropic dialect towards clients is not built";
const GEMINI: &str = "the Gemini dialect towards vendors is not built";
const TRANSLATION: &str = "translation between dialects is not built";

const CASES: [(&str, &str); 9] = [
    ("C007", GEMINI),
    ("C008", GEMINI),
    ("C009", GEMINI),
    ("C031", ANTHROPIC),
    ("C041", TRANSLATION),
    ("C044", TRANSLATION),
    ("C055", ANTHROPIC),
    ("C060", ANTHROPIC),
    ("C161", GEMINI),
];

/// Why this case cannot be played yet.
pub(super) fn reason(case: &Case) -> Option<&'static str> {
    match case.kind.as_str() {
        "K3" => Some("fallback over dialects is not built"),
        "K4" => Some("budgets and prices beyond a flat card are not built"),
        "K5" => Some("the prefix lint and cache alerts are not built"),
        _ => CASES
            .iter()
            .find(|(id, _)| *id == case.id)
            .map(|(_, reason)| *reason),
    }
}
