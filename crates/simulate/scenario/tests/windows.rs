//! Remarks on receive windows that cannot fill rate times round trip.

use std::path::Path;
use weir_document::Source;
use weir_scenario::Scenario;

/// The remarks on a star of four hosts with links of 400 Gb/s and `delay`, and these flow groups.
fn remarks(delay: &str, transport: &str, traffic: &str) -> Vec<String> {
    let text = format!(
        "scenario: 1\nname: t\nduration: 1s\nnetwork:\n  topology: star\n  hosts: 4\n  \
         host-link: {{ rate: 400Gb/s, delay: {delay} }}\ntransport: {transport}\ntraffic: [ {traffic} ]\n"
    );
    let source = Source::from_text("test.scenario.yaml", text);
    let read = Scenario::from_source(&source, Path::new(""), |_| unreachable!("it has no policy"));
    let (_, notes) = read.unwrap_or_else(|errors| panic!("{errors}"));
    notes.iter().map(|note| note.render(false)).collect()
}

const ONE: &str = "{ from: h0, to: h1, size: 100MB }";

/// 4 · 25 µs, two frames of 1,514 B and two acknowledgements of 66 B: 100.066 µs. In that time 400 Gb/s are 5.003 MB of
/// frames, 4.785 MB of their payload; the window is 4 MB.
#[test]
fn a_window_below_rate_times_round_trip_gets_a_remark() {
    insta::assert_snapshot!(remarks("25us", "newreno", ONE).concat());
    // The remedy passes the check, and a window just below does not.
    assert!(remarks("25us", "{ protocol: newreno, receive-window: 4800kB }", ONE).is_empty());
    assert!(remarks("25us", "{ protocol: newreno, receive-window: 4786kB }", ONE).is_empty());
    assert_eq!(remarks("25us", "{ protocol: newreno, receive-window: 4784kB }", ONE).len(), 1);
    for protocol in ["cubic", "dctcp"] {
        let notes = remarks("25us", protocol, ONE);
        assert!(notes.iter().any(|note| note.contains(&format!("a flow of {protocol} has at most"))), "{notes:?}");
    }
}

#[test]
fn short_trips_small_flows_and_many_flows_get_none() {
    assert!(remarks("20us", "newreno", ONE).is_empty(), "80.066 µs are 3.83 MB");
    for traffic in [
        "{ from: h0, to: h1, size: 4MB }",
        "{ from: h0, to: h1, flows: 2 }",
        "{ from: h0, to: [h1, h2] }",
        "{ from: [h0, h1], to: h2 }",
        "{ kind: incast, from: [h0, h1], to: h2, size: 100MB, every: 100ms }",
        "{ kind: incast, from: all, to: all, fan-in: 2, size: 100MB, gap: 100ms }",
        "{ kind: barrier, among: all, size: 100MB }",
        "{ kind: shuffle, among: all, size: 100MB, parallel: 2 }",
        "{ kind: random, from: all, to: all, sizes: 1MB-4MB, load: 10% }",
        "{ kind: random, from: all, to: all, sizes: 100MB, load: 10%, connections: 2 }",
        "{ kind: requests, from: h0, to: h1, request: 1kB, response: 100MB, outstanding: 2 }",
        "{ from: h0, to: h1, transport: { protocol: udp, rate: 1Gb/s } }",
    ] {
        let notes = remarks("25us", "newreno", traffic);
        assert!(!notes.iter().any(|note| note.contains("on the way")), "{traffic}: {notes:?}");
    }
    for traffic in [
        "{ from: [h0, h1], to: [h2, h3], pattern: pairs }",
        "{ kind: incast, from: [h0, h1], to: h2, size: 100MB, every: 100ms, rounds: 1 }, { from: h0, to: h1 }",
        "{ kind: barrier, among: all, size: 100MB, pattern: ring }",
        "{ kind: random, from: all, to: all, sizes: 1MB-5MB, load: 10% }",
        "{ kind: requests, from: h0, to: h1, request: 1kB, response: 100MB, outstanding: 1 }",
    ] {
        assert_eq!(remarks("25us", "newreno", traffic).len(), 1, "{traffic}");
    }
    // Two flows have 8 MB together, and 1 ms needs 48 MB.
    let notes = remarks("250us", "newreno", "{ from: h0, to: h1, flows: 2 }").concat();
    assert!(notes.contains("2 flows of newreno have at most 8 MB on the way"), "{notes}");
    assert!(notes.contains("write `receive-window: 24000kB`"), "{notes}");
    let remedy = "{ protocol: newreno, receive-window: 24000kB }";
    assert!(remarks("250us", remedy, "{ from: h0, to: h1, flows: 2 }").is_empty());
}

/// The slowest link of the path counts, and the limit of a service.
#[test]
fn slow_paths_and_limited_services_get_none() {
    let parking = |fabric: &str| {
        let text = format!(
            "scenario: 1\nname: t\nduration: 1s\nnetwork:\n  topology: dumbbell\n  hosts: 1\n  \
             host-link: {{ rate: 400Gb/s, delay: 25us }}\n  fabric-link: {{ rate: {fabric}, delay: 25us }}\n\
             traffic: [ {{ from: senders, to: receivers }} ]\n"
        );
        let source = Source::from_text("test.scenario.yaml", text);
        let read = Scenario::from_source(&source, Path::new(""), |_| unreachable!("it has no policy"));
        read.unwrap_or_else(|errors| panic!("{errors}")).1.len()
    };
    // 150 µs: 4 MB of payload are 223 Gb/s.
    assert_eq!((parking("200Gb/s"), parking("240Gb/s")), (0, 1));
    let governed = |max: &str| {
        let policy = format!(
            "weir: 1\nnetwork: {{ nic: 400Gb/s, racks: {{ r: {{ uplink: 800Gb/s, machines: [m1, m2] }} }} }}\n\
             services: {{ a: {{ match: [ {{ port: 1 }} ], machine: {{ max: {max} }} }} }}\n"
        );
        let text = "scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\nlinks: { delay: 25us }\n\
                    traffic: [ { service: a, from: m1, to: m2 } ]\nmeasure: { rack: r, direction: tx, every: 1ms }\n";
        let source = Source::from_text("test.scenario.yaml", text);
        let load = |path: &Path| weir_policy::Policy::parse(&path.display().to_string(), &policy);
        let (_, notes) =
            Scenario::from_source(&source, Path::new(""), load).unwrap_or_else(|errors| panic!("{errors}"));
        notes.iter().filter(|note| note.cause().contains("on the way")).count()
    };
    assert_eq!((governed("300Gb/s"), governed("350Gb/s")), (0, 1));
}
