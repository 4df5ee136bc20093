//! The cost of parts of the datapath: parsing and classifying a packet by so many rules, the
//! limiter, the credit port, and a change of a class's rate.
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
use weir_credits::{Allocation, Period, Published, Return, WHOLE};
use weir_datapath::abi::{self, CreditGateStep, CreditOutcome, CreditStep, Step, Table};
use weir_datapath::{Classifier, CreditFlow, CreditGate, CreditPort, CreditPortSettings};
use weir_linux::class::Sending;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::VERDICT_OBJECT;
use weir_linux::maps::Value;
use weir_linux::shaper::{ServiceRate, Shaper};
use weir_policy::{Match, Protocol};
use weir_units::{Bandwidth, Bytes, ServiceId, Weight};

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

fn set_value<T: bytemuck::Pod>(object: &mut Ebpf, name: &str, value: &T) {
    let map = object.map_mut(name).expect(name);
    let mut values = Array::<_, Value<T>>::try_from(map).expect("the sizes agree");
    values.set(0, Value::wrap_ref(value), 0).expect("a value");
}

const FRAME: Bytes = Bytes::new(1_514);
/// p of ports whose flow gets an allocation each period, and of those with one that lasts for a whole run.
const SHORT: Period = Period::from_micros(200);
const LONG: Period = Period::from_micros(10_000);

/// A port of 100 Gb/s at which a flow has this part.
fn credit_port(period: Period, part: u64) -> CreditPort {
    let settings = CreditPortSettings { rate: Bandwidth::from_gbps(100), most: period, lossless: true };
    let mut port = CreditPort::new(&settings).with_whole_frames(FRAME);
    port.publish(&Published { per_weight: (WHOLE << 16) / 1000 / part, rest: 0, period, longest: period });
    port
}

/// All of the port in 10 ms.
fn allocation(clock: u32, period: Period) -> Allocation {
    let (bytes, queueing) = (Bytes::new(125_000_000), weir_units::Duration::ZERO);
    let (potential, demand, allocation, weight, longest) = (bytes, bytes, bytes, Weight::ONE, period);
    Allocation { clock, period, longest, potential, demand, allocation, weight, queueing }
}

/// The return of an allocation from which no port has cut.
fn whole_return(clock: u32, period: Period) -> Return {
    let Allocation { longest, potential, queueing, .. } = allocation(clock, period);
    Return { clock, period, longest, potential, allocation: Bytes::new(u32::MAX.into()), queueing }
}

fn raw_allocation(clock: u32, period: Period) -> abi::Allocation {
    let (bytes, period) = (125_000_000, period.micros());
    let (potential, demand, allocation, longest) = (bytes, bytes, bytes, period);
    abi::Allocation { clock, period, longest, potential, demand, allocation, weight: 1000, queueing: 0 }
}

/// An event after the first allocation.
fn credit_event(kind: u32, period: Period, gap: u64) -> CreditStep {
    let returned = abi::Returned {
        clock: 1,
        period: period.micros(),
        longest: period.micros(),
        potential: 0,
        allocation: u32::MAX,
        queueing: 0,
    };
    let allocation = raw_allocation(2, period);
    CreditStep { now: gap, kind, gap, bytes: FRAME.get() as u32, allocation, returned, ..CreditStep::default() }
}

/// The time of an event after the first allocation, which gets this part of the port, and its return, in the kernel.
fn credit_step(object: &mut Ebpf, period: Period, part: u64, step: &CreditStep) -> Duration {
    let port = credit_port(period, part);
    let allocation = raw_allocation(1, period);
    let first = CreditStep { kind: abi::CREDIT_STEP_ALLOCATE, allocation, ..CreditStep::default() };
    let once = |object: &mut Ebpf| {
        set_value(object, "weir_credit_port_rules", port.rules());
        set_value(object, "weir_credit_ports", &abi::CreditPortState { port: *port.raw(), ..Default::default() });
        set_value(object, "weir_credit_flows", CreditFlow::default().raw());
        run(object, "weir_credit_step", bytemuck::bytes_of(&first), 1);
        run(object, "weir_credit_step", bytemuck::bytes_of(&credit_event(abi::CREDIT_STEP_RETURN, period, 0)), 1);
        set_value(object, "weir_credit_outcomes", &CreditOutcome::default());
        let time = run(object, "weir_credit_step", bytemuck::bytes_of(step), PACKETS / RUNS);
        let map = object.map("weir_credit_ports").expect("a map");
        let Value(kernel): Value<abi::CreditPortState> =
            Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("a port");
        let counters = kernel.port.counters;
        let runs = u64::from(PACKETS / RUNS);
        let arrived = if step.kind == abi::CREDIT_STEP_DATA { runs * FRAME.get() } else { 0 };
        assert_eq!(counters.arrived, arrived, "{counters:?}");
        let is_new = [abi::CREDIT_STEP_ALLOCATE, abi::CREDIT_STEP_ROUND].contains(&step.kind);
        let allocations = if is_new { runs + 1 } else { 1 };
        // 100 Gb/s are 12,500 B in 1 us. Shares round up.
        let each = u64::from(period.micros()) * 12_500 / part;
        let all = kernel.port.outstanding + counters.arrived + counters.expired + counters.released;
        assert!((each..=each + 1).contains(&(all / allocations)), "{counters:?}");
        assert_eq!(counters.late + counters.stale + counters.too_long, 0, "{counters:?}");
        time
    };
    (0..RUNS).map(|_| once(object)).min().expect("runs")
}

