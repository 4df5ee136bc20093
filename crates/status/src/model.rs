//! The model; see the crate's doc for what absence and `null` mean.

use crate::counters::{AgentCounters, FabricCounters, KernelCounters, SessionCounters};
use crate::rate;
use serde::{Deserialize, Serialize};
use std::fmt;
use weir_units::{Bandwidth, Direction, PerDirection};

/// The version of the model. A key that is new and may be absent does not change it; one that goes or changes its
/// meaning does.
pub const VERSION: u32 = 1;

/// What somebody is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "one for each machine, beside its services: no table of them is held")]
pub enum Status {
    /// An agent.
    Agent(AgentStatus),
    /// A fabric broker.
    Fabric(FabricStatus),
}

impl Status {
    /// When it was made, in milliseconds since 1970.
    pub fn written_ms(&self) -> u64 {
        match self {
            Self::Agent(status) => status.written_ms,
            Self::Fabric(status) => status.written_ms,
        }
    }
    /// How often it is made anew, in milliseconds.
    pub fn period_ms(&self) -> u64 {
        match self {
            Self::Agent(status) => status.period_ms,
            Self::Fabric(status) => status.period_ms,
        }
    }
    /// The machine, or the broker's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(status) => &status.machine,
            Self::Fabric(status) => &status.name,
        }
    }
    /// As JSON for people and programs, with a line end.
    pub fn to_json(&self) -> String {
        // Maps with text keys and numbers: nothing in the model can fail to be written.
        let text = serde_json::to_string_pretty(self).expect("a status is JSON");
        text + "\n"
    }
}

/// Which policy is in force on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The machine's own: nobody was heard for the timeout, or ever.
    Static,
    /// The one computed from the rack's usage.
    Runtime,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Static, Self::Runtime];
    /// `static` or `runtime`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Runtime => "runtime",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// T_rack and T_fabric (Parley Table 1), unless somebody says otherwise.
pub(crate) const fn agent_period() -> u64 {
    1_000
}
pub(crate) const fn fabric_period() -> u64 {
    10_000
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// [`VERSION`].
    pub version: u32,
    /// When this was made, in milliseconds since 1970; 0 before the first period has ended.
    pub written_ms: u64,
    /// How often it is made anew, in milliseconds.
    #[serde(default = "agent_period")]
    pub period_ms: u64,
    /// How long the agent has been running, in milliseconds.
    pub uptime_ms: u64,
    /// The machine's name in the policy.
    pub machine: String,
    /// Its rack's name.
    pub rack: String,
    /// The interface under the policy.
    #[serde(default)]
    pub interface: String,
    /// How the programs are attached to it, such as `tcx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
    /// What enforces rates: `htb` or `edt`.
    #[serde(default)]
    pub backend: String,
    /// Why it is not one that comes before it: `edt: the kernel has no qdisc fq`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backend_obstacles: Vec<String>,
    /// Which policy is in force; absent while the interface is, where nothing is, and while limits of an earlier agent are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The policy's fingerprint, 16 hexadecimal digits.
    pub policy: String,
    /// Why the policy and the keys that were to take their place were refused, where the last ones were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// Whether the interface is gone, so that nothing is limited here until it is back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interface_absent: bool,
    /// Why services are not held to their limits although the interface is there: somebody took away what holds them, and the agent
    /// has not got it back yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_enforced: Option<String>,
    /// Which start of the machine's broker this is.
    pub epoch: u64,
    /// How many other machines the rack has.
    pub peers: u64,
    /// How many of them were heard within the timeout.
    pub peers_alive: u64,
    /// What may pass the interface: its speed, or the machine cap where that is lower.
    #[serde(with = "rate")]
    pub capacity_tx_bps: Bandwidth,
    /// The same for what is received.
    #[serde(with = "rate")]
    pub capacity_rx_bps: Bandwidth,
    /// What it has to do with the fabric; absent where the policy does not speak of it and no broker is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricLink>,
    /// The leaf services, in the policy's order.
    pub services: Vec<ServiceStatus>,
    /// What the agent counted.
    pub counters: AgentCounters,
    /// What the kernel's programs counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelCounters>,
}

