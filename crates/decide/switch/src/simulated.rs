//! The simulator's ports: a port's configuration as the queue in front of a link, and back.
//!
//! The simulator has a discipline for each link and eight classes, class 0 first. Queue q of n is class n − 1 − q, so
//! the most urgent strict queue is class 0. A packet of the simulator has a class instead of a DSCP value: [`class`]
//! is the class of a value under a map.
//!
//! | port | discipline |
//! |---|---|
//! | one queue | first in, first out |
//! | strict queues | strict priority |
//! | weighted queues | deficit round robin, a frame for each unit of weight and round |
//!
//! Both thresholds and buffers are one value for all queues: a class marks by its own bytes, and the port's buffer is
//! shared by push-out. The simulator has no discipline with strict and weighted queues, and no pFabric port can be
//! expressed as a [`PortState`]: both are refused.
//!
//! Worked example: 3 strict queues with a threshold of 80 kB are `StrictPriority` with `mark` 80 kB; DSCP 46 in queue 2
//! is class 0.

use crate::capabilities::{Capabilities, Map, RateSetting, Setting};
use crate::change::Step;
use crate::driver::{Driver, WriteError};
use crate::port::{DscpMap, DscpSet, PortState, QueueConfig, Schedule, SwitchState};
use crate::ports::{SwitchPort, ports_of};
use std::collections::BTreeMap;
use weir_network::Graph;
use weir_network::graph::{Discipline, LinkRef, LinkSpec, PRIORITIES, QueueSpec};
use weir_units::Bytes;

/// Bytes per weight and round: a full Ethernet frame, so that each queue sends in every round.
const QUANTUM: u32 = 1_514;
/// A buffer that no simulated queue fills: 1 TB.
const BUFFER_MAX: Bytes = Bytes::new(1_000_000_000_000);

/// A port that the simulator cannot have, or a configuration that it cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulatedError {
    /// The switch has no such port.
    #[error("no such port")]
    NoPort,
    /// pFabric is no configuration of queues.
    #[error("its discipline is pFabric, which has no queues")]
    PFabric,
    /// A weight above 65,535.
    #[error("weight {0}; at most 65535 here")]
    Weight(u32),
    /// No queue, or no rate: between two steps alone.
    #[error("a simulated port has a rate and a queue at any time")]
    Incomplete,
    /// Strict beside weighted queues.
    #[error("the simulator has no port with strict and weighted queues")]
    Mixed,
}

/// The class of a DSCP value at a port with `queues` queues.
pub fn class(map: DscpMap, queues: usize, dscp: u8) -> u8 {
    (queues as u8).saturating_sub(1).saturating_sub(map.queue(dscp))
}

/// The queue in front of a link that behaves as a port's queues do.
pub fn to_queue(state: &PortState) -> Result<QueueSpec, SimulatedError> {
    let queues: Vec<QueueConfig> = state.queues.values().copied().collect();
    let (Some(first), Some(_)) = (queues.first(), state.rate) else { return Err(SimulatedError::Incomplete) };
    let strict = queues.iter().filter(|queue| queue.schedule.is_strict()).count();
    let discipline = match queues.len() {
        1 => Discipline::Fifo,
        all if strict == all => Discipline::StrictPriority,
        all if strict == 0 => {
            let mut weights = [1; PRIORITIES];
            for (number, queue) in queues.iter().enumerate() {
                if let Schedule::Weighted(weight) = queue.schedule {
                    weights[all - 1 - number] = u32::from(weight);
                }
            }
            Discipline::DeficitRoundRobin { weights, quantum: QUANTUM }
        }
        _ => return Err(SimulatedError::Mixed),
    };
    let default = QueueSpec::default();
    Ok(QueueSpec { discipline, buffer: first.buffer.unwrap_or(default.buffer), mark: first.mark })
}

