use serde_json::json;

use super::*;

#[test]
fn the_schema_has_no_null_and_documents_every_key() {
    fn visit(shape: Shape<'_>, path: &str, undocumented: &mut Vec<String>) {
        for name in shape.property_names() {
            let path = format!("{path}.{name}");
            let schema = shape.property_schema(name).unwrap();
            let below = shape.property(name).unwrap();
            if schema.get("description").is_none() {
                undocumented.push(path.clone());
            }
            let elements = below.items().and_then(|items| items.accepting("object"));
            for part in below.accepting("object").into_iter().chain(elements) {
                visit(part, &path, undocumented);
                let named = part.property("any name");
                if let Some(any) = named.and_then(|any| any.accepting("object")) {
                    visit(any, &format!("{path}.*"), undocumented);
                }
            }
        }
    }
    assert!(!SCHEMA.to_string().contains("null"), "{}", *SCHEMA);
    let mut undocumented = Vec::new();
    visit(Shape::new(&SCHEMA), "", &mut undocumented);
    assert_eq!(undocumented, Vec::<String>::new());
}

#[test]
fn every_format_of_the_schema_has_its_check() {
    fn visit(schema: &Value, formats: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                if map.get("type") == Some(&json!("string")) {
                    formats.extend(map.get("format").and_then(Value::as_str).map(str::to_owned));
                }
                map.values().for_each(|value| visit(value, formats));
            }
            Value::Array(values) => values.iter().for_each(|value| visit(value, formats)),
            _ => {}
        }
    }
    let mut formats = BTreeSet::new();
    visit(&SCHEMA, &mut formats);
    formats.remove("secret");
    assert!(formats.len() >= 6, "{formats:?}");
    for format in formats {
        assert!(values::check_named(&format).is_some(), "{format}");
    }
}

#[test]
fn arrays_of_tables_read_as_lists_do() {
    let text =
        "[[tenants.acme.keys]]\nname = \"a\"\nsha256 = \"x\"\n[[tenants.acme.keys]]\nnam = \"b\"\n";
    let read = read("w.toml", text);
    let found: Vec<_> = read
        .faults
        .iter()
        .map(|fault| {
            (
                fault.path.to_string(),
                read.document.line_and_column(fault.span.start).0,
            )
        })
        .collect();
    let at = |path: &str, line| (path.to_owned(), line);
    assert_eq!(
        found,
        [
            at("tenants.acme.keys[0].sha256", 3),
            at("tenants.acme.keys[1].nam", 5),
            at("tenants.acme.keys[1].name", 4),
            at("tenants.acme.keys[1].sha256", 4),
        ]
    );
}
