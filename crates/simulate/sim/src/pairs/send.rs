//! The sending side: queues and token buckets of pairs.

use super::Slot;
use crate::events::Event;
use crate::ids::{HostId, PacketId, ServiceIndex, SlotId};
use crate::observer::Observer;
use crate::packet::{CAPABLE, Kind, List, OTHERS, Report, SHAPED};
use crate::timer::{Fired, Timer};
use crate::world::World;
use weir_datapath::Limiter;
use weir_pair_rates::{Pair, PairLaw, PairSystem, Rates};
use weir_units::{Bandwidth, Bytes, Instant, MachineId};

/// The packet that a slot may release, or the time of the next one.
enum Next {
    /// The first small or large packet, with tokens of the excess bucket or not.
    Leaves {
        small: bool,
        excess: bool,
    },
    /// None before this time.
    Waits(Instant),
    Nothing,
}

impl Slot {
    fn new(system: PairSystem, now: Instant, pair: &Pair, (host, service, to): (HostId, ServiceIndex, HostId)) -> Self {
        let law = PairLaw::new(system, now, pair);
        let bucket = |rate| Limiter::new(rate, system.burst());
        let (committed, excess) = match law.rates() {
            Rates::One(rate) => (bucket(rate), None),
            Rates::Two { committed, excess } => (bucket(committed), Some(bucket(excess))),
        };
        let (small, large, release) = (List::default(), List::default(), Timer::default());
        Self { law, committed, excess, small, large, host, service, to, release }
    }

    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    fn apply(&mut self, now: Instant) {
        match (self.law.rates(), &mut self.excess) {
            (Rates::One(rate), _) => self.committed.set_rate(now, rate),
            (Rates::Two { committed, excess }, bucket) => {
                self.committed.set_rate(now, committed);
                bucket.iter_mut().for_each(|bucket| bucket.set_rate(now, excess));
            }
        }
    }

    /// Small packets first, with tokens of the guarantee alone; then large ones, with these or excess tokens.
    fn next(&mut self, now: Instant) -> Next {
        if self.is_empty() {
            return Next::Nothing;
        }
        let at = self.committed.earliest(now);
        if at <= now {
            return Next::Leaves { small: !self.small.is_empty(), excess: false };
        }
        let Some(excess) = self.excess.as_mut().filter(|_| !self.large.is_empty()) else { return Next::Waits(at) };
        let beyond = excess.earliest(now);
        if beyond <= now { Next::Leaves { small: false, excess: true } } else { Next::Waits(at.min(beyond)) }
    }
}

impl<O: Observer> World<O> {
    /// A new packet of a host where pairs are limited.
    pub(crate) fn enter_pair(&mut self, host: HostId, id: PacketId) {
        let control = self.control_service();
        let packet = self.packets.get_mut(id);
        let (service, to) = (packet.service, packet.to);
        let end = &self.pairs.ends[host.index() * self.service_count + service.index()];
        let Some(system) = self.pairs.system.filter(|_| end.on) else {
            if self.pairs.system.is_some_and(PairSystem::has_priorities) && service != control {
                packet.priority = OTHERS;
            }
            self.beyond_pairs(host, id);
            return;
        };
        if !packet.has(CAPABLE) {
            packet.set(CAPABLE, true);
            packet.set(SHAPED, true);
        }
        let small = self.is_small(id, system.small_flow().get());
        let slot_id = match self.pairs.ends[host.index() * self.service_count + service.index()].slots.get(to.0) {
            Some(slot_id) => SlotId(slot_id),
            None => self.begin_pair(system, host, service, to),
        };
        let slot = &mut self.pairs.slots[slot_id.index()];
        let list = if small { &mut slot.small } else { &mut slot.large };
        let first = list.is_empty();
        list.push(&mut self.packets, id);
        if first {
            // No other packet leaves now: the timer is set for it. The flow that sends this one continues by itself.
            self.release_pair(slot_id, Some(id));
        }
    }

    /// Whether a packet is of the first bytes of a flow, or carries none. Flows other than streams are large.
    fn is_small(&self, id: PacketId, threshold: u64) -> bool {
        let packet = self.packets.get(id);
        if threshold == 0 {
            return false;
        }
        packet.kind() != Kind::Segment || (self.flows[packet.flow.index()].is_stream && packet.sequence < threshold)
    }

    /// Beyond the pair: to the machine shaper, or to the service's limiters.
    fn beyond_pairs(&mut self, host: HostId, id: PacketId) -> bool {
        if self.shaping.on { self.shape(host, id) } else { self.enter_service(host, id) }
    }

    fn begin_pair(&mut self, system: PairSystem, host: HostId, service: ServiceIndex, to: HostId) -> SlotId {
        let line = self.rate(self.interface(host));
        let at = host.index() * self.service_count + service.index();
        let end = &mut self.pairs.ends[at];
        end.sending.add(MachineId(to.0));
        let pair = Pair { guarantee: end.sending.guarantee(MachineId(to.0)), line };
        let slot = Slot::new(system, self.now.instant(), &pair, (host, service, to));
        let slot_id = match self.pairs.free.pop() {
            Some(slot_id) => {
                self.pairs.slots[slot_id.index()] = slot;
                slot_id
            }
            None => {
                self.pairs.slots.push(slot);
                SlotId((self.pairs.slots.len() - 1) as u32)
            }
        };
        self.pairs.ends[at].slots.insert(to.0, slot_id.0);
        // The parts of the others are smaller now.
        self.set_guarantees(host, service);
        slot_id
    }

