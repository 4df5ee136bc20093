//! Filling a datacenter with tenants, and an arrival when it is full.
//!
//! `cargo bench -p weir-placement --bench fill -- [K] [STRATEGY]`. QShare §VII-C1: a fat-tree of k-port switches (16),
//! machines with 100 slots at 10 Gb/s, links of 40 Gb/s between switches; tenants of an exponential(49) number of
//! virtual machines, each tenant with one of 10, 50, 100, 200, 300 Mb/s, until 100 in a row find no place.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;
use weir_network::graph::{LinkSpec, Packets, QueueSpec, Routing};
use weir_network::topology::{Common, FatTree, Topology};
use weir_placement::{Fabric, Hose, Ledger, Placer, Strategy, Weighing};
use weir_units::{Bandwidth, Duration};

const SLOTS: u32 = 100;
/// Arrivals in a row without a place that make a datacenter full.
const REFUSED: u32 = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let k = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(16);
    let strategy = match arguments.get(1).map(String::as_str) {
        Some("first-fit") => Strategy::FirstFit,
        Some("oktopus") => Strategy::Oktopus,
        Some("queues") => Strategy::QShare(Weighing::Queues),
        Some("bandwidth") => Strategy::QShare(Weighing::Bandwidth),
        _ => Strategy::default(),
    };
    let began = Instant::now();
    let link = |gbps| LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::ZERO, queue: QueueSpec::default() };
    let common =
        Common { routing: Routing::Ecmp, packets: Packets::default(), shared_buffer: None, jitter: Duration::ZERO };
    let graph = Topology::FatTree(FatTree {
        k,
        cores: FatTree::all_cores(k),
        aggregations: k / 2,
        host_link: link(10),
        fabric_link: link(40),
    })
    .build(common);
    let fabric = Arc::new(Fabric::new(&graph));
    let ledger = Ledger::new(&fabric, &fabric.rates(&graph), vec![SLOTS; graph.hosts.len()]);
    let mut placer = Placer::new(fabric, ledger, strategy, 8);
    println!("fat-tree k = {k}, {} machines: built in {:.2} s", graph.hosts.len(), began.elapsed().as_secs_f64());

    let mut random = StdRng::seed_from_u64(1);
    let (began, mut refused, mut arrivals) = (Instant::now(), 0, 0);
    let (mut slowest, mut slowest_refusal) = (0.0f64, 0.0f64);
    while refused < REFUSED {
        let vms = (-49.0 * (1.0 - random.random::<f64>()).ln()).round().max(1.0) as u32;
        let mbps = [10, 50, 100, 200, 300][random.random_range(0..5)];
        let arrived = Instant::now();
        let placed = placer.arrive(&arrivals.to_string(), Hose::uniform(vms, Bandwidth::from_mbps(mbps))).is_ok();
        let took = arrived.elapsed().as_secs_f64() * 1e3;
        arrivals += 1;
        if placed {
            (refused, slowest) = (0, slowest.max(took));
        } else {
            (refused, slowest_refusal) = (refused + 1, slowest_refusal.max(took));
        }
        progress(&placer, arrivals);
    }
    let took = began.elapsed().as_secs_f64();
    let (free, slots) = placer.ledger().slots();
    println!(
        "{arrivals} arrivals, {} placed in {took:.2} s; {:.1} % of {slots} slots; slowest {slowest:.2} ms, slowest \
         refusal {slowest_refusal:.2} ms",
        placer.placed().len(),
        100.0 - 100.0 * free as f64 / slots as f64,
    );
}

/// The filled part, on a terminal.
fn progress(placer: &Placer, arrivals: u32) {
    if arrivals.is_multiple_of(100) && std::io::stderr().is_terminal() {
        let (free, slots) = placer.ledger().slots();
        eprint!("\r{:3} %", 100 - 100 * free / slots);
        std::io::stderr().flush().ok();
    }
}
