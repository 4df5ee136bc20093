//! A world as data: its network, flows and faults, and which of the specification's traps it has.

use crate::world::Nanos;
use std::fmt;
use weir_credits::{Period, PeriodRule};
use weir_units::{Bandwidth, Bytes, Weight};

/// The largest frame on the wire.
pub(crate) const FRAME: u64 = 1_514;
/// A control message on the wire, below the size that needs credits.
pub(crate) const CONTROL: u64 = 84;

/// Parts of the protocol that are left out, each of which has a measured trap in its place. None by default.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Variant {
    /// Whole frames, and no remainder is carried over.
    pub(crate) no_carry: bool,
    /// Senders return d_p as it arrived.
    pub(crate) full_potential: bool,
    /// The sending host's interface has no part in the protocol.
    pub(crate) first_port_open: bool,
    /// C_0 with the port's own period alone.
    pub(crate) own_period_only: bool,
    /// a_w is infinite where all flows are satisfied.
    pub(crate) unlimited_shares: bool,
    /// Grants live for 2p, without the queueing bound.
    pub(crate) plain_lifetime: bool,
    /// Q is 0 for grants: the observers are to find that A + Q exceeds 2 · C_0.
    pub(crate) queue_ignored: bool,
}

/// The source of a flow's data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Application {
    /// More than is ever sent.
    Backlog,
    /// A frame after the other at this rate.
    Rate(Bandwidth),
    /// That many bytes, with which the flow ends.
    Size(u64),
}

/// A flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowPlan {
    /// The indices of its hosts.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) weight: Weight,
    pub(crate) start: Nanos,
    pub(crate) application: Application,
    /// The receiver's p-min.
    pub(crate) least: Period,
}

/// An event from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happening {
    /// A flow ends.
    Stop(u32),
    /// A flow takes the other one of the parallel links of a trunk.
    Reroute { flow: u32, trunk: usize },
    /// A port of a switch loses its state.
    Restart(usize),
    /// A sender ignores its credits until then.
    Rogue { flow: u32, until: Nanos },
    /// A flow has more to send, after its end or before.
    Write { flow: u32, bytes: u64 },
    /// The link of a flow's first hop loses all its messages and data until then.
    Outage { flow: u32, until: Nanos },
}

/// Faults of links, in thousandths of messages, until a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) until: Nanos,
    pub(crate) lost_control: u32,
    pub(crate) repeated: u32,
    /// Requests, allocations and returns that arrive again at any later time of the faults.
    pub(crate) replayed: u32,
    pub(crate) delayed: u32,
    /// The most by which a message is delayed.
    pub(crate) delay: Nanos,
    pub(crate) lost_data: u32,
}

/// A chain of switches, of which each has trunks to the next one.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) rule: PeriodRule,
    pub(crate) memory: u64,
    /// The delay of each link.
    pub(crate) delay: Nanos,
    /// Trunks in a row, and parallel links of each.
    pub(crate) trunks: usize,
    pub(crate) paths: usize,
    /// The switches of sending and of receiving hosts.
    pub(crate) senders: Vec<usize>,
    pub(crate) receivers: Vec<usize>,
    pub(crate) whole_frames: bool,
    /// Ports publish once in each of their periods, as on Linux, and not with each allocation.
    pub(crate) periodic: bool,
    pub(crate) variant: Variant,
    pub(crate) faults: Faults,
    pub(crate) flows: Vec<FlowPlan>,
    pub(crate) happenings: Vec<(Nanos, Happening)>,
}

impl Plan {
    /// A network at 1 Gb/s with p from 200 µs, as the paper has it, without flows and faults.
    pub(crate) fn new(trunks: usize, senders: &[usize], receivers: &[usize]) -> Self {
        Self {
            rule: PeriodRule {
                rate: Bandwidth::from_gbps(1),
                least: Period::from_micros(200),
                most: Period::from_micros(5_100),
                frame: Bytes::new(FRAME),
            },
            memory: 4,
            delay: 5_000,
            trunks,
            paths: 1,
            senders: senders.to_vec(),
            receivers: receivers.to_vec(),
            whole_frames: false,
            periodic: false,
            variant: Variant::default(),
            faults: Faults::default(),
            flows: Vec::new(),
            happenings: Vec::new(),
        }
    }

    /// Adds a flow of weight 1 from a host to another one, and returns its number.
    pub(crate) fn flow(&mut self, from: usize, to: usize, start: Nanos, application: Application) -> u32 {
        let least = self.rule.least;
        self.flows.push(FlowPlan { from, to, weight: Weight::ONE, start, application, least });
        self.flows.len() as u32 - 1
    }

    /// Adds flows with a backlog that begin at 0.
    pub(crate) fn backlogs(&mut self, flows: usize, from: usize, to: usize) {
        for _ in 0..flows {
            self.flow(from, to, 0, Application::Backlog);
        }
    }

    pub(crate) fn ports(&self) -> usize {
        self.senders.len() + self.receivers.len() + self.trunks * self.paths
    }

    /// The port of a sending host, of a switch to a receiving host, and of a trunk's link.
    pub(crate) fn first(&self, host: usize) -> usize {
        debug_assert!(host < self.senders.len());
        host
    }
    pub(crate) fn last(&self, host: usize) -> usize {
        self.senders.len() + host
    }
    pub(crate) fn trunk(&self, trunk: usize, path: usize) -> usize {
        self.senders.len() + self.receivers.len() + trunk * self.paths + path
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} trunks of {} links with {} ns, senders at {:?}, receivers at {:?}, whole frames: {}, periodic: {}",
            self.trunks, self.paths, self.delay, self.senders, self.receivers, self.whole_frames, self.periodic
        )?;
        writeln!(f, "  {:?} {:?}", self.rule, self.faults)?;
        for (number, flow) in self.flows.iter().enumerate() {
            writeln!(f, "  flow {number}: {flow:?}")?;
        }
        self.happenings.iter().try_for_each(|(at, happening)| writeln!(f, "  at {at} ns: {happening:?}"))
    }
}
