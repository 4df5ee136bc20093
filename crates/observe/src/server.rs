//! HTTP/1.1 with limits, on a thread of its own.
//!
//! Whoever reaches the port may send anything, slowly: a head has a time and a size, a connection has a life, and there
//! are only so many of them. What is over waits in the kernel's queue. Bodies are never read. Who asks for another host, as a
//! page that was made to lead here does, is refused.

use crate::names::Names;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tracing::{debug, warn};

/// What a client may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Until a request's head is there; also how long a connection may be idle.
    pub head: Duration,
    /// A connection's life: what is longer must connect again.
    pub life: Duration,
    /// Header fields of a request.
    pub fields: usize,
    /// Bytes of a request's head; hyper asks for 8,192 at least.
    pub head_bytes: usize,
}

impl Default for Limits {
    /// For scrapers and a few people: some connections, heads as browsers send them.
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(5),
            life: Duration::from_secs(60),
            fields: 64,
            head_bytes: 16 * 1024,
        }
    }
}

/// Listens, so that a port that is taken is known before anything else is done.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    thread: Option<std::thread::JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}

/// Serves what `router` gives on a thread of its own, so that no request takes time from the caller's loop. `router` is
/// called on that thread, within its event loop, where it may start tasks.
pub fn start(
    name: &str,
    listener: TcpListener,
    limits: Limits,
    router: impl FnOnce() -> Router + Send + 'static,
) -> io::Result<Server> {
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let work = move || {
        runtime.block_on(async move {
            tokio::select! {
                result = serve(listener, Names::of_this_host().guard(router()), limits) => {
                    if let Err(error) = result {
                        warn!("{address} is not served: {error}");
                    }
                }
                // Told to, or whoever started it is gone.
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name(format!("weir-{name}")).spawn(work)?;
    Ok(Server { address, thread: Some(thread), stop: Some(stop) })
}

/// Serves until the listener cannot be used; never returns otherwise.
async fn serve(listener: TcpListener, router: Router, limits: Limits) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
        // Nobody closes the semaphore.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or the client is gone already: others may come.
                debug!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                .max_headers(limits.fields)
                .max_buf_size(limits.head_bytes)
                .serve_connection(TokioIo::new(stream), service);
            if let Ok(Err(error)) = tokio::time::timeout(limits.life, connection).await {
                debug!("{from}: {error}");
            }
            drop(place);
        });
    }
}
