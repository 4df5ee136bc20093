//! The steps of one move, with the settings of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_binding::binder::{
    Binder, BinderConfig, BinderInput, BinderOutput, BinderState, Place, PortSettings, Step, TenantSettings,
    TenantState, Version,
};
use weir_binding::{Map, Port, PortId, Site, Sites, SwitchId};
use weir_network::switches::pool;
use weir_policy::Policy;
use weir_units::{Bandwidth, Duration, Instant, MachineId, PerDirection, TenantId};

const MBPS: fn(u64) -> Bandwidth = Bandwidth::from_mbps;

/// Two tenants of 200 and 300 Mb/s on a port of 1 Gb/s with one queue beside the shared one, each on a machine.
fn sites() -> Arc<Sites> {
    let site = |machine, mbps| Site {
        payment: MBPS(mbps),
        ports: vec![(PortId(0), MBPS(mbps))],
        machines: vec![(MachineId(machine), MBPS(mbps))],
    };
    let port = Port { switch: SwitchId(0), rate: MBPS(1000), queues: 1, others: Bandwidth::ZERO };
    Arc::new(Sites { ports: vec![port], tenants: vec![site(0, 200), site(1, 300)] })
}

fn config() -> BinderConfig {
    BinderConfig {
        interval: Duration::from_secs(4),
        retry: Duration::from_secs(1),
        poll: Duration::from_millis(50),
        map: Map::PerPort,
        most_weight: 100,
        pool: pool(&BTreeSet::new()),
        hops: 2,
        limit_shared: false,
        lease: Duration::from_secs(90),
    }
}

/// The settings that the network has been sent last.
#[derive(Default)]
struct Sent {
    machines: BTreeMap<MachineId, (Version, Vec<(TenantId, TenantSettings)>)>,
    switch: (Version, Vec<(PortId, PortSettings)>),
    reads: usize,
    round: u64,
    kept: Vec<(TenantId, TenantState)>,
}

impl Sent {
    fn take(&mut self, binder: &mut Binder) {
        while let Some(output) = binder.poll_output() {
            match output {
                BinderOutput::Machine { machine, version, tenants } => {
                    self.machines.insert(machine, (version, tenants));
                }
                BinderOutput::Switch { version, ports, .. } => self.switch = (version, ports),
                BinderOutput::Keep { tenant, state } => self.kept.push((tenant, state)),
                BinderOutput::Read { round, .. } => {
                    self.reads += 1;
                    self.round = round;
                }
            }
        }
    }
    /// The value of a machine's tenant, and whether it is limited.
    fn machine(&self, machine: u32) -> (u8, bool) {
        let (_, settings) = self.machines[&MachineId(machine)].1[0];
        (settings.dscp, settings.limited)
    }
    fn weights(&self) -> (&[u32], usize) {
        let settings = &self.switch.1[0].1;
        (&settings.weights, settings.map.len())
    }
    fn apply_machines(&mut self, binder: &mut Binder, now: Instant) {
        for (machine, (version, _)) in self.machines.clone() {
            binder.handle_input(now, BinderInput::MachineApplied { machine, version });
            self.take(binder);
        }
    }
    fn apply_switch(&mut self, binder: &mut Binder, now: Instant) {
        binder.handle_input(now, BinderInput::SwitchApplied { switch: SwitchId(0), version: self.switch.0 });
        self.take(binder);
    }
}

