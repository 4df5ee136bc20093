//! Traffic in a world: workloads start flows, completed flows become records.
//!
//! Problem: workloads do not depend on the network and the world does not depend on workloads, yet
//! a closed loop must react to the end of a flow at once. Approach: [`Sources`] connects them. It
//! starts the due flows, and when the world stops because a flow is over, it takes the flow's
//! record, notifies its workload, and frees the flow's slot; so a run of a million flows needs
//! memory only for those under way.
//!
//! Where a source has `connections`, its flows are messages that share them
//! ([`crate::connections`]).
//!
//! A flow's path under ECMP is decided by its hash, drawn from the seed, the group and the flow's
//! number: it does not depend on other events of the run.
//!
//! Worked example: a barrier's last flow is over at 3 ms; the workload is notified and starts the
//! next round at 3 ms.

use crate::connections::{Connection, Pool};
use crate::flow::FlowSpec;
use crate::headers::{Headers, Unclassified};
use crate::ids::{FlowId, HostId, ServiceIndex};
use crate::observer::Observer;
use crate::quotas::FlowQuota;
use crate::routes::mix;
use crate::world::World;
use std::collections::BTreeSet;
use weir_network::graph::Packets;
use weir_policy::Protocol;
use weir_results::{FlowRecord, GroupSample};
use weir_scenario::FlowQuotas;
use weir_transport::Parameters;
use weir_units::{Bytes, ServiceId, SimTime};
use weir_workload::{FlowStart, Spec, UNTIL_STOPPED, Workload};

/// Separates the draw of a flow's start from the draw of its path.
const SPREAD_SALT: u32 = 0x5EED;

/// Flows of one kind: a workload and what its flows have in common.
#[derive(Debug, Clone)]
pub struct Source {
    /// The workload: the starts of flows.
    pub workload: Spec,
    /// The transport.
    pub transport: Parameters,
    /// The index of the service that they belong to.
    pub index: ServiceIndex,
    /// The priority class of their packets at queues that distinguish classes.
    pub priority: u8,
    /// Flows start up to this much later than the workload's time, evenly at random.
    pub spread: SimTime,
    /// The service, for packets whose headers a policy classifies.
    pub service: Option<ServiceId>,
    /// The number of connections between two hosts that carry its flows, one after the other;
    /// `None` for a connection of its own for each flow. With connections, flows have a size, and
    /// the transport is a stream; `spread` does not apply.
    pub connections: Option<u32>,
    /// The services of small flows, ascending by the largest size.
    pub by_size: Vec<SizeClass>,
    /// The quotas of flows, which also give them their priority class.
    pub quotas: Option<FlowQuotas>,
}

/// The service of a source's flows up to a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeClass {
    /// The largest flow, bytes.
    pub largest: u64,
    /// The index of the service.
    pub index: ServiceIndex,
    /// The service, for packets whose headers a policy classifies.
    pub service: Option<ServiceId>,
}

impl Source {
    /// The protocol of its flows' headers.
    fn protocol(&self) -> Protocol {
        match self.transport {
            Parameters::Udp(_) => Protocol::UDP,
            _ => Protocol::TCP,
        }
    }

    /// The service of a flow of this size.
    fn service_of(&self, bytes: u64) -> (ServiceIndex, Option<ServiceId>) {
        let small = self.by_size.iter().find(|class| bytes <= class.largest);
        small.map_or((self.index, self.service), |class| (class.index, class.service))
    }

    /// The quota of a flow and its priority class, if flows have quotas: the smallest that holds all of its frames.
    fn quota_of(&self, bytes: u64, start: SimTime, sizes: Packets) -> Option<(FlowQuota, u8)> {
        let quotas = self.quotas.as_ref()?;
        let frames = bytes.div_ceil(u64::from(sizes.payload)).saturating_mul(u64::from(sizes.headers));
        let class = quotas.class_of(Bytes::new(bytes.saturating_add(frames)));
        Some((FlowQuota::new(quotas.sizes[class].get(), quotas.epoch.into(), start), class as u8))
    }
}

/// The data about a flow besides the world's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) id: u64,
    pub(crate) group: u32,
    pub(crate) tag: u64,
    pub(crate) start: SimTime,
    pub(crate) ideal: SimTime,
    /// The delivered bytes at the last sample.
    pub(crate) sampled: u64,
}

