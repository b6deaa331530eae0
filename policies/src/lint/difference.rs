//! How two spellings of one part of a prompt differ.
//!
//! The part is read as JSON, because that is what it is: then "the same value, keys in another
//! order" can be told from "another value", and a text can be compared as what it says rather than
//! as its escapes. Arguments of tool calls, which are JSON within a string, are read in turn. What
//! is left are texts that say different things; those are cut into [`Hunk`]s by words.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::Range;

use unicode_normalization::UnicodeNormalization;

use super::json::{self, Node, Shape};
use super::words;

/// What kind of difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Nature {
    /// The same elements in another order.
    ArrayOrder,
    /// The same string, escaped otherwise.
    Escape,
    /// The same members in another order.
    KeyOrder,
    /// A member that only one side has.
    Member,
    /// The same number, written otherwise.
    Number,
    /// Strings that say different things.
    Text,
    /// The same characters in another normal form.
    UnicodeForm,
    /// Another value that is no string.
    Value,
    /// Space between tokens, or at the ends of lines of a text.
    Whitespace,
}

/// One difference.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) nature: Nature,
    /// From the part's root, with a leading dot or bracket: `.content`, `[3]`; empty at the root.
    pub(crate) path: String,
    /// Where it stands in the part as sent before.
    pub(crate) before: Range<usize>,
    /// Where it stands in the part as sent now.
    pub(crate) after: Range<usize>,
    /// What the strings said, for [`Nature::Text`].
    pub(crate) texts: Option<(String, String)>,
    /// Where the texts differ.
    pub(crate) hunks: Vec<Hunk>,
}

/// A run of words that differs between two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// In the text as sent before.
    pub(crate) before: Range<usize>,
    /// In the text as sent now.
    pub(crate) after: Range<usize>,
    /// The offset of the hunk's first byte in the part as sent now.
    pub(crate) raw: usize,
    /// The offset, in what the text says, of the first byte that differs.
    pub(crate) offset: usize,
}

const MOST: usize = 24;

/// All differences between two parts, most telling first by place; at most 24.
pub(crate) fn differences(before: &[u8], after: &[u8]) -> Vec<Difference> {
    let (Some(old), Some(new)) = (json::parse(before), json::parse(after)) else {
        return vec![raw_difference(before, after)];
    };
    let mut comparison = Comparison {
        before,
        after,
        found: Vec::new(),
    };
    comparison.compare("", &old, &new);
    if comparison.found.is_empty() && before != after {
        let at = words::common_prefix(before, after);
        comparison.found.push(Difference {
            nature: Nature::Whitespace,
            path: String::new(),
            before: at..(at + 1).min(before.len()),
            after: at..(at + 1).min(after.len()),
            texts: None,
            hunks: Vec::new(),
        });
    }
    comparison.found
}

/// Text that is no JSON: compared as it is.
fn raw_difference(before: &[u8], after: &[u8]) -> Difference {
    let texts = (
        String::from_utf8_lossy(before).into_owned(),
        String::from_utf8_lossy(after).into_owned(),
    );
    let hunks = hunks(&texts.0, &texts.1, |offset| offset);
    Difference {
        nature: Nature::Text,
        path: String::new(),
        before: 0..before.len(),
        after: 0..after.len(),
        texts: Some(texts),
        hunks,
    }
}

