//! [`ReceiveMeter`]: the rate advertised to a service's senders.
//!
//! The algorithm, its decisions and its source are in `datapath/receive_meter.h`. Ticks count what the
//! service received ([`InterfaceMeter::tick_meter`](crate::InterfaceMeter::tick_meter)).
//!
//! Worked example: a capacity of 9 Gb/s and an arrival rate of 12 Gb/s: R falls from 5 to 4.1667 Gb/s after 200 µs.

use crate::abi;
use crate::parameters::{from_limit, limit, receive_law};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// Meters one service at its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveMeter {
    raw: abi::ReceiveMeter,
}

impl ReceiveMeter {
    /// A meter before any traffic. The capacity is unlimited, or clamped to 10 kb/s to 8 Tb/s.
    pub fn new(now: Instant, parameters: &ShaperParameters, capacity: Bandwidth) -> Self {
        let mut raw = abi::ReceiveMeter::default();
        abi::receive_meter_init(&mut raw, now.nanos(), &receive_law(parameters), limit(capacity));
        Self { raw }
    }

    /// The meter with this state.
    pub(crate) fn of(raw: abi::ReceiveMeter) -> Self {
        Self { raw }
    }

    pub(crate) fn raw(&self) -> &abi::ReceiveMeter {
        &self.raw
    }

    pub(crate) fn raw_mut(&mut self) -> &mut abi::ReceiveMeter {
        &mut self.raw
    }

    /// Sets the capacity; R changes in proportion, and starts at the capacity if it was unlimited.
    pub fn set_capacity(&mut self, capacity: Bandwidth) {
        abi::receive_meter_set_capacity(&mut self.raw, limit(capacity), 0);
    }

    /// Like [`ReceiveMeter::set_capacity`], for a capacity that is the service's current share of
    /// the interface and not a limit of its own: the interface meter lowers usage above it
    /// while the interface is full.
    pub fn set_share(&mut self, capacity: Bandwidth) {
        abi::receive_meter_set_capacity(&mut self.raw, limit(capacity), 1);
    }

    /// Sets T from the next window on, 10 µs to 1 s.
    pub fn set_interval(&mut self, interval: Duration) {
        abi::receive_meter_set_interval(&mut self.raw, interval.nanos());
    }

    /// Sets T from the next window on: `interval`, or the time in which the capacity carries `grain`
    /// if that is longer and fewer bytes arrive, as ticks need (`datapath/receive_tick.h`).
    pub fn set_tick_interval(&mut self, interval: Duration, grain: Bytes) {
        let grain = u32::try_from(grain.get()).unwrap_or(u32::MAX);
        abi::tick_set_interval(&mut self.raw, interval.nanos(), grain);
    }

    /// The capacity in force.
    pub fn capacity(&self) -> Bandwidth {
        from_limit(self.raw.capacity)
    }

    /// R: the rate of every sender of weight 1, as of the last step; unlimited without a capacity.
    pub fn rate(&self) -> Bandwidth {
        from_limit(self.raw.rate)
    }

    /// The usage of the last window.
    pub fn usage(&self) -> Bandwidth {
        Bandwidth::from_bps(self.raw.usage)
    }

    /// Packets that switches could mark, in all windows that closed.
    pub fn packets(&self) -> u64 {
        self.raw.packets
    }

    /// Of [`ReceiveMeter::packets`], those that were marked and count.
    pub fn marked(&self) -> u64 {
        self.raw.marked
    }

    /// T.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.raw.law.interval)
    }
}