/// The least average time in ns of a call in this program, over as many calls as in the kernel.
fn native<State>(prepare: impl Fn() -> State, call: impl Fn(&mut State, weir_units::Instant, u32), gap: u64) -> f64 {
    let once = || {
        let mut state = prepare();
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let start = Instant::now();
        for index in 1..=PACKETS / RUNS {
            call(&mut state, weir_units::Instant::from_nanos(u64::from(index) * gap), index);
        }
        let time = start.elapsed().as_nanos() as f64 / f64::from(PACKETS / RUNS);
        std::hint::black_box(&state);
        time
    };
    std::iter::repeat_with(once).take(RUNS as usize).fold(f64::INFINITY, f64::min)
}

/// The events of a credit port and a frame at a gate: in the kernel, where the test program takes the time of
/// "no event" by itself, and in this program. Allocations are 200 us apart, a slot and a half of the wheel; other
/// events 0.1 us.
fn credits() {
    let mut object = load("weir_credit_step");
    let prepare = |period: Period, part: u64| {
        move || {
            let (mut port, mut flow, mut first) =
                (credit_port(period, part), CreditFlow::default(), allocation(1, period));
            port.allocate(&mut flow, &mut first, weir_units::Instant::ZERO, Bytes::ZERO, true);
            port.on_return(&mut flow, &whole_return(1, period), weir_units::Instant::ZERO);
            (port, flow)
        }
    };
    let none = credit_step(&mut object, LONG, 1, &credit_event(abi::CREDIT_STEP_NONE, LONG, 100));
    println!("credit port, no event: {none:?}");
    let allocate = credit_event(abi::CREDIT_STEP_ALLOCATE, SHORT, 200_000);
    let kernel = credit_step(&mut object, SHORT, 20, &allocate);
    let call = |(port, flow): &mut (CreditPort, CreditFlow), now, index: u32| {
        let mut allocation = allocation(index + 1, SHORT);
        port.allocate(flow, &mut allocation, now, Bytes::ZERO, true);
    };
    println!("credit port, allocation: {kernel:?}; native {:.1} ns", native(prepare(SHORT, 20), call, 200_000));
    let round = credit_event(abi::CREDIT_STEP_ROUND, SHORT, 200_000);
    let kernel = credit_step(&mut object, SHORT, 20, &round);
    let call = |(port, flow): &mut (CreditPort, CreditFlow), now, index: u32| {
        let mut allocation = allocation(index + 1, SHORT);
        port.allocate(flow, &mut allocation, now, Bytes::ZERO, true);
        port.on_return(flow, &whole_return(index + 1, SHORT), now);
    };
    println!(
        "credit port, allocation and return: {kernel:?}; native {:.1} ns",
        native(prepare(SHORT, 20), call, 200_000)
    );
    let kernel = credit_step(&mut object, LONG, 1, &credit_event(abi::CREDIT_STEP_DATA, LONG, 100));
    let call = |(port, flow): &mut (CreditPort, CreditFlow), now, _: u32| assert!(!port.on_data(flow, FRAME, now));
    println!("credit port, packet of data: {kernel:?}; native {:.1} ns", native(prepare(LONG, 1), call, 100));
    gate();
}

fn gate() {
    let mut object = load("weir_credit_gate_step");
    let prepare = || {
        let mut gate = CreditGate::new(weir_units::Instant::ZERO, FRAME);
        assert!(gate.on_allocation(weir_units::Instant::ZERO, &allocation(1, LONG), Bytes::ZERO));
        gate
    };
    let mut cost = |kind| {
        let once = |object: &mut Ebpf| {
            set_value(object, "weir_credit_gates", prepare().raw());
            let step = CreditGateStep { kind, bytes: FRAME.get() as u32, ..CreditGateStep::default() };
            run(object, "weir_credit_gate_step", bytemuck::bytes_of(&step), PACKETS / RUNS)
        };
        (0..RUNS).map(|_| once(&mut object)).min().expect("runs")
    };
    println!("credit gate, no event: {:?}", cost(0));
    let kernel = cost(abi::CREDIT_GATE_STEP_DEPART);
    let call = |gate: &mut CreditGate, now, _: u32| assert!(gate.departure(now, FRAME).is_some());
    println!("credit gate, departure of a frame: {kernel:?}; native {:.1} ns", native(prepare, call, 100));
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
    credits();
    changes();
}
