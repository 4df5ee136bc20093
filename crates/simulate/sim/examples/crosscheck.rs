//! The same flows through this simulator and through ns-3: percentiles of completion times by size of flow.
//!
//! ```text
//! crosscheck NS3-DRIVER [FLOWS]
//! ```
//!
//! Problem: a simulator may be wrong in a way that its own tests share. Approach: another simulator with the same
//! network and the same flows: 144 hosts on 9 leaves and 4 spines, web-search flows at 60 % of the hosts' links
//! (`data/flows`), DCTCP with handshakes, interfaces of hosts that are first in, first out, every queue marking above
//! 65 packets, and for each flow the same spine in each direction. `tools/crosscheck/ns3.cc` is the driver of ns-3.
//!
//! One run is a sample: a start that is later by nanoseconds changes the packets that meet in a queue, and with them a
//! tail of some dozen flows by a tenth. This simulator therefore runs the flows [`RUNS`] times, with starts that are
//! later by less than [`SHIFT`], and the table has ns-3's percentile beside the median and the range of these runs.
//!
//! The exit status is 1 if a percentile of ns-3 is outside of the range and more than [`TOLERANCE`] from the median.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_results::{Percentile, SizeBins, percentile_of};
use weir_scenario::{HostOrder, HostQueues};
use weir_sim::ids::Node;
use weir_sim::{FlowSpec, HostId, PortId, ServiceIndex, Silent, SwitchId, World};
use weir_transport::{Parameters, dctcp};
use weir_units::{Bandwidth, Bytes, Duration, SimTime};

/// The largest part by which a percentile outside of the range may differ from the median.
const TOLERANCE: f64 = 0.05;
/// The runs of this simulator; odd, so that one of them is the median.
const RUNS: u64 = 11;
/// The most by which a start is later in these runs, in nanoseconds: a tenth of a packet at 10 Gb/s.
const SHIFT: u64 = 120;
const FLOWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/flows/leafspine144-websearch-load60-20k.csv");
/// The flows that are run by default.
const COUNT: usize = 2_000;
const LEAVES: u32 = 9;
const SPINES: u32 = 4;
const HOSTS_OF_LEAF: u32 = 16;
/// With the 2 bytes of PPP that ns-3's links add to IPv4 and TCP.
const SIZES: Packets = Packets { payload: 1460, headers: 42 };
const MARK: Bytes = Bytes::new(65 * 1502);
/// So much that no port drops.
const BUFFER: Bytes = Bytes::new(1 << 30);
/// Both simulations end then.
const END: SimTime = SimTime::from_secs(10);

/// A line of the list.
struct Line {
    start: SimTime,
    from: u32,
    to: u32,
    bytes: u64,
}

impl Line {
    fn spec(&self, hash: u32) -> FlowSpec {
        FlowSpec {
            from: HostId(self.from),
            to: HostId(self.to),
            service: ServiceIndex(0),
            priority: 0,
            start: self.start,
            stop: SimTime::NEVER,
            size: Some(self.bytes),
            deadline: None,
            hash,
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The first flows of the list, at whole nanoseconds.
fn flows(count: usize) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(FLOWS)?;
    let line = |text: &str| -> Result<Line> {
        let fields: Vec<&str> = text.split(',').collect();
        let [_, start, from, to, packets] = fields[..] else { return Err(format!("{text}: not a flow").into()) };
        let nanos = (start.parse::<f64>()? * 1e9).round() as u64;
        let bytes = packets.parse::<u64>()? * u64::from(SIZES.payload);
        Ok(Line { start: SimTime::from_nanos(nanos), from: from.parse()?, to: to.parse()?, bytes })
    };
    text.lines().skip(1).take(count).map(line).collect()
}

/// The network, and its first switches, the spines.
fn network() -> World<Silent> {
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: BUFFER, mark: Some(MARK) };
    let link = |gbps| LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue };
    let mut world = World::new(0, SIZES, Silent);
    let spines: Vec<SwitchId> = (0..SPINES).map(|_| world.add_switch()).collect();
    for _ in 0..LEAVES {
        let leaf = world.add_switch();
        for _ in 0..HOSTS_OF_LEAF {
            world.add_host(leaf, link(10), link(10));
        }
        for &spine in &spines {
            world.connect(leaf, spine, link(40), link(40));
        }
    }
    world.compute_routes();
    world.set_host_queues(&HostQueues {
        order: HostOrder::Fifo { buffer: Some(BUFFER), mark: Some(MARK) },
        flow_limit: None,
    });
    world
}

/// The spine on a way; 0 within a leaf.
fn spine_of(world: &World<Silent>, way: &[PortId]) -> u32 {
    let spine = |port: &PortId| match world.port(*port).to() {
        Node::Switch(SwitchId(number)) if number < SPINES => Some(number),
        _ => None,
    };
    way.iter().find_map(spine).unwrap_or(0)
}

/// The time by which a flow starts later in a run; none in the first.
fn shift(run: u64, flow: u32) -> SimTime {
    // Multiplicative hashing (Knuth, TAOCP 3, section 6.4).
    let mixed = (u64::from(flow) + 1).wrapping_mul(run).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    SimTime::from_nanos((mixed >> 32) % SHIFT)
}

