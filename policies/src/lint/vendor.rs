//! How vendors cache: what is kept, for how long, and in which steps it is read.
//!
//! Sources: the vendors' prompt-caching pages, read November 2026. A model that no row names gets
//! the most common behaviour: automatic, from 1,024 tokens, in steps of 128, for five minutes.

use core::time::Duration;

use crate::units::Tokens;

/// Where the vendor keeps something to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Anywhere: the longest known prefix is read, rounded down to the step.
    Anywhere,
    /// Only at the end of each request, and at explicit marks.
    Ends {
        /// How many earlier ends are considered.
        considered: u32,
    },
    /// Only at the caller's marks.
    Marks {
        /// Positions before a mark at which an earlier entry is still found.
        look_back: u32,
        /// The most marks a request may carry.
        most: u32,
    },
}

/// The caching rules of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Shorter prefixes are silently not cached.
    pub minimum: Tokens,
    /// Reads are rounded down to a multiple of this.
    pub step: Tokens,
    /// Where entries exist.
    pub entries: Entries,
    /// How long an entry lives after its last use.
    pub lifetime: Duration,
    /// The longer lifetime that may be asked for; equal to `lifetime` where there is none.
    pub long_lifetime: Duration,
    /// A change of reasoning effort or thinking configuration loses the prefix.
    pub effort_matters: bool,
    /// Reasoning must be sent back as it came.
    pub reasoning_returns: bool,
    /// Calls with one prefix and cache key, per minute, beyond which they spill to other machines.
    pub calls_per_minute: Option<u32>,
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Automatic caching as most vendors with an OpenAI-like API have it.
const AUTOMATIC: Caching = Caching {
    minimum: Tokens(1024),
    step: Tokens(128),
    entries: Entries::Anywhere,
    lifetime: minutes(5),
    long_lifetime: minutes(5),
    effort_matters: true,
    reasoning_returns: false,
    calls_per_minute: None,
};

/// OpenAI before gpt-5.6.
const OPENAI: Caching = Caching {
    lifetime: minutes(10),
    long_lifetime: minutes(24 * 60),
    calls_per_minute: Some(15),
    ..AUTOMATIC
};

/// OpenAI from gpt-5.6: entries at breakpoints, exact.
const OPENAI_BREAKPOINTS: Caching = Caching {
    step: Tokens(1),
    entries: Entries::Ends { considered: 80 },
    lifetime: minutes(30),
    long_lifetime: minutes(12 * 60),
    ..OPENAI
};

const ANTHROPIC: Caching = Caching {
    step: Tokens(1),
    entries: Entries::Marks {
        look_back: 20,
        most: 4,
    },
    long_lifetime: minutes(60),
    reasoning_returns: true,
    ..AUTOMATIC
};

const DEEPSEEK: Caching = Caching {
    minimum: Tokens(64),
    step: Tokens(64),
    lifetime: minutes(120),
    long_lifetime: minutes(120),
    reasoning_returns: true,
    effort_matters: false,
    ..AUTOMATIC
};

/// The rules for a model, by its name at the vendor. A `provider/` in front and a date behind do
/// no harm.
pub fn caching(model: &str) -> Caching {
    let name = model.rsplit('/').next().unwrap_or(model);
    let has = |part: &str| contains_ignoring_case(name, part);
    if has("claude") {
        return Caching {
            minimum: anthropic_minimum(name),
            ..ANTHROPIC
        };
    }
    if has("nova") && (has("amazon") || contains_ignoring_case(model, "nova-")) {
        return Caching {
            reasoning_returns: false,
            ..ANTHROPIC
        };
    }
    if has("deepseek") {
        return DEEPSEEK;
    }
    if has("kimi") || has("moonshot") || has("glm") {
        return Caching {
            minimum: Tokens(256),
            step: Tokens(if has("glm") { 64 } else { 256 }),
            reasoning_returns: true,
            effort_matters: false,
            ..AUTOMATIC
        };
    }
    if has("gemini") {
        let minimum = if has("gemini-3") || has("gemini-4") {
            4096
        } else if has("pro") {
            2048
        } else {
            1024
        };
        return Caching {
            minimum: Tokens(minimum),
            effort_matters: false,
            ..AUTOMATIC
        };
    }
    match gpt_version(name) {
        Some(version) if version >= (5, 6) => OPENAI_BREAKPOINTS,
        Some(_) => OPENAI,
        None => AUTOMATIC,
    }
}

/// From the vendor's table of minimum cacheable lengths.
fn anthropic_minimum(name: &str) -> Tokens {
    let has = |part: &str| contains_ignoring_case(name, part);
    let five = has("opus-5") || has("sonnet-5-5") || has("sonnet-5.5") || has("haiku-5");
    Tokens(if five || has("fable") || has("mythos") {
        512
    } else if has("opus-4-7") || has("opus-4.7") || has("3-5-haiku") || has("haiku-3") {
        2048
    } else if [
        "opus-4-6",
        "opus-4.6",
        "opus-4-5",
        "opus-4.5",
        "haiku-4-5",
        "haiku-4.5",
    ]
    .iter()
    .any(|part| has(part))
    {
        4096
    } else {
        1024
    })
}

/// `gpt-5.6-mini` is (5, 6), `gpt-4o` (4, 0), `o3` (4, 0).
fn gpt_version(name: &str) -> Option<(u32, u32)> {
    let lower = name.as_bytes();
    if lower.first() == Some(&b'o') && lower.get(1).is_some_and(u8::is_ascii_digit) {
        return Some((4, 0));
    }
    let rest = name
        .strip_prefix("gpt-")
        .or_else(|| name.strip_prefix("openai.gpt-"))
        .or_else(|| name.strip_prefix("chatgpt-"))?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let major = numbers.next()?.ok()?;
    let dotted = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let minor = if dotted.starts_with('.') {
        numbers.next().and_then(Result::ok).unwrap_or(0)
    } else {
        0
    };
    Some((major, minor))
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.as_bytes()
        .windows(part.len().max(1))
        .any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_its_vendors_minimum_step_and_entries() {
        let claude = caching("claude-opus-4-5-20251101");
        assert_eq!(claude.minimum, Tokens(4096));
        assert!(matches!(
            claude.entries,
            Entries::Marks {
                look_back: 20,
                most: 4
            }
        ));
        assert_eq!(caching("anthropic/claude-opus-5.5").minimum, Tokens(512));
        assert_eq!(caching("claude-sonnet-4-5").minimum, Tokens(1024));
        assert_eq!(caching("gpt-4o-mini"), OPENAI);
        assert_eq!(caching("o3"), OPENAI);
        assert_eq!(caching("gpt-5.5"), OPENAI);
        assert_eq!(caching("openai/gpt-5.6-mini"), OPENAI_BREAKPOINTS);
        assert_eq!(caching("gpt-6"), OPENAI_BREAKPOINTS);
        assert_eq!(caching("deepseek-chat").step, Tokens(64));
        assert_eq!(caching("google/gemini-3-pro-preview").minimum, Tokens(4096));
        assert_eq!(caching("m"), AUTOMATIC);
    }
}
