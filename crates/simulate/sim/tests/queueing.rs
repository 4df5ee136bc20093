//! Queues against queueing theory: the mean wait of M/D/1, M/M/1 and M/G/1, within confidence
//! bounds.

use crate::support::{SIZES, complete, link};
use weir_network::graph::Packets;
use weir_results::confidence;
use weir_sim::checkers::Checkers;
use weir_sim::{HostId, World};
use weir_transport::Parameters;
use weir_units::{Bandwidth, Duration, MachineId};
use weir_workload::{Arrivals, Hosts, MeanGap, Random, SizeDistribution, Spec};

/// Senders beside each other: together their packets arrive as one Poisson process.
const SENDERS: u32 = 32;
/// Runs with different seeds, each of so many packets.
const RUNS: u64 = 12;
const PACKETS: u64 = 30_000;

/// The mean wait in seconds at a 1 Gb/s link, in each run, when datagrams of these sizes arrive at
/// this load. Senders' links are a hundred times as fast, so that datagrams wait at the link.
fn waits(sizes: Packets, datagrams: &SizeDistribution, load: f64) -> Vec<f64> {
    let rate = Bandwidth::from_gbps(1);
    let run = |seed| {
        let mut world = World::new(0, sizes, Checkers::default());
        let switch = world.add_switch();
        let fast = link(Bandwidth::from_gbps(100), Duration::from_nanos(100), u64::MAX / 2);
        let slow = link(rate, Duration::from_nanos(100), u64::MAX / 2);
        let senders: Vec<HostId> = (0..SENDERS).map(|_| world.add_host(switch, fast, fast)).collect();
        let receiver = world.add_host(switch, fast, slow);
        world.compute_routes();
        let senders = senders.iter().map(|host| MachineId(host.0)).collect();
        let senders = Hosts::new(senders, "senders").expect("hosts");
        let receivers = Hosts::new(vec![MachineId(receiver.0)], "receivers").expect("a host");
        let service = (datagrams.mean() + f64::from(sizes.headers)) * 8.0 / rate.bps() as f64;
        let gap = MeanGap::from_picos(service / load * 1e12).expect("a gap");
        let random = Random::new(senders, receivers, Arrivals::Poisson, gap, datagrams.clone()).expect("a workload");
        let random = Spec::Random(random.at_most(PACKETS).expect("some flows"));
        let records = complete(&mut world, random, Parameters::Udp(Default::default()), seed);
        let wait = |record: &weir_results::FlowRecord| {
            let took = record.completion_time().expect("nothing is dropped");
            took.picos() as f64 - record.ideal.picos() as f64
        };
        // The first tenth fills the queue.
        let steady = &records[records.len() / 10..];
        steady.iter().map(wait).sum::<f64>() / steady.len() as f64 / 1e12
    };
    (1..=RUNS).map(run).collect()
}

/// Checks that theory is within the interval that contains the mean in 999 of 1000 cases, and that
/// the interval is narrow.
fn assert_agrees(what: &str, waits: &[f64], theory: f64) {
    let interval = confidence(waits, 0.999).expect("several runs");
    let half = interval.half.expect("several runs");
    let (low, high) = (interval.mean - half, interval.mean + half);
    assert!((low..=high).contains(&theory), "{what}: {theory} s is not in {low} to {high} s");
    assert!(half < 0.25 * theory, "{what}: {low} to {high} s is too wide for a comparison");
}

#[test]
fn m_d_1() {
    // Frames of 1514 B: S = 12.112 µs. Pollaczek and Khinchin: W = ρ·S / (2·(1 − ρ)).
    let datagrams = SizeDistribution::fixed(1448).expect("a size");
    let service = 1514.0 * 8.0 / 1e9;
    for load in [0.3, 0.6, 0.8] {
        let theory = load * service / (2.0 * (1.0 - load));
        assert_agrees(&format!("M/D/1 at {load}"), &waits(SIZES, &datagrams, load), theory);
    }
}

#[test]
fn m_m_1() {
    // Exponential sizes with a mean of 10 kB, in a table of 1/1000 quantiles up to the largest
    // datagram here.
    let mut table = "size_bytes,cdf\n1,0\n".to_owned();
    for step in 1..1000 {
        let size = -10_000.0 * (1.0 - f64::from(step) / 1000.0_f64).ln();
        table += &format!("{},{}\n", size.ceil() as u64, f64::from(step) / 1000.0);
    }
    table += "100000,1\n";
    let datagrams = SizeDistribution::read(table.as_bytes()).expect("a table");
    let sizes = Packets { payload: 200_000, headers: 1 };
    let (mean, square) = (datagrams.mean() + 1.0, datagrams.mean_square() + 2.0 * datagrams.mean() + 1.0);
    for load in [0.5, 0.7] {
        let service = mean * 8.0 / 1e9;
        // M/G/1 with the table's own second moment; for exponential sizes that is M/M/1's ρ·S / (1
        // − ρ), which it must be near.
        let theory = load * service * (square / (mean * mean)) / (2.0 * (1.0 - load));
        let exponential = load * service / (1.0 - load);
        assert!((theory / exponential - 1.0).abs() < 0.03, "{theory} and {exponential}");
        assert_agrees(&format!("M/M/1 at {load}"), &waits(sizes, &datagrams, load), theory);
    }
}

#[test]
fn packets_do_not_wait_at_an_idle_port() {
    let datagrams = SizeDistribution::fixed(1448).expect("a size");
    let waits = waits(SIZES, &datagrams, 0.001);
    // Theory: 0.001 · 12.112 µs / 2 = 6 ns.
    assert!(waits.iter().all(|wait| *wait < 30e-9), "{waits:?}");
}
