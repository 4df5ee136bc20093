//! The backend edt without a kernel: the datapath's own code decides about each packet, and fq is ideal, so that a
//! packet leaves at its departure. `trace.rs` compares the native host with the programs.

use crate::common::frames::{address, words};
use crate::scenario::{Arrival, BURST, Change, FIRST_ADDRESS, FRAME, HORIZON, QUEUE, Run, Scenario, Step};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_datapath::abi::{
    self, Config, DestinationEntry, DestinationKey, Feedback, Interface, NO_DESTINATION, Offered, REST, RateMailbox,
    SIDE_RECEIVING, SIDE_SENDING, Service,
};
use weir_datapath::{Departs, Host, HostTables, InterfaceMeter, PacingConfig, destination_rules, receive_law};
use weir_linux::shaper::Backend;
use weir_policy::{Policy, Share};
use weir_shaping::{LeafShare, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Direction, Instant, MachineId};

/// The time of the start of a scenario; not 0, since times of 0 have a meaning of their own.
const START: Duration = Duration::from_secs(1);
const DESTINATIONS: u32 = 64;

struct Native {
    host: Host,
    /// Slots of destinations of services.
    slots: BTreeMap<(u8, u32), u32>,
    sequence: u64,
    /// When the timer is due.
    timer: Duration,
}

/// Runs a scenario. All packets of equal departures leave in the order in which they were offered.
pub(crate) fn run(scenario: &Scenario) -> Run {
    let mut native =
        Native { host: Host { tables: tables(scenario) }, slots: BTreeMap::new(), sequence: 0, timer: Duration::ZERO };
    let mut run = Run { offered: Vec::new(), changed: Vec::new(), arrivals: Vec::new() };
    for (at, step) in scenario.steps() {
        native.run_timer_until(at);
        match step {
            Step::Change(change) => {
                native.apply(at, change);
                run.changed.push(at);
            }
            Step::Offer(index) => {
                let offer = &scenario.offers[index];
                run.offered.push(at);
                let destination = native.slots.get(&(offer.destination, offer.service)).copied();
                let left = native.send(at, offer.service, destination.unwrap_or(NO_DESTINATION));
                run.arrivals.extend(left.map(|at| Arrival { at, offer: index }));
            }
        }
    }
    run.arrivals.sort_by_key(|arrival| (arrival.at, arrival.offer));
    run
}

fn instant(at: Duration) -> Instant {
    Instant::from_nanos((START + at).as_nanos() as u64)
}

impl Native {
    fn run_timer_until(&mut self, at: Duration) {
        while self.timer <= at {
            let next = self.host.timer(instant(self.timer));
            self.timer += Duration::from_nanos(next.nanos());
        }
    }

    /// When a packet leaves that is offered now.
    fn send(&mut self, at: Duration, service: u32, destination: u32) -> Option<Duration> {
        let offered = Offered { service, bytes: FRAME as u32, segments: 1, destination, ..Offered::default() };
        match self.host.send(instant(at), &offered).departs {
            Departs::Now => Some(at),
            Departs::At(departure) => Some(Duration::from_nanos(departure.nanos()) - START),
            Departs::Never => None,
        }
    }

    fn apply(&mut self, at: Duration, change: Change) {
        match change {
            Change::Limit(service, rate) => self.host.tables.sendings[service as usize].limit = rate.bps(),
            Change::Feedback(destination, service, rate) => {
                let new = self.slots.len() as u32;
                let slot = *self.slots.entry((destination, service)).or_insert(new);
                if slot == new {
                    let address = words(address(FIRST_ADDRESS + destination, false));
                    let key = DestinationKey { address, service, reserved: 0 };
                    self.host.tables.destinations[slot as usize] =
                        DestinationEntry { key, ..DestinationEntry::default() };
                }
                self.sequence += 1;
                let (rate, sequence) = (rate.bps(), self.sequence);
                let feedback = Feedback { rate, epoch: 1, sequence, ..Feedback::default() };
                self.host.feedback(instant(at), &feedback, service, slot);
            }
        }
    }
}

