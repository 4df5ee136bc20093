//! [`Seawall`]: links shared by the weights of senders, without guarantees.
//!
//! Problem: a tenant with many connections gets more of a link than one with few. Approach: all traffic between two
//! machines of a tenant is one tunnel, which adapts to the receiver's reports as one TCP connection would. With the
//! fraction f of its bytes marked, its rate becomes r · (1 − 0.3 f); without marks it grows by a cubic function whose
//! constant is the tunnel's weight ([`Cubic`]). A machine's weight is divided evenly among its tunnels, so the number
//! of destinations gives no advantage.
//!
//! Worked example: two tunnels of weights 10 and 30 Mb/s on a link of 100 Mb/s get 25 and 75 Mb/s.
//!
//! Source: Seawall (NSDI 2011): weighted tunnels of source entities, reports of losses or marks. The text was not at
//! hand: the law is CUBIC's with a constant proportional to the weight, and the weight of a machine is the tenant's
//! bandwidth there, for which it pays. That makes comparisons fair.

use crate::cubic::Cubic;
use crate::law::{Division, Law, Pair, Rates, scaled};
use weir_units::{Bandwidth, Duration, Instant};

/// The constants of Seawall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeawallParameters {
    /// α, in thousandths: the rate falls by α times the marked fraction. CUBIC's decrease (RFC 9438 §4.6).
    pub decrease_thousandths: u64,
    /// The least rate: a packet each 12 ms, so that reports continue. Ours.
    pub least: Bandwidth,
}

impl SeawallParameters {
    /// Ours, as no published ones were at hand.
    pub const CHOSEN: Self = Self { decrease_thousandths: 300, least: Bandwidth::from_mbps(1) };
}

/// A tunnel under Seawall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seawall {
    parameters: SeawallParameters,
    line: Bandwidth,
    weight: Bandwidth,
    rate: Bandwidth,
    growth: Cubic,
}

impl Law for Seawall {
    const DIVISION: Division = Division::Equal;

    fn partition_interval() -> Duration {
        // The weights of a machine's tunnels follow its destinations as fast as ElasticSwitch's guarantees.
        Duration::from_millis(50)
    }
    fn report_interval() -> Duration {
        // That of ElasticSwitch's rate allocation, which is derived from Seawall.
        Duration::from_millis(15)
    }
    fn new(now: Instant, pair: &Pair) -> Self {
        let rate = pair.guarantee.min(pair.line);
        let growth = Cubic::new(now, rate, rate, pair.guarantee);
        Self { parameters: SeawallParameters::CHOSEN, line: pair.line, weight: pair.guarantee, rate, growth }
    }
    fn set_guarantee(&mut self, now: Instant, weight: Bandwidth) {
        self.weight = weight;
        self.growth.set_weight(now, weight);
    }
    fn report(&mut self, now: Instant, marked_percent: u8) {
        if marked_percent > 0 {
            let lost = u64::from(marked_percent.min(100)) * self.parameters.decrease_thousandths;
            let lowered = scaled(self.rate, 100_000 - lost, 100_000).max(self.parameters.least);
            self.growth = self.growth.congested(now, lowered, self.rate, self.weight);
            self.rate = lowered;
        } else {
            self.rate = self.growth.rate(now).max(self.rate).min(self.line);
        }
    }
    fn rates(&self) -> Rates {
        Rates::One(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Instant;

    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    /// Tunnels on a link that marks all of them while their sum is above its capacity.
    fn shares(weights: &[u64]) -> Vec<u64> {
        let pair = |weight: &u64| Pair { guarantee: mbps(*weight), line: mbps(1000) };
        let mut tunnels: Vec<Seawall> =
            weights.iter().map(|weight| Seawall::new(Instant::ZERO, &pair(weight))).collect();
        let mut sums = vec![0; weights.len()];
        for tick in 0..20_000u64 {
            let congested = tunnels.iter().map(|tunnel| tunnel.rate.bps()).sum::<u64>() > 100_000_000;
            for (tunnel, sum) in tunnels.iter_mut().zip(&mut sums) {
                tunnel.report(Instant::from_nanos(tick * 15_000_000), if congested { 60 } else { 0 });
                *sum += if tick >= 10_000 { tunnel.rate.bps() } else { 0 };
            }
        }
        sums
    }

    #[test]
    fn shares_are_those_of_weights() {
        let sums = shares(&[10, 30]);
        let ratio = sums[1] * 100 / sums[0];
        assert!((285..=315).contains(&ratio), "{ratio} of 300");
    }

    /// The rate 1.5 s after the beginning, without marks, with these weights in turn, 50 ms each.
    fn grown(weights: [u64; 2]) -> u64 {
        let mut tunnel = Seawall::new(Instant::ZERO, &Pair { guarantee: mbps(10), line: mbps(10_000) });
        for tick in 1..=100u64 {
            let now = Instant::from_nanos(tick * 15_000_000);
            tunnel.set_guarantee(now, mbps(weights[(tick * 15 / 50 % 2) as usize]));
            tunnel.report(now, 0);
        }
        tunnel.rate.bps() / 1_000_000
    }

    #[test]
    fn growth_continues_when_weights_change() {
        // 10 + 64 · 10 · 1.5³ = 2,170 Mb/s.
        assert_eq!(grown([10, 10]), 2170);
        let changing = grown([10, 11]);
        assert!((2170..2400).contains(&changing), "{changing}");
    }

    #[test]
    fn marks_lower_the_rate_by_three_tenths_of_their_fraction() {
        let mut tunnel = Seawall::new(Instant::ZERO, &Pair { guarantee: mbps(100), line: mbps(1000) });
        tunnel.report(Instant::ZERO, 40);
        assert_eq!(tunnel.rates(), Rates::One(mbps(88)));
        for _ in 0..100 {
            tunnel.report(Instant::ZERO, 100);
        }
        assert_eq!(tunnel.rates(), Rates::One(mbps(1)));
    }
}
