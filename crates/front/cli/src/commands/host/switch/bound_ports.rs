//! The ports of a switch whose queues the controller of the fabric broker binds to tenants.

use super::readings::Readings;
use super::{locked, refusal};
use crate::error::CommandError;
use std::collections::BTreeMap;
use weir_fabric::binding_proto::{Queue, Reading, SwitchSettings};
use weir_status::{SwitchPortStatus, SwitchQueueStatus, SwitchStatus};
use weir_switch::tenants::bound;
use weir_switch::{
    DrainLimits, FieldError, Map, PortConfig, PortState, QueueConfig, QueueReading, ReadQueues, Schedule, port_changes,
};
use weir_units::Bytes;

/// The needs of a policy at this switch's ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PortNeeds {
    /// By the port's name its interface.
    pub(super) interfaces: BTreeMap<String, String>,
    /// By interface, the policy's configuration with all tenants in the shared queue.
    pub(super) base: BTreeMap<String, PortConfig>,
    /// By interface, what bounds the drain of its queues, where their backlog is not read.
    pub(super) limits: BTreeMap<String, DrainLimits>,
}

/// The ports of this switch.
pub(super) struct Ports<D> {
    /// By the port's name its interface.
    pub(super) interfaces: BTreeMap<String, String>,
    /// By interface, the policy's configuration with all tenants in the shared queue.
    base: BTreeMap<String, PortConfig>,
    /// By interface, the configuration as it was last applied.
    in_force: BTreeMap<String, PortConfig>,
    pub(super) driver: D,
    pub(super) readings: Readings,
}

impl<D: ReadQueues> Ports<D> {
    /// The ports of a policy, before they are read.
    pub(super) fn new(driver: D, needs: &PortNeeds) -> Self {
        let PortNeeds { interfaces, base, limits } = needs.clone();
        Self { interfaces, in_force: base.clone(), base, driver, readings: Readings::new(limits) }
    }

    /// Takes the ports of another policy. Those that have its queues keep their weights and DSCP values until the
    /// controller's settings arrive; others get its configuration with all tenants in the shared queue. Returns whether
    /// there were any, or `None` if both policies need the same; after an error nothing has changed.
    pub(super) fn renew(&mut self, needs: &PortNeeds) -> Result<Option<bool>, CommandError> {
        let PortNeeds { interfaces, base, limits } = needs.clone();
        if (&interfaces, &base) == (&self.interfaces, &self.base) {
            self.readings.set_limits(limits);
            return Ok(None);
        }
        let in_force = base.iter().map(|(interface, config)| {
            let own = self.in_force.get(interface).filter(|own| has_queues(own.state(), config));
            (interface.clone(), own.unwrap_or(config).clone())
        });
        let in_force = in_force.collect();
        let before = (
            std::mem::replace(&mut self.interfaces, interfaces),
            std::mem::replace(&mut self.base, base),
            std::mem::replace(&mut self.in_force, in_force),
        );
        let begun = locked().and_then(|_lock| self.bring(false));
        match begun {
            Ok(_) => {
                self.readings.reset();
                self.readings.set_limits(limits);
            }
            Err(_) => (self.interfaces, self.base, self.in_force) = before,
        }
        begun.map(Some)
    }

    /// Brings ports without the policy's queues to its configuration, and those that have none in it to the switch's
    /// own queues with the policy's re-marking; returns whether there were any of the former.
    pub(super) fn begin(&mut self) -> Result<bool, CommandError> {
        let _lock = locked()?;
        self.bring(true)
    }

