//! [`SessionSockets`]: the sockets of this agent's sessions, as the host lets them through.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use weir_fabric::{BrokerUrl, HostSockets};
use weir_linux::fabric_sockets::FabricSockets;
use weir_linux::loader::LoaderError;

/// The name of the broker to which the last redirection led. There is one at a time, so that brokers whose addresses
/// change with every start do not fill the host's map.
const REDIRECTED: &str = "redirected";

/// The sockets of the agent's sessions with fabric brokers.
#[derive(Debug)]
pub(crate) struct SessionSockets {
    pub(crate) sockets: Arc<FabricSockets>,
    /// The brokers of the configuration.
    pub(crate) configured: Vec<BrokerUrl>,
}

impl HostSockets for SessionSockets {
    fn set_broker(&self, broker: &BrokerUrl, addresses: &[SocketAddr]) -> io::Result<()> {
        let name = if self.configured.contains(broker) { broker.as_str() } else { REDIRECTED };
        self.sockets.set_broker(name, addresses).map_err(io_error)
    }

    fn open(&self, socket: BorrowedFd<'_>) -> io::Result<u64> {
        self.sockets.open(&socket).map_err(io_error)
    }

    fn close(&self, number: u64) {
        self.sockets.close(number);
    }
}

fn io_error(error: LoaderError) -> io::Error {
    io::Error::other(error)
}
