//! Token counts as OpenAI and its imitators report them, in the one meaning of [`Usage`].
//!
//! OpenAI counts cached tokens inside the prompt and reasoning inside the completion. Others count
//! beside it, and say so only through their total: at xAI the total is larger than the two by the
//! reasoning, at Mistral by the audio. That arithmetic is trusted more than a list of vendors, which
//! ages; it is checked against recorded traffic in the conformance suite.
//!
//! Where vendors put cached tokens (section D of the vendor facts, 2026-11-30):
//! `prompt_tokens_details.cached_tokens` (OpenAI, Azure, Zhipu, Qwen, Groq, xAI, OpenRouter, Cerebras,
//! Fireworks, vLLM), `input_tokens_details.cached_tokens` (responses), `prompt_cache_hit_tokens`
//! (DeepSeek), `num_cached_tokens` and `prompt_token_details` (Mistral), `cached_tokens` (Moonshot,
//! Together). Absent is not zero: most of them leave the field out when the cache is off.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use whippletree_policies::units::Tokens;
use whippletree_policies::usage::Usage;

use super::dialects::UsageQuirk;

/// A `usage` object of any vendor.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    prompt_tokens: Count,
    completion_tokens: Count,
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Option<Details>,
    prompt_token_details: Option<Details>,
    input_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
    prompt_cache_hit_tokens: Count,
    num_cached_tokens: Count,
    cached_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
    cache_write_tokens: Count,
    cache_creation_input_tokens: Count,
    #[serde(rename = "cache_write_tokens_details")]
    writes: Option<Writes>,
    audio_tokens: Count,
    reasoning_tokens: Count,
}

/// How OpenAI's responses split cache writes by lifetime.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Writes {
    ttl_30m_tokens: Count,
    ttl_12h_tokens: Count,
}

/// A count that a vendor may write as a number, a whole float or null. Anything else is no report.
#[derive(Clone, Copy, Debug, Default)]
struct Count(Option<u64>);

impl Counts {
    /// The counts in their common meaning; `None` when nothing was reported.
    pub(crate) fn normalise(&self, quirk: UsageQuirk) -> Option<Usage> {
        let reported_input = self.prompt_tokens.0.or(self.input_tokens.0);
        let reported_output = self.completion_tokens.0.or(self.output_tokens.0);
        let total = self.total_tokens.0;
        if reported_input.is_none() && reported_output.is_none() {
            // Embeddings of some vendors have a total only.
            return total.map(|total| Usage {
                input: Tokens(total),
                ..Usage::default()
            });
        }
        let mut input = reported_input.unwrap_or(0);
        let mut output = reported_output.unwrap_or(0);
        let read = self.cache_read();
        let (write_5m, write_1h) = self.cache_writes();
        let reasoning = self.written(|details| details.reasoning_tokens);
        let audio_input = self.read(|details| details.audio_tokens);
        let audio_output = self.written(|details| details.audio_tokens);

        let rest = total
            .and_then(|total| total.checked_sub(input)?.checked_sub(output))
            .filter(|rest| *rest > 0);
        if let Some(rest) = rest {
            if reasoning == Some(rest) {
                output = output.saturating_add(rest);
            } else if audio_input == Some(rest) || read == Some(rest) {
                input = input.saturating_add(rest);
            } else if quirk == UsageQuirk::RestIsOutput {
                output = output.saturating_add(rest);
            }
        }
        // A part that is larger than its whole stands beside it (xAI behind Azure).
        if let Some(read) = read.filter(|read| *read > input) {
            input = input.saturating_add(read);
        }
        // OpenRouter charges Gemini's caches for reading and for writing the same tokens. Here a token
        // has one class, and it was read.
        let room = input.saturating_sub(read.unwrap_or(0));
        let write_5m = write_5m.map(|write| write.min(room));
        let room = room.saturating_sub(write_5m.unwrap_or(0));
        let write_1h = write_1h.map(|write| write.min(room));
        if let Some(reasoning) = reasoning.filter(|reasoning| *reasoning > output) {
            output = output.saturating_add(reasoning);
        }
        Some(Usage {
            input: Tokens(input),
            cache_read: read.map(Tokens),
            cache_write_5m: write_5m.map(Tokens),
            cache_write_1h: write_1h.map(Tokens),
            output: Tokens(output),
            reasoning: reasoning.map(Tokens),
            // Most vendors report audio as zero on every call; that says nothing.
            audio_input: audio_input.filter(|audio| *audio > 0).map(Tokens),
            audio_output: audio_output.filter(|audio| *audio > 0).map(Tokens),
            ..Usage::default()
        })
    }

    fn read(&self, field: impl Fn(&Details) -> Count) -> Option<u64> {
        [
            &self.prompt_tokens_details,
            &self.input_tokens_details,
            &self.prompt_token_details,
        ]
        .into_iter()
        .flatten()
        .find_map(|details| field(details).0)
    }

    fn written(&self, field: impl Fn(&Details) -> Count) -> Option<u64> {
        [&self.completion_tokens_details, &self.output_tokens_details]
            .into_iter()
            .flatten()
            .find_map(|details| field(details).0)
    }

