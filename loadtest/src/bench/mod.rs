//! The gateway beside nginx, a bare relay and no proxy at all.

pub mod cpu;
pub mod relay;
