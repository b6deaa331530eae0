//! What an error in OpenAI's dialect means, at any of the vendors that speak it.
//!
//! Codes first, statuses second, messages last: a vendor's code is its promise, a status is shared by
//! opposite cases (429 is a full minute at one vendor and an empty account at another), and messages
//! change. A message decides only where a code and a status cannot.
//!
//! Sources: the vendors' error pages and SDKs as read on 2026-11-30; each table names its own.

use http::{HeaderMap, StatusCode};
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;

use super::dialects::{Dialect, ErrorCodes};
use crate::failure::{ErrorBody, Failure};
use crate::wait::wait_hint;

/// The meaning of an answer with an error status, or of one with status 200 that carries an error.
pub fn classify(
    dialect: &Dialect,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: UnixTime,
) -> Failure {
    let error = ErrorBody::parse(body);
    let wait = wait_hint(headers, body, now);
    // A status of success says nothing; the body may name a better one.
    let effective = if status.is_success() {
        error.status
    } else {
        Some(status.as_u16())
    };
    let class = class(dialect.errors, effective, &error, wait.is_some());
    error.into_failure(class, Some(status.as_u16()), wait)
}

/// The meaning of an error that came as an event of a stream: the data of that event.
pub fn classify_event(dialect: &Dialect, data: &[u8], now: UnixTime) -> Failure {
    let error = ErrorBody::parse(data);
    let wait = wait_hint(&HeaderMap::new(), data, now);
    let class = class(dialect.errors, error.status, &error, wait.is_some());
    error.into_failure(class, None, wait)
}

fn class(codes: ErrorCodes, status: Option<u16>, error: &ErrorBody, hinted: bool) -> Class {
    let message = error
        .message
        .as_deref()
        .unwrap_or_default()
        .to_ascii_lowercase();
    if let Some(class) = by_vendor(codes, error, &message) {
        return class;
    }
    let words = error.details.iter().chain(&error.code).chain(&error.kind);
    for word in words {
        if let Some(class) = by_code(word) {
            return refine(class, status, &message);
        }
    }
    // An error inside a 200 that names no status is the vendor's failure.
    by_status(status.unwrap_or(500), error, &message, hinted)
}

/// Codes whose meaning only one vendor gives them.
fn by_vendor(codes: ErrorCodes, error: &ErrorBody, message: &str) -> Option<Class> {
    let code = error.code.as_deref()?;
    match codes {
        ErrorCodes::OpenAi => None,
        // help.aliyun.com, Model Studio error codes: the limit is per minute unless the free quota is
        // used up, which comes under the same code.
        ErrorCodes::Qwen => match code {
            "insufficient_quota" | "Throttling.AllocationQuota" if message.contains("free") => {
                Some(Class::QuotaExhausted)
            }
            "insufficient_quota" | "Throttling.AllocationQuota" => Some(Class::RateLimited),
            "InvalidParameter" | "invalid_parameter_error" if is_overflow(message) => {
                Some(Class::ContextOverflow)
            }
            _ => None,
        },
        // docs.z.ai/api-reference/api-code: HTTP 429 covers both kinds, so only these numbers tell.
        ErrorCodes::Zhipu => match code {
            "1000" | "1001" | "1002" | "1003" | "1004" | "1220" => Some(Class::VendorAuth),
            "1110" | "1111" | "1112" | "1113" | "1121" | "1304" | "1308" | "1309" | "1310"
            | "1313" => Some(Class::QuotaExhausted),
            "1210" | "1213" | "1214" | "1215" => Some(Class::InvalidRequest),
            "1211" | "1311" => Some(Class::ModelUnavailable),
            "1261" => Some(Class::ContextOverflow),
            "1301" => Some(Class::ContentPolicy),
            "1302" | "1303" | "1305" => Some(Class::RateLimited),
            "1312" => Some(Class::Overloaded),
            "500" | "1230" | "1234" => Some(Class::ServerError),
            _ => None,
        },
    }
}

/// Codes and types that mean one thing wherever they occur.
fn by_code(word: &str) -> Option<Class> {
    CODES
        .iter()
        .find(|(_, words)| words.contains(&word))
        .map(|(class, _)| *class)
}

