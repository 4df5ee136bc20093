//! The sending side: destination limiters and their queues, and EyeQ's interface meter above the
//! root limiters.

use super::Slot;
use crate::events::Event;
use crate::ids::{HostId, PacketId, ServiceIndex, SlotId};
use crate::observer::Observer;
use crate::packet::{CAPABLE, Feedback, List, REQUESTS_FEEDBACK, SHAPED};
use crate::timer::{Fired, Timer};
use crate::world::World;
use weir_datapath::{Destination, Verdict};
use weir_units::{Bytes, Direction, Duration, Instant, MachineId, SimTime};

impl Slot {
    /// The next check of a queue whose first packet may leave at `departure`: then, or when
    /// `silence` without feedback has slowed or removed the limiter.
    fn wakes(&self, now: Instant, departure: Instant, silence: Duration) -> SimTime {
        let silent = self.limiter.feedback_at() + silence;
        departure.min(if silent > now { silent } else { now + silence }).into()
    }
}

impl<O: Observer> World<O> {
    /// A packet of a host with a shaper: it continues to its service's limiters, or waits for its destination's.
    /// Returns whether it was sent at once and its flow has not been notified.
    pub(crate) fn shape(&mut self, host: HostId, id: PacketId) -> bool {
        let is_stranger = self.is_stranger(host);
        let packet = self.packets.get_mut(id);
        let (service, to, size) = (packet.service, packet.to, packet.size);
        if service.index() + 1 == self.service_count || is_stranger {
            return self.enter_interface(host, id);
        }
        if !packet.has(CAPABLE) {
            packet.set(CAPABLE, true);
            packet.set(SHAPED, true);
        }
        let Some(slot_id) = self.limiter_to(host, service, to) else {
            return self.enter_service(host, id);
        };
        let (now, silence) = (self.now.instant(), self.shaping.config.parameters.destination.silence);
        let slot = &mut self.shaping.slots[slot_id.index()];
        if slot.waiting.is_empty() {
            if slot.limiter.silent(now) == Verdict::Drop {
                self.free_slot(slot_id);
                return self.enter_service(host, id);
            }
            let departure = slot.limiter.earliest(now);
            if departure <= now {
                slot.limiter.departure(now, Bytes::new(size.into()));
                self.packets.get_mut(id).set(REQUESTS_FEEDBACK, slot.limiter.requests_feedback(now));
                return self.enter_service(host, id);
            }
            if let Some(at) = slot.release.set(slot.wakes(now, departure, silence)) {
                self.events.push(at, Event::Destination(slot_id));
            }
        }
        slot.waiting.push(&mut self.packets, id);
        slot.count += 1;
        self.observer.waits(self.now, host, service, to, id);
        false
    }

    /// Whether a host has no agent.
    fn is_stranger(&self, host: HostId) -> bool {
        self.shaping.strangers.get(host.index()).is_some_and(|stranger| *stranger)
    }

    /// The limiter to a destination; the first packet creates it if the parameters require one.
    fn limiter_to(&mut self, host: HostId, service: ServiceIndex, to: HostId) -> Option<SlotId> {
        let slots = &self.shaping.destinations[host.index() * self.service_count + service.index()];
        if let Some(slot_id) = slots.get(to.0) {
            return Some(SlotId(slot_id));
        }
        let config = &self.shaping.config;
        config.parameters.destination.initial?;
        let parameters = config.of(&config.services[service.index()]).destination;
        let limiter = Destination::initial(self.now.instant(), &parameters)?;
        Some(self.assign_slot(host, service, to, limiter))
    }

    /// Assigns a slot to the limiter of a destination.
    fn assign_slot(&mut self, host: HostId, service: ServiceIndex, to: HostId, limiter: Destination) -> SlotId {
        let slot = Slot { limiter, waiting: List::default(), count: 0, host, service, to, release: Timer::default() };
        let shaping = &mut self.shaping;
        let slot_id = match shaping.free.pop() {
            Some(slot_id) => {
                shaping.slots[slot_id.index()] = slot;
                slot_id
            }
            None => {
                shaping.slots.push(slot);
                SlotId((shaping.slots.len() - 1) as u32)
            }
        };
        shaping.destinations[host.index() * self.service_count + service.index()].insert(to.0, slot_id.0);
        slot_id
    }

    /// Removes a limiter with an empty queue.
    fn free_slot(&mut self, slot_id: SlotId) {
        let shaping = &mut self.shaping;
        let slot = &mut shaping.slots[slot_id.index()];
        debug_assert!(slot.waiting.is_empty(), "packets wait for a limiter that is removed");
        slot.release.cancel();
        shaping.destinations[slot.host.index() * self.service_count + slot.service.index()].remove(slot.to.0);
        shaping.free.push(slot_id);
    }

