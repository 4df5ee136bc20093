//! A trace: the same packets, times and control messages through the kernel's programs and through the native host.
//!
//! Problem: the datapath's stages run in the kernel and natively. Approach: [`generate::Generator`] makes a seeded
//! sequence of packets, ticks and writes of the agent. The kernel's programs run on each packet
//! (BPF_PROG_TEST_RUN) with a clock that the test writes (`bpf/replay.bpf.c`). After each event both sides have the
//! same verdict, departure, class, header and feedback, and now and then the same state. At the end each
//! branch of interest has been reached ([`coverage`]).
//!
//! The seed is printed first; WEIR_TRACE_SEED replays a trace, WEIR_TRACE_EVENTS sets its length, and
//! WEIR_TRACE_SNAPSHOTS=1 finds the first event after which the state differs.

mod common;
#[path = "trace/compare.rs"]
mod compare;
#[path = "trace/coverage.rs"]
mod coverage;
#[path = "trace/event.rs"]
mod event;
#[path = "../../../packet/datapath/tests/frames/mod.rs"]
mod frames;
#[path = "trace/generate.rs"]
mod generate;
#[path = "trace/header.rs"]
mod header;
#[path = "trace/kernel.rs"]
mod kernel;
#[path = "trace/native.rs"]
mod native;
#[path = "trace/setup.rs"]
mod setup;
#[path = "trace/side.rs"]
mod side;

use compare::Comparison;
use coverage::Coverage;
use generate::Generator;
use kernel::{Kernel, REPLAY};
use native::Native;
use setup::{HARDWARE, Setup};
use side::Side;
use std::collections::BTreeSet;
use weir_linux::interface::Interface;
use weir_linux::netns::Prefix;

/// The programs that agents load.
static RELEASED: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/weir.bpf.o"));
const EVENTS: u64 = 100_000;
/// Events between two comparisons of the whole state.
const SNAPSHOTS: u64 = 1_000;
const SEED: u64 = 1;

/// A number of the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// The object under test has the programs and the maps of the release by name, and its clock and its tick in addition.
#[test]
fn replayed_object_has_the_programs_and_maps_of_the_released_one() {
    if common::skipped() {
        return;
    }
    let names = |object: &[u8]| {
        let object = aya::Ebpf::load(object).expect("the kernel takes the maps");
        let programs: BTreeSet<String> = object.programs().map(|(name, _)| name.into()).collect();
        let maps: BTreeSet<String> = object.maps().map(|(name, _)| name.into()).collect();
        (programs, maps)
    };
    let ((programs, maps), (mut replayed_programs, mut replayed_maps)) = (names(RELEASED), names(REPLAY));
    assert!(programs.contains("weir_egress") && maps.contains("weir_states"), "{programs:?} {maps:?}");
    assert!(replayed_programs.remove("weir_replay_tick") && replayed_maps.remove("weir_replay_clock"));
    assert_eq!((programs, maps), (replayed_programs, replayed_maps));
}

/// Keeps this thread on one CPU, where the values of per-CPU maps are, and returns its number.
fn stay_on_one_cpu() -> usize {
    // SAFETY: an all-zero set of CPUs is an empty one; the kernel writes and reads sets of this size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0, "read the affinity");
        let cpu = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set)).expect("a processor");
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0, "set the affinity");
        cpu
    }
}

/// Runs `work` in a namespace with an interface on which only the test sends.
fn with_interface<T: Send>(prefix: &str, work: impl FnOnce(Interface) -> T + Send) -> T {
    let prefix = Prefix::new(prefix).expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let netns = prefix.create("a").expect("a namespace");
    let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    netns.run(quiet).expect("enter").expect("IPv6 off");
    let hardware = HARDWARE.map(|byte| format!("{byte:02x}")).join(":");
    netns.ip(["link", "add", "t0", "address", &hardware, "type", "veth", "peer", "name", "t1"]).expect("a pair");
    for end in ["t0", "t1"] {
        netns.ip(["link", "set", end, "up"]).expect("up");
    }
    // Until the kernel announces a carrier, nothing leaves.
    let up = || netns.ip(["link", "show", "t0"]).expect("ip").contains("state UP");
    assert!((0..1000).any(|_| common::later(up())), "the interface is up");
    netns.run(|| work(Interface::named("t0").expect("t0"))).expect("enter")
}

/// Compares the sides on each event of a trace.
fn trace(kernel: &mut Kernel, other: &mut impl Side, setup: &Setup, seed: u64, events: u64) -> Coverage {
    let paces = setup.config.paces != 0;
    let interval = self::number("WEIR_TRACE_SNAPSHOTS", SNAPSHOTS);
    let (mut comparison, mut coverage) = (Comparison::new(), Coverage::default());
    for event in Generator::new(seed, setup.clone()).take(usize::try_from(events).expect("a number of events")) {
        coverage.watch(kernel, &event);
        let outcome = kernel.apply(&event);
        let is_rare = coverage.count(kernel, &event, &outcome, paces);
        let native = other.apply(&event);
        let number = event.number;
        comparison.note(event);
        comparison.equal("the outcome", &outcome, &native);
        if is_rare || number.is_multiple_of(interval) {
            comparison.states(kernel, other);
            coverage.sample(&kernel.state());
        }
    }
    comparison.states(kernel, other);
    coverage.finish(kernel);
    kernel.assert_others_are_unused();
    coverage
}

#[expect(clippy::disallowed_methods, reason = "prints how long a trace takes")]
fn compare_sides(prefix: &str, paces: bool) {
    if common::skipped() {
        return;
    }
    let (seed, events) = (number("WEIR_TRACE_SEED", SEED), number("WEIR_TRACE_EVENTS", EVENTS));
    println!("WEIR_TRACE_SEED={seed} WEIR_TRACE_EVENTS={events}");
    with_interface(prefix, |interface| {
        let cpu = stay_on_one_cpu();
        let setup = Setup::new(paces, aya::util::nr_cpus().expect("the possible processors") as u32);
        let mut kernel = Kernel::load(&setup, &interface, cpu);
        let mut native = Native::new(&setup);
        let begun = std::time::Instant::now();
        let coverage = trace(&mut kernel, &mut native, &setup, seed, events);
        println!("{events} events in {:.2?}", begun.elapsed());
        // A shorter trace need not reach everything.
        if events >= EVENTS {
            coverage.assert_complete(paces);
        }
    });
}

/// With departure times.
#[test]
fn kernel_and_native_hosts_agree_with_departure_times() {
    compare_sides("wttre", true);
}

/// With HTB classes.
#[test]
fn kernel_and_native_hosts_agree_with_classes() {
    compare_sides("wttrh", false);
}
