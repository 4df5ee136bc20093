//! Latency levels at the simulated hosts, and the delays and queues of their frames.
//!
//! ```text
//! flows of a level ─► regulator ─► interface, before all services ─► strict priorities of switches
//! ```
//!
//! The regulator is the per-packet code of Linux hosts (`datapath/level.h`): it computes a frame's departure when the
//! frame is offered. Frames of a level have its priority class at every port; all others are in the least urgent class.
//! A host that does not obey has no agent: its frames pass no regulator and have the class of their flow.
//!
//! The worst delay and queue of every level are measured beside the bounds of [`weir_latency::levels`]: a frame that
//! arrives later than its bound is counted as late, a queue above its bound as overfull. Results show them; a run with
//! checkers panics.
//!
//! Worked example: eight hosts send frames of level 1 to a ninth, and bulk: the delay is at most two frames at the
//! interface and nine at the switch.
//!
//! Source: QJump's slides (levels, epochs, one priority for each level).

use crate::events::Event;
use crate::ids::{HostId, PacketId, PortId, ServiceIndex};
use crate::observer::Observer;
use crate::packet::{Arena, List, OTHERS};
use crate::timer::{Fired, Timer};
use crate::world::World;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_datapath::{LEVEL_QUEUE, LevelRegulator};
use weir_network::graph::LinkRef;
use weir_shaping::MachinePlan;
use weir_units::{Instant, SimTime};

/// No level.
const NONE: u8 = u8::MAX;

/// The parts of the enforcement of levels, for ablations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelParts {
    /// Hosts limit levels.
    pub regulators: bool,
    /// Ports serve levels first.
    pub priorities: bool,
}

/// The bounds of levels: by level the path, and by port and level the bytes in its queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelBounds {
    /// By level; [`SimTime::NEVER`] for an unbounded one.
    pub paths: Vec<SimTime>,
    /// By port and level; `u64::MAX` without a bound.
    pub backlogs: Vec<u64>,
    /// By port its class, an index into `classes`; empty without bounds.
    pub class_of: Vec<Option<usize>>,
    /// A link of each class of ports with equal bounds.
    pub classes: Vec<LinkRef>,
}

/// The largest queue of a level at the ports of a class, beside its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelQueueReading {
    /// A link of the class.
    pub link: LinkRef,
    /// The level, 0 the most urgent.
    pub level: usize,
    /// The largest queue at one of its ports, bytes.
    pub backlog: u64,
    /// Its bound, bytes.
    pub bound: u64,
}

/// The measured delays of a level's frames, from their release by a regulator to their arrival, and its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelReading {
    /// Frames that arrived.
    pub frames: u64,
    /// The median of their delays.
    pub median: SimTime,
    /// The 99th percentile.
    pub p99: SimTime,
    /// The longest.
    pub worst: SimTime,
    /// The bound of delays; [`SimTime::NEVER`] for an unbounded level.
    pub bound: SimTime,
    /// Frames that arrived after their bound.
    pub late: u64,
    /// The largest queue at a switch's port, bytes.
    pub backlog: u64,
    /// Frames that found a queue above its bound.
    pub overfull: u64,
    /// The longest wait at a regulator.
    pub longest_wait: SimTime,
    /// Frames that a regulator dropped.
    pub dropped: u64,
    /// Frames larger than P.
    pub oversize: u64,
}

/// The frames of a level at a host that wait for their departure.
#[derive(Debug)]
struct LevelQueue {
    regulator: LevelRegulator,
    /// Bytes of a frame on the wire beside the frame.
    framing: u64,
    waiting: List,
    /// Of the waiting frames, in order.
    departures: VecDeque<Instant>,
    release: Timer,
}

/// Levels at all hosts.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// The number of levels; 0 without any.
    count: usize,
    parts: Option<LevelParts>,
    /// By host and service: the level of its frames, or [`NONE`].
    of_service: Vec<u8>,
    /// By host and level; `None` for a level on which the host sends nothing.
    queues: Vec<Option<LevelQueue>>,
    disobedient: Vec<bool>,
    /// By packet: its release by a regulator; [`SimTime::NEVER`] for others.
    released: Vec<SimTime>,
    readings: Vec<LevelReading>,
    /// By level.
    delays: Vec<Delays>,
    bounds: LevelBounds,
    /// By port and level: the largest queue, bytes.
    peaks: Vec<u64>,
}

