//! What whole answers in OpenAI's dialect come to.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use http::{HeaderMap, HeaderValue, StatusCode};
use std::time::Duration;

use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::Tokens;
use whippletree_providers::decoder::{Answer, Finish, Verdict};
use whippletree_providers::provider::Api;
use whippletree_providers::registry::{provider, providers};

fn answer(api: Api, body: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("3"));
    provider("openai")
        .unwrap()
        .answer(api, StatusCode::OK, &headers, body.as_bytes(), UnixTime(0))
}

fn choice(message: &str, finish: &str) -> String {
    format!(
        r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"{finish}"}}],"usage":{{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}},"service_tier":"default"}}"#
    )
}

#[test]
fn a_chat_completion_tells_its_usage_tools_and_end() {
    let body = choice(
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}"#,
        "tool_calls",
    );
    // DeepSeek sends empty lines while a request waits.
    let answer = answer(Api::Chat, &format!("\n\n{body}"));
    assert_eq!(answer.verdict, Verdict::Complete);
    assert_eq!(answer.progress.finish, Some(Finish::ToolCalls));
    assert_eq!(answer.progress.usage.unwrap().input, Tokens(3));
    assert_eq!(answer.progress.tool_calls[0].name, "f");
    assert_eq!(answer.progress.service_tier.as_deref(), Some("default"));
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let verdict = |body: &str| answer(Api::Chat, body).verdict;
    assert_eq!(verdict(""), Verdict::Malformed);
    assert_eq!(verdict("<html>"), Verdict::Malformed);
    let whole = choice(r#"{"content":"hi"}"#, "stop");
    assert_eq!(verdict(&whole), Verdict::Complete);
    assert_eq!(verdict(&whole[..whole.len() - 9]), Verdict::Malformed);
    assert_eq!(verdict("{}"), Verdict::Malformed);
    assert_eq!(
        verdict(r#"{"usage":{"prompt_tokens":1,"completion_tokens":0}}"#),
        Verdict::Malformed
    );
    assert_eq!(verdict(r#"{"choices":[]}"#), Verdict::Empty);
    assert_eq!(
        verdict(&choice(r#"{"content":""}"#, "stop")),
        Verdict::Empty
    );
    // The limit was spent on reasoning that is not shown: cut, but not empty for no reason.
    assert_eq!(
        verdict(&choice(r#"{"content":""}"#, "length")),
        Verdict::Complete
    );
    assert_eq!(
        verdict(&choice(
            r#"{"tool_calls":[{"function":{"name":"f","arguments":"{\"a"}}]}"#,
            "tool_calls"
        )),
        Verdict::PartialToolCall { index: 0 }
    );
}

#[test]
fn an_error_in_a_200_keeps_what_the_headers_say() {
    for api in [Api::Chat, Api::Responses, Api::Embeddings] {
        let body = r#"{"error":{"code":429,"message":"slow down"}}"#;
        let Verdict::Failed(failure) = answer(api, body).verdict else {
            panic!("{api}");
        };
        assert_eq!(failure.class, Class::RateLimited);
        assert_eq!(failure.wait, Some(Duration::from_secs(3)));
    }
}

#[test]
fn a_response_says_how_it_ended() {
    let response = |status: &str, rest: &str| {
        answer(
            Api::Responses,
            &format!(r#"{{"object":"response","error":null,"status":"{status}",{rest}}}"#),
        )
    };
    let text = r#""output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]"#;
    let complete = response("completed", text);
    assert_eq!(complete.progress.finish, Some(Finish::Stop));
    assert_eq!(complete.verdict, Verdict::Complete);
    let limited = response(
        "incomplete",
        r#""output":[],"incomplete_details":{"reason":"max_output_tokens"}"#,
    );
    assert_eq!(limited.progress.finish, Some(Finish::Length));
    let background = response("queued", r#""output":[]"#);
    assert_eq!(
        (background.progress.finish, background.verdict),
        (None, Verdict::Complete)
    );
    assert_eq!(
        response("completed", r#""output":[]"#).verdict,
        Verdict::Empty
    );
    let failed = r#"{"status":"failed","output":[],"error":{"code":"server_error","message":"m"},"usage":{"input_tokens":8,"output_tokens":0}}"#;
    let failed = answer(Api::Responses, failed);
    assert!(matches!(&failed.verdict, Verdict::Failed(f) if f.class == Class::ServerError));
    assert_eq!(failed.progress.usage.unwrap().input, Tokens(8));
}

#[test]
fn embeddings_have_usage_and_no_finish() {
    let answer = answer(
        Api::Embeddings,
        r#"{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#,
    );
    assert_eq!(answer.verdict, Verdict::Complete);
    assert_eq!(answer.progress.usage.unwrap().input, Tokens(7));
}

#[test]
fn every_provider_has_what_the_registry_promises() {
    for provider in providers() {
        assert!(!provider.apis().is_empty());
        for api in provider.apis() {
            assert_eq!(
                provider.stream_decoder(*api).is_some(),
                !matches!(api, Api::CountTokens | Api::Embeddings)
            );
            let base = provider.base_url().unwrap_or("https://host.example");
            assert!(!base.ends_with('/'));
            let url = provider.url(base, *api, "m");
            assert!(url.starts_with(base) && url.contains(api.path()), "{url}");
        }
    }
}