    /// A receiver's feedback sets the rate of its senders.
    pub(crate) fn on_feedback(&mut self, host: HostId, feedback: Feedback) {
        if self.is_stranger(host) {
            return;
        }
        let Feedback { from, service, rate } = feedback;
        let at = host.index() * self.service_count + service.index();
        let (now, weight) = (self.now.instant(), self.shaping.weights[at]);
        match self.shaping.destinations[at].get(from.0).map(SlotId) {
            Some(slot_id) => {
                let slot = &mut self.shaping.slots[slot_id.index()];
                slot.limiter.feedback(now, rate, weight);
                if !slot.waiting.is_empty() {
                    self.release_destination(slot_id);
                }
            }
            None => {
                let config = &self.shaping.config;
                let parameters = config.of(&config.services[service.index()]).destination;
                self.assign_slot(host, service, from, Destination::by_feedback(now, &parameters, rate, weight));
            }
        }
    }

    /// The event of a destination queue's timer.
    pub(crate) fn destination_due(&mut self, slot_id: SlotId) {
        match self.shaping.slots[slot_id.index()].release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Destination(slot_id)),
            Fired::Due => self.release_destination(slot_id),
        }
    }

    /// Releases the packets at the head of a destination's queue that may leave, and sets its timer
    /// for the next.
    fn release_destination(&mut self, slot_id: SlotId) {
        let (now, silence) = (self.now.instant(), self.shaping.config.parameters.destination.silence);
        loop {
            let slot = &mut self.shaping.slots[slot_id.index()];
            let id = slot.waiting.head;
            if id == PacketId::NONE {
                return slot.release.cancel();
            }
            if slot.limiter.silent(now) == Verdict::Drop {
                return self.release_all(slot_id);
            }
            let departure = slot.limiter.earliest(now);
            if departure > now {
                if let Some(at) = slot.release.set(slot.wakes(now, departure, silence)) {
                    self.events.push(at, Event::Destination(slot_id));
                }
                // Under overload tens of thousands of packets wait: this one is no longer cached.
                self.packets.fetch(id);
                return;
            }
            let size = self.packets.get(id).size;
            slot.limiter.departure(now, Bytes::new(size.into()));
            self.packets.get_mut(id).set(REQUESTS_FEEDBACK, slot.limiter.requests_feedback(now));
            let host = self.let_go(slot_id);
            if self.enter_service(host, id) {
                self.resume(id);
            }
        }
    }

    /// Takes the first packet from a destination's queue; returns the host that it belongs to.
    fn let_go(&mut self, slot_id: SlotId) -> HostId {
        let slot = &mut self.shaping.slots[slot_id.index()];
        let (host, service, to) = (slot.host, slot.service, slot.to);
        if let Some(id) = slot.waiting.pop(&mut self.packets) {
            slot.count -= 1;
            self.observer.destination_released(self.now, host, service, to, id);
        }
        host
    }

    /// Releases all packets that wait for a limiter, and removes it: its feedback is too old.
    fn release_all(&mut self, slot_id: SlotId) {
        let host = self.shaping.slots[slot_id.index()].host;
        let mut sent = None;
        loop {
            let id = self.shaping.slots[slot_id.index()].waiting.head;
            if id == PacketId::NONE {
                break;
            }
            self.let_go(slot_id);
            if self.enter_service(host, id) {
                sent = Some(id);
            }
        }
        // Flows send more only now: their packets find no limiter, and must not overtake.
        self.free_slot(slot_id);
        if let Some(id) = sent {
            self.resume(id);
        }
    }

    /// Counts departures from a service's root limiter, for the interface meter above it.
    pub(crate) fn count_sent(&mut self, host: HostId, size: u32) {
        let now = self.now.instant();
        if self.shaping.transmit[host.index()].packet(now, Bytes::new(size.into())) {
            self.share_transmitting(host);
        }
    }

    /// Divides a host's sending capacity among its services, if there is an interface meter for sending (EyeQ).
    pub(super) fn share_transmitting(&mut self, host: HostId) {
        for service in (0..self.service_count as u16 - 1).map(ServiceIndex) {
            let Some(meter) = self.shaping.transmit.get(host.index()) else { return };
            let share = meter.share_of(&self.shaping.config, service.index(), MachineId(host.0), Direction::Tx);
            if share != self.limit(host, service) {
                self.set_limit(host, service, share);
            }
        }
    }
}
