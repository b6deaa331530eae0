//! What can go wrong on the way to a vendor and back.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Where a call was when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Reading the answer's body.
    Body,
    /// Opening a TCP connection.
    Connect,
    /// Looking up the vendor's name.
    Dns,
    /// Waiting for the answer's head, the request being sent.
    FirstByte,
    /// Waiting between two pieces of the answer's body.
    Idle,
    /// Waiting for a connection of the pool. Says nothing about the vendor.
    Pool,
    /// Sending the request.
    Send,
    /// The TLS handshake.
    Tls,
    /// The whole call.
    Total,
}

impl Phase {
    /// All phases, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Body,
        Self::Connect,
        Self::Dns,
        Self::FirstByte,
        Self::Idle,
        Self::Pool,
        Self::Send,
        Self::Tls,
        Self::Total,
    ];

    /// The name used in metrics and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Connect => "connect",
            Self::Dns => "dns",
            Self::FirstByte => "first_byte",
            Self::Idle => "idle",
            Self::Pool => "pool",
            Self::Send => "send",
            Self::Tls => "tls",
            Self::Total => "total",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much of the request the vendor may have seen. Decides whether another try is safe, and
/// whether this one may have cost something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sent {
    /// Certainly none of it.
    Nothing,
    /// Some or all of it.
    Maybe,
    /// All that the vendor wanted: it has answered.
    Answered,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The connection ended before the answer did.
    Closed,
    /// What came is not HTTP, or its framing is broken.
    Malformed,
    /// The vendor's name has no address.
    NameNotFound,
    /// Something else.
    Other,
    /// Nobody listens at the address.
    Refused,
    /// The connection or the stream was reset.
    Reset,
    /// All connections of the pool are in use.
    Saturated,
    /// The phase took longer than it may.
    TimedOut,
    /// The handshake failed, such as over a certificate.
    Tls,
    /// The body is longer than the reader wants.
    TooLarge,
    /// No way leads to the address.
    Unreachable,
}

impl Kind {
    /// The name used in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Malformed => "malformed",
            Self::NameNotFound => "name_not_found",
            Self::Other => "other",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Saturated => "saturated",
            Self::TimedOut => "timed_out",
            Self::Tls => "tls",
            Self::TooLarge => "too_large",
            Self::Unreachable => "unreachable",
        }
    }
}

/// A call that came to no whole answer.
#[derive(Clone, Debug)]
pub struct UpstreamError {
    /// Where the call was.
    pub phase: Phase,
    /// What went wrong.
    pub kind: Kind,
    /// How much of the request the vendor may have seen.
    pub sent: Sent,
    /// Whether the connection had served another call before. A reset of such a one is often only
    /// a vendor that closed an idle connection at the same moment.
    pub reused: bool,
    pub(super) source: Option<Arc<dyn Error + Send + Sync>>,
}

impl UpstreamError {
    pub(super) fn new(phase: Phase, kind: Kind, sent: Sent) -> Self {
        Self {
            phase,
            kind,
            sent,
            reused: false,
            source: None,
        }
    }

    pub(super) fn from_io(phase: Phase, sent: Sent, error: io::Error) -> Self {
        let kind = kind_of_io(&error);
        Self::new(phase, kind, sent).with_source(error)
    }

    pub(super) fn from_hyper(phase: Phase, sent: Sent, error: hyper::Error) -> Self {
        let kind = kind_of_hyper(&error);
        let sent = if was_refused(&error) {
            Sent::Nothing
        } else {
            sent
        };
        Self::new(phase, kind, sent).with_source(error)
    }

    pub(super) fn with_source(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Arc::new(source)),
            ..self
        }
    }

    pub(super) fn on_reused(self, reused: bool) -> Self {
        Self { reused, ..self }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = match self.phase {
            Phase::Body | Phase::Idle => "reading the vendor's answer",
            Phase::Connect => "connecting to the vendor",
            Phase::Dns => "looking up the vendor's name",
            Phase::FirstByte => "waiting for the vendor's answer",
            Phase::Pool => "waiting for a connection to the vendor",
            Phase::Send => "sending to the vendor",
            Phase::Tls => "the handshake with the vendor",
            Phase::Total => "the whole call",
        };
        let what = match self.kind {
            Kind::Closed => "the connection ended too early",
            Kind::Malformed => "what came is not valid HTTP",
            Kind::NameNotFound => "the name has no address",
            Kind::Refused => "the connection was refused",
            Kind::Reset => "the connection was reset",
            Kind::Saturated => "all connections are in use",
            Kind::TimedOut => "it took too long",
            Kind::Other | Kind::Tls => "it failed",
            Kind::TooLarge => "the answer is too large",
            Kind::Unreachable => "the network is unreachable",
        };
        write!(f, "{doing}: {what}")
    }
}

impl Error for UpstreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source: &(dyn Error + 'static) = self.source.as_deref()?;
        Some(source)
    }
}

pub(super) fn kind_of_io(error: &io::Error) -> Kind {
    if error
        .get_ref()
        .is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
    {
        return Kind::Tls;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Kind::Refused,
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected => Kind::Reset,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Kind::Unreachable,
        io::ErrorKind::TimedOut => Kind::TimedOut,
        io::ErrorKind::UnexpectedEof => Kind::Closed,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Kind::Malformed,
        _ => Kind::Other,
    }
}

fn kind_of_hyper(error: &hyper::Error) -> Kind {
    if error.is_parse() {
        return Kind::Malformed;
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return Kind::Closed;
    }
    for cause in causes(error) {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            let kind = kind_of_io(io);
            if kind != Kind::Other {
                return kind;
            }
        }
        if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            return if h2.is_reset() || h2.is_go_away() {
                Kind::Reset
            } else if h2.is_io() {
                h2.get_io().map_or(Kind::Reset, kind_of_io)
            } else {
                Kind::Malformed
            };
        }
    }
    if error.is_timeout() {
        return Kind::TimedOut;
    }
    Kind::Other
}

/// Whether the vendor said by HTTP/2 that it did not look at the request (RFC 9113, section 8.7).
fn was_refused(error: &hyper::Error) -> bool {
    causes(error).any(|cause| {
        cause
            .downcast_ref::<h2::Error>()
            .is_some_and(|h2| h2.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| {
        let cause: &'a (dyn Error + 'static) = *cause;
        cause.source()
    })
}
