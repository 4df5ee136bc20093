//! The receiving side: bytes and marks of pairs, and reports.

use super::Source;
use crate::ids::{HostId, PacketId};
use crate::observer::Observer;
use crate::packet::{MARKED, OTHERS, Packet, Report, SHAPED};
use crate::world::World;
use weir_pair_rates::PairSystem;
use weir_units::{Bytes, MachineId, SimTime};

/// The frame of a report: Ethernet's smallest, as Trinity's.
const REPORT_SIZE: u32 = 64;

/// Whether marks of a packet count. They do not for packets that go first.
fn counts(system: PairSystem, packet: &Packet) -> bool {
    !system.has_priorities() || packet.priority >= OTHERS
}

impl<O: Observer> World<O> {
    /// Counts a packet that has reached its host, and sends a report if it is due.
    pub(crate) fn count_pair(&mut self, host: HostId, id: PacketId) {
        let packet = self.packets.get_mut(id);
        let service = packet.service;
        let end = &self.pairs.ends[host.index() * self.service_count + service.index()];
        let Some(system) = self.pairs.system.filter(|_| end.on) else { return self.hide_mark(id) };
        let marked = packet.has(MARKED);
        let counts = counts(system, packet);
        let bytes = u64::from(packet.size);
        self.hide_mark(id);
        let source = self.source(id);
        let peer = MachineId(source.0);
        let end = &mut self.pairs.ends[host.index() * self.service_count + service.index()];
        end.receiving.add(peer);
        end.receiving.count(peer, Bytes::new(bytes));
        let counted = end.sources.entry(peer).or_insert(Source { since: self.now, bytes: 0, marked: 0 });
        if counts {
            counted.bytes += bytes;
            counted.marked += if marked { bytes } else { 0 };
        }
        if self.now.saturating_sub(counted.since) >= SimTime::from(system.report_interval()) {
            // The percentage is rounded down, as in Trinity's code.
            let marked_percent = (counted.marked * 100).checked_div(counted.bytes).unwrap_or(0) as u8;
            *counted = Source { since: self.now, bytes: 0, marked: 0 };
            let report = Report { from: host, service, marked_percent, part: end.receiving.part(peer) };
            self.send_report(host, source, report);
        }
    }

    /// Counts a packet that a port has dropped, as if it had arrived with a mark: by the numbers of a pair's packets
    /// its receiver finds the gap when the next one arrives.
    #[cold]
    pub(crate) fn count_lost(&mut self, id: PacketId) {
        let packet = *self.packets.get(id);
        let at = packet.to.index() * self.service_count + packet.service.index();
        let Some(_) = self.pairs.system.filter(|system| self.pairs.ends[at].on && counts(*system, &packet)) else {
            return;
        };
        let peer = MachineId(self.source(id).0);
        let source = Source { since: self.now, bytes: 0, marked: 0 };
        let counted = self.pairs.ends[at].sources.entry(peer).or_insert(source);
        counted.bytes += u64::from(packet.size);
        counted.marked += u64::from(packet.size);
    }

    /// Hides a mark from a transport that does not use them. Machine shapers count it first, and hide it.
    fn hide_mark(&mut self, id: PacketId) {
        let packet = self.packets.get_mut(id);
        if packet.has(SHAPED) && !self.shaping.on {
            packet.clear(MARKED);
        }
    }

    fn send_report(&mut self, host: HostId, to: HostId, report: Report) {
        self.counters.feedback += 1;
        let mut packet = Packet::of_report(report, REPORT_SIZE, to, self.control_service());
        packet.stamp = self.now;
        self.send(host, packet);
    }
}
