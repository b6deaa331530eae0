//! The case runner against a relay that does nothing but relay: what needs no gateway passes, what
//! does need one fails with its reason.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use whippletree_loadtest::cases::{self, Options, Outcome, Played};

/// A program that takes a gateway's command line and is a bare relay to the first provider.
fn relay(folder: &Path) -> PathBuf {
    let script = format!(
        r#"#!/bin/sh
listen=$(sed -n '/^\[server\]/,/^$/s/^listen = "\(.*\)"/\1/p' "$3")
admin=$(sed -n '/^\[admin\]/,/^$/s/^listen = "\(.*\)"/\1/p' "$3")
vendor=$(sed -n 's/^base_url = "http:..\(.*\).v1"/\1/p' "$3" | head -1)
exec {} relay --listen "$listen" --upstream "$vendor" --health "$admin"
"#,
        env!("CARGO_BIN_EXE_whippletree-loadtest")
    );
    let path = folder.join("relay");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn shared() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let named = std::env::var_os("WHIPPLETREE_SHARED")
        .map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    root.join(named)
}

async fn play(only: &[&str]) -> Vec<Played> {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        cases: shared().join("cases/cases.jsonl"),
        gateway: relay(folder.path()),
        only: only.iter().map(|id| (*id).to_owned()).collect(),
        parallel: 2,
        all: false,
    };
    let mut told = 0;
    let played = cases::play(&options, |_| told += 1).await.unwrap();
    assert_eq!(told, played.len());
    played
}

#[tokio::test]
async fn a_relay_passes_what_only_asks_for_the_vendors_bytes() {
    let played = play(&["C040", "C046", "C057", "C063"]).await;
    let failed: Vec<_> = played
        .iter()
        .filter(|played| played.outcome != Outcome::Passed)
        .collect();
    assert!(failed.is_empty() && played.len() == 4, "{failed:?}");
}

#[tokio::test]
async fn a_relay_fails_what_needs_a_gateway_and_the_reason_is_told() {
    let played = play(&["C025", "C026", "C058"]).await;
    let reasons: Vec<String> = played
        .iter()
        .map(|played| match &played.outcome {
            Outcome::Failed { reasons } => format!("{} {}", played.id, reasons.join("; ")),
            other => format!("{} {other:?}", played.id),
        })
        .collect();
    assert!(
        reasons[0].contains("the error event's code is null"),
        "{reasons:?}"
    );
    assert!(
        reasons[1].contains("done is false, true wanted"),
        "{reasons:?}"
    );
    assert!(
        reasons[2].contains("body.stream_options.include_usage is null"),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn a_case_of_a_feature_to_come_is_never_passed() {
    let played = play(&["C066", "C121", "C135"]).await;
    assert!(
        played
            .iter()
            .all(|played| matches!(played.outcome, Outcome::NotYet { .. }))
            && !played.is_empty()
    );
}

#[tokio::test]
async fn an_unknown_case_is_refused() {
    let options = Options {
        cases: shared().join("cases/cases.jsonl"),
        gateway: PathBuf::from("none"),
        only: vec!["C999".to_owned()],
        parallel: 1,
        all: false,
    };
    assert!(cases::play(&options, |_| {}).await.is_err());
}
