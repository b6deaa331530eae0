//! The few events that are not passed on as they came, edited by splices.
//!
//! Some vendors send events that no client can read rightly: two calls under one index, a finish
//! that claims whole tool calls when they are cut, a usage event without `choices`. Each repair here
//! answers one such fault and changes only the bytes at fault; arguments are never touched.

use bytes::Bytes;
use whippletree_providers::envelope::{Edits, Envelope, Span};

/// An event's JSON as an event of its own.
pub(super) fn event(data: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(data.len() + 8);
    bytes.extend_from_slice(b"data: ");
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\n\n");
    bytes.into()
}

/// `choices: []` for a usage event that has none or null, since strict clients demand the field.
pub(super) fn with_choices(data: &Bytes) -> Option<Bytes> {
    let envelope = Envelope::parse(data.clone()).ok()?;
    let mut edits = Edits::default();
    match envelope.field("choices") {
        Some(field) if field.value.of(envelope.body()).starts_with(b"[") => return None,
        _ => edits.set(&envelope, "choices", &b"[]"[..]),
    }
    Some(edits.apply(&envelope).to_bytes())
}

/// Another `index` for each tool call of the event: `index_of` is told the choice, the index and
/// the id, and says the right index.
pub(super) fn with_tool_indexes(
    data: &Bytes,
    mut index_of: impl FnMut(u64, u64, Option<&str>) -> u64,
) -> Option<Bytes> {
    let envelope = Envelope::parse(data.clone()).ok()?;
    let body = envelope.body();
    let mut edits = Edits::default();
    for choice in choices(&envelope) {
        let number = member(&envelope, choice, "index").and_then(|s| number(s.of(body)));
        let Some(delta) = member(&envelope, choice, "delta") else {
            continue;
        };
        let Some(calls) = member(&envelope, delta, "tool_calls") else {
            continue;
        };
        for call in envelope.elements(calls) {
            let Some(span) = member(&envelope, call, "index") else {
                continue;
            };
            let Some(index) = number_of(body, span) else {
                continue;
            };
            let id = member(&envelope, call, "id")
                .and_then(|s| serde_json::from_slice::<String>(s.of(body)).ok());
            let right = index_of(number.unwrap_or(0), index, id.as_deref());
            if right != index {
                edits.replace(span, right.to_string());
            }
        }
    }
    (!edits.is_empty()).then(|| edits.apply(&envelope).to_bytes())
}

/// An event that gives a call without arguments the empty object, in the frame of another event of
/// the same answer, so that its id and model are right.
pub(super) fn empty_arguments(like: &Bytes, choice: u64, index: u64) -> Option<Bytes> {
    let envelope = Envelope::parse(like.clone()).ok()?;
    let mut edits = Edits::default();
    let choices = format!(
        r#"[{{"index":{choice},"delta":{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{{}}"}}}}]}},"finish_reason":null}}]"#
    );
    edits.set(&envelope, "choices", choices);
    if let Some(usage) = envelope.field("usage") {
        edits.remove(usage);
    }
    Some(edits.apply(&envelope).to_bytes())
}

/// An event with an empty delta, in the frame of another of the same answer: it keeps a client's
/// idle timer quiet and adds nothing.
pub(super) fn empty_delta(like: &Bytes) -> Option<Bytes> {
    let envelope = Envelope::parse(like.clone()).ok()?;
    let mut edits = Edits::default();
    edits.set(
        &envelope,
        "choices",
        &br#"[{"index":0,"delta":{},"finish_reason":null}]"#[..],
    );
    if let Some(usage) = envelope.field("usage") {
        edits.remove(usage);
    }
    Some(edits.apply(&envelope).to_bytes())
}

fn choices(envelope: &Envelope) -> Vec<Span> {
    envelope
        .field("choices")
        .map(|field| envelope.elements(field.value))
        .unwrap_or_default()
}

fn member(envelope: &Envelope, object: Span, name: &str) -> Option<Span> {
    envelope
        .members(object)
        .find(|m| envelope.name(m) == name)
        .map(|m| m.value)
}

fn number_of(body: &[u8], span: Span) -> Option<u64> {
    number(span.of(body))
}

fn number(raw: &[u8]) -> Option<u64> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Option<Bytes>) -> String {
        String::from_utf8(bytes.unwrap().to_vec()).unwrap()
    }

    const CALL: &[u8] = br#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"{ \"x\" : 0.70 }"}}]},"finish_reason":null}]}"#;

    #[test]
    fn only_the_index_of_a_call_changes() {
        let data = Bytes::from_static(CALL);
        let right = text(with_tool_indexes(&data, |_, _, _| 1));
        let expected = String::from_utf8(CALL.to_vec())
            .unwrap()
            .replace(r#""tool_calls":[{"index":0"#, r#""tool_calls":[{"index":1"#);
        assert_eq!(right, expected);
        assert_eq!(with_tool_indexes(&data, |_, index, _| index), None);
    }

    #[test]
    fn a_usage_event_without_choices_gets_an_empty_list() {
        let of = |data: &'static str| with_choices(&Bytes::from_static(data.as_bytes()));
        assert_eq!(
            text(of(r#"{"id":"c","choices":null}"#)),
            r#"{"id":"c","choices":[]}"#
        );
        assert!(text(of(r#"{"id":"c"}"#)).contains(r#""choices":[]"#));
        assert_eq!(of(r#"{"choices":[]}"#), None);
    }

    #[test]
    fn an_added_event_has_the_frame_of_its_answer() {
        let like = Bytes::from_static(
            br#"{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"x":1}}"#,
        );
        assert_eq!(
            text(empty_delta(&like)),
            r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":null}]}"#
        );
        assert!(text(empty_arguments(&like, 0, 2)).contains(r#""arguments":"{}""#));
    }
}
