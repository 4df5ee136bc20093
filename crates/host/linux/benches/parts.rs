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
use common::{Cable, interface, skipped};
use frames::{Random, filters};
use std::time::{Duration, Instant};
use weir_datapath::abi::{Rule, Step, Table};
use weir_datapath::{Classifier, starts};
use weir_linux::class::Sending;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::VERDICT_OBJECT;
use weir_linux::maps::Value;
use weir_linux::shaper::{ServiceRate, Shaper};
use weir_units::{Bandwidth, ServiceId, Weight};

const PACKETS: u32 = 1_000_000;
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

fn set_rules(object: &mut Ebpf, rules: &[Rule]) {
    let mut table = Table { count: rules.len() as u32, starts: starts(rules), ..Table::default() };
    table.rules[..rules.len()].copy_from_slice(rules);
    let map = object.map_mut("weir_tables").expect("a map");
    Array::try_from(map).expect("the sizes agree").set(0, Value(table), 0).expect("rules");
}

fn classification() {
    let mut random = Random(1);
    let mut object = load("weir_verdict");
    // No filter matches what follows: every rule is tried.
    let tcp: Vec<u8> = [
        [0; 12].as_slice(),
        &[8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2],
        &[0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    for count in [0, 1, 16, 256] {
        let mut rules = Vec::new();
        while rules.len() < count {
            let more = filters(&mut random, 256);
            let one = |(service, filter): &(_, _)| Classifier::new([(*service, filter)], None).expect("supported");
            let unmatched = more.iter().map(one).filter(|classifier| classifier.classify(&tcp).is_none());
            rules.extend(unmatched.map(|classifier| classifier.rules()[0]));
        }
        rules.truncate(count);
        set_rules(&mut object, &rules);
        println!("{count} rules: {:?} per packet", run(&mut object, "weir_verdict", &tcp, PACKETS));
    }
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
