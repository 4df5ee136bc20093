//! The model; the crate's doc explains absence and `null`.

use crate::counters::{AgentCounters, FabricCounters, KernelCounters, SessionCounters};
use crate::credits::HostCredits;
use crate::rate;
use crate::switch::SwitchStatus;
use serde::{Deserialize, Serialize};
use std::fmt;
use weir_units::{Bandwidth, Direction, PerDirection};

/// The version of the model. A new key that may be absent does not change it; a removed key or
/// another meaning does.
pub const VERSION: u32 = 1;

/// A part of those lines of [`AgentStatus::filters_unmatched`] that are of filters by pod.
pub const NO_POD: &str = "no pod here has";

/// The status of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "one for each machine, beside its services: no table of them is kept")]
pub enum Status {
    /// An agent.
    Agent(AgentStatus),
    /// A fabric broker.
    Fabric(FabricStatus),
    /// A switch.
    Switch(SwitchStatus),
}

impl Status {
    /// When it was made, in milliseconds since 1970.
    pub fn written_ms(&self) -> u64 {
        match self {
            Self::Agent(status) => status.written_ms,
            Self::Fabric(status) => status.written_ms,
            Self::Switch(status) => status.written_ms,
        }
    }
    /// How often it is made anew, in milliseconds.
    pub fn period_ms(&self) -> u64 {
        match self {
            Self::Agent(status) => status.period_ms,
            Self::Fabric(status) => status.period_ms,
            Self::Switch(status) => status.period_ms,
        }
    }
    /// The name of the machine, the broker or the switch.
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(status) => &status.machine,
            Self::Fabric(status) => &status.name,
            Self::Switch(status) => &status.name,
        }
    }
    /// As JSON, with a line end.
    pub fn to_json(&self) -> String {
        // Maps with text keys and numbers: nothing in the model can fail to be written.
        let text = serde_json::to_string_pretty(self).expect("a status is JSON");
        text + "\n"
    }
}

/// The kind of policy in force on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The machine's own: no report of another machine arrived within the timeout, or ever.
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

/// The defaults of T_rack and T_fabric (Parley Table 1).
pub(crate) const fn agent_period() -> u64 {
    1_000
}
pub(crate) const fn fabric_period() -> u64 {
    10_000
}

/// The status of an agent.
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
    /// The backend that enforces rates: `htb` or `edt`.
    #[serde(default)]
    pub backend: String,
    /// Why preferred backends cannot be used: `edt: the kernel has no qdisc fq`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backend_obstacles: Vec<String>,
    /// The kind of policy in force; absent while the interface is absent, and while limits of an
    /// earlier agent are in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The policy's fingerprint, 16 hexadecimal digits.
    pub policy: String,
    /// Why the last reload of policy and keys was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// Whether the interface is gone, so that nothing is limited here until it is back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interface_absent: bool,
    /// Why limits are not enforced although the interface is there: its qdisc or programs were
    /// removed, and the agent has not restored them yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_enforced: Option<String>,
    /// Whether qdisc, programs and levels stay in force when the agent ends. Without it they stay after a kill only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps: bool,
    /// The causes for which the bounds of latency levels do not hold beside this machine's packets, one line for each:
    /// of the last check, and of packets in the last minute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub level_obstacles: Vec<String>,
    /// The number of control groups whose sockets belong to services; absent if no filter names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups: Option<u64>,
    /// Why sockets of some control groups do not belong to their service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups_missed: Option<String>,
    /// The number of interfaces of guests whose packets belong to services; absent if no filter names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<u64>,
    /// Why packets of some interfaces, or to some addresses of guests, do not belong to their service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests_missed: Option<String>,
    /// The services with filters that match nothing on this host now, one line for each kind of filter: it has no
    /// control group, no interface of a guest or no pod of the name ([`NO_POD`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters_unmatched: Vec<String>,
    /// The epoch of the machine's broker, which counts its starts.
    pub epoch: u64,
    /// The number of other machines in the rack.
    pub peers: u64,
    /// The number of other machines whose reports arrived within the timeout.
    pub peers_alive: u64,
    /// The other machines whose reports have had older epochs than known ones for the timeout, so that they do not
    /// count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<String>,
    /// The capacity of the interface: its speed (95 % of it for receiving), or the machine cap where that is lower.
    #[serde(with = "rate")]
    pub capacity_tx_bps: Bandwidth,
    /// The same for receiving.
    #[serde(with = "rate")]
    pub capacity_rx_bps: Bandwidth,
    /// The state of the fabric's limits; absent where the policy has none and no broker is
    /// configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricLink>,
    /// Buffers that the qdisc dropped and that it does not attribute to a service: of unclassified and
    /// control traffic, and with `edt` those that fq dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops_unattributed: Option<u64>,
    /// The leaf services, in the policy's order.
    pub services: Vec<ServiceStatus>,
    /// The latency levels, the most urgent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelStatus>,
    /// The credits of services; absent without such services, and while the interface is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<HostCredits>,
    /// Counters of the agent.
    pub counters: AgentCounters,
    /// Counters of the kernel's programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelCounters>,
}

