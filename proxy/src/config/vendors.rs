//! What the configuration knows about a vendor: its address, its forms of API, the environment
//! variables that its key usually stands in.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::exchange::Api;

/// A kind of provider.
#[derive(Clone, Copy, Debug)]
pub struct Vendor {
    /// The name in the configuration.
    pub kind: &'static str,
    /// The vendor's own address; `None` where every operator has another.
    pub base_url: Option<&'static str>,
    /// Environment variables that its key usually stands in, first match wins.
    pub variables: &'static [&'static str],
    /// The forms of API that it speaks.
    pub apis: &'static [Api],
}

const CHAT: &[Api] = &[Api::Chat];
const CHAT_AND_EMBEDDINGS: &[Api] = &[Api::Chat, Api::Embeddings];
const OLDER: &[Api] = &[Api::Chat, Api::Completions, Api::Embeddings];
const NEWER: &[Api] = &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses];

const fn vendor(
    kind: &'static str,
    base_url: Option<&'static str>,
    variables: &'static [&'static str],
    apis: &'static [Api],
) -> Vendor {
    Vendor {
        kind,
        base_url,
        variables,
        apis,
    }
}

/// All kinds, in the order in which `serve` without a file prefers them.
pub const VENDORS: [Vendor; 18] = [
    vendor(
        "openai",
        Some("https://api.openai.com/v1"),
        &["OPENAI_API_KEY"],
        NEWER,
    ),
    vendor(
        "anthropic",
        Some("https://api.anthropic.com/v1"),
        &["ANTHROPIC_API_KEY"],
        CHAT,
    ),
    vendor(
        "gemini",
        Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        CHAT_AND_EMBEDDINGS,
    ),
    vendor(
        "deepseek",
        Some("https://api.deepseek.com/v1"),
        &["DEEPSEEK_API_KEY"],
        CHAT,
    ),
    vendor(
        "mistral",
        Some("https://api.mistral.ai/v1"),
        &["MISTRAL_API_KEY"],
        CHAT_AND_EMBEDDINGS,
    ),
    vendor(
        "groq",
        Some("https://api.groq.com/openai/v1"),
        &["GROQ_API_KEY"],
        CHAT,
    ),
    vendor("xai", Some("https://api.x.ai/v1"), &["XAI_API_KEY"], CHAT),
    vendor(
        "openrouter",
        Some("https://openrouter.ai/api/v1"),
        &["OPENROUTER_API_KEY"],
        CHAT,
    ),
    vendor(
        "together",
        Some("https://api.together.xyz/v1"),
        &["TOGETHER_API_KEY"],
        OLDER,
    ),
    vendor(
        "fireworks",
        Some("https://api.fireworks.ai/inference/v1"),
        &["FIREWORKS_API_KEY"],
        OLDER,
    ),
    vendor(
        "cerebras",
        Some("https://api.cerebras.ai/v1"),
        &["CEREBRAS_API_KEY"],
        CHAT,
    ),
    vendor(
        "moonshot",
        Some("https://api.moonshot.ai/v1"),
        &["MOONSHOT_API_KEY"],
        CHAT,
    ),
    vendor(
        "zhipu",
        Some("https://open.bigmodel.cn/api/paas/v4"),
        &["ZHIPU_API_KEY"],
        CHAT_AND_EMBEDDINGS,
    ),
    vendor(
        "qwen",
        Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        &["DASHSCOPE_API_KEY"],
        CHAT_AND_EMBEDDINGS,
    ),
    vendor("vllm", None, &[], OLDER),
    vendor("sglang", None, &[], OLDER),
    vendor(
        "ollama",
        Some("http://127.0.0.1:11434/v1"),
        &[],
        CHAT_AND_EMBEDDINGS,
    ),
    vendor("openai-compatible", None, &[], OLDER),
];

/// Kinds of the contract that need more than OpenAI's dialect, with what they wait for.
pub const UNAVAILABLE_KINDS: [&str; 3] = ["azure", "bedrock", "vertex"];

/// The vendor of a kind.
pub fn vendor_of(kind: &str) -> Option<Vendor> {
    VENDORS.into_iter().find(|vendor| vendor.kind == kind)
}

/// The schema of a provider's `kind`.
pub fn kinds_schema(_: &mut SchemaGenerator) -> Schema {
    let kinds = VENDORS.map(|vendor| vendor.kind);
    json_schema!({ "type": "string", "enum": kinds })
}
