//! Where a request can go: [`plan`] puts a route's targets in order, [`health`] says which of them
//! may be sent to now, by [`breaker`]s on failures and by cool-downs of keys.

pub mod breaker;
pub mod health;
pub mod plan;

mod fleet;
mod latch;
mod lock;
mod obstacles;