#[test]
fn steps_wait_for_the_machines_and_switches_that_they_change() {
    let sites = sites();
    let now = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut binder = Binder::new(&sites, config(), 1, BinderState::new(), now(0));
    let mut sent = Sent::default();
    sent.take(&mut binder);
    assert_eq!((sent.machine(0), sent.machine(1), sent.weights()), ((0, false), (0, false), (&[1, 1][..], 0)));
    sent.apply_machines(&mut binder, now(1));
    sent.apply_switch(&mut binder, now(1));

    // Tenant 1 uses its guarantee: it is to have the queue. Both are limited, for both are in the shared queue.
    let used = PerDirection { tx: MBPS(300), rx: MBPS(0) };
    binder.handle_input(now(2), BinderInput::Usage { machine: MachineId(1), tenant: TenantId(1), used });
    binder.handle_input(now(4_000), BinderInput::Timeout);
    sent.take(&mut binder);
    assert_eq!((sent.machine(0), sent.machine(1), sent.weights()), ((0, true), (0, true), (&[1, 1][..], 0)));
    // One machine is not enough.
    let (version, _) = sent.machines[&MachineId(1)].clone();
    binder.handle_input(now(4_001), BinderInput::MachineApplied { machine: MachineId(1), version });
    sent.take(&mut binder);
    assert_eq!(sent.weights(), (&[1, 1][..], 0));
    sent.apply_machines(&mut binder, now(4_002));
    // Both weights contain 300 Mb/s: 500 and 300.
    assert_eq!((sent.machine(1), sent.weights()), ((0, true), (&[5, 3][..], 1)));
    sent.apply_switch(&mut binder, now(4_003));
    assert_eq!((sent.machine(1), sent.weights(), sent.reads), ((1, true), (&[5, 3][..], 1), 0));
    sent.apply_machines(&mut binder, now(4_004));
    assert_eq!(sent.reads, 1);
    // Two rounds: 1,000 bytes that were there have to leave, twice; then nothing is there.
    let mut read = |sent_bytes, backlog| {
        let queue = weir_binding::binder::QueueId { port: PortId(0), queue: None };
        binder.handle_input(now(4_005), BinderInput::QueueRead { queue, round: sent.round, sent: sent_bytes, backlog });
        sent.take(&mut binder);
        (sent.reads, sent.switch.1[0].1.weights.clone())
    };
    assert_eq!(read(10_000, 1_000), (1, vec![5, 3]));
    assert_eq!(read(10_999, 5_000), (1, vec![5, 3]));
    assert_eq!(read(11_000, 5_000), (2, vec![5, 3]));
    assert_eq!(read(11_000, 0), (2, vec![2, 3]));
    assert_eq!(sent.machine(1), (1, true));
    sent.apply_switch(&mut binder, now(4_006));
    assert_eq!((sent.machine(0), sent.machine(1), sent.weights()), ((0, false), (1, false), (&[2, 3][..], 1)));
    assert_eq!(binder.state()[1].place, Place::Dedicated { queues: vec![0], dscp: 1 });
    let steps: Vec<Option<Step>> =
        sent.kept.iter().map(|(_, state)| state.motion.as_ref().map(|motion| motion.step)).collect();
    let all = [Step::Cap, Step::Raise, Step::Tag, Step::Drain, Step::Unmap, Step::Lower].map(Some);
    assert_eq!(steps, [&all[..], &[None]].concat());
    assert_eq!((binder.counters().moves, binder.counters().moved), (1, 1));
}

#[test]
fn successor_continues_a_move_and_lost_settings_are_sent_again() {
    let sites = sites();
    let now = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut binder = Binder::new(&sites, config(), 1, BinderState::new(), now(0));
    let mut sent = Sent::default();
    sent.take(&mut binder);
    sent.apply_machines(&mut binder, now(1));
    sent.apply_switch(&mut binder, now(1));
    let used = PerDirection { tx: MBPS(300), rx: MBPS(0) };
    binder.handle_input(now(2), BinderInput::Usage { machine: MachineId(1), tenant: TenantId(1), used });
    binder.handle_input(now(4_000), BinderInput::Timeout);
    sent.take(&mut binder);
    sent.apply_machines(&mut binder, now(4_001));
    let before = (sent.machine(0), sent.machine(1), sent.switch.1.clone());
    // The successor has the state, and sends the same settings under its epoch.
    let mut binder = Binder::new(&sites, config(), 2, binder.state().clone(), now(4_002));
    let mut sent = Sent::default();
    sent.take(&mut binder);
    assert_eq!((sent.machine(0), sent.machine(1), sent.switch.1.clone()), before);
    assert_eq!(sent.switch.0.epoch, 2);
    // An answer to the first one does not count, and what is not applied is sent again.
    let old = Version { epoch: 1, number: 99 };
    binder.handle_input(now(4_003), BinderInput::SwitchApplied { switch: SwitchId(0), version: old });
    sent.take(&mut binder);
    assert_eq!((sent.machine(1), binder.counters().outdated), ((0, true), 1));
    sent.switch.1.clear();
    binder.handle_input(now(5_002), BinderInput::Timeout);
    sent.take(&mut binder);
    assert_eq!((sent.switch.1.clone(), binder.counters().repeated), (before.2, 3));
    // A switch that loses its settings: both tenants stay limited, and older answers do not count.
    let version = sent.switch.0;
    binder.handle_input(now(5_003), BinderInput::SwitchReset { switch: SwitchId(0) });
    binder.handle_input(now(5_004), BinderInput::SwitchApplied { switch: SwitchId(0), version });
    sent.take(&mut binder);
    assert_eq!(sent.machine(1), (0, true));
}