struct Comparison<'a> {
    before: &'a [u8],
    after: &'a [u8],
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn note(&mut self, nature: Nature, path: &str, old: Range<usize>, new: Range<usize>) {
        if self.found.len() < MOST {
            self.found.push(Difference {
                nature,
                path: path.to_string(),
                before: old,
                after: new,
                texts: None,
                hunks: Vec::new(),
            });
        }
    }

    fn compare(&mut self, path: &str, old: &Node, new: &Node) {
        if old.raw(self.before) == new.raw(self.after) || self.found.len() >= MOST {
            return;
        }
        match (&old.shape, &new.shape) {
            (Shape::Object(a), Shape::Object(b)) => self.objects(path, (old, a), (new, b)),
            (Shape::Array(a), Shape::Array(b)) => self.arrays(path, (old, a), (new, b)),
            (Shape::String, Shape::String) => self.strings(path, old, new),
            (Shape::Number, Shape::Number) => {
                let same = json::canonical_number(old.raw(self.before))
                    == json::canonical_number(new.raw(self.after));
                let nature = if same { Nature::Number } else { Nature::Value };
                self.note(nature, path, old.span.clone(), new.span.clone());
            }
            // A content that is a list of one text stands for the text.
            (Shape::String, Shape::Array(items)) => match only_text(items, self.after) {
                Some(text) => self.compare(path, old, text),
                None => self.note(Nature::Value, path, old.span.clone(), new.span.clone()),
            },
            (Shape::Array(items), Shape::String) => match only_text(items, self.before) {
                Some(text) => self.compare(path, text, new),
                None => self.note(Nature::Value, path, old.span.clone(), new.span.clone()),
            },
            _ => self.note(Nature::Value, path, old.span.clone(), new.span.clone()),
        }
    }

    fn objects(
        &mut self,
        path: &str,
        (old_node, old): (&Node, &[(Range<usize>, Node)]),
        (new_node, new): (&Node, &[(Range<usize>, Node)]),
    ) {
        let old = keyed(old, self.before);
        let new = keyed(new, self.after);
        let shared = |key: &str, list: &[(Cow<'_, str>, &Node)]| list.iter().any(|(k, _)| k == key);
        let old_order = old.iter().filter(|(key, _)| shared(key, &new));
        let new_order = new.iter().filter(|(key, _)| shared(key, &old));
        let moved = old_order.zip(new_order).find(|((a, _), (b, _))| a != b);
        if let Some(((_, a), (_, b))) = moved {
            self.note(Nature::KeyOrder, path, a.span.clone(), b.span.clone());
        }
        for (key, value) in &old {
            let inner = join(path, key);
            if let Some((_, other)) = new.iter().find(|(other, _)| other == key) {
                self.compare(&inner, value, other);
            } else {
                let place = new_node.span.clone();
                self.note(Nature::Member, &inner, value.span.clone(), place);
            }
        }
        for (key, value) in &new {
            if !shared(key, &old) {
                let place = old_node.span.clone();
                self.note(Nature::Member, &join(path, key), place, value.span.clone());
            }
        }
    }

    fn arrays(
        &mut self,
        path: &str,
        (old_node, old): (&Node, &[Node]),
        (new_node, new): (&Node, &[Node]),
    ) {
        let spell = |node: &Node, text: &[u8]| json::canonical(node, text);
        if old.len() == new.len() {
            let a: Vec<String> = old.iter().map(|node| spell(node, self.before)).collect();
            let b: Vec<String> = new.iter().map(|node| spell(node, self.after)).collect();
            let first = a.iter().zip(&b).position(|(a, b)| a != b);
            let (mut sorted_a, mut sorted_b) = (a, b);
            sorted_a.sort_unstable();
            sorted_b.sort_unstable();
            if let Some(first) = first
                && sorted_a == sorted_b
            {
                let span = |list: &[Node]| list.get(first).map_or(0..0, |node| node.span.clone());
                self.note(Nature::ArrayOrder, path, span(old), span(new));
                return;
            }
            for (at, (a, b)) in old.iter().zip(new).enumerate() {
                self.compare(&format!("{path}[{at}]"), a, b);
            }
            return;
        }
        let common = old
            .iter()
            .zip(new)
            .take_while(|(a, b)| spell(a, self.before) == spell(b, self.after))
            .count();
        let place = |list: &[Node], whole: &Node| {
            list.get(common)
                .map_or(whole.span.end.saturating_sub(1)..whole.span.end, |n| {
                    n.span.clone()
                })
        };
        self.note(
            Nature::Member,
            &format!("{path}[{common}]"),
            place(old, old_node),
            place(new, new_node),
        );
    }

    fn strings(&mut self, path: &str, old: &Node, new: &Node) {
        let inside = |node: &Node, text: &[u8]| {
            json::decode(text.get(node.inside()).unwrap_or_default()).into_owned()
        };
        let (said, says) = (inside(old, self.before), inside(new, self.after));
        let (before, after) = (old.inside(), new.inside());
        if said == says {
            self.note(Nature::Escape, path, before, after);
            return;
        }
        if said.nfc().eq(says.nfc()) {
            self.note(Nature::UnicodeForm, path, before, after);
            return;
        }
        if let Some(inner) = nested(&said, &says) {
            for difference in inner {
                self.note(difference, path, before.clone(), after.clone());
            }
            return;
        }
        let raw = self.after.get(after.clone()).unwrap_or_default();
        let hunks = hunks(&said, &says, |offset| {
            after.start + json::raw_offset(raw, offset)
        });
        let nature = if words::squeezed(&said).eq(words::squeezed(&says)) {
            Nature::Whitespace
        } else {
            Nature::Text
        };
        if self.found.len() < MOST {
            self.found.push(Difference {
                nature,
                path: path.to_string(),
                before,
                after,
                texts: Some((said, says)),
                hunks,
            });
        }
    }
}

/// The natures of the differences between two strings that are JSON documents of equal value.
fn nested(said: &str, says: &str) -> Option<Vec<Nature>> {
    let looks = |text: &str| text.trim_start().starts_with(['{', '[']);
    if !looks(said) || !looks(says) {
        return None;
    }
    let (a, b) = (json::parse(said.as_bytes())?, json::parse(says.as_bytes())?);
    if json::canonical(&a, said.as_bytes()) != json::canonical(&b, says.as_bytes()) {
        return None;
    }
    let mut natures: Vec<Nature> = differences(said.as_bytes(), says.as_bytes())
        .into_iter()
        .map(|difference| difference.nature)
        .collect();
    natures.sort_unstable();
    natures.dedup();
    Some(natures)
}

fn keyed<'a, 'n>(
    members: &'n [(Range<usize>, Node)],
    text: &'a [u8],
) -> Vec<(Cow<'a, str>, &'n Node)> {
    members
        .iter()
        .map(|(key, node)| {
            (
                json::decode(text.get(key.clone()).unwrap_or_default()),
                node,
            )
        })
        .filter(|(key, _)| {
            !matches!(
                &**key,
                "cache_control" | "prompt_cache_breakpoint" | "cachePoint"
            )
        })
        .collect()
}

fn only_text<'n>(items: &'n [Node], text: &[u8]) -> Option<&'n Node> {
    match items {
        [only] => only
            .member(text, "text")
            .filter(|node| matches!(node.shape, Shape::String)),
        _ => None,
    }
}

