//! Counters and meters of an interface's programs.
//!
//! Each CPU has its own counters, which are summed here. Ticks write the meters word by word, so a
//! reading may mix two ticks; no decision depends on the difference.

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::settings::kernel_time;
use weir_datapath::Meter;
pub use weir_datapath::abi::Counts;
use weir_datapath::abi::{self, REST};
use weir_units::{Bandwidth, Bytes, Direction, PerDirection, ServiceId};

/// Bytes and packets that one service has offered to the interface and received. What has left of
/// the offered ones is in [`crate::sent`].
pub type Totals = PerDirection<Meter>;

/// A service's receive meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveReading {
    /// C: the rate at which the service may receive now.
    pub capacity: Bandwidth,
    /// R: the rate of a sender of weight 1.
    pub rate: Bandwidth,
    /// Usage in the last interval.
    pub usage: Bandwidth,
    /// Packets that switches could mark, in all closed windows.
    pub packets: u64,
    /// Of them, those that were marked and count.
    pub marked: u64,
    /// Feedback packets sent.
    pub feedback_sent: u64,
    /// The packets that the policer decided about.
    pub policed: PolicedReading,
}

/// Packets from senders without Weir to a service with a receive limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicedReading {
    /// Bytes that passed, in marked packets too.
    pub bytes: u64,
    /// Packets that passed, marked ones included.
    pub packets: u64,
    /// Packets that were marked.
    pub marked_packets: u64,
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
}

/// The ticks of the meters, and the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimerReading {
    /// Ticks of the meters since the first start, run by packets or by the timer.
    pub ticks: u64,
    /// Expiries of the timer that were skipped because it was late.
    pub late: u64,
    /// Changes of the kernel to the static policy because no agent was alive.
    pub fallbacks: u64,
    /// Whether the static policy is in force.
    pub fallback: bool,
}

impl InterfaceDatapath {
    /// The totals of a service, or with `None` of unclassified traffic, since the programs were first attached.
    pub fn totals(&self, service: Option<ServiceId>) -> Result<Totals, LoaderError> {
        let slot = service.map_or(Ok(REST), |service| self.slots.of(service))?;
        let mut totals = Totals::default();
        for direction in Direction::ALL {
            let index = match direction {
                Direction::Tx => abi::TX,
                Direction::Rx => abi::RX,
            };
            totals[direction] = self.maps.meters.sum(slot * 2 + index)?.into();
        }
        Ok(totals)
    }

    /// Bytes and buffers that the pacing of a service (`edt`) dropped since the programs were first
    /// attached.
    pub fn drops(&self, service: ServiceId) -> Result<Meter, LoaderError> {
        Ok(self.maps.drops.sum(self.slots.of(service)?)?.into())
    }

    /// Bytes that a service has received since the programs were first attached, and of the closed windows of its
    /// meter the packets that switches could mark, and those marked: two lookups, for frequent readings.
    pub fn received(&self, service: ServiceId) -> Result<(Bytes, u64, u64), LoaderError> {
        let slot = self.slots.of(service)?;
        let total: Meter = self.maps.meters.sum(slot * 2 + abi::RX)?.into();
        let meter = self.maps.receivers.get(slot)?.meter;
        Ok((total.bytes(), meter.packets, meter.marked))
    }

    /// Whether a packet of the service has a departure in the future; never with classes, in which packets wait without
    /// one.
    pub fn has_departures(&self, service: ServiceId) -> Result<bool, LoaderError> {
        let egress = self.maps.service_egresses.get(self.slots.of(service)?)?;
        Ok(egress.sender.latest > kernel_time())
    }

    /// A service's receive meter.
    pub fn receive_reading(&self, service: ServiceId) -> Result<ReceiveReading, LoaderError> {
        let slot = self.slots.of(service)?;
        let meter = self.maps.receivers.get(slot)?.meter;
        let counting = self.maps.counting.get(slot)?;
        let rate = |bps: u64| if bps == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(bps) };
        Ok(ReceiveReading {
            capacity: rate(meter.capacity),
            rate: rate(meter.rate),
            usage: Bandwidth::from_bps(meter.usage),
            packets: meter.packets,
            marked: meter.marked,
            feedback_sent: counting.iter().map(|cpu| cpu.feedback_sent).sum(),
            policed: PolicedReading {
                bytes: counting.iter().map(|cpu| cpu.policed.bytes).sum(),
                packets: counting.iter().map(|cpu| cpu.policed.packets).sum(),
                marked_packets: counting.iter().map(|cpu| cpu.policed.marked_packets).sum(),
                dropped_bytes: counting.iter().map(|cpu| cpu.policed.dropped_bytes).sum(),
                dropped_packets: counting.iter().map(|cpu| cpu.policed.dropped_packets).sum(),
            },
        })
    }

    /// Events in both directions since the programs were first attached.
    pub fn counts(&self) -> Result<Counts, LoaderError> {
        Ok(self.maps.counts.sum(0)?)
    }

    /// The ticks of the meters, and the timer.
    pub fn timer(&self) -> Result<TimerReading, LoaderError> {
        let state = self.maps.states.get(0)?;
        Ok(TimerReading {
            ticks: state.ticks,
            late: state.late,
            fallbacks: state.fallbacks,
            fallback: state.fallback != 0,
        })
    }
}
