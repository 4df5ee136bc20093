//! Leaf and spine: the network that a policy describes.
//!
//! Every rack is a leaf switch with its machines below it; every leaf has a link to every spine. A machine's
//! links run at its interface's speeds; a rack's uplink speed is divided evenly over the spines, the remainder
//! in bit/s going to the first ones, so that the sum is exact. Flows spread over the spines by hash.
//!
//! Example: 2 racks with 10 machines of 10 Gb/s and uplinks of 80 Gb/s, 2 spines: 4 switches, 20 hosts, 4 pairs of
//! 40 Gb/s links (Parley Fig 11 has nine such racks).
//!
//! Source: Parley §6 (Fig 11); Alizadeh and Edsall, "On the data path performance of leaf-spine datacenter fabrics" (HotI 2013).

use crate::ids::{HostId, PortId, SwitchId};
use crate::observer::Observer;
use crate::packet::ETHERNET_HEADER;
use crate::world::World;
use weir_policy::Network;
use weir_scenario::Links;
use weir_scenario::graph::{Discipline, LinkSpec, QueueSpec};
use weir_units::{Bandwidth, Direction, PerDirection};

/// A leaf-spine network in a world. Host `i` is machine `i` of the policy.
#[derive(Debug)]
pub struct LeafSpine {
    /// The racks, in the policy's order.
    pub racks: Vec<Rack>,
}

/// A rack in a world.
#[derive(Debug)]
pub struct Rack {
    /// Its leaf switch.
    pub leaf: SwitchId,
    /// Its hosts.
    pub hosts: Vec<HostId>,
    /// The ports whose links are its uplink: to the spines (transmit) and from them (receive).
    pub uplink: PerDirection<Vec<PortId>>,
}

/// The rate of link `index` when `rate` is divided over `count` links.
fn part(rate: Bandwidth, count: u32, index: u32) -> Bandwidth {
    let (rate, count, index) = (rate.bps(), u64::from(count), u64::from(index));
    Bandwidth::from_bps(rate / count + u64::from(index < rate % count))
}

impl LeafSpine {
    /// Builds the network of a policy into an empty world.
    pub fn build<O: Observer>(world: &mut World<O>, network: &Network, links: &Links) -> Self {
        let spines: Vec<SwitchId> = (0..links.spines).map(|_| world.add_switch()).collect();
        let leaves: Vec<SwitchId> = network.racks().iter().map(|_| world.add_switch()).collect();
        // A buffer that just holds the largest IP packet holds its frame.
        let buffer = links.buffer.get().max(links.mtu.get() + u64::from(ETHERNET_HEADER));
        let queue = QueueSpec { discipline: Discipline::Fifo, buffer: weir_units::Bytes::new(buffer), mark: None };
        let link = |rate| LinkSpec { rate, delay: links.delay, queue };
        for machine in network.machines() {
            let nic = machine.nic();
            world.add_host(leaves[machine.rack().index()], link(nic.tx), link(nic.rx));
        }
        let racks = network
            .racks()
            .iter()
            .zip(&leaves)
            .map(|(rack, &leaf)| {
                let mut uplink = PerDirection::<Vec<PortId>>::default();
                for (index, &spine) in (0..).zip(&spines) {
                    let rate = |direction| part(rack.uplink()[direction], links.spines, index);
                    let (up, down) = world.connect(leaf, spine, link(rate(Direction::Tx)), link(rate(Direction::Rx)));
                    uplink.tx.push(up);
                    uplink.rx.push(down);
                }
                Rack { leaf, hosts: rack.machines().iter().map(|machine| HostId(machine.0)).collect(), uplink }
            })
            .collect();
        world.compute_routes();
        Self { racks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_is_divided_without_loss() {
        let rate = Bandwidth::from_bps(10_000_000_001);
        let parts: Vec<u64> = (0..3).map(|i| part(rate, 3, i).bps()).collect();
        assert_eq!(parts, [3_333_333_334, 3_333_333_334, 3_333_333_333]);
        assert_eq!(parts.iter().sum::<u64>(), rate.bps());
    }
}
