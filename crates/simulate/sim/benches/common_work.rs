//! The common work for comparing simulators: packet-hops per second, memory, and how both grow with
//! the network.
//!
//! `make bench-sim`, or `cargo bench -p weir-sim --bench common_work -- [CASE] [--runs N]`. A
//! packet-hop is one packet, data or ACK, crossing one link. Time is the process's user time; each
//! row is the median of the runs. Cases:
//!
//! | case | work |
//! |---|---|
//! | `leafspine` | a leaf-spine's web-search flows under DCTCP, to completion |
//! | `dumbbell` | 16 long DCTCP flows through 10 Gb/s for 0.5 s, links of 1 µs, marking at 65 packets |
//! | `scale` | fat-trees from 16 to 9,826 hosts at the same load per host |
//! | `checked` | the dumbbell and the leaf-spine's first flows with every checker on, against off |
//! | `shaped` | Parley's testbed: 1 MB flows into one rack, with and without shapers |
//! | `levels` | web-search flows under a policy, with its latency level for short flows and without |
//! | `pace` | the leaf-spine's flows under PACE and, over the same routes, under DCTCP |
//! | `policy` | reading and starting a scenario under a policy on a fat-tree of 27,648 hosts |
//! | `instructions` | instructions per packet-hop, counted by callgrind (Debian: `valgrind`) |
//! | `once-leafspine`, `once-dumbbell`, `once-scale`, `once-shaped`, | one run without a table, |
//! | `once-fifo`, `once-strict`, `once-levels`, `once-pace`, `once-beside` | for profilers |
//!
//! `leafspine` reads `data/flows/leafspine144-websearch-load60-20k.csv`: 9 racks of 16 hosts at
//! 10 Gb/s, 4 spines at 40 Gb/s, links of 1 µs, marking at 65 and 260 packets. `shaped` has 9 racks
//! of 10 hosts at 10 Gb/s behind 80 Gb/s, and loads of 60 and 90 Gb/s.

use std::fs::File;
use std::ops::ControlFlow;
use std::process::Command;
use weir_credits::Period;
use weir_document::Source as Text;
use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_policy::{Policy, Sharing};
use weir_scenario::Scenario;
use weir_shaping::MachinePlan;
use weir_sim::checkers::{self, Checkers};
use weir_sim::{
    HostId, Observer, Options, ServiceIndex, ServiceShaper, ShaperConfig, Silent, SimTime, Source, Sources, Stop,
    SwitchId, World, simulate,
};
use weir_transport::{Parameters, dctcp};
use weir_units::{Bandwidth, Bytes, Duration, Load, MachineId, PerDirection};
use weir_workload::{Arrivals, Builtin, FlowList, Framing, Hosts, Random, SizeDistribution, Spec, Transfers, mean_gap};

