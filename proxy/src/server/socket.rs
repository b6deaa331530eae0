//! A client's socket, with what the worker must know of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::watch::{Phase, Watch};

/// How much of an upload is thrown away after its answer at most. Twice the default body limit and
/// more: a client that sends a body just over the limit must come to its end and read the answer.
const LINGER_BYTES: usize = 256 * 1024 * 1024;

/// A client's TCP connection.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: TcpStream,
    watch: Arc<Watch>,
    closing: Closing,
}

#[derive(Debug)]
enum Closing {
    No,
    Lingering { left: usize },
    Done,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, watch: Arc<Watch>) -> Self {
        Self {
            tcp,
            watch,
            closing: Closing::No,
        }
    }

    /// The first bytes, left in place. Fewer come only when the client has closed.
    pub(super) async fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        self.tcp.peek(to).await
    }

    fn note_write(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if result.is_pending() {
            self.watch.write_stalled();
        } else {
            self.watch.write_went_on();
        }
        result
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let result = Pin::new(&mut this.tcp).poll_read(cx, buf);
        if result.is_ready() && buf.filled().len() > before {
            this.watch.bytes_came();
        }
        result
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.tcp).poll_write(cx, buf);
        this.note_write(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.tcp).poll_write_vectored(cx, bufs);
        this.note_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    /// Closes for writing, and where the client may still be sending reads on for a while: closing
    /// with unread bytes makes the kernel send a reset, which can overtake the answer.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.closing {
                Closing::No => {
                    ready!(Pin::new(&mut this.tcp).poll_shutdown(cx))?;
                    this.closing = if this.watch.must_linger() {
                        this.watch.enter(Phase::Linger);
                        Closing::Lingering { left: LINGER_BYTES }
                    } else {
                        Closing::Done
                    };
                }
                Closing::Lingering { left } => {
                    let mut scratch = [0_u8; 16 * 1024];
                    let mut buf = ReadBuf::new(&mut scratch);
                    let result = ready!(Pin::new(&mut this.tcp).poll_read(cx, &mut buf));
                    let read = buf.filled().len();
                    *left = left.saturating_sub(read);
                    if result.is_err() || read == 0 || *left == 0 {
                        this.closing = Closing::Done;
                    }
                }
                Closing::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// A client's connection, plain or encrypted.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
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
