//! Round-trip times and the retransmission timeout.
//!
//! SRTT and RTTVAR are smoothed with 1/8 and 1/4; RTO = SRTT + max(G, 4 · RTTVAR), at least the
//! minimum and at most the maximum; it doubles with each timeout until new data is acknowledged.
//! Every acknowledgement of new data gives a sample, because its time stamp identifies the
//! transmission (RFC 7323), retransmissions included.
//!
//! G is the granularity of the timer: without it a path whose round trips are all the same and
//! longer than the minimum would time out with each of them. It is 1 ms, as ns-3's clock and
//! Linux's have it, or the minimum if that is less.
//!
//! Example: the first sample of 100 ms gives SRTT 100, RTTVAR 50, RTO 300 ms; a second one gives
//! RTTVAR 37.5, RTO 250 ms.
//!
//! Source: RFC 6298 §2, §5.

use weir_units::SimTime;

/// The estimator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rto {
    min: SimTime,
    max: SimTime,
    /// The timeout before the first sample.
    initial: SimTime,
    /// SRTT and RTTVAR in picoseconds; SRTT is `u64::MAX` until there is a sample.
    srtt: u64,
    rttvar: u64,
    /// The number of doublings of the timeout.
    backoff: u32,
}

/// No sample yet.
const NONE: u64 = u64::MAX;
/// The granularity of the timer (RFC 6298 §2).
const GRANULARITY: SimTime = SimTime::from_millis(1);
/// Doublings that are counted. From 1 µs, more than the longest maximum, one hour, is reached after
/// 32.
const MOST_DOUBLINGS: u32 = 32;

impl Rto {
    /// An estimator without samples.
    pub(crate) fn new(min: SimTime, initial: SimTime, max: SimTime) -> Self {
        Self { min, max, initial, srtt: NONE, rttvar: 0, backoff: 0 }
    }

    /// The handshake measured a round trip: the first timeout is three of them, if that is less.
    pub(crate) fn after_handshake(mut self, round_trip: Option<SimTime>) -> Self {
        if let Some(rtt) = round_trip {
            self.initial = self.initial.min(SimTime::from_picos(rtt.picos().saturating_mul(3)));
        }
        self
    }

    /// The shortest timeout.
    pub(crate) fn shortest(&self) -> SimTime {
        self.min
    }

    /// Takes a sample.
    #[inline]
    pub(crate) fn sample(&mut self, rtt: SimTime) {
        let rtt = rtt.picos();
        if self.srtt == NONE {
            (self.srtt, self.rttvar) = (rtt, rtt / 2);
        } else {
            self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = (7 * self.srtt + rtt) / 8;
        }
    }

    /// The smoothed round-trip time, once there is a sample.
    #[inline]
    pub(crate) fn srtt(&self) -> Option<SimTime> {
        (self.srtt != NONE).then(|| SimTime::from_picos(self.srtt))
    }

    /// The current timeout.
    #[inline]
    pub(crate) fn timeout(&self) -> SimTime {
        let base = if self.srtt == NONE {
            self.initial.max(self.min)
        } else {
            let granularity = self.min.min(GRANULARITY).picos();
            SimTime::from_picos(self.srtt + granularity.max(4 * self.rttvar)).max(self.min)
        };
        if self.backoff == 0 {
            return base.min(self.max);
        }
        SimTime::from_picos(base.picos().saturating_mul(1 << self.backoff)).min(self.max)
    }

    /// Doubles the timeout.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MOST_DOUBLINGS);
    }

    /// Whether the timeout is doubled.
    pub(crate) fn is_backed_off(&self) -> bool {
        self.backoff > 0
    }

    /// New data was acknowledged: the timeout is no longer doubled.
    #[inline]
    pub(crate) fn restore(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_shortens_the_first_timeout() {
        let ms = SimTime::from_millis;
        let rto = Rto::new(ms(10), ms(1000), ms(120_000));
        assert_eq!(rto.timeout(), ms(1000));
        assert_eq!(rto.after_handshake(Some(ms(100))).timeout(), ms(300));
        assert_eq!(rto.after_handshake(Some(ms(1))).timeout(), ms(10));
        assert_eq!(rto.after_handshake(Some(ms(500))).timeout(), ms(1000));
    }

    #[test]
    fn follows_rfc_6298() {
        let ms = SimTime::from_millis;
        let mut rto = Rto::new(ms(200), ms(1000), ms(120_000));
        assert_eq!((rto.timeout(), rto.srtt()), (ms(1000), None));
        rto.sample(ms(100));
        assert_eq!(rto.timeout(), ms(300));
        rto.sample(ms(100));
        assert_eq!(rto.timeout(), ms(250));
        for _ in 0..20 {
            rto.sample(ms(100));
        }
        assert_eq!((rto.timeout(), rto.srtt()), (ms(200), Some(ms(100))));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.timeout(), ms(800));
        for _ in 0..100 {
            rto.back_off();
        }
        assert_eq!(rto.timeout(), ms(120_000));
        rto.restore();
        assert_eq!(rto.timeout(), ms(200));
    }

    #[test]
    fn constant_round_trips_do_not_time_out() {
        for (min, granularity) in [(SimTime::from_millis(200), 1000), (SimTime::from_micros(200), 200)] {
            let mut rto = Rto::new(min, SimTime::from_secs(1), SimTime::from_secs(120));
            for _ in 0..200 {
                rto.sample(SimTime::from_millis(300));
            }
            assert_eq!(rto.timeout(), SimTime::from_millis(300) + SimTime::from_micros(granularity));
        }
    }
}
