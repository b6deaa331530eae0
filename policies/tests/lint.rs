//! The reference of the rules is what the rules say, and each rule says all that it must.

use std::collections::BTreeSet;
use std::path::Path;

use whippletree_policies::lint::{Family, catalogue, reference, rule};

const HEADINGS: [&str; 7] = [
    "## What it does",
    "## Why it costs",
    "## Example",
    "## Use instead",
    "## Known problems",
    "## Options",
    "## References",
];

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules.md");
    let fresh = reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == fresh,
        "docs/rules.md is stale: UPDATE=1 cargo test -p whippletree-policies --test lint"
    );
}

#[test]
fn every_rule_has_a_code_a_name_and_a_whole_page() {
    let mut codes = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut families = BTreeSet::new();
    for meta in catalogue() {
        assert!(codes.insert(meta.code), "{} twice", meta.code);
        assert!(names.insert(meta.name), "{} twice", meta.name);
        families.insert(meta.family);
        let number = meta.code.strip_prefix("PS").unwrap();
        assert!(
            number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()),
            "{}",
            meta.code
        );
        let mut at = 0;
        for heading in HEADINGS {
            let found = meta.docs[at..].find(heading);
            at += found.unwrap_or_else(|| panic!("{}: {heading}", meta.name));
        }
        for text in [meta.summary, meta.help] {
            let first = text.chars().next().unwrap();
            assert!(
                first.is_lowercase() && !text.ends_with('.'),
                "{}: {text}",
                meta.name
            );
        }
        assert_eq!(rule(meta.code).unwrap().name, meta.name);
        assert_eq!(rule(meta.name).unwrap().code, meta.code);
    }
    assert!(codes.len() >= 30, "{} rules", codes.len());
    let all = [
        Family::Volatile,
        Family::Serialisation,
        Family::History,
        Family::Layout,
        Family::Fleet,
    ];
    assert_eq!(families, BTreeSet::from(all));
}
#[test]
fn every_rule_has_fixtures_that_it_flags_and_that_it_leaves_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint");
    for meta in catalogue() {
        let files: Vec<String> = std::fs::read_dir(root.join(meta.name))
            .map(|entries| {
                entries
                    .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                    .collect()
            })
            .unwrap_or_default();
        for kind in ["flagged-", "clean-"] {
            assert!(
                files.iter().any(|file| file.starts_with(kind)),
                "{}: no fixture {kind}*.json",
                meta.name
            );
        }
    }
}
