//! The headers inside the kernel against the same headers called natively: packet for packet, step for step.

mod common;
#[path = "../../../packet/datapath/tests/frames/mod.rs"]
mod frames;

use aya::Ebpf;
use aya::maps::Array;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use bytemuck::TransparentWrapper;
use frames::{Random, SETS, filters, frame, frame_of};
use weir_credits::{Allocation, Period, Published, Return};
use weir_datapath::abi::{
    self, CreditGateStep, CreditOutcome, CreditStep, Found, HAS_GUEST, HAS_VNI, LevelStep, PoliceStep, Step, Table,
    UNCLASSIFIED,
};
use weir_datapath::{
    Classifier, CreditFlow, CreditGate, CreditPort, CreditPortSettings, LevelRegulator, Limiter, PoliceVerdict,
    Policer, level_rules,
};
use weir_linux::loader::VERDICT_OBJECT;
use weir_linux::maps::Value;
use weir_policy::{Match, Tunnels};
use weir_shaping::LevelLimits;
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId, Weight};

fn load(name: &str) -> Ebpf {
    let mut object = Ebpf::load(VERDICT_OBJECT).expect("the kernel takes the object");
    let program: &mut SchedClassifier = object.program_mut(name).expect(name).try_into().expect("a classifier");
    program.load().unwrap_or_else(|error| panic!("the verifier takes {name}: {error:?}"));
    object
}

/// Of a frame with these globs over interfaces of guests.
fn run_with(object: &mut Ebpf, name: &str, frame: &[u8], interfaces: [u16; 3]) {
    /// Offset of `cb` in the kernel's `struct __sk_buff`.
    const CB: usize = 48;
    let mut context = [0u8; 192];
    for (word, glob) in context[CB..].chunks_exact_mut(4).zip(interfaces) {
        word.copy_from_slice(&u32::from(glob).to_ne_bytes());
    }
    let program: &mut SchedClassifier = object.program_mut(name).expect(name).try_into().expect("a classifier");
    let options = TestRunOptions { data_in: Some(frame), ctx_in: Some(&context), repeat: 1, ..TestRunOptions::new() };
    let result = program.test_run(options).unwrap_or_else(|error| panic!("{error:?} on {frame:02x?}"));
    assert_eq!(result.return_value, 0);
}

fn run(object: &mut Ebpf, name: &str, frame: &[u8]) {
    let program: &mut SchedClassifier = object.program_mut(name).expect(name).try_into().expect("a classifier");
    let options = TestRunOptions { data_in: Some(frame), repeat: 1, ..TestRunOptions::new() };
    let result = program.test_run(options).unwrap_or_else(|error| panic!("{error:?} on {frame:02x?}"));
    assert_eq!(result.return_value, 0);
}

/// BPF_PROG_TEST_RUN itself refuses frames without a whole Ethernet header, or without a whole IP header
/// directly behind it. Behind a VLAN tag it takes them, so that cut headers are compared there.
fn runnable(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        None => false,
        Some([0x08, 0x00]) => frame.len() >= 34,
        Some([0x86, 0xdd]) => frame.len() >= 54,
        Some(_) => true,
    }
}

fn set_rules(object: &mut Ebpf, classifier: &Classifier) {
    let mut table = bytemuck::zeroed_box::<Table>();
    table.index = *classifier.index();
    let map = object.map_mut("weir_tables").expect("a map");
    let mut tables = Array::<_, Value<Table>>::try_from(map).expect("the sizes agree");
    tables.set(0, Value::wrap_ref(&*table), 0).expect("rules");
}

