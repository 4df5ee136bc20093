//! Connections that TLS has let in.
//!
//! Problem: a connection without a certificate of the CA must not cost more than a handshake, must
//! be counted, and must not keep a machine out, not even one from the machine's own address, which
//! any process there can open. Approach: a task accepts every connection at once and starts a
//! handshake for it. The number of simultaneous handshakes is bounded, and so is the duration of
//! each; at the bound a new one replaces the oldest of the source that has most of them
//! (`weir_observe::admission`). Where no source has more than one, as when all racks connect after an
//! election, the next connection waits instead until one ends or is older than [`LEAST_TIME`]. Only
//! connections whose handshake succeeded reach gRPC, and `connections.rs` bounds their number. The
//! certificate in use can be replaced while the task runs.
//!
//! Consequence: a machine is let in beside handshakes of its own address if fewer than
//! [`HANDSHAKES`] begin while its own lasts. Idle ones are always the oldest. Its own lasts for
//! longer the more handshakes of others the broker works on at the time.

use crate::connections::{Connection, Connections};
use crate::counters::Counters;
use crate::identity::names_of;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};
use weir_observe::admission::Admissions;

/// Simultaneous handshakes. Each costs a descriptor and about 20 kB. Further ones wait in the queue of
/// the listener, which is as long ([`listen`]): all of them are admitted within [`LEAST_TIME`], since every handshake
/// that keeps them waiting is older by then.
const HANDSHAKES: usize = 1_024;
/// The time that a handshake has where its source has no other: all [`HANDSHAKES`] at once take less
/// on one processor, at half a millisecond each. Idle connections from very many addresses are replaced
/// this much later.
const LEAST_TIME: Duration = Duration::from_secs(1);
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

/// Listens with a queue of [`HANDSHAKES`] connections (of `net.core.somaxconn` if that is less). The queue of
/// `TcpListener::bind` has 128: the kernel ignores requests beyond it, which clients repeat after 1 s, 3 s and 7 s.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(HANDSHAKES as u32)
}

/// Connections whose client has a certificate of the CA.
pub(crate) fn incoming(
    listener: TcpListener,
    in_use: InUse,
    counters: Arc<Counters>,
) -> ReceiverStream<io::Result<Connection<TlsStream<TcpStream>>>> {
    bounded(listener, in_use, counters, HANDSHAKES)
}

