//! [`Offer`]: the queues that a network's switches have, and [`Map`]: where they choose a packet's queue.
//!
//! Problem: mechanisms need queues of switches (latency levels strict ones, tenants weighted ones), and networks
//! differ. Approach: the file states the number of queues of a port, their scheduler and the place of DSCP maps;
//! admission control, the binding of tenants' queues and the configuration of switches read it here.
//!
//! Worked example: `switches: { queues: 8, scheduler: { strict: 2, weighted: 6 } }` offers two strict queues, and five
//! weighted ones beside the shared one.

use std::collections::BTreeSet;

/// The schedulers of a network's switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// One queue.
    Plain,
    /// Strict queues.
    Strict,
    /// Weighted queues.
    Weighted,
    /// So many strict queues before so many weighted ones.
    Mixed {
        /// Strict queues.
        strict: u8,
        /// Weighted queues, at least 1.
        weighted: u8,
    },
}

impl Scheduler {
    /// The keyword in a file; for a mixed scheduler, a description.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Strict => "strict",
            Self::Weighted => "weighted",
            Self::Mixed { .. } => "strict and weighted",
        }
    }
}

/// The queues of a network's switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The queues of a port.
    pub queues: u8,
    /// Their scheduler.
    pub scheduler: Scheduler,
}

/// The place at which switches map DSCP values to queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Map {
    /// At every port on its own, where packets leave (Linux).
    #[default]
    PerPort,
    /// On arrival, before the leaving port is chosen: one map for all ports (most hardware; SONiC).
    PerSwitch,
}

/// The DSCP values of network control: CS6 and CS7 (RFC 4594, RFC 2474).
pub const NETWORK_CONTROL: [u8; 2] = [48, 56];

/// The DSCP value that hosts give to data of services with credits: AF11, high-throughput data (RFC 4594 section 4.8).
pub const CREDIT_DATA: u8 = 10;

/// The DSCP value that hosts give to messages of credits: CS5, signalling (RFC 4594 section 4.2).
pub const CREDIT_MESSAGES: u8 = 40;

/// Both values of credits.
pub const CREDITS: [u8; 2] = [CREDIT_DATA, CREDIT_MESSAGES];

/// The DSCP values that tenants can have, ascending: all but 0, which is the shared queue's, those of network control,
/// and those of others (latency levels, services' filters, the operator's own).
pub fn pool(of_others: &BTreeSet<u8>) -> Vec<u8> {
    (1..64).filter(|value| !of_others.contains(value) && !NETWORK_CONTROL.contains(value)).collect()
}

/// The queues of a port of most switches (IEEE 802.1Q has eight traffic classes).
pub const COMMON_QUEUES: u8 = 8;

impl Offer {
    /// Switches with one queue for each port.
    pub const PLAIN: Self = Self { queues: 1, scheduler: Scheduler::Plain };
    /// Switches with eight strict queues for each port.
    pub const STRICT: Self = Self { queues: COMMON_QUEUES, scheduler: Scheduler::Strict };

    /// The strict queues that levels can have, and the weighted queues that groups can have, beside the queue that all
    /// other traffic shares.
    pub fn available(self) -> (usize, usize) {
        let beside_shared = usize::from(self.queues).saturating_sub(1);
        match self.scheduler {
            Scheduler::Plain => (0, 0),
            Scheduler::Strict => (beside_shared, 0),
            Scheduler::Weighted => (0, beside_shared),
            Scheduler::Mixed { strict, weighted } => (strict.into(), usize::from(weighted).saturating_sub(1)),
        }
    }
}
