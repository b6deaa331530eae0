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
