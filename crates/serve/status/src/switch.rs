//! The status of a switch's ports, and the bounds that depend on them.

use crate::credits::{CreditFlow, PortCredits};
use crate::model::{AgentStatus, Status, VERSION};
use serde::{Deserialize, Serialize};

/// The status of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// [`VERSION`].
    pub version: u32,
    /// When this was made, in milliseconds since 1970.
    pub written_ms: u64,
    /// How often it is made anew, in milliseconds.
    pub period_ms: u64,
    /// How long the watching program has been running, in milliseconds.
    pub uptime_ms: u64,
    /// The switch's name in the policy's network.
    pub name: String,
    /// The policy's fingerprint, 16 hexadecimal digits. It leaves the levels out.
    pub policy: String,
    /// Why the policy's file, or the ports that it needs, are not in force: refused, or not applied. The ports are
    /// compared with the last policy that was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// The DSCP value of each latency level, the most urgent first; empty without levels. Absent in the status of an
    /// earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<u8>>,
    /// The machines of the policy on which no agent runs; a port in force re-marks the levels in their packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_agent: Vec<String>,
    /// Its ports: those of the policy, and interfaces of the switch that the policy does not have.
    pub ports: Vec<SwitchPortStatus>,
    /// Times that a port was found without the policy's configuration.
    pub changes_found: u64,
    /// Ports whose configuration was restored.
    pub repaired: u64,
    /// Times that counters of a port's queues could not be read.
    #[serde(default)]
    pub queue_readings_failed: u64,
}

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwitchPortStatus {
    /// Its neighbour in the policy's network.
    pub port: String,
    /// The interface; empty if no interface is this port.
    pub interface: String,
    /// The differences from the policy's configuration, or why it cannot be read; empty if it is in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// The counters of its queues, in order; empty where nothing reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<SwitchQueueStatus>,
    /// Why counters of its queues could not be read; absent if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues_unread: Option<String>,
    /// Its credits, in the status of `weir forwarder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<PortCredits>,
    /// Its flows with credits, by falling share; at most [`CreditFlow::MOST`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credit_flows: Vec<CreditFlow>,
}

/// The counters of a queue of a port; `None` where the switch has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwitchQueueStatus {
    /// Its number.
    pub queue: u8,
    /// The part of weighted queues; absent for a strict one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Bytes that it has sent since it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Packets that found it full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// Packets that it has marked (ECN).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_packets: Option<u64>,
    /// Bytes in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_bytes: Option<u64>,
}

impl SwitchStatus {
    /// The status of a switch before its ports were read.
    pub fn outline(name: String, policy: String, period_ms: u64) -> Self {
        Self {
            version: VERSION,
            written_ms: 0,
            period_ms,
            uptime_ms: 0,
            name,
            policy,
            policy_refused: None,
            levels: None,
            without_agent: Vec::new(),
            ports: Vec::new(),
            changes_found: 0,
            repaired: 0,
            queue_readings_failed: 0,
        }
    }

    /// The ports with the policy's configuration.
    pub fn in_force(&self) -> usize {
        self.ports.iter().filter(|port| port.differs.is_empty()).count()
    }

    /// The ports of which counters of queues could not be read.
    pub fn unread(&self) -> usize {
        self.ports.iter().filter(|port| port.queues_unread.is_some()).count()
    }

    /// Whether the switch is known to have no latency level.
    pub fn is_without_levels(&self) -> bool {
        self.levels.as_ref().is_some_and(Vec::is_empty)
    }

    /// The machines without an agent whose packets this switch keeps off the levels.
    pub fn kept_off_levels(&self) -> impl Iterator<Item = &str> {
        let in_force =
            |machine: &&String| self.ports.iter().any(|port| port.port == **machine && port.differs.is_empty());
        self.without_agent.iter().filter(in_force).map(String::as_str)
    }

    /// The causes for which latency bounds do not hold on paths through this switch; none without levels.
    fn obstacles(&self) -> Vec<String> {
        if self.is_without_levels() {
            return Vec::new();
        }
        let differing = self.ports.iter().filter(|port| !port.differs.is_empty());
        differing.map(|port| format!("switch {}, port {}: not as the policy needs it", self.name, port.port)).collect()
    }
}

impl AgentStatus {
    /// The causes for which latency bounds are not in force beside this machine's packets; none without levels.
    pub(crate) fn obstacles_to_bounds(&self) -> Vec<String> {
        if self.levels.is_empty() {
            return Vec::new();
        }
        let gone = self.interface_absent.then(|| format!("{} is gone", self.interface));
        let causes = gone.iter().chain(&self.not_enforced).chain(&self.level_obstacles);
        causes.map(|cause| format!("{}: {cause}", self.machine)).collect()
    }
}

impl Status {
    /// The causes for which latency bounds are not in force on paths by this machine or switch, one line for each.
    pub fn obstacles_to_bounds(&self) -> Vec<String> {
        match self {
            Self::Agent(status) => status.obstacles_to_bounds(),
            Self::Switch(status) => status.obstacles(),
            Self::Fabric(_) => Vec::new(),
        }
    }
}
