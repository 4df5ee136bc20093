//! Policies with credits under a scenario: which traffic is refused, and what the lab does not run.

use std::path::Path;
use weir_document::{Diagnostics, Source};
use weir_policy::Policy;
use weir_scenario::Scenario;

const POLICY: &str = "
weir: 1
network: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [a, b] } } }
services:
  bulk: { match: [ { port: 1 } ], credits: { weight: 2 } }
  web: { match: [ { port: 2 } ] }
";

fn read(enforcement: &str, traffic: &str) -> Result<Scenario, Diagnostics> {
    let text = format!(
        "scenario: 1\nname: test\npolicy: test.policy.yaml\nduration: 1s\nenforcement: {enforcement}\ntraffic:\n  - \
         {traffic}\nmeasure: {{ rack: r1, direction: rx, every: 1s }}\n"
    );
    let source = Source::from_text("test.scenario.yaml", &text);
    Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", POLICY))
        .map(|(scenario, _)| scenario)
}

#[test]
fn a_service_with_credits_sends_by_pace() {
    let bulk = "{ service: bulk, from: a, to: b, transport: { protocol: pace, weight: 2 } }";
    let scenario = read("shaper", bulk).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let reason = "service `bulk` has credits, and the policy's switches grant none";
    assert_eq!(scenario.simulator_only(), Some(reason));
    for traffic in ["{ service: web, from: a, to: b }", "{ service: web, from: a, to: b, transport: pace }"] {
        read("shaper", traffic).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    }
}

#[test]
fn another_transport_is_refused() {
    let refused = read("shaper", "{ service: bulk, from: a, to: b, transport: dctcp }").expect_err("dctcp");
    insta::assert_snapshot!(refused.render(false));
    let by_size = "by-size: [ { up-to: 10kB, service: bulk } ]";
    let random = format!("{{ kind: random, service: web, {by_size}, from: r1, to: r1, sizes: websearch, load: 10% }}");
    let refused = read("shaper", &random).map(drop);
    let refused = refused.expect_err("small flows are of a service with credits").render(false);
    assert!(refused.contains("service `bulk` has credits, and random0 is sent by newreno"), "{refused}");
}

#[test]
fn nothing_is_refused_without_enforcement() {
    let scenario = read("none", "{ service: bulk, from: a, to: b }");
    assert_eq!(scenario.unwrap_or_else(|errors| panic!("{}", errors.render(false))).simulator_only(), None);
}

const FORWARDERS: &str = "
weir: 1
network:
  nic: 10Mb/s
  racks: { r1: { uplink: 10Mb/s, machines: [a, b] } }
  switches: { forwarders: true, buffer: 60kB }
credits: { period-max: 20ms }
services:
  bulk: { match: [ { port: 1 } ], credits: {} }
  web: { match: [ { port: 2 } ] }
";

/// The reason why the lab does not run a scenario under a policy with forwarders, in which texts were replaced.
fn reason(changes: &[(&str, &str)], transport: &str, more: &str) -> Option<String> {
    let policy = changes.iter().fold(FORWARDERS.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replace(old, new)
    });
    let text = format!(
        "scenario: 1\nname: test\npolicy: test.policy.yaml\nduration: 1s\nenforcement: shaper\ntraffic:\n  - {{ \
         service: bulk, from: a, to: b, transport: {transport} }}\nmeasure: {{ rack: r1, direction: rx, every: 1s \
         }}\n{more}"
    );
    let source = Source::from_text("test.scenario.yaml", &text);
    let read = Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", &policy));
    let (scenario, _) = read.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    scenario.simulator_only().map(str::to_owned)
}

#[test]
fn credits_that_the_lab_grants_and_others() {
    let pace = "{ protocol: pace, period: 20ms, max-period: 60ms }";
    assert_eq!(reason(&[], pace, ""), None);
    for (changes, more, expected) in [
        (&[("period-max: 20ms", "period-max: 19ms")][..], "", "limits the periods of credits to 19 ms"),
        (&[("period-max: 20ms", "share: 50%"), (", buffer: 60kB", "")], "", "neither `period-max` nor the buffers"),
        (&[("{ forwarders: true, buffer: 60kB }", "{ buffer: 60kB }")], "", "the policy's switches grant none"),
        (&[], "without-forwarder: [r1]\n", "some of its switches have no forwarder"),
    ] {
        let reason = reason(changes, pace, more).unwrap_or_default();
        assert!(reason.contains(expected), "{changes:?} {more}: {reason}");
    }
}
