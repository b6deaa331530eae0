//! The public price catalogues, read where they lie, and where they disagree.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;

use whippletree_policies::time::UnixTime;
use whippletree_providers::prices::PriceList;
use whippletree_providers::prices::compare::compare;
use whippletree_providers::prices::import::{Imported, genai, litellm};

/// 2026-11-30T12:00:00Z.
const NOW: UnixTime = UnixTime(1_796_040_000_000);

fn catalogue(name: &str) -> String {
    let shared = std::env::var_os("WHIPPLETREE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
        PathBuf::from,
    );
    std::fs::read_to_string(shared.join("prices").join(name)).unwrap()
}

fn both() -> (Imported, Imported) {
    let litellm = catalogue("litellm-model_prices_and_context_window.json");
    let genai = catalogue("genai-prices-0.2.3.json");
    (
        litellm::read(&litellm, "litellm").unwrap(),
        genai::read(&genai, "genai").unwrap(),
    )
}

#[test]
fn most_of_both_catalogues_is_read_and_little_is_rounded() {
    let (litellm, genai) = both();
    assert!(litellm.list.rows().len() > 3_900);
    assert!(genai.list.rows().len() > 2_400);
    assert!(litellm.rounded < 100 && genai.rounded < 50);
    let older = genai::read(&catalogue("genai-prices-v2-data.json"), "older").unwrap();
    assert!(older.list.rows().len() > 1_300);
    for list in [litellm.list, genai.list] {
        let again = PriceList::parse(&list.to_toml().unwrap()).unwrap();
        assert_eq!(again.rows(), list.rows());
    }
}

#[test]
fn the_known_disagreements_are_found_and_agreement_is_not_reported() {
    let (litellm, genai) = both();
    let (compared, found) = compare(&litellm.list, &genai.list, NOW);
    assert!(compared > 800);
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    for expected in [
        "anthropic/claude-sonnet-4-5: input above 200000: 3 or 6 dollars a million tokens",
        "deepseek/deepseek-chat: output: 0.42 or 1.1 dollars a million tokens",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}");
    }
    let agreed = [
        "openai/gpt-5.4:",
        "openai/gpt-4.1:",
        "openai/gpt-4o:",
        "anthropic/claude-haiku-4-5:",
        "anthropic/claude-opus-4-8:",
        "gemini/gemini-2.5-pro:",
    ];
    for line in &lines {
        assert!(!agreed.iter().any(|name| line.starts_with(name)), "{line}");
    }
}

#[test]
fn the_builtin_list_differs_from_the_catalogues_only_where_it_says_so() {
    let builtin = PriceList::builtin().unwrap();
    let (litellm, genai) = both();
    // A price of the built-in list is that of one catalogue at least.
    let (_, with_litellm) = compare(&builtin, &litellm.list, NOW);
    let (_, with_genai) = compare(&builtin, &genai.list, NOW);
    for found in &with_genai {
        let main = found.what.starts_with("input") || found.what.starts_with("output");
        let disputed = with_litellm.iter().any(|other| {
            (&other.vendor, &other.model, &other.what) == (&found.vendor, &found.model, &found.what)
        });
        let known = litellm
            .list
            .look_up(&found.vendor, &found.model, NOW)
            .is_some();
        assert!(!main || (known && !disputed), "{found}");
    }
}