#[test]
fn kernel_and_native_verdicts_agree() {
    if common::skipped() {
        return;
    }
    let seed = 0x5eed_0002;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut object = load("weir_verdict");
    let (mut compared, mut classified, mut malformed, mut in_tunnels) = (0, 0, 0, 0);
    for (round, count) in [1, 2, 5, 20, 100, 256].into_iter().enumerate() {
        let filters = filters(&mut random, count);
        let classifier = Classifier::new(filters.iter().map(|(s, f)| (*s, f)), None).expect("supported");
        // Other ports in each second round: two of them are among those of the frames.
        let others = Tunnels::new(vec![443, 4789, 5555, 7099], vec![80, 8472]).expect("different ports");
        let classifier = if round % 2 == 0 { classifier } else { classifier.with_tunnels(&others) };
        set_rules(&mut object, &classifier);
        for _ in 0..4000 {
            let frame = frame(&mut random);
            if !runnable(&frame) {
                continue;
            }
            run(&mut object, "weir_verdict", &frame);
            let map = object.map("weir_found").expect("a map");
            let Value(kernel): Value<Found> =
                Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("a result");
            let native = classifier.packet(&frame);
            assert_eq!(kernel.parsed == 1, native.is_some(), "{frame:02x?}");
            if let Some(native) = native {
                assert_eq!(kernel.packet, native, "{frame:02x?}");
            }
            let service = classifier.classify(&frame).map_or(UNCLASSIFIED, |service| service.0);
            assert_eq!(kernel.service, service, "{frame:02x?}");
            compared += 1;
            classified += u32::from(service != UNCLASSIFIED);
            malformed += u32::from(native.is_none());
            in_tunnels += u32::from(native.is_some_and(|packet| packet.has & HAS_VNI != 0));
        }
    }
    println!("{compared} frames, {classified} classified, {malformed} malformed, {in_tunnels} with a VNI");
    assert!(compared > 20_000 && classified > compared / 4 && malformed > compared / 50 && in_tunnels > compared / 100);
}

/// Thousands of filters of each kind: frames with the fields of each tenth filter, in both directions.
#[test]
fn kernel_and_native_verdicts_of_large_sets_agree() {
    if common::skipped() {
        return;
    }
    let mut object = load("weir_verdict");
    for (name, filter) in SETS {
        let filters: Vec<Match> = (0..4096).map(filter).collect();
        let classifier = Classifier::new((0..).map(ServiceId).zip(&filters), None).expect("supported");
        set_rules(&mut object, &classifier);
        for filter in filters.iter().step_by(10) {
            let frame = frame_of(filter);
            let mut reply = frame.clone();
            let (addresses, length) = if frame[12] == 8 { (26, 4) } else { (22, 16) };
            reply[addresses..addresses + 2 * length].rotate_left(length);
            reply[addresses + 2 * length..addresses + 2 * length + 4].rotate_left(2);
            for frame in [frame, reply] {
                run(&mut object, "weir_verdict", &frame);
                let map = object.map("weir_found").expect("a map");
                let Value(kernel): Value<Found> =
                    Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("a result");
                let native = classifier.classify(&frame);
                assert_eq!(kernel.service, native.map_or(UNCLASSIFIED, |service| service.0), "{name}: {frame:02x?}");
                // A VNI is in packets to a tunnel's port: a reply's source port is not of a tunnel.
                assert!(native.is_some() || filter.vni.is_some(), "{name}: {frame:02x?}");
            }
        }
    }
}

/// One sequence of packets of guests, of hosts, and of guests without a matching glob, by filters of interfaces among
/// others.
#[test]
fn kernel_and_native_verdicts_of_guests_agree() {
    if common::skipped() {
        return;
    }
    let seed = 0x5eed_0009;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut object = load("weir_verdict");
    let (mut compared, mut by_guest) = (0, 0);
    for count in [3, 20, 200] {
        let mut filters = filters(&mut random, count);
        for (_, filter) in &mut filters {
            let glob = ["", "tap*", "*3", "tap3", "veth?"][random.below(5) as usize];
            filter.interface = (!glob.is_empty()).then(|| glob.to_owned());
        }
        let classifier = Classifier::new(filters.iter().map(|(s, f)| (*s, f)), Some("eth0")).expect("supported");
        set_rules(&mut object, &classifier);
        for _ in 0..2000 {
            let frame = frame(&mut random);
            if !runnable(&frame) {
                continue;
            }
            let name = ["tap1", "tap3", "veth3", "eth1"][random.below(4) as usize];
            let interfaces = classifier.globs_of_guest(name, None).expect("three at most");
            run_with(&mut object, "weir_verdict", &frame, interfaces);
            let map = object.map("weir_found").expect("a map");
            let Value(kernel): Value<Found> =
                Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("a result");
            let service = classifier.packet(&frame).and_then(|mut packet| {
                packet.interfaces = interfaces;
                packet.has |= if interfaces[0] == 0 { 0 } else { HAS_GUEST };
                assert_eq!(kernel.packet, packet, "{frame:02x?}");
                classifier.classify_packet(&packet)
            });
            assert_eq!(kernel.service, service.map_or(UNCLASSIFIED, |service| service.0), "{name}: {frame:02x?}");
            compared += 1;
            by_guest += u32::from(service != classifier.classify(&frame));
        }
    }
    println!("{compared} frames, {by_guest} of another service than without their guest");
    assert!(compared > 4_000 && by_guest > compared / 8);
}