fn join(path: &str, key: &str) -> String {
    let plain = key
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if plain && !key.is_empty() {
        format!("{path}.{key}")
    } else {
        format!("{path}[{key:?}]")
    }
}

/// The runs of words in which two texts differ.
fn hunks(before: &str, after: &str, raw: impl Fn(usize) -> usize) -> Vec<Hunk> {
    words::changed(before, after)
        .into_iter()
        .map(|(old, new)| {
            let (a, b) = (
                before.as_bytes().get(old.clone()).unwrap_or_default(),
                after.as_bytes().get(new.clone()).unwrap_or_default(),
            );
            Hunk {
                raw: raw(new.start),
                offset: new.start + words::common_prefix(a, b),
                before: old,
                after: new,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn natures(before: &str, after: &str) -> Vec<(Nature, String)> {
        differences(before.as_bytes(), after.as_bytes())
            .into_iter()
            .map(|difference| (difference.nature, difference.path))
            .collect()
    }

    #[test]
    fn each_kind_of_difference_has_its_name_and_path() {
        let cases = [
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, Nature::KeyOrder, ""),
            (
                r#"{"p":{"a":1,"b":2}}"#,
                r#"{"p":{"b":2,"a":1}}"#,
                Nature::KeyOrder,
                ".p",
            ),
            (r#"{"a":1}"#, r#"{"a": 1}"#, Nature::Whitespace, ""),
            (r#"{"a":1.0}"#, r#"{"a":1}"#, Nature::Number, ".a"),
            (r#"{"a":"\u00e9"}"#, r#"{"a":"é"}"#, Nature::Escape, ".a"),
            (
                r#"{"a":"e\u0301"}"#,
                r#"{"a":"é"}"#,
                Nature::UnicodeForm,
                ".a",
            ),
            (
                r#"{"r":["x","y"]}"#,
                r#"{"r":["y","x"]}"#,
                Nature::ArrayOrder,
                ".r",
            ),
            (
                r#"{"a":"one two"}"#,
                r#"{"a":"one six"}"#,
                Nature::Text,
                ".a",
            ),
            (
                r#"{"a":"one two"}"#,
                r#"{"a":"one  two\n"}"#,
                Nature::Whitespace,
                ".a",
            ),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, Nature::Member, ".b"),
            (r#"{"a":true}"#, r#"{"a":null}"#, Nature::Value, ".a"),
            (
                r#"{"f":"{\"a\":1,\"b\":2}"}"#,
                r#"{"f":"{\"b\":2,\"a\":1}"}"#,
                Nature::KeyOrder,
                ".f",
            ),
            (
                r#"{"f":"{\"a\":1}"}"#,
                r#"{"f":"{\"a\": 1}"}"#,
                Nature::Whitespace,
                ".f",
            ),
        ];
        for (before, after, nature, path) in cases {
            assert_eq!(
                natures(before, after),
                [(nature, String::from(path))],
                "{before} {after}"
            );
        }
        assert!(
            natures(
                r#"{"content":"x"}"#,
                r#"{"content":[{"type":"text","text":"x"}]}"#
            )
            .iter()
            .all(|(nature, _)| *nature == Nature::Whitespace)
        );
    }

    #[test]
    fn a_hunk_knows_where_it_stands_in_the_text_and_in_the_body() {
        let before = r#"{"c":"You help.\nNow: 2026-11-30 10:00:01\nBe kind."}"#;
        let after = r#"{"c":"You help.\nNow: 2026-11-30 10:00:09\nBe kind."}"#;
        let found = differences(before.as_bytes(), after.as_bytes());
        let hunk = &found[0].hunks[0];
        assert_eq!(hunk.offset, 33);
        assert!(after.get(hunk.raw..).unwrap().starts_with("09\\nBe"));
    }
}
