//! The time after which a queue has sent what it held, for switches that do not show a queue's backlog.
//!
//! Problem: a tenant that moves between queues waits until the packets in its old one have left. SONiC shows no
//! backlog of the moment: its counters of sent bytes are read from the hardware in a period (10 s by default), and its
//! watermark is the largest backlog since it was last cleared. Approach: a bound. A weighted queue of weight w, where
//! the weights sum to W, is a latency-rate server. With a link of rate C, of which strict queues take at most a rate S
//! and a burst σ, it sends, while packets wait in it, at least
//!
//!   w/W · ((C − S) · t − σ − 3 · W · L)
//!
//! bytes in a time t, since deficit round robin with a quantum of L bytes for each unit of weight is at most three
//! rounds late. It is first in, first out, so what it held at first, at most its buffer B, has left after
//!
//!   T = (B · W/w + 3 · W · L + σ) / (C − S).
//!
//! Worked example: 256 kB in a queue of weight 10 of 100 at 10 Gb/s, no strict queues, L = 9,216 B: 2.56 MB and 2.76 MB
//! at 1.25 GB/s are 4.26 ms.
//!
//! Source: Stiliadis and Varma, "Latency-Rate Servers", IEEE/ACM ToN 6(5), 1998, Table I (deficit round robin: (3F −
//! 2φ)/r, of which this takes 3F/r); Shreedhar and Varghese, SIGCOMM 1995 (the quantum is at least a frame).

use crate::port::{PortConfig, Schedule};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The quantum of a unit of weight: a jumbo frame. Platforms do not state theirs; SONiC's default mtu is 9,100.
const QUANTUM: u64 = 9_216;
/// The rounds by which deficit round robin is late at most.
const LATE_ROUNDS: u64 = 3;

/// A port's service of its weighted queues, and the most that one of them holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainLimits {
    /// C − S: what strict queues leave of the link, more than zero.
    pub rate: Bandwidth,
    /// σ: the most that strict queues send beside their rate.
    pub burst: Bytes,
    /// B: the most that a queue holds.
    pub buffer: Bytes,
}

