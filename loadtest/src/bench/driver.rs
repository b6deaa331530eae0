//! Whole answers under open-loop load.
//!
//! Requests start when the schedule says, not when the last one has ended, and their latency counts
//! from that instant: a server that stalls cannot hide it by holding the clients back (Gil Tene's
//! "coordinated omission"). Each connection has a thread of its own, since the timers of the
//! runtime tick in milliseconds and a proxy adds microseconds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;

use super::bodies::Body;
use crate::client::{Session, request_head};
use crate::clock;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to send.
#[derive(Debug, Clone)]
pub struct Load {
    /// To whom.
    pub addr: SocketAddr,
    /// What.
    pub body: Body,
    /// Request headers.
    pub headers: Vec<(String, String)>,
    /// Arrivals per second.
    pub rate: u32,
    /// For how long.
    pub duration: Duration,
    /// Connections; more requests than these cannot be under way.
    pub connections: usize,
    /// The first request's number.
    pub first_number: u64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Driven {
    /// Nanoseconds from the intended start to the answer's last byte.
    pub latency: Histogram<u64>,
    /// Answers with status 200.
    pub served: u64,
    /// Other statuses and broken connections.
    pub failed: u64,
}

/// Sends the load and waits for every answer.
///
/// # Errors
///
/// When a thread cannot be started.
pub fn drive(load: &Load) -> anyhow::Result<Driven> {
    let next = Arc::new(AtomicU64::new(0));
    let total = u64::from(load.rate) * u64::try_from(load.duration.as_millis())? / 1_000;
    let start = clock::now() + Duration::from_millis(50);
    let threads: Vec<_> = (0..load.connections)
        .map(|_| {
            let (load, next) = (load.clone(), Arc::clone(&next));
            std::thread::Builder::new().spawn(move || connection(&load, &next, total, start))
        })
        .collect::<Result<_, _>>()?;
    let mut whole = Driven::new()?;
    for thread in threads {
        let part = thread.join().ok().context("a client thread broke")??;
        whole.latency.add(&part.latency)?;
        whole.served += part.served;
        whole.failed += part.failed;
    }
    Ok(whole)
}

impl Driven {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            latency: Histogram::new(3)?,
            served: 0,
            failed: 0,
        })
    }
}

fn connection(load: &Load, next: &AtomicU64, total: u64, start: Instant) -> anyhow::Result<Driven> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let headers: Vec<(&str, &str)> = load
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let head = request_head("/v1/chat/completions", &headers, load.body.size());
    let mut session = Session::new(load.addr);
    let mut driven = Driven::new()?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= total {
            return Ok(driven);
        }
        let mut request = head.clone().into_bytes();
        request.extend_from_slice(&load.body.numbered(load.first_number + number));
        let due = start + Duration::from_secs(number) / load.rate.max(1);
        std::thread::sleep(due.saturating_duration_since(clock::now()));
        let answer = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, session.send_raw(&request, &mut |_| {})).await
        });
        let took = clock::nanos_between(due, clock::now());
        if matches!(answer, Ok(Ok(answer)) if answer.status == 200) {
            driven.served += 1;
            driven.latency.record(took)?;
        } else {
            driven.failed += 1;
        }
    }
}
