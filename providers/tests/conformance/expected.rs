//! What the recordings say, read in another way than the crate reads it.

use serde_json::Value;
use whippletree_policies::outcome::Class;
use whippletree_policies::units::Tokens;
use whippletree_policies::usage::Usage;

/// Usage after section D of the vendor facts, vendor by vendor, without any arithmetic on totals.
pub(crate) fn usage(vendor: &str, usage: &Value) -> Option<Usage> {
    let any = |paths: &[&str]| paths.iter().find_map(|path| usage.pointer(path)?.as_u64());
    let prompt = any(&["/prompt_tokens", "/input_tokens"]);
    let completion = any(&["/completion_tokens", "/output_tokens"]);
    let cached = any(&[
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/num_cached_tokens",
        "/cached_tokens",
    ]);
    let written = any(&[
        "/prompt_tokens_details/cache_write_tokens",
        "/input_tokens_details/cache_write_tokens",
    ]);
    let reasoning = any(&[
        "/completion_tokens_details/reasoning_tokens",
        "/output_tokens_details/reasoning_tokens",
    ]);
    let audio = |path| any(&[path]).filter(|audio| *audio > 0);
    let audio_input = audio("/prompt_tokens_details/audio_tokens");
    let total = any(&["/total_tokens"]);
    let mut input = match (prompt, completion, total) {
        (None, None, total) => total?,
        (prompt, _, _) => prompt.unwrap_or(0),
    };
    let mut output = completion.unwrap_or(0);
    let xai_chat = usage.get("num_sources_used").is_some() && usage.get("prompt_tokens").is_some();
    match vendor {
        "gemini" => output = total? - input,
        "mistral" => input += audio_input.unwrap_or(0),
        // xAI's own format, also behind Azure.
        _ if xai_chat => {
            output += reasoning.unwrap_or(0);
            if cached > prompt {
                input += cached.unwrap_or(0);
            }
        }
        _ => {}
    }
    Some(Usage {
        input: Tokens(input),
        cache_read: cached.map(Tokens),
        // A token that was read and written (OpenRouter's Gemini) counts as read.
        cache_write_5m: written.map(|written| Tokens(written.min(input - cached.unwrap_or(0)))),
        output: Tokens(output),
        reasoning: reasoning.map(Tokens),
        audio_input: audio_input.map(Tokens),
        audio_output: audio("/completion_tokens_details/audio_tokens").map(Tokens),
        ..Usage::default()
    })
}

/// The usage that an event of a stream reports.
pub(crate) fn usage_of_event(event: &Value) -> Option<&Value> {
    [
        "/usage",
        "/x_groq/usage",
        "/response/usage",
        "/choices/0/usage",
    ]
    .iter()
    .find_map(|path| event.pointer(path).filter(|usage| usage.is_object()))
}

/// Names and arguments of the tool calls of a whole answer.
pub(crate) fn tool_calls(answer: &Value) -> Vec<(String, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_choices = list(&answer["choices"]);
    let chat = of_choices.iter().flat_map(|choice| {
        let message = &choice["message"];
        let mut calls = list(&message["tool_calls"]);
        if message["function_call"].is_object() {
            calls.push(serde_json::json!({"function": message["function_call"]}));
        }
        calls
    });
    let chat = chat.map(|call| {
        let function = if call["custom"].is_object() {
            &call["custom"]
        } else {
            &call["function"]
        };
        (text(&function["name"]), text_of_arguments(function))
    });
    let items = list(&answer["output"]);
    let responses = items
        .iter()
        .filter(|item| item["type"] == "function_call" || item["type"] == "custom_tool_call")
        .map(|item| (text(&item["name"]), text_of_arguments(item)));
    chat.chain(responses).collect()
}

