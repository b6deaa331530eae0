use bytes::Bytes;
use whippletree_policies::lint::{Fingerprint, Fingerprinter, Kind, Mark, Tier};

use super::*;

fn envelope(body: &str) -> Envelope {
    Envelope::parse(Bytes::from(body.to_owned())).unwrap()
}

/// What a body is cut into: tier, kind, path and mark of each segment.
fn cut(body: &str, form: Form) -> Vec<(Tier, Kind, String, Option<Mark>)> {
    let envelope = envelope(body);
    let prompt = read(&envelope, form, "m", &Fingerprinter::new(&[1; 32]));
    let told = |segment: &whippletree_policies::lint::Segment| {
        (
            segment.tier,
            segment.kind,
            segment.address.path(),
            segment.mark,
        )
    };
    prompt.segments.iter().map(told).collect()
}

fn prints(body: &str, form: Form) -> Vec<Fingerprint> {
    let envelope = envelope(body);
    let prompt = read(&envelope, form, "m", &Fingerprinter::new(&[1; 32]));
    prompt.segments.iter().map(|segment| segment.own).collect()
}

#[test]
fn chat_is_cut_into_tools_system_and_messages() {
    let body = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},{"content":"r","role":"tool","tool_call_id":"c"}],"tools":[{"type":"function","function":{"name":"a"}}],"response_format":{"type":"json_object"}}"#;
    let expected = [
        (Tier::Tools, Kind::Tool, "tools[0]"),
        (Tier::Tools, Kind::Schema, "response_format"),
        (Tier::System, Kind::System, "messages[0]"),
        (Tier::Messages, Kind::User, "messages[1]"),
        (Tier::Messages, Kind::Assistant, "messages[2]"),
        (Tier::Messages, Kind::ToolResult, "messages[3]"),
    ];
    let expected = expected.map(|(tier, kind, path)| (tier, kind, path.to_owned(), None));
    assert_eq!(cut(body, Form::Chat), expected);
    assert_eq!(Form::of(&envelope(body)), Form::Chat);
}

#[test]
fn anthropics_messages_are_cut_into_blocks() {
    let body = r#"{"model":"claude","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"},{"type":"tool_use","id":"c","name":"a","input":{}}]},{"role":"user","content":[{"content":"a long result that is more than ninety-six bytes long, so that the type at the end has to be found","tool_use_id":"c","type":"tool_result"},{"type":"text","text":"go on","cache_control":{"type":"ephemeral","ttl":"1h"}}]}],"tools":[{"name":"a","input_schema":{}}]}"#;
    let expected = [
        (Tier::Tools, Kind::Tool, "tools[0]", None),
        (Tier::System, Kind::System, "system[0]", Some(Mark::Short)),
        (Tier::Messages, Kind::User, "messages[0]", None),
        (
            Tier::Messages,
            Kind::Thinking,
            "messages[1].content[0]",
            None,
        ),
        (
            Tier::Messages,
            Kind::ToolCall,
            "messages[1].content[1]",
            None,
        ),
        (
            Tier::Messages,
            Kind::ToolResult,
            "messages[2].content[0]",
            None,
        ),
        (
            Tier::Messages,
            Kind::User,
            "messages[2].content[1]",
            Some(Mark::Long),
        ),
    ];
    let expected = expected.map(|(tier, kind, path, mark)| (tier, kind, path.to_owned(), mark));
    assert_eq!(cut(body, Form::Messages), expected);
    assert_eq!(Form::of(&envelope(body)), Form::Messages);
}

#[test]
fn responses_gemini_and_converse_are_cut_too() {
    let responses = r#"{"model":"m","instructions":"s","input":[{"role":"user","content":"u"},{"type":"function_call","call_id":"c","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}]}"#;
    let kinds = |body: &str, form: Form| -> Vec<Kind> {
        cut(body, form)
            .into_iter()
            .map(|(_, kind, ..)| kind)
            .collect()
    };
    assert_eq!(Form::of(&envelope(responses)), Form::Responses);
    assert_eq!(
        kinds(responses, Form::Responses),
        [Kind::System, Kind::User, Kind::ToolCall, Kind::ToolResult]
    );
    let text = r#"{"model":"m","input":"hi"}"#;
    assert_eq!(kinds(text, Form::Responses), [Kind::User]);
    let gemini = r#"{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[]}]}"#;
    assert_eq!(Form::of(&envelope(gemini)), Form::Gemini);
    assert_eq!(
        kinds(gemini, Form::Gemini),
        [Kind::Tool, Kind::System, Kind::User, Kind::Assistant]
    );
    let converse = r#"{"toolConfig":{"tools":[{"toolSpec":{"name":"a"}},{"cachePoint":{"type":"default"}}]},"system":[{"text":"s"}],"messages":[{"role":"user","content":[{"text":"u"},{"cachePoint":{"type":"default","ttl":"1h"}}]}]}"#;
    assert_eq!(Form::of(&envelope(converse)), Form::Converse);
    let marks: Vec<Option<Mark>> = cut(converse, Form::Converse)
        .into_iter()
        .map(|(.., mark)| mark)
        .collect();
    assert_eq!(marks, [Some(Mark::Short), None, Some(Mark::Long)]);
}

