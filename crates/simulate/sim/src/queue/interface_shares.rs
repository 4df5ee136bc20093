//! The services of a host's interface by their shares of the machine: guarantees, maxima aside, and
//! weights.
//!
//! Problem: a full interface is divided among the services that have frames, by the tree that the
//! policy has for its machine; on Linux the classes of HTB and the shares of departure times do it
//! within milliseconds. Approach: the services with frames are backlogged. Their shares in the
//! tree are computed when that set changes, and are the rates of a start-time fair queue: each
//! frame has a virtual start time, which is that of its service's previous frame plus that frame's
//! time at the service's rate, but at least the virtual time at its arrival; the earliest leaves.
//!
//! Maxima are the root limiters', before this queue. A service that one of them keeps below its
//! share has frames from time to time, which precede those of the others.
//!
//! Worked example: `g` is guaranteed 80 of 100 Mb/s, `b` nothing. While both have frames their
//! shares are 90 and 10: nine frames of `g` for one of `b`. While `g` has none, `b` has all.
//!
//! Source: Parley §3.1 (the node rule); Goyal, Vin and Cheng, "Start-time fair queuing", SIGCOMM
//! 1996, for the order of frames.

use crate::ids::{PacketId, ServiceIndex};
use crate::packet::{Arena, List};
use std::sync::Arc;
use weir_alloc::tree::{Scratch, ShareTree, TreeShares};
use weir_units::Bandwidth;

/// Virtual nanoseconds in which a bit leaves at 1 bit/s.
const NANOS: u64 = 1_000_000_000;
/// The bits of the largest frame: with headers, of an MTU of 9,000 bytes.
const LARGEST_BITS: u64 = 9_100 * 8;

/// The frames of each service, and the order in which they leave.
#[derive(Debug)]
pub(crate) struct InterfaceShares {
    capacity: Bandwidth,
    /// Its leaves are the services.
    tree: Arc<ShareTree>,
    /// By service; control traffic, which is the last service, precedes all others.
    services: Vec<Service>,
    control: List,
    /// The virtual start time of the last frame that left.
    time: u64,
    /// Whether the rates are those of the services that have frames now.
    current: bool,
    demands: Vec<Bandwidth>,
    shares: TreeShares,
    scratch: Scratch,
}

#[derive(Debug, Clone, Default)]
struct Service {
    frames: List,
    /// The virtual start time of its next frame.
    start: u64,
    /// Its share while the present services have frames, bit/s.
    rate: u64,
}

impl InterfaceShares {
    /// An empty queue of an interface of `capacity` for services with the shares of `tree`.
    pub(crate) fn new(capacity: Bandwidth, tree: Arc<ShareTree>) -> Self {
        Self {
            capacity,
            services: vec![Service::default(); tree.leaf_count()],
            tree,
            control: List::default(),
            time: 0,
            current: false,
            demands: Vec::new(),
            shares: TreeShares::default(),
            scratch: Scratch::default(),
        }
    }

    /// Changes the shares of the same services from the next frame on.
    pub(crate) fn set(&mut self, capacity: Bandwidth, tree: Arc<ShareTree>) {
        debug_assert_eq!(tree.leaf_count(), self.services.len(), "the services of a policy stay");
        (self.capacity, self.tree, self.current) = (capacity, tree, false);
    }

