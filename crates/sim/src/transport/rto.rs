//! Round-trip times and the retransmission timeout.
//!
//! SRTT and RTTVAR are smoothed with 1/8 and 1/4; RTO = SRTT + 4 · RTTVAR, at least the minimum and at most
//! the maximum; it doubles with each timeout until new data is acknowledged. Every acknowledgement gives a sample,
//! because its time stamp says which transmission it answers (RFC 7323), retransmissions included.
//!
//! Example: the first sample of 100 ms gives SRTT 100, RTTVAR 50, RTO 300 ms; a second one gives RTTVAR 37.5, RTO 250 ms.
//!
//! Source: RFC 6298 §2, §5.

use weir_units::SimTime;

/// The timeout before the first sample: 1 s (RFC 6298 §2.1).
const INITIAL: SimTime = SimTime::from_secs(1);
/// The longest timeout: Linux's `TCP_RTO_MAX`, 120 s (RFC 6298 §2.5 asks for at least 60 s).
const MAX: SimTime = SimTime::from_secs(120);

/// The estimator.
#[derive(Debug, Clone, Copy)]
pub struct Rto {
    min: SimTime,
    /// SRTT and RTTVAR in picoseconds, once there is a sample.
    smoothed: Option<(u64, u64)>,
    /// How often the timeout was doubled.
    backoff: u32,
}

impl Rto {
    /// An estimator without samples.
    pub fn new(min: SimTime) -> Self {
        Self { min, smoothed: None, backoff: 0 }
    }

    /// Takes a sample.
    #[inline]
    pub fn sample(&mut self, rtt: SimTime) {
        let rtt = rtt.picos();
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            Some((srtt, rttvar)) => ((7 * srtt + rtt) / 8, (3 * rttvar + srtt.abs_diff(rtt)) / 4),
        });
    }

    /// The smoothed round-trip time, once there is a sample.
    pub fn srtt(&self) -> Option<SimTime> {
        self.smoothed.map(|(srtt, _)| SimTime::from_picos(srtt))
    }

    /// The current timeout.
    #[inline]
    pub fn timeout(&self) -> SimTime {
        let base = self.smoothed.map_or(INITIAL, |(srtt, rttvar)| SimTime::from_picos(srtt + 4 * rttvar)).max(self.min);
        SimTime::from_picos(base.picos().saturating_mul(1 << self.backoff)).min(MAX)
    }

    /// Doubles the timeout.
    pub fn back_off(&mut self) {
        // 200 ms · 2^10 is above the maximum already.
        self.backoff = (self.backoff + 1).min(10);
    }

    /// Whether the timeout is doubled.
    pub fn is_backed_off(&self) -> bool {
        self.backoff > 0
    }

    /// New data was acknowledged: the timeout is no longer doubled.
    #[inline]
    pub fn restore(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let ms = SimTime::from_millis;
        let mut rto = Rto::new(ms(200));
        assert_eq!(rto.timeout(), ms(1000));
        rto.sample(ms(100));
        assert_eq!(rto.timeout(), ms(300));
        rto.sample(ms(100));
        assert_eq!(rto.timeout(), ms(250));
        for _ in 0..20 {
            rto.sample(ms(100));
        }
        assert_eq!(rto.timeout(), ms(200));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.timeout(), ms(800));
        for _ in 0..20 {
            rto.back_off();
        }
        assert_eq!(rto.timeout(), MAX);
        rto.restore();
        assert_eq!(rto.timeout(), ms(200));
    }
}
