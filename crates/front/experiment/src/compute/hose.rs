//! The reservation of a machine's link, as the placement computes it for a tree of one switch.
//!
//! Worked example: virtual machines of 100 Mb/s, four on one machine and one on another: each link reserves 100 Mb/s.
//!
//! Source: QShare §II-A and Figure 1, §IV-B and Figure 2.

use weir_network::graph::{LinkSpec, Packets, QueueSpec, Routing};
use weir_network::topology::{Common, Star, Topology};
use weir_placement::{CableId, Fabric, Fit, Group, Hose, Part, Root, SwitchId};
use weir_units::{Bandwidth, Duration, MachineId};

/// The rate of the links, which a reservation does not depend on.
const RATE: Bandwidth = Bandwidth::from_gbps(100);

/// The reservation of a machine's link; `machines` has the bandwidths of the virtual machines on each.
pub(super) fn reservation(machines: &[Vec<Bandwidth>], machine: usize) -> Bandwidth {
    let host_link = LinkSpec { rate: RATE, delay: Duration::ZERO, queue: QueueSpec::default() };
    let common =
        Common { routing: Routing::Ecmp, packets: Packets::default(), shared_buffer: None, jitter: Duration::ZERO };
    let fabric = Fabric::new(&Topology::Star(Star { hosts: machines.len() as u32, host_link }).build(common));
    // Every virtual machine is a group of its own.
    let all: Vec<(usize, Bandwidth)> =
        machines.iter().enumerate().flat_map(|(at, vms)| vms.iter().map(move |bandwidth| (at, *bandwidth))).collect();
    let hose = Hose::new(all.iter().map(|(_, bandwidth)| Group { vms: 1, bandwidth: *bandwidth }).collect());
    let part = |at: usize| Part {
        machine: MachineId(at as u32),
        vms: all.iter().map(|(machine, _)| u32::from(*machine == at)).collect(),
    };
    let parts = (0..machines.len()).map(part).collect();
    let fit = Fit::in_place(&fabric, Root::Switch(SwitchId(0)), parts, &hose);
    let cable = CableId(machine as u32);
    let found = fit.iter().flat_map(|fit| &fit.reservations).find(|(of, _)| *of == cable);
    found.map_or(Bandwidth::ZERO, |(_, reserved)| *reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_1_and_2() {
        let on = |machines: &[&[u64]], machine: usize| {
            let bandwidths = |mbps: &&[u64]| mbps.iter().map(|mbps| Bandwidth::from_mbps(*mbps)).collect();
            reservation(&machines.iter().map(bandwidths).collect::<Vec<_>>(), machine).bps() / 1_000_000
        };
        // R1 = min(B1 + B2, B3 + B4), R2 = min(B3, B1 + B2 + B4), R3 = min(B4, B1 + B2 + B3).
        let figure_1: &[&[u64]] = &[&[40, 30], &[50], &[300]];
        assert_eq!([0, 1, 2].map(|machine| on(figure_1, machine)), [70, 50, 120]);
        let equal = [100; 5];
        for (vms, reserved) in [(0, 0), (1, 100), (2, 200), (3, 200), (4, 100), (5, 0)] {
            let split: &[&[u64]] = &[&equal[..vms], &equal[vms..]];
            assert_eq!([on(split, 0), on(split, 1)], [reserved; 2], "{vms} on one side");
        }
    }
}