impl AgentStatus {
    /// The capacity of the interface in a direction.
    pub fn capacity(&self, direction: Direction) -> Bandwidth {
        match direction {
            Direction::Tx => self.capacity_tx_bps,
            Direction::Rx => self.capacity_rx_bps,
        }
    }
}

/// The state of the fabric's limits on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FabricLink {
    /// Whether this machine leads its rack: it reports to the fabric broker, or tries to.
    pub leads: bool,
    /// The machine that leads the rack as far as this one has received: the live one with the lowest id that can reach
    /// the fabric broker; absent while no other machine of the rack is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Whether this machine cannot reach the fabric broker, so that the rack's next machine leads.
    #[serde(default)]
    pub shut_out: bool,
    /// Whether limits of the fabric arrived, from its broker or relayed, within the timeout.
    pub receives: bool,
    /// The session with a fabric broker; absent where none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<FabricSession>,
}

/// The state of a session with a fabric broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// No stream, since there is nothing to report.
    #[default]
    Idle,
    /// A stream to a broker is being opened.
    Connecting,
    /// Waiting before the next attempt.
    Waiting,
    /// A stream to a broker is open.
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

/// An agent's session with a fabric broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FabricSession {
    /// The state.
    pub state: SessionState,
    /// The broker of the stream, or of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// The time since the last limits of any fabric broker, in milliseconds; absent before the
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// Why the last stream ended or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// The end of this machine's certificate, in seconds since 1970, as it was read for the last
    /// connection, or at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends: Option<i64>,
    /// Counters of the session.
    pub counters: SessionCounters,
}

/// One leaf service on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its path, such as `dfs/hbase`.
    pub service: String,
    /// The latency that the policy guarantees for its messages, if it has a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Sending.
    pub tx: DirectionStatus,
    /// Receiving.
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

/// A latency level on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelStatus {
    /// Its number; 1 is the most urgent.
    pub level: u32,
    /// The DSCP value of its packets.
    pub dscp: u8,
    /// The rate at which this machine may send on it; 0 if it sends nothing there.
    #[serde(rename = "rate_bps", with = "rate")]
    pub rate: Bandwidth,
    /// Bytes that it may send at once.
    pub burst_bytes: u64,
    /// The longest time of a frame from its regulator to any host on the way; absent for an unbounded level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// Its counters; absent while the kernel's cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<LevelCounters>,
}

/// The counters of a level's regulator since the programs were first attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LevelCounters {
    /// Bytes that left or wait, with the framing of links.
    pub bytes: u64,
    /// Frames of these.
    pub packets: u64,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// The longest wait of a packet.
    pub longest_wait_ns: u64,
    /// Frames larger than the policy's `levels.packet`, and super-packets that nothing cuts.
    pub oversize: u64,
    /// Buffers that were dropped since too much waited.
    pub dropped: u64,
    /// Packets of no level that carried the level's DSCP value and were re-marked to 0.
    pub remarked: u64,
}

/// A latency target and its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The message's size.
    pub message_bytes: u64,
    /// The target: 99 of 100 messages must finish within this time.
    pub target_ns: u64,
    /// The burst bound (`weir plan`): every message finishes within this time; absent if there is
    /// no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// Whether a premise of the bound is not known to hold: a buffer of the network is too small or
    /// not stated, services can overload a port, or messages may wait at limiters of hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

