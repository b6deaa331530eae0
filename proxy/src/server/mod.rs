//! The data plane's listeners and the connections of clients.
//!
//! The problem: a gateway's answers are short work and long waits. What it costs is decided by how
//! many times a request wakes a thread, not by how fast one function runs; and whoever can open a
//! socket can try to hold it for ever.
//!
//! The idea: one thread per core, each with a runtime of its own ([`worker`]). A connection is
//! accepted by whichever worker is free, given to the worker that has the fewest, and never leaves
//! it. The whole way of a request over HTTP/1.1 (reading, handling, the call upstream, writing)
//! runs in the one task of its connection. What a client may keep waiting is written down in a
//! [`watch::Watch`] per connection and looked through a few times a second, so that a request arms
//! no timer here.
//!
//! Limits: a connection keeps its worker, so one core's worth of work on one HTTP/2 connection
//! stays on one core.

mod connection;
mod descriptors;
mod listener;
mod receive;
mod refuse;
mod running;
mod socket;
mod watch;
mod worker;

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};

pub use connection::Upload;
pub use descriptors::raise_open_files;
pub use listener::Listener;
pub use receive::{InflightBytes, ReceiveError, ReceiveLimits, Received, receive_body};
pub use refuse::HeadFault;
pub use running::{Counts, Running, Shares, start};
pub use worker::{background, worker_index};

/// What answers requests. Its future is dropped when the client leaves.
pub trait Handler: Clone + Send + Sync + Unpin + 'static {
    /// What answers are made of.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Unpin
        + Send
        + 'static;

    /// Answers one request. A failure is an answer too. Called on a clone, so that the future may
    /// keep the handler; make clones cheap.
    fn handle(
        self,
        request: Request<Upload>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;

    /// Answers a head that is no request; the connection ends behind the answer. Its body must be at
    /// hand, whole: nobody waits for it.
    fn refuse(&self, fault: HeadFault) -> Response<Self::Body>;
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub encryption: Encryption,
}

/// Whether a connection is encrypted, and whether the client has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// TLS, and the client's certificate is one of `client_ca`.
    MutualTls,
    /// Plain text.
    None,
    /// TLS.
    Tls,
}
