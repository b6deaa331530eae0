//! What a pool has done and holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::error::{Phase, UpstreamError};

/// Connections and calls of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Open connections, idle ones included.
    pub open: usize,
    /// Open connections without a call.
    pub idle: usize,
    /// Calls under way.
    pub in_use: usize,
    /// Calls that wait for a connection.
    pub waiting: usize,
    /// Connections opened since the start.
    pub created: u64,
    /// Calls that took an open connection.
    pub reused: u64,
    /// Calls whose body was dropped before its end.
    pub cancelled: u64,
    /// Failed calls by phase, in the order of [`Phase::ALL`].
    pub failures: [u64; Phase::ALL.len()],
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) open: Arc<AtomicUsize>,
    pub(super) idle: AtomicUsize,
    pub(super) waiting: AtomicUsize,
    created: AtomicU64,
    reused: AtomicU64,
    cancelled: AtomicU64,
    failures: [AtomicU64; Phase::ALL.len()],
}

impl Counters {
    pub(super) fn read(&self) -> PoolCounts {
        let mut failures = [0; Phase::ALL.len()];
        for (to, from) in failures.iter_mut().zip(&self.failures) {
            *to = from.load(Ordering::Relaxed);
        }
        PoolCounts {
            open: self.open.load(Ordering::Relaxed),
            idle: self.idle.load(Ordering::Relaxed),
            in_use: 0,
            waiting: self.waiting.load(Ordering::Relaxed),
            created: self.created.load(Ordering::Relaxed),
            reused: self.reused.load(Ordering::Relaxed),
            cancelled: self.cancelled.load(Ordering::Relaxed),
            failures,
        }
    }

    pub(super) fn created(&self) {
        self.created.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, error: &UpstreamError) {
        let place = Phase::ALL.iter().position(|phase| *phase == error.phase);
        if let Some(count) = place.and_then(|place| self.failures.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the place of one open connection, unless `max` are open.
    pub(super) fn try_open(&self, max: usize) -> Option<OpenSlot> {
        self.open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
                (open < max).then_some(open.saturating_add(1))
            })
            .ok()
            .map(|_| OpenSlot(Arc::clone(&self.open)))
    }
}

/// The place of one open connection; given back on drop.
#[derive(Debug)]
pub(super) struct OpenSlot(Arc<AtomicUsize>);

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts one thing for as long as it lives.
#[derive(Debug)]
pub(super) struct Counting<'a>(&'a AtomicUsize);

impl<'a> Counting<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
