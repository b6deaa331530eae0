//! `GET /v1/models`: what this caller may ask for, in the shape of the client's dialect.

use serde::Serialize;

use crate::exchange::Dialect;

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
    pub fn json(&self, dialect: Dialect) -> Vec<u8> {
        let json = match dialect {
            Dialect::Anthropic => serde_json::to_vec(&AnthropicModel::of(self)),
            Dialect::Openai => serde_json::to_vec(self),
        };
        json.unwrap_or_default()
    }
}

/// The JSON of a list.
pub fn list(models: &[Model], dialect: Dialect) -> Vec<u8> {
    let json = match dialect {
        Dialect::Anthropic => serde_json::to_vec(&AnthropicList {
            data: models.iter().map(AnthropicModel::of).collect(),
            has_more: false,
            first_id: models.first().map(Model::id),
            last_id: models.last().map(Model::id),
        }),
        Dialect::Openai => serde_json::to_vec(&List {
            object: "list",
            data: models,
        }),
    };
    json.unwrap_or_default()
}

#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicModel<'a> {
    r#type: &'static str,
    id: &'a str,
    display_name: &'a str,
    /// The epoch, as Anthropic itself says of a model whose release is not known.
    created_at: &'static str,
}

impl<'a> AnthropicModel<'a> {
    fn of(model: &'a Model) -> Self {
        Self {
            r#type: "model",
            id: &model.id,
            display_name: &model.id,
            created_at: "1970-01-01T00:00:00Z",
        }
    }
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
