//! The body of the rack brokers: it hands them time, meters and datagrams, and does what they say.
//!
//! Problem: the brokers decide and never act. Approach: every simulated machine has one. When a broker's
//! timeout is due, the body reads the host's counters; what the broker broadcasts goes out as one UDP datagram
//! to every other machine of the rack, in the bytes that the wire format gives, through the same links and
//! queues as everything else, where it can be delayed or lost; what arrives is verified and decoded.
//!
//! Brokers start spread over one period, as those of real machines are: datagrams of a whole rack at one
//! instant would be a burst that no rack has.
//!
//! Limits: a transmit limit goes to the service's root limiter, together with what the static policy says
//! about the machine's interface (the least of the service's and its parents' maxima there). A receive
//! limit is the capacity of the service's receive meter, whose feedback to the senders enforces it (Parley §3.2.1).
//!
//! Worked example: 20 machines in a rack with a period of 1 s send 20 · 19 datagrams a second.
//!
//! Source: Parley §3.2.2, §5.2.

use crate::ids::{Class, HostId};
use crate::observer::Observer;
use crate::world::{Delivery, World};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_control::{Input, MeterReading, Output, RackBroker, RackBrokerConfig};
use weir_policy::Policy;
use weir_units::SimTime;
use weir_units::{Bandwidth, Direction, Instant, MachineId, ServiceId};
use weir_wire::Key;

/// The key that tags simulated datagrams. Nobody listens in a simulation; it is only not zero.
const KEY: [u8; 32] = *b"the simulated network's only key";

/// Datagrams that brokers exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exchange {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that arrived and could not be read.
    pub refused: u64,
    /// Reports to a fabric broker, where none runs.
    pub unheard: u64,
}

/// The traffic class of each leaf service: its place among the leaves.
#[derive(Debug, Clone)]
pub struct Classes {
    leaves: Vec<ServiceId>,
}

impl Classes {
    /// The classes of a policy's leaf services.
    pub fn new(policy: &Policy) -> Self {
        Self { leaves: policy.services().leaves().map(|(id, _)| id).collect() }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.leaves.len()
    }
    /// The class of a leaf service; `None` for a service with children.
    pub fn of(&self, service: ServiceId) -> Option<Class> {
        self.leaves.binary_search(&service).ok().map(|place| Class(place as u16))
    }
    /// Every leaf with its class.
    pub fn iter(&self) -> impl Iterator<Item = (ServiceId, Class)> {
        self.leaves.iter().zip(0..).map(|(&service, class)| (service, Class(class)))
    }
}

/// A broker on every machine. Call [`Brokers::next_timeout`] for when to call [`Brokers::on_time`], and
/// [`Brokers::on_delivery`] for every datagram that arrives.
#[derive(Debug)]
pub struct Brokers {
    policy: Arc<Policy>,
    classes: Classes,
    key: Key,
    brokers: Vec<RackBroker>,
    /// When each is due.
    due: BTreeSet<(Instant, usize)>,
    /// The receive limits, by machine and class.
    receive: Vec<Vec<Bandwidth>>,
    exchange: Exchange,
}

impl Brokers {
    /// Brokers for all machines of a policy, whose hosts have the machines' ids. The static limits of the
    /// machines' interfaces are in force from now on.
    pub fn new<O: Observer>(
        policy: &Arc<Policy>,
        config: RackBrokerConfig,
        rng: &mut StdRng,
        world: &mut World<O>,
    ) -> Self {
        let machines = policy.network().machines().len();
        let start = world.now().instant();
        let brokers: Vec<RackBroker> = (0..machines)
            .map(|machine| {
                let phase = weir_units::Duration::from_nanos(rng.random_range(0..config.period.nanos().max(1)));
                // Every broker starts once in a run, so one epoch is enough.
                RackBroker::new(policy, MachineId(machine as u32), 1, config, start + phase)
            })
            .collect();
        let due = brokers.iter().enumerate().filter_map(|(i, broker)| Some((broker.poll_timeout()?, i))).collect();
        let classes = Classes::new(policy);
        let body = Self {
            policy: Arc::clone(policy),
            receive: vec![vec![Bandwidth::UNLIMITED; classes.count()]; machines],
            classes,
            key: Key::new(KEY).expect("the key is not zero"),
            brokers,
            due,
            exchange: Exchange::default(),
        };
        for machine in 0..machines {
            for (service, class) in body.classes.iter() {
                world.set_limit(HostId(machine as u32), class, body.policy.machine_ceiling(service, Direction::Tx));
            }
        }
        body
    }

