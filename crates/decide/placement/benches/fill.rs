//! Filling a datacenter with tenants, and an arrival when it is full.
//!
//! `cargo bench -p weir-placement --bench fill -- [K] [STRATEGY]`, or `-- compare [K]` for all strategies with accepted
//! tenants and costs. QShare §VII-C1: a fat-tree of k-port switches (16),
//! machines with 100 slots at 10 Gb/s, links of 40 Gb/s between switches; tenants of an exponential(49) number of
//! virtual machines, each tenant with one of 10, 50, 100, 200, 300 Mb/s, until 100 in a row find no place.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;
use weir_network::graph::{Graph, LinkSpec, Packets, QueueSpec, Routing};
use weir_network::topology::{Common, FatTree, Topology};
use weir_placement::{Fabric, Hose, Ledger, Placer, Strategy, Weighing};
use weir_units::{Bandwidth, Duration};

const SLOTS: u32 = 100;
/// Arrivals in a row without a place that make a datacenter full.
const REFUSED: u32 = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|word| word == "compare") {
        return compare(arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(16));
    }
    let k = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(16);
    let strategy = match arguments.get(1).map(String::as_str) {
        Some("first-fit") => Strategy::FirstFit,
        Some("oktopus") => Strategy::Oktopus,
        Some("queues") => Strategy::QShare(Weighing::Queues),
        Some("bandwidth") => Strategy::QShare(Weighing::Bandwidth),
        _ => Strategy::default(),
    };
    let began = Instant::now();
    let graph = fat_tree(k);
    let fabric = Arc::new(Fabric::new(&graph));
    let ledger = Ledger::new(&fabric, &fabric.rates(&graph), vec![SLOTS; graph.hosts.len()]);
    let mut placer = Placer::new(fabric, ledger, strategy, 8);
    println!("fat-tree k = {k}, {} machines: built in {:.2} s", graph.hosts.len(), began.elapsed().as_secs_f64());

    let mut random = StdRng::seed_from_u64(1);
    let (began, mut refused, mut arrivals) = (Instant::now(), 0, 0);
    let (mut slowest, mut slowest_refusal) = (0.0f64, 0.0f64);
    while refused < REFUSED {
        let hose = request(&mut random);
        let arrived = Instant::now();
        let placed = placer.arrive(&arrivals.to_string(), hose).is_ok();
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
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not readable"));
}

/// A fat-tree of k-port switches with the paper's rates.
fn fat_tree(k: u32) -> Graph {
    let link = |gbps| LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::ZERO, queue: QueueSpec::default() };
    let common =
        Common { routing: Routing::Ecmp, packets: Packets::default(), shared_buffer: None, jitter: Duration::ZERO };
    let (cores, aggregations) = (FatTree::all_cores(k), k / 2);
    Topology::FatTree(FatTree { k, cores, aggregations, host_link: link(10), fabric_link: link(40) }).build(common)
}

/// The next tenant of the stream.
fn request(random: &mut StdRng) -> Hose {
    let vms = (-49.0 * (1.0 - random.random::<f64>()).ln()).round().max(1.0) as u32;
    Hose::uniform(vms, Bandwidth::from_mbps([10, 50, 100, 200, 300][random.random_range(0..5)]))
}

/// The same arrivals by every strategy, as many virtual machines as there are slots: accepted tenants, mean c_b and
/// mean c_q.
fn compare(k: u32) {
    let graph = fat_tree(k);
    let slots = u64::from(SLOTS) * graph.hosts.len() as u64;
    let mut random = StdRng::seed_from_u64(1);
    let (mut hoses, mut vms) = (Vec::new(), 0);
    while vms < slots {
        hoses.push(request(&mut random));
        vms += u64::from(hoses[hoses.len() - 1].vms());
    }
    println!("fat-tree k = {k}: {} tenants with {vms} virtual machines for {slots} slots", hoses.len());
    let all = [
        ("load", Fabric::new(&graph), Strategy::QShare(Weighing::Load)),
        ("queues", Fabric::new(&graph), Strategy::QShare(Weighing::Queues)),
        ("bandwidth", Fabric::new(&graph), Strategy::QShare(Weighing::Bandwidth)),
        ("first-fit", Fabric::new(&graph), Strategy::FirstFit),
        ("oktopus", Fabric::new(&graph), Strategy::Oktopus),
        ("load, spread", Fabric::spread(&graph), Strategy::default()),
    ];
    for (name, fabric, strategy) in all {
        let fabric = Arc::new(fabric);
        let ledger = Ledger::new(&fabric, &fabric.rates(&graph), vec![SLOTS; graph.hosts.len()]);
        let mut placer = Placer::new(fabric, ledger, strategy, 8);
        let (mut accepted, mut vms, mut bandwidth, mut tenants) = (0u32, 0, 0u128, 0);
        let began = Instant::now();
        for (at, hose) in hoses.iter().enumerate() {
            let Ok(placed) = placer.arrive(&at.to_string(), hose.clone()) else { continue };
            let fit = placed.fit.clone();
            (accepted, vms, bandwidth) = (accepted + 1, vms + u64::from(hose.vms()), bandwidth + fit.bandwidth());
            let ledger = placer.ledger();
            tenants += fit.reservations.iter().map(|(cable, _)| ledger.tenants(*cable)).max().unwrap_or(0);
        }
        println!(
            "{name:12} {:.1} % of tenants, {:.1} % of slots, mean c_b {:.0} Mb/s, mean c_q {:.2}, {:.2} s",
            100.0 * f64::from(accepted) / hoses.len() as f64,
            100.0 * vms as f64 / slots as f64,
            bandwidth as f64 / f64::from(accepted) / 1e6,
            f64::from(tenants) / f64::from(accepted),
            began.elapsed().as_secs_f64(),
        );
    }
}

/// The filled part, on a terminal.
fn progress(placer: &Placer, arrivals: u32) {
    if arrivals.is_multiple_of(100) && std::io::stderr().is_terminal() {
        let (free, slots) = placer.ledger().slots();
        eprint!("\r{:3} %", 100 - 100 * free / slots);
        std::io::stderr().flush().ok();
    }
}
