//! The one meaning of every token count.
//!
//! Vendors disagree on what they count where: some report cached tokens inside the prompt, some
//! beside it; some report reasoning beside the output. The codecs translate once into this form.

use serde::{Deserialize, Serialize};

use crate::units::Tokens;

/// What one call read and wrote.
///
/// Invariants: `input ≥ cache_read + cache_write_5m + cache_write_1h` and `output ≥ reasoning`.
/// `None` means that the vendor reported nothing, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Everything read, cached or not.
    #[serde(rename = "input_tokens")]
    pub input: Tokens,
    /// Read from the vendor's prompt cache.
    #[serde(rename = "cache_read_tokens")]
    pub cache_read: Option<Tokens>,
    /// Written to the vendor's prompt cache with its short lifetime (five minutes at Anthropic,
    /// thirty at OpenAI).
    #[serde(rename = "cache_write_5m_tokens")]
    pub cache_write_5m: Option<Tokens>,
    /// Written to the vendor's prompt cache with its long lifetime (one hour at Anthropic, twelve
    /// at OpenAI).
    #[serde(rename = "cache_write_1h_tokens")]
    pub cache_write_1h: Option<Tokens>,
    /// Everything written, reasoning included.
    #[serde(rename = "output_tokens")]
    pub output: Tokens,
    /// Reasoning within the output.
    #[serde(rename = "reasoning_tokens")]
    pub reasoning: Option<Tokens>,
    /// Audio within the input.
    #[serde(
        rename = "audio_input_tokens",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub audio_input: Option<Tokens>,
    /// Audio within the output.
    #[serde(
        rename = "audio_output_tokens",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub audio_output: Option<Tokens>,
    /// Images made or read, where the vendor charges by the piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<u64>,
    /// The counts are the gateway's estimate, because the vendor reported none.
    #[serde(default)]
    pub estimated: bool,
}