    /// The same under the lock of switches; with `adopts` the weights and DSCP values of the others are in force as
    /// they are found, otherwise those that were applied last.
    fn bring(&mut self, adopts: bool) -> Result<bool, CommandError> {
        weir_switch::apply::check(&self.driver, &self.base).map_err(refusal)?;
        let states = weir_switch::apply::read(&mut self.driver, self.base.keys()).map_err(refusal)?;
        let (bound, plain): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.base.clone().into_iter().partition(|(_, config)| config.queues().len() > 0);
        let lacks = |(interface, config): &(&String, &PortConfig)| {
            states.get(*interface).is_none_or(|state| !has_queues(state, config))
        };
        let is_fresh = bound.iter().any(|port| lacks(&port));
        let mut wanted: BTreeMap<String, PortConfig> =
            match is_fresh && self.driver.capabilities().maps == Map::PerSwitch {
                // All ports have one map.
                true => bound,
                false => {
                    bound.iter().filter(lacks).map(|(interface, config)| (interface.clone(), config.clone())).collect()
                }
            };
        // No tenant has a queue there, so a change of them is none for the controller.
        wanted.extend(plain);
        weir_switch::apply(&mut self.driver, &wanted).map_err(refusal)?;
        for (interface, config) in &mut self.in_force {
            let found = || states.get(interface).filter(|_| adopts).and_then(PortConfig::of_state);
            if let Some(own) = wanted.remove(interface).or_else(found) {
                *config = own;
            }
        }
        Ok(is_fresh)
    }

    /// Applies the controller's settings.
    pub(super) fn apply(&mut self, settings: &SwitchSettings) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for port in &settings.ports {
            let Some(interface) = self.interfaces.get(&port.port) else {
                return Err(format!("no interface is the port to {}: its tenants stay limited", port.port));
            };
            let small = |(dscp, queue): (&u32, &u32)| Some((u8::try_from(*dscp).ok()?, u8::try_from(*queue).ok()?));
            let map = port.map.iter().map(small).collect::<Option<BTreeMap<u8, u8>>>();
            let map = map.ok_or_else(|| format!("port {}: values that no controller sends", port.port))?;
            let config = bound(&self.base[interface], &port.weights, &map);
            wanted.insert(interface.clone(), config.map_err(|error| format!("port {}: {error}", port.port))?);
        }
        self.map_others(&mut wanted).map_err(|error| error.to_string())?;
        let _lock = locked().map_err(|error| error.text())?;
        weir_switch::apply(&mut self.driver, &wanted).map_err(|error| error.to_string())?;
        self.in_force.extend(wanted);
        Ok(())
    }

    /// Where all ports have one map, gives it to those that no tenant passes.
    fn map_others(&self, wanted: &mut BTreeMap<String, PortConfig>) -> Result<(), FieldError> {
        let map = wanted.values().next().map(PortConfig::map);
        let Some(map) = map.filter(|_| self.driver.capabilities().maps == Map::PerSwitch) else { return Ok(()) };
        for (interface, config) in &self.in_force {
            if !wanted.contains_key(interface) && config.queues().len() > 0 {
                wanted.insert(interface.clone(), config.mapping(map)?);
            }
        }
        Ok(())
    }

    /// Reads what differs at each port, and the counters of its queues. A port that cannot be read differs, and
    /// counters that cannot be read have a reason.
    pub(super) fn look(&mut self, status: &mut SwitchStatus) {
        let mut ports = Vec::new();
        for (port, interface) in &self.interfaces {
            let config = &self.in_force[interface];
            let found = self.driver.read(interface).map(|state| port_changes(config.state(), &state));
            let differs: Vec<String> = match found {
                Ok(changes) => changes.iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            };
            let (counters, unread) = match self.driver.queues(interface) {
                Ok(counters) => (counters, None),
                Err(error) => (BTreeMap::new(), Some(error.to_string())),
            };
            let absent = (0..).take(config.queues().len()).filter(|number| !counters.contains_key(number));
            let absent: Vec<String> = absent.map(|number: u8| number.to_string()).collect();
            let missing = || format!("the switch has no counters of queue {}", absent.join(", "));
            let unread = unread.or_else(|| (!absent.is_empty()).then(missing));
            let queues =
                (0..).zip(config.queues()).map(|(number, queue)| queue_status(number, queue, &counters)).collect();
            let (port, interface) = (port.clone(), interface.clone());
            let read = SwitchPortStatus {
                port,
                interface,
                differs,
                queues,
                queues_unread: unread,
                ..SwitchPortStatus::default()
            };
            ports.push(read);
        }
        let differed = |port: &SwitchPortStatus| {
            status.ports.iter().any(|before| before.interface == port.interface && !before.differs.is_empty())
        };
        let count = |of: &dyn Fn(&&SwitchPortStatus) -> bool| ports.iter().filter(|port| of(port)).count() as u64;
        let found = count(&|port| !port.differs.is_empty() && !differed(port));
        let restored = count(&|port| port.differs.is_empty() && differed(port));
        status.changes_found += found;
        status.repaired += restored;
        status.queue_readings_failed += count(&|port| port.queues_unread.is_some());
        status.ports = ports;
    }

    /// Whether ports have lost their configuration.
    pub(super) fn has_lost(&mut self) -> Result<bool, String> {
        let states =
            weir_switch::apply::read(&mut self.driver, self.in_force.keys()).map_err(|error| error.to_string())?;
        Ok(self.in_force.iter().any(|(interface, config)| states.get(interface) != Some(config.state())))
    }

    /// Restores the configuration of all ports.
    pub(super) fn restore(&mut self) -> Result<(), String> {
        self.readings.reset();
        let _lock = locked().map_err(|error| error.text())?;
        weir_switch::apply(&mut self.driver, &self.in_force).map(drop).map_err(|error| error.to_string())
    }

    /// Reads a queue; none where it does not exist.
    pub(super) fn read(&mut self, queue: Queue) -> Result<Option<Reading>, String> {
        let Some(interface) = self.interfaces.get(&queue.port) else { return Ok(None) };
        let config = &self.in_force[interface];
        self.readings.read(&mut self.driver, queue, (interface, config))
    }
}

