//! Tenants in a world: the backend of the binder, tags, and the trees to which tenants are confined.
//!
//! Problem: the binder decides and never acts. Approach: machines report what their tenants sent and received in a
//! control interval; settings travel to machines and switches for the time of a control message, are applied, and are
//! confirmed after the same time. Control messages of tenants do not cross the simulated network: switches have a
//! management network.
//!
//! - **Machines** tag the packets of a tenant as they leave the interface, so none with an earlier tag waits behind
//!   the change, and limit tenants by the machine shaper: the root limiter for sending, the receive meter's capacity
//!   for receiving.
//! - **Switches** have weighted queues behind those of latency levels ([`Queue::of_marks`]).
//! - **Trees**: a tenant's packets take the links of its tree, as routes of its addresses would make them.
//!
//! Worked example: at 4 s a tenant that has used its guarantee is chosen for a queue; with messages of 1 ms its hosts
//! send the new tag at 4.004 s.
//!
//! Source: QShare §V, §VI.

use crate::ids::{HostId, PortId, ServiceIndex, SwitchId};
use crate::observer::Observer;
use crate::packet::OTHERS;
use crate::queue::{FRAME, Queue};
use crate::world::World;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_binding::binder::{Binder, BinderConfig, BinderInput, BinderOutput, PortSettings, QueueId, TenantSettings};
use weir_binding::{Ports, Sites};
use weir_network::Graph;
use weir_network::graph::LinkRef;
use weir_placement::{TenantPlace, of_services};
use weir_policy::Policy;
use weir_scenario::Tenancy;
use weir_units::{Bandwidth, Bytes, Instant, MachineId, PerDirection, SimTime, TenantId};

/// Tags of tenants' packets, and the trees that they take.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    /// By host and service: the DSCP value of packets that leave; empty without tenants.
    values: Vec<u8>,
    /// By service, switch and leaf: the port of the service's tree.
    trees: HashMap<(u16, u32, u32), PortId>,
}

impl Tags {
    /// Whether hosts tag packets.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.values.is_empty()
    }
    /// Whether some service has a tree.
    #[inline]
    pub(crate) fn has_trees(&self) -> bool {
        !self.trees.is_empty()
    }
    /// The port of a service's tree; `None` where it has none.
    #[inline]
    pub(crate) fn next(&self, service: ServiceIndex, switch: SwitchId, leaf: u32) -> Option<PortId> {
        self.trees.get(&(service.0, switch.0, leaf)).copied()
    }
}

impl<O: Observer> World<O> {
    /// Makes hosts tag packets, at first with DSCP 0.
    fn start_tags(&mut self) {
        self.tags.values = vec![0; self.hosts.len() * self.service_count];
    }

    /// Sets the DSCP value of a service's packets at a host.
    fn set_tag(&mut self, host: HostId, service: ServiceIndex, dscp: u8) {
        self.tags.values[host.index() * self.service_count + service.index()] = dscp;
    }

    /// Tags a packet of the least urgent class that leaves its host.
    #[inline]
    pub(crate) fn tag(&mut self, host: HostId, id: crate::ids::PacketId) {
        let packet = self.packets.get_mut(id);
        if packet.priority >= OTHERS {
            let dscp = self.tags.values[host.index() * self.service_count + packet.service.index()];
            packet.priority = OTHERS + dscp;
        }
    }

    /// Gives a port weighted queues for tags, behind a strict one for each of `levels` levels. Call it before the first
    /// event.
    pub(crate) fn set_tag_queues(&mut self, port: PortId, queues: u8, levels: u8) {
        assert!(!self.started, "ports are configured before the run");
        let mut queue = Queue::of_marks(queues, levels);
        match self.queues.get_mut(self.ports[port.index()].queue as usize) {
            Some(old) => {
                queue.shared = old.shared;
                *old = queue;
            }
            None => {
                self.schedule(port, queue);
            }
        }
    }

    /// Whether a port has queues for tags.
    pub(crate) fn has_tag_queues(&self, port: PortId) -> bool {
        self.queues.get(self.ports[port.index()].queue as usize).is_some_and(Queue::has_marks)
    }

    pub(crate) fn queue_of(&mut self, port: PortId) -> &mut Queue {
        &mut self.queues[self.ports[port.index()].queue as usize]
    }

