//! A bound address.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

/// The queue of connections that the kernel keeps while no worker has time. A burst beyond it is
/// refused by the kernel; `net.core.somaxconn` (4096 by default) caps it.
const BACKLOG: i32 = 4096;

/// A client that vanished without a word is noticed within two minutes or so.
const PROBE_AFTER: Duration = Duration::from_mins(1);
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// A bound and listening address. All workers accept from the one socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
}

impl Listener {
    /// Binds `address`; port 0 takes any free one.
    ///
    /// The address may still be in use by connections of a former process, but not by another
    /// listener: a second gateway on the same port must fail, not take half of the traffic.
    ///
    /// # Errors
    ///
    /// What the operating system says, such as an address in use or a port that needs privileges.
    pub fn bind(address: SocketAddr, max_connections: usize) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        // Accepted sockets inherit these on Linux, which saves two calls for each connection.
        socket.set_tcp_nodelay(true)?;
        let probes = TcpKeepalive::new()
            .with_time(PROBE_AFTER)
            .with_interval(PROBE_EVERY);
        socket.set_tcp_keepalive(&probes)?;
        socket.bind(&address.into())?;
        let backlog = i32::try_from(max_connections).unwrap_or(i32::MAX);
        socket.listen(backlog.max(BACKLOG))?;
        Ok(Self {
            socket: socket.into(),
        })
    }

    /// The bound address, with the port that was taken.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Another handle on the same socket, for another worker.
    pub(super) fn share(&self) -> io::Result<TcpListener> {
        self.socket.try_clone()
    }
}
