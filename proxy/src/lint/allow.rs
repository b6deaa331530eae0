//! Findings that a team has decided to live with, each with its reason.
//!
//! ```toml
//! [[allow]]
//! rule = "volatile-date"          # a name or a code
//! path = "messages[0].content"    # optional: the beginning of the place
//! file = "traces/nightly"         # optional: a part of the file's path
//! reason = "the date decides which offers are valid"
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;
use whippletree_policies::lint::rule;

use super::judge::Cause;

/// What is allowed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    #[serde(default, rename = "allow")]
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: String,
    path: Option<String>,
    file: Option<String>,
    reason: String,
}

/// Why a file of allowances was refused.
#[derive(Debug, thiserror::Error)]
pub enum AllowError {
    /// It cannot be read.
    #[error("read {0}")]
    Read(PathBuf, #[source] std::io::Error),
    /// It is no TOML of the right form.
    #[error("{0}: {1}")]
    Form(PathBuf, Box<toml::de::Error>),
    /// It names a rule that does not exist.
    #[error("{0}: no rule is called \"{1}\"; `whippletree lint --rules` lists them")]
    Rule(PathBuf, String),
    /// It gives no reason.
    #[error("{0}: allowing {1} needs a reason")]
    Reason(PathBuf, String),
}

impl Allowed {
    /// Reads a file.
    ///
    /// # Errors
    /// [`AllowError`] when it cannot be read, names no rule or gives no reason.
    pub fn read(path: &Path) -> Result<Self, AllowError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| AllowError::Read(path.to_owned(), error))?;
        let allowed: Self = toml::from_str(&text)
            .map_err(|error| AllowError::Form(path.to_owned(), Box::new(error)))?;
        for entry in &allowed.entries {
            if rule(&entry.rule).is_none() {
                return Err(AllowError::Rule(path.to_owned(), entry.rule.clone()));
            }
            if entry.reason.trim().is_empty() {
                return Err(AllowError::Reason(path.to_owned(), entry.rule.clone()));
            }
        }
        Ok(allowed)
    }

    /// Why a cause is allowed, if it is.
    pub fn reason(&self, cause: &Cause, file: &str) -> Option<&str> {
        let meta = cause.finding.rule;
        self.entries
            .iter()
            .find(|entry| {
                (entry.rule == meta.name || entry.rule.eq_ignore_ascii_case(meta.code))
                    && entry
                        .path
                        .as_ref()
                        .is_none_or(|path| cause.finding.spot.path.starts_with(path.as_str()))
                    && entry
                        .file
                        .as_ref()
                        .is_none_or(|part| file.contains(part.as_str()))
            })
            .map(|entry| entry.reason.as_str())
    }
}
