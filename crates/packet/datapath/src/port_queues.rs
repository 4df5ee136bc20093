//! [`PortQueues`]: the modelled queues of a switch port.
//!
//! The rule, its bounds and its source are in `datapath/port_queues.h`: strict queues drain before weighted ones, these
//! in proportion to their weights, and a packet is above the threshold of the queue that it joins or not.
//!
//! Worked example: 100 Mb/s, queues 0 and 1 of weights 1 and 3 with 30,000 B each: after 2 ms 23,750 and 11,250 B.

use crate::abi;
use weir_units::{Bytes, Instant};

/// The queues of a port, modelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortQueues {
    port: abi::Port,
    model: abi::PortModel,
}

impl PortQueues {
    /// Empty queues of a port.
    pub fn new(port: abi::Port) -> Self {
        Self { port, model: abi::PortModel::default() }
    }

    /// Adds a packet that arrives at `now`, in order of time, to a queue below 8, if the queue has room. Returns
    /// whether it is above the queue's threshold.
    pub fn arrive(&mut self, now: Instant, queue: u8, bytes: Bytes) -> bool {
        let bytes = u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        abi::port_arrive(&mut self.model, &self.port, now.nanos(), queue.into(), bytes) != 0
    }

    /// The bytes in each queue at the last arrival, rounded down.
    pub fn lengths(&self) -> [Bytes; abi::PORT_QUEUES as usize] {
        self.model.owed.map(|nanobits| Bytes::new(nanobits / abi::NANOBITS_PER_BYTE))
    }

    /// Changes the port's configuration from the next packet on.
    pub fn set(&mut self, port: abi::Port) {
        self.port = port;
    }
}

