//! [`Connector`]: TCP connections to a fabric broker, which the host lets through.
//!
//! Problem: a host refuses its tenants' connections to fabric brokers, and has to distinguish the agent's sockets from
//! theirs by the first packet. Approach: the host gets the brokers' addresses, and each socket before it connects
//! ([`HostSockets`]). Names of brokers are resolved at the start and once a minute ([`follow`]), so that the hosts of
//! machines without a session refuse connections, too, and at each connection, which may be to a broker that a
//! redirection names.
//!
//! Worked example: `https://fabric.example.org:30567` is 10.0.0.9. A new socket gets its entry at the host, connects to
//! 10.0.0.9:30567, and loses the entry after it is closed.

use crate::url::BrokerUrl;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, timeout};
use tonic::codegen::Service;
use tonic::transport::Uri;
use tracing::{debug, warn};

/// The time after which the names of brokers are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(60);

/// The part of a host that refuses other programs' connections to fabric brokers. Methods do not wait for the network.
pub trait HostSockets: Debug + Send + Sync {
    /// Sets the addresses of a broker, in place of its earlier ones.
    ///
    /// # Errors
    /// The host does not refuse connections to all of them.
    fn set_broker(&self, broker: &BrokerUrl, addresses: &[SocketAddr]) -> io::Result<()>;

    /// Lets a socket, which has not connected yet, connect to brokers; returns the number for [`HostSockets::close`].
    ///
    /// # Errors
    /// The host would drop the socket's packets.
    fn open(&self, socket: BorrowedFd<'_>) -> io::Result<u64>;

    /// The socket of this number is closed.
    fn close(&self, number: u64);
}

/// The host, if it refuses connections.
pub(crate) type Host = Option<Arc<dyn HostSockets>>;

/// The connector of one connection.
pub(crate) struct Connector {
    pub(crate) broker: BrokerUrl,
    pub(crate) host: Host,
    /// The time for all addresses of the broker together.
    pub(crate) patience: Duration,
}

impl Service<Uri> for Connector {
    type Response = hyper_util::rt::TokioIo<Connection>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (broker, host, patience) = (self.broker.clone(), self.host.clone(), self.patience);
        Box::pin(async move { connect(&broker, &host, patience).await.map(hyper_util::rt::TokioIo::new) })
    }
}

/// Connects to the first address of a broker that accepts; each has its part of `patience`.
async fn connect(broker: &BrokerUrl, host: &Host, patience: Duration) -> io::Result<Connection> {
    let addresses = resolve(broker).await?;
    if let Some(host) = host
        && let Err(error) = host.set_broker(broker, &addresses)
    {
        debug!("connections of other programs to {broker} are not refused: {error}");
    }
    let each = patience / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in addresses {
        match timeout(each, connect_to(address, host)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, format!("no connection to {address} in time")),
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr, host: &Host) -> io::Result<Connection> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_nodelay(true)?;
    let entry = |host: &Arc<dyn HostSockets>| -> io::Result<Entry> {
        Ok(Entry { number: host.open(socket.as_fd())?, host: Arc::clone(host) })
    };
    let _entry = host.as_ref().map(entry).transpose()?;
    Ok(Connection { stream: socket.connect(address).await?, _entry })
}

/// The addresses of a broker now.
async fn resolve(broker: &BrokerUrl) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((broker.host(), broker.port())).await?.collect())
}

/// Hands the addresses of brokers to the host, now and whenever they change; returns if they cannot change.
pub(crate) async fn follow(brokers: Vec<BrokerUrl>, host: Arc<dyn HostSockets>) {
    let mut failures: Vec<Option<String>> = vec![None; brokers.len()];
    loop {
        for (broker, last) in brokers.iter().zip(&mut failures) {
            let set = resolve(broker).await.and_then(|addresses| host.set_broker(broker, &addresses));
            let failure = set.err().map(|error| error.to_string());
            // A repeated failure is logged once.
            if let Some(reason) = failure.as_ref().filter(|reason| last.as_ref() != Some(reason)) {
                warn!("connections of other programs to the fabric broker {broker} are not refused: {reason}");
            }
            *last = failure;
        }
        let is_fixed = |broker: &BrokerUrl| broker.host().parse::<std::net::IpAddr>().is_ok();
        if brokers.iter().all(is_fixed) && failures.iter().all(Option::is_none) {
            return;
        }
        tokio::time::sleep(RESOLVE_EVERY).await;
    }
}

/// The entry of a socket at the host, which ends with this.
struct Entry {
    host: Arc<dyn HostSockets>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.host.close(self.number);
    }
}

/// A connection to a broker.
pub(crate) struct Connection {
    /// Closed before its entry ends: fields are dropped in this order.
    stream: TcpStream,
    _entry: Option<Entry>,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::sync::{Mutex, PoisonError};

    /// The calls in their order; sockets have their descriptors as numbers.
    #[derive(Debug, Default)]
    struct Calls(Mutex<Vec<String>>);

    impl Calls {
        fn note(&self, call: String) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl HostSockets for Calls {
        fn set_broker(&self, broker: &BrokerUrl, addresses: &[SocketAddr]) -> io::Result<()> {
            self.note(format!("{broker} {addresses:?}"));
            Ok(())
        }

        fn open(&self, socket: BorrowedFd<'_>) -> io::Result<u64> {
            // SAFETY: an all-zero address is valid, and the call fills it.
            let mut peer: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
            let mut size = size_of_val(&peer) as libc::socklen_t;
            // SAFETY: the kernel writes at most `size` bytes to `peer`.
            let is_connected =
                unsafe { libc::getpeername(socket.as_raw_fd(), (&raw mut peer).cast(), &raw mut size) } == 0;
            self.note(format!("open, connected: {is_connected}"));
            Ok(7)
        }

        fn close(&self, number: u64) {
            self.note(format!("close {number}"));
        }
    }

    #[tokio::test]
    async fn socket_has_its_entry_from_before_it_connects_until_it_is_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let (calls, broker) = (Arc::new(Calls::default()), format!("https://{at}").parse().expect("an address"));
        let mut connector = Connector {
            broker,
            host: Some(Arc::clone(&calls) as Arc<dyn HostSockets>),
            patience: Duration::from_secs(5),
        };
        let connection = connector.call(Uri::from_static("https://unused")).await.expect("connected");
        let broker = format!("https://{at} [{at}]");
        assert_eq!(calls.take(), [broker.as_str(), "open, connected: false"]);
        drop(connection);
        assert_eq!(calls.take(), ["close 7"]);
        drop(listener);
        let refused = connector.call(Uri::from_static("https://unused")).await.map(drop).expect_err("refused");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(calls.take(), [broker.as_str(), "open, connected: false", "close 7"]);
    }

    #[tokio::test]
    async fn addresses_of_all_brokers_are_handed_over_without_a_connection() {
        let calls = Arc::new(Calls::default());
        let brokers = ["https://10.0.0.9", "https://[fd00::9]:9"].map(|text| text.parse().expect("an address"));
        follow(brokers.to_vec(), Arc::clone(&calls) as Arc<dyn HostSockets>).await;
        assert_eq!(calls.take(), ["https://10.0.0.9:30567 [10.0.0.9:30567]", "https://[fd00::9]:9 [[fd00::9]:9]"]);
    }
}