#[test]
fn kernel_and_native_departures_agree() {
    if common::skipped() {
        return;
    }
    let seed = 0x5eed_0003;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut object = load("weir_limit");
    let mut native = Limiter::new(Bandwidth::UNLIMITED, Bytes::ZERO);
    let mut now = 0u64;
    for _ in 0..20_000 {
        now += random.next() >> random.pick(&[30, 40, 50, 60]);
        let rate = random.pick(&[0, 1_000, 999_983, 1_000_000_007, 40_000_000_000, 1_000_000_000_000]);
        let bytes = random.below(65_537);
        let set = random.one_in(50);
        if set {
            let rate = if rate == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(rate) };
            native.set_rate(Instant::from_nanos(now), rate);
        }
        let expected = native.departure(Instant::from_nanos(now), Bytes::new(bytes)).nanos();
        let step = Step { now, rate, bytes: bytes as u32, set: set.into() };
        run(&mut object, "weir_limit", bytemuck::bytes_of(&step));
        let map = object.map("weir_departed").expect("a map");
        let kernel: u64 = Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("a result");
        assert_eq!(kernel, expected, "at {now}, {bytes} B");
    }
}

/// One sequence of packets, ticks and limits through the kernel and through what the simulator calls.
#[test]
fn kernel_and_native_policers_agree() {
    if common::skipped() {
        return;
    }
    let seed = 0x5eed_0004;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut object = load("weir_police_step");
    let mut native = Policer::default();
    let (mut now, mut limit, mut found) = (0u64, 0, [0; 3]);
    for _ in 0..30_000 {
        // Mean distances from 2 us to 0.5 s: floods, traffic near the limits, and pauses.
        now += random.next() >> random.pick(&[36, 46, 46, 50, 52]);
        if random.one_in(1000) {
            limit = random.pick(&[0, 10_000, 999_983, 20_000_000, 1_000_000_007, 8_000_000_000_000]);
        }
        let followed = if random.one_in(4) { random.below(1_000_000) } else { 0 };
        let (bytes, segments, ect) = (64 + random.below(65_537) as u32, 1 + random.below(45) as u32, random.one_in(2));
        let (interval, passed) = (Duration::from_millis(2), random.below(100_000));
        let (rate, at) =
            (if limit == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(limit) }, Instant::from_nanos(now));
        native.tick(at, rate, interval, Bytes::new(followed), Bytes::new(passed));
        let expected = match native.police(at, Bytes::new(bytes.into()), segments, ect) {
            PoliceVerdict::Pass => abi::POLICE_PASS,
            PoliceVerdict::Mark => abi::POLICE_MARK,
            PoliceVerdict::Drop => abi::POLICE_DROP,
        };
        let interval = interval.nanos();
        let step = PoliceStep { now, limit, interval, followed, passed, bytes, segments, ect: ect.into(), reserved: 0 };
        run(&mut object, "weir_police_step", bytemuck::bytes_of(&step));
        let verdict: u64 = Array::try_from(object.map("weir_departed").expect("a map"))
            .expect("the sizes agree")
            .get(&0, 0)
            .expect("a result");
        let Value(kernel): Value<abi::Policer> = Array::try_from(object.map("weir_policers").expect("a map"))
            .expect("the sizes agree")
            .get(&0, 0)
            .expect("a policer");
        assert_eq!((verdict, &kernel), (expected.into(), native.raw()), "at {now}, {step:?}");
        found[expected as usize] += 1;
    }
    println!("{found:?} packets passed, were marked and dropped");
    assert!(found.iter().all(|count| *count > 100), "{found:?}");
}

