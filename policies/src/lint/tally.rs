//! Findings over time: one cause is one entry.
//!
//! The same fault shows at every request. A [`Tally`] keeps one entry for each cause (a rule at a
//! place, on a route, for a harness), with when it was seen first and last, how often, and what it
//! cost. It is bounded: beyond its size the cause that cost least goes.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use super::finding::Finding;
use crate::time::UnixTime;
use crate::units::{Money, MoneySum, Tokens};

/// One cause.
#[derive(Clone, Debug)]
pub struct Tallied {
    /// The latest finding of it.
    pub latest: Finding,
    /// The route, or whatever the caller groups by.
    pub group: Arc<str>,
    /// When it was seen first.
    pub first_seen: UnixTime,
    /// When it was seen last.
    pub last_seen: UnixTime,
    /// Requests in which it was seen.
    pub requests: u64,
    /// Tokens lost in all of them.
    pub lost_tokens: Tokens,
    /// What they cost, where prices are known.
    pub lost: MoneySum,
}

/// All causes seen.
#[derive(Debug)]
pub struct Tally {
    causes: BTreeMap<(Arc<str>, &'static str, String), Tallied>,
    most: usize,
}

impl Tally {
    /// At most `most` causes.
    pub const fn new(most: usize) -> Self {
        Self {
            causes: BTreeMap::new(),
            most,
        }
    }

    /// Adds a finding of `group`.
    pub fn add(&mut self, group: &Arc<str>, finding: &Finding, now: UnixTime) {
        let (code, path) = finding.cause();
        let key = (Arc::clone(group), code, path);
        if self.causes.len() >= self.most && !self.causes.contains_key(&key) {
            let least = self
                .causes
                .iter()
                .min_by_key(|(_, cause)| (cause.lost, cause.last_seen));
            if let Some(least) = least.map(|(key, _)| key.clone()) {
                self.causes.remove(&least);
            }
        }
        let cause = self.causes.entry(key).or_insert_with(|| Tallied {
            latest: finding.clone(),
            group: Arc::clone(group),
            first_seen: now,
            last_seen: now,
            requests: 0,
            lost_tokens: Tokens::ZERO,
            lost: MoneySum::ZERO,
        });
        cause.requests += 1;
        cause.last_seen = cause.last_seen.max(now);
        cause.lost_tokens = cause.lost_tokens.plus(finding.lost_tokens);
        cause.lost.add(finding.lost.unwrap_or(Money::ZERO));
        // The first occurrence with its windows is the one to show.
        if finding.severity > cause.latest.severity {
            cause.latest = finding.clone();
        }
    }

    /// Every cause, the dearest first.
    pub fn causes(&self) -> alloc::vec::Vec<&Tallied> {
        let mut all: alloc::vec::Vec<&Tallied> = self.causes.values().collect();
        all.sort_by_key(|cause| {
            core::cmp::Reverse((
                cause.latest.severity,
                cause.lost,
                cause.lost_tokens,
                cause.requests,
            ))
        });
        all
    }
}