/// The same with at most `most` simultaneous handshakes.
fn bounded(
    listener: TcpListener,
    in_use: InUse,
    counters: Arc<Counters>,
    most: usize,
) -> ReceiverStream<io::Result<Connection<TlsStream<TcpStream>>>> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let (handshakes, connections) = (Admissions::new(most), Connections::default());
        loop {
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
            let (handshake, replaced) = handshakes.admit_after(from.ip(), LEAST_TIME).await;
            let (acceptor, send, counters) = (TlsAcceptor::from(in_use.get()), send.clone(), counters.clone());
            let connections = connections.clone();
            tokio::spawn(async move {
                // Reports are small, so they must not wait for more data.
                let _ = stream.set_nodelay(true);
                let accepted = tokio::select! {
                    accepted = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)) => accepted,
                    _ = replaced => {
                        counters.handshakes_replaced.add();
                        debug!("connection from {from} ended: a newer one replaced it");
                        return;
                    }
                };
                drop(handshake);
                let refused = match accepted {
                    Ok(Ok(stream)) => {
                        let chain = stream.get_ref().1.peer_certificates();
                        let names = chain.and_then(<[_]>::first).map(names_of).unwrap_or_default();
                        let _ = send.send(Ok(connections.hold(names, stream))).await;
                        return;
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "it took too long".to_owned(),
                };
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
    use crate::ca::{Ca, Holder};
    use crate::clock::now_s;
    use crate::identity::Identity;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;
    use tokio_rustls::TlsConnector;
    use tokio_stream::StreamExt;

    /// The identities of a broker at 127.0.0.1 and of a machine.
    fn identities() -> (Identity, TlsConnector) {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, _) = Ca::open(directory.path()).expect("made");
        let (holder, machine) = (Holder::Fabric(vec!["127.0.0.1".to_owned()]), Holder::Machine("m1".to_owned()));
        ca.issue(&holder, 2).expect("made");
        ca.issue(&machine, 2).expect("made");
        let files = ca.files(&machine);
        let identity = Identity::of_broker(&ca.files(&holder), None, now_s()).expect("sound");
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_file(&files.ca).expect("a certificate")).expect("a CA");
        let own = CertificateDer::from_pem_file(&files.certificate).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&files.private_key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let client = client.expect("versions").with_root_certificates(trusted);
        let mut client = client.with_client_auth_cert(vec![own], key).expect("an identity");
        client.alpn_protocols = vec![b"h2".to_vec()];
        // No session is resumed: an agent has another client for each connection.
        client.resumption = rustls::client::Resumption::disabled();
        (identity, TlsConnector::from(Arc::new(client)))
    }

    #[tokio::test]
    async fn connections_beyond_the_handshakes_wait_in_the_queue() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
        let address = listener.local_addr().expect("an address");
        // Half of the queue, since tests may have 1,024 descriptors. Beyond it, a connection takes a minute or more.
        let connect = async {
            let mut waiting = Vec::new();
            for _ in 0..HANDSHAKES / 2 {
                waiting.push(TcpStream::connect(address).await.expect("it listens"));
            }
            waiting.len()
        };
        assert_eq!(tokio::time::timeout(Duration::from_secs(30), connect).await, Ok(HANDSHAKES / 2));
    }

    #[tokio::test]
    async fn new_handshakes_replace_the_oldest_and_are_counted() {
        let (identity, _) = identities();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let counters = Arc::new(Counters::default());
        let _incoming = bounded(listener, InUse::new(identity.server()), counters.clone(), 4);
        let mut clients = Vec::new();
        for _ in 0..6 {
            clients.push(TcpStream::connect(address).await.expect("it listens"));
        }
        for replaced in &mut clients[..2] {
            assert!(matches!(replaced.read(&mut [0]).await, Ok(0) | Err(_)));
        }
        assert_eq!((counters.handshakes_replaced.get(), counters.handshakes_failed.get()), (2, 0));
        for refused in &mut clients[2..] {
            assert_eq!(refused.read(&mut [0]).await.expect("ended by the timeout"), 0);
        }
        assert_eq!((counters.handshakes_replaced.get(), counters.handshakes_failed.get()), (2, 4));
    }

    #[tokio::test]
    async fn a_storm_of_genuine_handshakes_of_as_many_addresses_replaces_none() {
        let (identity, connector) = identities();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let counters = Arc::new(Counters::default());
        let mut incoming = bounded(listener, InUse::new(identity.server()), counters.clone(), 4);
        // All connect before the first handshake goes on.
        let mut clients = Vec::new();
        for host in 1..=12 {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(std::net::SocketAddr::from(([127, 0, 0, host], 0))).expect("a loopback address");
            clients.push(socket.connect(address).await.expect("it listens"));
        }
        for client in clients {
            let connector = connector.clone();
            let name = ServerName::try_from("127.0.0.1").expect("a name");
            tokio::spawn(async move {
                // Held open: a certificate has four connections, the newest ones, and that is tested elsewhere.
                let mut stream = connector.connect(name, client).await.expect("let in");
                let _ = stream.read(&mut [0]).await;
            });
        }
        for _ in 0..12 {
            let next = tokio::time::timeout(HANDSHAKE_TIME * 3, incoming.next()).await.expect("all are let in");
            next.expect("the listener is open").expect("let in");
        }
        assert_eq!((counters.handshakes_replaced.get(), counters.handshakes_failed.get()), (0, 0));
    }

    #[tokio::test]
    async fn a_machine_is_let_in_beside_idle_connections_of_its_own_address() {
        let (identity, connector) = identities();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let counters = Arc::new(Counters::default());
        let mut incoming = bounded(listener, InUse::new(identity.server()), counters.clone(), 4);
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let (mut idle, mut times) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            idle.push(TcpStream::connect(address).await.expect("it listens"));
            let begun = Instant::now();
            let client = TcpStream::connect(address).await.expect("it listens");
            let (machine, connection) = tokio::join!(connector.connect(name.clone(), client), incoming.next());
            connection.expect("the listener is open").expect("let in");
            times.push(begun.elapsed());
            drop(machine.expect("let in"));
        }
        assert_eq!(counters.handshakes_failed.get(), 0);
        times.sort();
        println!(
            "from the connection to its TLS session: {:?} in the median of 100, at most {:?}",
            times[50], times[99]
        );
    }
}
