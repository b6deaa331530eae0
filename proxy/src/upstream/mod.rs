//! The one place that sends to vendors.
//!
//! The problem: a gateway is judged by what it adds. A task per connection doubles the wake-ups of
//! each request; one timeout for everything takes a full pool for a dead vendor; a client that
//! retries by itself pays twice behind the back of whoever decides about retries.
//!
//! The idea: an HTTP/1.1 connection has no task. It is a value ([`link::Link`]) that the request's
//! own future polls, so one wake-up of the client's connection reads the vendor's bytes and writes
//! them on. Between requests it lies in the stack of its worker ([`pool`]). Dropping the future or
//! the body closes it at once: that is how a call is cancelled. HTTP/2 is for vendors that ask for
//! it ([`http2`]); its connections are shared and run as tasks.
//!
//! Each phase has its own limit and its own error: waiting for the pool, name, connect, handshake,
//! sending, first byte, silence, and the whole. An error says as well whether anything had been
//! sent. Nothing is sent twice, except a request that certainly no byte was sent of, because the
//! kept connection had been closed: it goes out once more on a new one. No redirect is followed.

mod answer;
mod counts;
mod dial;
mod error;
mod gzip;
mod http2;
mod link;
mod pool;
mod request;
mod send;
mod socket;
mod timer;

pub use answer::{Answer, UpstreamBody};
pub use counts::PoolCounts;
pub use error::{Kind, Phase, Sent, UpstreamError};
pub use gzip::{Gunzip, GunzipError, gunzip};
pub use pool::Pool;
pub use request::{Call, RequestBody};

/// The upstream's name for now; durations and deadlines are kept in tokio's instants.
fn now() -> tokio::time::Instant {
    crate::clock::tokio_instant(crate::clock::now())
}