    /// Passes the guarantees of a host's pairs to their laws.
    fn set_guarantees(&mut self, host: HostId, service: ServiceIndex) {
        let end = &self.pairs.ends[host.index() * self.service_count + service.index()];
        let guarantees: Vec<(u32, Bandwidth)> = end
            .sending
            .peers()
            .filter_map(|peer| Some((end.slots.get(peer.0)?, end.sending.guarantee(peer))))
            .collect();
        for (slot_id, guarantee) in guarantees {
            let now = self.now.instant();
            let slot = &mut self.pairs.slots[slot_id as usize];
            slot.law.set_guarantee(now, guarantee);
            slot.apply(now);
            self.release_pair(SlotId(slot_id), None);
        }
    }

    /// A receiver's report about a pair.
    pub(crate) fn on_report(&mut self, host: HostId, report: Report) {
        let Report { from, service, marked_percent, part } = report;
        let end = &mut self.pairs.ends[host.index() * self.service_count + service.index()];
        let Some(slot_id) = end.slots.get(from.0).map(SlotId) else { return };
        end.sending.set_bound(MachineId(from.0), part);
        let guarantee = end.sending.guarantee(MachineId(from.0));
        let now = self.now.instant();
        let slot = &mut self.pairs.slots[slot_id.index()];
        slot.law.set_guarantee(now, guarantee);
        slot.law.report(now, marked_percent);
        slot.apply(now);
        self.release_pair(slot_id, None);
    }

    /// Divides the guarantees of a host's tenants anew.
    pub(super) fn partition(&mut self, host: HostId) {
        let Some(system) = self.pairs.system else { return };
        let elapsed = system.partition_interval();
        for service in (0..self.service_count as u16 - 1).map(ServiceIndex) {
            let end = &mut self.pairs.ends[host.index() * self.service_count + service.index()];
            if !end.on {
                continue;
            }
            for peer in end.receiving.close(elapsed) {
                end.sources.remove(&peer);
            }
            for peer in end.sending.close(elapsed) {
                self.end_pair(host, service, peer);
            }
            self.set_guarantees(host, service);
        }
    }

    /// Ends a pair. Packets that wait leave at once: they have none to wait for.
    pub(super) fn end_pair(&mut self, host: HostId, service: ServiceIndex, peer: MachineId) {
        let end = &mut self.pairs.ends[host.index() * self.service_count + service.index()];
        let Some(slot_id) = end.slots.get(peer.0).map(SlotId) else { return };
        if end.on && !self.pairs.slots[slot_id.index()].is_empty() {
            // It waits for tokens of a low rate, and is active.
            end.sending.add(peer);
            return;
        }
        end.slots.remove(peer.0);
        while let Some(id) = self.pop_pair(slot_id, true).or_else(|| self.pop_pair(slot_id, false)) {
            if self.beyond_pairs(host, id) {
                self.resume(id);
            }
        }
        self.pairs.slots[slot_id.index()].release.cancel();
        self.pairs.free.push(slot_id);
    }

    fn pop_pair(&mut self, slot_id: SlotId, small: bool) -> Option<PacketId> {
        let slot = &mut self.pairs.slots[slot_id.index()];
        let list = if small { &mut slot.small } else { &mut slot.large };
        list.pop(&mut self.packets)
    }

    /// The event of a pair's timer.
    pub(crate) fn pair_due(&mut self, slot_id: SlotId) {
        match self.pairs.slots[slot_id.index()].release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Pair(slot_id)),
            Fired::Due => self.release_pair(slot_id, None),
        }
    }

    /// Releases the packets that have tokens, and sets the timer for the next. The flow of `sending` is not resumed.
    fn release_pair(&mut self, slot_id: SlotId, sending: Option<PacketId>) {
        let now = self.now.instant();
        loop {
            let slot = &mut self.pairs.slots[slot_id.index()];
            let (small, excess) = match slot.next(now) {
                Next::Leaves { small, excess } => (small, excess),
                Next::Waits(until) => {
                    if let Some(at) = slot.release.set(until.into()) {
                        self.events.push(at, Event::Pair(slot_id));
                    }
                    return;
                }
                Next::Nothing => return slot.release.cancel(),
            };
            let (host, service, to, two) = (slot.host, slot.service, slot.to, slot.excess.is_some());
            let Some(id) = self.pop_pair(slot_id, small) else { return };
            let packet = self.packets.get_mut(id);
            let bytes = Bytes::new(packet.size.into());
            if two {
                packet.priority = if excess { OTHERS } else { 0 };
            }
            let slot = &mut self.pairs.slots[slot_id.index()];
            let bucket = if excess { slot.excess.as_mut().unwrap_or(&mut slot.committed) } else { &mut slot.committed };
            bucket.departure(now, bytes);
            let end = &mut self.pairs.ends[host.index() * self.service_count + service.index()];
            end.sending.count(MachineId(to.0), bytes);
            if self.beyond_pairs(host, id) && sending != Some(id) {
                self.resume(id);
            }
        }
    }
}