/// Sizes of the common work: 1500 B on the wire, 1460 B of payload.
const SIZES: Packets = Packets { payload: 1460, headers: 40 };
const FLOWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/flows/leafspine144-websearch-load60-20k.csv");

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The result of a run.
struct Done {
    packet_hops: u64,
    events: u64,
    flows: u64,
    simulated: SimTime,
    /// User time of building the network and reading the flows, and of running, in seconds.
    built: f64,
    ran: f64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut case, mut runs) = ("all".to_owned(), 5);
    while let Some(argument) = arguments.next() {
        if argument == "--runs" {
            runs = arguments.next().ok_or("--runs needs a number")?.parse()?;
        } else {
            case = argument;
        }
    }
    let all = case == "all";
    if all || case == "leafspine" {
        table("leaf-spine, 144 hosts, 20,000 web-search flows at 60 %", runs, || leaf_spine(Silent, usize::MAX))?;
    }
    if all || case == "dumbbell" {
        table("dumbbell, 16 long flows, 0.5 s", runs, || dumbbell(Silent))?;
    }
    if all || case == "scale" {
        for k in [4, 8, 16, 24, 34] {
            table(&format!("fat-tree k = {k}, {} hosts", k * k * k / 4), runs.min(3), || fat_tree(k))?;
        }
    }
    if all || case == "checked" {
        table("dumbbell, checkers off", runs, || dumbbell(Silent))?;
        table("dumbbell, checkers on", runs, || dumbbell(Checkers::default()))?;
        table("leaf-spine, 2,000 flows, checkers off", runs, || leaf_spine(Silent, 2000))?;
        table("leaf-spine, 2,000 flows, checkers on", runs, || leaf_spine(Checkers::default(), 2000))?;
    }
    if all || case == "shaped" {
        for gbps in [60, 90] {
            for shapers in [false, true] {
                let name = format!("testbed at {gbps} Gb/s, {} shapers", if shapers { "with" } else { "without" });
                table(&name, runs, || testbed(gbps, shapers))?;
            }
        }
    }
    if all || case == "levels" {
        for queues in [Queues::Fifo, Queues::Strict, Queues::Levels] {
            table(&format!("leaf-spine under a policy, {}", queues.name()), runs, || levelled(queues))?;
        }
    }
    if all || case == "pace" {
        table("leaf-spine, PACE", runs, || pace(usize::MAX))?;
        table("leaf-spine, DCTCP, symmetric routes", runs, || beside_pace(usize::MAX))?;
    }
    if all || case == "policy" {
        under_a_policy(48)?;
    }
    if all || case == "instructions" {
        instructions("once-leafspine")?;
        instructions("once-dumbbell")?;
        instructions("once-fifo")?;
        instructions("once-strict")?;
        instructions("once-levels")?;
        instructions("once-pace")?;
        instructions("once-beside")?;
    }
    once(&case)
}

/// One run without a table; refuses an unknown case.
fn once(case: &str) -> Result<()> {
    match case {
        "once-leafspine" => print_once(&leaf_spine(Silent, 500)?),
        "once-dumbbell" => print_once(&dumbbell(Silent)?),
        "once-scale" => print_once(&fat_tree(34)?),
        "once-shaped" => print_once(&testbed(90, true)?),
        "once-fifo" => print_once(&levelled(Queues::Fifo)?),
        "once-strict" => print_once(&levelled(Queues::Strict)?),
        "once-levels" => print_once(&levelled(Queues::Levels)?),
        "once-pace" => print_once(&pace(500)?),
        "once-beside" => print_once(&beside_pace(500)?),
        "all" | "leafspine" | "dumbbell" | "scale" | "checked" | "shaped" | "levels" | "pace" | "policy"
        | "instructions" => {}
        other => {
            return Err(format!(
                "no case `{other}`: leafspine, dumbbell, scale, checked, shaped, levels, pace, policy, \
                 instructions"
            )
            .into());
        }
    }
    Ok(())
}

/// The switches' queues of [`levelled`].
#[derive(Debug, Clone, Copy)]
enum Queues {
    /// First in, first out; no levels.
    Fifo,
    /// Strict priorities; no levels.
    Strict,
    /// Strict priorities, and regulators of the level at the hosts.
    Levels,
}

impl Queues {
    fn name(self) -> &'static str {
        match self {
            Self::Fifo => "first in, first out",
            Self::Strict => "strict priorities",
            Self::Levels => "a latency level",
        }
    }
}