/// A queue with its counters; without them where they are not read.
fn queue_status(number: u8, queue: &QueueConfig, counters: &BTreeMap<u8, QueueReading>) -> SwitchQueueStatus {
    let QueueReading { sent, backlog, dropped, marked } = counters.get(&number).copied().unwrap_or_default();
    SwitchQueueStatus {
        queue: number,
        weight: match queue.schedule {
            Schedule::Weighted(weight) => Some(weight),
            Schedule::Strict => None,
        },
        sent_bytes: sent.map(Bytes::get),
        dropped_packets: dropped,
        marked_packets: marked,
        backlog_bytes: backlog.map(Bytes::get),
    }
}

/// Whether a port has the queues of a configuration, with their thresholds and buffers, whatever their weights and
/// DSCP values are.
fn has_queues(state: &PortState, config: &PortConfig) -> bool {
    let wanted = config.state();
    let kind = |queue: &QueueConfig| (queue.schedule.is_strict(), queue.mark, queue.buffer);
    let kinds = |state: &PortState| state.queues.values().map(kind).collect::<Vec<_>>();
    state.rate == wanted.rate && state.map.is_some() && kinds(state) == kinds(wanted) && state.remark == wanted.remark
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use weir_switch::{Capabilities, Driver, DscpMap, DscpSet, RateSetting, Setting, Step, WriteError};

    const CAPABILITIES: Capabilities = Capabilities {
        queues: 8,
        strict: true,
        weighted: true,
        mixed: true,
        weights: 1..=100,
        marks: Setting::PerQueue,
        buffers: Setting::Fixed,
        buffer_max: Bytes::ZERO,
        rate: RateSetting::Fixed,
        remarks: false,
        maps: Map::PerPort,
    };

    /// A switch whose ports have the policy's configuration, and whose counters are these.
    struct CountingSwitch(PortConfig, Result<BTreeMap<u8, QueueReading>, &'static str>);

    impl Driver for CountingSwitch {
        type Error = io::Error;

        fn switch(&self) -> &str {
            "r1"
        }
        fn capabilities(&self) -> Capabilities {
            CAPABILITIES
        }
        fn read(&mut self, _: &str) -> io::Result<PortState> {
            Ok(self.0.state().clone())
        }
        fn write(&mut self, _: &[Step]) -> Result<(), WriteError<io::Error>> {
            Ok(())
        }
    }

    impl ReadQueues for CountingSwitch {
        fn queues(&mut self, _: &str) -> io::Result<BTreeMap<u8, QueueReading>> {
            self.1.clone().map_err(io::Error::other)
        }
        fn are_live(&self) -> bool {
            true
        }
    }

    /// A switch with ports in memory.
    struct Memory(BTreeMap<String, PortState>);

    impl Driver for Memory {
        type Error = io::Error;

        fn switch(&self) -> &str {
            "r1"
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities { remarks: true, ..CAPABILITIES }
        }
        fn read(&mut self, port: &str) -> io::Result<PortState> {
            Ok(self.0.get(port).cloned().unwrap_or_default())
        }
        fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<io::Error>> {
            for step in steps {
                step.change.apply(self.0.entry(step.port.clone()).or_default());
            }
            Ok(())
        }
    }

    impl ReadQueues for Memory {
        fn queues(&mut self, _: &str) -> io::Result<BTreeMap<u8, QueueReading>> {
            Ok(BTreeMap::new())
        }
        fn are_live(&self) -> bool {
            true
        }
    }

    /// A port outside the policy is re-marked from the begin, whatever it had before, without a loss of queues.
    #[test]
    fn ports_outside_the_policy_are_brought_to_it_without_a_reset() {
        let queue = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };
        let bound = PortConfig::new(None, vec![queue; 2], DscpMap::all(0)).expect("valid");
        let outside = PortConfig::remark_only(DscpSet::from_iter([10, 46]));
        let needs = PortNeeds {
            interfaces: [("m1", "swp1"), ("outside swp8", "swp8")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            base: [("swp1", bound.clone()), ("swp8", outside.clone())].map(|(a, b)| (a.to_owned(), b)).into(),
            limits: BTreeMap::new(),
        };
        for before in [PortState::default(), bound.state().clone()] {
            let found = [("swp1", bound.state().clone()), ("swp8", before)].map(|(a, b)| (a.to_owned(), b));
            let mut ports = Ports::new(Memory(found.into()), &needs);
            assert!(!ports.bring(true).expect("brought"), "the port to m1 has its queues");
            assert_eq!(&ports.driver.0["swp8"], outside.state());
            assert!(!ports.has_lost().expect("read"));
        }
        let mut ports = Ports::new(Memory(BTreeMap::new()), &needs);
        assert!(ports.bring(true).expect("brought") && !ports.has_lost().expect("read"));
        assert_eq!(&ports.driver.0["swp1"], bound.state());
    }

    fn ports(counters: Result<BTreeMap<u8, QueueReading>, &'static str>) -> Ports<CountingSwitch> {
        let queue = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };
        let config = PortConfig::new(None, vec![queue; 2], DscpMap::all(0)).expect("valid");
        let needs = PortNeeds {
            interfaces: BTreeMap::from([("m1".to_owned(), "swp1".to_owned())]),
            base: BTreeMap::from([("swp1".to_owned(), config.clone())]),
            limits: BTreeMap::new(),
        };
        Ports::new(CountingSwitch(config, counters), &needs)
    }

    fn reading(sent: u64) -> QueueReading {
        QueueReading { sent: Some(Bytes::new(sent)), backlog: Some(Bytes::ZERO), ..QueueReading::default() }
    }

    #[test]
    fn unread_counters_have_a_reason_and_are_counted() {
        let mut status = SwitchStatus::outline("r1".to_owned(), String::new(), 5_000);
        let mut ports = ports(Err("the socket is closed"));
        ports.look(&mut status);
        ports.look(&mut status);
        assert_eq!(status.ports[0].queues_unread.as_deref(), Some("the socket is closed"));
        assert_eq!((status.queue_readings_failed, status.unread(), status.ports[0].queues.len()), (2, 1, 2));
        ports.driver.1 = Ok(BTreeMap::from([(0, reading(7))]));
        ports.look(&mut status);
        assert_eq!(status.ports[0].queues_unread.as_deref(), Some("the switch has no counters of queue 1"));
        assert_eq!(status.ports[0].queues[0].sent_bytes, Some(7));
        ports.driver.1 = Ok(BTreeMap::from([(0, reading(7)), (1, reading(9))]));
        ports.look(&mut status);
        assert_eq!((&status.ports[0].queues_unread, status.queue_readings_failed), (&None, 3));
    }

    #[test]
    fn drain_of_a_queue_without_counters_is_an_error() {
        let mut ports = ports(Ok(BTreeMap::from([(0, reading(7))])));
        let queue = |queue| Queue { port: "m1".to_owned(), queue, round: 1 };
        assert_eq!(ports.read(queue(0)).expect("counters").expect("a queue").sent, 7);
        assert_eq!(
            ports.read(queue(1)).expect_err("none"),
            "port m1: queue 1 has no counters, so when it has emptied is unknown"
        );
        assert_eq!(ports.read(Queue { port: "m9".to_owned(), ..queue(0) }), Ok(None), "no such port");
    }
}