/// The tables as an agent writes them.
fn tables(scenario: &Scenario) -> HostTables {
    let policy = scenario.policy();
    let shaper = ShaperConfig::parley(&policy, None, None);
    let pacing = PacingConfig {
        rate: scenario.nic,
        sharing: policy.sharing(),
        horizon: weir_units::Duration::from_nanos(HORIZON.as_nanos() as u64),
        queue: Bytes::new(QUEUE),
        burst: Bytes::new(BURST),
        cpus: 1,
    };
    let shares: Vec<Share> = shaper.shares(MachineId(0), Direction::Tx).map(LeafShare::enforced).collect();
    let shortest = shaper.services.iter().map(|service| service.interval).min().expect("a service");
    let config = Config {
        enforces: 1,
        cpus: 1,
        paces: 1,
        grain: 4 * BURST as u32,
        tick: shortest.min(shaper.parameters.interface.interval).nanos().max(abi::TICK_MIN.into()),
        timeout: if scenario.agent { u64::MAX / 2 } else { 1_000_000 },
        ..Config::default()
    };
    let slots = REST as usize + 1;
    let mut tables = HostTables {
        config: vec![config],
        services: services(&policy, &shaper),
        interfaces: interfaces(scenario.nic, &shaper, &pacing, &shares),
        sendings: vec![abi::Sending::default(); slots],
        pacings: vec![pacing.raw()],
        heartbeat: vec![0],
        level_rules: Vec::new(),
        drops: vec![abi::Meter::default(); slots],
        counting: vec![abi::Counting::default(); slots],
        active: vec![abi::Active::default()],
        advertised: Vec::new(),
        counts: vec![abi::Counts::default()],
        cpu_batches: vec![abi::CpuBatch::default(); slots],
        receivers: vec![abi::Receiver::default(); slots],
        states: vec![abi::State::default()],
        service_egresses: vec![abi::ServiceEgress::default(); slots],
        interface_egresses: vec![abi::InterfaceEgress::default()],
        level_states: Vec::new(),
        destinations: vec![DestinationEntry::default(); DESTINATIONS as usize],
        rate_mailboxes: vec![RateMailbox::default(); DESTINATIONS as usize],
    };
    for (service, (id, _)) in policy.services().leaves().enumerate() {
        let most = policy.machine_ceiling(id, Direction::Tx).min(scenario.nic);
        tables.sendings[service] = pacing.sending(&Share { max: most, ..shares[service] }, most, most);
    }
    tables.sendings[REST as usize] = pacing.unclassified();
    tables
}

fn services(policy: &Policy, shaper: &ShaperConfig) -> Vec<Service> {
    let each = policy.services().leaves().zip(&shaper.services);
    let one = |((id, _), own): ((_, _), _)| {
        let parameters = shaper.of(own);
        Service {
            law: receive_law(&parameters),
            rules: destination_rules(&parameters.destination),
            feedback_interval: parameters.feedback_interval.nanos(),
            feedback_bytes: parameters.feedback_bytes.get() as u32,
            rx_weight: 1000,
            sender_weight: policy.sender_weight(id, MachineId(0)).thousandths(),
            known: 1,
            generation: 1,
            ..Service::default()
        }
    };
    each.map(one).collect()
}

fn interfaces(nic: Bandwidth, shaper: &ShaperConfig, pacing: &PacingConfig, shares: &[Share]) -> Vec<Interface> {
    let receiving = InterfaceMeter::of_machine(shaper, MachineId(0), Direction::Rx, Instant::ZERO);
    let receiving = receiving.expect("an interface meter for receiving");
    let sending = pacing.interface_meter(shares, Bytes::new(FRAME));
    let saturated_rate = pacing.saturated_rate(Backend::Edt.shared(nic), shares).bps();
    let mut sides = vec![Interface::default(); 2];
    sides[SIDE_RECEIVING as usize] = receiving.configuration(1);
    sides[SIDE_SENDING as usize] = Interface { saturated_rate, ..sending.configuration(1) };
    sides
}
