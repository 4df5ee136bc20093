//! Connections that TLS has let in.
//!
//! Problem: a connection without a certificate of the CA must not cost more than a handshake, and
//! must be counted. Approach: a task accepts connections and starts a handshake for each. The
//! number of simultaneous handshakes is bounded, in total and per address, and so is the duration
//! of each. Only connections whose handshake succeeded reach gRPC, and `connections.rs` bounds
//! their number. The certificate in use can be replaced while the task runs.

use crate::connections::{Connection, Connections};
use crate::counters::Counters;
use crate::identity::names_of;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};

/// Simultaneous handshakes: each costs a signature, and all racks connect at once after an
/// election.
const HANDSHAKES: usize = 256;
/// Simultaneous handshakes of one source: a machine has one session, and a few connections that it
/// has given up. An idle client therefore cannot block the others. A source is an IPv4 address or
/// an IPv6 network of 64 bits, since a host there owns all addresses of its network (RFC 4291,
/// 2.5.4).
const HANDSHAKES_OF_ONE: usize = 16;
/// How long a handshake may take: a round trip of a second, twice.
const HANDSHAKE_TIME: Duration = Duration::from_secs(3);
/// Pause after a failed accept, which is caused by a lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The certificate in use.
#[derive(Debug, Clone)]
pub(crate) struct InUse(Arc<Mutex<Arc<ServerConfig>>>);

impl InUse {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(Mutex::new(config)))
    }
    /// Takes effect for connections from now on.
    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }
    fn get(&self) -> Arc<ServerConfig> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Running handshakes, by source.
#[derive(Debug, Clone, Default)]
struct Sources(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A running handshake; it ends when dropped.
struct Admission(Sources, IpAddr);

/// The source that an address counts for.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl Sources {
    /// Registers a handshake; `None` if the source of the address has [`HANDSHAKES_OF_ONE`]
    /// already.
    fn admit(&self, of: IpAddr) -> Option<Admission> {
        let of = source(of);
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = sources.entry(of).or_default();
        if *count == HANDSHAKES_OF_ONE {
            return None;
        }
        *count += 1;
        Some(Admission(self.clone(), of))
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut sources = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = sources.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.1);
            }
        }
    }
}

/// Connections whose client has a certificate of the CA.
pub(crate) fn incoming(
    listener: TcpListener,
    in_use: InUse,
    counters: Arc<Counters>,
) -> ReceiverStream<io::Result<Connection<TlsStream<TcpStream>>>> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let (handshakes, sources) = (Arc::new(Semaphore::new(HANDSHAKES)), Sources::default());
        let connections = Connections::default();
        loop {
            let Ok(permit) = handshakes.clone().acquire_owned().await else { return };
            let (stream, from) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        warn!("accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                () = send.closed() => return,
            };
            let Some(admission) = sources.admit(from.ip()) else {
                counters.handshakes_failed.add();
                debug!("connection from {from} refused: {HANDSHAKES_OF_ONE} handshakes of this source are open");
                continue;
            };
            let (acceptor, send, counters) = (TlsAcceptor::from(in_use.get()), send.clone(), counters.clone());
            let connections = connections.clone();
            tokio::spawn(async move {
                // Reports are small, so they must not wait for more data.
                let _ = stream.set_nodelay(true);
                let refused = match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        drop(admission);
                        let chain = stream.get_ref().1.peer_certificates();
                        let names = chain.and_then(<[_]>::first).map(names_of).unwrap_or_default();
                        let _ = send.send(Ok(connections.hold(names, stream))).await;
                        return;
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "it took too long".to_owned(),
                };
                drop((admission, permit));
                counters.handshakes_failed.add();
                debug!("connection from {from} refused: {refused}");
            });
        }
    });
    ReceiverStream::new(receive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_same_handshakes_with_all_its_addresses() {
        let sources = Sources::default();
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let admit = |text: &str| sources.admit(address(text));
        let six: Vec<_> = (0..HANDSHAKES_OF_ONE).map(|host| admit(&format!("2001:db8::{host:x}:1"))).collect();
        assert!(six.iter().all(Option::is_some));
        assert!(admit("2001:db8::ffff:0:0:1").is_none(), "another address of the same network");
        assert!(admit("2001:db8:0:1::1").is_some(), "another network");
        let four: Vec<_> = (0..HANDSHAKES_OF_ONE).map(|_| admit("10.0.0.1")).collect();
        assert!(four.iter().all(Option::is_some));
        assert!(admit("::ffff:10.0.0.1").is_none(), "the same address, as a dual-stack socket reports it");
        assert!(admit("10.0.0.2").is_some());
        drop(six);
        assert!(admit("2001:db8::1").is_some(), "the end of a handshake admits another one");
    }
}