const CODES: &[(Class, &[&str])] = &[
    // OpenAI, and those who copied it (developers.openai.com, error codes).
    (Class::ContextOverflow, &["context_length_exceeded"]),
    // llama.cpp server; Anthropic; Cohere.
    (
        Class::ContextOverflow,
        &[
            "exceed_context_size_error",
            "request_too_large",
            "TOO_MANY_TOKENS",
        ],
    ),
    // OpenAI (also types/responses/response_error.py of openai 3.57.0), Azure, DashScope, Kimi.
    (
        Class::ContentPolicy,
        &[
            "content_policy_violation",
            "content_filter",
            "ResponsibleAIPolicyViolation",
            "invalid_prompt",
            "cyber_policy",
            "bio_policy",
            "misalignment_policy_violation",
            "image_content_policy_violation",
            "moderation_blocked",
            "policy_blocked",
            "DataInspectionFailed",
            "data_inspection_failed",
        ],
    ),
    // OpenAI, Perplexity; Anthropic; Kimi; DashScope; Google.
    (
        Class::VendorAuth,
        &[
            "invalid_api_key",
            "account_deactivated",
            "unsupported_country_region_territory",
            "authentication_error",
            "permission_error",
            "invalid_authentication_error",
            "incorrect_api_key_error",
            "permission_denied_error",
            "InvalidApiKey",
            "AccessDenied",
            "access_denied",
            "API_KEY_INVALID",
            "UNAUTHENTICATED",
            "PERMISSION_DENIED",
        ],
    ),
    // OpenAI, Azure, Groq, Kimi, DashScope, Anthropic, vLLM, Google.
    (
        Class::ModelUnavailable,
        &[
            "model_not_found",
            "DeploymentNotFound",
            "model_decommissioned",
            "model_not_available",
            "resource_not_found_error",
            "ModelNotFound",
            "not_found_error",
            "NotFoundError",
            "NOT_FOUND",
        ],
    ),
    // OpenAI; Codex backend; Anthropic; Kimi; DashScope; OpenRouter.
    (
        Class::QuotaExhausted,
        &[
            "insufficient_quota",
            "credit_balance_exhausted",
            "organization_spend_limit_exceeded",
            "project_spend_limit_exceeded",
            "organization_usage_limit_exceeded",
            "billing_hard_limit_reached",
            "billing_not_active",
            "usage_limit_reached",
            "usage_not_included",
            "billing_error",
            "credits_required",
            "enforced_spend_limit_reached",
            "contract_spend_limit_reached",
            "exceeded_current_quota_error",
            "Arrearage",
            "payment_required",
            "weight_exceeds_budget",
        ],
    ),
    // OpenAI; Anthropic; Kimi; Mistral (1300); DashScope; Cerebras; OpenRouter; Google.
    (
        Class::RateLimited,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "ramp_limit_exceeded",
            "rate_limit_reached_error",
            "rate_limited",
            "1300",
            "Throttling",
            "Throttling.RateQuota",
            "Throttling.BurstRate",
            "Throttling.AllocationQuota",
            "limit_requests",
            "limit_burst_rate",
            "request_quota_exceeded",
            "token_quota_exceeded",
            "too_many_requests_error",
            "openrouter_in_flight_budget",
            "in_flight_budget_exhausted",
            "RESOURCE_EXHAUSTED",
            "slow_down",
        ],
    ),
    // OpenAI; Anthropic; Kimi; Groq; Mistral (3505); Cerebras; DashScope; llama.cpp; Google.
    (
        Class::Overloaded,
        &[
            "server_is_overloaded",
            "service_unavailable_error",
            "overloaded_error",
            "engine_overloaded_error",
            "capacity_exceeded",
            "service_tier_capacity_exceeded",
            "3505",
            "queue_exceeded",
            "ModelUnavailable",
            "ServiceUnavailable",
            "unavailable_error",
            "UNAVAILABLE",
        ],
    ),
    // OpenAI; Anthropic; DashScope; vLLM; Google.
    (
        Class::ServerError,
        &[
            "server_error",
            "internal_server_error",
            "internal_error",
            "InternalError",
            "InternalServerError",
            "INTERNAL",
            "vector_store_timeout",
        ],
    ),
    (Class::Timeout, &["timeout_error", "DEADLINE_EXCEEDED"]),
    // console.groq.com/docs/errors: the model, not the client, wrote what is wrong.
    (
        Class::MalformedResponse,
        &[
            "tool_use_failed",
            "json_validate_failed",
            "output_parse_failed",
        ],
    ),
    (
        Class::InvalidRequest,
        &[
            "unsupported_parameter",
            "unsupported_value",
            "unknown_parameter",
            "invalid_value",
            "invalid_type",
            "missing_required_parameter",
            "invalid_function_parameters",
            "invalid_json_schema",
            "invalid_image_url",
            "invalid_encrypted_content",
            "string_above_max_length",
            "previous_response_not_found",
            "data_residency_mismatch",
            "conflict_error",
        ],
    ),
];

/// The few codes whose meaning still depends on something else.
fn refine(class: Class, status: Option<u16>, message: &str) -> Class {
    // `server_error` is a type that comes with every 5xx; which of them says more.
    if class == Class::ServerError {
        return match status {
            Some(503 | 529) => Class::Overloaded,
            Some(504) => Class::Timeout,
            _ => class,
        };
    }
    if class != Class::RateLimited {
        return class;
    }
    // One request larger than the whole limit never succeeds, however long one waits.
    if message.starts_with("request too large") {
        return Class::ContextOverflow;
    }
    match status {
        // Google answers 402 when prepaid credit is gone.
        Some(402) if !message.contains("in flight") => Class::QuotaExhausted,
        // OpenAI's `slow_down` and Anthropic's `rate_limit_error` as capacity.
        Some(503 | 529) => Class::Overloaded,
        _ => class,
    }
}