/// The configuration of a link's queue, with all eight classes where the discipline distinguishes them. The map is in
/// no [`QueueSpec`].
pub fn from_link(link: &LinkSpec) -> Result<PortState, SimulatedError> {
    let queue = |schedule| QueueConfig { schedule, mark: link.queue.mark, buffer: Some(link.queue.buffer) };
    let schedules: Vec<Schedule> = match link.queue.discipline {
        Discipline::Fifo => vec![Schedule::Weighted(1)],
        Discipline::StrictPriority => vec![Schedule::Strict; PRIORITIES],
        Discipline::DeficitRoundRobin { weights, .. } => {
            let schedule =
                |&weight| u16::try_from(weight).map(Schedule::Weighted).map_err(|_| SimulatedError::Weight(weight));
            weights.iter().rev().map(schedule).collect::<Result<_, _>>()?
        }
        Discipline::PFabric => return Err(SimulatedError::PFabric),
    };
    let queues = (0..).zip(schedules.into_iter().map(queue)).collect();
    Ok(PortState { rate: Some(link.rate), queues, map: None, remark: DscpSet::default() })
}

/// A switch of a graph, before a run.
#[derive(Debug)]
pub struct SimulatedSwitch<'a> {
    graph: &'a mut Graph,
    name: String,
    ports: Vec<SwitchPort>,
    /// The configurations that were written, which a graph does not have in full.
    written: SwitchState,
    /// The links before the first write, for ports whose configuration is removed.
    original: BTreeMap<String, LinkSpec>,
}

impl<'a> SimulatedSwitch<'a> {
    /// The switch with this index.
    ///
    /// # Panics
    /// If the graph has no such switch.
    pub fn new(graph: &'a mut Graph, switch: usize) -> Self {
        let (name, ports) = (graph.switches[switch].clone(), ports_of(graph, switch));
        Self { graph, name, ports, written: SwitchState::new(), original: BTreeMap::new() }
    }

    fn link(&self, port: &str) -> Result<LinkRef, SimulatedError> {
        let port = self.ports.iter().find(|own| own.name() == port).ok_or(SimulatedError::NoPort)?;
        Ok(port.link)
    }

    fn write_step(&mut self, step: &Step) -> Result<(), SimulatedError> {
        let mut state = self.read(&step.port)?;
        let link = link_mut(self.graph, self.link(&step.port)?);
        let original = *self.original.entry(step.port.clone()).or_insert(*link);
        step.change.apply(&mut state);
        match (to_queue(&state), state.rate) {
            (Ok(queue), Some(rate)) => (link.queue, link.rate) = (queue, rate),
            _ if state.is_default() => *link = original,
            // Between two steps a port may have a combination that no discipline has; the link keeps the last one.
            _ => {}
        }
        self.written.insert(step.port.clone(), state);
        Ok(())
    }
}

fn link_mut(graph: &mut Graph, link: LinkRef) -> &mut LinkSpec {
    match link {
        LinkRef::Up(host) => &mut graph.hosts[host.index()].up,
        LinkRef::Down(host) => &mut graph.hosts[host.index()].down,
        LinkRef::Forward(cable) => &mut graph.cables[cable].a_to_b,
        LinkRef::Backward(cable) => &mut graph.cables[cable].b_to_a,
    }
}

