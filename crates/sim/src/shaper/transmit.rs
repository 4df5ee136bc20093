//! The sending side: destination limiters and what waits for them, and EyeQ's level above the root limiters.

use super::Slot;
use crate::events::Event;
use crate::ids::{HostId, PacketId, ServiceIndex, SlotId};
use crate::observer::Observer;
use crate::packet::{ASKS, CAPABLE, Feedback, List, SHAPED};
use crate::timer::{Fired, Timer};
use crate::world::World;
use weir_datapath::{Destination, Verdict};
use weir_units::{Bytes, Direction, Duration, Instant, SimTime};

impl Slot {
    /// When to look at the queue again whose first packet may leave at `departure`: then, or when nothing will have been heard for
    /// so long (`silence`) that the limiter is slowed or forgotten.
    fn wakes(&self, now: Instant, departure: Instant, silence: Duration) -> SimTime {
        let silent = self.limiter.feedback_at() + silence;
        departure.min(if silent > now { silent } else { now + silence }).into()
    }
}

impl<O: Observer> World<O> {
    /// A packet of a host with a shaper: it goes on to its service's queue, or waits for its destination's limiter.
    pub(crate) fn shape(&mut self, host: HostId, id: PacketId) {
        let packet = self.packets.get_mut(id);
        let (class, to, size) = (packet.class, packet.to, packet.size);
        if class.index() + 1 == self.classes {
            self.enter_service(host, id);
            return;
        }
        if !packet.has(CAPABLE) {
            packet.set(CAPABLE, true);
            packet.set(SHAPED, true);
        }
        let Some(place) = self.limiter_to(host, class, to) else {
            self.enter_service(host, id);
            return;
        };
        let (now, silence) = (self.now.instant(), self.shaping.config.parameters.destination.silence);
        let slot = &mut self.shaping.slots[place.index()];
        if slot.waiting.is_empty() {
            if slot.limiter.silent(now) == Verdict::Drop {
                self.forget(place);
                self.enter_service(host, id);
                return;
            }
            let departure = slot.limiter.earliest(now);
            if departure <= now {
                slot.limiter.departure(now, Bytes::new(size.into()));
                self.packets.get_mut(id).set(ASKS, slot.limiter.requests_feedback(now));
                self.enter_service(host, id);
                return;
            }
            if let Some(at) = slot.release.set(slot.wakes(now, departure, silence)) {
                self.events.push(at, Event::Destination(place));
            }
        }
        slot.waiting.push(&mut self.packets, id);
        slot.count += 1;
        self.observer.waits(self.now, host, class, to, id);
    }

    /// The limiter to a destination; where the first packet makes one, it is made.
    fn limiter_to(&mut self, host: HostId, class: ServiceIndex, to: HostId) -> Option<SlotId> {
        let places = &self.shaping.destinations[host.index() * self.classes + class.index()];
        if let Some(place) = places.get(to.0) {
            return Some(SlotId(place));
        }
        let config = &self.shaping.config;
        config.parameters.destination.initial?;
        let parameters = config.of(&config.services[class.index()]).destination;
        let limiter = Destination::initial(self.now.instant(), &parameters)?;
        Some(self.remember(host, class, to, limiter))
    }

    /// Gives a limiter to a destination its place.
    fn remember(&mut self, host: HostId, class: ServiceIndex, to: HostId, limiter: Destination) -> SlotId {
        let slot = Slot { limiter, waiting: List::default(), count: 0, host, class, to, release: Timer::default() };
        let shaping = &mut self.shaping;
        let place = match shaping.free.pop() {
            Some(place) => {
                shaping.slots[place.index()] = slot;
                place
            }
            None => {
                shaping.slots.push(slot);
                SlotId((shaping.slots.len() - 1) as u32)
            }
        };
        shaping.destinations[host.index() * self.classes + class.index()].insert(to.0, place.0);
        place
    }

    /// Forgets a limiter. Nothing waits for it.
    fn forget(&mut self, place: SlotId) {
        let shaping = &mut self.shaping;
        let slot = &mut shaping.slots[place.index()];
        debug_assert!(slot.waiting.is_empty(), "packets wait for a limiter that goes");
        slot.release.cancel();
        shaping.destinations[slot.host.index() * self.classes + slot.class.index()].remove(slot.to.0);
        shaping.free.push(place);
    }

