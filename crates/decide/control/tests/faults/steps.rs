//! Steps of the shares: how much each allocation changes them.
//!
//! Shares follow demands, and demands follow the limits that shares set. This is an iteration towards a fixed point,
//! which the published rule of limits does not reach in a fixed number of periods. Example: a service is limited to L
//! on n machines, and on m of them the interface is full, so that a second service without a limit uses what the first
//! one leaves. If L falls by d, the second service uses m · d more of the uplink, which lowers the next L by d · m / n.
//! The steps are a geometric series with the ratio m / n for each period that shows a limit's effect.
//!
//! In seed 2,082 the steps are 22.2, 20, 12.2, 7, 4.2, 2.5, 1.5, 0.9 Mb/s: a ratio of 0.6 by two periods.
//!
//! So what must hold is no time, but: machines with the same demands compute the same shares, and steps do not grow.

use crate::draw::MACHINES;
use std::collections::VecDeque;
use weir_control::RackBroker;
use weir_units::{Bandwidth, Direction, PerDirection};

/// A machine's last allocation.
struct Allocation {
    demands: PerDirection<Vec<Bandwidth>>,
    shares: PerDirection<Vec<Bandwidth>>,
}

impl Allocation {
    fn of(broker: &RackBroker) -> Self {
        let demands = |direction| broker.demands(direction).to_vec();
        let shares =
            |direction| broker.shares(direction).instances.iter().map(|instance| instance.share).collect::<Vec<_>>();
        Self {
            demands: PerDirection { tx: demands(Direction::Tx), rx: demands(Direction::Rx) },
            shares: PerDirection { tx: shares(Direction::Tx), rx: shares(Direction::Rx) },
        }
    }
}

/// The allocations of all machines.
pub(crate) struct Steps {
    last: Vec<Option<Allocation>>,
    /// The times of allocations, and the largest change of any share.
    changes: PerDirection<VecDeque<(u64, Bandwidth)>>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { last: (0..MACHINES).map(|_| None).collect(), changes: PerDirection::default() }
    }

    pub(crate) fn restarted(&mut self, machine: usize) {
        self.last[machine] = None;
    }

    /// A machine has allocated. Machines with the same demands have the same shares, bit for bit.
    pub(crate) fn allocated(&mut self, now: u64, machine: usize, broker: &RackBroker) -> Result<(), String> {
        let allocation = Allocation::of(broker);
        for direction in Direction::ALL {
            for (m, other) in self.last.iter().enumerate().filter_map(|(m, other)| Some((m, other.as_ref()?))) {
                let (demands, shares) = (&allocation.demands[direction], &allocation.shares[direction]);
                if *demands == other.demands[direction] && *shares != other.shares[direction] {
                    let others = &other.shares[direction];
                    return Err(format!(
                        "m{} has {shares:?} and m{} {others:?} for the same demands ({direction})",
                        machine + 1,
                        m + 1
                    ));
                }
            }
            if let Some(before) = &self.last[machine] {
                let pairs = allocation.shares[direction].iter().zip(&before.shares[direction]);
                let change = pairs.map(|(now, before)| now.bps().abs_diff(before.bps())).max().unwrap_or_default();
                self.changes[direction].push_back((now, Bandwidth::from_bps(change)));
            }
        }
        self.last[machine] = Some(allocation);
        Ok(())
    }

    /// An instance's share in a machine's last allocation since its start.
    pub(crate) fn share(&self, machine: usize, direction: Direction, instance: usize) -> Option<Bandwidth> {
        self.last[machine].as_ref().map(|last| last.shares[direction][instance])
    }

    /// The largest change of a share in an allocation after `from` and up to `to`.
    pub(crate) fn largest(&self, direction: Direction, from: u64, to: u64) -> Bandwidth {
        let within = self.changes[direction].iter().filter(|(at, _)| (from + 1..=to).contains(at));
        within.map(|(_, change)| *change).max().unwrap_or_default()
    }
}
