//! Scores: the tenants that need queues of their own most.
//!
//! Problem: few tenants can have a queue of their own at a port, and only those that want more than their guarantee
//! gain from one. Approach: a tenant's usage factor is its largest usage, over machines and both directions, in its
//! reservation there, at most 1; its score is that part of its payment. A tenant that claims less than it needs has a
//! smaller payment, one that claims more has a smaller usage factor.
//!
//! Example: five virtual machines of 100 Mb/s, three on one machine and two on another, reserve 200 Mb/s of both. With
//! 150 Mb/s out of and 50 Mb/s into the first, 20 and 190 at the second, the usage factor is 190 / 200 and the score
//! 475,000,000; with 260 Mb/s anywhere they are 1 and 500,000,000.
//!
//! A machine with all of a tenant's virtual machines has no reservation and counts for nothing.
//!
//! Source: QShare §V-A, equation 1; §V-B, equation 2 with k = 1.

use crate::site::Site;
use weir_units::{Bandwidth, MachineId, PerDirection};

/// The score of a tenant, bit/s: 0 to its payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Score(pub u64);

/// The score of a tenant by its usage at each of its machines' interfaces in a control interval; no usage where it is
/// not known.
pub fn score(site: &Site, usage: impl Fn(MachineId) -> PerDirection<Bandwidth>) -> Score {
    let payment = u128::from(site.payment.bps());
    let with_reservation = site.machines.iter().filter(|(_, reserved)| *reserved > Bandwidth::ZERO);
    let scores = with_reservation.map(|(machine, reserved)| {
        let used = usage(*machine);
        let used = used.tx.max(used.rx).min(*reserved);
        payment * u128::from(used.bps()) / u128::from(reserved.bps())
    });
    Score(scores.max().map_or(0, |score| u64::try_from(score).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(mbps: [[u64; 2]; 2]) -> impl Fn(MachineId) -> PerDirection<Bandwidth> {
        move |machine| {
            let [tx, rx] = mbps[machine.index()].map(Bandwidth::from_mbps);
            PerDirection { tx, rx }
        }
    }

    #[test]
    fn the_worked_example() {
        let reserved = Bandwidth::from_mbps(200);
        let site = Site {
            payment: Bandwidth::from_mbps(500),
            ports: Vec::new(),
            machines: vec![(MachineId(0), reserved), (MachineId(1), reserved)],
        };
        assert_eq!(score(&site, usage([[150, 50], [20, 190]])), Score(475_000_000));
        assert_eq!(score(&site, usage([[260, 0], [0, 260]])), Score(500_000_000));
        assert_eq!(score(&site, usage([[10, 0], [0, 0]])), Score(25_000_000));
        let alone = Site { machines: vec![(MachineId(0), Bandwidth::ZERO)], ..site };
        assert_eq!(score(&alone, usage([[150, 50], [20, 190]])), Score(0));
    }
}
