//! The configuration as it may be shown: in the file's form, all defaults written out.
//!
//! Secrets that are read from elsewhere appear as where they come from, literal ones as `…`, hashes
//! of keys by their beginning: the hash of a short secret that a team brought could be searched for.

use serde_json::Value;

use super::file::File;
use super::vendors;

/// Hexadecimal digits of a key's hash that are shown.
const SHOWN_DIGITS: usize = 8;

/// The file as it may be shown.
pub fn of(file: &File) -> Value {
    // Maps with string keys and plain values: nothing in a file can fail to be JSON.
    let mut view = serde_json::to_value(file).unwrap_or_default();
    for provider in tables(&mut view, "providers") {
        let kind = provider.get("kind").and_then(Value::as_str);
        let own = kind.and_then(vendors::vendor_of).and_then(|v| v.base_url);
        if let (Some(own), Some(url)) = (own, provider.get_mut("base_url"))
            && url.is_null()
        {
            *url = own.into();
        }
    }
    for tenant in tables(&mut view, "tenants") {
        let keys = tenant.get_mut("keys").and_then(Value::as_array_mut);
        for key in keys.into_iter().flatten() {
            if let Some(Value::String(hash)) = key.get_mut("sha256") {
                hash.truncate(SHOWN_DIGITS);
                hash.push('…');
            }
        }
    }
    view
}

fn tables<'a>(view: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    let table = view.get_mut(name).and_then(Value::as_object_mut);
    table.into_iter().flat_map(serde_json::Map::values_mut)
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::*;

    #[test]
    fn the_view_has_the_files_form_with_defaults_and_without_secrets() {
        let hash = "0123456789abcdef".repeat(4);
        let text = format!(
            r#"
allow_literal_secrets = true
[providers.openai]
kind = "openai"
keys = ["sk-hunter2-hunter2", {{ env = "OPENAI_API_KEY" }}]
[tenants.acme]
keys = [{{ name = "ci", sha256 = "{hash}" }}]
"#
        );
        let view = of(&read("w.toml", &text).file.unwrap());
        let openai = &view["providers"]["openai"];
        assert_eq!(openai["base_url"], "https://api.openai.com/v1");
        assert_eq!(openai["timeouts"]["total"], "30m");
        assert_eq!(openai["keys"][0], "…");
        assert_eq!(openai["keys"][1]["env"], "OPENAI_API_KEY");
        assert_eq!(view["tenants"]["acme"]["keys"][0]["sha256"], "01234567…");
        assert_eq!(view["server"]["max_body"], "32MiB");
        let shown = view.to_string();
        assert!(
            !shown.contains("hunter2") && !shown.contains(&hash),
            "{shown}"
        );
    }
}
