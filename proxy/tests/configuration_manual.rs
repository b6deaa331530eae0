//! `docs/configuration.md` is written from the doc-comments of the configuration's types. Run with
//! `UPDATE=1` to write it anew.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;

use serde_json::Value;
use whippletree::config::schema;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by tests/configuration_manual.rs from the types in src/config/file.rs. -->

One TOML file, named by `serve --config FILE`, else `whippletree.toml` in the working directory.
Without either, the vendors' usual environment variables are enough: `OPENAI_API_KEY` makes
`openai/MODEL` available at once, and so on for every vendor; `OPENAI_API_KEY_2` to `_9` are further
keys.

`whippletree check` names every fault with its line, and so does `serve` before it starts anything.
`whippletree check --schema` prints a JSON Schema for editors. A key that is unknown, or whose
feature this version does not have, is an error and never ignored.

- Durations are strings with a unit: `\"250ms\"`, `\"30s\"`, `\"5m\"`, `\"1h\"`, `\"30d\"`.
- Sizes are strings with a binary unit: `\"512B\"`, `\"256KiB\"`, `\"32MiB\"`, `\"1GiB\"`.
- Money is a decimal string of dollars, `\"12.50\"`, never a floating-point number.
- Secrets are `{ env = \"NAME\" }` or `{ file = \"path\" }`.
- Relative paths of files that are read (secrets, certificates) start at the configuration file's
  directory, the store's at the working directory.

The file is read again on `SIGHUP`, on `POST /admin/v1/reload` and when it or a file that it names
changes. It is swapped in whole; when anything is wrong the one in force stays and the fault is
logged and shown in `/admin/v1/config`.
";

#[test]
fn the_manual_says_what_the_types_say() {
    let schema = schema::of_file();
    let mut manual = Manual {
        root: &schema,
        text: INTRODUCTION.to_owned(),
    };
    manual.table("", &schema, None);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
        std::fs::write(PATH, &manual.text).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        written == manual.text,
        "docs/configuration.md is stale: run this test with UPDATE=1"
    );
}

struct Manual<'a> {
    root: &'a Value,
    text: String,
}

