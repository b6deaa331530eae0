//! The boards and rules in `dashboards` speak of metrics and labels that the gateway has.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

type Catalogue = BTreeMap<String, BTreeSet<String>>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{} is empty", folder.display());
    found
}

/// Every series by name with its labels: those of the generated page, those that a histogram adds,
/// and those that `rules.yaml` records.
fn catalogue() -> Catalogue {
    let page = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md"));
    let mut catalogue = Catalogue::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let mut labels: BTreeSet<String> = cells[3]
            .split(',')
            .map(|label| label.trim().to_owned())
            .filter(|label| !label.is_empty())
            .collect();
        labels.extend(["instance".to_owned(), "job".to_owned()]);
        if cells[2] == "histogram" {
            for part in ["_sum", "_count"] {
                catalogue.insert(format!("{name}{part}"), labels.clone());
            }
            labels.insert("le".to_owned());
            catalogue.insert(format!("{name}_bucket"), labels);
        } else {
            catalogue.insert(name, labels);
        }
    }
    for line in read(&folder().join("rules.yaml")).lines() {
        if let Some(name) = line.trim().strip_prefix("- record: ") {
            // The level is the list of labels that are left.
            let level = name.split(':').next().unwrap_or_default();
            let labels = level.split('_').map(str::to_owned).collect();
            catalogue.insert(name.to_owned(), labels);
        }
    }
    assert!(catalogue.len() > 60, "{catalogue:?}");
    catalogue
}

/// Names of series in an expression, each with the labels that its selector asks for.
fn selectors(expression: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_name) {
        let from = &rest[start..];
        let end = from.find(|c| !is_name(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        rest = after;
        if !name.contains("whippletree") {
            continue;
        }
        let mut labels = Vec::new();
        if let Some(selector) = after.strip_prefix('{') {
            let (inside, after) = selector.split_once('}').unwrap();
            rest = after;
            // Values hold no comma in our files.
            for matcher in inside.split(',').filter(|matcher| !matcher.is_empty()) {
                let end = matcher.find(['=', '!']).unwrap();
                labels.push(matcher[..end].trim().to_owned());
            }
        }
        found.push((name.to_owned(), labels));
    }
    found
}

fn check(catalogue: &Catalogue, place: &str, expression: &str, faults: &mut Vec<String>) {
    for (name, labels) in selectors(expression) {
        let Some(known) = catalogue.get(&name) else {
            faults.push(format!("{place}: no metric is named {name}"));
            continue;
        };
        for label in labels {
            if !known.contains(&label) {
                faults.push(format!("{place}: {name} has no label {label}"));
            }
        }
    }
}

/// Text of the `expr` keys of a file of rules.
fn expressions(rules: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = rules.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((indent, value)) = line.split_once("expr: ") else {
            continue;
        };
        if value != "|" {
            found.push(value.to_owned());
            continue;
        }
        let mut block = String::new();
        while let Some(next) = lines.next_if(|next| next.starts_with(&format!("{indent}  "))) {
            block.push_str(next);
            block.push('\n');
        }
        found.push(block);
    }
    found
}

#[test]
fn rules_and_alerts_name_only_series_and_labels_that_exist() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for file in ["rules.yaml", "alerts.yaml"] {
        let text = read(&folder().join(file));
        let expressions = expressions(&text);
        let rules = text.matches("- record: ").count() + text.matches("- alert: ").count();
        assert!(rules > 0);
        assert_eq!(expressions.len(), rules, "{file}: a rule was not read");
        for expression in expressions {
            check(&catalogue, file, &expression, &mut faults);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_expression_of_a_board_names_only_series_and_labels_that_exist() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for path in files(&folder().join("grafana/boards"), "json") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let board: Value = serde_json::from_str(&read(&path)).unwrap();
        let mut seen = 0;
        for panel in board["panels"].as_array().unwrap() {
            let place = format!("{name}, {}", panel["title"]);
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().unwrap();
                seen += 1;
                check(&catalogue, &place, expression, &mut faults);
            }
        }
        for variable in board["templating"]["list"].as_array().unwrap() {
            if let Some(definition) = variable["definition"].as_str() {
                check(&catalogue, &name, definition, &mut faults);
            }
        }
        assert!(seen > 5, "{name}: {seen} expressions");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn panels_have_their_own_place_and_number_and_ask_the_chosen_source() {
    for path in files(&folder().join("grafana/boards"), "json") {
        let board: Value = serde_json::from_str(&read(&path)).unwrap();
        let mut numbers = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            let place = &panel["gridPos"];
            let number = |key: &str| place[key].as_u64().unwrap();
            assert!(number("x") + number("w") <= 24, "{}", panel["title"]);
            for x in number("x")..number("x") + number("w") {
                for y in number("y")..number("y") + number("h") {
                    assert!(taken.insert((x, y)), "{} overlaps", panel["title"]);
                }
            }
            assert!(numbers.insert(panel["id"].as_u64().unwrap()));
            if panel["type"] != "row" {
                assert_eq!(panel["datasource"]["uid"], "${datasource}");
            }
        }
    }
}

#[test]
fn every_alert_has_a_page_in_the_runbook_and_is_tested_both_ways() {
    let alerts = read(&folder().join("alerts.yaml"));
    let runbook = read(&folder().join("runbook.md"));
    let tests: String = files(&folder().join("tests"), "yaml")
        .iter()
        .map(|path| read(path))
        .collect();
    let mut names = BTreeSet::new();
    for block in alerts.split("- alert: ").skip(1) {
        let name = block.lines().next().unwrap();
        assert!(names.insert(name), "{name} stands twice");
        for key in ["summary: ", "description: ", "severity: "] {
            assert!(block.contains(key), "{name} has no {key}");
        }
        let link = format!("runbook_url: runbook.md#{}", name.to_lowercase());
        assert!(block.contains(&link), "{name} does not link its page");
        assert!(
            runbook.contains(&format!("\n## {name}\n")),
            "{name} has no page"
        );
        for way in ["fires: ", "is silent: "] {
            assert!(
                tests.contains(&format!("{name} {way}")),
                "no test that {name} {way}"
            );
        }
    }
    let pages = runbook.matches("\n## ").count();
    assert_eq!(
        pages,
        names.len(),
        "a page of the runbook belongs to no alert"
    );
}

#[test]
fn a_wrong_name_and_a_wrong_label_are_found() {
    let mut faults = Vec::new();
    let expression =
        "rate(whippletree_requests_total{vendor=\"x\",route=\"y\"}[5m]) + whippletree_nothing";
    check(&catalogue(), "here", expression, &mut faults);
    assert_eq!(
        faults,
        [
            "here: whippletree_requests_total has no label vendor",
            "here: no metric is named whippletree_nothing"
        ]
    );
}
