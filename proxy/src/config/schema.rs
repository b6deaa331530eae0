//! The JSON Schema of the file, and what its walker asks of it.
//!
//! Beside JSON Schema's own words three of ours are used: `x-minimum` and `x-maximum` bound values
//! that are written as text (`"1ms"`, `"8KiB"`), `x-expected` names a form for people.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::file::File;
use super::values;

/// The schema of the configuration file, draft 2020-12.
pub fn of_file() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    strip_null(&mut schema);
    schema
}

/// TOML has no null: an optional key is left out. So `null` goes from every choice of types.
fn strip_null(schema: &mut Value) {
    match schema {
        Value::Array(values) => values.iter_mut().for_each(strip_null),
        Value::Object(map) => {
            map.values_mut().for_each(strip_null);
            map.retain(|_, value| !value.is_null());
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    map.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
                if let [Value::Object(one)] = choices.as_slice() {
                    let one = one.clone();
                    map.remove("anyOf");
                    for (key, value) in one {
                        map.entry(key).or_insert(value);
                    }
                }
            }
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a value may look like: a schema, with the document that its references lead into.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    schema: &'a Value,
    root: &'a Value,
}

impl<'a> Shape<'a> {
    /// The shape of the whole document.
    pub fn new(root: &'a Value) -> Self {
        Self { schema: root, root }
    }

    fn at(self, schema: &'a Value) -> Self {
        let target = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| self.root.pointer(reference.trim_start_matches('#')));
        Self {
            schema: target.unwrap_or(schema),
            root: self.root,
        }
    }

    fn text(self, key: &str) -> Option<&'a str> {
        self.schema.get(key)?.as_str()
    }

    fn list(self, key: &str) -> &'a [Value] {
        self.schema
            .get(key)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn count(self, key: &str) -> usize {
        let count = self.schema.get(key).and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// The alternative that takes values of this type, by JSON Schema's name of it.
    pub fn accepting(self, kind: &str) -> Option<Self> {
        let choices = self.list("anyOf");
        if !choices.is_empty() {
            return choices
                .iter()
                .find_map(|choice| self.at(choice).accepting(kind));
        }
        let takes = match self.text("type") {
            Some("number") => matches!(kind, "integer" | "number"),
            Some(name) => name == kind,
            None => kind == "string" && self.words().is_some(),
        };
        takes.then_some(self)
    }

    /// The shape of a table's entry.
    pub fn property(self, name: &str) -> Option<Self> {
        let named = self.schema.get("properties").and_then(|p| p.get(name));
        let any = || {
            self.schema
                .get("additionalProperties")
                .filter(|any| any.is_object())
        };
        named.or_else(any).map(|schema| self.at(schema))
    }

    /// The schema of a table's entry as it stands, before references are followed: with the
    /// description and the default of this very key.
    pub fn property_schema(self, name: &str) -> Option<&'a Value> {
        self.schema.get("properties")?.get(name)
    }

    /// The names that a table may have.
    pub fn property_names(self) -> Vec<&'a str> {
        self.schema
            .get("properties")
            .and_then(Value::as_object)
            .map(|properties| properties.keys().map(String::as_str).collect())
            .unwrap_or_default()
    }

    /// Where a key of this name belongs, one table further in.
    pub fn property_below(self, name: &str) -> Option<String> {
        self.property_names().into_iter().find_map(|parent| {
            let below = self.property(parent)?.accepting("object")?;
            let names = below.property_names();
            names.contains(&name).then(|| format!("{parent}.{name}"))
        })
    }

    /// The names that a table must have.
    pub fn required(self) -> impl Iterator<Item = &'a str> {
        self.list("required").iter().filter_map(Value::as_str)
    }

    /// The names of a table that takes one of them alone.
    pub fn exactly_one(self) -> Option<String> {
        if self.count("minProperties") != 1 || self.count("maxProperties") != 1 {
            return None;
        }
        let names = self.property_names();
        let quoted: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
        let (last, others) = quoted.split_last()?;
        Some(match others {
            [] => last.clone(),
            others => format!("{} and {last}", others.join(", ")),
        })
    }

    /// The shape of an array's elements.
    pub fn items(self) -> Option<Self> {
        self.schema.get("items").map(|schema| self.at(schema))
    }

    /// The fewest elements of an array.
    pub fn fewest(self) -> usize {
        self.count("minItems")
    }

    /// The fewest characters of a string.
    pub fn shortest(self) -> usize {
        self.count("minLength")
    }

    /// The form of a string.
    pub fn format(self) -> Option<&'a str> {
        self.text("format")
    }

    /// The words that a string may be.
    pub fn words(self) -> Option<Vec<&'a str>> {
        let listed = self.list("enum").iter().filter_map(Value::as_str);
        let choices = self.list("oneOf").iter();
        let described = choices.flat_map(|choice| self.at(choice).words().unwrap_or_default());
        let words: Vec<_> = listed.chain(described).chain(self.text("const")).collect();
        (!words.is_empty()).then_some(words)
    }

    /// Whether a number is within the bounds.
    pub fn allows_number(self, number: f64) -> bool {
        let bound = |key: &str| self.schema.get(key).and_then(Value::as_f64);
        let widest = match self.format() {
            Some("uint32") => f64::from(u32::MAX),
            _ => f64::INFINITY,
        };
        number.is_finite()
            && bound("minimum").is_none_or(|least| number >= least)
            && bound("maximum").is_none_or(|most| number <= most)
            && number <= widest
    }

    /// What was expected of a text that is of the right form but too small or too large.
    pub fn outside(self, text: &str) -> Option<String> {
        let magnitude = values::check_named(self.format()?)?.magnitude;
        let value = magnitude(text)?;
        let bound = |key| {
            self.text(key)
                .and_then(|text| Some((magnitude(text)?, text)))
        };
        if let Some((least, text)) = bound("x-minimum")
            && value < least
        {
            return Some(format!("expected at least \"{text}\""));
        }
        if let Some((most, text)) = bound("x-maximum")
            && value > most
        {
            return Some(format!("expected at most \"{text}\""));
        }
        None
    }

    /// The shape in words: `a whole number from 1 to 100`.
    pub fn describe(self) -> String {
        if let Some(expected) = self.text("x-expected") {
            return expected.to_owned();
        }
        let choices = self.list("anyOf");
        if !choices.is_empty() {
            let shapes = choices.iter().map(|choice| self.at(choice));
            let described: Vec<_> = shapes
                .filter(|shape| shape.format() != Some("secret"))
                .map(Self::describe)
                .collect();
            return described.join(" or ");
        }
        if let Some(words) = self.words() {
            let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            return match quoted.as_slice() {
                [one] => one.clone(),
                _ => format!("one of {}", quoted.join(", ")),
            };
        }
        match self.text("type") {
            Some("array") => match self.items() {
                Some(items) => format!("an array, each element {}", items.describe()),
                None => "an array".to_owned(),
            },
            Some("boolean") => "true or false".to_owned(),
            Some("integer") => format!("a whole number{}", self.bounds()),
            Some("number") => format!("a number{}", self.bounds()),
            Some("object") => "a table".to_owned(),
            _ => match self.format().and_then(values::check_named) {
                Some(check) => check.expected.to_owned(),
                None => "a string".to_owned(),
            },
        }
    }

    fn bounds(self) -> String {
        let bound = |key: &str| self.schema.get(key).filter(|bound| bound.is_number());
        match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" of at least {least}"),
            (None, Some(most)) => format!(" of at most {most}"),
            (None, None) => String::new(),
        }
    }
}