/// Parts of a doubling that delays are counted by: 32 parts differ by at most 3 %.
const PARTS: u64 = 32;

/// Delays by size, as HdrHistogram counts them: exact below [`PARTS`] nanoseconds, and in [`PARTS`] parts of each
/// doubling above.
#[derive(Debug, Default)]
struct Delays {
    counts: Vec<u64>,
}

impl Delays {
    fn add(&mut self, delay: SimTime) {
        let nanos = delay.picos() / 1_000;
        let doublings = u64::from((nanos / PARTS).checked_ilog2().map_or(0, |log| log + 1));
        let index = (doublings * PARTS + (nanos >> doublings.saturating_sub(1)) % PARTS) as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// The smallest delay that so many hundredths of all do not exceed, at most 3 % too large.
    fn percentile(&self, hundredths: u64) -> SimTime {
        let rank = (self.counts.iter().sum::<u64>() * hundredths).div_ceil(100);
        let mut below = 0;
        let index = self.counts.iter().position(|count| {
            below += count;
            below >= rank.max(1)
        });
        let (doublings, part) = index.map_or((0, 0), |index| (index as u64 / PARTS, index as u64 % PARTS));
        let nanos = match doublings {
            0 => part,
            _ => ((PARTS + part + 1) << (doublings - 1)) - 1,
        };
        SimTime::from_picos(nanos * 1_000)
    }
}

impl Levels {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.count > 0
    }

    /// Checks that the bounds hold, if hosts and ports enforce them.
    ///
    /// # Panics
    /// If a frame of a bounded level was late, or a queue was above its bound.
    pub(crate) fn check(&self) {
        let all = LevelParts { regulators: true, priorities: true };
        if self.parts != Some(all) || self.disobedient.contains(&true) {
            return;
        }
        for (number, reading) in (1..).zip(&self.readings) {
            let LevelReading { late, worst, bound, overfull, .. } = reading;
            assert!(*late == 0, "{late} frames of level {number} are late: {worst}, beyond the bound of {bound}");
            assert!(*overfull == 0, "{overfull} frames of level {number} found a queue above its bound");
        }
    }

    fn set_release(&mut self, id: PacketId, at: SimTime) {
        let index = id.0 as usize;
        if self.released.len() <= index {
            self.released.resize(index + 1, SimTime::NEVER);
        }
        self.released[index] = at;
    }

    /// A packet has arrived.
    /// Whether a priority class is that of a level.
    #[inline]
    pub(crate) fn has(&self, priority: u8) -> bool {
        usize::from(priority) < self.count
    }

    pub(crate) fn delivered(&mut self, now: SimTime, id: PacketId, priority: u8) {
        let Some(released) = self.released.get_mut(id.0 as usize) else { return };
        let at = std::mem::replace(released, SimTime::NEVER);
        let level = usize::from(priority);
        if at == SimTime::NEVER || level >= self.count {
            return;
        }
        let (delay, reading) = (now - at, &mut self.readings[level]);
        reading.frames += 1;
        self.delays[level].add(delay);
        reading.worst = reading.worst.max(delay);
        reading.late += u64::from(delay > reading.bound);
    }

    /// A packet is gone without having arrived.
    pub(crate) fn lost(&mut self, id: PacketId) {
        if let Some(released) = self.released.get_mut(id.0 as usize) {
            *released = SimTime::NEVER;
        }
    }

    /// A frame joined `bytes` of its class at a switch's port, itself included.
    #[inline]
    pub(crate) fn joined(&mut self, port: PortId, priority: u8, bytes: u64) {
        let level = usize::from(priority);
        if level < self.count {
            let at = port.index() * self.count + level;
            let bound = self.bounds.backlogs.get(at).copied().unwrap_or(u64::MAX);
            self.peaks[at] = self.peaks[at].max(bytes);
            let reading = &mut self.readings[level];
            reading.backlog = reading.backlog.max(bytes);
            reading.overfull += u64::from(bytes > bound);
        }
    }
}