/// Tenant 0 passes the first port of a switch, tenant 1 both. Where the switch has one map, tenant 1 has one queue, and
/// both ports map both values.
#[test]
fn ports_of_a_switch_with_one_map_have_the_same_map() {
    let site = |number: u32, ports: &[u32]| Site {
        payment: MBPS(100),
        ports: ports.iter().map(|port| (PortId(*port), MBPS(100))).collect(),
        machines: vec![(MachineId(number), MBPS(100))],
    };
    let port = Port { switch: SwitchId(0), rate: MBPS(1000), queues: 2, others: Bandwidth::ZERO };
    let sites = Arc::new(Sites { ports: vec![port; 2], tenants: vec![site(0, &[0]), site(1, &[0, 1])] });
    let maps = |map: Map| {
        let mut binder = Binder::new(&sites, BinderConfig { map, ..config() }, 1, BinderState::new(), Instant::ZERO);
        for number in 0..2 {
            let used = PerDirection::both(MBPS(100));
            let usage = BinderInput::Usage { machine: MachineId(number), tenant: TenantId(number), used };
            binder.handle_input(Instant::ZERO, usage);
        }
        let now = Instant::ZERO + Duration::from_secs(4);
        binder.handle_input(now, BinderInput::Timeout);
        let mut maps = Vec::new();
        while let Some(output) = binder.poll_output() {
            let input = match output {
                BinderOutput::Keep { .. } => continue,
                BinderOutput::Machine { machine, version, .. } => BinderInput::MachineApplied { machine, version },
                BinderOutput::Switch { switch, version, ports } => {
                    maps = ports.into_iter().map(|(_, settings)| settings.map).collect();
                    BinderInput::SwitchApplied { switch, version }
                }
                BinderOutput::Read { queue, round } => BinderInput::QueueRead { queue, round, sent: 0, backlog: 0 },
            };
            binder.handle_input(now, input);
        }
        assert!(binder.state().iter().all(|state| state.motion.is_none() && state.place != Place::Shared));
        maps
    };
    assert_eq!(maps(Map::PerPort), [BTreeMap::from([(1, 0), (2, 1)]), BTreeMap::from([(2, 0)])]);
    assert_eq!(maps(Map::PerSwitch), vec![BTreeMap::from([(1, 0), (2, 1)]); 2]);
}

#[test]
fn the_policy_states_the_place_of_maps() {
    let map = |key: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, slots: 4, racks: {{ r: {{ uplink: 1Gb/s, machines: [m1, m2] }} }}, \
             switches: {{ queues: 8, scheduler: weighted{key} }} }}\ntenants:\n  a: {{ vms: 2, bandwidth: 300Mb/s, \
             match: [ {{ port: 1 }} ] }}\n"
        );
        let policy = Policy::parse("p.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0;
        BinderConfig::of_policy(&policy, 2).map
    };
    assert_eq!([map(""), map(", dscp-map: port")], [Map::PerPort; 2]);
    assert_eq!(map(", dscp-map: switch"), Map::PerSwitch);
}

