//! What streams in OpenAI's dialect come to, told event by event.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use bytes::Bytes;
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::Tokens;
use whippletree_providers::decoder::{Event, Finish, Kind, Missing, StreamDecoder, Verdict};
use whippletree_providers::openai::dialects::dialect;
use whippletree_providers::openai::stream::{decoder, with_finish_reason};
use whippletree_providers::provider::Api;
use whippletree_providers::sse::{Frame, Framer};

fn frames(stream: &str) -> Vec<Frame> {
    let mut framer = Framer::default();
    framer.push(Bytes::copy_from_slice(stream.as_bytes()));
    let mut frames = Vec::new();
    while let Some(frame) = framer.finish().unwrap() {
        frames.push(frame);
    }
    frames
}

fn read(kind: &str, api: Api, stream: &str) -> (Vec<Event>, Box<dyn StreamDecoder>) {
    let mut decoder = decoder(dialect(kind).unwrap(), api).unwrap();
    let events = frames(stream)
        .iter()
        .map(|frame| decoder.read(frame, UnixTime(0)))
        .collect();
    (events, decoder)
}

/// Chat chunks of OpenAI's, each given as its `choices` and what follows them.
fn chat(chunks: &[&str]) -> String {
    chunks
        .iter()
        .map(|chunk| match *chunk {
            "[DONE]" => "data: [DONE]\n\n".to_owned(),
            chunk => format!("data: {{\"id\":\"c\",\"choices\":{chunk}}}\n\n"),
        })
        .collect()
}

fn kinds(events: &[Event]) -> Vec<&Kind> {
    events.iter().map(|event| &event.kind).collect()
}

const ROLE: &str = r#"[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null"#;
const TEXT: &str = r#"[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]"#;
const STOP: &str = r#"[{"index":0,"delta":{},"finish_reason":"stop"}]"#;
const USAGE: &str = r#"[],"usage":{"prompt_tokens":9,"completion_tokens":10,"total_tokens":19}"#;

#[test]
fn a_whole_chat_stream_is_told_apart_chunk_by_chunk() {
    let reasoning = r#"[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]"#;
    let stream = chat(&[ROLE, reasoning, TEXT, STOP, USAGE, "[DONE]"]);
    let (events, decoder) = read("openai", Api::Chat, &format!(": hello\n\n{stream}"));
    assert_eq!(
        kinds(&events),
        [
            &Kind::Comment,
            &Kind::Comment,
            &Kind::Start,
            &Kind::Reasoning,
            &Kind::Content,
            &Kind::Finish,
            &Kind::Usage,
            &Kind::Done,
        ]
    );
    assert_eq!(events[5].finish, Some(Finish::Stop));
    assert_eq!(events[6].usage.unwrap().output, Tokens(10));
    assert_eq!(decoder.progress().usage, events[6].usage);
    assert_eq!(decoder.verdict(), Verdict::Complete);
}

#[test]
fn a_stream_without_its_end_is_cut() {
    let verdict = |kind: &str, chunks: &[&str]| read(kind, Api::Chat, &chat(chunks)).1.verdict();
    assert_eq!(
        verdict("openai", &[ROLE, TEXT]),
        Verdict::Cut(Missing::Finish)
    );
    assert_eq!(verdict("openai", &[]), Verdict::Cut(Missing::Finish));
    assert_eq!(
        verdict("openai", &["[DONE]"]),
        Verdict::Cut(Missing::Finish)
    );
    assert_eq!(
        verdict("openai", &[TEXT, STOP]),
        Verdict::Cut(Missing::Terminator)
    );
    // Servers of this kind need not send the marker.
    assert_eq!(
        verdict("openai-compatible", &[TEXT, STOP]),
        Verdict::Complete
    );
    assert_eq!(verdict("openai", &[ROLE, STOP, "[DONE]"]), Verdict::Empty);
    // Two choices, of which one never finished.
    let second = r#"[{"index":1,"delta":{"content":"x"}}]"#;
    assert_eq!(
        verdict("openai", &[TEXT, second, STOP, "[DONE]"]),
        Verdict::Cut(Missing::Finish)
    );
    // Cut inside an event.
    let cut = chat(&[TEXT]) + "data: {\"choices\":[{\"del";
    assert_eq!(
        read("openai", Api::Chat, &cut).1.verdict(),
        Verdict::Malformed
    );
}

