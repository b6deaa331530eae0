//! Cases of features that are still to come, each with its reason. Lines go as features arrive.

use super::case::Case;

const BUDGETS: &str = "budgets are not built";
const GEMINI: &str = "the Gemini dialect towards vendors is not built";
const TRANSLATION: &str = "translation between dialects is not built";

const CASES: [(&str, &str); 15] = [
    ("C007", GEMINI),
    ("C008", GEMINI),
    ("C009", GEMINI),
    ("C041", TRANSLATION),
    ("C044", TRANSLATION),
    ("C104", "prices of a tenant's own are not built"),
    ("C111", GEMINI),
    ("C121", BUDGETS),
    ("C122", BUDGETS),
    ("C125", BUDGETS),
    ("C126", BUDGETS),
    ("C128", BUDGETS),
    ("C141", TRANSLATION),
    ("C143", TRANSLATION),
    ("C161", GEMINI),
];

/// Cases of a kind that is otherwise still to come, which can be played already.
const EARLY: [&str; 4] = ["C074", "C092", "C101", "C140"];

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