    /// A receiver says how fast its senders may send.
    pub(crate) fn on_feedback(&mut self, host: HostId, feedback: Feedback) {
        let Feedback { from, class, rate } = feedback;
        let at = host.index() * self.classes + class.index();
        let (now, weight) = (self.now.instant(), self.shaping.weights[at]);
        match self.shaping.destinations[at].get(from.0).map(SlotId) {
            Some(place) => {
                let slot = &mut self.shaping.slots[place.index()];
                slot.limiter.feedback(now, rate, weight);
                if !slot.waiting.is_empty() {
                    self.release_destination(place);
                }
            }
            None => {
                let config = &self.shaping.config;
                let parameters = config.of(&config.services[class.index()]).destination;
                self.remember(host, class, from, Destination::by_feedback(now, &parameters, rate, weight));
            }
        }
    }

    /// The event of a destination queue's timer.
    pub(crate) fn destination_due(&mut self, place: SlotId) {
        match self.shaping.slots[place.index()].release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Destination(place)),
            Fired::Due => self.release_destination(place),
        }
    }

    /// Lets the packets at the head of a destination's queue go that may, and sets its timer for the next.
    fn release_destination(&mut self, place: SlotId) {
        let (now, silence) = (self.now.instant(), self.shaping.config.parameters.destination.silence);
        loop {
            let slot = &mut self.shaping.slots[place.index()];
            let id = slot.waiting.head;
            if id == PacketId::NONE {
                return slot.release.cancel();
            }
            if slot.limiter.silent(now) == Verdict::Drop {
                return self.release_all(place);
            }
            let departure = slot.limiter.earliest(now);
            if departure > now {
                if let Some(at) = slot.release.set(slot.wakes(now, departure, silence)) {
                    self.events.push(at, Event::Destination(place));
                }
                // Under overload tens of thousands of packets wait: this one is far away by now.
                self.packets.fetch(id);
                return;
            }
            let size = self.packets.get(id).size;
            slot.limiter.departure(now, Bytes::new(size.into()));
            self.packets.get_mut(id).set(ASKS, slot.limiter.requests_feedback(now));
            let host = self.let_go(place);
            if self.enter_service(host, id) {
                self.resume(id);
            }
        }
    }

    /// Takes the first packet from a destination's queue; says whose host it is.
    fn let_go(&mut self, place: SlotId) -> HostId {
        let slot = &mut self.shaping.slots[place.index()];
        let (host, class, to) = (slot.host, slot.class, slot.to);
        if let Some(id) = slot.waiting.pop(&mut self.packets) {
            slot.count -= 1;
            self.observer.goes_on(self.now, host, class, to, id);
        }
        host
    }

    /// Lets all packets go that wait for a limiter, and forgets it: for too long nobody said how fast they may be sent.
    fn release_all(&mut self, place: SlotId) {
        let slot = &self.shaping.slots[place.index()];
        let (host, class) = (slot.host, slot.class);
        let limited = self.services[host.index() * self.classes + class.index()].limiter.is_some();
        let mut sent = None;
        loop {
            let id = self.shaping.slots[place.index()].waiting.head;
            if id == PacketId::NONE {
                break;
            }
            self.let_go(place);
            if limited {
                self.push_to_service(host, class, id);
            } else if self.enter_interface(host, id) {
                sent = Some(id);
            }
        }
        // Flows send more only now: what they send finds no limiter, and must not overtake.
        self.forget(place);
        if limited {
            self.release_heads(host, class);
        }
        if let Some(id) = sent {
            self.resume(id);
        }
    }

    /// Counts what has left a service's root limiter, for the level above.
    pub(crate) fn count_sent(&mut self, host: HostId, size: u32) {
        let now = self.now.instant();
        let transmit = &mut self.shaping.interfaces[host.index()].transmit;
        if transmit.as_mut().is_some_and(|meter| meter.packet(now, Bytes::new(size.into()))) {
            self.share_transmitting(host);
        }
    }

    /// Divides what a host's interface may send among its services, where there is a level that does (EyeQ).
    pub(super) fn share_transmitting(&mut self, host: HostId) {
        for class in (0..self.classes as u16 - 1).map(ServiceIndex) {
            let Some(share) = self.share_of(host, class, Direction::Tx) else { return };
            if share != self.limit(host, class) {
                self.set_limit(host, class, share);
            }
        }
    }
}
