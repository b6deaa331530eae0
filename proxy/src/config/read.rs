//! Reads a configuration file so that all faults of form are found at once.
//!
//! serde stops at the first fault and cannot say what else is wrong. So the text is parsed into
//! TOML values with their spans, and those are walked along the JSON Schema of [`File`]: unknown
//! keys, wrong types, unknown words, malformed values, missing keys. What is faulty is left out, and
//! the rest is read by serde, so that checks of meaning can go on beside faults of form.
//!
//! Limit: a text that is not TOML at all is reported for its syntax alone.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use serde_json::Value;
use toml::de::{DeArray, DeTable, DeValue};

use super::document::{Document, Node};
use super::fault::{Fault, Path, nearest};
use super::file::File;
use super::schema::{self, Shape};
use super::unavailable::{self, Standing};
use super::values;

static SCHEMA: LazyLock<Value> = LazyLock::new(schema::of_file);

/// A file that was read, as far as it could be.
#[derive(Debug)]
pub struct Read {
    /// The text and its places.
    pub document: Document,
    /// What was readable; `None` when the text is not TOML.
    pub file: Option<File>,
    /// Faults of form.
    pub faults: Vec<Fault>,
}

/// Reads the text of a file called `name`.
pub fn read(name: &str, text: &str) -> Read {
    let mut document = Document {
        name: name.to_owned(),
        text: text.to_owned(),
        ..Document::default()
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let faults = errors.iter().map(syntax_fault).collect();
        return Read {
            document,
            file: None,
            faults,
        };
    }
    let mut walk = Walk {
        faults: Vec::new(),
        hidden: Vec::new(),
    };
    let place = Place {
        key: 0..0,
        span: table.span(),
    };
    let read = walk.table(
        Shape::new(&SCHEMA),
        table.get_ref(),
        &place,
        &Path::default(),
    );
    document.hidden = walk.hidden;
    let mut faults = walk.faults;
    let (value, node) = read.unwrap_or_default();
    document.root = node;
    let file = match File::deserialize_checked(value) {
        Ok(file) => Some(file),
        Err(error) => {
            faults.push(Fault::new(&Path::default(), 0..0, error.to_string()));
            None
        }
    };
    Read {
        document,
        file,
        faults,
    }
}

impl File {
    fn deserialize_checked(value: Value) -> Result<Self, serde_json::Error> {
        match value {
            Value::Null => Ok(Self::default()),
            value => serde_json::from_value(value),
        }
    }
}

fn syntax_fault(error: &toml::de::Error) -> Fault {
    let (message, expected) = match error.message().split_once(", expected ") {
        Some((message, expected)) => (message, Some(expected.replace('\n', " "))),
        None => (error.message(), None),
    };
    let span = error.span().unwrap_or(0..0);
    let fault = Fault::new(&Path::default(), span, format!("not valid TOML: {message}"));
    match expected {
        Some(expected) => fault.expected(expected),
        None => fault,
    }
}

/// Where a key and its value stand.
#[derive(Clone, Debug)]
struct Place {
    key: Range<usize>,
    span: Range<usize>,
}

impl Place {
    fn leaf(&self) -> Node {
        Node {
            span: self.span.clone(),
            key: self.key.clone(),
            ..Node::default()
        }
    }
}

struct Walk {
    faults: Vec<Fault>,
    hidden: Vec<Range<usize>>,
}

/// What a value came to; `None` when it is faulty, which has been reported then.
type Walked = Option<(Value, Node)>;