/// The owner of a slot in the world.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// A flow that is not of these sources.
    Free,
    /// A flow's.
    Flow(Known),
    /// That of a connection, by its number.
    Connection(u32),
}

/// A group of flows under way.
#[derive(Debug)]
struct Group {
    source: Source,
    workload: Workload,
    /// When its next flow is due.
    next: Option<SimTime>,
    active: u32,
    /// The connections that its flows share.
    pool: Option<Pool>,
    /// For the flows that are over since the last sample: their number, and the bytes delivered
    /// since and their squares.
    ended: Interval,
}

/// The activity of a group's flows since the last sample.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    flows: u32,
    delivered: u64,
    squares: u128,
}

impl Interval {
    fn add(&mut self, bytes: u64) {
        self.flows += 1;
        self.delivered += bytes;
        self.squares += u128::from(bytes) * u128::from(bytes);
    }
}

/// The traffic of a run. Call [`Sources::next`] for when to call [`Sources::start_due`], and
/// [`Sources::on_over`] for each flow that is over.
#[derive(Debug)]
pub struct Sources {
    groups: Vec<Group>,
    due: BTreeSet<(SimTime, u32)>,
    /// By the flow's slot in the world.
    known: Vec<Slot>,
    connections: Vec<Connection>,
    /// Headers for flows of services, under a policy.
    headers: Option<Headers>,
    seed: u64,
    started: u64,
    over: u64,
}

impl Sources {
    /// Traffic of these sources; each workload has a seed of its own, made from `seed` and its
    /// index. `headers` gives the flows of services their headers.
    pub fn new(sources: Vec<Source>, seed: u64, headers: Option<Headers>) -> Self {
        let mut groups = Vec::new();
        let mut due = BTreeSet::new();
        for (index, source) in (0u32..).zip(sources) {
            let workload = Workload::new(&source.workload, seed ^ u64::from(mix(index + 1)) << 32);
            let next = workload.next();
            due.extend(next.map(|at| (at, index)));
            let pool = source.connections.map(Pool::new);
            groups.push(Group { source, workload, next, active: 0, pool, ended: Interval::default() });
        }
        Self { groups, due, known: Vec::new(), connections: Vec::new(), headers, seed, started: 0, over: 0 }
    }

    /// When the next flow is due.
    pub fn next(&self) -> Option<SimTime> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Starts the flows that are due.
    ///
    /// # Errors
    /// If the policy's filters take no packet of a flow for its service.
    pub fn start_due<O: Observer>(&mut self, world: &mut World<O>) -> Result<(), Unclassified> {
        let now = world.now();
        while let Some(&(at, index)) = self.due.first()
            && at <= now
        {
            while let Some(start) = self.groups[index as usize].workload.poll(now) {
                self.start(index, &start, world)?;
            }
            self.reschedule(index);
            if self.due.first() == Some(&(at, index)) {
                // A workload that does not advance would stop time.
                debug_assert!(false, "a workload is due at {at} and starts nothing");
                self.due.remove(&(at, index));
            }
        }
        Ok(())
    }

