use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn parse(text: &str) -> Result<Envelope, InvalidEnvelope> {
    Envelope::parse(Bytes::copy_from_slice(text.as_bytes()))
}

fn fault(text: &str) -> (Fault, usize) {
    let error = parse(text).unwrap_err();
    (error.fault, error.offset)
}

#[test]
fn the_fields_that_decide_are_decoded() {
    let envelope = parse(
        r#" {"model": "a\u0062", "stream":true , "stream_options":{"include_usage":false},
        "max_tokens":10,"max_completion_tokens":2e1,"n":3,"user":"u\n","messages":[ {"a":[1,2]} , "x"],
        "tools":[],"input":"text"}"#,
    )
    .unwrap();
    assert_eq!(envelope.model(), Some("ab"));
    assert!(envelope.stream());
    assert!(!envelope.asks_for_usage());
    assert_eq!(envelope.output_limit(), Some(20));
    assert_eq!(envelope.n(), Some(3));
    assert_eq!(envelope.text("user").as_deref(), Some("u\n"));
    assert_eq!(envelope.text("input").as_deref(), Some("text"));
    let messages: Vec<_> = envelope
        .items("messages")
        .iter()
        .map(|span| envelope.bytes(*span))
        .collect();
    assert_eq!(messages, [&br#"{"a":[1,2]}"#[..], br#""x""#]);
    assert!(envelope.items("tools").is_empty());
    assert!(envelope.items("input").is_empty());
}

#[test]
fn null_counts_as_absent() {
    let envelope =
        parse(r#"{"model":null,"stream":null,"max_tokens":null,"stream_options":null}"#).unwrap();
    assert_eq!(envelope.model(), None);
    assert!(!envelope.stream());
    assert_eq!(envelope.output_limit(), None);
    assert_eq!(envelope.stream_options(), None);
}

#[test]
fn each_fault_is_told_apart_with_its_place() {
    assert_eq!(fault(""), (Fault::Cut, 0));
    assert_eq!(fault("[1]"), (Fault::NotAnObject, 0));
    assert_eq!(fault(" 12"), (Fault::NotAnObject, 1));
    assert_eq!(fault(r#"{"a":"#), (Fault::Cut, 5));
    assert_eq!(fault(r#"{"a":"b"#), (Fault::Cut, 7));
    assert_eq!(fault(r#"{"a":1} x"#), (Fault::Trailing, 8));
    assert_eq!(fault(r#"{"a":1}{}"#), (Fault::Trailing, 7));
    assert_eq!(fault(r#"{"a":1,"b":2,"\u0061":3}"#), (Fault::Duplicate, 14));
    assert_eq!(fault("{\"a\":\"\u{1}\"}"), (Fault::Syntax, 6));
    assert_eq!(fault(r#"{"a":01}"#), (Fault::Syntax, 6));
    assert_eq!(fault(r#"{"a":1,}"#), (Fault::Syntax, 7));
    assert_eq!(fault(r#"{"a":"\x"}"#), (Fault::Syntax, 7));
    assert_eq!(fault(r#"{"a":nul}"#), (Fault::Syntax, 8));
    assert_eq!(
        fault(r#"{"stream":"yes"}"#),
        (
            Fault::Type {
                field: "stream",
                expected: "true or false"
            },
            10
        )
    );
    for wrong in [
        r#"{"model":5}"#,
        r#"{"max_tokens":-1}"#,
        r#"{"max_tokens":1.5}"#,
        r#"{"n":"2"}"#,
        r#"{"stream_options":[]}"#,
        r#"{"stream_options":{"include_usage":1}}"#,
    ] {
        assert!(matches!(fault(wrong).0, Fault::Type { .. }), "{wrong}");
    }
    let invalid = Envelope::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err();
    assert_eq!((invalid.fault, invalid.offset), (Fault::Utf8, 6));
    assert_eq!(
        invalid.to_string(),
        "the body is not valid utf-8 (at byte 6)"
    );
}

#[test]
fn two_spellings_of_a_lone_surrogate_are_one_key() {
    assert_eq!(fault(r#"{"\ud800":1,"\uD800":2}"#), (Fault::Duplicate, 13));
    assert!(parse(r#"{"\ud800":1,"\ud801":2,"\ufffd":3}"#).is_ok());
    assert_eq!(
        fault(r#"{"😀":1,"\ud83d\ude00":2}"#),
        (Fault::Duplicate, 11)
    );
}

#[test]
fn nesting_of_128_is_read_and_129_is_not() {
    let nested = |levels: usize| {
        let inner = "[".repeat(levels - 1) + &"]".repeat(levels - 1);
        format!(r#"{{"a":{inner}}}"#)
    };
    assert!(parse(&nested(128)).is_ok());
    assert_eq!(fault(&nested(129)).0, Fault::Depth);
    let listed = nested(129).replace("\"a\"", "\"messages\"");
    assert_eq!(fault(&listed).0, Fault::Depth);
    assert!(parse(&nested(128).replace("\"a\"", "\"messages\"")).is_ok());
    let objects = format!("{}1{}", r#"{"a":"#.repeat(129), "}".repeat(129));
    assert_eq!(fault(&objects).0, Fault::Depth);
    let objects = format!("{}1{}", r#"{"a":"#.repeat(128), "}".repeat(128));
    assert!(parse(&objects).is_ok());
}

#[test]
fn an_escape_at_any_place_of_a_block_is_seen() {
    for before in 0..200 {
        let filler = "a".repeat(before);
        for (text, good) in [
            (r#"\"rest"#, true),
            (r"\\", true),
            (r"\\\\\n", true),
            (r"\u00e9\ud800", true),
            (r"\u00g9", false),
            (r"\q", false),
            ("\n", false),
        ] {
            for after in [0, 1, 15, 70] {
                let body = format!(r#"{{"a":"{filler}{text}{}"}}"#, "b".repeat(after));
                assert_eq!(parse(&body).is_ok(), good, "{body}");
            }
        }
    }
}

#[test]
fn usage_is_asked_for_whatever_was_there() {
    let asked = |body: &str| {
        let envelope = parse(body).unwrap();
        let mut edits = Edits::default();
        edits.ask_for_usage(&envelope);
        let text = edits.apply(&envelope).to_bytes();
        assert!(Envelope::parse(text.clone()).unwrap().asks_for_usage());
        String::from_utf8(text.to_vec()).unwrap()
    };
    assert_eq!(asked("{}"), r#"{"stream_options":{"include_usage":true}}"#);
    assert_eq!(
        asked(r#"{ "a":1}"#),
        r#"{"stream_options":{"include_usage":true}, "a":1}"#
    );
    assert_eq!(
        asked(r#"{"stream_options":null}"#),
        r#"{"stream_options":{"include_usage":true}}"#
    );
    assert_eq!(
        asked(r#"{"stream_options": { } }"#),
        r#"{"stream_options": {"include_usage":true } }"#
    );
    assert_eq!(
        asked(r#"{"stream_options":{"include_obfuscation":false}}"#),
        r#"{"stream_options":{"include_usage":true,"include_obfuscation":false}}"#
    );
    assert_eq!(
        asked(r#"{"stream_options":{"include_usage":false, "x":1}}"#),
        r#"{"stream_options":{"include_usage":true, "x":1}}"#
    );
    let kept = r#"{"stream_options":{"include_usage" : true}}"#;
    assert_eq!(asked(kept), kept);
}

#[test]
fn output_limits_are_lowered_never_raised() {
    let limited = |body: &str| {
        let envelope = parse(body).unwrap();
        let mut edits = Edits::default();
        let changed = edits.limit_output(&envelope, OutputLimit::MaxTokens, 50);
        let text = edits.apply(&envelope).to_bytes();
        assert_eq!(changed, text != body);
        String::from_utf8(text.to_vec()).unwrap()
    };
    assert_eq!(limited(r#"{"a":1}"#), r#"{"max_tokens":50,"a":1}"#);
    assert_eq!(limited(r#"{"max_tokens":null}"#), r#"{"max_tokens":50}"#);
    assert_eq!(limited(r#"{"max_tokens":40}"#), r#"{"max_tokens":40}"#);
    assert_eq!(
        limited(r#"{"max_tokens":51,"max_completion_tokens":400}"#),
        r#"{"max_tokens":50,"max_completion_tokens":50}"#
    );
}

#[test]
fn a_renamed_field_keeps_its_value_and_may_be_lowered_too() {
    let envelope = parse(r#"{"max_tokens" : 90,"a":1}"#).unwrap();
    let mut edits = Edits::default();
    edits.rename(
        envelope.field("max_tokens").unwrap(),
        "max_completion_tokens",
    );
    edits.limit_output(&envelope, OutputLimit::MaxCompletionTokens, 50);
    assert_eq!(
        edits.apply(&envelope).to_bytes(),
        r#"{"max_completion_tokens" : 50,"a":1}"#
    );
}

#[test]
fn fields_are_removed_with_their_commas() {
    let without = |names: &[&str], insert: bool| {
        let envelope = parse(r#"{ "a":1 , "b":2, "c" : 3 }"#).unwrap();
        let mut edits = Edits::default();
        for name in names {
            edits.remove(envelope.field(name).unwrap());
        }
        if insert {
            edits.insert("new", "0");
        }
        String::from_utf8(edits.apply(&envelope).to_bytes().to_vec()).unwrap()
    };
    assert_eq!(without(&["a"], false), r#"{ "b":2, "c" : 3 }"#);
    assert_eq!(without(&["b"], false), r#"{ "a":1 , "c" : 3 }"#);
    assert_eq!(without(&["c"], false), r#"{ "a":1 , "b":2 }"#);
    assert_eq!(without(&["a", "c"], false), r#"{ "b":2 }"#);
    assert_eq!(without(&["b", "c"], true), r#"{"new":0, "a":1 }"#);
    assert_eq!(without(&["a", "b", "c"], false), r"{  }");
    assert_eq!(without(&["a", "b", "c"], true), r#"{"new":0  }"#);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        "[\"\\\\\u{0}-\u{1f}a-c😀]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\\\\é\n]{0,4}", inner, 0..6)
                .prop_map(Value::from_iter),
        ]
    })
}

fn object() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        3 => "[a-f]{1,3}",
        1 => "messages|tools|input|system|user|metadata",
        1 => "[\"\\\\é\n]{0,3}",
    ];
    (
        prop::collection::btree_map(name, json(), 0..8),
        any::<bool>(),
    )
        .prop_map(|(map, pretty)| {
            let value = Value::from_iter(map);
            if pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            }
        })
}

/// Valid JSON with one byte changed, taken away or doubled, or its end cut off.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    (object(), any::<prop::sample::Index>(), 0..4, any::<u8>()).prop_map(
        |(text, index, how, byte)| {
            let mut bytes = text.into_bytes();
            let at = index.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, bytes[at]),
                _ => bytes.truncate(at),
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn it_accepts_what_serde_json_accepts(bytes in mutated()) {
        let ours = Envelope::parse(Bytes::from(bytes.clone()));
        // An ignored value is checked for its grammar only, as ours is.
        let grammar = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok()
            && std::str::from_utf8(&bytes).is_ok();
        match ours {
            Ok(_) => prop_assert!(grammar),
            Err(error) => match error.fault {
                Fault::Duplicate | Fault::NotAnObject => prop_assert!(grammar),
                Fault::Type { .. } | Fault::Depth | Fault::TooLong => {}
                Fault::Cut | Fault::Syntax | Fault::Trailing | Fault::Utf8 => {
                    prop_assert!(!grammar);
                }
            },
        }
    }

    #[test]
    fn it_reads_the_values_that_serde_json_reads(text in object()) {
        let envelope = parse(&text).unwrap();
        let expected: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(envelope.fields().len(), expected.len());
        for field in envelope.fields() {
            let value: Value = serde_json::from_slice(field.value.of(envelope.body())).unwrap();
            let name = envelope.name(field).into_owned();
            prop_assert_eq!(Some(&value), expected.get(&name));
            if let (Value::Array(elements), true) =
                (&value, LISTS.contains(&name.as_bytes()))
            {
                let items: Vec<Value> = envelope.items(&name).iter()
                    .map(|span| serde_json::from_slice(span.of(envelope.body())).unwrap())
                    .collect();
                prop_assert_eq!(&items, elements);
                prop_assert_eq!(envelope.elements(field.value), envelope.items(&name));
            }
            if let Value::Object(map) = &value {
                let members: Vec<_> = envelope.members(field.value).collect();
                prop_assert_eq!(members.len(), map.len());
            }
        }
        prop_assert_eq!(Edits::default().apply(&envelope).to_bytes(), text);
    }

    #[test]
    fn an_edit_leaves_every_other_field_as_it_was(
        text in object(),
        choices in prop::collection::vec(0..4_u8, 8),
        insert in any::<bool>(),
    ) {
        let envelope = parse(&text).unwrap();
        let mut edits = Edits::default();
        let mut expected = Vec::new();
        if insert {
            edits.insert("inserted\"", "[0]");
            expected.push(("inserted\"".to_owned(), Bytes::from_static(b"[0]")));
        }
        for (field, choice) in envelope.fields().iter().zip(choices) {
            let name = envelope.name(field).into_owned();
            match choice {
                0 => edits.remove(field),
                1 => {
                    edits.replace(field.value, "\"replaced\"");
                    expected.push((name, Bytes::from_static(b"\"replaced\"")));
                }
                _ => expected.push((name, envelope.bytes(field.value))),
            }
        }
        let spliced = edits.apply(&envelope);
        prop_assert_eq!(spliced.len(), spliced.to_bytes().len());
        let after = Envelope::parse(spliced.to_bytes()).unwrap();
        let got: Vec<_> = after.fields().iter()
            .map(|field| (after.name(field).into_owned(), after.bytes(field.value)))
            .collect();
        prop_assert_eq!(got, expected);
    }
}
