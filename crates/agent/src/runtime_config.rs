//! What the files say that a reload reads again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_policy::Policy;
use weir_units::MachineId;
use weir_wire::Keys;

/// What the policy and the key file say to this machine. A reload puts others in their place, as a whole.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The machine that this is.
    pub machine: MachineId,
    /// Where to listen for rack datagrams; no reload changes it.
    pub listen: SocketAddr,
    /// Where the other machines of the rack listen.
    pub peers: Vec<(MachineId, SocketAddr)>,
    /// The keys that tag datagrams and feedback.
    pub keys: Keys,
}

/// Where the terms come from.
pub trait Source {
    /// What the files say now; an error says what is wrong with which file, where, and what to do.
    fn runtime_config(&self) -> Result<RuntimeConfig, String>;
    /// An epoch above all earlier ones, for a broker that begins anew (see `weir_state::epoch`).
    fn next_epoch(&self) -> io::Result<u64>;
}
