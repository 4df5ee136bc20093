//! Connections with a verified certificate.
//!
//! Problem: every connection has a descriptor, and one certificate, or a faulty agent, could open
//! connections until no other machine can connect. Approach: a certificate has a few connections
//! for each of its names, of which the newest stay, and a connection without a hello within
//! [`HELLO_TIME`] ends. A connection ends by an error of its reads and writes, as if the client had
//! closed it: HTTP/2 then drops it with its streams.
//!
//! Reason for keeping the newest: a restarted machine must be let in while its old connections are
//! not known to be dead. The same holds for streams, of which a machine has its newest
//! (`streams.rs`). The holder of a certificate can only end its own connections, which it can do by
//! a new stream, too.
//!
//! Reason for counting all names of a certificate together: two machines may have a name in common,
//! and a certificate may be of several machines, each of which needs a connection.
//!
//! Worked example: a certificate for `m1` and `m1.example.org` has eight connections; the ninth
//! ends the first.

use crate::service::HELLO_TIME;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;
use tracing::warn;

/// For each name of a certificate: a rack leader's session, and three connections that were given
/// up and are not known to be dead, which takes twice `KEEP_ALIVE`.
const OF_ONE_NAME: usize = 4;

/// The names of a certificate.
type Names = Arc<[String]>;

/// All connections, by certificate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    by_names: HashMap<Names, Holder>,
    next: u64,
}

/// The connections of one certificate, the oldest first.
#[derive(Debug, Default)]
struct Holder {
    open: VecDeque<(u64, oneshot::Sender<()>)>,
    /// Whether the warning about too many connections was logged.
    warned: bool,
}

impl Connections {
    /// Registers a connection; the oldest of the same names ends if there are too many.
    pub(crate) fn hold<S>(&self, names: Vec<String>, stream: S) -> Connection<S> {
        // A client without names is let in so that its stream is refused with a reason.
        let most = OF_ONE_NAME * names.len().max(1);
        let names: Names = names.into();
        let (keep, over) = oneshot::channel();
        let mut table = self.table();
        let id = table.next;
        table.next += 1;
        let holder = table.by_names.entry(names.clone()).or_default();
        holder.open.push_back((id, keep));
        if holder.open.len() > most {
            // The connection ends because its sender is dropped.
            holder.open.pop_front();
            if !std::mem::replace(&mut holder.warned, true) {
                warn!("more than {most} connections of {}: the oldest end; does it run twice?", names.join(", "));
            }
        }
        drop(table);
        let client = Client { names: names.clone(), identified: Arc::default() };
        let registration = Registration { connections: self.clone(), names, id };
        Connection {
            stream,
            client,
            over: Some(over),
            hello: Some(Box::pin(sleep(HELLO_TIME))),
            _registration: registration,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's entry in the table; dropping it removes the entry.
#[derive(Debug)]
struct Registration {
    connections: Connections,
    names: Names,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        if let Some(holder) = table.by_names.get_mut(&self.names) {
            holder.open.retain(|(id, _)| *id != self.id);
            if holder.open.is_empty() {
                table.by_names.remove(&self.names);
            }
        }
    }
}

/// The client of a connection, for its streams.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    names: Names,
    identified: Arc<AtomicBool>,
}

impl Client {
    /// The names of the certificate that TLS has verified.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Notes the hello of the client: the connection is in use.
    pub(crate) fn set_identified(&self) {
        self.identified.store(true, Ordering::Relaxed);
    }
}

/// A connection that ends without a hello, or when newer ones replace it.
pub(crate) struct Connection<S> {
    stream: S,
    client: Client,
    /// Its sender is dropped when newer connections replace it.
    over: Option<oneshot::Receiver<()>>,
    /// Runs until the client has sent its hello.
    hello: Option<Pin<Box<Sleep>>>,
    _registration: Registration,
}

impl<S> Connection<S> {
    /// An error if the connection must end now. Every read and write checks this, and the task is
    /// woken for it.
    fn check_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let aborted = |why| Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
        // A oneshot receiver must not be polled after it is ready.
        let replaced = self.over.as_mut().is_none_or(|over| Pin::new(over).poll(context).is_ready());
        if replaced {
            self.over = None;
            return aborted("newer connections of the same names replaced it");
        }
        if self.client.identified.load(Ordering::Relaxed) {
            self.hello = None;
        }
        if self.hello.as_mut().is_some_and(|time| time.as_mut().poll(context).is_ready()) {
            return aborted("the client sent no hello in time");
        }
        Ok(())
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Client;

    fn connect_info(&self) -> Client {
        self.client.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_end(context)?;
        Pin::new(&mut this.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_end(context)?;
        Pin::new(&mut this.stream).poll_write(context, bytes)
    }

    // A client that reads nothing is found here: HTTP/2 flushes pending output again and again, and
    // reads nothing meanwhile.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check_end(context)?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_end(context)?;
        Pin::new(&mut this.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn open(connections: &Connections, of: &[&str]) -> (Connection<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(64);
        (connections.hold(names(of), near), far)
    }

    async fn works(connection: &mut Connection<DuplexStream>, far: &mut DuplexStream) -> bool {
        far.write_all(b"x").await.expect("the near end is open");
        connection.read_u8().await.is_ok_and(|byte| byte == b'x')
    }

    #[tokio::test]
    async fn the_newest_connections_of_a_certificate_stay() {
        let connections = Connections::default();
        let mut of_one: Vec<_> = (0..OF_ONE_NAME).map(|_| open(&connections, &["m1"])).collect();
        let (mut other, mut far) = open(&connections, &["m2"]);
        for (connection, far) in &mut of_one {
            assert!(works(connection, far).await, "the largest number");
        }
        // The task that reads from the oldest is woken.
        let (mut oldest, _far) = of_one.remove(0);
        let waits = tokio::spawn(async move { oldest.read_u8().await.expect_err("it has been replaced").kind() });
        of_one.push(open(&connections, &["m1"]));
        assert_eq!(waits.await.expect("no panic"), io::ErrorKind::ConnectionAborted);
        for (connection, far) in &mut of_one {
            assert!(works(connection, far).await, "the newest");
        }
        // The end of a connection makes room.
        drop(of_one.remove(0));
        of_one.push(open(&connections, &["m1"]));
        for (connection, far) in &mut of_one {
            assert!(works(connection, far).await, "the largest number again");
        }
        assert!(works(&mut other, &mut far).await, "a connection of another certificate");
        // Each name counts.
        let two: Vec<_> = (0..OF_ONE_NAME * 2).map(|_| open(&connections, &["m1", "m2"])).collect();
        for (mut connection, mut far) in two {
            assert!(works(&mut connection, &mut far).await);
        }
        drop((of_one, other));
        assert!(connections.table().by_names.is_empty(), "ended connections leave no entry");
    }
}
