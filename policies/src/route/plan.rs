//! The order in which targets are tried, chosen before the first attempt.
//!
//! A route's candidates come in ranks: all of a lower rank before any of a higher. Within a rank the
//! load is shared by weight: at random, to the least busy, or so that equal prompts meet the same
//! target and key, whose cache is warm. The last uses weighted rendezvous hashing (Thaler and
//! Ravishankar, 1998): each candidate draws a number from the hash of the fingerprint and its own
//! name, and the highest comes first. A candidate that leaves or joins moves only its own share of
//! the prompts. A candidate far busier than its share steps back, so that one popular prompt cannot
//! swamp it ("Consistent Hashing with Bounded Loads", Mirrokni et al., 2016).

use alloc::vec::Vec;
use core::cmp::Ordering;

use rand_core::Rng;

use crate::ids::{KeyIndex, TargetId};
use crate::units::Tokens;

/// A target that may serve a request: it can express it, and evidence admits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// `provider/model`.
    pub target: TargetId,
    /// Lower ranks are tried first.
    pub rank: u32,
    /// Its share among those of its rank; 0 comes last.
    pub weight: u32,
    /// How many keys the provider has; 0 for a provider that wants none.
    pub keys: u16,
    /// The model's context window, where known.
    pub context_window: Option<Tokens>,
}

/// How candidates of equal rank are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Equal fingerprints in the same order, for the sake of the vendor's prompt cache.
    Affinity(u64),
    /// The fewest calls in flight for its weight first.
    LeastInFlight,
    /// At random, by weight.
    Weighted,
}

/// The targets of one request, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    entries: Vec<Entry>,
}

/// A place in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `provider/model`.
    pub target: TargetId,
    /// Entries of one rank are peers: one may stand in for another at any time.
    pub rank: u32,
    /// The provider's keys in the order to use them; never empty.
    pub keys: Vec<KeyIndex>,
    /// The model's context window, where known.
    pub context_window: Option<Tokens>,
}

impl Plan {
    /// Puts candidates in order. `in_flight` tells how many calls a target is serving.
    ///
    /// With [`Choice::Affinity`] the keys too are in an order that depends on the fingerprint;
    /// otherwise they are in the order of the configuration.
    pub fn new(
        candidates: Vec<Candidate>,
        choice: Choice,
        in_flight: &dyn Fn(&TargetId) -> u32,
        rng: &mut dyn Rng,
    ) -> Self {
        let crowded = Crowd::of(&candidates, in_flight);
        let mut ranked: Vec<(Place, Candidate)> = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let (late, score) = match choice {
                Choice::Affinity(fingerprint) => {
                    let name = candidate.target.as_str().as_bytes();
                    let score = weighted(hash(fingerprint, name), candidate.weight);
                    (crowded.is_too_busy(&candidate, in_flight), score)
                }
                Choice::LeastInFlight => {
                    let busy = f64::from(in_flight(&candidate.target)) + 1.0;
                    (false, -busy / f64::from(candidate.weight))
                }
                Choice::Weighted => (false, weighted(rng.next_u64(), candidate.weight)),
            };
            let place = Place {
                rank: candidate.rank,
                late: late || candidate.weight == 0,
                score,
            };
            ranked.push((place, candidate));
        }
        ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
        let entry = |(_, candidate): (Place, Candidate)| Entry {
            keys: keys(&candidate, choice),
            target: candidate.target,
            rank: candidate.rank,
            context_window: candidate.context_window,
        };
        Self {
            entries: ranked.into_iter().map(entry).collect(),
        }
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether there is no target at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

struct Place {
    rank: u32,
    late: bool,
    score: f64,
}

impl Place {
    /// Lower rank, then not late, then the higher score.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_rank = self.rank.cmp(&other.rank);
        by_rank
            .then(self.late.cmp(&other.late))
            .then(other.score.total_cmp(&self.score))
    }
}

/// The load of each rank.
struct Crowd {
    ranks: Vec<(u32, u64, u64)>,
}

impl Crowd {
    fn of(candidates: &[Candidate], in_flight: &dyn Fn(&TargetId) -> u32) -> Self {
        let mut ranks: Vec<(u32, u64, u64)> = Vec::new();
        for candidate in candidates {
            let load = u64::from(in_flight(&candidate.target));
            let weight = u64::from(candidate.weight);
            match ranks.iter_mut().find(|(rank, ..)| *rank == candidate.rank) {
                Some((_, loads, weights)) => {
                    *loads += load;
                    *weights += weight;
                }
                None => ranks.push((candidate.rank, load, weight)),
            }
        }
        Self { ranks }
    }

    /// Past 1.25 times its share of the rank's load, this call included.
    fn is_too_busy(&self, candidate: &Candidate, in_flight: &dyn Fn(&TargetId) -> u32) -> bool {
        let rank = self.ranks.iter().find(|(rank, ..)| *rank == candidate.rank);
        let Some((_, loads, weights)) = rank else {
            return false;
        };
        let own = u64::from(in_flight(&candidate.target));
        let share = (loads + 1) * u64::from(candidate.weight) * 5;
        let bound = share.div_ceil((weights * 4).max(1));
        own + 1 > bound
    }
}

