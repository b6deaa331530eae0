//! A vendor's prompt cache, as its usage reports show it.
//!
//! The prompt is cut into blocks of a fixed number of tokens; each block's name is the keyed hash
//! of the block before it and of its own bytes, so a block is found only behind the very same
//! prefix. A chain is as good as its first missing or expired block.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::time::{Duration, Instant};

use super::{CacheRules, ttl};

/// Beyond so many blocks the expired ones are swept out, and if all are alive everything is
/// forgotten, as by a vendor under pressure.
const BLOCKS_KEPT: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Prefixes {
    key: RandomState,
    block_tokens: u64,
    minimum_tokens: u64,
    ttl: Duration,
    blocks: HashMap<u64, Instant>,
}

impl Prefixes {
    pub(super) fn new(rules: &CacheRules) -> Self {
        Self {
            key: RandomState::new(),
            block_tokens: u64::from(rules.block_tokens.max(1)),
            minimum_tokens: u64::from(rules.minimum_tokens),
            ttl: ttl(rules),
            blocks: HashMap::new(),
        }
    }

    /// How many tokens of this prompt were cached; afterwards all its whole blocks are.
    pub(super) fn reuse(&mut self, model: &str, prompt: &[u8], now: Instant) -> u64 {
        let block_bytes = usize::try_from(self.block_tokens * 4).unwrap_or(usize::MAX);
        let mut chain = self.key.hash_one(model);
        let mut unbroken = true;
        let mut hits = 0;
        for block in prompt.chunks_exact(block_bytes) {
            let mut hasher = self.key.build_hasher();
            chain.hash(&mut hasher);
            block.hash(&mut hasher);
            chain = hasher.finish();
            let last_use = self.blocks.insert(chain, now);
            unbroken &= last_use.is_some_and(|at| now.saturating_duration_since(at) < self.ttl);
            hits += u64::from(unbroken);
        }
        self.sweep(now);
        let cached = hits * self.block_tokens;
        if cached < self.minimum_tokens {
            0
        } else {
            cached
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self.blocks.len() > BLOCKS_KEPT {
            let ttl = self.ttl;
            self.blocks
                .retain(|_, at| now.saturating_duration_since(*at) < ttl);
        }
        if self.blocks.len() > BLOCKS_KEPT {
            self.blocks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn prefixes() -> Prefixes {
        Prefixes::new(&CacheRules::default())
    }

    #[test]
    fn an_appended_prompt_reuses_all_whole_blocks_before_it() {
        let mut prefixes = prefixes();
        let now = clock::now();
        let mut prompt = vec![b'a'; 10_000];
        assert_eq!(prefixes.reuse("m", &prompt, now), 0);
        prompt.extend_from_slice(&[b'b'; 3_000]);
        assert_eq!(prefixes.reuse("m", &prompt, now), (10_000 / 512) * 128);
        assert_eq!(prefixes.reuse("other", &prompt, now), 0);
    }

    #[test]
    fn a_change_at_the_front_loses_everything_behind_it() {
        let mut prefixes = prefixes();
        let now = clock::now();
        let mut prompt = vec![b'a'; 10_000];
        prefixes.reuse("m", &prompt, now);
        prompt[0] = b'z';
        assert_eq!(prefixes.reuse("m", &prompt, now), 0);
    }

    #[test]
    fn nothing_below_the_minimum_is_reported() {
        let mut prefixes = prefixes();
        let now = clock::now();
        let prompt = vec![b'a'; 1023 * 4];
        prefixes.reuse("m", &prompt, now);
        assert_eq!(prefixes.reuse("m", &prompt, now), 0);
    }

    #[test]
    fn a_prefix_is_forgotten_when_it_was_not_used_for_its_lifetime() {
        let mut prefixes = prefixes();
        let now = clock::now();
        let prompt = vec![b'a'; 8192];
        prefixes.reuse("m", &prompt, now);
        assert_eq!(
            prefixes.reuse("m", &prompt, now + Duration::from_secs(299)),
            2048
        );
        assert_eq!(
            prefixes.reuse("m", &prompt, now + Duration::from_secs(598)),
            2048
        );
        assert_eq!(
            prefixes.reuse("m", &prompt, now + Duration::from_secs(899)),
            0
        );
    }
}
