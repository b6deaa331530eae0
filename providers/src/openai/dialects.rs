//! Vendors as rows of data: those that speak OpenAI's dialect, and Anthropic.
//!
//! Base URLs, key variables and paths are those of the vendors' documentation and SDKs; the
//! conformance suite compares the paths with recorded traffic. What a row says about usage and ends
//! of streams is from the same recordings and from section D of the vendor facts (2026-11-30).

use crate::envelope::OutputLimit;
use crate::percent;
use crate::provider::{Api, Auth};

/// A vendor: where it is, which APIs it speaks, and its variant of OpenAI's dialect.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The vendor's name in the configuration.
    pub kind: &'static str,
    /// Where it is reached unless the configuration says otherwise.
    pub base_url: Option<&'static str>,
    /// The environment variable that its own SDK reads the key from.
    pub key_env: Option<&'static str>,
    /// How the key is sent.
    pub auth: Auth,
    /// The APIs that it is known to speak.
    pub apis: &'static [Api],
    /// How its URLs are built.
    pub layout: Layout,
    /// Whether chat and text completions take `stream_options`.
    pub stream_options: StreamOptionsSupport,
    /// What ends a chat or text completion stream.
    pub terminator: Terminator,
    /// The field that limits the output of a chat completion.
    pub output_limit: OutputLimit,
    /// What the vendor's own counts leave out.
    pub usage: UsageQuirk,
    /// How its error codes are to be read.
    pub errors: ErrorCodes,
}

/// How a URL is built from the base, the API and the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A path for each deployment, and the version of the API as a query parameter.
    AzureDeployments,
    /// The model is in the body only.
    Plain,
}

/// Whether `stream_options.include_usage` may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOptionsSupport {
    /// Refused or ignored; usage comes unasked, or not at all.
    No,
    /// Understood.
    Yes,
}

/// What must have come before a stream counts as whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// `data: [DONE]`.
    DoneMarker,
    /// A finish reason; the end marker is not sent by every server of this kind.
    FinishReason,
}

/// Where a vendor counts differently from OpenAI. What its own total proves needs no row: a total
/// that is larger than its parts by the reasoning, the audio or the cached tokens shows that these
/// stand beside the others instead of within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageQuirk {
    /// As OpenAI does.
    None,
    /// Thinking is in the total only (Gemini's compatible endpoint): what the parts leave of the
    /// total is output.
    RestIsOutput,
}

/// How error codes are to be read where vendors contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCodes {
    /// As OpenAI means them.
    OpenAi,
    /// `DashScope`: `insufficient_quota` is normally a limit per minute.
    Qwen,
    /// Numbers of four digits with meanings of their own.
    Zhipu,
}

impl Dialect {
    /// The URL of a call. `base_url` has no slash at its end; `model` is the vendor's name, which
    /// Azure wants in the path.
    pub fn url(&self, base_url: &str, api: Api, model: &str) -> String {
        match self.layout {
            // Azure's newer form of base URL needs neither deployment path nor version.
            Layout::AzureDeployments if !base_url.ends_with("/openai/v1") => match api {
                Api::Responses => {
                    format!("{base_url}/openai{}?api-version=preview", api.path())
                }
                Api::Chat
                | Api::Completions
                | Api::CountTokens
                | Api::Embeddings
                | Api::Messages => format!(
                    "{base_url}/openai/deployments/{}{}?api-version={AZURE_API_VERSION}",
                    path_segment(model),
                    api.path()
                ),
            },
            Layout::AzureDeployments | Layout::Plain => format!("{base_url}{}", api.path()),
        }
    }
}

/// The version of Azure's API that deployment paths are asked in: its last stable one.
const AZURE_API_VERSION: &str = "2024-10-21";

/// A deployment's name with everything that could leave its path segment escaped.
fn path_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    percent::encode(name.as_bytes(), b"", &mut out);
    out
}

/// The dialect of that vendor.
pub fn dialect(kind: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.kind == kind)
}

const CHAT: &[Api] = &[Api::Chat];
const CHAT_EMBEDDINGS: &[Api] = &[Api::Chat, Api::Embeddings];
const CHAT_RESPONSES: &[Api] = &[Api::Chat, Api::Responses];
const CLASSIC: &[Api] = &[Api::Chat, Api::Completions, Api::Embeddings];
const MESSAGES: &[Api] = &[Api::Messages, Api::CountTokens];
const ALL: &[Api] = &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses];

/// What most vendors are like; the rows say where they differ.
pub const TYPICAL: Dialect = Dialect {
    kind: "",
    base_url: None,
    key_env: None,
    auth: Auth::Bearer,
    apis: CHAT,
    layout: Layout::Plain,
    stream_options: StreamOptionsSupport::Yes,
    terminator: Terminator::DoneMarker,
    output_limit: OutputLimit::MaxTokens,
    usage: UsageQuirk::None,
    errors: ErrorCodes::OpenAi,
};