/// A binder whose tenant 1 has been chosen for the queue, and is about to be limited.
fn chosen(sent: &mut Sent) -> Binder {
    let sites = sites();
    let now = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut binder = Binder::new(&sites, config(), 1, BinderState::new(), now(0));
    sent.take(&mut binder);
    sent.apply_machines(&mut binder, now(1));
    sent.apply_switch(&mut binder, now(1));
    let used = PerDirection { tx: MBPS(300), rx: MBPS(0) };
    binder.handle_input(now(2), BinderInput::Usage { machine: MachineId(1), tenant: TenantId(1), used });
    binder.handle_input(now(4_000), BinderInput::Timeout);
    sent.take(&mut binder);
    binder
}

#[test]
fn step_without_the_machine_of_another_tenant_that_is_off() {
    let mut sent = Sent::default();
    let mut binder = chosen(&mut sent);
    let now = |s| Instant::ZERO + Duration::from_secs(s);
    binder.handle_input(now(4), BinderInput::MachineDisconnected { machine: MachineId(0) });
    let (version, _) = sent.machines[&MachineId(1)].clone();
    binder.handle_input(now(5), BinderInput::MachineApplied { machine: MachineId(1), version });
    sent.take(&mut binder);
    assert_eq!(sent.weights(), (&[1, 1][..], 0), "its lease is not over");
    binder.handle_input(now(95), BinderInput::Timeout);
    sent.take(&mut binder);
    assert_eq!((sent.weights(), binder.gone().len()), ((&[5, 3][..], 1), 1));
    // It returns: the step that is in progress does not wait for it, the next one that limits it does.
    binder.handle_input(now(96), BinderInput::MachineConnected { machine: MachineId(0) });
    sent.take(&mut binder);
    assert_eq!((sent.machine(0), binder.gone().len()), ((0, true), 0));
}

#[test]
fn turn_back_of_a_tenant_with_a_machine_that_is_off() {
    let mut sent = Sent::default();
    let mut binder = chosen(&mut sent);
    let now = |s| Instant::ZERO + Duration::from_secs(s);
    sent.apply_machines(&mut binder, now(4));
    sent.apply_switch(&mut binder, now(4));
    assert_eq!(sent.machine(1), (1, true), "the step `tag`, which its machine never confirms");
    binder.handle_input(now(4), BinderInput::MachineDisconnected { machine: MachineId(1) });
    binder.handle_input(now(95), BinderInput::Timeout);
    sent.take(&mut binder);
    assert_eq!((sent.machine(1), binder.counters().turned_back), ((0, true), 1));
    // Both rounds of the drain find an empty queue; then the switch does not map the value any more, and then its
    // weights change.
    for _ in 0..2 {
        let queue = weir_binding::binder::QueueId { port: PortId(0), queue: Some(0) };
        let read = BinderInput::QueueRead { queue, round: sent.round, sent: 1, backlog: 0 };
        binder.handle_input(now(96), read);
        sent.take(&mut binder);
    }
    sent.apply_switch(&mut binder, now(96));
    sent.take(&mut binder);
    sent.apply_switch(&mut binder, now(96));
    let state = &binder.state()[1];
    assert_eq!((&state.place, &state.motion, state.retained), (&Place::Shared, &None, Some(1)));
    assert_eq!(sent.weights().1, 0);
    // The machine is back, and confirms that it sends another value.
    binder.handle_input(now(97), BinderInput::MachineConnected { machine: MachineId(1) });
    sent.take(&mut binder);
    sent.apply_machines(&mut binder, now(97));
    // For an interval, packets with it may be in the network.
    binder.handle_input(now(99), BinderInput::Timeout);
    assert_eq!(binder.state()[1].retained, Some(1));
    binder.handle_input(now(103), BinderInput::Timeout);
    sent.take(&mut binder);
    assert_eq!(binder.state()[1], TenantState::default());
    assert_eq!(sent.kept.last(), Some(&(TenantId(1), TenantState::default())));
}