impl AgentStatus {
    /// What may pass the interface in a direction.
    pub fn capacity(&self, direction: Direction) -> Bandwidth {
        match direction {
            Direction::Tx => self.capacity_tx_bps,
            Direction::Rx => self.capacity_rx_bps,
        }
    }
}

/// What an agent has to do with the fabric.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FabricLink {
    /// Whether this machine speaks for its rack.
    pub leads: bool,
    /// Whether the fabric's limits were heard, from its broker or relayed, within the timeout.
    pub receives: bool,
    /// The line to a fabric broker; absent where none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<FabricSession>,
}

/// Where the line to a fabric broker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Nothing to report, so nobody is called.
    #[default]
    Idle,
    /// A broker is being called.
    Connecting,
    /// Waiting before the next call.
    Waiting,
    /// A broker is on the line.
    Up,
}

impl SessionState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Connecting, Self::Waiting, Self::Up];
    /// `idle`, `connecting`, `waiting` or `up`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Waiting => "waiting",
            Self::Up => "up",
        }
    }
}

/// An agent's line to a fabric broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FabricSession {
    /// Where it stands.
    pub state: SessionState,
    /// The broker that is called or on the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// How long ago the last word of any fabric broker came, in milliseconds; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// Why the last call ended or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// When this machine's own certificate ends, in seconds since 1970; of the one that the last call showed, and before the first that
    /// of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends: Option<i64>,
    /// What it counted.
    pub counters: SessionCounters,
}

/// One leaf service on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its path, such as `dfs/hbase`.
    pub service: String,
    /// What the policy promises of its messages, where it asks for a latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// What it sends.
    pub tx: DirectionStatus,
    /// What it receives.
    pub rx: DirectionStatus,
}

impl ServiceStatus {
    /// One direction.
    pub fn direction(&self, direction: Direction) -> &DirectionStatus {
        match direction {
            Direction::Tx => &self.tx,
            Direction::Rx => &self.rx,
        }
    }
    /// One direction, to be filled.
    pub fn direction_mut(&mut self, direction: Direction) -> &mut DirectionStatus {
        match direction {
            Direction::Tx => &mut self.tx,
            Direction::Rx => &mut self.rx,
        }
    }
}

/// A latency target and what is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The message's size.
    pub message_bytes: u64,
    /// What 99 of 100 messages must finish within.
    pub target_ns: u64,
    /// What every message finishes within, by the burst bound (`weir plan`); absent where no time holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
}

/// One service on one machine in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// What it used in the last period; absent before the second reading.
    #[serde(rename = "usage_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Bandwidth>,
    /// What it asks for, without bound when backlogged; absent while the interface is.
    #[serde(rename = "demand_bps", with = "rate::asked", default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Bandwidth>,
    /// What it is guaranteed of this machine.
    #[serde(rename = "guarantee_bps", with = "rate")]
    pub guarantee: Bandwidth,
    /// What it is guaranteed of the rack, all machines together.
    #[serde(rename = "rack_guarantee_bps", with = "rate")]
    pub rack_guarantee: Bandwidth,
    /// The most that the static policy lets it have of this machine.
    #[serde(rename = "maximum_bps", with = "rate")]
    pub maximum: Bandwidth,
    /// What it was given in the last period; absent before the first, and while the rack's policy is not in force.
    #[serde(rename = "share_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Bandwidth>,
    /// What decided that, such as `demand`, `rack r1` or `max of dfs at rack`; absent as the share is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The runtime limit in force, of this agent or one before it.
    #[serde(rename = "limit_bps", with = "rate")]
    pub limit: Bandwidth,
    /// Bytes since the meters were started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Received: the receive meter's capacity C.
    #[serde(rename = "meter_capacity_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub meter_capacity: Option<Bandwidth>,
    /// Received: R, what each sender may send now; absent while it holds nobody.
    #[serde(rename = "sender_rate_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub sender_rate: Option<Bandwidth>,
    /// Received: packets that switches could mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_markable: Option<u64>,
    /// Received: packets that were marked and count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_marked: Option<u64>,
    /// Received: feedback that was sent to senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_sent: Option<u64>,
    /// Sent: feedback that came from receivers and was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_received: Option<u64>,
    /// Sent: bytes that wait for a limiter now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_bytes: Option<u64>,
    /// Sent: packets that a limiter dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
    /// Sent: destinations that are held to a receiver's rate now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations_limited: Option<u64>,
}

