//! The network traffic of the brokers, counted from the bytes that they send (Parley §5.3, §6.2).
//!
//! Every datagram counts with Ethernet (14 and 4 bytes), IPv6 (40) and UDP (8). All 1,000 services
//! are busy in both directions, each at its own rate, so every row is present and no rate is a
//! round number. Published: 40 machines with 1,000 services below 3 Mb/s each at one period a
//! second; 10,000 racks with 1,000 services 80 Mb/s at the fabric broker. `cargo test -p
//! weir-control --test overhead -- --nocapture` prints the figures.

use std::sync::Arc;
use weir_control::wire::{Key, Message};
use weir_control::{
    FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput, Input, MeterReading, Output, RackBroker,
    RackBrokerConfig,
};
use weir_policy::Policy;
use weir_units::{Bytes, Duration, Instant, MachineId, PerDirection};

const SERVICES: u64 = 1_000;
const HEADERS: usize = 14 + 4 + 40 + 8;

/// A rack of 40 machines, or of one. The fabric limits every service.
fn policy(machines: u32) -> Arc<Policy> {
    let services: String = (0..SERVICES)
        .map(|i| format!("  s{i}: {{ match: [ {{ protocol: tcp, port: {} }} ], fabric: {{ max: 1Mb/s }} }}\n", i + 1))
        .collect();
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 100Gb/s, racks: {{ r: {{ uplink: 1Tb/s, machines: [\"m[1-{machines}]\"] }} }} }}\n\
         services:\n{services}"
    );
    Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0)
}

fn on_the_wire(message: impl Into<Message>) -> u64 {
    let key = Key::new([3; 32]).expect("a key");
    (weir_control::wire::encode(&message.into(), &key).len() + HEADERS) as u64
}

/// One period of a broker whose services all send and receive a few Mb/s.
fn period(broker: &mut RackBroker, machine: u64, second: u64) -> Vec<Output> {
    let now = Instant::ZERO + Duration::from_secs(second);
    broker.handle_input(now, Input::Timeout);
    let mut outputs = Vec::new();
    while let Some(output) = broker.poll_output() {
        match output {
            Output::ReadMeters => {
                let bytes = |i: u64| Bytes::new(second * (300_000 + 997 * i + 13 * machine));
                let readings: Vec<MeterReading> = (0..SERVICES)
                    .map(|i| MeterReading {
                        service: broker.allocator().leaves()[i as usize],
                        bytes: PerDirection { tx: bytes(i), rx: bytes(i + 1) },
                        waits: false,
                        network: Default::default(),
                    })
                    .collect();
                broker.handle_input(now, Input::Meters(&readings));
            }
            other => outputs.push(other),
        }
    }
    outputs
}

#[test]
fn forty_machines_with_a_thousand_services_stay_below_3_mbps_each() {
    let policy = policy(40);
    let config = RackBrokerConfig::default();
    // Two machines run and exchange reports; a machine's traffic does not depend on the number of
    // receivers.
    let mut brokers = [0, 1].map(|m| RackBroker::new(&policy, MachineId(m), 1, config, Instant::ZERO));
    let mut fabric = FabricBroker::new(&policy, 1, FabricBrokerConfig::default(), Instant::ZERO);
    let peers = 39 * 8;
    // Bits sent to all peers: usage by each machine, relays by the leader.
    let (mut usage, mut relays) = ([0u64; 2], 0);
    const SECONDS: u64 = 41;
    for second in 0..SECONDS {
        let now = Instant::ZERO + Duration::from_secs(second);
        let mut broadcasts = Vec::new();
        for m in 0..2 {
            for output in period(&mut brokers[m], m as u64, second) {
                match output {
                    Output::Broadcast(report) => {
                        let bits = on_the_wire(report.clone()) * peers;
                        // The first second has no usage to report yet.
                        usage[m] += if second == 0 { 0 } else { bits };
                        broadcasts.push((m, report));
                    }
                    Output::Relay(relay) => relays += on_the_wire(relay) * peers,
                    Output::ReportRack(report) => fabric.handle_input(now, FabricInput::Report(&report)),
                    _ => {}
                }
            }
        }
        for (m, report) in &broadcasts {
            brokers[1 - m].handle_input(now, Input::Report(report));
        }
        fabric.handle_input(now, FabricInput::Timeout);
        while let Some(output) = fabric.poll_output() {
            match output {
                FabricOutput::SendLimits { limits, .. } => brokers[0].handle_input(now, Input::Fabric(&limits)),
                FabricOutput::Propose { limits, .. } => brokers[0].handle_input(now, Input::Proposal(&limits)),
                FabricOutput::NotifyEpoch(_) | FabricOutput::StoreEpoch(_) => panic!("no epoch goes down"),
            }
            while let Some(output) = brokers[0].poll_output() {
                match output {
                    Output::Relay(relay) => relays += on_the_wire(relay) * peers,
                    Output::ReplyRack(reply) => fabric.handle_input(now, FabricInput::Reply(&reply)),
                    _ => {}
                }
            }
        }
    }
    assert_eq!(brokers[0].counters().dropped_outputs, 0);
    let seconds = (SECONDS - 1) as f64;
    let mbps = |bits: u64| bits as f64 / seconds / 1e6;
    let follower = mbps(usage[1]);
    let leader = mbps(usage[0] + relays);
    println!("usage reports: {follower:.3} Mb/s a machine; the leader with relayed limits {leader:.3} Mb/s");
    assert!(brokers[0].counters().limits_accepted >= 18, "three rounds of limits in six parts arrived");
    assert!((2.3..3.0).contains(&follower), "{follower} Mb/s");
    assert!(leader > follower && leader < 3.0, "{leader} Mb/s with relays");
}

#[test]
fn ten_thousand_racks_take_less_than_80_mbps_at_the_fabric_broker() {
    // The first period, in which the brokers start, is not counted.
    const PERIODS: u64 = 6;
    let policy = policy(1);
    let mut rack = RackBroker::new(&policy, MachineId(0), 1, RackBrokerConfig::default(), Instant::ZERO);
    let mut fabric = FabricBroker::new(&policy, 1, FabricBrokerConfig::default(), Instant::ZERO);
    let (mut reports, mut limits) = (0, 0);
    for second in 0..=PERIODS * 10 + 10 {
        let now = Instant::ZERO + Duration::from_secs(second);
        for output in period(&mut rack, 0, second) {
            if let Output::ReportRack(report) = output {
                reports += if second > 10 { on_the_wire(report.clone()) } else { 0 };
                fabric.handle_input(now, FabricInput::Report(&report));
            }
        }
        fabric.handle_input(now, FabricInput::Timeout);
        while let Some(output) = fabric.poll_output() {
            let part = match output {
                FabricOutput::SendLimits { limits, .. } => {
                    rack.handle_input(now, Input::Fabric(&limits));
                    Message::from(limits)
                }
                FabricOutput::NotifyEpoch(_) | FabricOutput::StoreEpoch(_) => panic!("no epoch goes down"),
                FabricOutput::Propose { limits, .. } => {
                    rack.handle_input(now, Input::Proposal(&limits));
                    Message::Proposal(limits)
                }
            };
            limits += if second > 10 { on_the_wire(part) } else { 0 };
            while let Some(output) = rack.poll_output() {
                let Output::ReplyRack(reply) = output else { continue };
                reports += if second > 10 { on_the_wire(Message::Reply(reply.clone())) } else { 0 };
                fabric.handle_input(now, FabricInput::Reply(&reply));
            }
        }
    }
    // From and to each of 10,000 racks.
    let mbps = |bytes: u64| bytes as f64 * 8.0 * 10_000.0 / (PERIODS * 10) as f64 / 1e6;
    println!("fabric broker: {:.1} Mb/s of reports in, {:.1} Mb/s of limits out", mbps(reports), mbps(limits));
    assert!((60.0..80.0).contains(&mbps(reports)) && (60.0..80.0).contains(&mbps(limits)), "{reports} {limits}");
}
