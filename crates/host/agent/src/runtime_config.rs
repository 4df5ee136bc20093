//! The part of the configuration that a reload reads again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_control::wire::Keys;
use weir_policy::Policy;
use weir_units::MachineId;

/// The policy and keys of this machine. A reload replaces them as a whole.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// The policy.
    pub policy: Arc<Policy>,
    /// This machine.
    pub machine: MachineId,
    /// The address for rack datagrams; no reload changes it.
    pub listen: SocketAddr,
    /// The addresses of the rack's other machines.
    pub peers: Vec<(MachineId, SocketAddr)>,
    /// The keys that tag datagrams and feedback.
    pub keys: Keys,
}

/// The source of runtime configurations.
pub trait Source {
    /// The configuration in the files now; an error names the file, the position, the cause and the
    /// solution.
    fn runtime_config(&self) -> Result<RuntimeConfig, String>;
    /// An epoch above all earlier ones, for a broker that begins anew (see `weir_fabric::state::epoch`).
    fn next_epoch(&self) -> io::Result<u64>;
    /// Stores an epoch that is in force already, so that the next one is above it.
    fn raise_epoch(&self, epoch: u64) -> io::Result<()>;
}
