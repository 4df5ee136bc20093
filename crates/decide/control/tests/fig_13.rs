//! Parley's Fig 13 without packets: 100 racks, a tenant that sends in bursts, and a cap that
//! changes.
//!
//! Each rack has one machine and 100 Mb/s. The tenant sends UDP at line rate, for 5 s on and 2 s
//! off or all the time; the fabric allows it 20, 50, 100, 150, 20 and 100 Mb/s in all, 50 s each. A
//! machine's usage in a second is the lower of its limit and its offered load; messages arrive at
//! once.
//!
//! From three fabric periods after each change on (§6.2 and Fig 13: "within a few iterations"), the
//! total must stay at or below the cap in every second, although some racks are silent at every
//! report and in every second. The mean must be close to the cap, so that no starvation keeps it.

use std::sync::Arc;
use weir_control::{
    FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput, Input, LimitRule, MeterReading, Output, RackBroker,
    RackBrokerConfig,
};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId, PerDirection};

const RACKS: u64 = 100;
const CAPS: [u64; 6] = [20, 50, 100, 150, 20, 100];
const STEP_SECONDS: u64 = 50;
/// Three periods of 10 s.
const CONVERGED_SECONDS: u64 = 30;

fn policy(cap: u64) -> Arc<Policy> {
    let racks: String = (1..=RACKS).map(|r| format!("    r{r}: {{ uplink: 100Mb/s, machines: [m{r}] }}\n")).collect();
    let text = format!(
        "weir: 1\nnetwork:\n  nic: 100Mb/s\n  racks:\n{racks}services:\n  \
         tenant: {{ match: [ {{ protocol: udp, port: 1 }} ], fabric: {{ max: {cap}Mb/s }} }}\n"
    );
    Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0)
}

/// The total usage of all racks in Mb/s, by second. `on(rack, second)` is whether a rack sends.
fn run(on: impl Fn(u64, u64) -> bool) -> Vec<f64> {
    let first = policy(CAPS[0]);
    let config = RackBrokerConfig::published();
    let mut racks: Vec<RackBroker> =
        (0..RACKS).map(|rack| RackBroker::new(&first, MachineId(rack as u32), 1, config, Instant::ZERO)).collect();
    let mut fabric = FabricBroker::new(
        &first,
        1,
        FabricBrokerConfig { rule: LimitRule::Backlogged, ..FabricBrokerConfig::default() },
        Instant::ZERO,
    );
    let mut sent = vec![0u64; RACKS as usize];
    let mut sums = Vec::new();
    for second in 0..STEP_SECONDS * CAPS.len() as u64 {
        let now = Instant::ZERO + Duration::from_secs(second);
        if second > 0 && second % STEP_SECONDS == 0 {
            let changed = policy(CAPS[(second / STEP_SECONDS) as usize]);
            racks.iter_mut().for_each(|rack| rack.set_policy(&changed).expect("a compatible policy"));
            fabric.set_policy(&changed).expect("a compatible policy");
        }
        for (broker, sent) in racks.iter_mut().zip(&sent) {
            broker.handle_input(now, Input::Timeout);
            while let Some(output) = broker.poll_output() {
                match output {
                    Output::ReadMeters => {
                        let service = broker.allocator().leaves()[0];
                        let bytes = PerDirection { tx: Bytes::new(*sent), rx: Bytes::ZERO };
                        let reading = MeterReading { service, bytes, waits: false, network: Default::default() };
                        broker.handle_input(now, Input::Meters(&[reading]));
                    }
                    Output::ReportRack(report) => fabric.handle_input(now, FabricInput::Report(&report)),
                    Output::Broadcast(_) | Output::Relay(_) | Output::ShutOut(_) => panic!("each rack has one machine"),
                    Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => {
                        panic!("no epoch goes down")
                    }
                    Output::SetLimits(_) | Output::ReplyRack(_) => {}
                }
            }
        }
        fabric.handle_input(now, FabricInput::Timeout);
        while let Some(output) = fabric.poll_output() {
            match output {
                FabricOutput::SendLimits { to, limits } => racks[to.index()].handle_input(now, Input::Fabric(&limits)),
                FabricOutput::NotifyEpoch(_) | FabricOutput::StoreEpoch(_) => panic!("no epoch goes down"),
                FabricOutput::Propose { to, limits } => {
                    racks[to.index()].handle_input(now, Input::Proposal(&limits));
                    while let Some(output) = racks[to.index()].poll_output() {
                        let Output::ReplyRack(reply) = output else { panic!("{output:?} follows no proposal") };
                        fabric.handle_input(now, FabricInput::Reply(&reply));
                    }
                }
            }
        }
        let mut sum = 0;
        for (rack, broker) in racks.iter().enumerate() {
            let offered = if on(rack as u64, second) { Bandwidth::from_mbps(100) } else { Bandwidth::ZERO };
            let usage = offered.min(broker.limit(Direction::Tx, 0));
            sent[rack] += usage.bps() / 8;
            sum += usage.bps();
        }
        sums.push(sum as f64 / 1e6);
    }
    for broker in &racks {
        let counters = broker.counters();
        assert!(broker.leads() && broker.has_fabric_limits());
        assert_eq!((counters.limits_malformed, counters.limits_replayed, counters.limits_other_rack), (0, 0, 0));
    }
    assert_eq!((fabric.counters().malformed, fabric.counters().replayed), (0, 0));
    sums
}

/// Checks each step from three periods after its beginning on: the cap in every second, and a mean
/// of at least `used` of it.
fn check(sums: &[f64], used: f64) {
    for (step, cap) in CAPS.iter().enumerate() {
        let cap = *cap as f64;
        let converged = &sums[(step as u64 * STEP_SECONDS + CONVERGED_SECONDS) as usize..][..20];
        let most = converged.iter().copied().fold(0.0, f64::max);
        assert!(most <= cap, "{most} Mb/s of {cap} in step {step}: {converged:?}");
        let mean = converged.iter().sum::<f64>() / 20.0;
        assert!(mean >= used * cap, "only {mean} Mb/s of {cap} in step {step}: {converged:?}");
    }
}

#[test]
fn bursts_of_5_s_stay_below_each_cap() {
    // The bursts of each rack start at another time.
    let sums = run(|rack, second| (second + 3 * rack) % 7 < 5);
    check(&sums, 0.95 * 5.0 / 7.0);
    // No limit is set before all leaders have reported, after 5 s.
    assert!(sums[..5].iter().all(|sum| *sum > 5_000.0), "{:?}", &sums[..10]);
    // From the first allocation on the cap holds: the first report covers a whole burst.
    assert!(sums[7..50].iter().all(|sum| *sum <= 20.0), "{:?}", &sums[..50]);
}

#[test]
fn synchronised_racks_stay_below_each_cap() {
    // The worst case: all racks are silent at the same time, also at the time of all reports.
    let sums = run(|_, second| second % 7 < 5);
    check(&sums, 0.9 * 5.0 / 7.0);
}

#[test]
fn steady_traffic_fills_each_cap() {
    check(&run(|_, _| true), 0.99);
}
