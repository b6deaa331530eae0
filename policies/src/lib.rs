//! Pure decisions of Whippletree.
//!
//! Everything here is a value or a deterministic state machine: given the time, a random source and
//! what happened, it says what to do next. It never waits, reads a clock, locks or sends. The crate
//! is `no_std`, so the compiler checks that for us.
//!
//! Map: [`units`], [`time`], [`ids`] and [`usage`] are the vocabulary; [`cost`] prices a usage.
//! [`outcome`] says what an attempt came to, [`retry`] what follows from that, [`route`] which
//! targets there are and how they fare, and [`attempt`] decides, step by step, from all of these.
//! [`task`] says which agent run a request belongs to, and whether that has gone wild;
//! [`limit`] and [`budget`] say what it may still use and spend.
#![no_std]

extern crate alloc;

pub mod attempt;
pub mod budget;
pub mod cache;
pub mod cost;
pub mod ids;
pub mod limit;
pub mod lint;
pub mod outcome;
pub mod retry;
pub mod route;
pub mod task;
pub mod time;
pub mod units;
pub mod usage;

mod random;
mod window;