    /// When the next broker is due.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.due.first().map(|&(at, _)| at.into())
    }

    /// Wakes the brokers that are due.
    pub fn on_time<O: Observer>(&mut self, world: &mut World<O>) {
        let now = world.now().instant();
        while let Some(&(at, index)) = self.due.first()
            && at <= now
        {
            self.handle(index, Input::Timeout, world);
            if self.due.first() == Some(&(at, index)) {
                // A broker that does not move its timeout on would stop time.
                self.due.remove(&(at, index));
            }
        }
    }

    /// Hands a datagram to the broker of the host that it arrived at.
    pub fn on_delivery<O: Observer>(&mut self, delivery: &Delivery, world: &mut World<O>) {
        self.exchange.received += 1;
        let message = weir_wire::decode(&delivery.bytes, &self.key);
        match message.as_ref().ok().and_then(weir_wire::Message::rack_input) {
            Some(input) => self.handle(delivery.to.index(), input, world),
            None => self.exchange.refused += 1,
        }
    }

    fn handle<O: Observer>(&mut self, index: usize, input: Input<'_>, world: &mut World<O>) {
        let now = world.now().instant();
        let before = self.brokers[index].poll_timeout();
        self.brokers[index].handle_input(now, input);
        while let Some(output) = self.brokers[index].poll_output() {
            self.carry_out(index, output, world);
        }
        let after = self.brokers[index].poll_timeout();
        if before != after {
            self.due.extend(after.map(|at| (at, index)));
            if let Some(at) = before {
                self.due.remove(&(at, index));
            }
        }
    }

    fn carry_out<O: Observer>(&mut self, index: usize, output: Output, world: &mut World<O>) {
        let now = world.now().instant();
        let host = HostId(index as u32);
        match output {
            Output::ReadMeters => {
                let readings: Vec<MeterReading> = self
                    .classes
                    .iter()
                    .map(|(service, class)| MeterReading { service, bytes: world.host_bytes(host, class) })
                    .collect();
                self.brokers[index].handle_input(now, Input::Meters(&readings));
            }
            Output::Broadcast(report) => self.broadcast(host, &report.into(), world),
            Output::Relay(relay) => self.broadcast(host, &relay.into(), world),
            // There is no fabric broker to hear it here.
            Output::ReportRack(_) => self.exchange.unheard += 1,
            Output::SetLimits(limits) => {
                for limit in limits {
                    let Some(class) = self.classes.of(limit.service) else { continue };
                    match limit.direction {
                        Direction::Tx => {
                            let effective = limit.limit.min(self.policy.machine_ceiling(limit.service, Direction::Tx));
                            world.set_limit(host, class, effective);
                        }
                        Direction::Rx => {
                            self.receive[index][class.index()] = limit.limit;
                            world.set_receive_limit(host, class, limit.limit);
                        }
                    }
                }
            }
        }
    }

    fn broadcast<O: Observer>(&mut self, host: HostId, message: &weir_wire::Message, world: &mut World<O>) {
        let bytes: Arc<[u8]> = weir_wire::encode(message, &self.key).into();
        let network = self.policy.network();
        let rack = network.machine(MachineId(host.0)).rack();
        for peer in network.rack(rack).machines().iter().filter(|peer| peer.0 != host.0) {
            world.send_datagram(host, HostId(peer.0), Arc::clone(&bytes));
            self.exchange.sent += 1;
        }
    }

    /// The runtime limit of a service at a machine in the receive direction.
    pub fn receive_limit(&self, machine: MachineId, class: Class) -> Bandwidth {
        self.receive[machine.index()][class.index()]
    }
    /// The broker of a machine.
    pub fn broker(&self, machine: MachineId) -> &RackBroker {
        &self.brokers[machine.index()]
    }
    /// What the brokers exchanged.
    pub fn exchange(&self) -> Exchange {
        self.exchange
    }
}
