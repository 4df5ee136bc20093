//! The binder's inputs, outputs and settings.

use super::motion::TenantState;
use crate::queues::{Map, QueueIndex};
use crate::site::PortId;
use std::collections::BTreeMap;
use weir_placement::SwitchId;
use weir_policy::{Policy, SharedQueue};
use weir_units::{Bandwidth, Duration, MachineId, PerDirection, TenantId};

/// Settings of a binder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinderConfig {
    /// The time between two choices of the tenants with queues. QShare §VII-A: 4 s.
    pub interval: Duration,
    /// The time after which settings that are not applied are sent again.
    pub retry: Duration,
    /// The time between two readings of a queue that a tenant's packets are leaving.
    pub poll: Duration,
    /// The place at which switches map packets to queues.
    pub map: Map,
    /// The largest weight of a queue, at least 1.
    pub most_weight: u32,
    /// The DSCP values of tenants, ascending: each 1 to 63, since 0 is the shared queue's; see
    /// [`weir_network::switches::pool`].
    pub pool: Vec<u8>,
    /// The most ports of a path, at least 1; the rounds of readings by which a queue's packets have left the network.
    pub hops: u32,
    /// Tenants without queues of their own are limited to their reservations.
    pub limit_shared: bool,
    /// The time after the end of a machine's connection from which no step waits for it. It must be longer than that in
    /// which a machine without a connection limits its tenants.
    pub lease: Duration,
}

impl BinderConfig {
    /// The time after which settings that are not applied are sent again: SONiC's daemons need about a second.
    pub const RETRY: Duration = Duration::from_secs(2);
    /// The time between two readings of a queue: a full buffer of a megabyte leaves a link of 1 Gb/s in 8 ms.
    pub const POLL: Duration = Duration::from_millis(10);
    /// The largest weight of a queue: SONiC's.
    pub const MOST_WEIGHT: u32 = 100;

    /// The time after the end of its connection from which no step waits for a machine. An agent notices the end within
    /// 10 s and limits its tenants [`Self::AGENT_LEASE`] later; the rest is a reserve for a busy machine.
    pub const LEASE: Duration = Duration::from_secs(90);
    /// The time without a connection after which an agent limits its tenants to their reservations: a controller that
    /// restarts, or is succeeded, is back earlier.
    pub const AGENT_LEASE: Duration = Duration::from_secs(60);

    /// The settings that a policy states, on a network with paths of at most `hops` ports.
    pub fn of_policy(policy: &Policy, hops: u32) -> Self {
        let queues = policy.tenant_queues();
        Self {
            interval: queues.interval,
            retry: Self::RETRY,
            poll: Self::POLL,
            map: policy.network().map(),
            most_weight: Self::MOST_WEIGHT,
            pool: policy.tenant_dscps(),
            hops,
            limit_shared: queues.shared == SharedQueue::Cap,
            lease: Self::LEASE,
        }
    }
}

/// The order of settings for a machine or a switch. A successor has a higher epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// The number of the binder's start.
    pub epoch: u64,
    /// The number of the change.
    pub number: u64,
}

/// The settings of a tenant at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantSettings {
    /// The DSCP value of its packets; 0 in the shared queue.
    pub dscp: u8,
    /// It sends and receives no more than its reservation there.
    pub limited: bool,
}

/// The settings of a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortSettings {
    /// The weight of the shared queue, then those of the tenants' queues.
    pub weights: Vec<u32>,
    /// The queues of DSCP values; all others are in the shared queue. The same at all ports of a switch that maps
    /// packets on arrival.
    pub map: BTreeMap<u8, QueueIndex>,
}

/// A queue of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// The port.
    pub port: PortId,
    /// The queue; `None` for the shared one.
    pub queue: Option<QueueIndex>,
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinderInput {
    /// The time of [`super::Binder::poll_timeout`] has come.
    Timeout,
    /// A tenant's usage of a machine's interface since the last report.
    Usage {
        /// The machine.
        machine: MachineId,
        /// The tenant.
        tenant: TenantId,
        /// Its usage.
        used: PerDirection<Bandwidth>,
    },
    /// A machine has applied its settings of this version, and its interface has sent what was queued before.
    MachineApplied {
        /// The machine.
        machine: MachineId,
        /// The version.
        version: Version,
    },
    /// A switch has applied the settings of its ports of this version.
    SwitchApplied {
        /// The switch.
        switch: SwitchId,
        /// The version.
        version: Version,
    },
    /// A machine has connected: settings that it confirmed earlier may be lost, and are sent again under a new version.
    MachineConnected {
        /// The machine.
        machine: MachineId,
    },
    /// The connection of a machine has ended, or a controller has begun without one. Until it connects, it tags packets
    /// as it did, or does not send.
    MachineDisconnected {
        /// The machine.
        machine: MachineId,
    },
    /// The same of a switch that has queues.
    SwitchConnected {
        /// The switch.
        switch: SwitchId,
    },
    /// A switch has lost its settings.
    SwitchReset {
        /// The switch.
        switch: SwitchId,
    },
    /// A reading of a queue.
    QueueRead {
        /// The queue.
        queue: QueueId,
        /// The round of [`BinderOutput::Read`].
        round: u64,
        /// Bytes that it has sent since it exists.
        sent: u64,
        /// Bytes in it.
        backlog: u64,
    },
}

/// An output. Outputs are carried out in their order: what is to be kept ([`Self::Keep`]) is stored before any output
/// behind it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinderOutput {
    /// The state of a tenant has changed, and a successor needs it.
    Keep {
        /// The tenant.
        tenant: TenantId,
        /// Its state from now on.
        state: TenantState,
    },
    /// The settings of all tenants of a machine.
    Machine {
        /// The machine.
        machine: MachineId,
        /// Their version.
        version: Version,
        /// The settings.
        tenants: Vec<(TenantId, TenantSettings)>,
    },
    /// The settings of all ports of a switch that tenants pass.
    Switch {
        /// The switch.
        switch: SwitchId,
        /// Their version.
        version: Version,
        /// The settings.
        ports: Vec<(PortId, PortSettings)>,
    },
    /// A reading of a queue is needed, made from now on.
    Read {
        /// The queue.
        queue: QueueId,
        /// The round of readings that it is for.
        round: u64,
    },
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BinderCounters {
    /// Choices of the tenants with queues.
    pub intervals: u64,
    /// Moves that began.
    pub moves: u64,
    /// Moves that ended.
    pub moved: u64,
    /// Tenants that got no queues in an interval because no DSCP value was left.
    pub without_value: u64,
    /// Answers of machines and switches to settings of an earlier binder or of an earlier version.
    pub outdated: u64,
    /// Settings that were sent again.
    pub repeated: u64,
    /// Moves that turned back because a machine of the tenant was without a connection for the time of its lease.
    pub turned_back: u64,
}

impl std::ops::Add for BinderCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            intervals: self.intervals + other.intervals,
            moves: self.moves + other.moves,
            moved: self.moved + other.moved,
            without_value: self.without_value + other.without_value,
            outdated: self.outdated + other.outdated,
            repeated: self.repeated + other.repeated,
            turned_back: self.turned_back + other.turned_back,
        }
    }
}