    fn start<O: Observer>(
        &mut self,
        group_index: u32,
        start: &FlowStart,
        world: &mut World<O>,
    ) -> Result<(), Unclassified> {
        let group = &mut self.groups[group_index as usize];
        let id = self.started;
        self.started += 1;
        group.active += 1;
        let (from, to) = (HostId(start.from.0), HostId(start.to.0));
        if let Some(pool) = &mut group.pool
            && let Some(index) = pool.choose(from.0, to.0, &self.connections)
        {
            let flow = self.connections[index as usize].flow;
            let ideal = world.ideal(from, to, world.flow(flow).spec().hash, start.bytes);
            let known = Known { id, group: group_index, tag: start.tag, start: world.now(), ideal, sampled: 0 };
            self.message(index, known, start, world);
            return Ok(());
        }
        let seed = mix(self.seed as u32) ^ mix((self.seed >> 32) as u32 ^ 1) ^ mix(group_index);
        let drawn = mix(mix(seed ^ id as u32) ^ (id >> 32) as u32);
        let (index, service) = group.source.service_of(start.bytes);
        let hash = match (&self.headers, service) {
            (Some(headers), Some(service)) => {
                headers.hash(service, (start.from, start.to), group.source.protocol(), drawn)?
            }
            _ => drawn,
        };
        // Another number from the same draw: the path is independent of the start.
        let late = (u128::from(mix(drawn ^ SPREAD_SALT)) * u128::from(group.source.spread.picos())) >> 32;
        let shared = group.pool.is_some();
        debug_assert!(
            !shared || (start.bytes != UNTIL_STOPPED && start.stop == SimTime::NEVER),
            "a message has a size"
        );
        let late = if shared { 0 } else { late };
        let at = start.at.max(world.now()) + SimTime::from_picos(late as u64);
        let size = (start.bytes != UNTIL_STOPPED).then_some(start.bytes);
        let quota = group.source.quota_of(start.bytes, at, world.sizes);
        let spec = FlowSpec {
            from,
            to,
            service: index,
            priority: quota.map_or(group.source.priority, |(_, class)| class),
            start: at,
            stop: start.stop,
            size,
            deadline: start.deadline,
            hash,
        };
        let flow = world.add_flow(spec, &group.source.transport);
        if let Some((quota, _)) = quota {
            world.set_quota(flow, quota);
        }
        let ideal = size.map_or(SimTime::ZERO, |bytes| world.ideal(from, to, hash, bytes));
        if self.known.len() <= flow.index() {
            self.known.resize(flow.index() + 1, Slot::Free);
        }
        let known = Known { id, group: group_index, tag: start.tag, start: at, ideal, sampled: 0 };
        self.known[flow.index()] = match shared {
            false => Slot::Flow(known),
            true => {
                let mut connection = Connection::new(flow);
                connection.push(known, start.bytes, start.deadline);
                self.connections.push(connection);
                Slot::Connection(self.connections.len() as u32 - 1)
            }
        };
        Ok(())
    }

    /// Passes a message to a connection.
    fn message<O: Observer>(&mut self, index: u32, known: Known, start: &FlowStart, world: &mut World<O>) {
        let connection = &mut self.connections[index as usize];
        let end = connection.push(known, start.bytes, start.deadline);
        if connection.messages.len() == 1 {
            world.expect(connection.flow, end);
        }
        world.write(connection.flow, start.bytes);
    }

    fn reschedule(&mut self, index: u32) {
        let group = &mut self.groups[index as usize];
        let next = group.workload.next();
        if next != group.next {
            if let Some(before) = group.next {
                self.due.remove(&(before, index));
            }
            self.due.extend(next.map(|at| (at, index)));
            group.next = next;
        }
    }

    /// A flow is over: returns its record, notifies its workload, and frees its slot. `None` if it
    /// is not of these sources.
    pub fn on_over<O: Observer>(&mut self, id: FlowId, world: &mut World<O>) -> Option<FlowRecord> {
        let (record, known) = match self.known.get_mut(id.index())? {
            Slot::Free => return None,
            Slot::Connection(index) => {
                let index = *index;
                self.on_message_over(index, world)?
            }
            slot @ Slot::Flow(_) => {
                let Slot::Flow(known) = std::mem::replace(slot, Slot::Free) else { return None };
                let record = self.record(id, &known, world);
                world.release(id);
                (record, known)
            }
        };
        self.over += 1;
        let group = &mut self.groups[known.group as usize];
        group.active -= 1;
        group.ended.add(record.delivered - known.sampled);
        group.workload.on_finished(world.now(), known.tag);
        self.reschedule(known.group);
        Some(record)
    }

    /// The first message of a connection is over: the connection waits for the end of the next.
    fn on_message_over<O: Observer>(&mut self, index: u32, world: &mut World<O>) -> Option<(FlowRecord, Known)> {
        let id = self.connections[index as usize].flow;
        let record = self.messages(index, world).next()?;
        let connection = &mut self.connections[index as usize];
        let message = connection.messages.pop_front()?;
        connection.retransmissions += record.retransmissions;
        connection.timeouts += record.timeouts;
        let next = connection.messages.front().map(|next| next.end);
        world.acknowledge_now(id);
        if let Some(end) = next {
            world.expect(id, end);
        }
        Some((FlowRecord { finished: world.flow(id).finished(), ..record }, message.known))
    }

