//! Writes example pages of an invented run and of an invented sweep:
//! `cargo run -p weir-results --example pages -- DIRECTORY`.

use std::path::PathBuf;
use weir_results::{
    ClassCount, FlowRecord, Group, GroupSample, LinkRecord, LinkSample, Outcome, PointSummary, Results, SizeBins,
    Statistics, page, sweep_page,
};
use weir_units::{Bandwidth, MachineId, SimTime};

/// Numbers between 0 and 1 that look drawn.
struct Drawn(u64);

impl Drawn {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

const HOSTS: u32 = 16;
const TRANSPORTS: [&str; 3] = ["dctcp", "pfabric", "cubic"];

/// A run in which flows take longer the higher the load and the worse the transport.
fn invented(load: f64, badness: f64, seed: u64, flows: u64) -> Results {
    let mut drawn = Drawn(seed * 7_919 + 1);
    let group = |name: &str, transport: &str| Group { name: name.to_owned(), transport: transport.to_owned() };
    let mut results = Results {
        scenario: "websearch".to_owned(),
        seed,
        complete: true,
        simulated: SimTime::from_millis(100),
        counters: [("events".to_owned(), 174_214_881), ("packet_hops".to_owned(), 80_113_204)].into(),
        hosts: (1..=HOSTS).map(|i| format!("h{i}")).collect(),
        groups: vec![group("websearch", "dctcp"), group("incast", "dctcp"), group("backup", "cubic")],
        sample_interval: Some(SimTime::from_micros(100)),
        ..Results::default()
    };
    flow_records(&mut results, &mut drawn, (load, badness), flows);
    link_records(&mut results, &mut drawn, load);
    samples(&mut results, &mut drawn);
    results
}

/// Flows that finish later at a higher load and under a worse transport.
fn flow_records(results: &mut Results, drawn: &mut Drawn, (load, badness): (f64, f64), flows: u64) {
    for id in 0..flows {
        let group = (drawn.next() * 2.2) as u32;
        let bytes = match group {
            0 => (1_500.0 / (1.0 - drawn.next()).powf(1.3)).min(30e6) as u64,
            1 => 20_000,
            _ => (5e6 + 1e7 * drawn.next()) as u64,
        };
        let ideal = SimTime::from_picos(bytes * 800 + 13_000_000);
        let queueing = (badness * 30e6 * load / (1.0 - load)) * -(1.0 - drawn.next()).ln();
        let share = 1.0 + badness * drawn.next() / (1.0 - load);
        let start = SimTime::from_picos((drawn.next() * 1e11) as u64);
        let finished = start + SimTime::from_picos((ideal.picos() as f64 * share + queueing) as u64);
        let finished = Some(finished).filter(|finished| *finished <= results.simulated);
        let deadline = (group == 1).then(|| start + SimTime::from_micros(200));
        let delivered = if finished.is_some() { bytes } else { bytes / 3 };
        let (from, to) = (MachineId(id as u32 % HOSTS), MachineId((id as u32 + 5) % HOSTS));
        let flow =
            FlowRecord { group, bytes, start, finished, ideal, delivered, deadline, ..FlowRecord::new(id, from, to) };
        results.flows.push(flow);
    }
}

/// A link to and from each host.
fn link_records(results: &mut Results, drawn: &mut Drawn, load: f64) {
    for (i, (from, to)) in (1..=HOSTS)
        .flat_map(|i| [(format!("h{i}"), "leaf1".to_owned()), ("leaf1".to_owned(), format!("h{i}"))])
        .enumerate()
    {
        let bytes = (125e6 * load * (0.6 + 0.4 * drawn.next())) as u64;
        let mut classes = [ClassCount::default(); 8];
        classes[0] = ClassCount { bytes, packets: bytes / 1_460, dropped: i as u64 % 3, marked: i as u64 * 17 };
        let ClassCount { packets, dropped, marked, .. } = classes[0];
        let (name, rate) = (format!("{from}->{to}"), Bandwidth::from_gbps(10));
        results.links.push(LinkRecord {
            name,
            rate,
            bytes,
            packets,
            dropped,
            marked,
            classes,
            queue_peak: 97_500 + i as u64 * 1_500,
        });
    }
}

/// Samples of links and groups, each tenth of a millisecond.
fn samples(results: &mut Results, drawn: &mut Drawn) {
    for step in 1..=1_000 {
        let at = SimTime::from_micros(step * 100);
        for link in 0..8 {
            let wave = (step as f64 / 90.0 + f64::from(link)).sin() * 0.2 + 0.6 + 0.15 * drawn.next();
            let queue = (wave * 90_000.0 * drawn.next()) as u64;
            results.link_samples.push(LinkSample {
                at,
                link,
                bytes: (125_000.0 * wave) as u64,
                capacity: 125_000,
                queue,
                queue_peak: queue + 9_000,
                ..LinkSample::default()
            });
        }
        for group in 0..3 {
            let delivered = (800_000.0 * (f64::from(group) + 0.5 + drawn.next())) as u64;
            let squares = u128::from(delivered).pow(2) / (12 + u128::from(step % 3));
            results.group_samples.push(GroupSample { at, group, delivered, active: 16, flows: 16, squares });
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).ok_or("name a directory")?);
    let run = invented(0.6, 1.0, 1, 20_000);
    std::fs::write(
        directory.join("run.html"),
        page(&run, "weir sim scenarios/leafspine-websearch.scenario.yaml --seed 1").to_html(),
    )?;
    let mut points = Vec::new();
    for (i, transport) in TRANSPORTS.into_iter().enumerate() {
        for load in [20, 40, 60, 80] {
            for seed in 1..=5 {
                let run = invented(f64::from(load) / 100.0, 0.4 + i as f64, seed, 3_000);
                let parameters = [("traffic.load", format!("{load} %")), ("traffic.transport", transport.to_owned())];
                let parameters = parameters.into_iter().map(|(path, value)| (path.to_owned(), value)).collect();
                let statistics = Statistics::new(&run, &SizeBins::qjump());
                let outcome = if (i, load, seed) == (2, 80, 4) {
                    Outcome::Failure("killed: no memory".to_owned())
                } else {
                    Outcome::Statistics(Box::new(statistics))
                };
                points.push(PointSummary { parameters, seed, outcome, page: None });
            }
        }
    }
    let command = "weir sim scenarios/leafspine-websearch.scenario.yaml --sweep load=20%,40%,60%,80%";
    std::fs::write(directory.join("sweep.html"), sweep_page("websearch", &points, command).to_html())?;
    Ok(())
}
