//! The cost of parts of the datapath: parsing and classifying a packet by so many rules, the
//! limiter, and a change of a class's rate.
//!
//! `cargo bench -p weir-linux --bench parts`, as root. Per packet as the kernel measures it
//! (`BPF_PROG_TEST_RUN`), per change in real time. The cost of a packet in the whole programs is in
//! `cost.rs`.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../../../packet/datapath/tests/frames/mod.rs"]
mod frames;

use aya::Ebpf;
use aya::maps::Array;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use bytemuck::TransparentWrapper;
use common::{Cable, interface, skipped};
use frames::{SETS, frame_of};
use std::time::{Duration, Instant};
use weir_datapath::Classifier;
use weir_datapath::abi::{Step, Table};
use weir_linux::class::Sending;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::VERDICT_OBJECT;
use weir_linux::maps::Value;
use weir_linux::shaper::{ServiceRate, Shaper};
use weir_policy::{Match, Protocol};
use weir_units::{Bandwidth, ServiceId, Weight};

const PACKETS: u32 = 1_000_000;
const RUNS: u32 = 20;
const NIC: Bandwidth = Bandwidth::from_gbps(2);

fn load(name: &str) -> Ebpf {
    let mut object = Ebpf::load(VERDICT_OBJECT).expect("the kernel takes the object");
    let program: &mut SchedClassifier = object.program_mut(name).expect(name).try_into().expect("a classifier");
    program.load().unwrap_or_else(|error| panic!("the verifier takes {name}: {error:?}"));
    object
}

fn run(object: &mut Ebpf, name: &str, frame: &[u8], repeat: u32) -> Duration {
    let program: &mut SchedClassifier = object.program_mut(name).expect(name).try_into().expect("a classifier");
    let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
    let result = program.test_run(options).expect("a run");
    assert_eq!(result.return_value, 0);
    result.duration
}

fn set_rules(object: &mut Ebpf, filters: &[Match]) {
    let classifier = Classifier::new((0..).map(ServiceId).zip(filters), None).expect("supported");
    let mut table = bytemuck::zeroed_box::<Table>();
    table.index = *classifier.index();
    let map = object.map_mut("weir_tables").expect("a map");
    let mut tables = Array::<_, Value<Table>>::try_from(map).expect("the sizes agree");
    tables.set(0, Value::wrap_ref(&*table), 0).expect("rules");
}

/// The least of several averages: other load on the machine only adds.
fn cost(object: &mut Ebpf, frame: &[u8]) -> Duration {
    (0..RUNS).map(|_| run(object, "weir_verdict", frame, PACKETS / RUNS)).min().expect("runs")
}

/// Parsing and classification of a packet of the last filter at its destination, and of one that no filter
/// matches, with so many filters of each kind.
fn classification() {
    let mut object = load("weir_verdict");
    let none = frame_of(&Match { address: "192.168.7.7".parse().ok(), ..Match::default() });
    for (name, filter) in SETS {
        for count in [1, 20, 256, 4096] {
            // The last filters of a set, so that the same kind of packet is measured whatever their number.
            let filters: Vec<Match> = (4096 - count..4096).map(filter).collect();
            set_rules(&mut object, &filters);
            let last = cost(&mut object, &frame_of(&filters[count as usize - 1]));
            println!("{count} filters, {name}: the last {last:?}, none {:?}", cost(&mut object, &none));
        }
    }
    let filters: Vec<Match> = (0..256).map(|priority| Match { priority: Some(priority), ..by_linear() }).collect();
    for count in [1, 8, 64, 256] {
        set_rules(&mut object, &filters[..count]);
        println!("{count} filters that no field indexes: none {:?}", cost(&mut object, &none));
    }
}

/// A filter whose fields are compared.
fn by_linear() -> Match {
    Match { protocol: Some(Protocol::TCP), ..Match::default() }
}

fn limiter() {
    let mut limit = load("weir_limit");
    let first = Step { now: 1, rate: 1_000_000_000, bytes: 1500, set: 1 };
    run(&mut limit, "weir_limit", bytemuck::bytes_of(&first), 1);
    let step = Step { rate: 0, set: 0, ..first };
    println!("limiter: {:?} per packet", run(&mut limit, "weir_limit", bytemuck::bytes_of(&step), PACKETS));
}

fn rate(service: u32, max: u64) -> ServiceRate {
    let max = Bandwidth::from_mbps(max);
    ServiceRate {
        service: ServiceId(service),
        slot: service,
        min: Bandwidth::ZERO,
        max,
        machine_max: max,
        static_limit: max,
        weight: Weight::ONE,
    }
}

fn changes() {
    const ROUNDS: u64 = 20;
    let cable = Cable::new("c2");
    for count in [1u32, 100, 1000] {
        let rates = |max: u64| (0..count).map(|i| rate(i, max)).collect::<Vec<_>>();
        let install = || {
            let sending = Sending::over(&interface()).expect("offloads");
            Box::new(HtbShaper::install(&interface(), NIC, &rates(100), &[], &[], sending, false).expect("install"))
        };
        let mut shaper = cable.a.run(install).expect("enter");
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let start = Instant::now();
        for round in 0..ROUNDS {
            shaper.set(&rates(100 + round % 2)).expect("set");
        }
        let each = start.elapsed() / (ROUNDS as u32 * count);
        println!("{count} classes in one batch: {each:?} per change");
        shaper.remove().expect("remove");
    }
}

fn main() {
    if skipped() {
        return;
    }
    classification();
    limiter();
    changes();
}