impl DrainLimits {
    /// T of a queue; `None` if the port has no such weighted queue.
    pub fn time(&self, config: &PortConfig, queue: u8) -> Option<Duration> {
        let weights = || {
            config.queues().map(|queue| match queue.schedule {
                Schedule::Weighted(weight) => u128::from(weight),
                Schedule::Strict => 0,
            })
        };
        let own = weights().nth(queue.into()).filter(|weight| *weight > 0)?;
        let all: u128 = weights().sum();
        let share = (u128::from(self.buffer.get()) * all).div_ceil(own);
        let bytes = share + u128::from(LATE_ROUNDS * QUANTUM) * all + u128::from(self.burst.get());
        let nanos = (bytes * 8_000_000_000).div_ceil(u128::from(self.rate.bps().max(1)));
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// The queues that are being drained: for each the time at which it has sent what it held.
///
/// [`Drains::remaining`] begins with a queue at the first call of a round; [`Drains::clear`] forgets all, when the
/// ports may not have had their weights meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drains {
    /// By port and queue.
    open: BTreeMap<(String, u8), Drain>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Drain {
    round: u64,
    begun: Instant,
    time: Duration,
}

impl Drains {
    /// An upper bound of the bytes that were in a queue at the first call of this round and still are; `None` if the
    /// port has no such weighted queue. A queue with other weights than before begins anew.
    pub fn remaining(
        &mut self,
        now: Instant,
        (port, queue, round): (&str, u8, u64),
        config: &PortConfig,
        limits: &DrainLimits,
    ) -> Option<Bytes> {
        let time = limits.time(config, queue)?;
        let begun = Drain { round, begun: now, time };
        let drain = self.open.entry((port.to_owned(), queue)).or_insert(begun);
        if (drain.round, drain.time) != (round, time) {
            *drain = begun;
        }
        let left = u128::from(time.saturating_sub(now.saturating_since(drain.begun)).nanos());
        // Of the buffer, so much as of the time: at least a byte until the end.
        let bytes = (u128::from(limits.buffer.get().max(1)) * left).div_ceil(u128::from(time.nanos().max(1)));
        Some(Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }

    /// Forgets all queues: their times begin anew.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{DscpMap, QueueConfig};
    use proptest::prelude::*;

    fn config(weights: &[u16], strict: usize) -> PortConfig {
        let queue = |schedule| QueueConfig { schedule, mark: None, buffer: None };
        let weighted = weights.iter().map(|weight| queue(Schedule::Weighted(*weight)));
        let queues = weighted.chain(std::iter::repeat_n(queue(Schedule::Strict), strict)).collect();
        PortConfig::new(None, queues, DscpMap::all(0)).expect("valid")
    }

    fn limits(gbps: u64, burst: u64, buffer: u64) -> DrainLimits {
        DrainLimits { rate: Bandwidth::from_gbps(gbps), burst: Bytes::new(burst), buffer: Bytes::new(buffer) }
    }

    #[test]
    fn time_of_the_worked_example() {
        let port = config(&[60, 30, 10], 2);
        // 256 kB · 100/10 + 3 · 100 · 9,216 B = 5,324,800 B at 1.25 GB/s.
        assert_eq!(limits(10, 0, 256_000).time(&port, 2), Some(Duration::from_nanos(4_259_840)));
        // 125 kB more of strict queues: 100 µs.
        assert_eq!(limits(10, 125_000, 256_000).time(&port, 2), Some(Duration::from_nanos(4_359_840)));
        assert_eq!(limits(10, 0, 256_000).time(&port, 3), None, "a strict queue");
        assert_eq!(limits(10, 0, 256_000).time(&port, 7), None, "no queue");
    }

    #[test]
    fn each_round_and_each_change_of_weights_begins_anew() {
        let (port, limits) = (config(&[1, 1], 0), limits(1, 0, 100_000));
        let time = limits.time(&port, 1).expect("a queue").nanos();
        let mut drains = Drains::default();
        let mut left = |at: u64, round, port: &PortConfig| {
            drains.remaining(Instant::from_nanos(at), ("swp1", 1, round), port, &limits).map(Bytes::get)
        };
        assert_eq!(left(5, 1, &port), Some(100_000));
        assert_eq!(left(5 + time / 2, 1, &port), Some(50_000));
        assert_eq!(left(4 + time, 1, &port), Some(1));
        assert_eq!(left(5 + time, 1, &port), Some(0));
        assert_eq!(left(5 + time, 2, &port), Some(100_000), "another round");
        assert_eq!(left(4 + 2 * time, 2, &config(&[3, 1], 0)), Some(100_000), "another part of the link");
        assert_eq!(left(4 + 2 * time, 2, &config(&[1], 0)), None);
    }

    /// Deficit round robin, frame by frame, with all other queues always full and strict queues that send their burst
    /// first: the bytes sent until a queue of `held` bytes is empty.
    fn sent_until_empty(
        weights: &[u16],
        own: usize,
        (held, burst): (u64, u64),
        frames: &mut impl FnMut() -> u64,
    ) -> u64 {
        let (mut sent, mut left) = (burst, held);
        let mut deficits = vec![0; weights.len()];
        // The queue has just been passed over: the worst moment to begin.
        for at in (0..weights.len()).map(|at| (own + 1 + at) % weights.len()).cycle() {
            deficits[at] += u64::from(weights[at]) * QUANTUM;
            loop {
                let frame = if at == own { frames().min(left) } else { frames() };
                if frame > deficits[at] {
                    break;
                }
                deficits[at] -= frame;
                sent += frame;
                if at == own {
                    left -= frame;
                    if left == 0 {
                        return sent;
                    }
                }
            }
        }
        unreachable!("the queue sends in every round")
    }

    proptest! {
        #[test]
        fn a_queue_is_empty_within_its_time(
            weights in prop::collection::vec(1u16..=100, 1..8),
            own in any::<prop::sample::Index>(),
            held in 1u64..500_000,
            burst in 0u64..100_000,
            sizes in prop::collection::vec(64u64..=QUANTUM, 50),
        ) {
            let own = own.index(weights.len());
            let mut next = sizes.iter().copied().cycle();
            let sent = sent_until_empty(&weights, own, (held, burst), &mut || next.next().expect("endless"));
            let bound = limits(8, burst, held).time(&config(&weights, 0), own as u8).expect("a queue");
            // At 8 Gb/s a byte needs a nanosecond.
            prop_assert!(sent <= bound.nanos(), "{sent} bytes, {} ns", bound.nanos());
        }
    }
}
