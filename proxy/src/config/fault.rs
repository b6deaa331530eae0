//! What is wrong with a configuration, and where.

use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};

/// How grave a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It is accepted, and probably not what was meant.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How grave it is.
    pub severity: Severity,
    /// The key or value that it is about.
    pub path: Path,
    /// Where that stands, in bytes; empty and at the start when it stands nowhere.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What was expected instead.
    pub expected: Option<String>,
    /// What to do about it: the nearest valid name, or where to look.
    pub help: Option<String>,
    /// Another place that has to do with it, in bytes, and why.
    pub related: Option<(Range<usize>, &'static str)>,
}

impl Fault {
    /// An error at a place.
    pub fn new(path: &Path, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.clone(),
            span,
            message: message.into(),
            expected: None,
            help: None,
            related: None,
        }
    }

    /// With what was expected instead.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<Option<String>>) -> Self {
        self.help = help.into();
        self
    }

    /// As a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

/// A key's way from the top of the file: `tenants.acme.keys[0].sha256`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Step>);

/// One step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Into an array.
    Index(usize),
    /// Into a table.
    Key(String),
}

impl Path {
    /// The way along keys.
    pub fn of<const N: usize>(keys: [&str; N]) -> Self {
        Self(keys.map(|key| Step::Key(key.to_owned())).into())
    }

    /// One key further.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    /// Into an array.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }

    /// The table or array that the path leads into last; `None` of the top.
    pub fn parent(&self) -> Option<Self> {
        let (_, steps) = self.0.split_last()?;
        Some(Self(steps.to_vec()))
    }

    /// The steps from the top.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether the path has the form of a pattern: keys separated by dots, `*` for any key and
    /// `[]` for any place in an array.
    pub fn matches(&self, pattern: &str) -> bool {
        let mut parts = pattern.split('.');
        let mut steps = self.0.iter();
        loop {
            match (parts.next(), steps.next()) {
                (None, None) => return true,
                (Some("*"), Some(Step::Key(_))) | (Some("[]"), Some(Step::Index(_))) => {}
                (Some(part), Some(Step::Key(key))) if part == key => {}
                _ => return false,
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    let dot = if i == 0 { "" } else { "." };
                    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
                    if !key.is_empty() && key.bytes().all(bare) {
                        write!(f, "{dot}{key}")?;
                    } else {
                        write!(f, "{dot}{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An error and all that it came from, one after the other.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// The candidate that a mistyped name most likely meant: the fewest edits, at most a third of its
/// length.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate, most), candidate))
        .filter(|(edits, candidate)| *edits <= most && *edits < candidate.chars().count())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) between two names, without regard to case and
/// with `-` as `_`: optimal string alignment (Boytsov 2011). Gives up past `most`.
fn distance(a: &str, b: &str, most: usize) -> usize {
    let fold = |text: &str| -> Vec<char> {
        text.chars()
            .map(|c| {
                if c == '-' {
                    '_'
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect()
    };
    let (a, b) = (fold(a), fold(b));
    if a.len().abs_diff(b.len()) > most {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut a_before = None;
    for (i, a_char) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        let mut b_before = None;
        for (j, b_char) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX);
            let replaced = at(&above, j).saturating_add(usize::from(a_char != b_char));
            let deleted = at(&above, j + 1).saturating_add(1);
            let inserted = at(&row, j).saturating_add(1);
            let mut least = replaced.min(deleted).min(inserted);
            let swapped = a_before == Some(b_char) && b_before == Some(a_char);
            if swapped && let Some(j) = j.checked_sub(1) {
                least = least.min(at(&before, j).saturating_add(1));
            }
            row.push(least);
            b_before = Some(b_char);
        }
        before = std::mem::replace(&mut above, row);
        a_before = Some(a_char);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_a_few_edits_away_or_none() {
        let names = ["timeouts", "targets", "base_url", "keys"];
        assert_eq!(nearest("timeout", names), Some("timeouts"));
        assert_eq!(nearest("tragets", names), Some("targets"));
        assert_eq!(nearest("base-url", names), Some("base_url"));
        assert_eq!(nearest("baseUrl", names), Some("base_url"));
        assert_eq!(nearest("kyes", names), Some("keys"));
        assert_eq!(nearest("endpoint", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", ["a", "b"]), None);
    }

    #[test]
    fn edits_count_a_swap_of_neighbours_once() {
        assert_eq!(distance("kyes", "keys", 4), 1);
        assert_eq!(distance("abc", "abc", 4), 0);
        assert_eq!(distance("kitten", "sitting", 4), 3);
        assert_eq!(distance("", "abc", 4), 3);
    }

    #[test]
    fn a_path_prints_as_toml_would_write_it() {
        let path = Path::of(["targets", "openai/gpt-5.6", "price"])
            .index(0)
            .key("input");
        assert_eq!(
            path.to_string(),
            "targets.\"openai/gpt-5.6\".price[0].input"
        );
        assert!(path.matches("targets.*.price.[].input"));
        assert!(!path.matches("targets.*.price"));
        assert!(!path.matches("targets.*.price.*.input"));
    }
}