/// Web-search flows at 60 % of 144 hosts under a policy: those of up to 10 kB belong to a service on a level.
fn levelled(queues: Queues) -> Result<Done> {
    let began = user_seconds()?;
    let discipline = if matches!(queues, Queues::Fifo) { "ecn" } else { "strict-priority" };
    let policy = format!(
        "weir: 1\nnetwork: {{ topology: leaf-spine, racks: 9, hosts: 16, spines: 4, host-link: {{ rate: 10Gb/s, delay: \
         1us }}, fabric-link: {{ rate: 40Gb/s, delay: 1us }}, queue: {{ discipline: {discipline}, buffer: 8MB, mark: \
         97500B }}, packets: {{ payload: 1460B, headers: 40B }}, switches: {{ scheduler: strict }} }}\nlevels: {{ \
         factors: [28], framing: 0B }}\nservices:\n  short: {{ match: [ {{ port: 1 }} ], level: 1 }}\n  long: {{ \
         match: [ {{ port: 2 }} ] }}\n"
    );
    let enforcement = if matches!(queues, Queues::Levels) { "levels" } else { "none" };
    let scenario = format!(
        "scenario: 1\nname: levels\npolicy: p.yaml\nduration: 100ms\nenforcement: {enforcement}\nhosts: {{ queue: \
         fair, flow-limit: 3kB }}\ntransport: {{ protocol: dctcp, min-rto: 10ms, delayed-ack: 1 }}\ntraffic: [ {{ \
         kind: random, service: long, from: all, to: all, sizes: websearch, load: 60%, flows: 500, by-size: [ {{ \
         up-to: 10kB, service: short }} ] }} ]\nmeasure: {{ rack: leaf0, direction: tx, every: 10ms }}\n"
    );
    let source = Text::from_text("levels", scenario);
    let (scenario, _) = Scenario::from_source(&source, "".as_ref(), |_| Policy::parse("p.yaml", &policy))?;
    let built = user_seconds()?;
    let results = simulate(&scenario, 1, &Options { check: false }, &mut |_| ControlFlow::Continue(()))?.results;
    let (packet_hops, events) = (results.counters["packet_hops"], results.counters["events"]);
    let (flows, simulated, ran) = (results.flows.len() as u64, results.simulated, user_seconds()? - built);
    Ok(Done { packet_hops, events, flows, simulated, built: built - began, ran })
}

/// Reads a policy on a fat-tree of k-port switches and a scenario under it with machine shapers and brokers, starts it,
/// and prints the times.
fn under_a_policy(k: u32) -> Result<()> {
    let policy = format!(
        "weir: 1\nnetwork: {{ topology: fat-tree, k: {k}, host-link: {{ rate: 10Gb/s }} }}\nservices:\n  \
         a: {{ match: [ {{ port: 1 }} ], rack: {{ min: 10Gb/s }} }}\n  b: {{ match: [ {{ port: 2 }} ] }}\n"
    );
    let scenario = "scenario: 1\nname: large\npolicy: p.yaml\nduration: 1us\n\
        traffic: [ { service: a, from: h0, to: h1 } ]\nmeasure: { rack: edge0, direction: tx, every: 1us }\n";
    let began = user_seconds()?;
    let source = Text::from_text("large", scenario);
    let (scenario, _) = Scenario::from_source(&source, "".as_ref(), |_| Policy::parse("p.yaml", &policy))?;
    let read = user_seconds()?;
    simulate(&scenario, 1, &Options { check: false }, &mut |_| ControlFlow::Continue(()))?;
    let (hosts, ended) = (scenario.graph().hosts.len(), user_seconds()?);
    println!(
        "fat-tree k = {k}, {hosts} hosts, with a policy\n    read in {:.2} s, built and run for 1 us in {:.2} s; \
         {:.0} MB at most",
        read - began,
        ended - read,
        peak_megabytes()?
    );
    Ok(())
}

fn print_once(done: &Done) {
    println!("{} packet-hops, {} events", done.packet_hops, done.events);
}

