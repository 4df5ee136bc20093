//! Scenarios: valid files, and every refusal as people see it.

use proptest::prelude::*;
use std::path::Path;
use weir_document::Source;
use weir_network::graph::QueueSpec;
use weir_network::topology::Links;
use weir_policy::{Diagnostics, Policy};
use weir_scenario::{Enforcement, HostOrder, HostQueues, Pattern, Scenario};
use weir_units::{Bytes, Direction, Duration, MachineId};

const POLICY: &str = "
weir: 1
network:
  nic: 1Gb/s
  racks:
    r1: { uplink: 10Gb/s, machines: [\"s[1-10]\"] }
    r2: { uplink: 10Gb/s, machines: [\"d[1-10]\", both] }
    both: { uplink: 10Gb/s, machines: [x1] }
services:
  a: { match: [ { port: 1 } ] }
  inner: { services: { b: { match: [ { port: 2 } ] } } }
";

const GOOD: &str = "scenario: 1
name: test
policy: test.policy.yaml
duration: 60s
links: { delay: 5us, buffer: 100kB, mtu: 9000B, spines: 2 }
traffic:
  - { service: a, from: r1, to: r2, stop: 40s }
  - { service: inner/b, from: [s10, \"s[1-3]\"], to: [d2, d1, d3, d4], pattern: pairs, flows: 3, start: 20s }
measure: { rack: r1, direction: rx, every: 1s }
";

fn read(text: &str) -> Result<Scenario, Diagnostics> {
    let source = Source::from_text("test.scenario.yaml", text);
    Scenario::from_source(&source, Path::new("some"), |path| Policy::parse(&path.display().to_string(), POLICY))
        .map(|(scenario, _)| scenario)
}

fn changed(from: &str, to: &str) -> String {
    let text = GOOD.replace(from, to);
    assert_ne!(text, GOOD, "{from}");
    match read(&text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors.render(false),
    }
}

#[test]
fn reads_every_key() {
    let scenario = read(GOOD).expect("good");
    assert_eq!((scenario.name(), scenario.seed(), scenario.duration()), ("test", 1, Duration::from_secs(60)));
    assert_eq!(scenario.enforcement(), Enforcement::Parley);
    let governed = scenario.governed().expect("a policy");
    assert_eq!(governed.policy_path, Path::new("some/test.policy.yaml"));
    assert_eq!(
        governed.links,
        Some(Links {
            delay: Duration::from_micros(5),
            queue: QueueSpec { buffer: Bytes::new(100_000), ..QueueSpec::default() },
            mtu: Bytes::new(9000),
            spines: 2
        })
    );
    let network = governed.policy.network();
    let id = |name: &str| network.machine_named(name).expect("a machine");
    let [a, b] = scenario.transfers() else { panic!("two flow groups") };
    assert_eq!((a.from.len(), a.to.len(), a.pattern, a.flows), (10, 11, Pattern::FullMesh, 1));
    assert_eq!((a.start, a.stop), (Duration::ZERO, Duration::from_secs(40)));
    assert_eq!((b.start, b.stop), (Duration::from_secs(20), Duration::from_secs(60)));
    assert_eq!(b.from, ["s1", "s2", "s3", "s10"].map(id));
    assert_eq!(b.to, ["d1", "d2", "d3", "d4"].map(id));
    assert_eq!(b.pairs()[3], (id("s10"), id("d4")));
    assert_eq!(governed.measure.direction, Direction::Rx);
    assert_eq!(network.rack(governed.measure.rack).name(), "r1");
}

#[test]
fn hosts_interfaces_are_read_and_their_mistakes_refused() {
    let hosts = |text: &str| GOOD.replace("links:", &format!("hosts: {text}\nlinks:"));
    let read_hosts = |text: &str| read(&hosts(text)).unwrap_or_else(|errors| panic!("{errors}")).hosts().to_owned();
    let kilobytes = |count: u64| Some(Bytes::new(count * 1000));
    assert_eq!(read(GOOD).expect("good").hosts(), &HostQueues::default());
    assert_eq!(
        read_hosts("{ queue: fifo, buffer: 1MB, mark: 97kB, flow-limit: 128kB }"),
        HostQueues {
            order: HostOrder::Fifo { buffer: kilobytes(1000), mark: kilobytes(97) },
            flow_limit: kilobytes(128)
        }
    );
    assert_eq!(read_hosts("fifo").order, HostOrder::Fifo { buffer: None, mark: None });
    assert_eq!(read_hosts("{ flow-limit: 64kB }"), HostQueues { order: HostOrder::Fair, flow_limit: kilobytes(64) });
    assert!(read(&hosts("fifo")).is_ok_and(|scenario| scenario.simulator_only().is_some()));
    let refused: String = [
        "{ buffer: 1MB }",
        "{ queue: fifo, buffer: 9kB }",
        "{ queue: fifo, buffer: 1MB, mark: 1MB }",
        "{ flow-limit: 18kB }",
        "{ queue: lifo }",
    ]
    .map(|text| changed("links:", &format!("hosts: {text}\nlinks:")))
    .concat();
    insta::assert_snapshot!(refused);
}

#[test]
fn a_service_that_sends_where_it_does_not_run_gets_a_remark() {
    let policy = POLICY.replace(
        "a: { match: [ { port: 1 } ] }",
        "a: { match: [ { port: 1 } ], machines: [\"s[2-10]\", \"d[1-10]\", both] }",
    );
    let notes = |text: &str| -> String {
        let source = Source::from_text("test.scenario.yaml", text);
        let read = Scenario::from_source(&source, Path::new("some"), |path| {
            Policy::parse(&path.display().to_string(), &policy)
        });
        let (_, notes) = read.unwrap_or_else(|errors| panic!("{errors}"));
        notes.iter().map(|note| note.render(false)).collect()
    };
    insta::assert_snapshot!(notes(GOOD));
    assert_eq!(notes(&GOOD.replace("from: r1, to: r2, stop", "from: s2, to: r2, stop")), "");
}

#[test]
fn the_scenario_of_fig_14() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/parley-fig14.scenario.yaml");
    let (scenario, notes) = Scenario::read(&path).expect("good");
    assert!(notes.is_empty());
    assert_eq!(scenario.transfers()[0].pairs().len(), 100);
    // `receivers` comes before `senders`.
    assert_eq!(scenario.transfers()[0].pairs()[0], (MachineId(10), MachineId(0)));
    let governed = scenario.governed().expect("a policy");
    assert_eq!(governed.policy.network().rack(governed.measure.rack).name(), "senders");
}

#[test]
fn rates_that_cannot_be_simulated() {
    let refused = |from: &str, to: &str| {
        let policy = POLICY.replace(from, to);
        assert_ne!(policy, POLICY, "{from}");
        let source = Source::from_text("test.scenario.yaml", GOOD);
        let read = Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", &policy));
        read.map(|_| to.to_owned()).expect_err("a rate that cannot be").render(false)
    };
    // Two spines: an uplink of 16 Tb/s is two links that can be simulated.
    assert!(read(GOOD).is_ok());
    insta::assert_snapshot!(
        [
            refused("nic: 1Gb/s", "nic: 9Tb/s"),
            refused("r2: { uplink: 10Gb/s", "r2: { uplink: 20Tb/s"),
            refused("nic: 1Gb/s", "nic: 9kb/s"),
        ]
        .join("\n")
    );
}

macro_rules! refusals {
    ($($name:ident: $from:expr => $to:expr;)*) => { $(
        #[test]
        fn $name() {
            insta::assert_snapshot!(changed($from, $to));
        }
    )* };
}

refusals! {
    version: "scenario: 1" => "scenario: 2";
    name: "name: test" => "name: a/b";
    unknown_key: "duration" => "durration";
    unknown_service: "service: a," => "service: aa,";
    inner_service: "service: a," => "service: inner,";
    unknown_machine: "from: r1" => "from: r3";
    unknown_rack_to_measure: "rack: r1," => "rack: s1,";
    both_a_rack_and_a_machine: "to: r2," => "to: both,";
    no_senders: "from: r1" => "from: []";
    a_sender_twice: "from: r1" => "from: [r1, s3]";
    wide_range: "from: r1" => "from: \"s[1-999999999]\"";
    to_itself: "from: r1, to: r2" => "from: s1, to: s1";
    to_itself_in_pairs: "to: [d2, d1, d3, d4]" => "to: [s2, s1, s3, s10]";
    pairs_of_different_length: "to: [d2, d1, d3, d4]" => "to: [d2, d1]";
    stop_before_start: "start: 20s" => "start: 20s, stop: 20s";
    start_after_the_end: "start: 20s" => "start: 60s";
    stop_after_the_end: "stop: 40s" => "stop: 61s";
    zero_stop: "stop: 40s" => "stop: 0s";
    zero_duration: "duration: 60s" => "duration: 0s";
    long_duration: "duration: 60s" => "duration: 1000000min";
    zero_delay: "delay: 5us" => "delay: 0us";
    long_delay: "delay: 5us" => "delay: 2s";
    mtu_too_small: "mtu: 9000B" => "mtu: 575B";
    mtu_too_large: "mtu: 9000B" => "mtu: 9001B";
    buffer_too_small: "buffer: 100kB" => "buffer: 8999B";
    buffer_too_large: "buffer: 100kB" => "buffer: 1TB";
    no_spines: "spines: 2" => "spines: 0";
    many_spines: "spines: 2" => "spines: 65";
    no_flows: "flows: 3" => "flows: 0";
    many_flows: "stop: 40s" => "flows: 100000";
    pattern: "pattern: pairs" => "pattern: pair";
    enforcement: "links:" => "enforcement: rack\nlinks:";
    seed: "links:" => "seed: -1\nlinks:";
    sample_too_long: "every: 1s" => "every: 61s";
    sample_too_short: "every: 1s" => "every: 1us";
    one_in_brackets: "from: r1" => "from: \"s[3]\"";
    direction: "direction: rx" => "direction: up";
    no_traffic: "traffic:" => "traffic: []\ntrafic:";
    several: "from: r1, to: r2, stop: 40s" => "from: r9, to: both, stop: 400s, flow: 1";
}

#[test]
fn mistakes_of_the_policy_name_its_file() {
    let source = Source::from_text("test.scenario.yaml", GOOD.replace("flows: 3", "flow: 3"));
    let errors = Scenario::from_source(&source, Path::new(""), |path| {
        Policy::parse(&path.display().to_string(), &POLICY.replace("nic: 1Gb/s", "nic: 1"))
    })
    .expect_err("two mistakes");
    insta::assert_snapshot!(errors.render(false));
}

#[test]
fn a_policy_that_is_not_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("test.scenario.yaml");
    std::fs::write(&path, GOOD).expect("written");
    let errors = Scenario::read(&path).expect_err("no policy");
    assert_eq!(errors.all().len(), 1);
    assert!(errors.all()[0].file().ends_with("test.policy.yaml"));
    assert!(errors.all()[0].cause().starts_with("cannot read the file"));
    std::fs::write(directory.path().join("test.policy.yaml"), POLICY).expect("written");
    assert!(Scenario::read(&path).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn mutated_scenarios(changes in proptest::collection::vec((
        any::<prop::sample::Index>(), 0usize..8, prop::sample::select(vec![
        "r1", "s1", "both", "[", "]", "{", "}", ", ", ": ", "\n", "0s", "1s", "9999999min", "pairs",
        "1", "-1", "99999999999",
        "a", "inner", "\u{0}", "*x", "s[1-9]",
    ])), 1..6)) {
        let mut text = GOOD.to_owned();
        for (at, cut, word) in changes {
            let from = text.floor_char_boundary(at.index(text.len() + 1));
            let to = text.ceil_char_boundary((from + cut).min(text.len()));
            text.replace_range(from..to, word);
        }
        match read(&text) {
            Ok(scenario) => {
                for traffic in scenario.transfers() {
                    prop_assert!(!traffic.pairs().is_empty());
                    prop_assert!(traffic.start < traffic.stop && traffic.stop <= scenario.duration());
                }
            }
            Err(errors) => { let _ = errors.render(false); }
        }
    }
}
