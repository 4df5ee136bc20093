//! [`SessionSockets`]: the sockets of this agent's sessions, as the host lets them through.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use weir_fabric::{BrokerUrl, HostSockets};
use weir_linux::fabric_sockets::FabricSockets;
use weir_linux::loader::LoaderError;

/// The sockets of the agent's sessions with fabric brokers.
#[derive(Debug)]
pub(crate) struct SessionSockets(pub(crate) Arc<FabricSockets>);

impl HostSockets for SessionSockets {
    fn set_broker(&self, broker: &BrokerUrl, addresses: &[SocketAddr]) -> io::Result<()> {
        self.0.set_broker(broker.as_str(), addresses).map_err(io_error)
    }

    fn open(&self, socket: BorrowedFd<'_>) -> io::Result<u64> {
        self.0.open(&socket).map_err(io_error)
    }

    fn close(&self, number: u64) {
        self.0.close(number);
    }
}

fn io_error(error: LoaderError) -> io::Error {
    io::Error::other(error)
}
