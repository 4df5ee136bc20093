//! The network's effect on traffic to a rack's machines, and the readings of their receive meters.
//!
//! A queue before a rack marks packets by its load ([`MARKED`]). Load above its rate is not
//! delivered: all senders are throttled in proportion. A machine's services share its interface by
//! its static policy. Two senders share the traffic of a service to a machine, so R is half of its
//! rate.

use rand::Rng;
use rand::rngs::SmallRng;
use std::fmt;
use weir_alloc::tree::{Scratch, ShareTree, TreeShares};
use weir_control::NetworkReading;
use weir_policy::{Place, Policy};
use weir_units::{Bandwidth, Direction, MachineId, RackId};

/// The denominator of parts.
const ONE: u64 = 1 << 20;
/// Pairs of a queue's load in percent and its marked packets per thousand, as measured
/// (`docs/design/demand.md`); interpolated linearly, and constant above the last pair.
const MARKED: [(u64, u64); 8] = [(0, 0), (60, 4), (70, 22), (75, 50), (80, 95), (85, 195), (90, 430), (110, 470)];
/// Bits of a packet.
const PACKET: u64 = 1_500 * 8;

/// The place where packets are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// No marks: machines without receive meters.
    None,
    /// At each rack's uplink.
    Uplink,
    /// At queues with 97 % of the capacity that the racks' policies share: usage stays below the
    /// capacity under any load.
    BelowCapacity,
    /// At each rack's uplink, but never on a quarter of the packets, under any load: no broker
    /// counts a service as throttled.
    Few,
    /// At remote queues, on half of the packets of every other service of each machine, which no
    /// broker here can influence.
    Elsewhere,
}

/// The queue before a rack.
struct Queue {
    rate: Bandwidth,
    /// The highest part of marked packets, of [`ONE`].
    most: u64,
}

impl Marks {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::Uplink, Self::BelowCapacity, Self::Few, Self::Elsewhere];

    pub(crate) fn draw(rng: &mut SmallRng) -> Self {
        // Three of seven have no marks and show the bounds without their effect.
        let worlds =
            [Self::None, Self::None, Self::None, Self::Uplink, Self::BelowCapacity, Self::Elsewhere, Self::Few];
        worlds[rng.random_range(0..worlds.len())]
    }

    /// Whether marks throttle services in a fair part of these worlds.
    pub(crate) fn throttles(self) -> bool {
        match self {
            Self::None | Self::Few => false,
            Self::Uplink | Self::BelowCapacity | Self::Elsewhere => true,
        }
    }

    /// Whether queues before racks mark the traffic that they throttle.
    pub(crate) fn at_racks(self) -> bool {
        matches!(self, Self::Uplink | Self::BelowCapacity)
    }

    fn queue(self, policy: &Policy, rack: RackId) -> Option<Queue> {
        let uplink = policy.network().rack(rack).uplink().rx;
        match self {
            Self::None | Self::Elsewhere => None,
            Self::Uplink => Some(Queue { rate: uplink, most: ONE / 2 }),
            Self::Few => Some(Queue { rate: uplink, most: ONE / 5 }),
            Self::BelowCapacity => {
                let capacity = policy.rack_capacity(rack, Direction::Rx);
                Some(Queue { rate: Bandwidth::from_bps(capacity.bps() / 100 * 97), most: ONE / 2 })
            }
        }
    }

    /// Whether brokers can detect all load on a rack above its capacity. They measure received
    /// traffic and marks. A queue at the capacity that throttles with few marks makes a service's
    /// usage look like its demand.
    pub(crate) fn reveal_overload(self, policy: &Policy, rack: RackId) -> bool {
        match self {
            Self::None | Self::Uplink | Self::BelowCapacity | Self::Elsewhere => true,
            Self::Few => {
                policy.rack_capacity(rack, Direction::Rx).bps() < policy.network().rack(rack).uplink().rx.bps()
            }
        }
    }

    /// The part of a service's packets that remote queues mark, of [`ONE`].
    fn marked_elsewhere(self, machine: MachineId, leaf: usize) -> u64 {
        match self {
            Self::Elsewhere => ONE / 2 * ((machine.index() + leaf) % 2) as u64,
            Self::None | Self::Uplink | Self::BelowCapacity | Self::Few => 0,
        }
    }

    /// The most that the rate law lets a service receive under this limit where remote queues mark its packets: the
    /// unmarked part.
    pub(crate) fn passed(self, machine: MachineId, leaf: usize, limit: Bandwidth) -> Bandwidth {
        match self.marked_elsewhere(machine, leaf) {
            0 => limit,
            _ if limit.is_unlimited() => limit,
            marked => {
                Bandwidth::from_bps((u128::from(limit.bps()) * u128::from(ONE - marked) / u128::from(ONE)) as u64)
            }
        }
    }

    /// The traffic that arrives at each machine of a rack, by the demands of its services.
    pub(crate) fn arrivals(self, policy: &Policy, rack: RackId, wanted: Vec<Vec<Bandwidth>>) -> Vec<Arrival> {
        let machines = policy.network().rack(rack).machines();
        let Some(queue) = self.queue(policy, rack) else {
            let arrival = |(sent, machine): (Vec<Bandwidth>, &MachineId)| Arrival {
                marked: (0..sent.len()).map(|leaf| self.marked_elsewhere(*machine, leaf)).collect(),
                rates: sent.clone(),
                sent,
            };
            return wanted.into_iter().zip(machines).map(arrival).collect();
        };
        // The machine's own receive meters throttle senders first: load above the interface's rate
        // does not reach the queue.
        let interfaces = Interfaces::new(policy);
        let pairs = wanted.iter().zip(machines);
        let sent: Vec<_> = pairs.map(|(wanted, machine)| interfaces.rates(policy, *machine, wanted)).collect();
        let all = sent.iter().flatten().copied().sum();
        let marked = queue.marked(all);
        let arrival = |sent: Vec<Bandwidth>| Arrival {
            rates: sent.iter().map(|rate| queue.let_through(*rate, all)).collect(),
            marked: vec![marked; sent.len()],
            sent,
        };
        sent.into_iter().map(arrival).collect()
    }

    /// The reading of a service's receive meter at a rate of `usage`, after this total of bits ×
    /// 10^9 and of those in marked packets. `law` has the capacity of the rate law, and whether it
    /// keeps R below that; without it always.
    pub(crate) fn reading(
        self,
        (received, marked): (u128, u128),
        usage: Bandwidth,
        law: Option<(Bandwidth, bool)>,
    ) -> NetworkReading {
        if self == Self::None {
            return NetworkReading::default();
        }
        let packets = |bits: u128| (bits / u128::from(PACKET * 1_000_000_000)) as u64;
        let (packets, marked) = (packets(received), packets(marked));
        let shared = Bandwidth::from_bps(usage.bps() / 2);
        let (rate, capacity) = match law {
            Some((capacity, false)) => (capacity, capacity),
            Some((capacity, true)) => (shared, capacity),
            None => (shared, Bandwidth::ZERO),
        };
        NetworkReading { packets, marked, rate: Some(rate), capacity }
    }

    /// The most that the rate law lets a service of a machine receive: its limit, and its share of the interface
    /// beside the other services, where interfaces bound the traffic.
    pub(crate) fn capacity(
        self,
        policy: &Policy,
        machine: MachineId,
        (wanted, leaf, limit): (&[Bandwidth], usize, Bandwidth),
    ) -> Bandwidth {
        if self.queue(policy, policy.network().machine(machine).rack()).is_none() {
            return limit;
        }
        let mut wanted = wanted.to_vec();
        wanted[leaf] = limit;
        Interfaces::new(policy).rates(policy, machine, &wanted)[leaf]
    }
}