    fn cache_read(&self) -> Option<u64> {
        // DeepSeek reports the same count twice; `max` of an absent and a present one is the present.
        self.read(|details| details.cached_tokens)
            .max(self.prompt_cache_hit_tokens.0)
            .max(self.num_cached_tokens.0)
            .max(self.cached_tokens.0)
    }

    /// Writes with the short and with the long lifetime.
    fn cache_writes(&self) -> (Option<u64>, Option<u64>) {
        let long = self.read(|details| {
            details
                .writes
                .as_ref()
                .map_or(Count(None), |split| split.ttl_12h_tokens)
        });
        let short = self.read(|details| {
            details
                .writes
                .as_ref()
                .map_or(Count(None), |split| split.ttl_30m_tokens)
        });
        let all = self
            .read(|details| details.cache_write_tokens)
            .or_else(|| self.read(|details| details.cache_creation_input_tokens));
        let short = short.or_else(|| Some(all?.saturating_sub(long.unwrap_or(0))));
        (short, long)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Count, E> {
        Ok(Count(Some(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(value).ok()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Count, E> {
        const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and between zero and 2^53"
        )]
        let count = (value.fract() == 0.0 && (0.0..EXACT).contains(&value)).then_some(value as u64);
        Ok(Count(count))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Usage> {
        let counts: Counts = serde_json::from_str(json).unwrap();
        counts.normalise(UsageQuirk::None)
    }

    /// input, cache read, writes short and long, output, reasoning
    type Flat = (u64, Option<u64>, Option<u64>, Option<u64>, u64, Option<u64>);

    fn flat(json: &str) -> Flat {
        let usage = read(json).unwrap();
        let plain = |tokens: Option<Tokens>| tokens.map(|tokens| tokens.0);
        (
            usage.input.0,
            plain(usage.cache_read),
            plain(usage.cache_write_5m),
            plain(usage.cache_write_1h),
            usage.output.0,
            plain(usage.reasoning),
        )
    }

    #[test]
    fn parts_within_the_whole_are_taken_as_they_are() {
        assert_eq!(
            flat(
                r#"{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":20}}"#
            ),
            (100, Some(64), None, None, 30, Some(20))
        );
        assert_eq!(
            flat(
                r#"{"input_tokens":100,"output_tokens":30,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":90,"cache_write_tokens_details":{"ttl_30m_tokens":40,"ttl_12h_tokens":50}}}"#
            ),
            (100, Some(1), Some(40), Some(50), 30, None)
        );
        assert_eq!(
            flat(
                r#"{"prompt_tokens":20,"completion_tokens":1,"prompt_cache_hit_tokens":12,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":8}}"#
            ),
            (20, Some(12), Some(8), None, 1, None)
        );
    }

    #[test]
    fn parts_beside_the_whole_are_added() {
        // xAI: reasoning beside the completion.
        assert_eq!(
            flat(
                r#"{"prompt_tokens":12,"completion_tokens":1,"total_tokens":303,"prompt_tokens_details":{"cached_tokens":11},"completion_tokens_details":{"reasoning_tokens":290}}"#
            ),
            (12, Some(11), None, None, 291, Some(290))
        );
        // xAI behind Azure: cached tokens beside the prompt, and in no total.
        assert_eq!(
            flat(
                r#"{"prompt_tokens":347,"completion_tokens":18,"total_tokens":365,"prompt_tokens_details":{"cached_tokens":403}}"#
            ),
            (750, Some(403), None, None, 18, None)
        );
        // OpenRouter: the same tokens read and written.
        assert_eq!(
            flat(
                r#"{"prompt_tokens":2168,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2161,"cache_write_tokens":2161}}"#
            ),
            (2168, Some(2161), Some(7), None, 1, None)
        );
        // Mistral: audio beside the prompt.
        assert_eq!(
            flat(r#"{"prompt_tokens":9,"completion_tokens":201,"total_tokens":585,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":375}}"#).0,
            384
        );
    }

    #[test]
    fn only_gemini_hides_output_in_the_total() {
        let counts: Counts = serde_json::from_str(
            r#"{"prompt_tokens":66,"completion_tokens":6,"total_tokens":100}"#,
        )
        .unwrap();
        assert_eq!(
            counts.normalise(UsageQuirk::None).unwrap().output,
            Tokens(6)
        );
        let gemini = counts.normalise(UsageQuirk::RestIsOutput).unwrap();
        assert_eq!(gemini.output, Tokens(34));
    }

    #[test]
    fn what_is_no_count_is_no_report() {
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"prompt_tokens":null,"total_tokens":null}"#), None);
        assert_eq!(
            flat(
                r#"{"prompt_tokens":5.0,"completion_tokens":-1,"cached_tokens":"3","prompt_tokens_details":null}"#
            ),
            (5, None, None, None, 0, None)
        );
        assert_eq!(flat(r#"{"total_tokens":7}"#).0, 7);
    }
}