/// <https://github.com/vllm-project/vllm/pull/46303> and
/// <https://github.com/earendil-works/pi/issues/8501>: a tool call that was cut, said to be whole.
#[test]
fn a_tool_call_that_is_not_whole_is_found_out() {
    let start = r#"[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"pa"}}]},"finish_reason":null}]"#;
    let end = r#"[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"x\\u00e9\"}"}}]},"finish_reason":null}]"#;
    let called = r#"[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":10}"#;
    let limit = r#"[{"index":0,"delta":{},"finish_reason":"length"}]"#;

    let (events, decoder) = read("openai", Api::Chat, &chat(&[start, called, "[DONE]"]));
    assert_eq!(
        kinds(&events),
        [&Kind::ToolCall, &Kind::Finish, &Kind::Done]
    );
    assert_eq!(decoder.verdict(), Verdict::PartialToolCall { index: 0 });
    assert_eq!(decoder.progress().usage.unwrap().output, Tokens(10));

    let (_, decoder) = read("openai", Api::Chat, &chat(&[start, end, called, "[DONE]"]));
    assert_eq!(decoder.verdict(), Verdict::Complete);
    let call = &decoder.progress().tool_calls[0];
    assert_eq!(call.id.as_deref(), Some("call_1"));
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str()),
        ("read_file", "{\"path\":\"x\\u00e9\"}")
    );

    let (_, decoder) = read("openai", Api::Chat, &chat(&[start, limit, "[DONE]"]));
    assert_eq!(decoder.verdict(), Verdict::Complete);
}

#[test]
fn a_finish_reason_is_replaced_where_it_stands() {
    let stream = "event: x\r\ndata:  {\"choices\":[{\"finish_reason\" : \"tool_calls\"},{\"finish_reason\":null}],\"a\":1.0}\r\n\r\n";
    let frame = &frames(stream)[0];
    assert_eq!(
        with_finish_reason(frame, "length").unwrap(),
        stream.replace("tool_calls", "length")
    );
    assert_eq!(
        with_finish_reason(&frames(&chat(&[TEXT]))[0], "length"),
        None
    );
}

#[test]
fn tool_calls_without_an_index_are_told_apart_by_id() {
    let part = |id: &str, arguments: &str| {
        format!(
            r#"[{{"index":0,"delta":{{"tool_calls":[{{{id}"function":{{"name":"f","arguments":{arguments}}}}}]}}}}]"#
        )
    };
    let chunks = [
        part(r#""id":"a","#, r#""{}""#),
        part(r#""id":"b","#, r#""{\"x\":""#),
        part("", r#""1}""#),
        part(r#""id":"c","#, r#"{"an":"object"}"#),
    ];
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let (_, decoder) = read("openai", Api::Chat, &chat(&chunks));
    let calls: Vec<_> = decoder
        .progress()
        .tool_calls
        .iter()
        .map(|call| (call.id.as_deref().unwrap(), call.arguments.as_str()))
        .collect();
    assert_eq!(
        calls,
        [
            ("a", "{}"),
            ("b", "{\"x\":1}"),
            ("c", "{\"an\":\"object\"}")
        ]
    );
}

#[test]
fn usage_is_found_wherever_a_vendor_puts_it() {
    let usage = |prompt: u64| {
        format!(
            r#"{{"prompt_tokens":{prompt},"completion_tokens":2,"total_tokens":{}}}"#,
            prompt + 2
        )
    };
    let stop = |rest: &str| {
        format!(
            r#"data: {{"choices":[{{"index":0,"delta":{{"content":"x"}},"finish_reason":"stop"{rest}}}"#
        )
    };
    for (kind, stream) in [
        (
            "moonshot",
            format!(
                "{},\"usage\":{}}}]}}\n\n",
                stop("").trim_end_matches('}'),
                usage(7)
            ),
        ),
        (
            "groq",
            format!("{}],\"x_groq\":{{\"usage\":{}}}}}\n\n", stop(""), usage(7)),
        ),
        (
            "deepseek",
            format!("{}],\"usage\":{}}}\n\n", stop(""), usage(7)),
        ),
        (
            "together",
            format!("{}]}}\n\ndata: {{\"usage\":{}}}\n\n", stop(""), usage(7)),
        ),
        // Cumulative: the last report counts; an empty one takes nothing back.
        (
            "xai",
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}}}}],\"usage\":{}}}\n\n{}],\"usage\":{}}}\n\ndata: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":0,\"completion_tokens\":0}}}}\n\n",
                usage(3),
                stop(""),
                usage(7)
            ),
        ),
    ] {
        let (_, decoder) = read(kind, Api::Chat, &stream);
        assert_eq!(
            decoder.progress().usage.unwrap().input,
            Tokens(7),
            "{stream}"
        );
        assert_eq!(decoder.progress().finish, Some(Finish::Stop), "{stream}");
    }
}

