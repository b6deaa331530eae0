//! A kept connection: requests one after the other, as SDKs send them.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::wire::{Head, Wire, WireError};

/// A connection that is opened when needed and kept while the peer keeps it.
#[derive(Debug)]
pub struct Session {
    addr: SocketAddr,
    wire: Option<Wire<TcpStream>>,
    out: BytesMut,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The status.
    pub status: u16,
    /// The head.
    pub head: Head,
    /// The body.
    pub body: Bytes,
}

impl Session {
    /// A session with this server; nothing is sent yet.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            wire: None,
            out: BytesMut::new(),
        }
    }

    /// Sends a JSON request and reads the whole answer.
    ///
    /// # Errors
    ///
    /// When no connection comes about or the answer breaks; the connection is then given up.
    pub async fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Whole, WireError> {
        self.out.clear();
        self.out
            .extend_from_slice(request_head(path, headers, body.len()).as_bytes());
        self.out.extend_from_slice(body);
        self.send_prepared(&mut |_| {}).await
    }

    /// Sends bytes that are a whole request, and tells each piece of the answer's body as it comes.
    ///
    /// # Errors
    ///
    /// As [`Session::post`].
    pub async fn send_raw(
        &mut self,
        request: &[u8],
        tell: &mut (dyn FnMut(&Bytes) + Send),
    ) -> Result<Whole, WireError> {
        self.out.clear();
        self.out.extend_from_slice(request);
        self.send_prepared(tell).await
    }

    async fn send_prepared(
        &mut self,
        tell: &mut (dyn FnMut(&Bytes) + Send),
    ) -> Result<Whole, WireError> {
        // Taken out, so that a call that is dropped or fails leaves no half-read connection behind.
        let mut wire = if let Some(wire) = self.wire.take() {
            wire
        } else {
            let stream = TcpStream::connect(self.addr).await?;
            stream.set_nodelay(true)?;
            Wire::new(stream)
        };
        wire.stream.write_all(&self.out).await?;
        let head = wire.head().await?.ok_or(WireError::Cut)?;
        let status = head.status().ok_or(WireError::Malformed("status line"))?;
        let mut framing = head.answer_framing("POST")?;
        let mut body = BytesMut::new();
        while let Some(piece) = wire.piece(&mut framing).await? {
            tell(&piece);
            body.extend_from_slice(&piece);
        }
        if !head.closes() {
            self.wire = Some(wire);
        }
        Ok(Whole {
            status,
            head,
            body: body.freeze(),
        })
    }
}

/// The head of a JSON POST.
pub fn request_head(path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut lines = vec![
        format!("POST {path} HTTP/1.1"),
        "host: gateway.test".to_owned(),
        "content-type: application/json".to_owned(),
        format!("content-length: {length}"),
    ];
    lines.extend(
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}")),
    );
    lines.join("\r\n") + "\r\n\r\n"
}
