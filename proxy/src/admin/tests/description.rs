//! The description of the plane is true.

use std::collections::BTreeSet;

use super::*;

#[test]
fn the_description_has_every_endpoint_and_no_other() {
    let description = openapi::describe();
    let described: BTreeSet<(String, String)> = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let there: BTreeSet<(String, String)> = endpoints()
        .into_iter()
        .map(|endpoint| (endpoint.method.to_string(), endpoint.path.to_owned()))
        .collect();
    assert_eq!(described, there);
}

/// The description names the fields that answers have, and only schemas that it defines.
#[tokio::test]
async fn the_description_fits_the_answers() {
    let plane = Plane::new(&exchanges(1));
    let description = openapi::describe();
    let schemas = &description["components"]["schemas"];
    let id = exchanges(1)[0].request_id;
    for (path, name) in [
        ("/admin/v1/requests".to_owned(), "Requests"),
        (format!("/admin/v1/requests/{id}"), "Exchange"),
        ("/admin/v1/ledger".to_owned(), "Ledger"),
        ("/admin/v1/usage".to_owned(), "UsageRows"),
        ("/admin/v1/targets".to_owned(), "Targets"),
        ("/admin/v1/keys".to_owned(), "Keys"),
        ("/admin/v1/config".to_owned(), "Config"),
    ] {
        fits(schemas, &schemas[name], &plane.json(&path).await, name);
    }
}

pub(super) fn fits(schemas: &Value, schema: &Value, answer: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        assert!(!schemas[name].is_null(), "{at}: no schema {name}");
        return fits(schemas, &schemas[name], answer, at);
    }
    if let Some(either) = schema["anyOf"].as_array() {
        if !answer.is_null() {
            fits(schemas, &either[0], answer, at);
        }
        return;
    }
    if let Some(items) = answer.as_array() {
        for item in items {
            fits(schemas, &schema["items"], item, at);
        }
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), answer.as_object())
    {
        let known: BTreeSet<_> = properties.keys().collect();
        let found: BTreeSet<_> = fields.keys().collect();
        assert_eq!(known, found, "{at}");
        for (name, schema) in properties {
            fits(schemas, schema, &fields[name], &format!("{at}.{name}"));
        }
    }
}
