//! Which client program sent a request, and how it retries.
//!
//! Known by the `User-Agent` and by headers that only this client sends. The order matters: a
//! framework often sits on a vendor's SDK and sends that SDK's headers too, so the outer one is
//! asked for first. What each client does with which answer was read from its source (wire-facts,
//! A0 to A9).

use core::fmt;

/// A client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Harness {
    /// Vercel's AI SDK.
    AiSdk,
    /// Anthropic's SDK for JavaScript.
    AnthropicNode,
    /// Anthropic's SDK for Python.
    AnthropicPython,
    /// Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// curl.
    Curl,
    /// Google's gemini-cli.
    GeminiCli,
    /// Google's SDK for its models.
    GoogleGenai,
    /// LangChain for JavaScript.
    LangchainJs,
    /// LangChain for Python, where it says so.
    LangchainPython,
    /// LiteLLM as a client.
    Litellm,
    /// OpenAI's SDK for JavaScript.
    OpenaiNode,
    /// OpenAI's SDK for Python.
    OpenaiPython,
    /// Pydantic AI.
    PydanticAi,
    /// Another SDK made by Stainless (Groq, Together, Cerebras, Fireworks, …).
    Stainless,
}

impl Harness {
    /// The name used in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AiSdk => "ai-sdk",
            Self::AnthropicNode => "anthropic-node",
            Self::AnthropicPython => "anthropic-python",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Curl => "curl",
            Self::GeminiCli => "gemini-cli",
            Self::GoogleGenai => "google-genai",
            Self::LangchainJs => "langchain-js",
            Self::LangchainPython => "langchain-python",
            Self::Litellm => "litellm",
            Self::OpenaiNode => "openai-node",
            Self::OpenaiPython => "openai-python",
            Self::PydanticAi => "pydantic-ai",
            Self::Stainless => "stainless",
        }
    }

    /// Whether it sends a failed request again whatever `x-should-retry` says.
    pub const fn retries_regardless(self) -> bool {
        match self {
            Self::AiSdk | Self::Codex | Self::GeminiCli | Self::LangchainJs | Self::Litellm => true,
            Self::AnthropicNode
            | Self::AnthropicPython
            | Self::ClaudeCode
            | Self::Curl
            | Self::GoogleGenai
            | Self::LangchainPython
            | Self::OpenaiNode
            | Self::OpenaiPython
            | Self::PydanticAi
            | Self::Stainless => false,
        }
    }

    /// The status by which a final failure is told to a client that obeys no header: `status`
    /// itself where the client leaves that alone, otherwise one that it does.
    ///
    /// That is 424 (failed dependency) but for LangChain for JavaScript, which retries 424 and
    /// leaves 409 alone.
    pub const fn quiet_status(self, status: u16) -> u16 {
        let retried = match self {
            Self::AiSdk | Self::Litellm => matches!(status, 408 | 409 | 429 | 500..),
            Self::Codex => status >= 500,
            Self::GeminiCli => matches!(status, 429 | 499 | 500..),
            Self::LangchainJs => !matches!(status, 400..=407 | 409 | 413),
            _ => false,
        };
        match self {
            _ if !retried || status < 400 => status,
            Self::LangchainJs => 409,
            _ => 424,
        }
    }
}

impl fmt::Display for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Marks in a `User-Agent`, lower case, outer programs first.
const AGENTS: [(&str, Harness); 19] = [
    ("claude-cli/", Harness::ClaudeCode),
    ("codex_", Harness::Codex),
    ("codex-", Harness::Codex),
    ("geminicli/", Harness::GeminiCli),
    ("gemini-cli/", Harness::GeminiCli),
    ("litellm/", Harness::Litellm),
    ("pydantic-ai/", Harness::PydanticAi),
    ("langchainjs", Harness::LangchainJs),
    ("langchain-js", Harness::LangchainJs),
    ("langchain", Harness::LangchainPython),
    ("ai-sdk/", Harness::AiSdk),
    ("google-genai-sdk/", Harness::GoogleGenai),
    ("openai/python", Harness::OpenaiPython),
    ("asyncopenai/python", Harness::OpenaiPython),
    ("openai/js", Harness::OpenaiNode),
    ("anthropic/python", Harness::AnthropicPython),
    ("asyncanthropic/python", Harness::AnthropicPython),
    ("anthropic/js", Harness::AnthropicNode),
    ("curl/", Harness::Curl),
];