/// The rows.
pub static DIALECTS: &[Dialect] = &[
    // Its own dialect: see `crate::anthropic`.
    Dialect {
        kind: "anthropic",
        base_url: Some("https://api.anthropic.com/v1"),
        key_env: Some("ANTHROPIC_API_KEY"),
        auth: Auth::Header("x-api-key"),
        apis: MESSAGES,
        stream_options: StreamOptionsSupport::No,
        ..TYPICAL
    },
    Dialect {
        kind: "azure",
        key_env: Some("AZURE_OPENAI_API_KEY"),
        auth: Auth::Header("api-key"),
        apis: ALL,
        layout: Layout::AzureDeployments,
        output_limit: OutputLimit::MaxCompletionTokens,
        ..TYPICAL
    },
    // The endpoint below `/openai/v1` of `bedrock-runtime`; each region has its own.
    Dialect {
        kind: "bedrock-openai",
        key_env: Some("AWS_BEARER_TOKEN_BEDROCK"),
        terminator: Terminator::FinishReason,
        ..TYPICAL
    },
    Dialect {
        kind: "cerebras",
        base_url: Some("https://api.cerebras.ai/v1"),
        key_env: Some("CEREBRAS_API_KEY"),
        output_limit: OutputLimit::MaxCompletionTokens,
        ..TYPICAL
    },
    Dialect {
        kind: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        key_env: Some("DEEPSEEK_API_KEY"),
        apis: CHAT_RESPONSES,
        ..TYPICAL
    },
    Dialect {
        kind: "fireworks",
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        key_env: Some("FIREWORKS_API_KEY"),
        apis: CLASSIC,
        ..TYPICAL
    },
    Dialect {
        kind: "gemini-openai",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        key_env: Some("GEMINI_API_KEY"),
        apis: CHAT_EMBEDDINGS,
        usage: UsageQuirk::RestIsOutput,
        ..TYPICAL
    },
    Dialect {
        kind: "groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key_env: Some("GROQ_API_KEY"),
        apis: CHAT_RESPONSES,
        output_limit: OutputLimit::MaxCompletionTokens,
        ..TYPICAL
    },
    Dialect {
        kind: "huggingface",
        base_url: Some("https://router.huggingface.co/v1"),
        key_env: Some("HF_TOKEN"),
        apis: CHAT_RESPONSES,
        terminator: Terminator::FinishReason,
        ..TYPICAL
    },
    Dialect {
        kind: "llama.cpp",
        base_url: Some("http://127.0.0.1:8080/v1"),
        apis: CLASSIC,
        ..TYPICAL
    },
    Dialect {
        kind: "mistral",
        base_url: Some("https://api.mistral.ai/v1"),
        key_env: Some("MISTRAL_API_KEY"),
        apis: CHAT_EMBEDDINGS,
        // Unknown fields are refused with 422; usage comes unasked, with the finish reason.
        stream_options: StreamOptionsSupport::No,
        ..TYPICAL
    },
    Dialect {
        kind: "moonshot",
        base_url: Some("https://api.moonshot.ai/v1"),
        key_env: Some("MOONSHOT_API_KEY"),
        ..TYPICAL
    },
    Dialect {
        kind: "ollama",
        base_url: Some("http://127.0.0.1:11434/v1"),
        apis: ALL,
        ..TYPICAL
    },
    Dialect {
        kind: "openai",
        base_url: Some("https://api.openai.com/v1"),
        key_env: Some("OPENAI_API_KEY"),
        apis: ALL,
        output_limit: OutputLimit::MaxCompletionTokens,
        ..TYPICAL
    },
    Dialect {
        kind: "openai-compatible",
        apis: ALL,
        terminator: Terminator::FinishReason,
        ..TYPICAL
    },
    Dialect {
        kind: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key_env: Some("OPENROUTER_API_KEY"),
        apis: &[Api::Chat, Api::Completions, Api::Responses],
        ..TYPICAL
    },
    Dialect {
        kind: "perplexity",
        base_url: Some("https://api.perplexity.ai"),
        key_env: Some("PERPLEXITY_API_KEY"),
        // Usage comes unasked, in every chunk.
        stream_options: StreamOptionsSupport::No,
        terminator: Terminator::FinishReason,
        ..TYPICAL
    },
    Dialect {
        kind: "qwen",
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        key_env: Some("DASHSCOPE_API_KEY"),
        apis: ALL,
        errors: ErrorCodes::Qwen,
        ..TYPICAL
    },
    Dialect {
        kind: "sglang",
        base_url: Some("http://127.0.0.1:30000/v1"),
        apis: CLASSIC,
        ..TYPICAL
    },
    Dialect {
        kind: "together",
        base_url: Some("https://api.together.xyz/v1"),
        key_env: Some("TOGETHER_API_KEY"),
        apis: CLASSIC,
        ..TYPICAL
    },
    // `…/projects/PROJECT/locations/LOCATION/endpoints/openapi`, with models such as `google/NAME`.
    Dialect {
        kind: "vertex-openai",
        usage: UsageQuirk::RestIsOutput,
        ..TYPICAL
    },
    Dialect {
        kind: "vllm",
        base_url: Some("http://127.0.0.1:8000/v1"),
        apis: ALL,
        ..TYPICAL
    },
    Dialect {
        kind: "xai",
        base_url: Some("https://api.x.ai/v1"),
        key_env: Some("XAI_API_KEY"),
        apis: CHAT_RESPONSES,
        ..TYPICAL
    },
    Dialect {
        kind: "zhipu",
        base_url: Some("https://api.z.ai/api/paas/v4"),
        key_env: Some("ZAI_API_KEY"),
        apis: CHAT_EMBEDDINGS,
        errors: ErrorCodes::Zhipu,
        ..TYPICAL
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_unique() {
        assert!(DIALECTS.windows(2).all(|pair| pair[0].kind < pair[1].kind));
        assert!(dialect("openai").is_some() && dialect("").is_none());
    }

    #[test]
    fn azure_takes_both_forms_of_base_url() {
        let azure = dialect("azure").unwrap();
        assert_eq!(
            azure.url("https://t.openai.azure.com", Api::Chat, "my gpt/5"),
            "https://t.openai.azure.com/openai/deployments/my%20gpt%2F5/chat/completions?api-version=2024-10-21"
        );
        assert_eq!(
            azure.url("https://t.openai.azure.com/openai/v1", Api::Chat, "gpt-5"),
            "https://t.openai.azure.com/openai/v1/chat/completions"
        );
    }
}