impl<O: Observer> World<O> {
    /// Puts latency levels in force: `plans` by host, leaves in the order of service indices. `disobedient` hosts
    /// have no agent. Call it before the first event.
    pub(crate) fn set_levels(
        &mut self,
        plans: &[Arc<MachinePlan>],
        parts: LevelParts,
        disobedient: &[HostId],
        bounds: LevelBounds,
    ) {
        let count = plans.first().map_or(0, |plan| plan.levels.len());
        if count == 0 {
            return;
        }
        let levels = &mut self.levels;
        levels.count = count;
        levels.parts = Some(parts);
        levels.of_service = vec![NONE; self.hosts.len() * self.service_count];
        levels.disobedient = vec![false; self.hosts.len()];
        disobedient.iter().for_each(|host| levels.disobedient[host.index()] = true);
        let bound = |level| bounds.paths.get(level).copied().unwrap_or(SimTime::NEVER);
        levels.readings = (0..count).map(|level| LevelReading { bound: bound(level), ..Default::default() }).collect();
        levels.delays = (0..count).map(|_| Delays::default()).collect();
        levels.bounds = bounds;
        levels.peaks = vec![0; self.ports.len() * count];
        levels.queues.clear();
        for (host, plan) in plans.iter().enumerate() {
            for (index, leaf) in plan.leaves.iter().enumerate() {
                let level = leaf.level.map_or(NONE, |level| level.index() as u8);
                levels.of_service[host * self.service_count + index] = level;
            }
            let queue = |limits: &weir_shaping::LevelLimits| LevelQueue {
                regulator: LevelRegulator::new(limits, LEVEL_QUEUE),
                framing: limits.framing.get(),
                waiting: List::default(),
                departures: VecDeque::new(),
                release: Timer::default(),
            };
            levels.queues.extend(plan.levels.iter().map(|limits| limits.as_ref().map(queue)));
            // Packets of the host no longer go straight to the interface.
            self.hosts[host].limited += 1;
        }
        if parts.priorities {
            for host in &self.hosts {
                self.queues[host.queue as usize].serve_first(count as u8);
            }
        }
    }

    /// The measured worst case of each level, the most urgent first.
    pub fn level_readings(&self) -> Vec<LevelReading> {
        let mut readings = self.levels.readings.clone();
        for (reading, delays) in readings.iter_mut().zip(&self.levels.delays) {
            reading.median = delays.percentile(50).min(reading.worst);
            reading.p99 = delays.percentile(99).min(reading.worst);
        }
        for (index, queue) in self.levels.queues.iter().enumerate() {
            let Some(queue) = queue else { continue };
            let (reading, raw) = (&mut readings[index % self.levels.count], queue.regulator.raw());
            reading.longest_wait = reading.longest_wait.max(Instant::from_nanos(raw.longest_wait).into());
            reading.dropped += raw.dropped;
            reading.oversize += raw.oversize;
        }
        readings
    }

    /// The largest queue of each level at each class of switches' ports that its frames reached, in the order of
    /// classes; none without bounds.
    pub fn level_queues(&self) -> Vec<LevelQueueReading> {
        let Levels { count, bounds, peaks, .. } = &self.levels;
        let mut largest: Vec<Option<LevelQueueReading>> = vec![None; bounds.classes.len() * count];
        for (port, class) in bounds.class_of.iter().enumerate() {
            let Some(class) = *class else { continue };
            for level in 0..*count {
                let (backlog, bound) = (peaks[port * count + level], bounds.backlogs[port * count + level]);
                let slot = &mut largest[class * count + level];
                if backlog > slot.map_or(0, |known| known.backlog) && bound != u64::MAX {
                    *slot = Some(LevelQueueReading { link: bounds.classes[class], level, backlog, bound });
                }
            }
        }
        largest.into_iter().flatten().collect()
    }

    /// A new packet without a level, which passes no queue of [`World::enter_level`].
    pub(crate) fn leave_levels(&mut self, id: PacketId) {
        if !self.levels.is_on() {
            return;
        }
        self.levels.set_release(id, SimTime::NEVER);
        if self.levels.parts.is_some_and(|parts| parts.priorities) {
            self.packets.get_mut(id).priority = OTHERS;
        }
    }

