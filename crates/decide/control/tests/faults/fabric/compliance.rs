//! Compliance of traffic: maxima and caps over all racks, and caps of racks.
//!
//! `world.rs` defines the times of the checks. They apply to sent traffic: traffic received through
//! a full queue would stay below any cap above the queue's rate.
//!
//! Where a full queue is not visible in marks, a service may be throttled to less than nine tenths
//! of its limit. Its limit is then lifted, set again one fabric round later, and so on: maxima hold
//! only at times, and only the permanent invariants apply (`checkers.rs`).

use super::checkers::Checkers;
use super::draw::{MACHINES, PER_RACK, RACKS};
use super::world::World;
use weir_control::rack_broker::LOWEST_LIMIT;
use weir_units::{Bandwidth, ContentionPoint, Direction, RackId};

/// A rack may exceed its capacity by this part of it: rates are rounded in messages.
const OF_RACK: u64 = 1_000;
/// The same for the fabric: limits stay while no demand differs by more than a 64th from those that
/// they were computed from, and the rounds of an exchange end at a thousandth.
const OF_FABRIC: u64 = 60;

impl Checkers {
    /// Checks maxima and caps over all machines, and in each rack.
    pub(crate) fn compliance(&self, world: &World, direction: Direction) -> Result<(), String> {
        let policy = &world.policy;
        let tolerance = |of: Bandwidth, part: u64| {
            let skew = of.bps() / 1_000 * world.drawn.skew_per_mille;
            LOWEST_LIMIT.bps() * (MACHINES * self.leaves.len()) as u64 + skew + of.bps() / part
        };
        let exceeds = |rate: Bandwidth, most: Bandwidth, part: u64| {
            rate.bps() > most.bps().saturating_add(tolerance(most.min(rate), part))
        };
        if direction == Direction::Rx && world.had_hidden_overload_recently() {
            return Ok(());
        }
        let sent = |machine: usize, leaf: usize| world.traffic[machine].sent(direction, leaf);
        let leaves = 0..self.leaves.len();
        for leaf in leaves.clone() {
            let sum: Bandwidth = (0..MACHINES).map(|machine| sent(machine, leaf)).sum();
            let max = policy.services().get(self.leaves[leaf]).share(ContentionPoint::Fabric, direction).max;
            if exceeds(sum, max, OF_FABRIC) {
                return Err(format!("service {leaf} sends {sum} of {max} ({direction})"));
            }
        }
        let of_rack = |rack: usize| -> Bandwidth {
            let machines = rack * PER_RACK..(rack + 1) * PER_RACK;
            machines
                .flat_map(|machine| leaves.clone().map(move |leaf| (machine, leaf)))
                .map(|(m, leaf)| sent(m, leaf))
                .sum()
        };
        for rack in 0..RACKS {
            let capacity = policy.rack_capacity(RackId(rack as u32), direction);
            if exceeds(of_rack(rack), capacity, OF_RACK) {
                return Err(format!("{} is sent through rack {} of {capacity} ({direction})", of_rack(rack), rack + 1));
            }
        }
        let all: Bandwidth = (0..RACKS).map(of_rack).sum();
        let capacity = policy.fabric_capacity(direction);
        if exceeds(all, capacity, OF_FABRIC) {
            return Err(format!("{all} is sent through a fabric of {capacity} ({direction})"));
        }
        Ok(())
    }
}