impl<'a> Manual<'a> {
    /// Writes a table: its keys in a list, then the tables within it.
    fn table(&mut self, name: &str, schema: &'a Value, description: Option<&str>) {
        let schema = self.follow(schema);
        if !name.is_empty() {
            let description = one_line(description.or(text(schema, "description")));
            write!(self.text, "\n## `{name}`\n\n{description}\n").unwrap();
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let mut tables = Vec::new();
        let mut keys = String::new();
        for (key, property) in properties.into_iter().flatten() {
            let must = required.is_some_and(|names| names.contains(&Value::from(key.as_str())));
            let path = if name.is_empty() {
                key.clone()
            } else {
                format!("{name}.{key}")
            };
            let found = self.tables_within(&path, property);
            let inline = found.iter().any(|(table, _)| table == &path);
            tables.extend(found.into_iter().map(|(table, schema)| {
                let described = (table == path).then(|| text(property, "description"));
                (table, schema, described.flatten())
            }));
            if !inline {
                let notes = self.notes(property, must);
                let description = one_line(text(property, "description"));
                writeln!(keys, "- `{key}` ({notes}): {description}").unwrap();
                self.words(&mut keys, property);
            }
        }
        if !keys.is_empty() {
            write!(self.text, "\n{keys}").unwrap();
        }
        for (name, schema, description) in tables {
            self.table(&name, schema, description);
        }
    }

    /// The tables that a key's value is or holds, by their names.
    fn tables_within(&self, path: &str, schema: &'a Value) -> Vec<(String, &'a Value)> {
        let schema = self.follow(schema);
        // Secrets are explained once at the top; what other credentials are made with is not.
        if schema.get("x-expected").is_some() {
            let properties = schema.get("properties").and_then(Value::as_object);
            let within = |(key, property): (&String, &'a Value)| {
                self.tables_within(&format!("{path}.{key}"), property)
            };
            return properties.into_iter().flatten().flat_map(within).collect();
        }
        if schema.get("properties").is_some() {
            return vec![(path.to_owned(), schema)];
        }
        if let Some(any) = schema
            .get("additionalProperties")
            .filter(|any| any.is_object())
        {
            return self.tables_within(&format!("{path}.NAME"), any);
        }
        if let Some(items) = schema.get("items") {
            return self.tables_within(&format!("{path}[]"), items);
        }
        let choices = schema.get("anyOf").and_then(Value::as_array);
        let mut found = Vec::new();
        for choice in choices.into_iter().flatten() {
            for (name, schema) in self.tables_within(path, choice) {
                // A choice among others: the key itself is listed too.
                found.push((format!("{name} {{…}}"), schema));
            }
        }
        found
    }

    fn follow(&self, schema: &'a Value) -> &'a Value {
        text(schema, "$ref")
            .and_then(|reference| self.root.pointer(reference.trim_start_matches('#')))
            .unwrap_or(schema)
    }

    /// The form of a key, and its default.
    fn notes(&self, property: &'a Value, must: bool) -> String {
        let form = self.form(property);
        let form = match bounds(property) {
            Some(bounds) => format!("{form}, {bounds}"),
            None => form,
        };
        if must {
            return format!("{form}, required");
        }
        match property.get("default") {
            None => form,
            Some(Value::Array(list)) if list.is_empty() => format!("{form}, default none"),
            Some(Value::Object(map)) if map.is_empty() => format!("{form}, default none"),
            Some(default) => format!("{form}, default `{default}`"),
        }
    }

    fn form(&self, schema: &'a Value) -> String {
        let schema = self.follow(schema);
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let shown = choices
                .iter()
                .filter(|choice| text(choice, "format") != Some("secret"));
            let forms: Vec<_> = shown.map(|choice| self.form(choice)).collect();
            return forms.join(" or ");
        }
        if schema.get("x-expected").is_some() {
            return "secret".to_owned();
        }
        if schema.get("enum").is_some() || schema.get("oneOf").is_some() {
            return "word".to_owned();
        }
        match (text(schema, "type"), text(schema, "format")) {
            (Some("array"), _) => match schema.get("items") {
                Some(items) => format!("list of {}", self.form(items)),
                None => "list".to_owned(),
            },
            (Some("boolean"), _) => "true or false".to_owned(),
            (Some("integer"), _) => "whole number".to_owned(),
            (Some("object"), _) => "table".to_owned(),
            (Some("string"), Some(format)) => format.replace('-', " "),
            (Some(name), _) => name.to_owned(),
            (None, _) => "any".to_owned(),
        }
    }

    /// Lists the words that a key takes.
    fn words(&self, keys: &mut String, property: &'a Value) {
        let schema = self.follow(property);
        let schema = schema
            .get("items")
            .map_or(schema, |items| self.follow(items));
        for choice in schema
            .get("oneOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let word = text(choice, "const").unwrap_or_default();
            let description = one_line(text(choice, "description"));
            writeln!(keys, "  - `\"{word}\"`: {description}").unwrap();
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            writeln!(keys, "  - {}", words.join(", ")).unwrap();
        }
    }
}

fn bounds(schema: &Value) -> Option<String> {
    let bound = |keys: [&str; 2]| {
        let bound = keys.into_iter().find_map(|key| schema.get(key))?;
        Some(
            bound
                .as_str()
                .map_or_else(|| bound.to_string(), str::to_owned),
        )
    };
    match (
        bound(["minimum", "x-minimum"]),
        bound(["maximum", "x-maximum"]),
    ) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) if least != "0" && least != "1ms" => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        _ => None,
    }
}

fn text<'v>(schema: &'v Value, key: &str) -> Option<&'v str> {
    schema.get(key)?.as_str()
}

fn one_line(text: Option<&str>) -> String {
    text.unwrap_or_default().replace('\n', " ")
}