impl Walk {
    fn value(
        &mut self,
        shape: Shape<'_>,
        value: &DeValue<'_>,
        place: &Place,
        path: &Path,
    ) -> Walked {
        let found = kind_of(value);
        let Some(shape) = shape.accepting(found) else {
            self.hide_literals(value, &place.span);
            let fault = Fault::new(
                path,
                place.span.clone(),
                format!("`{path}` is {}", article(found)),
            )
            .expected(format!("expected {}", shape.describe()))
            .help(hint_for_type(shape, value));
            self.faults.push(fault);
            return None;
        };
        match value {
            DeValue::Table(table) => self.table(shape, table, place, path),
            DeValue::Array(array) => self.array(shape, array, place, path),
            DeValue::String(text) => self.string(shape, text, place, path),
            DeValue::Integer(integer) => {
                let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "compared with bounds far below 2^53"
                )]
                let within = number.is_some_and(|number| shape.allows_number(number as f64));
                let value = number.filter(|_| within).map(Value::from);
                self.number(shape, value, place, path)
            }
            DeValue::Float(float) => {
                let number: Option<f64> = float.as_str().parse().ok();
                let value = number.filter(|number| shape.allows_number(*number));
                self.number(shape, value.map(Value::from), place, path)
            }
            DeValue::Boolean(flag) => Some((Value::from(*flag), place.leaf())),
            // No key takes one, so no shape accepts it.
            DeValue::Datetime(_) => None,
        }
    }

    fn table(
        &mut self,
        shape: Shape<'_>,
        table: &DeTable<'_>,
        place: &Place,
        path: &Path,
    ) -> Walked {
        let mut values = serde_json::Map::new();
        let mut node = place.leaf();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let place = Place {
                key: key.span(),
                span: value.span(),
            };
            let path = path.key(name);
            let walked = match unavailable::standing(&path, value.get_ref()) {
                Standing::Vacuous => continue,
                Standing::NotYet => {
                    self.hide_literals(value.get_ref(), &place.span);
                    self.faults.push(not_yet(&path, &place));
                    None
                }
                Standing::Known => {
                    if let Some(shape) = shape.property(name) {
                        self.value(shape, value.get_ref(), &place, &path)
                    } else {
                        self.hide_literals(value.get_ref(), &place.span);
                        self.faults.push(unknown_key(shape, name, &path, &place));
                        None
                    }
                }
            };
            if let Some((value, part)) = walked {
                values.insert(name.to_owned(), value);
                node.entries.insert(name.to_owned(), part);
            } else {
                node.dropped.insert(name.to_owned());
            }
        }
        if self.complete(shape, table, place, path, &node) {
            Some((Value::Object(values), node))
        } else {
            None
        }
    }

    /// Whether a table has all the keys that it needs; those that are missing are reported.
    fn complete(
        &mut self,
        shape: Shape<'_>,
        table: &DeTable<'_>,
        place: &Place,
        path: &Path,
        node: &Node,
    ) -> bool {
        let known = |name: &&str| shape.property(name).is_some();
        let keys: BTreeSet<_> = table.keys().map(|key| key.get_ref().as_ref()).collect();
        let mut whole = true;
        for name in shape.required() {
            whole &= node.entries.contains_key(name);
            if !keys.contains(name) {
                let message = format!("`{path}` lacks the key `{name}`");
                let mut fault = Fault::new(&path.key(name), header(place), message);
                if let Some(shape) = shape.property(name) {
                    fault = fault.expected(format!("expected {name} = {}", shape.describe()));
                }
                self.faults.push(fault);
            }
        }
        if let Some(names) = shape.exactly_one()
            && keys.iter().filter(|name| known(name)).count() != 1
        {
            let message = format!("`{path}` has {} of the keys {names}", keys.len());
            let fault = Fault::new(path, place.span.clone(), message)
                .expected(format!("expected exactly one of {names}"));
            self.faults.push(fault);
            whole = false;
        }
        // One key is needed and it was faulty.
        whole && (shape.exactly_one().is_none() || !node.entries.is_empty())
    }

    fn array(
        &mut self,
        shape: Shape<'_>,
        array: &DeArray<'_>,
        place: &Place,
        path: &Path,
    ) -> Walked {
        let mut values = Vec::with_capacity(array.len());
        let mut node = place.leaf();
        for (index, value) in array.iter().enumerate() {
            let place = Place {
                key: value.span(),
                span: value.span(),
            };
            let walked = self.value(shape.items()?, value.get_ref(), &place, &path.index(index));
            if let Some((value, part)) = walked {
                values.push(value);
                node.elements.push(part);
            }
        }
        if array.len() < shape.fewest() {
            let message = format!("`{path}` is empty");
            let fault = Fault::new(path, place.span.clone(), message)
                .expected("expected at least one element");
            self.faults.push(fault);
        }
        // Of a list that must not be empty, nothing is left: the whole is of no use.
        (values.len() >= shape.fewest()).then_some((Value::Array(values), node))
    }

    fn string(&mut self, shape: Shape<'_>, text: &str, place: &Place, path: &Path) -> Walked {
        if shape.format() == Some("secret") {
            self.hidden.push(place.span.clone());
        }
        let fault = if let Some(words) = shape.words() {
            if words.contains(&text) {
                None
            } else {
                let message = format!("`{path}` cannot be \"{text}\"");
                let near = nearest(text, words.iter().copied());
                let listed: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                let help = match unavailable::why_not(path, text) {
                    Some(why) => Some(why.to_owned()),
                    None => near.map(|near| format!("did you mean \"{near}\"?")),
                };
                let fault = Fault::new(path, place.span.clone(), message)
                    .expected(format!("expected one of {}", listed.join(", ")))
                    .help(help);
                Some(fault)
            }
        } else if let Some(check) = shape.format().and_then(values::check_named) {
            let wrong = if (check.accepts)(text) {
                shape
                    .outside(text)
                    .map(|expected| ("out of range", expected))
            } else {
                Some(("malformed", format!("expected {}", check.expected)))
            };
            wrong.map(|(what, expected)| {
                Fault::new(path, place.span.clone(), format!("`{path}` is {what}"))
                    .expected(expected)
            })
        } else if text.chars().count() < shape.shortest() {
            let fault = Fault::new(path, place.span.clone(), format!("`{path}` is empty"));
            Some(fault.expected("expected a string that is not empty"))
        } else {
            None
        };
        let Some(fault) = fault else {
            return Some((Value::from(text), place.leaf()));
        };
        self.faults.push(fault);
        None
    }

    fn number(
        &mut self,
        shape: Shape<'_>,
        value: Option<Value>,
        place: &Place,
        path: &Path,
    ) -> Walked {
        if let Some(value) = value {
            return Some((value, place.leaf()));
        }
        let fault = Fault::new(
            path,
            place.span.clone(),
            format!("`{path}` is out of range"),
        )
        .expected(format!("expected {}", shape.describe()));
        self.faults.push(fault);
        None
    }

    /// Values that were not understood may be secrets in the wrong place. Shorter ones are not.
    fn hide_literals(&mut self, value: &DeValue<'_>, span: &Range<usize>) {
        match value {
            DeValue::Array(array) => {
                for value in array {
                    self.hide_literals(value.get_ref(), &value.span());
                }
            }
            DeValue::String(text) if text.len() >= 8 => self.hidden.push(span.clone()),
            DeValue::Table(table) => {
                for value in table.values() {
                    self.hide_literals(value.get_ref(), &value.span());
                }
            }
            DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Float(_)
            | DeValue::Integer(_)
            | DeValue::String(_) => {}
        }
    }
}