impl Driver for SimulatedSwitch<'_> {
    type Error = SimulatedError;

    fn switch(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: PRIORITIES as u8,
            strict: true,
            weighted: true,
            mixed: false,
            weights: 1..=u16::MAX,
            marks: Setting::Uniform,
            buffers: Setting::Uniform,
            buffer_max: BUFFER_MAX,
            rate: RateSetting::Required,
            remarks: false,
            maps: Map::PerPort,
        }
    }

    fn read(&mut self, port: &str) -> Result<PortState, SimulatedError> {
        let link = self.graph.link(self.link(port)?);
        let is_in_force = |state: &&PortState| match to_queue(state) {
            Ok(queue) => queue == link.queue && state.rate == Some(link.rate),
            Err(_) => true,
        };
        self.written.get(port).filter(is_in_force).cloned().map_or_else(|| from_link(link), Ok)
    }

    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<SimulatedError>> {
        for (step, wanted) in steps.iter().enumerate() {
            self.write_step(wanted).map_err(|error| WriteError { step, error })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{ApplyError, apply, remove};
    use crate::request::{Group, Needs, Request};
    use weir_network::graph::{Packets, Routing};
    use weir_network::switches::{Offer, Scheduler};
    use weir_network::topology::{Common, Star};
    use weir_units::{Bandwidth, Duration};

    const RATE: Bandwidth = Bandwidth::from_gbps(10);
    const EIGHT: Offer = Offer { queues: 8, scheduler: Scheduler::Strict };

    fn star() -> Graph {
        let host_link = LinkSpec { rate: RATE, delay: Duration::ZERO, queue: QueueSpec::default() };
        let packets = Packets { payload: 1448, headers: 66 };
        let common = Common { routing: Routing::Ecmp, packets, shared_buffer: None, jitter: Duration::ZERO };
        Star { hosts: 3, host_link }.build(common)
    }

    fn request(needs: Needs) -> Request {
        needs.of_port(Some(RATE), Some(Bytes::new(300_000)))
    }

    fn needs() -> Needs {
        Needs::marks(Bytes::new(80_000))
    }

    #[test]
    fn strict_queues_become_classes_and_the_highest_is_class_0() {
        let mut graph = star();
        let mut switch = SimulatedSwitch::new(&mut graph, 0);
        let wanted = request(Needs { levels: vec![vec![46], vec![34]], ..needs() }).lower(EIGHT).expect("valid");
        let desired = BTreeMap::from([("h1".to_owned(), wanted.clone())]);
        assert!(!apply(&mut switch, &desired).expect("applied").is_empty());
        assert_eq!(switch.read("h1").as_ref(), Ok(wanted.state()));
        assert_eq!(apply(&mut switch, &desired).expect("applied"), [], "nothing is left to do");
        assert_eq!([46, 34, 48, 0].map(|dscp| class(wanted.map(), 4, dscp)), [0, 1, 2, 3]);
        let queue = graph.hosts[1].down.queue;
        assert_eq!(queue.discipline, Discipline::StrictPriority);
        assert_eq!((queue.buffer, queue.mark), (Bytes::new(300_000), Some(Bytes::new(80_000))));
        assert_eq!(graph.hosts[0], star().hosts[0], "other ports stay");
    }

    #[test]
    fn weights_become_a_round_robin_and_go_again() {
        let mut graph = star();
        let mut switch = SimulatedSwitch::new(&mut graph, 0);
        let groups = vec![Group { dscps: vec![10], weight: 3 }, Group { dscps: vec![12], weight: 7 }];
        let offer = Offer { queues: 8, scheduler: Scheduler::Weighted };
        let wanted = request(Needs { groups, ..needs() }).lower(offer).expect("valid");
        apply(&mut switch, &BTreeMap::from([("h2".to_owned(), wanted)])).expect("applied");
        let weights = [7, 3, 1, 1, 1, 1, 1, 1];
        let of = |graph: &Graph| graph.hosts[2].down.queue.discipline;
        assert_eq!(of(switch.graph), Discipline::DeficitRoundRobin { weights, quantum: QUANTUM });
        remove(&mut switch, &["h2".to_owned()]).expect("removed");
        assert_eq!(graph.hosts[2], star().hosts[2]);
    }

    #[test]
    fn combinations_without_a_discipline_are_refused() {
        let mut graph = star();
        let mut switch = SimulatedSwitch::new(&mut graph, 0);
        let offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };
        let mixed = request(Needs { levels: vec![vec![46]], ..needs() }).lower(offer).expect("valid");
        let refused = apply(&mut switch, &BTreeMap::from([("h0".to_owned(), mixed)])).expect_err("refused");
        assert!(matches!(&refused, ApplyError::Refused(_)), "{refused}");
        let text = "switch switch, port h0, queues: 2 strict beside 1 weighted; these ports have one kind at a time";
        assert_eq!(refused.to_string(), text);
        graph.hosts[0].down.queue.discipline = Discipline::PFabric;
        let mut switch = SimulatedSwitch::new(&mut graph, 0);
        assert_eq!(switch.read("h0"), Err(SimulatedError::PFabric));
        assert_eq!(switch.read("h9"), Err(SimulatedError::NoPort));
    }

    #[test]
    fn queues_of_links_survive_the_way_through_a_port() {
        let weights = [8, 7, 6, 5, 4, 3, 2, 1];
        for discipline in
            [Discipline::Fifo, Discipline::StrictPriority, Discipline::DeficitRoundRobin { weights, quantum: QUANTUM }]
        {
            let queue = QueueSpec { discipline, buffer: Bytes::new(99_000), mark: Some(Bytes::new(30_000)) };
            let link = LinkSpec { rate: RATE, delay: Duration::ZERO, queue };
            assert_eq!(from_link(&link).and_then(|state| to_queue(&state)), Ok(queue));
        }
    }
}
