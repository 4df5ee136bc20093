//! The facts that checks use. A fact that cannot be read is the reason, as text.

use std::net::IpAddr;
use std::path::PathBuf;
use weir_linux::interface::Offloads;
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
    /// Pins of interfaces that are gone, by the index that they had.
    pub gone: Result<Vec<u32>, String>,
    /// The policy file, if one was named.
    pub policy: Option<PolicyFacts>,
    /// The other machines of the rack that have addresses; `Err` if it is not known which machine this host is.
    pub peers: Result<Vec<PeerFacts>, String>,
    /// The key file, if one was named.
    pub key: Option<(PathBuf, Result<(), FileProblem>)>,
    /// The certificate, if one was named, and its end in seconds since 1970.
    pub certificate: Option<(PathBuf, Result<i64, FileProblem>)>,
    /// The ports of the switch that this host is, if any were named.
    pub switch: Option<SwitchFacts>,
    /// The units of Weir that this host has.
    pub units: Result<Vec<UnitFacts>, String>,
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
    /// The offloads that are on.
    pub offloads: Result<Offloads, String>,
    /// The process of the agent of this interface; `None` if there is none.
    pub agent: Result<Option<u32>, String>,
    /// Pinned programs that are not attached to the interface.
    pub detached: Result<Vec<String>, String>,
}

/// A policy file.
#[derive(Debug, Clone)]
pub struct PolicyFacts {
    /// Its path.
    pub file: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// `levels.segments`: the most segments of a buffer, where latency levels bound it.
    pub segments: Option<u32>,
}

/// The status of a source.
#[derive(Debug, Clone)]
pub struct StatusFacts {
    /// A file or a URL.
    pub source: String,
    /// Its content, or why it cannot be read.
    pub status: Result<Status, String>,
}

/// Another machine of the rack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerFacts {
    /// Its name in the policy.
    pub machine: String,
    /// Its address in the policy.
    pub address: IpAddr,
    /// Whether the kernel has a route to it.
    pub route: Result<(), String>,
    /// The reply to a connection to its status port.
    pub reply: Reply,
}

/// The reply of a host to a TCP connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A program listens.
    Open,
    /// No program listens, and the host refuses the connection.
    Refused,
    /// None, or the error of a router.
    None(String),
}

/// Why a secret file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileProblem {
    /// Others can read this file.
    Mode(PathBuf, String),
    /// This file belongs to another user than the one of this number.
    Owner(PathBuf, u32, String),
    /// Another cause.
    Other(String),
}

/// Ports of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchFacts {
    /// The steps from their configuration to the policy's, as text.
    pub steps: Result<Vec<String>, String>,
    /// The command that takes them.
    pub apply: String,
}

/// A unit of systemd, by the names of its properties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitFacts {
    /// `Id`.
    pub name: String,
    /// `ActiveState`.
    pub active: String,
    /// `Result` of its last run.
    pub result: String,
    /// `NRestarts`: how often systemd has started it again since the last manual start.
    pub restarts: u32,
    /// `UnitFileState`.
    pub enabled: String,
    /// Whether its file has changed since systemd read it.
    pub needs_reload: bool,
    /// The program of `ExecStart`, if it is not there.
    pub program_missing: Option<String>,
    /// Whether its process runs a program that was replaced.
    pub outdated: bool,
}
