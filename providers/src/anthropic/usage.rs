//! Token counts as Anthropic reports them, in the one meaning of [`Usage`].
//!
//! The three input counts are disjoint: `input_tokens` leaves out what the cache read and wrote
//! (section D of the vendor facts, 2026-11-30). A stream reports twice, cumulatively: all of the
//! input with its beginning, and with its end whatever has changed since; each field that is given
//! replaces the one before.

use serde::Deserialize;
use whippletree_policies::units::Tokens;
use whippletree_policies::usage::Usage;

/// A `usage` object.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation: Option<Writes>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<Details>,
}

/// Cache writes by lifetime.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Writes {
    #[serde(rename = "ephemeral_5m_input_tokens")]
    short: Option<u64>,
    #[serde(rename = "ephemeral_1h_input_tokens")]
    long: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    thinking_tokens: Option<u64>,
}

impl Counts {
    /// Takes in a later report of the same answer.
    pub(super) fn update(&mut self, later: &Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.update_writes(later);
        self.cache_read_input_tokens = later
            .cache_read_input_tokens
            .or(self.cache_read_input_tokens);
        // Cumulative: a smaller count would take back what was written.
        self.output_tokens = later.output_tokens.max(self.output_tokens);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
    }

    /// The end of a stream restates the total of cache writes without its split. What has been added
    /// (by the vendor's own tools) had the lifetime that was asked for before: the dearer of two.
    fn update_writes(&mut self, later: &Self) {
        if later.cache_creation.is_some() {
            self.cache_creation = later.cache_creation;
        } else if let (Some(split), Some(total)) =
            (&mut self.cache_creation, later.cache_creation_input_tokens)
        {
            let more = total.saturating_sub(self.cache_creation_input_tokens.unwrap_or(0));
            let written = match split.long {
                None | Some(0) => &mut split.short,
                Some(_) => &mut split.long,
            };
            *written = Some(written.unwrap_or(0).saturating_add(more));
        }
        self.cache_creation_input_tokens = later
            .cache_creation_input_tokens
            .or(self.cache_creation_input_tokens);
    }

    /// The counts in their common meaning; `None` when nothing was reported.
    pub(super) fn normalise(&self) -> Option<Usage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let (write_5m, write_1h) = self.writes();
        let input = [
            self.input_tokens,
            self.cache_read_input_tokens,
            write_5m,
            write_1h,
        ];
        let input = input.into_iter().flatten().fold(0, u64::saturating_add);
        let output = self.output_tokens.unwrap_or(0);
        let details = self.output_tokens_details.unwrap_or_default();
        Some(Usage {
            input: Tokens(input),
            cache_read: self.cache_read_input_tokens.map(Tokens),
            cache_write_5m: write_5m.map(Tokens),
            cache_write_1h: write_1h.map(Tokens),
            output: Tokens(output),
            reasoning: details.thinking_tokens.map(|n| Tokens(n.min(output))),
            ..Usage::default()
        })
    }

    /// Cache writes of five minutes and of an hour. Without a split all count as five minutes, the
    /// default; what a split leaves of the total is charged at the dearer hour.
    fn writes(&self) -> (Option<u64>, Option<u64>) {
        let total = self.cache_creation_input_tokens;
        let Some(split) = self.cache_creation else {
            return (total, None);
        };
        let short = split.short;
        let long = split.long;
        let known = short.unwrap_or(0).saturating_add(long.unwrap_or(0));
        let rest = total.unwrap_or(0).saturating_sub(known);
        let long = match rest {
            0 => long,
            rest => Some(long.unwrap_or(0).saturating_add(rest)),
        };
        (short.or(total.map(|_| 0)), long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(json: &str) -> Counts {
        serde_json::from_str(json).unwrap()
    }

    fn parts(usage: Usage) -> [u64; 4] {
        let of = |tokens: Option<Tokens>| tokens.map_or(0, |tokens| tokens.0);
        [
            usage.input.0,
            of(usage.cache_read),
            of(usage.cache_write_5m),
            of(usage.cache_write_1h),
        ]
    }

    #[test]
    fn the_three_input_counts_are_added_up() {
        let usage = counts(
            r#"{"input_tokens":7,"cache_creation_input_tokens":10000,"cache_read_input_tokens":30,"output_tokens":4}"#,
        );
        assert_eq!(parts(usage.normalise().unwrap()), [10_037, 30, 10_000, 0]);
    }

    #[test]
    fn a_split_that_does_not_add_up_is_charged_at_the_dearer_rate() {
        let usage = counts(
            r#"{"input_tokens":1,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}"#,
        );
        assert_eq!(parts(usage.normalise().unwrap()), [101, 0, 10, 90]);
    }

    #[test]
    fn a_later_report_replaces_field_by_field() {
        let mut usage = counts(
            r#"{"input_tokens":100,"cache_read_input_tokens":50,"cache_creation_input_tokens":0,"output_tokens":1}"#,
        );
        usage.update(&counts(r#"{"output_tokens":20}"#));
        let both = usage.normalise().unwrap();
        assert_eq!(
            (parts(both)[..2].to_vec(), both.output.0),
            (vec![150, 50], 20)
        );
        usage.update(&counts(
            r#"{"input_tokens":3,"output_tokens":25,"output_tokens_details":{"thinking_tokens":5}}"#,
        ));
        let all = usage.normalise().unwrap();
        assert_eq!((all.input.0, all.output.0), (53, 25));
        assert_eq!(all.reasoning, Some(Tokens(5)));
    }

    #[test]
    fn a_total_restated_without_its_split_keeps_the_split() {
        let begun = |split: &str| {
            counts(&format!(
                r#"{{"input_tokens":0,"cache_creation_input_tokens":100,"cache_creation":{split},"output_tokens":1}}"#
            ))
        };
        let ends = |split: &str, total: u64| {
            let mut usage = begun(split);
            usage.update(&counts(&format!(
                r#"{{"cache_creation_input_tokens":{total}}}"#
            )));
            let [input, _, short, long] = parts(usage.normalise().unwrap());
            assert_eq!(input, short + long);
            (short, long)
        };
        let hour = r#"{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":100}"#;
        let minutes = r#"{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":0}"#;
        assert_eq!(ends(hour, 100), (0, 100));
        assert_eq!(ends(hour, 150), (0, 150));
        assert_eq!(ends(minutes, 150), (150, 0));
    }

    #[test]
    fn nothing_reported_is_not_zero() {
        assert_eq!(counts("{}").normalise(), None);
    }
}
