//! What the network does to what a rack's machines receive, and what their receive meters know of it.
//!
//! A queue before a rack marks packets, the more the fuller it is: as measured, one of seventy where 70 % of its rate is
//! wanted, one of two from 110 % on. What is wanted above its rate does not arrive: all senders are slowed in
//! proportion. A machine's services share its interface by its static policy. Two senders share what a service receives on
//! a machine, so R is half of it.

use rand::Rng;
use rand::rngs::SmallRng;
use std::fmt;
use weir_alloc::tree::{Scratch, ShareTree, TreeShares};
use weir_control::NetworkReading;
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId};

/// Parts of a whole.
const ONE: u64 = 1 << 20;
/// Bits of a packet.
const PACKET: u64 = 1_500 * 8;

/// Where packets are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Nowhere: machines without receive meters.
    None,
    /// At each rack's uplink.
    Uplink,
    /// At queues of 97 % of what racks' policies share: usage stays below however much is wanted.
    BelowCapacity,
    /// Far away, half of the packets of every other service of each machine, which no broker here can mend.
    Elsewhere,
}

impl Marks {
    pub(crate) fn draw(rng: &mut SmallRng) -> Self {
        // Half of the worlds have no marks: they are held to the narrower bounds.
        [Self::None, Self::None, Self::None, Self::Uplink, Self::BelowCapacity, Self::Elsewhere][rng.random_range(0..6)]
    }

    /// The queue before a rack.
    fn queue(self, policy: &Policy, rack: RackId) -> Option<Bandwidth> {
        match self {
            Self::None | Self::Elsewhere => None,
            Self::Uplink => Some(policy.network().rack(rack).uplink().rx),
            Self::BelowCapacity => {
                Some(Bandwidth::from_bps(policy.rack_capacity(rack, Direction::Rx).bps() / 100 * 97))
            }
        }
    }

    /// What becomes of traffic to each machine of a rack, whose services want so much.
    pub(crate) fn arrivals(self, policy: &Policy, rack: RackId, wanted: Vec<Vec<Bandwidth>>) -> Vec<Arrival> {
        let machines = policy.network().rack(rack).machines();
        let marked = |machine: &MachineId, leaf: usize, by_queue: u64| match self {
            Self::None => 0,
            Self::Uplink | Self::BelowCapacity => by_queue,
            Self::Elsewhere => ONE / 2 * ((machine.index() + leaf) % 2) as u64,
        };
        let arrival = |(rates, machine): (Vec<Bandwidth>, &MachineId), by_queue: u64| Arrival {
            marked: (0..rates.len()).map(|leaf| marked(machine, leaf, by_queue)).collect(),
            rates,
        };
        let Some(queue) = self.queue(policy, rack) else {
            return wanted.into_iter().zip(machines).map(|pair| arrival(pair, 0)).collect();
        };
        // The machine's own receive meters slow senders first: what an interface has no room for does not come to the queue.
        let tree = ShareTree::of_services(policy, ContentionPoint::Machine, Direction::Rx);
        let mut rates: Vec<Vec<Bandwidth>> = wanted
            .iter()
            .zip(machines)
            .map(|(wanted, machine)| {
                let (mut shares, mut scratch) = (TreeShares::default(), Scratch::default());
                let nic = policy.machine_capacity(*machine, Direction::Rx);
                tree.share(nic, wanted, |_| Bandwidth::UNLIMITED, &mut shares, &mut scratch);
                (0..wanted.len()).map(|leaf| shares.leaf(&tree, leaf)).collect()
            })
            .collect();
        let all: u128 = rates.iter().flatten().map(|rate| u128::from(rate.bps())).sum();
        let rate = u128::from(queue.bps());
        if all > rate {
            let slowed = |of: Bandwidth| Bandwidth::from_bps((u128::from(of.bps()) * rate / all) as u64);
            rates.iter_mut().flatten().for_each(|rate| *rate = slowed(*rate));
        }
        let load = (all * u128::from(ONE) / rate) as u64;
        let (light, full) = (ONE / 100 * 70, ONE / 100 * 110);
        let (few, many) = (ONE / 70, ONE / 2);
        let by_queue = few + (load.clamp(light, full) - light) * (many - few) / (full - light);
        rates.into_iter().zip(machines).map(|pair| arrival(pair, by_queue)).collect()
    }

    /// What the receive meter knows of a service that receives at `usage` now and received so many bits × 10^9, and of
    /// them so many in marked packets.
    pub(crate) fn reading(self, received: u128, marked: u128, usage: Bandwidth) -> NetworkReading {
        if self == Self::None {
            return NetworkReading::default();
        }
        let packets = |bits: u128| (bits / u128::from(PACKET * 1_000_000_000)) as u64;
        let rate = Some(Bandwidth::from_bps(usage.bps() / 2));
        NetworkReading { packets: packets(received), marked: packets(marked), rate }
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no marks",
            Self::Uplink => "marks at full uplinks",
            Self::BelowCapacity => "marks at queues below the racks' capacity",
            Self::Elsewhere => "marks elsewhere",
        })
    }
}

/// What a machine receives just now, by leaf service.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) rates: Vec<Bandwidth>,
    /// The part of its packets that are marked.
    marked: Vec<u64>,
}

impl Arrival {
    pub(crate) fn nothing(leaves: usize) -> Self {
        Self { rates: vec![Bandwidth::ZERO; leaves], marked: vec![0; leaves] }
    }

    /// The part of a service's bits that is marked.
    pub(crate) fn marked(&self, leaf: usize, bits: u128) -> u128 {
        bits * u128::from(self.marked[leaf]) / u128::from(ONE)
    }
}
