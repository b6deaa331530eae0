//! A socket to a vendor.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::link::Line;

/// A TCP connection to a vendor.
///
/// A failed write is not reported but noted, and what is written after it is thrown away: a vendor
/// that refuses an upload answers, and then resets what still comes. Whoever sees the reset first
/// must not hide the answer, so the reading side alone says how the connection ended.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: Option<TcpStream>,
    line: Arc<Line>,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, line: Arc<Line>) -> Self {
        Self {
            tcp: Some(tcp),
            line,
        }
    }

    /// Moves the socket to the runtime of the current thread.
    fn rebind(&mut self, line: Arc<Line>) -> io::Result<()> {
        let tcp = self.tcp.take().ok_or(io::ErrorKind::NotConnected)?;
        self.tcp = Some(TcpStream::from_std(tcp.into_std()?)?);
        self.line = line;
        Ok(())
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let tcp = self.tcp.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(tcp))
    }

    fn note(&self, result: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(written)) => {
                self.line.wrote();
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(error = %error, "a vendor takes no more of a request");
                self.line.write_failed();
                Poll::Ready(Ok(offered))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.line.has_write_failed() {
            return Poll::Ready(Ok(buf.len()));
        }
        let result = this.stream()?.poll_write(cx, buf);
        this.note(result, buf.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        if this.line.has_write_failed() {
            return Poll::Ready(Ok(offered));
        }
        let result = this.stream()?.poll_write_vectored(cx, bufs);
        this.note(result, offered)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_shutdown(cx)
    }
}

/// A connection to a vendor, plain or encrypted.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// Moves the connection to the runtime of the current thread, where `line` is told of it.
    pub(super) fn rebind(mut self, line: &Arc<Line>) -> io::Result<Self> {
        let socket = match &mut self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_mut().0,
        };
        socket.rebind(Arc::clone(line))?;
        Ok(self)
    }

    /// Whether the vendor chose HTTP/2 in the handshake.
    pub(super) fn chose_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