/// One service on one machine in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// The rate used in the last period; absent before the second reading. Sent: what left the
    /// interface.
    #[serde(rename = "usage_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Bandwidth>,
    /// The demand, unlimited when backlogged; absent while the interface is absent.
    #[serde(rename = "demand_bps", with = "rate::demand", default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Bandwidth>,
    /// The guarantee on this machine.
    #[serde(rename = "guarantee_bps", with = "rate")]
    pub guarantee: Bandwidth,
    /// The guarantee in the rack, all machines together.
    #[serde(rename = "rack_guarantee_bps", with = "rate")]
    pub rack_guarantee: Bandwidth,
    /// The maximum of the static policy on this machine.
    #[serde(rename = "maximum_bps", with = "rate")]
    pub maximum: Bandwidth,
    /// The share of the last period; absent before the first, and while the rack's policy is not in
    /// force.
    #[serde(rename = "share_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Bandwidth>,
    /// The constraint that decided the share, such as `demand`, `rack r1` or `max of dfs at rack`;
    /// absent as the share is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The runtime limit in force, of this agent or one before it.
    #[serde(rename = "limit_bps", with = "rate")]
    pub limit: Bandwidth,
    /// Bytes since the meters were started. Sent: those that left the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Received: the receive meter's capacity C.
    #[serde(rename = "meter_capacity_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub meter_capacity: Option<Bandwidth>,
    /// Received: R, the rate that each sender may use now; absent while no sender is rate-limited.
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
    /// Received: bytes of senders without Weir that the policer of the receive limit let pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranger_bytes: Option<u64>,
    /// Received: packets of senders without Weir that it marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranger_packets_marked: Option<u64>,
    /// Received: bytes of senders without Weir that it dropped; they count in no usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranger_bytes_dropped: Option<u64>,
    /// Received: packets of senders without Weir that it dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranger_packets_dropped: Option<u64>,
    /// Received: that senders without Weir sent to a limited service in the last period, and how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Sent: feedback that arrived from receivers and was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_received: Option<u64>,
    /// Sent: bytes that wait for a limiter now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_bytes: Option<u64>,
    /// Sent: buffers that the service's pacing or queue dropped (with offload, one stands for
    /// several packets).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
    /// Sent: the rate that the service offered to the interface in the last period.
    #[serde(rename = "offered_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Bandwidth>,
    /// Sent: the part of it that the service's pacing or queue dropped. Received: what the policer
    /// dropped of senders without Weir.
    #[serde(rename = "dropped_bps", with = "rate::known", default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Bandwidth>,
    /// Sent: bytes offered since the meters were started: those sent, dropped and waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_bytes: Option<u64>,
    /// Sent: bytes dropped since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_bytes: Option<u64>,
    /// Sent: destinations that are rate-limited by their receivers now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations_limited: Option<u64>,
}

impl DirectionStatus {
    /// Whether a constraint other than its own demand decides the share.
    pub fn is_limited(&self) -> bool {
        self.decided_by.as_deref().is_some_and(|by| by != "demand")
    }
    /// The rate that is enforced now: the runtime limit or the static maximum, whichever is lower.
    pub fn effective_limit(&self) -> Bandwidth {
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
            stranger_bytes: None,
            stranger_packets_marked: None,
            stranger_bytes_dropped: None,
            stranger_packets_dropped: None,
            remark: None,
            feedback_received: None,
            backlog_bytes: None,
            drops: None,
            offered: None,
            dropped: None,
            offered_bytes: None,
            dropped_bytes: None,
            destinations_limited: None,
        }
    }
}

/// The binding of switches' queues to tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantQueuesStatus {
    /// Machines and switches with a stream.
    pub subscribers: u64,
    /// Streams that have begun.
    #[serde(default)]
    pub subscriptions: u64,
    /// Switches that had lost their queues, as often as they reported it.
    #[serde(default)]
    pub switch_resets: u64,
    /// Choices of the tenants with queues of their own.
    pub intervals: u64,
    /// Moves between queues that began.
    pub moves_begun: u64,
    /// Moves that ended.
    pub moves_ended: u64,
    /// Tenants that got no queue in an interval because no DSCP value was left.
    pub without_dscp: u64,
    /// Moves that turned back because a machine of the tenant was off.
    #[serde(default)]
    pub moves_turned_back: u64,
    /// Machines for which no move waits, because they have been without a stream for the lease.
    #[serde(default)]
    pub machines_gone: u64,
    /// Machines and switches that have not confirmed their settings.
    #[serde(default)]
    pub unconfirmed: u64,
    /// How long moves took, from the limits of the tenant to their end.
    #[serde(default)]
    pub move_times: TenantTimes,
    /// How long changes of weights took to reach all switches that a tenant passes: the steps `raise` and `lower`.
    #[serde(default)]
    pub switch_times: TenantTimes,
    /// The tenants, in name order; at most [`TenantQueuesStatus::MOST_TENANTS`].
    pub tenants: Vec<TenantStatus>,
    /// The number of tenants beyond those.
    #[serde(default)]
    pub tenants_left_out: u64,
}

