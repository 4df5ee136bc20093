//! HTTP/1.1 server with limits, on its own thread.
//!
//! Any client that reaches the port may send arbitrary bytes at any speed. So the time and size of
//! a request's head, the lifetime of a connection and the number of connections are limited.
//! A further connection takes the room of one that is idle (`admission`): a connection is active
//! when it opens, and from the beginning to the end of each of its requests. Bodies are never read.
//! Requests for another host name are refused (`names`).

use crate::admission::{Admissions, Service};
use crate::names::Names;
use axum::Router;
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{debug, warn};

/// Limits on clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of simultaneous connections, at least 1. Each source can use all of them while
    /// no other needs them.
    pub connections: usize,
    /// Timeout for the head of a request, and for an idle connection.
    pub head: Duration,
    /// Lifetime of a connection, after which it is closed.
    pub life: Duration,
    /// Maximum number of header fields of a request.
    pub fields: usize,
    /// Maximum size of a request's head in bytes; hyper requires at least 8,192.
    pub head_bytes: usize,
}

impl Default for Limits {
    /// Sufficient for scrapers, a few users, and heads of browsers.
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

/// Binds the port. Separate from [`start`], so that a caller can detect a port in use first.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    thread: Option<std::thread::JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic, if any.
            let _ = thread.join();
        }
    }
}

/// Serves a router on its own thread, so that requests take no time from the caller's loop.
/// `router` is called on that thread, within its event loop, where it may start tasks.
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
                // The `Server` was dropped.
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name(format!("weir-{name}")).spawn(work)?;
    Ok(Server { address, thread: Some(thread), stop: Some(stop) })
}

/// A part of a body, which keeps its request in service.
fn held<T>(frame: T, _served: &Service) -> T {
    frame
}

/// Serves until the listener fails.
async fn serve(listener: TcpListener, router: Router, limits: Limits) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let admissions = Admissions::new(limits.connections);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // No descriptors are left, or the client has closed the connection. Neither is
                // permanent.
                debug!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (admission, ended) = admissions.admit(from.ip());
        let router = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let admission = Arc::new(admission);
            let service = service_fn(|request| {
                let served = admission.serve();
                let response = router.call(request);
                async move {
                    // Until the body has been passed on to the connection.
                    response
                        .await
                        .map(|response| response.map(|body| body.map_frame(move |frame| held(frame, &served))))
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                .max_headers(limits.fields)
                .max_buf_size(limits.head_bytes)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                served = tokio::time::timeout(limits.life, connection) => if let Ok(Err(error)) = served {
                    debug!("{from}: {error}");
                },
                _ = ended => debug!("{from}: other connections took its room"),
            }
        });
    }
}
