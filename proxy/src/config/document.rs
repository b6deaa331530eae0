//! The text of a configuration file and where everything stands in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::fault::{Path, Step};

/// A value's place in the text, and its parts' places.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The value, in bytes.
    pub span: Range<usize>,
    /// Its key, in bytes; of an array's element, the element.
    pub key: Range<usize>,
    /// Parts of a table.
    pub entries: BTreeMap<String, Node>,
    /// Parts of an array.
    pub elements: Vec<Node>,
    /// Keys of a table whose values were faulty and are not among the entries.
    pub dropped: BTreeSet<String>,
}

impl Node {
    fn step(&self, step: &Step) -> Option<&Self> {
        match step {
            Step::Index(index) => self.elements.get(*index),
            Step::Key(key) => self.entries.get(key),
        }
    }
}

/// The text of a configuration file and where everything stands in it.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The file's name as people know it.
    pub name: String,
    /// The text.
    pub text: String,
    /// The top table.
    pub root: Node,
    /// Literal secrets and values of unknown keys, in bytes: never shown.
    pub hidden: Vec<Range<usize>>,
}

impl Document {
    /// The node at a path.
    pub fn node(&self, path: &Path) -> Option<&Node> {
        path.steps()
            .iter()
            .try_fold(&self.root, |node, step| node.step(step))
    }

    /// The nearest thing on the way to `path` that stands in the file.
    fn nearest(&self, path: &Path) -> Option<&Node> {
        let mut node = &self.root;
        let mut found = None;
        for step in path.steps() {
            let Some(next) = node.step(step) else { break };
            node = next;
            found = Some(node);
        }
        found
    }

    /// Where the value at a path stands; of a value that does not, the nearest key above it.
    pub fn value_span(&self, path: &Path) -> Range<usize> {
        match self.node(path) {
            // A table under a header spans the header, which begins before the key.
            Some(node) if node.span.start >= node.key.start => node.span.clone(),
            _ => self.key_span(path),
        }
    }

    /// Where the key at a path stands; of a key that does not, the nearest one above it.
    pub fn key_span(&self, path: &Path) -> Range<usize> {
        self.nearest(path).map_or(0..0, |node| node.key.clone())
    }

    /// Whether the file has something under this key of the table at `path`, faulty or not.
    pub fn has(&self, path: &Path, key: &str) -> bool {
        self.node(path)
            .is_some_and(|node| node.entries.contains_key(key) || node.dropped.contains(key))
    }

    /// The keys of the table at `path`, in the file's order.
    pub fn keys_in_order(&self, path: &Path) -> Vec<&str> {
        let Some(node) = self.node(path) else {
            return Vec::new();
        };
        let mut keys: Vec<_> = node
            .entries
            .iter()
            .map(|(key, node)| (node.key.start, key.as_str()))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Line and column of a byte, counted from 1, columns in characters.
    pub fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}
