//! A request's body: what is accepted is what `serde_json` accepts, and an edited body is the same body
//! but for the edit.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use whippletree_providers::envelope::{Edits, Envelope, Fault, OutputLimit};

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let grammar = std::str::from_utf8(data).is_ok()
        && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
    let envelope = match Envelope::parse(body.clone()) {
        Ok(envelope) => envelope,
        Err(error) => {
            assert!(error.offset <= data.len());
            match error.fault {
                Fault::Duplicate | Fault::NotAnObject => assert!(grammar),
                Fault::Type { .. } | Fault::Depth | Fault::TooLong => {}
                Fault::Cut | Fault::Syntax | Fault::Trailing | Fault::Utf8 => assert!(!grammar),
            }
            return;
        }
    };
    // serde_json refuses the 128th level, which we allow.
    assert!(grammar || data.iter().filter(|b| matches!(b, b'[' | b'{')).count() >= 128);
    assert_eq!(Edits::default().apply(&envelope).to_bytes(), body);

    let mut edits = Edits::default();
    edits.set_model(&envelope, "m\"");
    edits.ask_for_usage(&envelope);
    edits.limit_output(&envelope, OutputLimit::MaxTokens, 7);
    let removed = envelope.fields().iter().find(|field| envelope.name(field) == "user");
    if let Some(field) = removed {
        edits.remove(field);
    }
    let after = Envelope::parse(edits.apply(&envelope).to_bytes()).expect("an edit broke the body");
    assert_eq!(after.model(), Some("m\""));
    assert!(after.asks_for_usage());
    assert!(after.output_limit().is_some_and(|limit| limit <= 7));
    let touched = [
        "model",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "user",
    ];
    let others = |envelope: &Envelope| {
        envelope
            .fields()
            .iter()
            .filter(|field| !touched.contains(&&*envelope.name(field)))
            .map(|field| (envelope.bytes(field.key), envelope.bytes(field.value)))
            .collect::<Vec<_>>()
    };
    assert_eq!(others(&envelope), others(&after));
});