#[test]
fn a_mark_changes_no_fingerprint_however_the_body_is_spaced() {
    for (form, bare, marked) in [
        (
            Form::Messages,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"u"}]}]}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"u","cache_control":{"type":"ephemeral"}}]}]}"#,
        ),
        (
            Form::Messages,
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "u"}]}]}"#,
            r#"{"messages": [{"role": "user", "content": [{"cache_control": {"type": "ephemeral"}, "type": "text", "text": "u"}]}]}"#,
        ),
        (
            Form::Messages,
            r#"{"messages": [{"role": "user", "content": "u"}]}"#,
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "u", "cache_control": {"type": "ephemeral"}}]}]}"#,
        ),
        (
            Form::Chat,
            r#"{"messages":[{"role":"user","content":"u"}]}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"u","cache_control":{"type":"ephemeral"}}]}]}"#,
        ),
        (
            Form::Messages,
            r#"{"tools":[{"name":"a","input_schema":{}}]}"#,
            r#"{"tools":[{"name":"a","input_schema":{},"cache_control":{"type":"ephemeral"}}]}"#,
        ),
    ] {
        assert_eq!(prints(bare, form), prints(marked, form), "{marked}");
        assert!(
            cut(marked, form).iter().any(|(.., mark)| mark.is_some()),
            "{marked}"
        );
    }
}

#[test]
fn what_is_said_of_marks_is_no_mark() {
    let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"what does \"cache_control\": {} do?"}]}]}"#;
    assert!(
        cut(body, Form::Messages)
            .iter()
            .all(|(.., mark)| mark.is_none())
    );
}

#[test]
fn claude_codes_attribution_line_is_left_out_and_nothing_else() {
    let with = |line: &str| {
        format!(
            r#"{{"system":[{{"type":"text","text":"{line}"}},{{"type":"text","text":"You help."}}],"messages":[]}}"#
        )
    };
    let one =
        with("x-anthropic-billing-header: cc_version=2.1.0.abc; cc_entrypoint=cli; cch=33ccc;");
    let two =
        with("x-anthropic-billing-header: cc_version=2.1.0.abc; cc_entrypoint=cli; cch=33ccd;");
    assert_eq!(prints(&one, Form::Messages), prints(&two, Form::Messages));
    assert_eq!(cut(&one, Form::Messages).len(), 1);
    let asked = with("what is x-anthropic-billing-header: ?");
    assert_eq!(cut(&asked, Form::Messages).len(), 2);
    let longer = r#"{"system":"x-anthropic-billing-header: cc_version=2; cch=33ccc;\nYou are a helper.","messages":[]}"#;
    assert_eq!(cut(longer, Form::Messages).len(), 1);
}

#[test]
fn members_may_come_in_any_order() {
    let first = r#"{"messages":[{"content":"a \"role\":\"system\"","role":"user"}]}"#;
    assert_eq!(
        cut(first, Form::Chat),
        [(Tier::Messages, Kind::User, "messages[0]".to_owned(), None)]
    );
    let nested = r#"{"messages":[{"name":"n","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"x":{"role":"system"},"role":"user"}]}"#;
    let kinds: Vec<Kind> = cut(nested, Form::Chat)
        .into_iter()
        .map(|(_, kind, ..)| kind)
        .collect();
    assert_eq!(kinds, [Kind::User, Kind::User, Kind::User]);
}

#[test]
fn another_model_shares_no_chain_and_all_fingerprints() {
    let body = r#"{"messages":[{"role":"user","content":"u"}]}"#;
    let envelope = envelope(body);
    let print = Fingerprinter::new(&[1; 32]);
    let (a, b) = (
        read(&envelope, Form::Chat, "a", &print),
        read(&envelope, Form::Chat, "b", &print),
    );
    assert_eq!(a.segments[0].own, b.segments[0].own);
    assert_ne!(a.segments[0].chain, b.segments[0].chain);
}