/// The client program, by its `User-Agent` and by which headers it sends.
pub fn harness(user_agent: &str, has_header: impl Fn(&str) -> bool) -> Option<Harness> {
    if has_header("x-claude-code-session-id") {
        return Some(Harness::ClaudeCode);
    }
    if has_header("x-codex-turn-metadata") || has_header("x-codex-window-id") {
        return Some(Harness::Codex);
    }
    let by_agent = AGENTS
        .iter()
        .find(|(mark, _)| contains_word(user_agent, mark))
        .map(|(_, harness)| *harness);
    if by_agent.is_some() {
        return by_agent;
    }
    // `ai/6.0.1` is the AI SDK too, but `ai/` alone ends many other names.
    if contains_word(user_agent, "ai/") {
        return Some(Harness::AiSdk);
    }
    has_header("x-stainless-lang").then_some(Harness::Stainless)
}

/// Whether `text` holds `mark`, which is lower case, at the start of a word.
fn contains_word(text: &str, mark: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at_start = true;
    for (i, byte) in bytes.iter().enumerate() {
        let rest = bytes.get(i..i + mark.len());
        if at_start && rest.is_some_and(|rest| rest.eq_ignore_ascii_case(mark.as_bytes())) {
            return true;
        }
        at_start = matches!(byte, b' ' | b'(' | b';' | b',');
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_what_they_send() {
        for (agent, headers, want) in [
            (
                "claude-cli/2.1.332 (external, cli)",
                &["x-app"][..],
                Some("claude-code"),
            ),
            ("node", &["x-claude-code-session-id"], Some("claude-code")),
            ("codex_cli_rs/0.171.0 (Linux; x86_64)", &[], Some("codex")),
            (
                "OpenAI/Python 3.57.0",
                &["x-stainless-lang"],
                Some("openai-python"),
            ),
            (
                "AsyncOpenAI/Python 1.109.1",
                &["x-stainless-lang"],
                Some("openai-python"),
            ),
            (
                "OpenAI/JS 6.49.0",
                &["x-stainless-lang"],
                Some("openai-node"),
            ),
            (
                "Anthropic/Python 2.14.0",
                &["x-stainless-lang"],
                Some("anthropic-python"),
            ),
            (
                "Anthropic/JS 1.14.0",
                &["x-stainless-lang"],
                Some("anthropic-node"),
            ),
            (
                "ai/6.0.326 ai-sdk/openai/3.0.1 runtime/node.js/24",
                &[],
                Some("ai-sdk"),
            ),
            ("ai/5.0.1 runtime/browser", &[], Some("ai-sdk")),
            (
                "langchainjs-openai/1.0.0 (OpenAI/JS 6.1.0)",
                &["x-stainless-lang"],
                Some("langchain-js"),
            ),
            ("litellm/1.110.2", &[], Some("litellm")),
            (
                "Groq/Python 1.0.0",
                &["x-stainless-lang"],
                Some("stainless"),
            ),
            ("curl/8.5.0", &[], Some("curl")),
            ("openai/1.0 mistral-ai/2.0", &[], None),
            ("", &[], None),
        ] {
            let found = harness(agent, |name| headers.contains(&name));
            assert_eq!(found.map(Harness::as_str), want, "{agent}");
        }
    }

    #[test]
    fn a_client_that_obeys_no_header_gets_a_status_that_it_leaves_alone() {
        assert_eq!(Harness::AiSdk.quiet_status(503), 424);
        assert_eq!(Harness::AiSdk.quiet_status(400), 400);
        assert_eq!(Harness::Codex.quiet_status(429), 429);
        assert_eq!(Harness::Codex.quiet_status(502), 424);
        assert_eq!(Harness::LangchainJs.quiet_status(502), 409);
        assert_eq!(Harness::LangchainJs.quiet_status(402), 402);
        assert_eq!(Harness::OpenaiPython.quiet_status(503), 503);
        for status in 400..600 {
            assert_eq!(Harness::Stainless.quiet_status(status), status);
        }
    }

    #[test]
    fn only_clients_that_obey_no_header_are_given_another_status() {
        for harness in [
            Harness::AiSdk,
            Harness::ClaudeCode,
            Harness::Codex,
            Harness::GeminiCli,
            Harness::LangchainJs,
            Harness::Litellm,
            Harness::OpenaiNode,
        ] {
            assert_eq!(
                harness.quiet_status(503) != 503,
                harness.retries_regardless()
            );
        }
    }
}
