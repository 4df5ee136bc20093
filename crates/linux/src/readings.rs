//! What the programs of an interface have counted and computed.
//!
//! Problem: counters are kept by each CPU, meters by the timer. Approach: sum over CPUs here; of a meter each word is read as the timer
//! last wrote it, and a reading may be of two ticks: nothing is decided by the difference.

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::tables::SERVICES_MAX;
use weir_datapath::{Meter, RawMeter};
use weir_units::{Bandwidth, Direction, PerDirection, ServiceId};

/// What one service has sent and received.
pub type Totals = PerDirection<Meter>;

/// A service's receive meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveReading {
    /// C: what the service may receive now.
    pub capacity: Bandwidth,
    /// R: what a sender of weight 1 is told.
    pub rate: Bandwidth,
    /// What came in the last interval.
    pub usage: Bandwidth,
    /// Packets that switches could mark, in all windows that closed.
    pub packets: u64,
    /// Of them, those that were marked and count.
    pub marked: u64,
    /// Feedback sent.
    pub answered: u64,
}

/// Events of control traffic, counted since the programs were first attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlCounters {
    /// Answers that could not be made or sent.
    pub answers_failed: u64,
    /// Feedback that was believed.
    pub feedback: u64,
    /// Feedback whose tag no key verifies.
    pub forged: u64,
    /// Feedback that is not newer than what is known.
    pub replayed: u64,
    /// Feedback about packets of no service.
    pub unknown: u64,
    /// Feedback of a destination for which there is no room.
    pub crowded: u64,
    /// Control datagrams of another version.
    pub other_version: u64,
    /// Datagrams to the control port that are not of this protocol.
    pub foreign: u64,
    /// Brokers' datagrams that are not for this agent.
    pub misdirected: u64,
    /// Brokers' datagrams from no machine of the rack.
    pub strangers: u64,
    /// Brokers' datagrams beyond what a machine may send.
    pub flooded: u64,
    /// Packets of tenants that look like control traffic.
    pub imitated: u64,
    /// Packets dropped since they would have waited too long for their departure.
    pub beyond_horizon: u64,
    /// Packets that asked for an answer, beyond what a tick has for such.
    pub asked_often: u64,
}

/// The ticks of the meters, and the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimerReading {
    /// Ticks of the meters since it was first started, by packets or by the timer.
    pub ticks: u64,
    /// Runs of the timer that were skipped because it was late.
    pub late: u64,
    /// Times that the kernel took the static policy because no agent was alive.
    pub fallbacks: u64,
    /// Whether it has done so now.
    pub fallback: bool,
}

impl InterfaceDatapath {
    /// What a service, or with `None` the unclassified traffic, has sent and received since the programs were first attached.
    pub fn totals(&self, service: Option<ServiceId>) -> Result<Totals, LoaderError> {
        let slot = service.map_or(Ok(SERVICES_MAX), |service| self.slots.of(service))?;
        let mut totals = Totals::default();
        for direction in Direction::ALL {
            let mut total = RawMeter::default();
            for cpu in self.maps.meters.get(&(slot * 2 + direction as u32), 0)?.iter() {
                total.bytes += cpu.0.bytes;
                total.packets += cpu.0.packets;
            }
            totals[direction] = total.into();
        }
        Ok(totals)
    }

    /// A service's receive meter.
    pub fn receive_reading(&self, service: ServiceId) -> Result<ReceiveReading, LoaderError> {
        let slot = self.slots.of(service)?;
        let meter = self.maps.receivers.get(&slot, 0)?.meter;
        let counting = self.maps.counting.get(&slot, 0)?;
        let rate = |bps: u64| if bps == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(bps) };
        Ok(ReceiveReading {
            capacity: rate(meter.capacity),
            rate: rate(meter.rate),
            usage: Bandwidth::from_bps(meter.usage),
            packets: meter.packets,
            marked: meter.marked,
            answered: counting.iter().map(|cpu| cpu.answered).sum(),
        })
    }

    /// Events of control traffic.
    pub fn control_counters(&self) -> Result<ControlCounters, LoaderError> {
        let count = |which: u32| Ok::<u64, LoaderError>(self.maps.counts.get(&which, 0)?.iter().sum());
        Ok(ControlCounters {
            answers_failed: count(0)?,
            feedback: count(1)?,
            forged: count(2)?,
            replayed: count(3)?,
            unknown: count(4)?,
            crowded: count(5)?,
            other_version: count(6)?,
            foreign: count(7)?,
            misdirected: count(8)?,
            strangers: count(9)?,
            flooded: count(10)?,
            imitated: count(11)?,
            beyond_horizon: count(12)?,
            asked_often: count(13)?,
        })
    }

    /// The ticks of the meters, and the timer.
    pub fn timer(&self) -> Result<TimerReading, LoaderError> {
        let state = self.maps.states.get(&0, 0)?;
        Ok(TimerReading {
            ticks: state.ticks,
            late: state.late,
            fallbacks: state.fallbacks,
            fallback: state.fallback != 0,
        })
    }
}