fn text_of_arguments(call: &Value) -> String {
    let arguments = if call["input"].is_string() {
        &call["input"]
    } else {
        &call["arguments"]
    };
    match arguments {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The same for a stream: deltas joined by index, or the items of the last event.
pub(crate) fn streamed_tool_calls(events: &[Value]) -> Vec<(String, String)> {
    if let Some(last) = events
        .iter()
        .rev()
        .find(|event| event["response"]["output"].is_array())
    {
        let whole = tool_calls(&last["response"]);
        if !whole.is_empty() {
            return whole;
        }
    }
    let items: Vec<(String, String)> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .flat_map(|event| tool_calls(&serde_json::json!({"output": [event["item"]]})))
        .collect();
    if !items.is_empty() {
        return items;
    }
    let mut calls: Vec<((u64, u64), String, String)> = Vec::new();
    for event in events {
        let choice = &event["choices"][0];
        let deltas = choice["delta"]["tool_calls"].as_array();
        for delta in deltas.into_iter().flatten() {
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let index = (number(&choice["index"]), number(&delta["index"]));
            let function = &delta["function"];
            if !calls.iter().any(|(known, ..)| *known == index) {
                calls.push((index, String::new(), String::new()));
            }
            for (known, name, arguments) in &mut calls {
                if *known == index {
                    if name.is_empty() {
                        *name = text(&function["name"]);
                    }
                    arguments.push_str(&text_of_arguments(function));
                }
            }
        }
    }
    calls
        .into_iter()
        .map(|(_, name, arguments)| (name, arguments))
        .collect()
}

/// Whether a body is an answer of the dialect at all.
pub(crate) fn is_answer(value: &Value) -> bool {
    ["choices", "output", "data"]
        .iter()
        .any(|field| value[field].is_array())
}

/// Whether a whole answer really says nothing.
pub(crate) fn is_empty(answer: &Value) -> bool {
    let nothing = |value: &Value| value.is_null() || value == "" || *value == serde_json::json!([]);
    match answer["choices"].as_array() {
        Some(choices) => choices.iter().all(|choice| {
            let message = &choice["message"];
            nothing(&message["content"])
                && nothing(&message["tool_calls"])
                && nothing(&message["reasoning_content"])
                && nothing(&message["refusal"])
                && nothing(&choice["text"])
        }),
        None => nothing(&answer["output"]),
    }
}

/// Whether a stream really says nothing.
pub(crate) fn is_empty_stream(events: &[Value]) -> bool {
    events.iter().all(|event| {
        event["delta"].is_null()
            && ["content", "tool_calls", "reasoning_content", "reasoning"]
                .iter()
                .all(|field| match &event["choices"][0]["delta"][field] {
                    Value::String(text) => text.is_empty(),
                    other => other.is_null(),
                })
    })
}

/// Whether the recording of a stream holds its end.
pub(crate) fn is_ended(body: &str) -> bool {
    body.contains("[DONE]")
        || body.contains("response.completed")
        || body.contains("response.incomplete")
}

/// What a recorded failure means and how long it asks to wait, in milliseconds.
pub(crate) fn failure(id: &str) -> Option<(Class, Option<u64>)> {
    FAILURES
        .iter()
        .find(|(known, ..)| *known == id)
        .map(|(_, class, wait_ms)| (*class, *wait_ms))
}

/// Judged by hand from each recorded body.
#[rustfmt::skip]
pub(crate) const FAILURES: &[(&str, Class, Option<u64>)] = &[
    ("a0b5fe6371fffd51", Class::ModelUnavailable, None),
    ("5fa27191fd042fd2", Class::VendorAuth, None),
    ("52d0ad8e7ef012b9", Class::RateLimited, Some(86_400_000)),
    ("66f7cea215fdf9ae", Class::RateLimited, Some(45_000)),
    ("bc034992c5bee12e", Class::RateLimited, None),
    ("080ee3bef504a767", Class::RateLimited, None),
    ("f1dec5afa5b9b334", Class::ModelUnavailable, None),
    ("6941814e12236cae", Class::VendorAuth, None),
    ("9328e39ad259cacf", Class::ContextOverflow, None),
    ("0d27c6445ee119a4", Class::QuotaExhausted, None),
    ("86fb30a2f00b865a", Class::InvalidRequest, None),
    ("9bd7168422e11143", Class::RateLimited, Some(578_016)),
    ("cda89e9128aa41d1", Class::ModelUnavailable, None),
    ("8a590ef2ccc1d835", Class::ModelUnavailable, None),
    ("8fac5c819b65f5fa", Class::MalformedResponse, None),
    ("826e90bdb46459dd", Class::MalformedResponse, None),
    ("3c55bcf3d1ec071c", Class::MalformedResponse, None),
    ("8c22a2a5c78c2732", Class::RateLimited, None),
    ("ec3bf396e97987e9", Class::VendorAuth, None),
    ("783aba147fad8992", Class::VendorAuth, None),
    ("aa3907ca44b2ab92", Class::VendorAuth, None),
    ("87346386e7b9968b", Class::ContextOverflow, None),
    ("893abe75f539fa4f", Class::VendorAuth, None),
    ("b47123f6a5a9f695", Class::InvalidRequest, None),
    ("13f36b9148072dcb", Class::InvalidRequest, None),
    ("6756c4a9dbea621e", Class::VendorAuth, None),
    ("5057a794426c0d08", Class::VendorAuth, None),
    ("4b810f4daafd9fbc", Class::VendorAuth, None),
    ("0aef06caff7e5f5e", Class::ModelUnavailable, None),
    ("2080039ea47af34c", Class::VendorAuth, None),
    ("0a1496043ba8d53b", Class::VendorAuth, None),
    ("4b29b894856ca650", Class::InvalidRequest, None),
    ("19ecc4349762fbf9", Class::ModelUnavailable, None),
    ("5f4d37f86b66494f", Class::ModelUnavailable, None),
    ("24acd20625e0c0fc", Class::ModelUnavailable, None),
    ("05993c0bc03e0b77", Class::InvalidRequest, None),
    ("bb84d869fea65092", Class::ModelUnavailable, None),
    ("9c29854b3ef69b82", Class::InvalidRequest, None),
    ("269bff9d095be6f0", Class::InvalidRequest, None),
    ("5e90d9631750f311", Class::ModelUnavailable, None),
    ("c3769436ea96f308", Class::VendorAuth, None),
    ("39669ba8bd70ca1a", Class::ContextOverflow, None),
    ("463662c1d5921b81", Class::VendorAuth, None),
    ("9fc62972d426ca4c", Class::VendorAuth, None),
    ("1a153cc174595590", Class::ModelUnavailable, None),
    ("9ac8bbd620399ac8", Class::ModelUnavailable, None),
    ("a3f5d87e6f6e530a", Class::InvalidRequest, None),
    ("532fbb9a95043543", Class::ModelUnavailable, None),
    ("fd5f9d67651f93f4", Class::InvalidRequest, None),
    ("97996aa1f520aaf3", Class::ModelUnavailable, None),
    ("10c848e65f2e151c", Class::InvalidRequest, None),
    ("f4e12adbbe7de4a5", Class::RateLimited, Some(644)),
    ("59ceb2d0be634c1b", Class::RateLimited, Some(9_816)),
    ("a716ce6e90d13b98", Class::ContextOverflow, None),
    ("c5ba3b79fc2d4f6a", Class::RateLimited, Some(1_574)),
    ("06068db7ba04edbe", Class::VendorAuth, None),
    ("a5a2db3c465ffb2b", Class::VendorAuth, None),
    ("1a99531e36e997e1", Class::VendorAuth, None),
    ("2449da039d49be3e", Class::ModelUnavailable, None),
    ("3ff44be13731840c", Class::VendorAuth, None),
    ("f2f1248340ba8a43", Class::ModelUnavailable, None),
    ("f36ab229f26c92b0", Class::ModelUnavailable, None),
    ("c736cb5c687b0f7b", Class::ModelUnavailable, None),
    ("d50ba4ed64f1394a", Class::ModelUnavailable, None),
    ("b0b3951aa534d7b7", Class::ModelUnavailable, None),
    ("732ee26847fe3c4d", Class::InvalidRequest, None),
    ("0d1cfb66ccf3b72f", Class::InvalidRequest, None),
    ("3c6a4993b2b63b8d", Class::InvalidRequest, None),
    ("01132bc8fbb9b570", Class::InvalidRequest, None),
    ("3718915edb1fc4f5", Class::InvalidRequest, None),
    ("c8564249917ea978", Class::InvalidRequest, None),
    ("f5eaad6854526b28", Class::ModelUnavailable, None),
    ("9bc145fa6e0aab2e", Class::InvalidRequest, None),
    ("e6961d896a1f481d", Class::QuotaExhausted, None),
    ("eb433698566964af", Class::InvalidRequest, None),
    ("0b6b25a28b1b41d9", Class::RateLimited, None),
    ("fb37cbbe57135d38", Class::VendorAuth, None),
    ("8b7b8e78f8c0e338", Class::VendorAuth, None),
    ("fbb93ad1a3abc950", Class::ContextOverflow, None),
    ("56fb56f342813aaa", Class::RateLimited, None),
    ("9d084f7dace2ce40", Class::VendorAuth, None),
    ("a0a5943374bb8fa8", Class::VendorAuth, None),
];