/// By flow: the completion time of this simulator in a run, and the spines of its packets and acknowledgements.
fn weir(lines: &[Line], run: u64) -> Result<Vec<(Option<SimTime>, [u32; 2])>> {
    let mut tcp = dctcp::Parameters::default();
    tcp.tcp.delayed_ack = 1;
    tcp.tcp.min_rto = SimTime::from_millis(10);
    tcp.tcp.handshake = true;
    let mut world = network();
    let mut flows = Vec::new();
    for (number, line) in (1u32..).zip(lines) {
        let hash = number.wrapping_mul(0x9E37_79B9);
        let spec = FlowSpec { start: line.start + shift(run, number), ..line.spec(hash) };
        let ways = [world.way(spec.from, spec.to, hash), world.way(spec.to, spec.from, hash.rotate_left(16))];
        let [there, back] = ways.map(|way| way.map(|way| spine_of(&world, &way)).ok_or("no way between two hosts"));
        flows.push((world.add_flow(spec, &Parameters::Dctcp(tcp.clone())), [there?, back?]));
    }
    while world.now() < END && flows.iter().any(|(id, _)| world.flow(*id).finished().is_none()) {
        world.run_until(END);
        while world.next_over().is_some() {}
    }
    let counters = world.counters();
    if counters.dropped > 0 {
        return Err(format!("{} packets were dropped: the buffers are too small", counters.dropped).into());
    }
    let time = |(id, spines): &(_, [u32; 2])| {
        let flow = world.flow(*id);
        (flow.finished().map(|finished| finished - flow.spec().start), *spines)
    };
    Ok(flows.iter().map(time).collect())
}

/// By flow: the completion time of ns-3.
fn ns3(driver: &str, lines: &[Line], spines: impl Iterator<Item = [u32; 2]>) -> Result<Vec<Option<SimTime>>> {
    let mut input = String::new();
    for (line, [there, back]) in lines.iter().zip(spines) {
        let nanos = line.start.duration().nanos();
        writeln!(input, "{nanos} {} {} {} {there} {back}", line.from, line.to, line.bytes)?;
    }
    let mut child = Command::new(driver).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    // It reads all of its input before it writes.
    child.stdin.take().ok_or("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("{driver}: {}", output.status).into());
    }
    let time = |line: &str| -> Result<Option<SimTime>> {
        Ok(u64::try_from(line.trim().parse::<i64>()?).ok().map(SimTime::from_nanos))
    };
    let times: Vec<_> = String::from_utf8(output.stdout)?.lines().map(time).collect::<Result<_>>()?;
    if times.len() != lines.len() {
        return Err(format!("{driver} ran {} of {} flows", times.len(), lines.len()).into());
    }
    Ok(times)
}

/// The times of the flows of one bin, ascending, and the number of unfinished flows.
fn ascending(lines: &[Line], times: &[Option<SimTime>], bins: &SizeBins, bin: usize) -> (Vec<SimTime>, u64) {
    let own = lines.iter().zip(times).filter(|(line, _)| bins.index(line.bytes) == bin);
    let times: Vec<Option<SimTime>> = own.map(|(_, time)| *time).collect();
    let mut known: Vec<SimTime> = times.iter().flatten().copied().collect();
    known.sort_unstable();
    let unfinished = (times.len() - known.len()) as u64;
    (known, unfinished)
}

/// A percentile of the flows of one bin in microseconds; infinite if an unfinished flow is at its rank.
fn percentile(lines: &[Line], times: &[Option<SimTime>], bins: &SizeBins, bin: usize, percent: u32) -> f64 {
    let (times, unfinished) = ascending(lines, times, bins, bin);
    let time = percentile_of(&times, unfinished, Percentile(100 * percent));
    time.map_or(f64::INFINITY, |time| time.picos() as f64 / 1e6)
}

/// Prints the comparison and returns whether all percentiles are near.
fn compare(lines: &[Line], weir: &[Vec<Option<SimTime>>], ns3: &[Option<SimTime>]) -> bool {
    let bins = SizeBins::default();
    let mut near = true;
    println!(
        "{:>20} {:>5} {:>3} {:>10} {:>21} {:>10} {:>7}",
        "bytes", "flows", "p", "weir us", "range", "ns-3 us", "differ"
    );
    for (index, bin) in bins.iter().enumerate() {
        let count = lines.iter().filter(|line| bins.index(line.bytes) == index).count();
        let range = bin.up_to.map_or(format!("{} to", bin.over), |up_to| format!("{} to {up_to}", bin.over));
        for percent in [50, 90, 99] {
            let mut own: Vec<f64> = weir.iter().map(|times| percentile(lines, times, &bins, index, percent)).collect();
            own.sort_by(f64::total_cmp);
            let (low, median, high) = (own[0], own[own.len() / 2], own[own.len() - 1]);
            let other = percentile(lines, ns3, &bins, index, percent);
            let part = median / other - 1.0;
            let is_near = part.abs() <= TOLERANCE || (low..=high).contains(&other);
            near &= is_near;
            let mark = if is_near { "" } else { "  <--" };
            println!(
                "{range:>20} {count:>5} {percent:>3} {median:>10.1} {low:>10.1}-{high:<10.1} {other:>10.1} \
                 {:>+6.1}%{mark}",
                100.0 * part
            );
        }
    }
    near
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(driver) = arguments.first() else { return Err("usage: crosscheck NS3-DRIVER [FLOWS]".into()) };
    let count = arguments.get(1).map_or(Ok(COUNT), |count| count.parse())?;
    let lines = flows(count)?;
    let runs: Vec<_> = (0..RUNS).map(|run| weir(&lines, run)).collect::<Result<_>>()?;
    println!("{count} flows: {RUNS} runs of weir are done; ns-3 takes some minutes");
    let other = ns3(driver, &lines, runs[0].iter().map(|(_, spines)| *spines))?;
    let own: Vec<Vec<Option<SimTime>>> =
        runs.into_iter().map(|run| run.into_iter().map(|(time, _)| time).collect()).collect();
    Ok(if compare(&lines, &own, &other) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
