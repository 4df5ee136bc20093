//! Connections that TLS has let in.
//!
//! Problem: whoever is not of the authority must not cost more than a handshake, and must be counted. Approach: a task
//! accepts and hands each connection to a handshake of its own, a bounded number at a time and for a bounded time; only
//! what succeeded reaches gRPC. The certificate in use can be replaced while it runs.

use crate::counters::Counters;
use rustls::ServerConfig;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};

/// Handshakes at a time: each costs a signature, and all racks come at once after an election.
const HANDSHAKES: usize = 256;
/// How long a handshake may take: ten round trips of a second.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How long to wait after an accept that failed, which is for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The certificate in use.
#[derive(Debug, Clone)]
pub(crate) struct InUse(Arc<Mutex<Arc<ServerConfig>>>);

impl InUse {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(Mutex::new(config)))
    }
    /// For connections from now on.
    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }
    fn get(&self) -> Arc<ServerConfig> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Connections whose caller has a certificate of the authority.
pub(crate) fn incoming(
    listener: TcpListener,
    in_use: InUse,
    counters: Arc<Counters>,
) -> ReceiverStream<io::Result<TlsStream<TcpStream>>> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
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
            let (acceptor, send, counters) = (TlsAcceptor::from(in_use.get()), send.clone(), counters.clone());
            tokio::spawn(async move {
                // Reports are small and wait for nothing.
                let _ = stream.set_nodelay(true);
                let refused = match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let _ = send.send(Ok(stream)).await;
                        return;
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "it took too long".to_owned(),
                };
                drop(permit);
                counters.handshakes_failed.add();
                debug!("connection from {from} refused: {refused}");
            });
        }
    });
    ReceiverStream::new(receive)
}
