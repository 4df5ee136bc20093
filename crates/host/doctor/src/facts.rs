//! The facts that checks use. A fact that cannot be read is the reason, as text.

use weir_linux::requirements::Missing;
use weir_linux::tc::Found;
use weir_status::Status;

/// All facts of a run.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The requirements of an agent that this host lacks.
    pub missing: Vec<Missing>,
    /// The kernel's clock source.
    pub clock_source: Result<String, String>,
    /// Whether the system clock is synchronised.
    pub clock_synchronised: Result<bool, String>,
    /// The interface of the policy, if one was named.
    pub interface: Option<(String, Result<InterfaceFacts, String>)>,
    /// The policy file, if one was named.
    pub policy: Option<PolicyFacts>,
    /// The statuses; the first is this host's.
    pub statuses: Vec<StatusFacts>,
    /// When the facts were read, in milliseconds since 1970.
    pub now_ms: u64,
}

/// Facts of an interface.
#[derive(Debug, Clone)]
pub struct InterfaceFacts {
    /// Whether its frames have Ethernet headers.
    pub ethernet: bool,
    /// Whether its frames return to this host.
    pub loopback: bool,
    /// The most segments of a buffer (`gso_max_segs`).
    pub segments: Result<u32, String>,
    /// The root qdisc.
    pub qdisc: Result<Found, String>,
}

/// A policy file.
#[derive(Debug, Clone)]
pub struct PolicyFacts {
    /// Its path.
    pub file: String,
    /// Its fingerprint.
    pub fingerprint: String,
}

/// The status of a source.
#[derive(Debug, Clone)]
pub struct StatusFacts {
    /// A file or a URL.
    pub source: String,
    /// Its content, or why it cannot be read.
    pub status: Result<Status, String>,
}