/// One sequence of packets through the kernel's regulator and the simulator's, in both forms.
#[test]
fn kernel_and_native_regulators_agree() {
    if common::skipped() {
        return;
    }
    let seed = 0x5eed_0005;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for epoch in [None, Some(Duration::from_micros(354))] {
        let limits = LevelLimits {
            rate: Bandwidth::from_bps(104_166_666),
            burst: Bytes::new(3 * 1_538),
            epoch,
            packet: Bytes::new(1_538),
            framing: Bytes::new(24),
            dscp: 46,
        };
        let queue = Bytes::new(40_000);
        let mut object = load("weir_level_step");
        let map = object.map_mut("weir_regulator_rules").expect("a map");
        let rules = Value(level_rules(&limits, queue));
        Array::try_from(map).expect("the sizes agree").set(0, rules, 0).expect("rules");
        let mut native = LevelRegulator::new(&limits, queue);
        let (mut now, mut dropped, mut waited) = (0u64, 0, 0);
        for _ in 0..20_000 {
            // Mean distances from 2 us to 2 ms: more than the level takes, and pauses.
            now += random.next() >> random.pick(&[44, 46, 48, 54]);
            // Mostly frames; super-packets, which exceed the burst.
            let frames = if random.one_in(50) { 1 + random.below(44) as u32 } else { 1 };
            let bytes = frames * (60 + random.below(1_455) as u32);
            let expected = native.departure(Instant::from_nanos(now), bytes, frames).map_or(u64::MAX, Instant::nanos);
            run(
                &mut object,
                "weir_level_step",
                bytemuck::bytes_of(&LevelStep { now, bytes, no_type: 0, frames: frames.into() }),
            );
            let map = object.map("weir_departed").expect("a map");
            let kernel: u64 = Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("a result");
            assert_eq!(kernel, expected, "at {now}, {bytes} B in {frames}");
            dropped += u32::from(kernel == u64::MAX);
            waited += u32::from(kernel != u64::MAX && kernel > now);
        }
        let map = object.map("weir_regulators").expect("a map");
        let Value(kernel): Value<abi::Level> = Array::try_from(map).expect("the sizes agree").get(&0, 0).expect("it");
        assert_eq!(&kernel, native.raw());
        println!("{dropped} dropped, {waited} waited, {} of excess size", kernel.oversize);
        assert!(dropped > 100 && waited > 1_000 && kernel.oversize > 100);
    }
}

/// The only or the `index`th value of a map of the test programs.
fn value<T: bytemuck::Pod>(object: &Ebpf, name: &str, index: u32) -> T {
    let Value(value): Value<T> =
        Array::try_from(object.map(name).expect(name)).expect("the sizes agree").get(&index, 0).expect("a value");
    value
}

fn set_value<T: bytemuck::Pod>(object: &mut Ebpf, name: &str, value: &T) {
    let map = object.map_mut(name).expect(name);
    let mut values = Array::<_, Value<T>>::try_from(map).expect("the sizes agree");
    values.set(0, Value::wrap_ref(value), 0).expect("a value");
}

/// The numbers of steps through kernel and native code.
fn steps(all: u32) -> u32 {
    if common::quick() { all / 10 } else { all }
}

/// Sums of queueing end at 2³² - 1 us.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.nanos() / 1000).unwrap_or(u32::MAX)
}

/// The fields of an allocation in the C code.
fn raw(of: &Allocation) -> abi::Allocation {
    abi::Allocation {
        clock: of.clock,
        period: of.period.micros(),
        longest: of.longest.micros(),
        potential: of.potential.get() as u32,
        demand: of.demand.get() as u32,
        allocation: of.allocation.get() as u32,
        weight: of.weight.thousandths(),
        queueing: micros(of.queueing),
    }
}

fn raw_return(of: &Return) -> abi::Returned {
    abi::Returned {
        clock: of.clock,
        period: of.period.micros(),
        longest: of.longest.micros(),
        potential: of.potential.get() as u32,
        allocation: of.allocation.get() as u32,
        queueing: micros(of.queueing),
    }
}

/// An allocation with a clock that is the next one, an earlier one, or far from these.
fn random_allocation(random: &mut Random, newest: u32) -> Allocation {
    let back = if random.one_in(8) { random.below(20) as u32 } else { 0 };
    let clock = if random.one_in(200) { random.next() as u32 } else { newest.wrapping_add(1).wrapping_sub(back) };
    let mut bytes = || {
        let most = random.pick(&[20_000, 60_000, 1 << 32]);
        Bytes::new(random.below(most))
    };
    let (potential, demand, allocation) = (bytes(), bytes(), bytes());
    let most = random.pick(&[300, 2_000, 20_000]);
    Allocation {
        clock,
        period: Period::from_micros(random.below(most) as u32),
        longest: Period::from_micros(random.below(most) as u32),
        potential,
        demand,
        allocation,
        weight: Weight::from_thousandths(1 + random.below(4_000) as u32).expect("in range"),
        queueing: Duration::from_micros(random.below(2_000)),
    }
}

