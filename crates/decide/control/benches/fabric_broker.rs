//! A period of the fabric broker with 10,000 racks and 1,000 services, both directions, on one
//! core.
//!
//! Every rack reports a random demand for every service. `period` computes all limits; `report`
//! handles one rack's report (6 parts); `limits` builds one rack's limits (6 parts). Two policies:
//! one limits every service below its demand, so that the shares of all 20 million demands are
//! computed, and one limits a tenth of the services. `cargo bench -p weir-control --bench
//! fabric_broker` prints times and, at the end, the peak memory.

use divan::Bencher;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::sync::Arc;
use weir_control::{FabricBroker, FabricBrokerConfig, FabricInput, RackReport, RateRow};
use weir_policy::Policy;
use weir_units::{Bandwidth, Duration, Instant, MachineId, PerDirection, ServiceId};

const RACKS: u32 = 10_000;
const SERVICES: u32 = 1_000;

fn main() {
    divan::main();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("peak memory, policy and all: {memory}");
}

/// One in `limited` services may use half of its mean demand.
fn policy(limited: u32) -> Arc<Policy> {
    let racks: String = (0..RACKS).map(|r| format!("    r{r}: {{ uplink: 100Gb/s, machines: [m{r}] }}\n")).collect();
    let max = |i: u32| if i.is_multiple_of(limited) { ", fabric: { max: 250Gb/s, weight: 2 }" } else { "" };
    let services: String = (0..SERVICES)
        .map(|i| format!("  s{i}: {{ match: [ {{ protocol: tcp, port: {} }} ]{} }}\n", i + 1, max(i)))
        .collect();
    let text = format!("weir: 1\nnetwork:\n  nic: 100Gb/s\n  racks:\n{racks}services:\n{services}");
    Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0)
}

/// A rack's demands, 0 to 100 Mb/s for each service, in parts as a leader sends them.
fn reports(policy: &Policy, rack: u32, round: u64) -> Vec<RackReport> {
    let mut rng = SmallRng::seed_from_u64(u64::from(rack));
    let services: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
    let part = |(i, ids): (usize, &[ServiceId])| RackReport {
        machine: MachineId(rack),
        policy: policy.digest(),
        epoch: 1,
        round,
        first: ids[0],
        last: if i == 5 { ServiceId(u32::MAX) } else { ids[ids.len() - 1] },
        rows: ids
            .iter()
            .map(|service| {
                let mut rate = || Bandwidth::from_bps(rng.random_range(0..100_000_000));
                RateRow { service: *service, rates: PerDirection { tx: rate(), rx: rate() } }
            })
            .collect(),
    };
    services.chunks(167).enumerate().map(part).collect()
}

/// A broker with reports of every rack, one period later.
fn loaded(limited: u32) -> (FabricBroker, Instant) {
    let policy = policy(limited);
    let mut broker = FabricBroker::new(&policy, 1, FabricBrokerConfig::default(), Instant::ZERO);
    for rack in 0..RACKS {
        for report in reports(&policy, rack, 1) {
            broker.handle_input(Instant::ZERO, FabricInput::Report(&report));
        }
    }
    assert_eq!(broker.counters().accepted, 6 * u64::from(RACKS));
    (broker, Instant::ZERO)
}

fn next_period(broker: &mut FabricBroker, now: &mut Instant) {
    *now = *now + Duration::from_secs(10);
    broker.handle_input(*now, FabricInput::Timeout);
}

#[divan::bench(args = [1, 10], sample_count = 10, sample_size = 1)]
fn period(bencher: Bencher<'_, '_>, one_limited_in: u32) {
    let (mut broker, mut now) = loaded(one_limited_in);
    bencher.bench_local(|| next_period(&mut broker, &mut now));
}

#[divan::bench]
fn report(bencher: Bencher<'_, '_>) {
    let (mut broker, now) = loaded(1);
    let mut round = 2;
    let policy = Arc::clone(broker.allocator().policy());
    // Racks in turn: each report finds its rack's demands in a cold cache.
    bencher
        .with_inputs(|| {
            round += 1;
            reports(&policy, (round * 7_919 % u64::from(RACKS)) as u32, round)
        })
        .bench_local_values(|reports| {
            for report in &reports {
                broker.handle_input(now, FabricInput::Report(report));
            }
        });
}

#[divan::bench]
fn limits(bencher: Bencher<'_, '_>) {
    let (mut broker, mut now) = loaded(1);
    bencher.bench_local(|| {
        for _ in 0..6 {
            if broker.poll_output().is_none() {
                next_period(&mut broker, &mut now);
            }
        }
    });
}
