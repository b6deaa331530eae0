//! Findings as SARIF 2.1.0, for code scanning.

use serde_json::{Map, Value, json};
use whippletree_policies::lint::{Severity, catalogue};

use super::judge::{Cause, identity};
use super::trace::File;

/// The log of one run.
pub fn log<'a>(causes: impl Iterator<Item = &'a Cause>, files: &[File]) -> Value {
    let rules: Vec<Value> = catalogue()
        .map(|meta| {
            json!({
                "id": meta.code,
                "name": meta.name,
                "shortDescription": {"text": meta.summary},
                "help": {"text": meta.help, "markdown": meta.docs},
                "defaultConfiguration": {"level": level(meta.severity)},
                "properties": {"family": meta.family},
            })
        })
        .collect();
    let results: Vec<Value> = causes.map(|cause| result(cause, files)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "whippletree lint",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

fn result(cause: &Cause, files: &[File]) -> Value {
    let finding = &cause.finding;
    let file = files.get(cause.file);
    let path = file
        .map(|file| file.path.to_string_lossy().replace('\\', "/"))
        .unwrap_or_default();
    let mut region = Map::new();
    region.insert("startLine".to_owned(), json!(cause.line));
    if let Some(start) = cause.body_at {
        region.insert("byteOffset".to_owned(), json!(start + finding.spot.from));
        region.insert(
            "byteLength".to_owned(),
            json!(finding.spot.to.saturating_sub(finding.spot.from)),
        );
    }
    if let Some(window) = &finding.after {
        region.insert("snippet".to_owned(), json!({"text": window.text}));
    }
    let suppressions: Vec<Value> = cause
        .allowed
        .iter()
        .map(|reason| json!({"kind": "external", "justification": reason}))
        .collect();
    json!({
        "ruleId": finding.rule.code,
        "level": level(finding.severity),
        "message": {"text": format!("call {}: {}", cause.request, finding.message)},
        "locations": [{
            "physicalLocation": {"artifactLocation": {"uri": path}, "region": region},
            "logicalLocations": [{"fullyQualifiedName": finding.spot.path}],
        }],
        "partialFingerprints": {"cause/v1": identity(cause, &path)},
        "suppressions": suppressions,
        "occurrenceCount": cause.requests.len(),
        "baselineState": if cause.known { "unchanged" } else { "new" },
        "properties": {
            "request": cause.request,
            "previous": cause.previous,
            "lost_tokens": cause.lost_tokens,
            "lost_usd": cause.lost_usd,
        },
    })
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Advice => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}