/// The shares of interfaces by the static policy, which machines' own receive meters enforce.
struct Interfaces(ShareTree);

impl Interfaces {
    fn new(policy: &Policy) -> Self {
        Self(ShareTree::of_services(policy, Place::Machine(MachineId(0)), Direction::Rx))
    }

    /// The rates of a machine's services, by leaf.
    fn rates(&self, policy: &Policy, machine: MachineId, wanted: &[Bandwidth]) -> Vec<Bandwidth> {
        let (mut shares, mut scratch) = (TreeShares::default(), Scratch::default());
        let nic = policy.machine_capacity(machine, Direction::Rx);
        self.0.share(nic, wanted, |_| Bandwidth::UNLIMITED, &mut shares, &mut scratch);
        (0..wanted.len()).map(|leaf| shares.leaf(&self.0, leaf)).collect()
    }
}

impl Queue {
    /// The delivered rate of a part of the whole load.
    fn let_through(&self, of: Bandwidth, all: Bandwidth) -> Bandwidth {
        match all > self.rate {
            true => {
                Bandwidth::from_bps((u128::from(of.bps()) * u128::from(self.rate.bps()) / u128::from(all.bps())) as u64)
            }
            false => of,
        }
    }

    /// The marked part of the whole load, of [`ONE`].
    fn marked(&self, all: Bandwidth) -> u64 {
        let load = (u128::from(all.bps()) * u128::from(ONE) / u128::from(self.rate.bps())) as u64;
        let steps = MARKED.map(|(load, marked)| (load * ONE / 100, marked * ONE / 1_000));
        let between = steps.windows(2).find(|pair| load < pair[1].0);
        let marked = match between {
            Some(pair) => {
                let ((from, few), (to, many)) = (pair[0], pair[1]);
                few + (load - from) * (many - few) / (to - from)
            }
            None => steps[steps.len() - 1].1,
        };
        marked.min(self.most)
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no marks",
            Self::Uplink => "marks at full uplinks",
            Self::BelowCapacity => "marks at queues below the racks' capacity",
            Self::Few => "few marks at full uplinks",
            Self::Elsewhere => "marks elsewhere",
        })
    }
}

/// The rates at which a machine receives, by leaf service.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) rates: Vec<Bandwidth>,
    /// The rates at which it is sent traffic, under all limits: higher where a queue drops a part.
    pub(crate) sent: Vec<Bandwidth>,
    /// The marked part of its packets, of [`ONE`].
    marked: Vec<u64>,
}

impl Arrival {
    pub(crate) fn nothing(leaves: usize) -> Self {
        let nothing = vec![Bandwidth::ZERO; leaves];
        Self { rates: nothing.clone(), sent: nothing, marked: vec![0; leaves] }
    }

    /// Whether the rate law, which keeps a service to this capacity, settles below it at the present rate. The rates
    /// are rounded.
    pub(crate) fn settles(&self, leaf: usize, capacity: Bandwidth) -> bool {
        let unmarked = u128::from(capacity.bps()) * u128::from(ONE - self.marked[leaf]) / u128::from(ONE);
        !capacity.is_unlimited() && u128::from(self.rates[leaf].bps()) * 1_000 >= unmarked * 999
    }

    /// The part of a service's bits that is marked.
    pub(crate) fn marked(&self, leaf: usize, bits: u128) -> u128 {
        bits * u128::from(self.marked[leaf]) / u128::from(ONE)
    }
}
