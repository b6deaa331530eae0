//! A scripted vendor: a server that answers byte for byte as it is told and remembers all it heard.
//!
//! A gateway's hardest cases begin with a vendor that misbehaves: a stream cut inside a character,
//! a length that lies, a reset behind the last token. HTTP libraries refuse to produce these, so
//! the HTTP/1.1 side writes the wire itself. HTTP/2 and TLS are offered for well-formed replies.
//!
//! ```
//! # async fn example() -> Result<(), whippletree_loadtest::vendor::VendorError> {
//! use whippletree_loadtest::vendor::{End, Reply, Script, Vendor};
//!
//! let vendor = Vendor::start(Script::replies([
//!     Reply::none(End::Reset),
//!     Reply::stub("openai_ok"),
//! ]))
//! .await?;
//! let base_url = format!("http://{}/v1", vendor.addr());
//! // … send requests to `base_url` …
//! assert_eq!(vendor.requests().len(), 0);
//! vendor.stop().await;
//! # Ok(()) }
//! ```
//!
//! Limits: a client that half-closes its side counts as gone; an end other than `clean` on HTTP/2
//! resets the stream, not the connection.

mod answer;
mod chaos;
pub mod generate;
mod http1;
mod http2;
mod plan;
mod record;
mod script;
mod stub;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::client::{Piece, events_of};
use crate::clock;
use answer::Stage;
pub use chaos::Chaos;
pub use generate::Generator;
pub use plan::expand;
pub use record::{Recording, Request};
pub use script::{End, Headers, Reply, Script, ScriptError, Write};
pub use tls::Identity;

/// Why a vendor could not be started.
#[derive(Debug, Error)]
pub enum VendorError {
    /// The address could not be bound.
    #[error("cannot listen")]
    Listen(#[from] io::Error),
    /// The script holds something that cannot be played.
    #[error("script cannot be played")]
    Script(#[from] ScriptError),
    /// The certificate could not be made or used.
    #[error("cannot make a TLS identity: {0}")]
    Tls(String),
}

/// How a vendor listens and what it keeps.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Loopback and a free port when absent.
    pub listen: Option<SocketAddr>,
    /// TLS with this identity; HTTP/2 is chosen by ALPN.
    pub tls: Option<Identity>,
    /// Without TLS: speak HTTP/2 by prior knowledge.
    pub http2: bool,
    /// How much of each request is kept.
    pub recording: Recording,
}

/// A running vendor. It stops when dropped.
#[derive(Debug)]
pub struct Vendor {
    addr: SocketAddr,
    stage: Arc<Stage>,
    accepting: JoinHandle<()>,
}

impl Vendor {
    /// Starts a vendor on loopback, at the script's address or a free port.
    ///
    /// # Errors
    ///
    /// [`VendorError::Listen`] when the address is taken, [`VendorError::Script`] when the script
    /// cannot be played.
    pub async fn start(script: Script) -> Result<Self, VendorError> {
        Self::bind(script, Options::default()).await
    }

    /// Starts a vendor with options.
    ///
    /// # Errors
    ///
    /// As [`Vendor::start`], and [`VendorError::Tls`] when the identity cannot be used.
    #[expect(
        clippy::unused_async,
        reason = "it must be called inside a runtime, and says so"
    )]
    pub async fn bind(script: Script, options: Options) -> Result<Self, VendorError> {
        let named = script.listen.as_deref().and_then(|text| text.parse().ok());
        let wanted = options
            .listen
            .or(named)
            .unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let acceptor = options.tls.as_ref().map(Identity::acceptor).transpose()?;
        let listener = listen(wanted)?;
        let addr = listener.local_addr()?;
        let stage = Arc::new(Stage::new(script, options.recording)?);
        let accepting = tokio::spawn(accept(
            listener,
            acceptor,
            options.http2,
            Arc::clone(&stage),
        ));
        Ok(Self {
            addr,
            stage,
            accepting,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// All requests so far, in the order in which their heads arrived.
    pub fn requests(&self) -> Vec<Request> {
        self.stage.record.requests()
    }

    /// How many heads arrived, whatever is recorded of them.
    pub fn request_count(&self) -> u64 {
        self.stage.record.request_count()
    }

    /// How many clients left before their answer's end.
    pub fn disconnect_count(&self) -> u64 {
        self.stage.record.disconnect_count()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> u64 {
        self.stage.record.connection_count()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.stage.record.open_connections()
    }

    /// Plays another script from its first reply on; requests under way keep theirs.
    ///
    /// # Errors
    ///
    /// [`VendorError::Script`] when the script cannot be played; the old one stays.
    pub fn set_script(&self, script: Script) -> Result<(), VendorError> {
        Ok(self.stage.set(script)?)
    }

    /// Gives these replies to the next requests, in place of any that still wait to be given first,
    /// and then goes on with its script, whose memory stays.
    ///
    /// # Errors
    ///
    /// [`VendorError::Script`] when a reply cannot be played; nothing is changed.
    pub fn play_first(&self, replies: impl IntoIterator<Item = Reply>) -> Result<(), VendorError> {
        Ok(self.stage.play_first(replies.into_iter().collect())?)
    }

    /// The data of every event that the script's first reply writes.
    pub fn scripted_events(&self) -> Vec<String> {
        let bytes = self.stage.first_body();
        let pieces = [Piece {
            at: clock::now(),
            bytes,
        }];
        events_of(&pieces)
            .into_iter()
            .map(|event| event.data)
            .collect()
    }

    /// Waits until `done` holds of the requests, at most `limit`; whether it does.
    pub async fn wait_until(&self, limit: Duration, done: impl Fn(&[Request]) -> bool) -> bool {
        self.stage.record.wait(limit, done).await
    }

    /// Closes the listener and every connection.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // Its end is the abort, which was asked for.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(addr),
        socket2::Type::STREAM,
        None,
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(4096)?;
    TcpListener::from_std(socket.into())
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    http2: bool,
    stage: Arc<Stage>,
) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely: give the others time to close.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let stage = Arc::clone(&stage);
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let open = OpenConnection::of(&stage);
            connection(stream, acceptor, http2, &stage, open.number).await;
        });
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    http2: bool,
    stage: &Arc<Stage>,
    number: u64,
) {
    // Without it a write would wait for the peer's acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        if http2 {
            http2::serve(stream, stage, number).await;
        } else {
            http1::serve(stream, stage, number).await;
        }
        return;
    };
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(stream, stage, number).await;
    } else {
        http1::serve(stream, stage, number).await;
    }
}

/// Counts a connection as open for as long as it lives, however it ends.
struct OpenConnection {
    stage: Arc<Stage>,
    number: u64,
}

impl OpenConnection {
    fn of(stage: &Arc<Stage>) -> Self {
        Self {
            stage: Arc::clone(stage),
            number: stage.record.accepted(),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.stage.record.closed();
    }
}
