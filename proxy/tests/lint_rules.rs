//! Every rule over its fixtures: what it flags, as people read it, and what it leaves alone.
//!
//! Fixtures lie beside the rules' crate (`policies/tests/lint/<rule>/{flagged,clean}-*.json`); each is a
//! recorded session that the command reads as it is, but for `{{words N}}`, which stands for N words.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use whippletree::lint::judge::{Cause, Judged, judge};
use whippletree::lint::render::{self, Colour};
use whippletree::lint::trace::read;
use whippletree_policies::lint::{Meta, Severity, catalogue};
use whippletree_providers::prices::PriceList;

fn fixtures(meta: &Meta, kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../policies/tests/lint")
        .join(meta.name);
    let mut found: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(kind)
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{}: no fixture {kind}-*.json", meta.name);
    found
}

/// Replaces `{{words N}}` by N words, the same ones each time.
fn expanded(text: &str) -> String {
    let mut parts = text.split("{{words ");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (count, rest) = part.split_once("}}").unwrap();
        for number in 0..count.parse::<usize>().unwrap() {
            write!(out, "word{number} ").unwrap();
        }
        out.push_str(rest);
    }
    out
}

fn lint(path: &Path) -> (Judged, serde_json::Value) {
    let text = std::fs::read_to_string(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    std::fs::write(&file, expanded(&text)).unwrap();
    let (_, requests) = read(&file, 0).unwrap();
    (
        judge(&requests, &PriceList::builtin().unwrap()),
        serde_json::from_str(&text).unwrap(),
    )
}

fn loud(judged: &Judged) -> Vec<&Cause> {
    judged
        .causes
        .iter()
        .filter(|cause| cause.finding.severity >= Severity::Warning)
        .collect()
}

fn rendered(causes: &[&Cause]) -> String {
    let texts: Vec<String> = causes
        .iter()
        .map(|cause| render::cause(cause, "trace.json", Colour::Plain))
        .collect();
    texts.join("\n\n")
}

#[test]
fn flagged_fixtures_are_found_where_they_say_and_read_as_accepted() {
    let mut wrong = Vec::new();
    for meta in catalogue() {
        let mut page = String::new();
        for path in fixtures(meta, "flagged") {
            let (judged, fixture) = lint(&path);
            let causes = loud(&judged);
            let place = fixture["expect"]["path"].as_str().unwrap();
            let request = fixture["expect"]["request"].as_u64().unwrap();
            let right = causes.iter().any(|cause| {
                cause.finding.rule.name == meta.name
                    && cause.request as u64 == request
                    && cause.finding.spot.path.starts_with(place)
            });
            if !right {
                wrong.push(format!("{}:\n{}", path.display(), rendered(&causes)));
            }
            writeln!(
                page,
                "# {}\n\n{}\n",
                fixture["about"].as_str().unwrap(),
                rendered(&causes)
            )
            .unwrap();
        }
        insta::with_settings!({
            snapshot_path => format!("../../policies/tests/lint/{}", meta.name),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!("diagnostic", page);
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn clean_fixtures_are_left_alone() {
    let mut wrong = Vec::new();
    for meta in catalogue() {
        for path in fixtures(meta, "clean") {
            let (judged, _) = lint(&path);
            let causes: Vec<&Cause> = loud(&judged)
                .into_iter()
                // Where a clean way exists only beside another fault, that one may be named.
                .filter(|cause| {
                    cause.finding.rule.name == meta.name
                        || meta.name != "breakpoint-after-volatile-block"
                })
                .collect();
            if !causes.is_empty() {
                wrong.push(format!("{}:\n{}", path.display(), rendered(&causes)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