    /// Confines a service to a tree: the links of `cables` are its only ones.
    fn confine(&mut self, service: ServiceIndex, cables: &[(PortId, PortId)]) {
        // By switch, the ports of the tree that lead to other switches, and those.
        let mut around: HashMap<u32, Vec<(PortId, u32)>> = HashMap::new();
        for (forward, backward) in cables {
            let ends = [*backward, *forward].map(|port| self.ports[port.index()].to().switch());
            let [Some(from), Some(to)] = ends else { continue };
            around.entry(from.0).or_default().push((*forward, to.0));
            around.entry(to.0).or_default().push((*backward, from.0));
        }
        let leaves: Vec<(u32, u32)> = self.leaves().filter(|(switch, _)| around.contains_key(switch)).collect();
        for (leaf_switch, leaf) in leaves {
            // Away from the leaf, each switch's way back is the port over which it was found.
            let (mut open, mut found) = (vec![leaf_switch], std::collections::HashSet::from([leaf_switch]));
            while let Some(at) = open.pop() {
                for (port, next) in around.get(&at).into_iter().flatten() {
                    if found.insert(*next) {
                        let back = self.records[port.index()].opposite;
                        self.tags.trees.insert((service.0, *next, leaf), back);
                        open.push(*next);
                    }
                }
            }
        }
    }
}

/// The machines, switches and controller of tenants.
#[derive(Debug)]
pub(crate) struct TenantControl {
    binder: Binder,
    sites: Arc<Sites>,
    /// By the binder's ports, those of the world.
    ports: Vec<PortId>,
    /// By tenant, the index of its service.
    services: Vec<ServiceIndex>,
    delay: SimTime,
    interval: SimTime,
    /// Messages under way, by arrival and number.
    under_way: BTreeMap<(SimTime, u64), Message>,
    sent: u64,
    /// The next report of machines, and the bytes at the last one.
    next_report: SimTime,
    reported_at: SimTime,
    reported: HashMap<(TenantId, MachineId), PerDirection<Bytes>>,
}

/// A message between the controller and a machine or a switch.
#[derive(Debug)]
enum Message {
    ToSwitchOrMachine(BinderOutput),
    ToController(BinderInput),
}

impl TenantControl {
    /// Puts queues, trees and the control of tenants in force. Call it before the first event.
    pub(crate) fn new<O: Observer>(
        policy: &Policy,
        tenancy: &Tenancy,
        graph: &Graph,
        services: Vec<ServiceIndex>,
        world: &mut World<O>,
    ) -> Self {
        let dedicated = tenancy.queues.saturating_sub(1);
        let others = of_services(policy, graph, &tenancy.fabric);
        let sites = Sites::of_placement(tenancy.placed.iter().map(Some), &tenancy.fabric, graph, dedicated, &others);
        let sites = Arc::new(sites);
        let links = Ports::new(graph);
        let ports: Vec<PortId> = links.links().iter().map(|link| world.port_of(*link)).collect();
        let levels = policy.levels().map_or(0, |levels| levels.all().len() as u8);
        ports.iter().for_each(|port| world.set_tag_queues(*port, tenancy.queues, levels));
        world.start_tags();
        confine(tenancy, &services, world);
        let config = BinderConfig::of_policy(policy, tenancy.fabric.longest_path());
        let (interval, start) = (config.interval, world.now().instant());
        let delay = SimTime::from(tenancy.delay);
        let mut control = Self {
            binder: Binder::new(&sites, config, 1, Vec::new(), start),
            sites,
            ports,
            services,
            delay,
            interval: interval.into(),
            under_way: BTreeMap::new(),
            sent: 0,
            next_report: SimTime::from(interval).saturating_sub(delay + delay),
            reported_at: SimTime::ZERO,
            reported: HashMap::new(),
        };
        // The first settings are there when the run begins.
        control.delay = SimTime::ZERO;
        control.on_time(world);
        control.delay = delay;
        control
    }

    /// The time of the next action.
    pub(crate) fn next(&self) -> SimTime {
        let message = self.under_way.first_key_value().map_or(SimTime::NEVER, |((at, _), _)| *at);
        message.min(self.next_report).min(self.binder.poll_timeout().into())
    }