/// Runs a case and prints its row.
fn table(name: &str, runs: usize, run: impl Fn() -> Result<Done>) -> Result<()> {
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..runs.max(1) {
        let done = run()?;
        times.push(done.ran);
        last = Some(done);
    }
    times.sort_by(f64::total_cmp);
    let (Some(done), median) = (last, times[times.len() / 2]) else { return Ok(()) };
    let hops = done.packet_hops as f64;
    println!(
        "{name}\n    {:.1} M packet-hops in {median:.2} s: {:.2} M/s, {:.1} ns each ({:.2} to {:.2} s); {:.2} \
         events each; \
         {} flows; {:.3} s simulated; {:.0} MB at most; built in {:.2} s",
        hops / 1e6,
        hops / 1e6 / median,
        median * 1e9 / hops,
        times[0],
        times[times.len() - 1],
        done.events as f64 / hops,
        done.flows,
        done.simulated.picos() as f64 / 1e12,
        peak_megabytes()?,
        done.built,
    );
    Ok(())
}

/// Counts the instructions of a case by running this program under callgrind. The counts are the
/// steadiest figure: they do not depend on the machine's other load.
fn instructions(case: &str) -> Result<()> {
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .arg(case)
        .output();
    let output = match counted {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("{case}: instructions are not counted, since valgrind is not installed");
            return Ok(());
        }
        other => other?,
    };
    let (out, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let number = |text: &str, before: &str| -> Option<f64> {
        text.split(before).nth(1)?.split_whitespace().next()?.replace(',', "").parse().ok()
    };
    let counted = number(&log, "Collected :").ok_or_else(|| format!("callgrind counted nothing:\n{log}"))?;
    let hops: f64 = out.split_whitespace().next().ok_or("the case printed nothing")?.parse()?;
    println!(
        "{case}\n    {:.0} instructions per packet-hop ({:.2} G over {:.2} M)",
        counted / hops,
        counted / 1e9,
        hops / 1e6
    );
    Ok(())
}

/// The process's user time (Linux: clock ticks of 1/100 s, field 14 of `/proc/self/stat`).
fn user_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().ok_or("no fields")?;
    let ticks: u64 = fields.split_whitespace().nth(11).ok_or("no user time")?.parse()?;
    Ok(ticks as f64 / 100.0)
}

/// The most memory that the process had (`VmHWM`).
fn peak_megabytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes / 1e3)
}

/// A link of 1 µs that marks above `packets` full packets and has room for four times as many.
fn link(gbps: u64, packets: u64) -> LinkSpec {
    let (mark, buffer) = (Some(Bytes::new(packets * 1500)), Bytes::new(4 * packets * 1500));
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer, mark };
    LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue }
}

/// DCTCP with an acknowledgement for every packet and a minimal timeout of 10 ms, as htsim has
/// them.
fn transport() -> Parameters {
    let mut parameters = dctcp::Parameters::default();
    parameters.tcp.delayed_ack = 1;
    parameters.tcp.min_rto = SimTime::from_millis(10);
    Parameters::Dctcp(parameters)
}

fn source(workload: Spec) -> Source {
    let (transport, index) = (transport(), ServiceIndex(0));
    Source {
        workload,
        transport,
        index,
        priority: 0,
        spread: SimTime::ZERO,
        service: None,
        connections: None,
        by_size: Vec::new(),
        quotas: None,
    }
}

/// Runs until every flow is over, or to the limit.
fn run<O: Observer>(world: &mut World<O>, mut sources: Sources, limit: SimTime, began: f64) -> Result<Done> {
    world.set_short_host_queues();
    let built = user_seconds()?;
    loop {
        let due = sources.next().unwrap_or(SimTime::NEVER).min(limit);
        if due == SimTime::NEVER && sources.is_done() {
            break;
        }
        if world.run_until(due) == Stop::Over {
            while let Some(flow) = world.next_over() {
                sources.on_over(flow, world);
            }
        } else if world.now() >= limit {
            break;
        } else {
            sources.start_due(world)?;
        }
        if sources.is_done() {
            break;
        }
    }
    let counters = world.counters();
    let flows = sources.progress().0;
    let (packet_hops, events, simulated) = (counters.packet_hops, counters.events, world.now());
    let ran = user_seconds()? - built;
    Ok(Done { packet_hops, events, flows, simulated, built: built - began, ran })
}