impl TenantQueuesStatus {
    /// The most tenants that a status holds: some hundred bytes each.
    pub const MOST_TENANTS: usize = 10_000;
    /// The most ports of a tenant that a status holds.
    pub const MOST_PORTS: usize = 4;
}

/// Times since the broker began to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantTimes {
    /// How many.
    pub count: u64,
    /// Their sum, in microseconds.
    pub sum_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}

/// A tenant and its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantStatus {
    /// Its name.
    pub tenant: String,
    /// Whether it has queues of its own.
    pub has_queues: bool,
    /// When it got or lost them, in milliseconds since 1970; absent if that was before the broker began to lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// The DSCP value of its packets.
    pub dscp: u8,
    /// The step of its move: `cap`, `raise`, `tag`, `drain`, `unmap` or `lower`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<String>,
    /// Its guarantee: the sum over its virtual machines.
    #[serde(default, rename = "guarantee_bps", with = "rate")]
    pub guarantee: Bandwidth,
    /// Its usage in the last interval, the sum over its machines: sent.
    #[serde(default, rename = "used_tx_bps", with = "rate")]
    pub used_tx: Bandwidth,
    /// Received.
    #[serde(default, rename = "used_rx_bps", with = "rate")]
    pub used_rx: Bandwidth,
    /// Its score in the last interval, bit/s.
    pub score_bps: u64,
    /// The ports at which it competes for queues, because more tenants pass them than they have queues for single
    /// tenants: those with most tenants, at most [`TenantQueuesStatus::MOST_PORTS`].
    #[serde(default)]
    pub competes: Vec<TenantPort>,
    /// The number of such ports beyond those.
    #[serde(default)]
    pub competes_left_out: u64,
}

/// A port at which tenants compete for queues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantPort {
    /// The names of the switch and of the neighbour.
    pub port: String,
    /// The tenants that pass it.
    pub tenants: u64,
    /// Its queues for single tenants.
    pub queues: u64,
}

/// The status of a fabric broker.
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
    /// Whether it leads, so that it computes and sends limits. A broker that runs alone leads.
    pub leads: bool,
    /// The leading broker, if there is one and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The policy's fingerprint, 16 hexadecimal digits.
    pub policy: String,
    /// The broker's epoch, which counts its starts.
    pub epoch: u64,
    /// Periods since then.
    pub round: u64,
    /// Why the last reload of the policy was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_refused: Option<String>,
    /// Why the last reload of the certificates was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_refused: Option<String>,
    /// When the broker's certificate ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends: Option<i64>,
    /// The number of machines with a stream.
    #[serde(default)]
    pub streams: u64,
    /// The queues of tenants; `None` if this broker binds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_queues: Option<TenantQueuesStatus>,
    /// The number of racks in the policy.
    pub racks: u64,
    /// The number of racks that reported within the timeout.
    pub racks_reporting: u64,
    /// The capacity of the fabric.
    #[serde(with = "rate")]
    pub capacity_tx_bps: Bandwidth,
    /// The same for receiving.
    #[serde(with = "rate")]
    pub capacity_rx_bps: Bandwidth,
    /// The limits in force, by rack and service; at most [`FabricStatus::MOST_LIMITS`].
    pub limits: Vec<FabricLimit>,
    /// The number of limits beyond those.
    #[serde(default)]
    pub limits_left_out: u64,
    /// Counters of the broker.
    pub counters: FabricCounters,
}

impl FabricStatus {
    /// The most limits that a status holds: some hundred bytes each.
    pub const MOST_LIMITS: usize = 10_000;

    /// The capacity of the fabric in both directions.
    pub fn capacity(&self) -> PerDirection<Bandwidth> {
        PerDirection { tx: self.capacity_tx_bps, rx: self.capacity_rx_bps }
    }
}

/// A limit of a service in a rack, all its machines together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricLimit {
    /// The rack's name.
    pub rack: String,
    /// The leaf service's path.
    pub service: String,
    /// `tx` or `rx`.
    pub direction: String,
    /// The rack's demand.
    #[serde(rename = "demand_bps", with = "rate")]
    pub demand: Bandwidth,
    /// The limit.
    #[serde(rename = "limit_bps", with = "rate")]
    pub limit: Bandwidth,
}
