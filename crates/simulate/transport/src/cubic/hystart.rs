//! HyStart++: leave slow start before it overruns the queue.
//!
//! In each round trip the smallest of the round-trip times is found. If it has grown by an eighth
//! since the round before (4 ms at least, 16 ms at most), slow start continues at a quarter of its
//! speed (conservative slow start); after five such rounds it is over, and if round trips shrink
//! again it resumes. It applies only to a connection's first slow start.
//!
//! With the standard's least growth of 4 ms it does nothing in a data center whose queues are
//! shorter than that.
//!
//! Example: rounds of at least 20 ms, then one of 25 ms: more than 20 + max(4, 20 / 8). The window
//! grows by a quarter from there; five rounds later congestion avoidance starts.
//!
//! Source: RFC 9406 §4.2, §4.3.

use weir_units::SimTime;

/// Round-trip times of a round before it is evaluated (`N_RTT_SAMPLE`, RFC 9406 §4.3).
const SAMPLES: u32 = 8;
/// The least growth that means a queue (`MIN_RTT_THRESH`).
const LEAST: SimTime = SimTime::from_millis(4);
/// The growth that always means a queue (`MAX_RTT_THRESH`).
const MOST: SimTime = SimTime::from_millis(16);
/// The part of the round-trip time that means a queue in between (`MIN_RTT_DIVISOR`).
const DIVISOR: u64 = 8;
/// How much slower conservative slow start is (`CSS_GROWTH_DIVISOR`).
pub(crate) const CSS_GROWTH_DIVISOR: u64 = 4;
/// How many rounds it lasts (`CSS_ROUNDS`).
const CSS_ROUNDS: u32 = 5;

/// How fast the window grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// As in slow start.
    SlowStart,
    /// A quarter of that.
    Conservative,
    /// Slow start is over.
    Over,
}

/// The state of the first slow start.
#[derive(Debug, Clone)]
pub(crate) struct HyStart {
    /// The round ends when this byte is acknowledged.
    end: u64,
    /// The smallest round-trip time of this round and of the one before; [`SimTime::NEVER`] for
    /// none.
    current: SimTime,
    before: SimTime,
    samples: u32,
    /// In conservative slow start: the smallest round-trip time when it began, and rounds since.
    baseline: Option<(SimTime, u32)>,
}

impl Default for HyStart {
    fn default() -> Self {
        Self { end: 0, current: SimTime::NEVER, before: SimTime::NEVER, samples: 0, baseline: None }
    }
}

impl HyStart {
    /// An acknowledgement of everything before `acked`, when everything before `sent` was sent.
    pub(crate) fn on_ack(&mut self, acked: u64, sent: u64, rtt: SimTime) -> Phase {
        if acked > self.end {
            self.end = sent;
            (self.before, self.current) = (self.current, SimTime::NEVER);
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.baseline {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return Phase::Over;
                }
            }
        }
        self.current = self.current.min(rtt);
        self.samples += 1;
        if self.samples >= SAMPLES && self.before != SimTime::NEVER {
            match self.baseline {
                None => {
                    let growth = SimTime::from_picos(self.before.picos() / DIVISOR).clamp(LEAST, MOST);
                    if self.current >= self.before + growth {
                        self.baseline = Some((self.current, 0));
                    }
                }
                Some((baseline, _)) if self.current < baseline => self.baseline = None,
                Some(_) => {}
            }
        }
        if self.baseline.is_some() { Phase::Conservative } else { Phase::SlowStart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of ten acknowledgements.
    fn round(hystart: &mut HyStart, number: u64, millis: u64) -> Phase {
        let mut phase = Phase::SlowStart;
        for ack in 1..=10 {
            let acked = number * 10 + ack;
            phase = hystart.on_ack(acked, number * 10 + 10 + ack, SimTime::from_millis(millis));
            if phase == Phase::Over {
                break;
            }
            // The first acknowledgement of a round sets its end to the end of the data sent by
            // then.
            hystart.end = number * 10 + 10;
        }
        phase
    }

    #[test]
    fn the_worked_example() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 0, 20), Phase::SlowStart);
        assert_eq!(round(&mut hystart, 1, 23), Phase::SlowStart);
        assert_eq!(round(&mut hystart, 2, 27), Phase::Conservative);
        for number in 3..7 {
            assert_eq!(round(&mut hystart, number, 28), Phase::Conservative);
        }
        assert_eq!(round(&mut hystart, 7, 28), Phase::Over);
    }

    #[test]
    fn a_mistake_is_taken_back() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 0, 20);
        assert_eq!(round(&mut hystart, 1, 25), Phase::Conservative);
        assert_eq!(round(&mut hystart, 2, 24), Phase::SlowStart);
    }
}