/// The place of a table's head: its key, or where there is none (in an array) its opening.
fn header(place: &Place) -> Range<usize> {
    if place.key.is_empty() {
        place.span.clone()
    } else {
        place.key.clone()
    }
}

fn unknown_key(shape: Shape<'_>, name: &str, path: &Path, place: &Place) -> Fault {
    let parent = parent_name(path);
    let names = shape.property_names();
    let deeper = || shape.property_below(name);
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None => deeper().map(|place| format!("did you mean `{place}`?")),
    };
    Fault::new(
        path,
        place.key.clone(),
        format!("unknown key `{name}` in {parent}"),
    )
    .expected(format!("expected one of {}", names.join(", ")))
    .help(help)
}

fn not_yet(path: &Path, place: &Place) -> Fault {
    Fault::new(
        path,
        place.key.clone(),
        format!("`{path}` is not available yet"),
    )
    .expected("remove it: this version of the gateway does not do what it asks for".to_owned())
}

fn parent_name(path: &Path) -> String {
    match path.parent() {
        Some(parent) if !parent.steps().is_empty() => format!("`{parent}`"),
        _ => "the file".to_owned(),
    }
}

/// What a mistyped value most likely wants.
fn hint_for_type(shape: Shape<'_>, value: &DeValue<'_>) -> Option<String> {
    match (value, shape.format()?) {
        (DeValue::Integer(number), "duration") => Some(format!(
            "durations are strings with a unit: \"{number}s\" or \"{number}ms\""
        )),
        (DeValue::Integer(number), "size") => Some(format!(
            "sizes are strings with a unit: \"{number}B\" or \"{number}MiB\""
        )),
        (DeValue::Integer(number), "dollars") => {
            Some(format!("money is written as a string: \"{number}\""))
        }
        (DeValue::Float(number), "dollars") => Some(format!(
            "money is written as a string, so that no cent is lost: \"{number}\""
        )),
        _ => None,
    }
}

/// The JSON Schema's name of a TOML value's type.
fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Array(_) => "array",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "datetime",
        DeValue::Float(_) => "number",
        DeValue::Integer(_) => "integer",
        DeValue::String(_) => "string",
        DeValue::Table(_) => "object",
    }
}

fn article(kind: &str) -> &'static str {
    match kind {
        "array" => "an array",
        "boolean" => "true or false",
        "datetime" => "a date",
        "integer" => "a whole number",
        "number" => "a number",
        "object" => "a table",
        _ => "a string",
    }
}

#[cfg(test)]
mod tests;