fn leaf_spine<O: Observer + Finish>(observer: O, flows: usize) -> Result<Done> {
    leaf_spine_of(observer, flows, None)
}

/// The leaf-spine under another transport, with symmetric routing.
fn leaf_spine_of<O: Observer + Finish>(observer: O, flows: usize, transport: Option<Parameters>) -> Result<Done> {
    let began = user_seconds()?;
    let mut world = World::new(0, SIZES, observer);
    let spines: Vec<SwitchId> = (0..4).map(|_| world.add_switch()).collect();
    // Forwarders need 2 · R · p.
    let link = |gbps, packets| {
        let mut link = link(gbps, packets);
        link.queue.buffer = Bytes::new(link.queue.buffer.get() * if transport.is_some() { 8 } else { 1 });
        link
    };
    for _ in 0..9 {
        let leaf = world.add_switch();
        for _ in 0..16 {
            world.add_host(leaf, link(10, 65), link(10, 65));
        }
        for &spine in &spines {
            world.connect(leaf, spine, link(40, 260), link(40, 260));
        }
    }
    if transport.is_some() {
        world.set_symmetric_routing();
    }
    world.compute_routes();
    let list = if flows == usize::MAX {
        FlowList::read(File::open(FLOWS)?, SIZES.payload, FlowList::numbered(144))?
    } else {
        let text = std::fs::read_to_string(FLOWS)?;
        let text: String = text.lines().take(flows + 1).flat_map(|line| [line, "\n"]).collect();
        FlowList::read(text.as_bytes(), SIZES.payload, FlowList::numbered(144))?
    };
    let mut source = source(Spec::List(list));
    source.transport = transport.unwrap_or(source.transport);
    let done = run(&mut world, Sources::new(vec![source], 1, None), SimTime::NEVER, began)?;
    O::finish(&world);
    Ok(done)
}

/// The leaf-spine of forwarders: PACE's ports and senders, with the periods that the buffers hold.
fn pace(flows: usize) -> Result<Done> {
    let max_period = Period::from_micros(1_200);
    let parameters = weir_transport::pace::Parameters { max_period, ..Default::default() };
    leaf_spine_of(Silent, flows, Some(Parameters::Pace(parameters)))
}

/// The same under DCTCP, with the same routes.
fn beside_pace(flows: usize) -> Result<Done> {
    leaf_spine_of(Silent, flows, Some(transport()))
}

fn dumbbell<O: Observer + Finish>(observer: O) -> Result<Done> {
    let began = user_seconds()?;
    let mut world = World::new(0, SIZES, observer);
    let (left, right) = (world.add_switch(), world.add_switch());
    let from: Vec<HostId> = (0..16).map(|_| world.add_host(left, link(10, 65), link(10, 65))).collect();
    let to: Vec<HostId> = (0..16).map(|_| world.add_host(right, link(10, 65), link(10, 65))).collect();
    world.connect(left, right, link(10, 65), link(10, 65));
    world.compute_routes();
    let pairs = from.iter().zip(&to).map(|(from, to)| (MachineId(from.0), MachineId(to.0))).collect();
    let end = SimTime::from_millis(500);
    let transfers = Transfers::pairs(pairs)?.times(SimTime::ZERO, SimTime::from_micros(100), end)?;
    let done = run(&mut world, Sources::new(vec![source(Spec::Transfers(transfers))], 1, None), end, began)?;
    O::finish(&world);
    Ok(done)
}

