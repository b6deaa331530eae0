//! A request's body: what is accepted is what serde_json reads too, and an edited body is the same
//! body but for the edit.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use whippletree_providers::envelope::{Edits, Envelope};

fuzz_target!(|data: &[u8]| {
    let Ok(envelope) = Envelope::parse(Bytes::copy_from_slice(data)) else {
        return;
    };
    let Ok(read) = serde_json::from_slice::<Value>(data) else {
        // Numbers beyond its range are the one thing that serde_json refuses and the grammar allows.
        assert!(
            data.iter().any(u8::is_ascii_digit),
            "accepted what is no JSON"
        );
        return;
    };
    let Value::Object(fields) = &read else {
        panic!("accepted what is no object");
    };
    assert_eq!(
        fields.len(),
        envelope.fields().len(),
        "a duplicate was accepted"
    );
    assert_eq!(
        envelope.model(),
        fields.get("model").and_then(Value::as_str)
    );

    let mut edits = Edits::default();
    edits.set_model(&envelope, "other/\"model\"");
    edits.ask_for_usage(&envelope);
    let edited = edits.apply(&envelope).to_bytes();
    let Value::Object(mut after) =
        serde_json::from_slice(&edited).expect("the edit broke the body")
    else {
        panic!("the edit broke the body");
    };
    assert_eq!(after.remove("model"), Some(Value::from("other/\"model\"")));
    assert_eq!(after["stream_options"]["include_usage"], Value::Bool(true));
    for (name, value) in fields {
        if name != "model" && name != "stream_options" {
            assert_eq!(after.get(name), Some(value), "another field changed");
        }
    }
});