    /// A new packet of a host with levels: to its level's regulator, or to its service's limiters.
    pub(crate) fn enter_level(&mut self, host: HostId, id: PacketId) {
        let service = self.packets.get(id).service;
        let levels = &mut self.levels;
        levels.set_release(id, SimTime::NEVER);
        if levels.disobedient[host.index()] {
            return self.beside_levels(host, id);
        }
        let level = levels.of_service[host.index() * self.service_count + service.index()];
        let Some(LevelParts { regulators, priorities }) = levels.parts else { return };
        if priorities {
            self.packets.get_mut(id).priority = level.min(OTHERS);
        }
        if level == NONE {
            return self.beside_levels(host, id);
        }
        if regulators {
            return self.regulate(host, level, id);
        }
        self.levels.set_release(id, self.now);
        self.enter_interface(host, id);
    }

    /// A packet without a level.
    fn beside_levels(&mut self, host: HostId, id: PacketId) {
        if self.pairs.is_on() {
            self.enter_pair(host, id);
        } else if self.shaping.on {
            self.shape(host, id);
        } else {
            self.enter_service(host, id);
        }
    }

    /// Offers a packet to the regulator of its level.
    fn regulate(&mut self, host: HostId, level: u8, id: PacketId) {
        let now = self.now.instant();
        let size = self.packets.get(id).size;
        let at = host.index() * self.levels.count + usize::from(level);
        let queue = self.levels.queues[at].as_mut().expect("a host with a service on a level has its regulator");
        let Some(departure) = queue.regulator.departure(now, size, 1) else {
            let port = self.hosts[host.index()].interface;
            self.leave_host(id);
            return self.drop(port, id, false);
        };
        if departure <= now && queue.waiting.is_empty() {
            self.datapath.count_ahead(host.index(), now, u64::from(size) + queue.framing);
            self.levels.set_release(id, self.now);
            self.enter_interface(host, id);
            return;
        }
        let first = queue.waiting.is_empty();
        queue.waiting.push(&mut self.packets, id);
        queue.departures.push_back(departure);
        if first && let Some(at) = queue.release.set(departure.into()) {
            self.events.push(at, Event::Release(host, self.level_index(level)));
        }
    }

    /// Events of levels have the service indices after all services'.
    fn level_index(&self, level: u8) -> ServiceIndex {
        ServiceIndex((self.service_count + usize::from(level)) as u16)
    }

    /// The event of a level's timer: `index` is beyond the services'.
    #[cold]
    pub(crate) fn level_due(&mut self, host: HostId, index: ServiceIndex) {
        let level = index.index() - self.service_count;
        let at = host.index() * self.levels.count + level;
        let Some(queue) = self.levels.queues[at].as_mut() else { return };
        match queue.release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(time) => self.events.push(time, Event::Release(host, index)),
            Fired::Due => self.release_level(host, index, at),
        }
    }

    fn release_level(&mut self, host: HostId, index: ServiceIndex, at: usize) {
        let now = self.now.instant();
        loop {
            let Some(queue) = self.levels.queues[at].as_mut() else { return };
            let Some(&departure) = queue.departures.front() else { return queue.release.cancel() };
            if departure > now {
                if let Some(time) = queue.release.set(departure.into()) {
                    self.events.push(time, Event::Release(host, index));
                }
                return;
            }
            queue.departures.pop_front();
            let Some(id) = pop(&mut queue.waiting, &mut self.packets) else { return };
            let bytes = u64::from(self.packets.get(id).size) + queue.framing;
            self.datapath.count_ahead(host.index(), now, bytes);
            self.levels.set_release(id, self.now);
            if self.enter_interface(host, id) {
                self.resume(id);
            }
        }
    }
}

fn pop(list: &mut List, packets: &mut Arena) -> Option<PacketId> {
    let id = list.pop(packets);
    debug_assert!(id.is_some(), "a departure without its packet");
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_a_part_too_large() {
        let mut delays = Delays::default();
        for nanos in 1..=100_000u64 {
            delays.add(SimTime::from_picos(nanos * 1_000));
        }
        for (hundredths, exact) in [(1, 1_000), (50, 50_000), (99, 99_000), (100, 100_000)] {
            let nanos = delays.percentile(hundredths).picos() / 1_000;
            assert!((exact..=exact + exact / 31).contains(&nanos), "{hundredths}: {nanos}");
        }
        let mut few = Delays::default();
        for nanos in [3, 31] {
            few.add(SimTime::from_picos(nanos * 1_000));
        }
        assert_eq!((few.percentile(50).picos(), few.percentile(100).picos()), (3_000, 31_000));
        assert_eq!(Delays::default().percentile(99), SimTime::ZERO);
    }
}