    /// Puts a frame at the end of its service's list.
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, service: ServiceIndex, id: PacketId) {
        let Some(service) = self.services.get_mut(service.index()) else {
            return self.control.push(packets, id);
        };
        if service.frames.is_empty() {
            service.start = service.start.max(self.time);
            self.current = false;
        }
        service.frames.push(packets, id);
    }

    /// Takes the frame with the earliest virtual start.
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        if !self.control.is_empty() {
            return self.control.pop(packets);
        }
        if !self.current {
            self.share();
        }
        let waiting = self.services.iter_mut().filter(|service| !service.frames.is_empty());
        let service = waiting.min_by_key(|service| service.start)?;
        self.time = service.start;
        let id = service.frames.pop(packets)?;
        let bits = u64::from(packets.get(id).size) * 8;
        service.start += bits * NANOS / service.rate;
        self.current &= !service.frames.is_empty();
        Some(id)
    }

    /// Computes the rates of the services that have frames.
    fn share(&mut self) {
        let demand = |service: &Service| match service.frames.is_empty() {
            true => Bandwidth::ZERO,
            false => Bandwidth::UNLIMITED,
        };
        self.demands.clear();
        self.demands.extend(self.services.iter().map(demand));
        let no_limit = |_| Bandwidth::UNLIMITED;
        self.tree.share(self.capacity, &self.demands, no_limit, &mut self.shares, &mut self.scratch);
        for (leaf, service) in self.services.iter_mut().enumerate() {
            let rate = self.shares.leaf(&self.tree, leaf);
            // Where guarantees take everything, others send what those leave: a frame at 1 bit/s
            // starts next when no other waits.
            service.rate = rate.bps().max(1);
            // The last frame may have left at a far lower rate.
            service.start = service.start.min(self.time.saturating_add(LARGEST_BITS * NANOS / service.rate));
        }
        self.current = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;
    use weir_policy::{Place, Policy};
    use weir_units::{Direction, MachineId};

    fn queue(services: &str) -> InterfaceShares {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 100Mb/s, racks: {{ r: {{ uplink: 100Mb/s, machines: [m] }} }} }}\n\
             services: {{ {services} }}\n"
        );
        let policy = Policy::parse("p.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let tree = ShareTree::of_services(&policy, Place::Machine(MachineId(0)), Direction::Tx);
        InterfaceShares::new(Bandwidth::from_mbps(100), Arc::new(tree))
    }

    /// A leaf service of the policy.
    fn leaf(name: &str, port: u16, share: &str) -> String {
        format!("{name}: {{ match: [ {{ protocol: udp, port: {port} }} ], machine: {{ tx: {{ {share} }} }} }}")
    }

    /// Frames of each service among `count`, while those in `backlogged` always have some.
    fn frames(queue: &mut InterfaceShares, packets: &mut Arena, backlogged: &[u8], count: usize) -> Vec<usize> {
        let mut left = vec![0; queue.services.len()];
        for service in backlogged {
            for _ in 0..count {
                let id = packet(packets, 1500, *service);
                queue.push(packets, ServiceIndex((*service).into()), id);
            }
        }
        for _ in 0..count {
            let id = queue.pop(packets).expect("a frame");
            left[packets.get(id).service.index()] += 1;
        }
        while queue.pop(packets).is_some() {}
        left
    }

    #[test]
    fn worked_example() {
        let services = [leaf("g", 1, "min: 80Mb/s"), leaf("b", 2, "weight: 1")].join(", ");
        let (mut packets, mut queue) = (Arena::default(), queue(&services));
        // In order of names: `b`, `g`.
        assert_eq!(frames(&mut queue, &mut packets, &[0, 1], 1000), [100, 900]);
        assert_eq!(frames(&mut queue, &mut packets, &[0], 100), [100, 0]);
    }

    /// The rates of backlogged services are those of the machine's plan, and so those that hosts enforce.
    #[test]
    fn backlogged_services_have_the_committed_rates_of_the_plan() {
        for drawn in (0..100).map(weir_random_policies::draw_for_machines) {
            let (policy, machine) = (&drawn.policy, MachineId(0));
            let plan = weir_shaping::MachinePlan::new(policy, machine);
            let tree = Arc::new(ShareTree::of_services(policy, Place::Machine(machine), Direction::Tx));
            let mut queue = InterfaceShares::new(policy.machine_capacity(machine, Direction::Tx), tree);
            let mut packets = Arena::default();
            for service in 0..plan.leaves.len() as u8 {
                let id = packet(&mut packets, 1500, service);
                queue.push(&mut packets, ServiceIndex(service.into()), id);
            }
            queue.share();
            let rates: Vec<u64> = queue.services.iter().map(|service| service.rate).collect();
            let committed: Vec<u64> = plan.leaves.iter().map(|leaf| leaf.shares.tx.committed.bps().max(1)).collect();
            assert_eq!(rates, committed, "seed {}", drawn.seed);
        }
    }

    #[test]
    fn weights_share_beside_any_set_of_services() {
        let services = [leaf("a", 1, "weight: 2"), leaf("b", 2, "weight: 5"), leaf("c", 3, "weight: 3")].join(", ");
        let (mut packets, mut queue) = (Arena::default(), queue(&services));
        assert_eq!(frames(&mut queue, &mut packets, &[0, 1, 2], 1000), [200, 500, 300]);
        let left = frames(&mut queue, &mut packets, &[0, 2], 1000);
        assert!(left[0].abs_diff(400) <= 1 && left[2].abs_diff(600) <= 1, "{left:?}");
    }

    #[test]
    fn service_has_the_share_of_its_idle_sibling() {
        let inner = [leaf("x", 1, "weight: 1"), leaf("y", 2, "weight: 1")].join(", ");
        let parent = format!("p: {{ machine: {{ tx: {{ weight: 3 }} }}, services: {{ {inner} }} }}");
        let (mut packets, mut queue) = (Arena::default(), queue(&[leaf("a", 3, "weight: 2"), parent].join(", ")));
        assert_eq!(frames(&mut queue, &mut packets, &[0, 1, 2], 1000), [400, 300, 300]);
        let left = frames(&mut queue, &mut packets, &[0, 1], 1000);
        assert!(left[0].abs_diff(400) <= 1 && left[1].abs_diff(600) <= 1, "{left:?}");
    }

    #[test]
    fn control_traffic_leaves_first() {
        let services = [leaf("a", 1, "weight: 1"), leaf("b", 2, "weight: 1")].join(", ");
        let (mut packets, mut queue) = (Arena::default(), queue(&services));
        let (data, control) = (packet(&mut packets, 1500, 0), packet(&mut packets, 64, 2));
        queue.push(&mut packets, ServiceIndex(0), data);
        queue.push(&mut packets, ServiceIndex(2), control);
        assert_eq!(queue.pop(&mut packets), Some(control));
        assert_eq!(queue.pop(&mut packets), Some(data));
    }
}
