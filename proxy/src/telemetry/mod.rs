//! Tells others what happened: metrics for machines, log lines for people.
//!
//! Both derive from the [`Exchange`](crate::exchange::Exchange) and neither holds prompts, answers
//! or keys.

pub mod declare;
mod labels;
pub mod log;
pub mod metrics;
mod series;
