//! Cases of features that are still to come, each with its reason. Lines go as features arrive.

use super::case::Case;

const ANTHROPIC: &str = "the Anthropic dialect towards clients is not built";
const BUDGETS: &str = "budgets are not built";
const GEMINI: &str = "the Gemini dialect towards vendors is not built";
const TRANSLATION: &str = "translation between dialects is not built";

const CASES: [(&str, &str); 27] = [
    ("C007", GEMINI),
    ("C008", GEMINI),
    ("C009", GEMINI),
    (
        "C020",
        "classes of errors cannot be configured; the vendor of the case is not a known one",
    ),
    ("C031", ANTHROPIC),
    ("C041", TRANSLATION),
    ("C044", TRANSLATION),
    ("C055", ANTHROPIC),
    ("C060", ANTHROPIC),
    ("C103", ANTHROPIC),
    ("C104", ANTHROPIC),
    ("C106", ANTHROPIC),
    ("C107", ANTHROPIC),
    ("C108", ANTHROPIC),
    (
        "C109",
        "records do not mark a price that stands in for a missing one",
    ),
    ("C110", ANTHROPIC),
    ("C111", GEMINI),
    (
        "C120",
        "records do not name the rule by which a failed call was charged",
    ),
    ("C121", BUDGETS),
    ("C122", BUDGETS),
    ("C125", BUDGETS),
    ("C126", BUDGETS),
    ("C128", BUDGETS),
    ("C140", ANTHROPIC),
    ("C141", TRANSLATION),
    ("C143", TRANSLATION),
    ("C161", GEMINI),
];

/// Cases of a kind that is otherwise still to come, which can be played already.
const EARLY: [&str; 1] = ["C101"];

/// Why this case cannot be played yet.
pub(super) fn reason(case: &Case) -> Option<&'static str> {
    if EARLY.contains(&case.id.as_str()) {
        return None;
    }
    if let Some((_, reason)) = CASES.iter().find(|(id, _)| *id == case.id) {
        return Some(reason);
    }
    match case.kind.as_str() {
        "K3" => Some("fallback over dialects is not built"),
        "K5" => Some("the prefix lint and cache alerts are not built"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_without_doubles() {
        let ids: Vec<&str> = CASES.iter().map(|(id, _)| *id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(EARLY.iter().all(|id| !ids.contains(id)));
    }
}