/// The values that come back: mostly of the last allocation as it left the port, reduced by later ports.
fn random_return(random: &mut Random, last: &Allocation) -> Return {
    let back = if random.one_in(8) { random.below(20) as u32 } else { 0 };
    let cut = if random.one_in(2) { 0 } else { random.below(last.allocation.get() + 1) };
    let longer = if random.one_in(8) { random.below(5_000) as u32 } else { 0 };
    Return {
        clock: last.clock.wrapping_sub(back),
        period: Period::from_micros(last.period.micros() + longer),
        longest: last.longest,
        potential: last.potential,
        allocation: Bytes::new(last.allocation.get() - cut),
        queueing: last.queueing + Duration::from_micros(random.below(1_000)),
    }
}

/// Publishes other values, or none; rarely the port restarts or its rate changes.
fn publish(random: &mut Random, port: &mut CreditPort, now: u64) {
    let micros = random.pick(&[300, 2_000, 10_000]);
    port.publish(&Published {
        per_weight: random.next() >> random.pick(&[16, 18, 27, 30]),
        rest: if random.one_in(2) { 0 } else { random.next() as u32 },
        period: Period::from_micros(random.below(micros) as u32),
        longest: Period::from_micros(random.below(micros) as u32),
    });
    if random.one_in(20) {
        port.set_rate(Bandwidth::from_bps(random.pick(&[999_983, 1_000_000_007, 100_000_000_000, 1 << 44])));
    }
    if random.one_in(20) {
        port.close_until(Instant::from_nanos(now + random.below(2_000_000)));
    }
}

/// One event at a credit port.
struct CreditEvent {
    kind: u32,
    now: u64,
    allocation: Allocation,
    returned: Return,
    queued: u32,
    bytes: u32,
}

impl CreditEvent {
    fn new(random: &mut Random, now: u64, newest: u32, last: Option<Allocation>) -> Self {
        let kind = random.pick(&[0, 1, 1, 1, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 6, 7, 7]);
        let allocation = random_allocation(random, newest);
        let returned = random_return(random, &last.unwrap_or(allocation));
        let (queued, bytes) = (random.below(60_000) as u32, random.pick(&[66, 128, 1_514, 9_000, 65_536]));
        Self { kind, now, allocation, returned, queued, bytes }
    }

    /// The event as the kernel's program reads it.
    fn step(&self, flow: usize) -> CreditStep {
        let &Self { kind, now, ref allocation, ref returned, queued, bytes } = self;
        let (allocation, returned) = (raw(allocation), raw_return(returned));
        CreditStep { now, kind, flow: flow as u32, bytes, queued, allocation, returned, ..CreditStep::default() }
    }

    /// Passes the event at a port. Returns whether data is dropped.
    fn apply(&mut self, port: &mut CreditPort, flow: &mut CreditFlow) -> bool {
        let (now, bytes) = (Instant::from_nanos(self.now), Bytes::new(self.bytes.into()));
        match self.kind {
            abi::CREDIT_STEP_ALLOCATE | abi::CREDIT_STEP_ASTRAY => {
                let direct = self.kind == abi::CREDIT_STEP_ALLOCATE;
                port.allocate(flow, &mut self.allocation, now, Bytes::new(self.queued.into()), direct);
            }
            abi::CREDIT_STEP_RETURN => port.on_return(flow, &self.returned, now),
            abi::CREDIT_STEP_DATA => return port.on_data(flow, bytes, now),
            abi::CREDIT_STEP_UNKNOWN => return port.on_unknown_data(bytes, now),
            abi::CREDIT_STEP_TERMINATE => port.terminate(flow, now),
            abi::CREDIT_STEP_REQUEST => port.on_request(flow, self.allocation.clock),
            _ => {}
        }
        false
    }
}