/// The header against a fluid model in floating point, which shares nothing with it.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{PORT_BUFFER_MAX, PORT_QUEUES, Port};
    use proptest::prelude::*;

    const QUEUES: usize = PORT_QUEUES as usize;
    /// Queues in bytes, drained as a fluid in steps that end when a queue is empty.
    struct Fluid {
        port: Port,
        at: u64,
        held: [f64; QUEUES],
    }

    impl Fluid {
        fn is_strict(&self, queue: usize) -> bool {
            self.port.strict >> queue & 1 == 1
        }

        fn drain(&mut self, now: u64) {
            let mut seconds = now.saturating_sub(self.at) as f64 / 1e9;
            self.at = self.at.max(now);
            let rate = self.port.rate as f64 / 8.0;
            for queue in 0..QUEUES {
                if !self.is_strict(queue) && self.port.weight[queue] == 0 {
                    self.held[queue] = 0.0;
                }
            }
            while seconds > 0.0 {
                let strict = (0..QUEUES).rev().find(|queue| self.is_strict(*queue) && self.held[*queue] > 0.0);
                let backlogged: Vec<usize> = match strict {
                    Some(queue) => vec![queue],
                    None => (0..QUEUES).filter(|queue| !self.is_strict(*queue) && self.held[*queue] > 0.0).collect(),
                };
                let weight = |queue: usize| if strict.is_some() { 1.0 } else { f64::from(self.port.weight[queue]) };
                let all: f64 = backlogged.iter().map(|queue| weight(*queue)).sum();
                let rates: Vec<f64> = backlogged.iter().map(|queue| rate * weight(*queue) / all).collect();
                let empty = backlogged.iter().zip(&rates).map(|(queue, rate)| self.held[*queue] / rate);
                let step = empty.fold(seconds, f64::min);
                if backlogged.is_empty() {
                    return;
                }
                for (queue, rate) in backlogged.iter().zip(&rates) {
                    let left = self.held[*queue] - rate * step;
                    // A thousandth of a byte counts as empty: rounding would otherwise end in endless steps.
                    self.held[*queue] = if left < 1e-3 { 0.0 } else { left };
                }
                seconds -= step;
            }
        }

        /// The length that a packet of `bytes` finds, itself included.
        fn arrive(&mut self, now: u64, queue: usize, bytes: u32) -> f64 {
            self.drain(now);
            let length = self.held[queue] + f64::from(bytes);
            if length <= self.port.buffer[queue] as f64 {
                self.held[queue] = length;
            }
            length
        }
    }

    fn port(rate: u64, weights: [u32; QUEUES], strict: u32, mark: u64) -> Port {
        let buffer = [u64::from(PORT_BUFFER_MAX); QUEUES];
        let weight = std::array::from_fn(|queue| if strict >> queue & 1 == 1 { 0 } else { weights[queue] });
        Port { rate, weight, strict, mark: [mark; QUEUES], buffer, mapped: 1, ..Port::default() }
    }

    fn held(queues: &PortQueues) -> [f64; QUEUES] {
        queues.model.owed.map(|nanobits| nanobits as f64 / 8e9)
    }

    fn arrive(queues: &mut PortQueues, at: u64, queue: u8, bytes: u64) -> bool {
        queues.arrive(Instant::from_nanos(at), queue, Bytes::new(bytes))
    }

    #[test]
    fn weighted_queues_drain_by_weight_and_an_empty_one_leaves_its_share() {
        let fill = |second: u64| {
            let port = port(100_000_000, [1, 3, 0, 0, 0, 0, 0, 0], 0, u64::MAX);
            let mut queues = PortQueues::new(port);
            arrive(&mut queues, 0, 0, 30_000);
            arrive(&mut queues, 0, 1, second);
            arrive(&mut queues, 2_000_000, 1, 0);
            held(&queues)
        };
        // 25,000 B in 2 ms.
        assert_eq!(fill(30_000)[..2], [23_750.0, 11_250.0]);
        let [left, empty, ..] = fill(6_000);
        assert!((left - 11_000.0).abs() < 1.0 && empty == 0.0, "{left} {empty}");
    }

    #[test]
    fn strict_queues_drain_before_weighted_ones_and_the_highest_first() {
        let port = port(80_000_000, [1, 1, 0, 0, 0, 0, 0, 0], 0b1100_0000, 5_000);
        let mut queues = PortQueues::new(port);
        for queue in [0, 1, 6, 7] {
            assert!(!arrive(&mut queues, 0, queue, 5_000), "not above its own threshold");
        }
        assert!(arrive(&mut queues, 0, 7, 1));
        // 1 ms drains 10,000 B: all of queue 7 and most of queue 6.
        arrive(&mut queues, 1_000_000, 0, 0);
        assert_eq!(held(&queues), [5_000.0, 5_000.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn removed_queues_hold_nothing_and_a_full_queue_admits_nothing() {
        let mut port = port(8_000, [1, 1, 0, 0, 0, 0, 0, 0], 0, u64::MAX);
        port.buffer[0] = 1_000;
        let mut queues = PortQueues::new(port);
        arrive(&mut queues, 0, 0, 800);
        arrive(&mut queues, 0, 0, 300);
        arrive(&mut queues, 0, 1, 700);
        assert_eq!(held(&queues)[..2], [800.0, 700.0]);
        port.weight[1] = 0;
        queues.set(port);
        arrive(&mut queues, 1, 0, 0);
        assert_eq!(queues.lengths()[..2], [Bytes::new(799), Bytes::ZERO]);
    }

    proptest! {
        #[test]
        fn modelled_lengths_are_those_of_the_fluid(
            rate in prop_oneof![1_000_000..1_000_000_000u64, 1_000_000_000..400_000_000_000u64],
            weights in prop::array::uniform8(0..=100u32),
            strict in 0..256u32,
            mark in 0..100_000u64,
            packets in prop::collection::vec((0..200_000u64, 0..QUEUES, 60..65_536u32), 1..150),
        ) {
            let port = port(rate, weights, strict, mark);
            let mut queues = PortQueues::new(port);
            let mut fluid = Fluid { port, at: 0, held: [0.0; QUEUES] };
            let mut now = 0;
            for (gap, queue, bytes) in packets {
                if strict >> queue & 1 == 0 && weights[queue] == 0 {
                    continue;
                }
                now += gap;
                let above = arrive(&mut queues, now, queue as u8, bytes.into());
                let length = fluid.arrive(now, queue, bytes);
                if (length - mark as f64).abs() > 2.0 {
                    prop_assert_eq!(above, length > mark as f64, "{} B, threshold {}", length, mark);
                }
                for (modelled, fluid) in held(&queues).iter().zip(fluid.held) {
                    prop_assert!((modelled - fluid).abs() < 1.0, "{} and {} B at {}", modelled, fluid, now);
                }
            }
        }
    }
}