    /// Performs the due actions.
    pub(crate) fn on_time<O: Observer>(&mut self, world: &mut World<O>) {
        let now = world.now();
        self.send_outputs(now);
        loop {
            if let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
                match entry.remove() {
                    Message::ToController(input) => self.handle(now.instant(), input),
                    Message::ToSwitchOrMachine(output) => self.apply(output, world),
                }
            } else if self.next_report <= now {
                self.report(world);
            } else if self.binder.poll_timeout() <= now.instant() {
                self.handle(now.instant(), BinderInput::Timeout);
            } else {
                return;
            }
        }
    }

    fn handle(&mut self, now: Instant, input: BinderInput) {
        self.binder.handle_input(now, input);
        self.send_outputs(now.into());
    }

    fn send_outputs(&mut self, now: SimTime) {
        while let Some(output) = self.binder.poll_output() {
            // A simulated controller has no successor.
            if !matches!(output, BinderOutput::Keep { .. }) {
                self.send(now, Message::ToSwitchOrMachine(output));
            }
        }
    }

    fn send(&mut self, now: SimTime, message: Message) {
        self.sent += 1;
        self.under_way.insert((now + self.delay, self.sent), message);
    }

    /// Machines report the mean usage of each tenant since the last report.
    fn report<O: Observer>(&mut self, world: &World<O>) {
        let now = world.now();
        let elapsed = now.saturating_sub(self.reported_at);
        let sites = Arc::clone(&self.sites);
        for (tenant, site) in sites.all() {
            for (machine, _) in &site.machines {
                let bytes = world.host_bytes(HostId(machine.0), self.services[tenant.index()]);
                let before = self.reported.insert((tenant, *machine), bytes).unwrap_or_default();
                let rate = |now: Bytes, before: Bytes| weir_results::record::rate(now.get() - before.get(), elapsed);
                let used = PerDirection { tx: rate(bytes.tx, before.tx), rx: rate(bytes.rx, before.rx) };
                self.send(now, Message::ToController(BinderInput::Usage { machine: *machine, tenant, used }));
            }
        }
        self.reported_at = now;
        self.next_report = now + self.interval;
    }

    /// A machine or a switch applies its settings and confirms them, or reads a queue.
    fn apply<O: Observer>(&mut self, output: BinderOutput, world: &mut World<O>) {
        let response = match output {
            BinderOutput::Machine { machine, version, tenants } => {
                tenants.iter().for_each(|(tenant, settings)| self.set_machine(machine, *tenant, *settings, world));
                BinderInput::MachineApplied { machine, version }
            }
            BinderOutput::Switch { switch, version, ports } => {
                ports.iter().for_each(|(port, settings)| self.set_port(*port, settings, world));
                BinderInput::SwitchApplied { switch, version }
            }
            BinderOutput::Read { queue, round } => {
                let QueueId { port, queue: index } = queue;
                let class = index.map_or(0, |index| usize::from(index) + 1);
                let (sent, backlog) = world.queue_of(self.ports[port.index()]).reading(class);
                BinderInput::QueueRead { queue, round, sent, backlog }
            }
            BinderOutput::Keep { .. } => return,
        };
        self.send(world.now(), Message::ToController(response));
    }

    fn set_machine<O: Observer>(
        &self,
        machine: MachineId,
        tenant: TenantId,
        settings: TenantSettings,
        world: &mut World<O>,
    ) {
        let (host, service) = (HostId(machine.0), self.services[tenant.index()]);
        world.set_tag(host, service, settings.dscp);
        // Tenants with queues of their own need no limits of pairs.
        world.set_pairs_on(host, service, settings.dscp == 0);
        let reserved = self.sites.reserved(tenant, machine);
        let limit = match settings.limited && reserved > Bandwidth::ZERO {
            true => reserved,
            false => Bandwidth::UNLIMITED,
        };
        if world.limit(host, service) != limit {
            world.set_limit(host, service, limit);
            world.set_receive_limit(host, service, limit);
        }
    }

    fn set_port<O: Observer>(&self, port: weir_binding::PortId, settings: &PortSettings, world: &mut World<O>) {
        let used = settings.map.values().map(|queue| usize::from(*queue) + 1).chain([0]);
        let least = used.map(|queue| settings.weights[queue]).min().unwrap_or(1);
        let map = settings.map.iter().map(|(dscp, queue)| (*dscp, queue + 1)).collect();
        world.queue_of(self.ports[port.index()]).configure(&settings.weights, FRAME.div_ceil(least.max(1)), &map);
    }

    /// The counters of the controller.
    pub(crate) fn counters(&self) -> weir_binding::binder::BinderCounters {
        *self.binder.counters()
    }
}

/// By tenant, the index of its service.
pub(crate) fn services(
    policy: &Policy,
    index_of: impl Fn(weir_units::ServiceId) -> Option<ServiceIndex>,
) -> Vec<ServiceIndex> {
    let service = |tenant: &weir_policy::Tenant| index_of(tenant.service).expect("a tenant's service is a leaf");
    policy.tenants().iter().map(service).collect()
}

/// Confines all tenants to their trees.
pub(crate) fn confine<O: Observer>(tenancy: &Tenancy, services: &[ServiceIndex], world: &mut World<O>) {
    // Where packets are spread over equal paths, reservations are on all of them.
    let confined = tenancy.placed.iter().filter(|_| !tenancy.fabric.is_spread());
    for (service, placed) in services.iter().zip(confined) {
        world.confine(*service, &cables(placed, tenancy, world));
    }
}

/// The ports of both directions of a tenant's cables between switches.
fn cables<O: Observer>(placed: &TenantPlace, tenancy: &Tenancy, world: &World<O>) -> Vec<(PortId, PortId)> {
    let links = placed.fit.reservations.iter().map(|(cable, _)| tenancy.fabric.links(*cable));
    let between = links.filter(|(one, _)| matches!(one, LinkRef::Forward(_) | LinkRef::Backward(_)));
    between.map(|(one, other)| (world.port_of(one), world.port_of(other))).collect()
}