fn keys(candidate: &Candidate, choice: Choice) -> Vec<KeyIndex> {
    let mut keys: Vec<KeyIndex> = (0..candidate.keys.max(1)).map(KeyIndex).collect();
    if let Choice::Affinity(fingerprint) = choice {
        let provider = candidate.target.provider().as_bytes();
        keys.sort_by_cached_key(|key| {
            let seed = fingerprint.rotate_left(32) ^ u64::from(key.0).wrapping_add(1);
            core::cmp::Reverse(hash(seed, provider))
        });
    }
    keys
}

/// `ln(u) / weight` for `u` uniform in (0, 1): its order is a weighted random order (Efraimidis and
/// Spirakis, 2006), and a weighted rendezvous order where the bits are a hash.
fn weighted(bits: u64, weight: u32) -> f64 {
    let top = u32::try_from(bits >> 32).unwrap_or(u32::MAX);
    let uniform = (f64::from(top) + 0.5) / 4_294_967_296.0;
    libm::log(uniform) / f64::from(weight.max(1))
}

fn hash(seed: u64, name: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(name);
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::ToString;
    use alloc::{format, vec};

    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    fn candidate(target: &str, rank: u32, weight: u32) -> Candidate {
        Candidate {
            target: TargetId::from(target),
            rank,
            weight,
            keys: 2,
            context_window: None,
        }
    }

    fn order(candidates: &[Candidate], choice: Choice, seed: u64) -> Vec<Entry> {
        let mut rng = SmallRng::seed_from_u64(seed);
        Plan::new(candidates.to_vec(), choice, &|_| 0, &mut rng).entries
    }

    fn firsts(candidates: &[Candidate], choice: impl Fn(u64) -> Choice) -> BTreeMap<TargetId, u32> {
        let mut counts = BTreeMap::new();
        for seed in 0..3_000 {
            let first = order(candidates, choice(seed), seed).remove(0);
            *counts.entry(first.target).or_default() += 1;
        }
        counts
    }

    #[test]
    fn ranks_come_in_order_whatever_their_weights() {
        let candidates = [
            candidate("c/m", 2, 9),
            candidate("a/m", 0, 1),
            candidate("b/m", 1, 5),
        ];
        for choice in [Choice::Weighted, Choice::LeastInFlight, Choice::Affinity(4)] {
            let names = order(&candidates, choice, 1);
            let names: Vec<&str> = names.iter().map(|e| e.target.as_str()).collect();
            assert_eq!(names, ["a/m", "b/m", "c/m"]);
        }
    }

    #[test]
    fn peers_share_by_weight_at_random_and_by_hash() {
        let candidates = [candidate("a/m", 0, 1), candidate("b/m", 0, 2)];
        for counts in [
            firsts(&candidates, |_| Choice::Weighted),
            firsts(&candidates, |seed| {
                Choice::Affinity(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            }),
        ] {
            let share = counts[&TargetId::from("b/m")];
            assert!((1_850..=2_150).contains(&share), "{share} of 3000");
        }
    }

    #[test]
    fn a_weight_of_zero_comes_last_among_its_peers() {
        let candidates = [candidate("a/m", 0, 0), candidate("b/m", 0, 1)];
        for choice in [Choice::Weighted, Choice::LeastInFlight, Choice::Affinity(4)] {
            assert_eq!(order(&candidates, choice, 3)[1].target.as_str(), "a/m");
        }
    }

    #[test]
    fn a_fingerprint_keeps_its_target_and_key_when_others_leave() {
        let all: Vec<Candidate> = (0..5)
            .map(|i| candidate(&format!("p{i}/m"), 0, 1))
            .collect();
        for fingerprint in 0..200 {
            let before = order(&all, Choice::Affinity(fingerprint), 1);
            assert_eq!(before, order(&all, Choice::Affinity(fingerprint), 2));
            let last = before[4].target.to_string();
            let rest: Vec<Candidate> = all
                .iter()
                .filter(|c| c.target.as_str() != last)
                .cloned()
                .collect();
            let after = order(&rest, Choice::Affinity(fingerprint), 1);
            assert_eq!(before[..4], after[..]);
        }
    }

    #[test]
    fn keys_share_fingerprints() {
        let candidates = [candidate("a/m", 0, 1)];
        let first = |fingerprint| order(&candidates, Choice::Affinity(fingerprint), 1)[0].keys[0];
        let second = (0..1_000).filter(|f| first(*f) == KeyIndex(1)).count();
        assert!((400..=600).contains(&second), "{second} of 1000");
        assert_eq!(
            order(&candidates, Choice::Weighted, 9)[0].keys,
            vec![KeyIndex(0), KeyIndex(1)]
        );
    }

    #[test]
    fn a_swamped_target_steps_back_and_an_idle_one_is_preferred() {
        let candidates = vec![candidate("a/m", 0, 1), candidate("b/m", 0, 1)];
        let mut rng = SmallRng::seed_from_u64(1);
        for fingerprint in 0..50 {
            let busy = |target: &TargetId| if target.as_str() == "a/m" { 40 } else { 10 };
            for choice in [Choice::Affinity(fingerprint), Choice::LeastInFlight] {
                let plan = Plan::new(candidates.clone(), choice, &busy, &mut rng);
                assert_eq!(plan.entries()[0].target.as_str(), "b/m");
            }
        }
    }

    #[test]
    fn a_provider_without_keys_has_one_place() {
        let mut local = candidate("local/m", 0, 1);
        local.keys = 0;
        assert_eq!(order(&[local], Choice::Weighted, 1)[0].keys, [KeyIndex(0)]);
    }
}