/// One sequence of allocations, returns, data, terminations and requests through the kernel's port and the simulator's.
#[test]
fn kernel_and_native_credit_ports_agree() {
    if common::skipped() {
        return;
    }
    const FLOWS: usize = abi::CREDIT_STEP_FLOWS as usize;
    let seed = 0x5eed_0006;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut object = load("weir_credit_step");
    let most = Period::from_micros(5_100);
    let settings = CreditPortSettings { rate: Bandwidth::from_gbps(10), most, lossless: true };
    let mut port = CreditPort::new(&settings).with_whole_frames(Bytes::new(1_514));
    let mut flows = vec![CreditFlow::default(); FLOWS];
    // Half of the flows begin near the end of clocks.
    let mut newest: [u32; FLOWS] = std::array::from_fn(|flow| if flow < FLOWS / 2 { 0 } else { u32::MAX - 100 });
    let mut last = [None; FLOWS];
    let (mut now, mut kinds) = (0u64, [0u32; 8]);
    for at in 0..steps(100_000) {
        // Mean distances from 2 us to 0.5 ms, and sometimes more than the wheel; a clock that is behind.
        now += random.next() >> random.pick(&[46, 46, 48, 48, 54]);
        now += if random.one_in(2_000) { random.below(300_000_000) } else { 0 };
        let now = if random.one_in(20) { now - random.below(now.min(100_000) + 1) } else { now };
        if at == 0 || random.one_in(50) {
            publish(&mut random, &mut port, now);
            set_value(&mut object, "weir_credit_port_rules", port.rules());
        }
        let flow = random.below(FLOWS as u64) as usize;
        let mut event = CreditEvent::new(&mut random, now, newest[flow], last[flow]);
        let (kind, step, state) = (event.kind, event.step(flow), &mut flows[flow]);
        let dropped = event.apply(&mut port, state);
        if [abi::CREDIT_STEP_ALLOCATE, abi::CREDIT_STEP_ASTRAY].contains(&kind) {
            last[flow] = Some(event.allocation);
        }
        if kind == abi::CREDIT_STEP_ALLOCATE {
            newest[flow] = state.raw().newest;
        }
        run(&mut object, "weir_credit_step", bytemuck::bytes_of(&step));
        let outcome: CreditOutcome = value(&object, "weir_credit_outcomes", 0);
        assert_eq!((outcome.allocation, outcome.dropped), (raw(&event.allocation), dropped.into()), "{at}: {step:?}");
        let kernel: abi::CreditFlow = value(&object, "weir_credit_flows", flow as u32);
        assert_eq!(&kernel, state.raw(), "{at}: {step:?}");
        let kernel = value::<abi::CreditPortState>(&object, "weir_credit_ports", 0).port;
        assert!(&kernel == port.raw(), "{at}: {step:?}: {:?} and {:?}", kernel.counters, port.counters());
        kinds[kind as usize] += 1;
    }
    println!("{kinds:?} events of each kind, {:?}", port.counters());
    let counted = port.counters().each();
    assert!(counted.iter().all(|(_, _, count)| *count > 0), "{counted:?}");
}

/// One sequence of allocations, frames and returns through the kernel's gate and the native one.
#[test]
fn kernel_and_native_credit_gates_agree() {
    if common::skipped() {
        return;
    }
    let seed = 0x5eed_0007;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut object = load("weir_credit_gate_step");
    let mut gate = CreditGate::new(Instant::from_nanos(5), Bytes::new(1_514));
    set_value(&mut object, "weir_credit_gates", gate.raw());
    let (mut now, mut left, mut waited, mut returned) = (5u64, 0, 0, 0);
    for at in 0..steps(100_000) {
        now += random.next() >> random.pick(&[46, 50, 54]);
        let kind = 1 + random.pick(&[0, 1, 1, 2, 2, 2, 2, 2, 2, 3]);
        let allocation = random_allocation(&mut random, gate.raw().clock);
        let bytes = random.pick(&[66, 700, 1_514, 40_000]);
        let (time, of) = (Instant::from_nanos(now), Bytes::new(bytes.into()));
        let expected = match kind {
            abi::CREDIT_GATE_STEP_ALLOCATE => u64::from(gate.on_allocation(time, &allocation, of)),
            abi::CREDIT_GATE_STEP_OFFER => {
                gate.offer(of);
                0
            }
            abi::CREDIT_GATE_STEP_DEPART => gate.departure(time, of).map_or(u64::MAX, Instant::nanos),
            _ => u64::from(gate.take_return().is_some()),
        };
        let step = CreditGateStep { now, kind, no_type: 0, bytes, reserved: 0, allocation: raw(&allocation) };
        run(&mut object, "weir_credit_gate_step", bytemuck::bytes_of(&step));
        let result: u64 = value(&object, "weir_departed", 0);
        assert_eq!(result, expected, "{at}: {step:?}");
        let kernel: abi::CreditGate = value(&object, "weir_credit_gates", 0);
        assert_eq!(&kernel, gate.raw(), "{at}: {step:?}");
        left += u32::from(kind == abi::CREDIT_GATE_STEP_DEPART && result != u64::MAX);
        waited += u32::from(kind == abi::CREDIT_GATE_STEP_DEPART && result == u64::MAX);
        returned += u32::from(kind == abi::CREDIT_GATE_STEP_RETURN && result != 0);
    }
    println!("{left} frames left, {waited} waited, {returned} returns");
    assert!(left > 500 && waited > 500 && returned > 100);
}
