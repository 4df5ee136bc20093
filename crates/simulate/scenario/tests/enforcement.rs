//! Enforcement of a policy, and its events during a run: valid files, and every refusal as people
//! see it.

use std::path::Path;
use weir_document::{Diagnostics, Source};
use weir_policy::Policy;
use weir_scenario::{
    BrokerRule, BrokerSet, BrokerSettings, ControlChange, Enforcement, Scenario, ShaperSettings, Stale,
};
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, MachineId};

const POLICY: &str = "
weir: 1
network:
  nic: 1Gb/s
  racks:
    r1: { uplink: 10Gb/s, machines: [\"s[1-10]\"] }
    r2: { uplink: 10Gb/s, machines: [\"d[1-10]\"] }
services:
  a: { match: [ { port: 1 } ], machine: { min: 100Mb/s } }
  b: { match: [ { port: 2 } ], fabric: { max: 20Mb/s } }
";

const GOOD: &str = "scenario: 1
name: test
policy: test.policy.yaml
duration: 60s
enforcement: parley
shaper: { interval: 500us, burst: 32kB }
brokers: { period: 500ms, timeout: 2s, fabric-period: 5s, fabric-timeout: 20s, stale: forget, fabric: s2,
           rule: published }
traffic:
  - { service: a, from: r1, to: r2 }
events:
  - { at: 30s, policy: services.b.fabric.max=100Mb/s }
  - { at: 40s, do: restart, broker: [s1, fabric, r2] }
  - { at: 20s, policy: services.b.fabric.max=50Mb/s }
  - { at: 20s, policy: \"services.a.machine.weight=3\" }
  - { at: 10s, shaper-interval: 1ms }
  - { at: 10s, do: crash, broker: \"s[1-2]\" }
  - { at: 12s, do: crash, broker: fabric }
  - { at: 50s, link: \"s1->r1\", rate: 100Mb/s }
measure: { rack: r2, direction: rx, every: 1s }
";

fn read(text: &str) -> Result<Scenario, Diagnostics> {
    let source = Source::from_text("test.scenario.yaml", text);
    Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", POLICY))
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
    let scenario = read(GOOD).unwrap_or_else(|errors| panic!("{errors}"));
    let governed = scenario.governed().expect("a policy");
    assert_eq!(governed.enforcement, Enforcement::Parley);
    let shaper = ShaperSettings { interval: Some(Duration::from_micros(500)), burst: Some(Bytes::new(32_000)) };
    assert_eq!(governed.shaper, shaper);
    let brokers = BrokerSettings {
        period: Duration::from_millis(500),
        timeout: Duration::from_secs(2),
        fabric_period: Duration::from_secs(5),
        fabric_timeout: Duration::from_secs(20),
        stale: Stale::Forget,
        rule: BrokerRule::Published,
        fabric: MachineId(1),
    };
    assert_eq!(governed.brokers, brokers);
    // The link's event is one of the network.
    assert_eq!((scenario.events().len(), scenario.events()[0].at), (1, Duration::from_secs(50)));
    let at: Vec<u64> = governed.events.iter().map(|event| event.at.nanos() / 1_000_000_000).collect();
    assert_eq!(at, [10, 10, 12, 20, 20, 30, 40]);
    let changes: Vec<&ControlChange> = governed.events.iter().map(|event| &event.change).collect();
    assert_eq!(changes[0], &ControlChange::ShaperInterval(Duration::from_millis(1)));
    let machines = vec![MachineId(0), MachineId(1)];
    assert_eq!(changes[1], &ControlChange::Crash(BrokerSet { machines, fabric: false }));
    assert_eq!(changes[2], &ControlChange::Crash(BrokerSet { machines: vec![], fabric: true }));
    let machines = [0].into_iter().chain(10..20).map(MachineId).collect();
    assert_eq!(changes[6], &ControlChange::Restart(BrokerSet { machines, fabric: true }));
}

/// Changes add up in the order of time, for any order in the file.
#[test]
fn a_policy_changes_step_by_step() {
    let scenario = read(GOOD).unwrap_or_else(|errors| panic!("{errors}"));
    let of = |policy: &Policy| {
        let service = |name| policy.services().get(policy.services().named(name).expect("a service"));
        let max = service("b").share(ContentionPoint::Fabric, Direction::Tx).max;
        (max, service("a").share(ContentionPoint::Machine, Direction::Tx).weight.to_string())
    };
    let governed = scenario.governed().expect("a policy");
    let mut policies = vec![of(&governed.policy)];
    for event in &governed.events {
        if let ControlChange::Policy(change) = &event.change {
            policies.push(of(&change.policy));
        }
    }
    let expected = [(20, "1"), (50, "1"), (50, "3"), (100, "3")]
        .map(|(max, weight)| (Bandwidth::from_mbps(max), weight.to_owned()));
    assert_eq!(policies, expected);
}

#[test]
fn missing_keys_have_parleys_values() {
    let brief = |text: &str| {
        let scenario = read(text).unwrap_or_else(|errors| panic!("{errors}"));
        let governed = scenario.governed().expect("a policy");
        (governed.enforcement, governed.shaper, governed.brokers, governed.events.len())
    };
    let start = GOOD.find("enforcement").expect("the key");
    let end = GOOD.find("traffic").expect("the key");
    let text = GOOD.replace(&GOOD[start..end], "");
    assert_eq!(brief(&text), (Enforcement::Parley, ShaperSettings::default(), BrokerSettings::default(), 7));
    // Parley's ratios hold for other periods.
    let text = text.replace("traffic:", "brokers: { period: 100ms }\ntraffic:");
    let brokers = BrokerSettings {
        period: Duration::from_millis(100),
        timeout: Duration::from_millis(500),
        fabric_period: Duration::from_secs(1),
        fabric_timeout: Duration::from_secs(5),
        ..BrokerSettings::default()
    };
    assert_eq!(brief(&text).2, brokers);
    for (word, enforcement) in
        [("none", Enforcement::None), ("shaper", Enforcement::Shaper), ("eyeq", Enforcement::EyeQ)]
    {
        assert_eq!(brief(&GOOD.replace("enforcement: parley", &format!("enforcement: {word}"))).0, enforcement);
        assert_eq!(enforcement.word(), word);
    }
}

#[test]
fn the_lab_reports_missing_features() {
    let under = |policy: &str, text: &str| {
        let source = Source::from_text("test.scenario.yaml", text);
        let read = Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", policy));
        let (scenario, _) = read.unwrap_or_else(|errors| panic!("{errors}"));
        scenario.simulator_only().map(str::to_owned)
    };
    let why = |text: &str| under(&POLICY.replace(", fabric: { max: 20Mb/s }", ""), text);
    let own = |line: &&str| !["shaper:", "brokers:", "           rule:"].iter().any(|key| line.starts_with(key));
    let quiet: String =
        GOOD.split("events:").next().expect("a half").lines().filter(own).flat_map(|l| [l, "\n"]).collect();
    let quiet = quiet + "measure: { rack: r2, direction: rx, every: 1s }\n";
    assert_eq!(why(&quiet), None);
    assert_eq!(why(&quiet.replace("parley", "none")), None);
    assert_eq!(why(&quiet.replace("parley", "shaper")), None);
    let warns = |text: &str, what: &str| {
        let why = why(text);
        assert!(why.as_deref().is_some_and(|why| why.contains(what)), "{why:?} instead of {what}");
    };
    assert!(under(POLICY, &quiet).is_some_and(|why| why.contains("no fabric broker")));
    warns(&quiet.replace("parley", "eyeq"), "not EyeQ's");
    warns(&(quiet.clone() + "shaper: { interval: 1ms }\n"), "intervals and bursts from the policy");
    warns(&(quiet.clone() + "brokers: { period: 100ms }\n"), "`brokers` sets another");
    warns(&(quiet.clone() + "transport: { protocol: udp, burst: 2 }\n"), "bursts or times of its own");
    assert_eq!(why(&(quiet.clone() + "transport: { protocol: udp, rate: 1Gb/s }\n")), None);
    assert_eq!(why(&(quiet.clone() + "links: { queue: { discipline: ecn, buffer: 256kB, mark: 30kB } }\n")), None);
    assert!(why(GOOD).is_some());
}

/// Events of brokers without brokers, of the fabric's under a policy that does not limit the
/// fabric, shapers without an effect.
#[test]
fn keys_without_an_effect_get_a_remark() {
    let notes = |text: &str, policy: &str| {
        let source = Source::from_text("test.scenario.yaml", text);
        let read = Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", policy));
        let (_, notes) = read.unwrap_or_else(|errors| panic!("{errors}"));
        notes.iter().map(|note| note.render(false)).collect::<String>()
    };
    assert_eq!(notes(GOOD, POLICY), "");
    let none = GOOD.replace("enforcement: parley", "enforcement: none");
    let eyeq = GOOD.replace("enforcement: parley", "enforcement: eyeq").replace("  - { at: 40s", "  # - { at: 40s");
    insta::assert_snapshot!(notes(&none, POLICY) + "\n" + &notes(&eyeq, POLICY));
    // The fabric's limits may come by an event.
    let silent = POLICY.replace(", fabric: { max: 20Mb/s }", "");
    assert_eq!(notes(GOOD, &silent), "");
    let never: String = GOOD.lines().filter(|line| !line.contains("fabric.max")).map(|l| l.to_owned() + "\n").collect();
    assert_eq!(notes(&never, POLICY), "");
    insta::assert_snapshot!("the_fabric_without_a_limit", notes(&never, &silent));
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
    an_old_keyword: "enforcement: parley" => "enforcement: rack-broker";
    another_keyword: "enforcement: parley" => "enforcement: parly";
    short_interval: "interval: 500us" => "interval: 10ns";
    small_burst: "burst: 32kB" => "burst: 1kB";
    long_interval_later: "shaper-interval: 1ms" => "shaper-interval: 2s";
    short_period: "period: 500ms" => "period: 500us";
    timeout_below_the_period: "timeout: 2s, f" => "timeout: 100ms, f";
    fabric_timeout_below_its_period: "fabric-timeout: 20s" => "fabric-timeout: 2s";
    stale: "stale: forget" => "stale: forgotten";
    no_such_machine: "fabric: s2" => "fabric: s22";
    no_such_broker: "broker: \"s[1-2]\"" => "broker: s0";
    the_fabric_twice: "broker: [s1, fabric, r2]" => "broker: [fabric, s1, fabric]";
    no_broker: "do: crash, broker: fabric" => "do: crash";
    a_link_that_crashes: "do: crash, broker: fabric" => "do: crash, link: \"s1->r1\"";
    no_value: "shaper-interval: 1ms" => "policy: services.b.fabric.max";
    no_such_key: "services.a.machine.weight=3" => "services.a.machine.wait=3";
    no_such_service: "services.a.machine.weight=3" => "services.c.machine.weight=3";
    not_valid_any_more: "services.a.machine.weight=3" => "services.a.machine.min=2Gb/s";
    another_network: "services.a.machine.weight=3" => "network.nic=2Gb/s";
    other_services: "services.a.machine.weight=3" => "services.c={match: [{port: 3}]}";
    after_the_end: "at: 40s" => "at: 61s";
    an_event_without_an_action: "at: 10s, shaper-interval: 1ms" => "at: 10s";
}

/// The buffers of a run's ports and those that its policy states differ: a remark. Equal ones and
/// none stated are silent.
#[test]
fn buffers_of_policy_and_links() {
    let notes = |links: &str, switches: &str| {
        let source = Source::from_text("test.scenario.yaml", GOOD.replace("traffic:", &format!("{links}traffic:")));
        let policy = POLICY.replace("network:\n", &format!("network:\n{switches}"));
        let read = Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", &policy));
        let (_, notes) = read.unwrap_or_else(|errors| panic!("{errors}"));
        notes.iter().map(|note| note.cause().to_owned()).collect::<Vec<_>>()
    };
    let links = "links: { buffer: 1MB }\n";
    assert!(notes(links, "").is_empty() && notes("", "").is_empty());
    assert!(notes(links, "  switches: { buffer: 1MB }\n").is_empty());
    let differ = |has: &str| vec![format!("ports have buffers of {has}, while the policy's `switches` state 2 MB")];
    assert_eq!(notes(links, "  switches: { buffer: { rack: 2MB } }\n"), differ("1 MB"));
    assert_eq!(notes("", "  switches: { buffer: 2MB }\n"), differ("256 kB"));
}
