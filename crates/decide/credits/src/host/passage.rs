//! [`Passage`]: an allocation on its way through the host that sends, and what holds the flow.
//!
//! Messages do not name the port that reduced them most. The sender has the allocation as the network delivered it, as
//! its own port left it, and as it returned it. The last step that reduced it holds the flow; if none did, it was a
//! port of the network, or the receiver where no port has passed it.
//!
//! Worked example: d_p arrives as 25,000 B, the first port reduces it to 8,334 B, and the sender returns that: the
//! first port holds the flow. If the sender returns 3,000 B, its demand does.

use crate::message::{Allocation, Return};
use crate::period::Period;
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

/// The constraint that holds the rate of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The data that the sender has.
    Demand,
    /// The port of the sending host.
    FirstPort,
    /// A port of the network, or the receiver behind it.
    Network,
    /// The receiver: no port of the network has passed the allocation.
    Receiver,
    /// No allocation has arrived for two periods.
    NoAllocation,
}

impl Held {
    /// A phrase: `demand`, `first port`, `network`, `receiver` or `no allocation`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::FirstPort => "first port",
            Self::Network => "network",
            Self::Receiver => "receiver",
            Self::NoAllocation => "no allocation",
        }
    }
}

/// The newest allocation of a flow at the host that sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// When it arrived.
    pub at: Instant,
    /// As it arrived.
    pub arrived: Allocation,
    /// As the host's own port left it.
    pub left: Allocation,
    /// As it was returned.
    pub returned: Return,
}

impl Passage {
    /// The constraint that holds the flow at `now`.
    pub fn held(&self, now: Instant) -> Held {
        let Self { arrived, left, returned, .. } = self;
        if self.is_over(now) {
            Held::NoAllocation
        } else if left.allocation < arrived.allocation {
            Held::FirstPort
        } else if returned.potential < left.potential {
            Held::Demand
        } else if left.potential < converted(arrived.potential, arrived.period, left.period) {
            Held::FirstPort
        } else if arrived.queueing > Duration::ZERO {
            Held::Network
        } else {
            Held::Receiver
        }
    }

    /// The rate that the flow may have at `now`: a in p.
    pub fn share(&self, now: Instant) -> Bandwidth {
        if self.is_over(now) { Bandwidth::ZERO } else { rate(self.left.allocation, self.left.period) }
    }

    /// The rate of d, as it arrived: what the sender's data and the path allowed when the sender last returned it.
    pub fn demand(&self) -> Bandwidth {
        rate(self.arrived.demand, self.arrived.period)
    }

    /// The product of the receiver's and the sender's weights.
    pub fn weight(&self) -> Weight {
        self.arrived.weight
    }

    fn is_over(&self, now: Instant) -> bool {
        now > self.at + self.left.period.duration() * 2
    }
}

/// A number of bytes per period in another period, rounded down as ports do.
fn converted(bytes: Bytes, from: Period, to: Period) -> Bytes {
    let scaled = u128::from(bytes.get()) * u128::from(to.micros()) / u128::from(from.micros().max(1));
    Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
}

fn rate(bytes: Bytes, period: Period) -> Bandwidth {
    Bandwidth::from_transfer(bytes, period.duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Period = Period::from_micros(200);

    fn allocation(potential: u64, bytes: u64, queueing: u64) -> Allocation {
        Allocation {
            clock: 1,
            period: PERIOD,
            longest: PERIOD,
            potential: Bytes::new(potential),
            demand: Bytes::new(bytes),
            allocation: Bytes::new(bytes),
            weight: Weight::ONE,
            queueing: Duration::from_micros(queueing),
        }
    }

    fn passage(arrived: Allocation, left: Allocation, potential: u64) -> Passage {
        let Allocation { clock, period, longest, allocation, queueing, .. } = left;
        let returned = Return { clock, period, longest, potential: Bytes::new(potential), allocation, queueing };
        Passage { at: Instant::ZERO, arrived, left, returned }
    }

    #[test]
    fn the_last_reduction_holds_a_flow() {
        let (whole, direct) = (allocation(25_000, 8_000, 400), allocation(25_000, 8_000, 0));
        let reduced = allocation(8_334, 8_000, 400);
        let held = |arrived, left, potential| passage(arrived, left, potential).held(Instant::ZERO);
        assert_eq!(held(whole, whole, 25_000), Held::Network);
        assert_eq!(held(direct, whole, 25_000), Held::Receiver);
        assert_eq!(held(whole, reduced, 8_334), Held::FirstPort);
        assert_eq!(held(whole, reduced, 3_000), Held::Demand);
        // No room in the port: a is cut, whatever the sender has.
        assert_eq!(held(whole, allocation(8_334, 0, 400), 3_000), Held::FirstPort);
    }

    #[test]
    fn a_longer_period_of_the_first_port_is_no_reduction() {
        let arrived = allocation(25_001, 8_000, 400);
        let longer = |potential| Allocation { period: Period::from_micros(300), ..allocation(potential, 8_000, 800) };
        let held = |left: Allocation| passage(arrived, left, left.potential.get()).held(Instant::ZERO);
        assert_eq!((held(longer(37_501)), held(longer(37_500))), (Held::Network, Held::FirstPort));
    }

    #[test]
    fn a_share_ends_without_allocations() {
        let passage = passage(allocation(25_000, 25_000, 0), allocation(12_500, 12_500, 400), 12_500);
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        assert_eq!(passage.share(at(400)), Bandwidth::from_mbps(500));
        assert_eq!((passage.share(at(401)), passage.held(at(401))), (Bandwidth::ZERO, Held::NoAllocation));
        assert_eq!(passage.demand(), Bandwidth::from_gbps(1));
    }
}