/// A fat-tree of 10 Gb/s links; web-search flows between random hosts at 40 % for about 25 million
/// packet-hops.
fn fat_tree(k: u32) -> Result<Done> {
    let began = user_seconds()?;
    let mut world = World::new(0, SIZES, Silent);
    let half = k / 2;
    let cores: Vec<SwitchId> = (0..half * half).map(|_| world.add_switch()).collect();
    let mut hosts = 0;
    for _ in 0..k {
        let above: Vec<SwitchId> = (0..half).map(|_| world.add_switch()).collect();
        for (row, &aggregation) in above.iter().enumerate() {
            for &core in &cores[row * half as usize..(row + 1) * half as usize] {
                world.connect(aggregation, core, link(10, 65), link(10, 65));
            }
        }
        for _ in 0..half {
            let edge = world.add_switch();
            for &aggregation in &above {
                world.connect(edge, aggregation, link(10, 65), link(10, 65));
            }
            for _ in 0..half {
                world.add_host(edge, link(10, 65), link(10, 65));
                hosts += 1;
            }
        }
    }
    world.compute_routes();
    let sizes = Builtin::WebSearch.sizes();
    let wire = sizes.mean_wire_bytes(Framing::new(SIZES.payload, SIZES.headers)?);
    let capacity = Bandwidth::from_gbps(10 * u64::from(hosts));
    let gap = mean_gap(Load::from_fraction(0.4)?, capacity, wire)?;
    let hosts = Hosts::first(hosts)?;
    // Enough flows that the network is as loaded as it will be, and that the time can be measured.
    let random = Random::new(hosts.clone(), hosts.clone(), Arrivals::Poisson, gap, sizes)?;
    let at_most = (25_000_000.0 / (wire / 1500.0 * 11.0)) as u64;
    let random = random.at_most(at_most.max(hosts.len() as u64))?;
    run(&mut world, Sources::new(vec![source(Spec::Random(random))], 1, None), SimTime::NEVER, began)
}

/// Parley's testbed (Fig 11): messages of 1 MB from 80 hosts to the ten of one rack for 50 ms.
fn testbed(gbps: u64, shapers: bool) -> Result<Done> {
    let began = user_seconds()?;
    let mut world = World::new(1, SIZES, Silent);
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(512_000), mark: Some(Bytes::new(80_000)) };
    let link = |gbps: u64| LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(2), queue };
    let spines = [world.add_switch(), world.add_switch()];
    for _ in 0..9 {
        let leaf = world.add_switch();
        for _ in 0..10 {
            world.add_host(leaf, link(10), link(10));
        }
        for spine in spines {
            world.connect(leaf, spine, link(40), link(40));
        }
    }
    world.compute_routes();
    world.set_jitter(SimTime::from_nanos(1200), 1);
    if shapers {
        let plan = MachinePlan::of_list(
            Sharing::Fill,
            PerDirection::both(Bandwidth::from_gbps(10)),
            &[PerDirection::default()],
        );
        let plan = std::sync::Arc::new(plan);
        world.set_shapers(ShaperConfig {
            sharing: Sharing::Fill,
            services: vec![ServiceShaper::default()],
            machines: vec![plan; 90],
            ..ShaperConfig::default()
        });
    }
    let hosts = |from: u32, to: u32| Hosts::new((from..to).map(MachineId).collect(), "hosts");
    let sizes = SizeDistribution::fixed(1_000_000)?;
    let wire = sizes.mean_wire_bytes(Framing::new(SIZES.payload, SIZES.headers)?);
    let gap = mean_gap(Load::from_fraction(0.5)?, Bandwidth::from_gbps(2 * gbps), wire)?;
    let end = SimTime::from_millis(50);
    let random =
        Random::new(hosts(10, 90)?, hosts(0, 10)?, Arrivals::Poisson, gap, sizes)?.times(SimTime::ZERO, end)?;
    let mut source = source(Spec::Random(random));
    source.transport = Parameters::default();
    run(&mut world, Sources::new(vec![source], 1, None), end, began)
}

/// The action of an observer at the end of a run.
trait Finish: Sized {
    fn finish(world: &World<Self>);
}
impl Finish for Silent {
    fn finish(_: &World<Self>) {}
}
impl Finish for Checkers {
    fn finish(world: &World<Self>) {
        checkers::check(world);
    }
}
