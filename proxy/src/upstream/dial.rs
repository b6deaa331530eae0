//! Opening a connection: name, address, handshake.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::error::{Kind, Phase, Sent, UpstreamError};
use super::link::Line;
use super::socket::{Socket, Stream};
use super::timer::LazyTimer;

/// How long an answer of the resolver is used without asking again.
const NAME_LIFE: Duration = Duration::from_secs(30);

/// How long an address has before the next is tried beside it (RFC 8305, section 8).
const HEAD_START: Duration = Duration::from_millis(250);

/// A connection on which nothing moves is probed, so that a vendor that vanished is noticed and
/// routers on the way do not forget a long, silent answer.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// Where a vendor is and how it is spoken to.
pub(super) struct Dialer {
    host: Host,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    resolved: Mutex<Option<Resolved>>,
}

#[derive(Clone, Debug)]
enum Host {
    Address(IpAddr),
    Name(String),
}

#[derive(Clone, Debug)]
struct Resolved {
    addresses: Arc<[SocketAddr]>,
    at: Instant,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Dialer {
    pub(super) fn new(
        host: &str,
        port: u16,
        tls: Option<(TlsConnector, ServerName<'static>)>,
    ) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host = match bare.parse() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(bare.to_owned()),
        };
        Self {
            host,
            port,
            tls,
            resolved: Mutex::new(None),
        }
    }

    /// Opens a connection by `deadline`. The error says which step failed or was too slow.
    pub(super) async fn dial(
        &self,
        line: &Arc<Line>,
        deadline: Instant,
    ) -> Result<Stream, UpstreamError> {
        let addresses = self.addresses(deadline).await?;
        let connected = within(Phase::Connect, deadline, race(&addresses)).await;
        let tcp = match connected {
            Ok(tcp) => tcp,
            Err(error) => {
                // The vendor may have moved.
                self.forget();
                return Err(error);
            }
        };
        let socket = Socket::new(tcp, Arc::clone(line));
        match &self.tls {
            None => Ok(Stream::Plain(socket)),
            Some((connector, name)) => {
                let handshake = connector.connect(name.clone(), socket);
                let stream = within(Phase::Tls, deadline, handshake).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }

    async fn addresses(&self, deadline: Instant) -> Result<Arc<[SocketAddr]>, UpstreamError> {
        let name = match &self.host {
            Host::Address(address) => {
                return Ok(Arc::new([SocketAddr::new(*address, self.port)]));
            }
            Host::Name(name) => name,
        };
        let known = self.lock().clone();
        let now = super::now();
        if let Some(known) = &known
            && now.saturating_duration_since(known.at) < NAME_LIFE
        {
            return Ok(Arc::clone(&known.addresses));
        }
        let lookup = async {
            let found = tokio::net::lookup_host((name.as_str(), self.port)).await?;
            let addresses = interleaved(found.collect());
            if addresses.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(Arc::<[SocketAddr]>::from(addresses))
        };
        match within(Phase::Dns, deadline, lookup).await {
            Ok(addresses) => {
                *self.lock() = Some(Resolved {
                    addresses: Arc::clone(&addresses),
                    at: now,
                });
                Ok(addresses)
            }
            Err(error) => match known {
                // An old address is better than none while the resolver is away.
                Some(known) => {
                    tracing::warn!(host = %name, "the resolver fails; a former address is used");
                    Ok(known.addresses)
                }
                None if error.kind == Kind::TimedOut => Err(error),
                None => Err(UpstreamError {
                    kind: Kind::NameNotFound,
                    ..error
                }),
            },
        }
    }

    fn forget(&self) {
        if let Some(known) = self.lock().as_mut()
            && let Some(earlier) = known.at.checked_sub(NAME_LIFE)
        {
            known.at = earlier;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Resolved>> {
        self.resolved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn within<T>(
    phase: Phase,
    deadline: Instant,
    step: impl Future<Output = io::Result<T>>,
) -> Result<T, UpstreamError> {
    match timeout_at(deadline, step).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(UpstreamError::from_io(phase, Sent::Nothing, error)),
        Err(_) => Err(UpstreamError::new(phase, Kind::TimedOut, Sent::Nothing)),
    }
}

/// Alternates between the families, the resolver's first choice first (RFC 8305, section 4).
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let longest = first.len().max(second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    (0..longest)
        .flat_map(|_| [first.next(), second.next()])
        .flatten()
        .collect()
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// The first address that answers (RFC 8305, section 5): each has a head start before the next.
async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    if let [address] = addresses {
        return connect(*address).await;
    }
    let mut waiting = addresses.iter();
    let mut running: Vec<Connecting> = Vec::new();
    let mut timer = LazyTimer::default();
    let mut next_start = super::now();
    let mut last_error = io::Error::from(io::ErrorKind::NotFound);
    poll_fn(|cx| {
        loop {
            if waiting.len() > 0 && timer.poll(cx, next_start).is_ready() {
                running.extend(waiting.next().map(|address| {
                    let connecting: Connecting = Box::pin(connect(*address));
                    connecting
                }));
                next_start = super::now() + HEAD_START;
                continue;
            }
            let mut failed = None;
            for (place, attempt) in running.iter_mut().enumerate() {
                match attempt.as_mut().poll(cx) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                    Poll::Ready(Err(error)) => {
                        failed = Some((place, error));
                        break;
                    }
                    Poll::Pending => {}
                }
            }
            let Some((place, error)) = failed else {
                return Poll::Pending;
            };
            drop(running.swap_remove(place));
            last_error = error;
            next_start = super::now();
            if running.is_empty() && waiting.len() == 0 {
                let error = std::mem::replace(&mut last_error, io::ErrorKind::Other.into());
                return Poll::Ready(Err(error));
            }
        }
    })
    .await
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_EVERY);
    SockRef::from(&stream).set_tcp_keepalive(&probes)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_alternate_from_the_first_choice() {
        let found = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"].map(address);
        let expected = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"].map(address);
        assert_eq!(interleaved(found.to_vec()), expected);
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_passed_over_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = address("127.0.0.1:1");
        let stream = race(&[closed, open]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let error = race(&[closed, address("127.0.0.1:2")]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn an_old_address_serves_while_the_resolver_fails() {
        let dialer = Dialer::new("name.invalid", 1, None);
        let deadline = crate::upstream::now() + Duration::from_secs(5);
        let error = dialer.addresses(deadline).await.unwrap_err();
        assert_eq!((error.phase, error.kind), (Phase::Dns, Kind::NameNotFound));
        let addresses: Arc<[SocketAddr]> = Arc::new([address("127.0.0.1:1")]);
        *dialer.lock() = Some(Resolved {
            addresses: Arc::clone(&addresses),
            at: crate::upstream::now(),
        });
        dialer.forget();
        assert_eq!(dialer.addresses(deadline).await.unwrap(), addresses);
    }
}
