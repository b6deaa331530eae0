//! Findings that were there before: a run fails only for new ones.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::judge::{Cause, identity};

/// The causes of an earlier run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The form of this file.
    version: u32,
    findings: BTreeSet<Known>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Known {
    file: String,
    rule: String,
    path: String,
    id: String,
}

impl Baseline {
    /// Reads a baseline.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{}: expected a baseline", path.display()))
    }

    /// The baseline that knows these causes. Advice is left out: it makes no run fail.
    pub fn of<'a>(causes: impl Iterator<Item = (&'a Cause, &'a str)>) -> Self {
        let known = causes
            .filter(|(cause, _)| cause.fails() || cause.known)
            .map(|(cause, file)| Known {
                file: file.to_owned(),
                rule: cause.finding.rule.code.to_owned(),
                path: cause.finding.cause().1,
                id: identity(cause, file),
            });
        Self {
            version: 1,
            findings: known.collect(),
        }
    }

    /// Whether a cause is in it.
    pub fn knows(&self, cause: &Cause, file: &str) -> bool {
        let id = identity(cause, file);
        self.findings.iter().any(|known| known.id == id)
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }

    /// How many findings it knows.
    pub fn len(&self) -> usize {
        self.findings.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }
}