    /// The coflow of a flow in the numbers of its group's workload.
    fn coflow(&self, known: &Known) -> Option<weir_results::Coflow> {
        let coflow = self.groups[known.group as usize].workload.coflow(known.tag)?;
        Some(weir_results::Coflow { id: coflow.id, flows: coflow.flows })
    }

    /// The record of a flow as it is now.
    fn record<O: Observer>(&self, id: FlowId, known: &Known, world: &World<O>) -> FlowRecord {
        let flow = world.flow(id);
        let spec = flow.spec();
        let delivered = flow.delivered().get();
        FlowRecord {
            id: known.id,
            group: known.group,
            coflow: self.coflow(known),
            from: weir_units::MachineId(spec.from.0),
            to: weir_units::MachineId(spec.to.0),
            bytes: spec.size.unwrap_or(delivered),
            start: known.start,
            finished: flow.finished(),
            ideal: known.ideal,
            delivered,
            retransmissions: flow.retransmissions(),
            timeouts: flow.timeouts(),
            deadline: spec.deadline,
        }
    }

    /// The records of a connection's messages as they are now, none of them finished.
    /// Retransmissions since the last finished message count for the first.
    fn messages<O: Observer>(&self, index: u32, world: &World<O>) -> impl Iterator<Item = FlowRecord> {
        let connection = &self.connections[index as usize];
        let flow = world.flow(connection.flow);
        let (upto, mut again, mut timeouts) = (flow.delivered().get(), flow.retransmissions(), flow.timeouts());
        again -= connection.retransmissions;
        timeouts -= connection.timeouts;
        connection.messages.iter().map(move |message| FlowRecord {
            bytes: message.bytes,
            delivered: message.delivered(upto),
            deadline: message.deadline,
            retransmissions: std::mem::take(&mut again),
            timeouts: std::mem::take(&mut timeouts),
            finished: None,
            ..self.record(connection.flow, &message.known, world)
        })
    }

    /// Records of the flows that are under way.
    pub fn under_way<O: Observer>(&self, world: &World<O>) -> Vec<FlowRecord> {
        let mut records = Vec::new();
        for (id, _) in world.flows() {
            match self.known.get(id.index()) {
                Some(Slot::Flow(known)) => records.push(self.record(id, known, world)),
                Some(Slot::Connection(index)) => records.extend(self.messages(*index, world)),
                Some(Slot::Free) | None => {}
            }
        }
        records.sort_by_key(|record| record.id);
        records
    }

    /// The activity of each group's flows since the last call, as samples that end at `at`.
    pub fn sample<O: Observer>(&mut self, at: SimTime, world: &World<O>) -> Vec<GroupSample> {
        let mut intervals: Vec<Interval> =
            self.groups.iter_mut().map(|group| std::mem::take(&mut group.ended)).collect();
        for (id, flow) in world.flows() {
            let all = flow.delivered().get();
            let mut count = |known: &mut Known, delivered: u64| {
                intervals[known.group as usize].add(delivered - known.sampled);
                known.sampled = delivered;
            };
            match self.known.get_mut(id.index()) {
                Some(Slot::Flow(known)) if known.start <= at => count(known, all),
                Some(Slot::Connection(index)) => {
                    let messages = &mut self.connections[*index as usize].messages;
                    messages.iter_mut().for_each(|message| {
                        let delivered = message.delivered(all);
                        count(&mut message.known, delivered);
                    });
                }
                _ => {}
            }
        }
        let sample = |(group, interval): (u32, Interval)| GroupSample {
            at,
            group,
            delivered: interval.delivered,
            active: self.groups[group as usize].active,
            flows: interval.flows,
            squares: interval.squares,
        };
        (0..).zip(intervals).map(sample).collect()
    }

    /// Whether no more traffic will start: every workload has ended and every flow is over.
    pub fn is_done(&self) -> bool {
        self.due.is_empty() && self.started == self.over && self.groups.iter().all(|group| group.workload.is_finite())
    }

    /// Flows that have started, and flows that are over.
    pub fn progress(&self) -> (u64, u64) {
        (self.started, self.over)
    }

    /// The number of all flows, if it is known.
    pub fn expected(&self) -> Option<u64> {
        self.groups.iter().map(|group| group.workload.expected()).sum()
    }
}