fn by_status(status: u16, error: &ErrorBody, message: &str, hinted: bool) -> Class {
    match status {
        400 | 413 | 422 if is_overflow(message) => Class::ContextOverflow,
        400 | 422 => {
            if is_policy(message) || error.moderated {
                Class::ContentPolicy
            } else if is_about_our_key(message) {
                Class::VendorAuth // xAI answers a wrong key with 400
            } else if is_about_money(message) {
                Class::QuotaExhausted // DashScope's arrears come as 400 (unconfirmed)
            } else if is_about_the_model(message) {
                Class::ModelUnavailable
            } else {
                Class::InvalidRequest
            }
        }
        401 => Class::VendorAuth,
        // openrouter.ai/docs, errors: 402 with Retry-After is a budget that frees itself.
        402 if hinted => Class::RateLimited,
        402 => Class::QuotaExhausted,
        403 => {
            if error.moderated || is_policy(message) {
                Class::ContentPolicy
            } else if is_overflow(message) || is_together_overflow(message) {
                Class::ContextOverflow
            } else if is_about_money(message) || message.contains("usage limit") {
                Class::QuotaExhausted // Kimi
            } else {
                Class::VendorAuth
            }
        }
        404 | 410 => Class::ModelUnavailable,
        408 | 504 | 522 | 524 => Class::Timeout,
        // The SDKs of OpenAI and Anthropic retry a conflict: a lock was held too long.
        409 | 500 | 502 | 520 | 521 | 523 | 525..=527 => {
            if is_overflow(message) || message.contains("too large to process") {
                Class::ContextOverflow // llama.cpp
            } else if message.contains("overloaded") {
                Class::Overloaded
            } else {
                Class::ServerError
            }
        }
        // Fireworks: the account is suspended or over its spend limit (unconfirmed).
        412 if is_about_money(message) || message.contains("suspended") => Class::QuotaExhausted,
        413 => Class::ContextOverflow,
        429 => {
            if is_about_money(message) {
                Class::QuotaExhausted
            } else if message.starts_with("request too large") {
                Class::ContextOverflow
            } else if message.contains("overloaded") {
                Class::Overloaded
            } else {
                Class::RateLimited
            }
        }
        451 => Class::ContentPolicy,
        405 | 406 | 411 | 412 | 415 | 416 | 501 => Class::InvalidRequest,
        498 | 503 | 529 => Class::Overloaded, // 498: Groq's flex tier
        505..=599 => Class::ServerError,
        _ => Class::Other,
    }
}

/// Substrings that mean a prompt is too long, from litellm 1.110.2 (`exception_mapping_utils.py`),
/// the vendors' pages and recorded answers. Never searched in a whole body: vendors echo prompts.
fn is_overflow(message: &str) -> bool {
    const WHOLE: [&str; 19] = [
        "maximum context length is",
        "context_length_exceeded",
        "context window",
        "prompt is too long",
        "input length and `max_tokens` exceed context limit",
        "exceed context limit",
        "input is too long",
        "input token length too long",
        "exceeded model token limit",
        "exceeds the maximum number of tokens allowed",
        "exceeds the available context size",
        "is longer than the model's context length",
        "model's context length is only",
        "model's maximum context limit",
        "input tokens exceed the configured limit",
        "exceeds the model's maximum context length",
        "range of input length should be",
        "too many tokens: size limit exceeded",
        "too many input tokens",
    ];
    const PAIRS: [(&str, &str); 3] = [
        ("current length is", "while limit is"),
        ("maximum input length is", "tokens"),
        ("input too long:", "input tokens, limit is"),
    ];
    WHOLE.iter().any(|text| message.contains(text))
        || PAIRS
            .iter()
            .any(|(a, b)| message.contains(a) && message.contains(b))
}

/// docs.together.ai/docs/error-codes: input and `max_tokens` over the context come as 403.
fn is_together_overflow(message: &str) -> bool {
    message.contains("max_tokens") && (message.contains("context") || message.contains("tokens"))
}

fn is_policy(message: &str) -> bool {
    const TEXTS: [&str; 8] = [
        "usage policy",
        "content policy",
        "content management policy",
        "content filter",
        "content filtering policy",
        "considered high risk",
        "safety system",
        "moderation",
    ];
    TEXTS.iter().any(|text| message.contains(text))
}

fn is_about_our_key(message: &str) -> bool {
    const TEXTS: [&str; 4] = [
        "incorrect api key",
        "invalid api key",
        "api key not valid",
        "authentication token",
    ];
    TEXTS.iter().any(|text| message.contains(text))
}

fn is_about_money(message: &str) -> bool {
    const TEXTS: [&str; 9] = [
        "insufficient balance",
        "exceeded your current quota",
        "insufficient credit",
        "credit balance",
        "out of credits",
        "billing",
        "in arrears",
        "overdue-payment",
        "spend limit",
    ];
    // Groq and Azure advertise their billing pages in messages about limits per minute.
    let advert = message.contains("settings/billing") || message.contains("pricing tier");
    !advert && TEXTS.iter().any(|text| message.contains(text))
}

fn is_about_the_model(message: &str) -> bool {
    message.contains("model")
        && [
            "does not exist",
            "not found",
            "has been deprecated",
            "decommissioned",
        ]
        .iter()
        .any(|text| message.contains(text))
}
