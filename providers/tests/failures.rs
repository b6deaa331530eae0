//! What each vendor's errors mean. Bodies are written after section B of the vendor facts.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;
use whippletree_providers::failure::{Failure, Overflow};
use whippletree_providers::openai::dialects::dialect;
use whippletree_providers::openai::failure::{classify, classify_event};

/// Vendor, status, class, body.
#[rustfmt::skip]
const CASES: &[(&str, u16, &str, &str)] = &[
    ("openai", 429, "rate_limited", r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached"}}"#),
    ("openai", 429, "context_overflow", r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Request too large for gpt-4o"}}"#),
    ("openai", 429, "quota_exhausted", r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota"}}"#),
    ("openai", 429, "quota_exhausted", r#"{"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded","message":""}}"#),
    ("openai", 503, "overloaded", r#"{"error":{"type":"service_unavailable_error","code":"slow_down"}}"#),
    ("openai", 503, "overloaded", r#"{"error":{"message":"The engine is currently overloaded","type":"server_error","code":null}}"#),
    ("openai", 504, "timeout", r#"{"error":{"message":"upstream","type":"server_error","code":null}}"#),
    ("openai", 400, "invalid_request", r#"{"error":{"type":"invalid_request_error","code":"string_above_max_length","message":"string too long. maximum context length is"}}"#),
    ("qwen", 429, "rate_limited", r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}"#),
    ("qwen", 403, "quota_exhausted", r#"{"error":{"code":"insufficient_quota","message":"The free tier of the model has been exhausted"}}"#),
    ("qwen", 400, "context_overflow", r#"{"code":"InvalidParameter","message":"Range of input length should be [1, 30720]"}"#),
    ("zhipu", 429, "rate_limited", r#"{"error":{"code":"1302","message":"concurrency"}}"#),
    ("zhipu", 429, "quota_exhausted", r#"{"error":{"code":"1113","message":"in arrears"}}"#),
    ("zhipu", 400, "context_overflow", r#"{"error":{"code":"1261","message":"Prompt too long"}}"#),
    ("moonshot", 429, "overloaded", r#"{"error":{"type":"engine_overloaded_error","message":"busy"}}"#),
    ("moonshot", 400, "context_overflow", r#"{"error":{"type":"invalid_request_error","message":"Your request exceeded model token limit: 262144 (requested: 269030)"}}"#),
    ("moonshot", 400, "content_policy", r#"{"error":{"type":"content_filter","message":"considered high risk"}}"#),
    ("mistral", 429, "rate_limited", r#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","code":"1300"}"#),
    ("mistral", 429, "overloaded", r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}"#),
    ("mistral", 422, "invalid_request", r#"{"detail":[{"type":"extra_forbidden","msg":"Extra inputs are not permitted"}]}"#),
    ("groq", 498, "overloaded", r#"{"error":{"message":"flex","type":"x","code":"capacity_exceeded"}}"#),
    ("groq", 413, "context_overflow", r#"{"error":{"message":"Request too large","type":"tokens","code":"rate_limit_exceeded"}}"#),
    ("openrouter", 402, "quota_exhausted", r#"{"error":{"code":402,"message":"Insufficient credits"}}"#),
    ("openrouter", 402, "rate_limited", r#"{"error":{"code":402,"message":"in flight","metadata":{"limit_source":"openrouter_in_flight_budget"}}}"#),
    ("openrouter", 403, "content_policy", r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["x"],"flagged_input":"y"}}}"#),
    ("openrouter", 200, "server_error", r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"boom"}}}"#),
    ("together", 403, "context_overflow", r#"{"error":{"message":"Input plus max_tokens must not pass the context length","type":"invalid_request_error"}}"#),
    ("cerebras", 429, "rate_limited", r#"{"message":"Tokens per minute limit exceeded","type":"too_many_requests_error","code":"token_quota_exceeded"}"#),
    ("cerebras", 400, "context_overflow", r#"{"message":"Please reduce the length. Current length is 9000 while limit is 8192","type":"invalid_request_error","code":"x"}"#),
    ("xai", 400, "vendor_auth", r#"{"code":"invalid-argument","error":"Incorrect API key provided. You can obtain one"}"#),
    ("deepseek", 402, "quota_exhausted", r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#),
    ("vllm", 400, "context_overflow", r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}}"#),
    ("llama.cpp", 400, "context_overflow", r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"request (9412 tokens) exceeds the available context size (8192 tokens)"}}"#),
    ("llama.cpp", 503, "overloaded", r#"{"error":{"code":503,"type":"unavailable_error","message":"Loading model"}}"#),
    ("ollama", 404, "model_unavailable", r#"{"error":"model \"x\" not found, try pulling it first"}"#),
    ("azure", 400, "content_policy", r#"{"error":{"code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"},"message":"filtered"}}"#),
    ("gemini-openai", 429, "rate_limited", r#"[{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3s"}]}}]"#),
    ("gemini-openai", 402, "quota_exhausted", r#"[{"error":{"code":402,"message":"Credit","status":"RESOURCE_EXHAUSTED"}}]"#),
    ("gemini-openai", 400, "vendor_auth", r#"[{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#),
    ("openai-compatible", 502, "server_error", "<html>Bad gateway</html>"),
    ("openai-compatible", 418, "other", "{}"),
    ("openai-compatible", 504, "timeout", ""),
    ("openai-compatible", 200, "server_error", r#"{"error":"something"}"#),
    ("openai-compatible", 200, "overloaded", r#"{"error":{"message":"The engine is overloaded"}}"#),
];

fn classified(kind: &str, status: u16, body: &str) -> Failure {
    classify(
        dialect(kind).unwrap(),
        StatusCode::from_u16(status).unwrap(),
        &HeaderMap::new(),
        body.as_bytes(),
        UnixTime(0),
    )
}

#[test]
fn the_same_status_means_different_things_at_different_vendors() {
    for (kind, status, class, body) in CASES {
        let failure = classified(kind, *status, body);
        assert_eq!(failure.class.as_str(), *class, "{kind} {status} {body}");
        assert_eq!(failure.status, Some(*status));
    }
}

#[test]
fn the_sizes_of_a_prompt_that_is_too_long_are_read() {
    let sizes: Vec<Overflow> = CASES
        .iter()
        .filter_map(|(kind, status, _, body)| classified(kind, *status, body).overflow)
        .collect();
    let told = |requested, limit| Overflow {
        requested,
        limit: Some(limit),
    };
    assert_eq!(
        sizes,
        [
            told(None, 30_720),
            told(Some(269_030), 262_144),
            told(Some(9_000), 8_192),
            told(Some(5_000), 4_096),
            told(Some(9_412), 8_192),
        ]
    );
}

#[test]
fn an_event_says_what_a_status_would() {
    let event =
        |data: &str| classify_event(dialect("openai").unwrap(), data.as_bytes(), UnixTime(0));
    let failed = event(
        r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Please try again in 1.5s."}}}"#,
    );
    assert_eq!(failed.class, Class::RateLimited);
    assert_eq!(failed.wait, Some(Duration::from_millis(1_500)));
    let error = event(r#"{"type":"error","code":"server_error","message":"x"}"#);
    assert_eq!((error.class, error.kind), (Class::ServerError, None));
    let tool = event(
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"tool_use_failed","status_code":400}}"#,
    );
    assert_eq!(
        (tool.class, tool.status),
        (Class::MalformedResponse, Some(400))
    );
    let busy = event(r#"{"error":{"message":"m","code":503}}"#);
    assert_eq!(busy.class, Class::Overloaded);
}

#[test]
fn a_vendors_message_is_passed_on_without_the_key_in_it() {
    let body = r#"{"error":{"message":"Incorrect API key provided: my-key. You can find","code":"invalid_api_key"}}"#;
    let failure = classified("openai", 401, body);
    assert_eq!(
        failure.message.as_deref(),
        Some("Incorrect API key provided: ***. You can find")
    );
}
