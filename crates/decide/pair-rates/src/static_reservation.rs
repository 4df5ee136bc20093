//! [`StaticReservation`]: a pair has its part of the guarantee and nothing beyond.
//!
//! Problem: a tenant must have what it pays for whatever the others do. Approach: the hose reservation, enforced at the
//! senders: pairs divide the guarantees of their machines by demand, and a machine as a whole is limited to its own, so
//! the network never has more than what is reserved. What is reserved and not used is lost.
//!
//! Worked example: a machine with 94 Mb/s sends to two others without end: 47 Mb/s to each, also on an idle link.
//!
//! Source: QShare §IV and Table II (Oktopus, SecondNet); Oktopus (SIGCOMM 2011) §4.3 computes limits of pairs in the
//! same way, in one place for a tenant.

use crate::law::{Law, Pair, Rates};
use weir_units::{Bandwidth, Duration, Instant};

/// A pair under a static reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticReservation {
    guarantee: Bandwidth,
}

impl Law for StaticReservation {
    const LIMITS_HOSE: bool = true;

    fn partition_interval() -> Duration {
        // As ElasticSwitch's, so that both partition alike.
        Duration::from_millis(50)
    }
    fn report_interval() -> Duration {
        // Reports carry the receiver's part alone.
        Duration::from_millis(15)
    }
    fn new(_now: Instant, pair: &Pair) -> Self {
        Self { guarantee: pair.guarantee }
    }
    fn set_guarantee(&mut self, _now: Instant, guarantee: Bandwidth) {
        self.guarantee = guarantee;
    }
    fn report(&mut self, _now: Instant, _marked_percent: u8) {}
    fn rates(&self) -> Rates {
        Rates::One(self.guarantee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_the_guarantee_whatever_the_receiver_reports() {
        let pair = Pair { guarantee: Bandwidth::from_mbps(47), line: Bandwidth::from_gbps(1) };
        let mut law = StaticReservation::new(Instant::ZERO, &pair);
        law.report(Instant::ZERO, 0);
        law.report(Instant::ZERO, 100);
        assert_eq!(law.rates(), Rates::One(Bandwidth::from_mbps(47)));
        law.set_guarantee(Instant::ZERO, Bandwidth::from_mbps(94));
        assert_eq!(law.rates(), Rates::One(Bandwidth::from_mbps(94)));
    }
}
