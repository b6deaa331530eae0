//! The outside world, played: scripted vendors, clients and load.
//!
//! A gateway can only be trusted as far as what stands around it can be controlled: a vendor that
//! cuts a stream in the middle of a character, a client that never reads, a thousand sockets that
//! send a header byte every two seconds. This crate plays both sides over the wire. It imports
//! nothing of the gateway's own crates, so it cannot share their bugs.
//!
//! - [`vendor`]: a scripted vendor, byte-exact, and a generator that behaves as a real one would;
//! - [`client`]: an HTTP/1.1 client that shows every byte, when it came and how it ended;
//! - [`cases`]: plays `cases.jsonl` against a fresh gateway process for each case;
//! - [`mod@bench`]: the gateway beside nginx, a bare relay and no proxy at all, in one run.

pub mod bench;
pub mod cases;
pub mod client;
pub mod clock;
pub mod scenario;
pub mod vendor;
pub mod wire;