#[test]
fn errors_inside_a_stream_are_found_in_every_shape() {
    for (data, class) in [
        (
            r#"{"error":{"message":"m","code":"server_error"}}"#,
            Class::ServerError,
        ),
        (
            r#"{"id":"g","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"slow"}}"#,
            Class::RateLimited,
        ),
        (
            r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
            Class::InvalidRequest,
        ),
        (
            r#"{"choices":[{"index":0,"error":{"code":502,"message":"m"}}]}"#,
            Class::ServerError,
        ),
    ] {
        let stream = chat(&[TEXT]) + &format!("data: {data}\n\n");
        let (events, decoder) = read("openai", Api::Chat, &stream);
        let Kind::Failed(failure) = &events[1].kind else {
            panic!("{:?}", events[1]);
        };
        assert_eq!(failure.class, class, "{data}");
        assert_eq!(decoder.verdict(), Verdict::Failed(failure.clone()));
    }
    let fine = r#"data: {"error":null,"choices":[{"index":0,"delta":{"content":"x"}}]}"#;
    assert_eq!(kinds(&read("openai", Api::Chat, fine).0), [&Kind::Content]);
}

fn responses(events: &[(&str, &str)]) -> String {
    let event = |(name, rest): &(&str, &str)| {
        format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n")
    };
    events.iter().map(event).collect::<Vec<_>>().concat()
}

#[test]
fn a_response_is_whole_when_its_last_event_came() {
    let completed = (
        "response.completed",
        r#","response":{"status":"completed","usage":{"input_tokens":5,"output_tokens":6,"input_tokens_details":{"cached_tokens":4}},"output":[]}"#,
    );
    let parts = [
        ("response.created", r#","response":{"usage":null}"#),
        (
            "response.output_item.added",
            r#","output_index":0,"item":{"type":"function_call","call_id":"call_9","name":"f","arguments":""}"#,
        ),
        (
            "response.function_call_arguments.delta",
            r#","output_index":0,"delta":"{\"a\":""#,
        ),
        (
            "response.function_call_arguments.delta",
            r#","output_index":0,"delta":"1}""#,
        ),
        (
            "response.output_text.delta",
            r#","output_index":1,"delta":"text""#,
        ),
        completed,
    ];
    let (events, decoder) = read("openai", Api::Responses, &responses(&parts));
    assert_eq!(
        kinds(&events),
        [
            &Kind::Start,
            &Kind::ToolCall,
            &Kind::ToolCall,
            &Kind::ToolCall,
            &Kind::Content,
            &Kind::Finish,
        ]
    );
    let progress = decoder.progress();
    assert_eq!(progress.finish, Some(Finish::ToolCalls));
    assert_eq!(progress.tool_calls[0].arguments, "{\"a\":1}");
    assert_eq!(progress.usage.unwrap().cache_read, Some(Tokens(4)));
    assert_eq!(decoder.verdict(), Verdict::Complete);

    let (_, cut) = read("openai", Api::Responses, &responses(&parts[..5]));
    assert_eq!(cut.verdict(), Verdict::Cut(Missing::Terminator));
    let (_, partial) = read(
        "openai",
        Api::Responses,
        &responses(&[parts[1], parts[2], completed]),
    );
    assert_eq!(partial.verdict(), Verdict::PartialToolCall { index: 0 });
    let incomplete = (
        "response.incomplete",
        r#","response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":5,"output_tokens":6}}"#,
    );
    let (_, limited) = read(
        "openai",
        Api::Responses,
        &responses(&[parts[4], incomplete]),
    );
    assert_eq!(limited.progress().finish, Some(Finish::Length));
    assert_eq!(limited.verdict(), Verdict::Complete);
    let failed = (
        "response.failed",
        r#","response":{"error":{"code":"rate_limit_exceeded","message":"Please try again in 2s."},"usage":{"input_tokens":5,"output_tokens":0}}"#,
    );
    let (events, decoder) = read("openai", Api::Responses, &responses(&[parts[0], failed]));
    assert!(matches!(&events[1].kind, Kind::Failed(f) if f.class == Class::RateLimited));
    assert_eq!(decoder.progress().usage.unwrap().input, Tokens(5));
}
