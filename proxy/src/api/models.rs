//! `GET /v1/models`: what this caller may ask for, in OpenAI's shape.

use serde::Serialize;

/// One name that clients may send as `model`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    id: String,
    object: &'static str,
    created: i64,
    owned_by: String,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: &'a [Model],
}

impl Model {
    /// A name and whose it is. `created` is zero: the gateway does not know when a vendor released a
    /// model, and clients demand a number.
    pub fn new(id: impl Into<String>, owned_by: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            object: "model",
            created: 0,
            owned_by: owned_by.into(),
        }
    }

    /// The name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The JSON of one.
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The JSON of a list.
pub fn list(models: &[Model]) -> Vec<u8> {
    serde_json::to_vec(&List {
        object: "list",
        data: models,
    })
    .unwrap_or_default()
}

/// The names nearest to `asked`, at most three, best first: those within a third of its length in
/// edits, or that hold it or are held by it.
pub fn nearest<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    // A name is bounded, so that a hostile one costs little.
    let asked: String = asked
        .chars()
        .take(128)
        .flat_map(char::to_lowercase)
        .collect();
    let limit = asked.chars().count() / 3 + 1;
    let mut found: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let bare = lower
                .rsplit_once('/')
                .map_or(lower.as_str(), |(_, model)| model);
            let edits = edit_distance(&asked, &lower).min(edit_distance(&asked, bare) + 1);
            let part = asked.len() >= 3 && lower.contains(&asked);
            (edits <= limit || part).then_some((if part { 1.min(edits) } else { edits }, name))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .take(3)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Levenshtein's distance with one row of memory.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            let substituted = diagonal + usize::from(ca != *cb);
            *cell = substituted.min(above + 1).min(left + 1);
            diagonal = above;
            left = *cell;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }

    #[test]
    fn the_nearest_names_are_offered() {
        let names = [
            "coder",
            "openai/gpt-5.6",
            "openai/gpt-5.6-mini",
            "anthropic/claude-sonnet-5-5",
        ];
        let of = |asked| nearest(asked, names.into_iter());
        assert_eq!(of("codr"), ["coder"]);
        assert_eq!(of("gpt-5.6"), ["openai/gpt-5.6", "openai/gpt-5.6-mini"]);
        assert!(of("llama").is_empty());
    }
}
