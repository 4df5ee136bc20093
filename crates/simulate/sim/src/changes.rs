//! Links that change while a network runs: other rates, failures, repairs, other weights.
//!
//! - A **rate** holds for every frame whose transmission has not begun; the frame on the wire ends
//!   at the old rate. A FIFO port has handed over frames that have not begun, so their times are
//!   computed anew.
//! - A link that goes **down** loses the frames on it and in its queue, and accepts none. Routes
//!   are computed anew at once: a real network needs some milliseconds for that, which a scenario
//!   can model by two events.
//! - **Weights** apply from each class's next turn.
//!
//! Example: a port at 8 Mb/s holds frames of 1000 B that begin at 0, 1 and 2 ms. At 0.5 ms the rate
//! becomes 16 Mb/s: they end at 1, 1.5 and 2 ms.

use crate::build::known_profile;
use crate::events::Event;
use crate::ids::{PacketId, PortId};
use crate::observer::Observer;
use crate::packet::Arena;
use crate::port::{Profile, Service};
use crate::world::World;
use weir_network::graph::PRIORITIES;
use weir_units::{Bandwidth, SimTime};

impl<O: Observer> World<O> {
    /// Counts the bytes that a port could have sent until now, before its rate or state changes.
    fn settle_capacity(&mut self, port: PortId) {
        let capacity = self.capacity(port);
        let record = &mut self.records[port.index()];
        (record.capacity, record.rated_at) = (capacity, self.now);
    }

    /// Gives a link another rate.
    pub fn set_rate(&mut self, port: PortId, rate: Bandwidth) {
        self.settle_capacity(port);
        self.events.forget_hints();
        let now = self.now;
        let record = &mut self.records[port.index()];
        let out = &mut self.ports[port.index()];
        let old = self.profiles[out.profile as usize].clone();
        // The peak is kept in picoseconds of the rate.
        out.peak_bytes = out.peak_bytes.max(old.bytes_in(SimTime::from_picos(out.peak_time)));
        out.peak_time = 0;
        let ids = in_order(&self.packets, self.events.take_arrivals(|id| self.packets.get(id).link() == port));
        // The end of each transmission is the earliest start of the next.
        let delay = old.delay();
        // The frame on the wire at the last change has its own rate.
        let wire_end = record.wire_end;
        let begun = |id: &PacketId| {
            let packet = self.packets.get(*id);
            let end = packet.arrival - delay;
            end <= wire_end || end.saturating_sub(time_of(old.rate(), packet.size)) <= now
        };
        let waiting = ids.iter().position(|id| !begun(id)).unwrap_or(ids.len());
        let free_at = match waiting.checked_sub(1) {
            Some(last) => self.packets.get(ids[last]).arrival - delay,
            None => now,
        };
        let any_waits = waiting < ids.len();
        let end = if any_waits { free_at.max(now) } else { out.free_at };
        self.observer.rate_changed(now, port, old.rate(), (ids.len() - waiting) as u64, end);
        out.free_at = end;
        if end > now && end > wire_end {
            (record.wire_end, record.wire_rate) = (end, old.rate());
        }
        out.mixed = record.wire_end > now;
        let profile = Profile::new(rate, delay, old.buffer, old.mark);
        record.clock = profile.clock().clone();
        out.profile = known_profile(&mut self.profiles, profile);
        let profile = &self.profiles[out.profile as usize];
        for (index, id) in ids.into_iter().enumerate() {
            let packet = self.packets.get_mut(id);
            if index >= waiting {
                let transmission = out.transmit(profile, &mut record.clock, now, packet.size);
                packet.arrival = transmission.arrival;
                self.observer.transmitted(port, packet.size, transmission);
            }
            self.events.push(packet.arrival, Event::Arrive(id));
        }
        self.set_agents_rate(port, rate);
    }

    /// Takes a link down. Call [`World::compute_routes`] when the links that fail together are
    /// down.
    pub fn take_down(&mut self, port: PortId) {
        if self.ports[port.index()].service == Service::Down {
            return;
        }
        self.settle_capacity(port);
        let out = &mut self.ports[port.index()];
        self.events.forget_hints();
        self.observer.cut(self.now, port);
        out.service = Service::Down;
        out.free_at = self.now;
        (out.waking, out.mixed) = (false, false);
        self.records[port.index()].wire_end = SimTime::ZERO;
        let delay = self.profiles[out.profile as usize].delay();
        let lost = in_order(&self.packets, self.events.take_arrivals(|id| self.packets.get(id).link() == port));
        let index = out.queue as usize;
        let owned = out.owner().is_some();
        self.take_agents_down(port);
        for id in lost {
            let packet = self.packets.get(id);
            let (sent, priority, size) = (packet.arrival <= self.now + delay, packet.priority, packet.size);
            if !sent {
                self.take_back(port, priority, size);
            }
            self.drop(port, id, false);
        }
        // Packets inside a host stay there, as in a computer whose cable is unplugged.
        if !owned {
            while let Some(id) = self.queues.get_mut(index).and_then(|queue| queue.pop(&mut self.packets)) {
                self.drop(port, id, true);
            }
        }
    }

    /// Brings a link up again. Call [`World::compute_routes`] after it.
    pub fn bring_up(&mut self, port: PortId) {
        let out = &mut self.ports[port.index()];
        if out.service != Service::Down {
            return;
        }
        self.observer.restored(self.now, port);
        self.records[port.index()].rated_at = self.now;
        out.service = self.records[port.index()].usual;
        let waits = self.queues.get(out.queue as usize).is_some_and(|queue| !queue.is_empty());
        if waits && !out.waking {
            out.waking = true;
            self.events.push(self.now, Event::Free(port));
        }
    }

    /// Changes the weights of a port with weighted classes. Returns whether it has any.
    pub fn set_weights(&mut self, port: PortId, weights: [u32; PRIORITIES]) -> bool {
        let index = self.ports[port.index()].queue as usize;
        self.queues.get_mut(index).is_some_and(|queue| queue.set_weights(weights))
    }

    /// Takes the most bytes that a port held since the last call.
    pub fn take_peak(&mut self, port: PortId) -> u64 {
        let out = &mut self.ports[port.index()];
        let record = &self.records[port.index()];
        let profile = &self.profiles[out.profile as usize];
        let bytes = profile.bytes_in(SimTime::from_picos(out.peak_time)).max(out.peak_bytes);
        // The next interval begins with the current backlog.
        let backlog = out.backlog(self.now, profile, record);
        let waiting = self.queues.get(out.queue as usize).map_or(0, |queue| queue.bytes());
        out.peak_time = backlog.picos();
        out.peak_bytes = if waiting > 0 { waiting + profile.bytes_in(backlog) } else { 0 };
        bytes
    }
}

/// Packets of one link as they arrive.
fn in_order(packets: &Arena, mut ids: Vec<PacketId>) -> Vec<PacketId> {
    ids.sort_unstable_by_key(|&id| (packets.get(id).arrival, id));
    ids
}

/// The time of a frame at a rate, rounded down: a frame that begins by then has begun.
fn time_of(rate: Bandwidth, size: u32) -> SimTime {
    SimTime::from_picos((u128::from(size) * 8_000_000_000_000 / u128::from(rate.bps())) as u64)
}
