//! Flows with credits: what networks they are refused on, and switches without forwarders.

use std::path::Path;
use weir_document::{Diagnostic, Source};
use weir_policy::Policy;
use weir_scenario::Scenario;

/// A scenario with PACE between two racks, a routing, a transport and more keys; its notes, or the refusal as text.
fn read(routing: &str, transport: &str, more: &str) -> Result<(Scenario, Vec<Diagnostic>), String> {
    let text = format!(
        "scenario: 1\nname: credits\nduration: 1s\nnetwork: {{ topology: leaf-spine, racks: 2, hosts: 2, spines: 2, \
         routing: {routing}, host-link: {{ rate: 1Gb/s, delay: 10us }}, fabric-link: {{ rate: 1Gb/s, delay: 10us }} \
         }}\ntransport: {transport}\ntraffic: [ {{ from: h0, to: h2 }} ]\n{more}"
    );
    let source = Source::from_text("credits", text);
    let read = Scenario::from_source(&source, Path::new(""), |_: &Path| Policy::parse("none", ""));
    read.map_err(|errors| errors.render(false))
}

#[test]
fn several_paths_without_symmetric_routing_are_refused() {
    for routing in ["ecmp", "spray"] {
        let refusal = read(routing, "pace", "").expect_err("several paths");
        assert!(
            refusal.contains("these hosts have several paths") && refusal.contains("routing: symmetric"),
            "{refusal}"
        );
        assert!(read(routing, "newreno", "").is_ok());
    }
    assert!(read("symmetric", "pace", "").is_ok());
}

/// Four links there and back: 8 · 10 µs, 4 · 12.112 µs for a frame and 4 · 0.672 µs for an allocation are 131.1 µs.
#[test]
fn a_period_below_the_round_trip_is_refused() {
    assert!(read("symmetric", "{ protocol: pace, period: 140us }", "").is_ok());
    let refusal = read("symmetric", "{ protocol: pace, period: 131us }", "").expect_err("a longer round trip");
    assert!(refusal.contains("between `h0` and `h2` takes 131.1"), "{refusal}");
    assert!(refusal.contains("write at least `period: 140us`"), "{refusal}");
}

/// The slowest sender and the slowest receiver of a star are the same host, which sends to the others: 65.6 µs.
#[test]
fn a_star_has_round_trips_between_its_hosts() {
    let read = |period: &str| {
        let text = format!(
            "scenario: 1\nname: credits\nduration: 1s\nnetwork: {{ topology: star, hosts: 3, \
             host-link: {{ rate: 1Gb/s, delay: 10us }} }}\ntransport: {{ protocol: pace, period: {period} }}\n\
             traffic: [ {{ from: all, to: all }} ]\n"
        );
        let source = Source::from_text("credits", text);
        let read = Scenario::from_source(&source, Path::new(""), |_: &Path| Policy::parse("none", ""));
        read.map_err(|errors| errors.render(false)).err()
    };
    let refusal = read("60us").expect("a longer round trip");
    assert!(refusal.contains("between `h2` and `h1` takes 65.56"), "{refusal}");
    assert_eq!(read("80us"), None);
}

#[test]
fn periods_that_the_papers_field_lacks_are_refused() {
    for (keys, wrong) in [("period: 210us", true), ("max-period: 5120us", true), ("max-period: 5100us", false)] {
        let transport = format!("{{ protocol: pace, coding: paper, {keys} }}");
        let read = read("symmetric", &transport, "");
        assert_eq!(read.is_err(), wrong, "{keys}");
        let cause = read.err().unwrap_or_default();
        assert!(!wrong || cause.contains("multiples of 20 us"), "{cause}");
    }
}

#[test]
fn switches_without_forwarders_are_named() {
    let (scenario, notes) = read("symmetric", "pace", "without-forwarder: [ \"spine[0-1]\", leaf1 ]\n").expect("sound");
    let names: Vec<&str> =
        scenario.without_forwarder().iter().map(|&switch| scenario.graph().switches[switch].as_str()).collect();
    assert_eq!(names, ["leaf1", "spine0", "spine1"]);
    assert!(notes.iter().any(|note| note.cause().contains("no claim to be lossless")), "{notes:?}");
    let (_, notes) = read("symmetric", "newreno", "without-forwarder: [ leaf1 ]\n").expect("sound");
    assert!(notes.iter().any(|note| note.cause().contains("has no effect")), "{notes:?}");
    for (name, cause) in [("spine7", "there is no switch `spine7`"), ("\"leaf[0-9]\"", "the range names 10 switches")] {
        let refusal = read("symmetric", "pace", &format!("without-forwarder: [ {name} ]\n")).expect_err("unknown");
        assert!(refusal.contains(cause), "{refusal}");
    }
}

/// A star whose flows are those of one aggregate for each pair of hosts.
fn star(aggregates: &str, transport: &str) -> Result<(Scenario, Vec<Diagnostic>), String> {
    let text = format!(
        "scenario: 1\nname: aggregates\nduration: 1s\nnetwork: {{ topology: star, hosts: 3, host-link: {{ rate: 1Gb/s, \
         delay: 10us }} }}\naggregates: {aggregates}\ntransport: {transport}\ntraffic: [ {{ from: h0, to: h2 }} ]\n"
    );
    let source = Source::from_text("aggregates", text);
    let read = Scenario::from_source(&source, Path::new(""), |_: &Path| Policy::parse("none", ""));
    read.map_err(|errors| errors.render(false))
}

#[test]
fn aggregates_are_read_and_refused() {
    let (scenario, _) = star("{ period: 400us, share: 0.5 }", "newreno").expect("sound");
    let aggregates = &scenario.aggregates().expect("written").parameters;
    assert_eq!((aggregates.period.micros(), aggregates.share), (400, 0.5));
    for (aggregates, transport, cause) in [
        ("{ period: 40us }", "newreno", "write at least `period: 80us`"),
        ("{ dup-thresh: 3 }", "newreno", "aggregates repair nothing"),
        ("{}", "pace", "has credits of its own flows"),
    ] {
        let refusal = star(aggregates, transport).expect_err(cause);
        assert!(refusal.contains(cause), "{refusal}");
    }
    let refusal = read("symmetric", "newreno", "aggregates: {}\n").expect_err("several paths");
    assert!(refusal.contains("must have one path"), "{refusal}");
}