impl DirectionStatus {
    /// Whether anything but its own demand decides what it gets.
    pub fn is_limited(&self) -> bool {
        self.decided_by.as_deref().is_some_and(|by| by != "demand")
    }
    /// What holds it now: the runtime limit or the static maximum, whichever is lower.
    pub fn held_at(&self) -> Bandwidth {
        self.limit.min(self.maximum)
    }
}

impl Default for DirectionStatus {
    fn default() -> Self {
        Self {
            usage: None,
            demand: None,
            guarantee: Bandwidth::ZERO,
            rack_guarantee: Bandwidth::ZERO,
            maximum: Bandwidth::UNLIMITED,
            share: None,
            decided_by: None,
            limit: Bandwidth::UNLIMITED,
            bytes: None,
            meter_capacity: None,
            sender_rate: None,
            packets_markable: None,
            packets_marked: None,
            feedback_sent: None,
            feedback_received: None,
            backlog_bytes: None,
            drops: None,
            destinations_limited: None,
        }
    }
}

/// What a fabric broker is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricStatus {
    /// [`VERSION`].
    pub version: u32,
    /// When this was made, in milliseconds since 1970.
    pub written_ms: u64,
    /// How often it is made anew at least, in milliseconds.
    #[serde(default = "fabric_period")]
    pub period_ms: u64,
    /// How long the broker has been running, in milliseconds.
    pub uptime_ms: u64,
    /// The broker's name among several.
    pub name: String,
    /// Whether it leads: computes and answers. One that runs alone does.
    pub leads: bool,
    /// Who leads, if somebody does and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The policy's fingerprint, 16 hexadecimal digits.
    pub policy: String,
    /// Which start of the broker this is.
    pub epoch: u64,
    /// Periods since then.
    pub round: u64,
    /// Why the policy that was to take its place was refused, where the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// Why the certificates that were to take the place of those in use were refused, where the last ones were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_refused: Option<String>,
    /// When the broker's certificate ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends: Option<i64>,
    /// How many machines are on the line.
    #[serde(default)]
    pub streams: u64,
    /// How many racks the policy has.
    pub racks: u64,
    /// How many of them reported within the timeout.
    pub racks_reporting: u64,
    /// What may pass the fabric.
    #[serde(with = "rate")]
    pub capacity_tx_bps: Bandwidth,
    /// The same for what is received.
    #[serde(with = "rate")]
    pub capacity_rx_bps: Bandwidth,
    /// The limits in force, by rack and service; at most [`FabricStatus::MOST_LIMITS`].
    pub limits: Vec<FabricLimit>,
    /// How many more there are.
    #[serde(default)]
    pub limits_left_out: u64,
    /// What the broker counted.
    pub counters: FabricCounters,
}

impl FabricStatus {
    /// The most limits that a status holds: some hundred bytes each.
    pub const MOST_LIMITS: usize = 10_000;

    /// What may pass the fabric in both directions.
    pub fn capacity(&self) -> PerDirection<Bandwidth> {
        PerDirection { tx: self.capacity_tx_bps, rx: self.capacity_rx_bps }
    }
}

/// A limit on what a service may have in a rack, all its machines together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricLimit {
    /// The rack's name.
    pub rack: String,
    /// The leaf service's path.
    pub service: String,
    /// `tx` or `rx`.
    pub direction: String,
    /// What the rack asks for.
    #[serde(rename = "demand_bps", with = "rate")]
    pub demand: Bandwidth,
    /// What it may have.
    #[serde(rename = "limit_bps", with = "rate")]
    pub limit: Bandwidth,
}
