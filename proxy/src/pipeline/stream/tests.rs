use whippletree_policies::outcome::Class;
use whippletree_providers::openai::dialects::dialect;

use super::*;

const NOW: UnixTime = UnixTime(1_700_000_000_000);

fn wishes() -> Wishes {
    Wishes {
        usage: UsageEvent::TakeOut,
        output_limit: None,
        commit: Commit::FirstToken,
    }
}

fn passing(wishes: Wishes) -> Passing {
    Passing::new(Api::Chat, dialect("openai").unwrap(), wishes)
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn call(index: u64, id: &str, arguments: &str) -> String {
    let arguments = serde_json::to_string(arguments).unwrap();
    chunk(
        &format!(
            "{{\"tool_calls\":[{{\"index\":{index},\"id\":\"{id}\",\"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\":{arguments}}}}}]}}"
        ),
        "null",
    )
}

fn usage(written: u64) -> String {
    format!(
        "data: {{\"id\":\"c\",\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{written},\"total_tokens\":{}}}}}\n\n",
        written + 9
    )
}

const DONE: &str = "data: [DONE]\n\n";

/// Plays a stream in one piece; what the client gets, and how it ended.
fn play(wishes: Wishes, stream: &str) -> (String, Result<Passing, StreamFault>) {
    play_cut(wishes, stream, &[])
}

fn play_cut(
    wishes: Wishes,
    stream: &str,
    cuts: &[usize],
) -> (String, Result<Passing, StreamFault>) {
    let mut passing = passing(wishes);
    let mut out = VecDeque::new();
    let bytes = Bytes::copy_from_slice(stream.as_bytes());
    let mut from = 0;
    let result = (|| {
        for to in cuts.iter().copied().chain([bytes.len()]) {
            passing.push(bytes.slice(from..to), NOW, &mut out)?;
            from = to;
        }
        if !passing.is_done() {
            passing.end(NOW, &mut out)?;
        }
        passing.release_end(None, &mut out);
        Ok(())
    })();
    let text = out
        .iter()
        .map(|b| String::from_utf8(b.to_vec()).unwrap())
        .collect();
    (text, result.map(|()| passing))
}

fn whole() -> String {
    [
        &chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null"),
        &chunk("{\"content\":\"日本 🙂\"}", "null"),
        &chunk("{}", "\"stop\""),
        DONE,
    ]
    .concat()
}

#[test]
fn a_stream_passes_byte_for_byte_however_it_is_cut() {
    let stream = whole();
    for cut in 0..stream.len() {
        let (text, result) = play_cut(wishes(), &stream, &[cut]);
        assert_eq!(text, stream, "cut at {cut}");
        assert!(result.is_ok());
    }
}

#[test]
fn the_usage_event_is_read_and_taken_out_unless_the_client_asked() {
    let stream = whole().replace(DONE, &(usage(2) + DONE));
    let (text, result) = play(wishes(), &stream);
    assert_eq!(text, whole());
    assert_eq!(result.unwrap().usage().unwrap().output.0, 2);
    let (text, _) = play(
        Wishes {
            usage: UsageEvent::Pass,
            ..wishes()
        },
        &stream,
    );
    assert_eq!(text, stream);
}

#[test]
fn the_end_waits_until_it_is_released() {
    let mut passing = passing(wishes());
    let mut out = VecDeque::new();
    passing.push(Bytes::from(whole()), NOW, &mut out).unwrap();
    assert!(passing.is_done());
    assert!(!out.iter().any(|b| &b[..] == DONE.as_bytes()));
    passing.release_end(Some(": note\n"), &mut out);
    let last: Vec<_> = out.iter().skip(out.len() - 2).collect();
    assert_eq!(last, [&Bytes::from(": note\n"), &Bytes::from(DONE)]);
}

#[test]
fn a_stream_without_its_end_is_broken() {
    let (_, result) = play(wishes(), &whole().replace(DONE, ""));
    assert_eq!(result.unwrap_err().class(), Class::StreamInterrupted);
    let (_, result) = play(wishes(), &chunk("{\"content\":\"a\"}", "null"));
    assert_eq!(result.unwrap_err().class(), Class::StreamInterrupted);
    let (_, result) = play(wishes(), &(chunk("{\"content\":\"a\"}", "null") + DONE));
    assert_eq!(result.unwrap_err().class(), Class::StreamInterrupted);
}

#[test]
fn a_cut_call_is_told_as_length_when_the_limit_explains_it() {
    let stream = call(0, "a", "{\"pa") + &chunk("{}", "\"tool_calls\"") + &usage(10) + DONE;
    let limit = Wishes {
        output_limit: Some(10),
        ..wishes()
    };
    let (text, result) = play(limit, &stream);
    assert!(result.is_ok());
    assert!(text.contains("\"finish_reason\":\"length\"") && !text.contains("\"tool_calls\"}"));
}

#[test]
fn a_cut_call_that_nothing_explains_never_ends_well() {
    let stream = call(0, "a", "{\"pa") + &chunk("{}", "\"tool_calls\"") + DONE;
    let (text, result) = play(wishes(), &stream);
    assert_eq!(result.unwrap_err().class(), Class::StreamInterrupted);
    assert!(!text.contains("\"finish_reason\":\"tool_calls\"") && !text.contains("[DONE]"));
}

#[test]
fn two_calls_under_one_index_come_apart() {
    let stream = call(0, "a", "{\"x\":1}")
        + &call(0, "b", "{\"x\":2}")
        + &chunk("{}", "\"tool_calls\"")
        + DONE;
    let (text, result) = play(wishes(), &stream);
    assert!(result.is_ok());
    let expected = call(0, "a", "{\"x\":1}")
        + &call(1, "b", "{\"x\":2}")
        + &chunk("{}", "\"tool_calls\"")
        + DONE;
    assert_eq!(text, expected);
}

#[test]
fn a_call_without_arguments_gets_the_empty_object_before_its_end() {
    let stream = call(0, "a", "") + &chunk("{}", "\"tool_calls\"") + DONE;
    let (text, result) = play(wishes(), &stream);
    assert!(result.is_ok());
    let added = text.find("\"arguments\":\"{}\"").unwrap();
    assert!(added < text.find("\"finish_reason\":\"tool_calls\"").unwrap());
}

#[test]
fn with_commit_tool_calls_no_half_call_is_seen() {
    let rule = Wishes {
        commit: Commit::ToolCalls,
        ..wishes()
    };
    let text_first = chunk("{\"content\":\"a\"}", "null");
    let begun = text_first.clone() + &call(0, "a", "{\"x\"");
    let (text, result) = play(rule, &begun);
    assert!(result.is_err());
    assert_eq!(text, text_first);
    let stream = begun + &call(0, "", ":1}") + &chunk("{}", "\"tool_calls\"") + DONE;
    let (text, result) = play(rule, &stream);
    assert!(result.is_ok());
    assert_eq!(text, stream);
}

#[test]
fn an_error_event_is_the_vendors_failure() {
    let stream = chunk("{\"content\":\"a\"}", "null")
        + "data: {\"error\":{\"message\":\"overloaded\",\"code\":\"server_is_overloaded\"}}\n\n";
    let (_, result) = play(wishes(), &stream);
    let fault = result.unwrap_err();
    assert_eq!(fault.class(), Class::Overloaded);
    let event = fault.chat_event(RequestId([0; 16]), &[]);
    assert!(event.starts_with(b"data: {\"error\":{") && event.ends_with(b"}\n\n"));
}

#[test]
fn a_last_event_without_its_blank_line_counts_and_a_fragment_does_not() {
    let stream = whole().replace("data: [DONE]\n\n", "data: [DONE]");
    let (text, result) = play(wishes(), &stream);
    assert!(result.is_ok());
    assert_eq!(text, whole());
    let stream = whole().replace(DONE, "data: {\"id\":");
    assert!(play(wishes(), &stream).1.is_err());
}

#[test]
fn nothing_but_an_empty_beginning_commits_nothing() {
    let mut passing = passing(wishes());
    let mut out = VecDeque::new();
    let start = chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null");
    passing.push(Bytes::from(start), NOW, &mut out).unwrap();
    assert!(!passing.is_committed() && passing.has_begun());
    passing
        .push(
            Bytes::from(chunk("{\"content\":\"a\"}", "null")),
            NOW,
            &mut out,
        )
        .unwrap();
    assert!(passing.is_committed());
    assert!(
        String::from_utf8(passing.keepalive().to_vec())
            .unwrap()
            .contains("\"delta\":{}")
    );
}

/// What the client has got before the vendor's connection breaks.
fn shown(wishes: Wishes, stream: &str) -> (String, Passing) {
    let mut passing = passing(wishes);
    let mut out = VecDeque::new();
    let bytes = Bytes::copy_from_slice(stream.as_bytes());
    passing.push(bytes, NOW, &mut out).unwrap();
    let text = out
        .iter()
        .map(|b| String::from_utf8(b.to_vec()).unwrap())
        .collect();
    (text, passing)
}

#[test]
fn a_stream_that_breaks_behind_its_finish_has_not_looked_finished() {
    let content = chunk("{\"content\":\"all of it\"}", "null");
    let finish = chunk("{}", "\"stop\"");
    let asked = Wishes {
        usage: UsageEvent::Pass,
        ..wishes()
    };
    let (text, passing) = shown(asked, &[&*content, &finish, &usage(3)].concat());
    assert_eq!(text, content);
    assert!(passing.is_committed() && !passing.is_done());
    let whole = [&*content, &finish, &usage(3), DONE].concat();
    assert_eq!(play(asked, &whole).0, whole);
}

#[test]
fn an_empty_answer_that_breaks_behind_its_finish_can_still_be_retried() {
    let (text, passing) = shown(wishes(), &chunk("{}", "\"stop\""));
    assert_eq!(text, "");
    assert!(!passing.is_committed());
}

#[test]
fn a_finish_with_every_event_holds_back_one_event_at_most() {
    let event = |word: &str| chunk(&format!("{{\"content\":\"{word}\"}}"), "\"stop\"");
    let (text, _) = shown(wishes(), &[event("a"), event("b"), event("c")].concat());
    assert_eq!(text, [event("a"), event("b")].concat());
}

#[test]
fn another_choice_goes_on_behind_the_finish_of_the_first() {
    let second = chunk("{\"content\":\"b\"}", "null").replace("\"index\":0", "\"index\":1");
    let stream = [
        chunk("{\"content\":\"a\"}", "null"),
        chunk("{}", "\"stop\""),
        second,
    ]
    .concat();
    assert_eq!(shown(wishes(), &stream).0, stream);
}

#[test]
fn a_vendor_that_never_ends_behind_its_finish_is_not_listened_to_for_ever() {
    let mut passing = passing(wishes());
    let mut out = VecDeque::new();
    let mut push =
        |text: &str| passing.push(Bytes::copy_from_slice(text.as_bytes()), NOW, &mut out);
    push(&chunk("{\"content\":\"a\"}", "\"stop\"")).unwrap();
    let noise = format!(
        "data: {{\"choices\":[],\"x\":\"{}\"}}\n\n",
        "x".repeat(4096)
    );
    let fault = (0..1_000).find_map(|_| push(&noise).err());
    assert_eq!(fault.unwrap().class(), Class::MalformedResponse);
}
