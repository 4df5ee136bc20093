//! Policies with credits under a scenario: aggregates, which traffic is refused, and what the lab does not run.

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

/// Switches with forwarders and weighted queues, and the key before them.
const SWITCHES: &str = "nic: 1Gb/s, switches: { forwarders: true, buffer: 256kB, queues: 8, scheduler: weighted }, ";

fn read(enforcement: &str, traffic: &str) -> Result<Scenario, Diagnostics> {
    read_with(POLICY, enforcement, traffic)
}

fn read_with(policy: &str, enforcement: &str, traffic: &str) -> Result<Scenario, Diagnostics> {
    let text = format!(
        "scenario: 1\nname: test\npolicy: test.policy.yaml\nduration: 1s\nenforcement: {enforcement}\ntraffic:\n  - \
         {traffic}\nmeasure: {{ rack: r1, direction: rx, every: 1s }}\n"
    );
    let source = Source::from_text("test.scenario.yaml", &text);
    Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", policy))
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

/// One aggregate for each pair of hosts and service, over any transport: weights, R and p-max are the policy's.
#[test]
fn a_service_with_credits_has_aggregates() {
    for transport in ["", ", transport: dctcp", ", transport: { protocol: udp, rate: 1Gb/s }"] {
        let scenario = read("shaper", &format!("{{ service: bulk, from: a, to: b{transport} }}"));
        let scenario = scenario.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let aggregates = scenario.aggregates().expect("of a service with credits");
        let weights: Vec<u32> = aggregates.weights.iter().flatten().map(|(_, weight)| weight.thousandths()).collect();
        assert_eq!((weights, aggregates.parameters.share), (vec![2_000], 0.5));
        // 2 · 500 Mb/s · p = 256 kB.
        let parameters = &aggregates.parameters;
        assert_eq!((parameters.period.micros(), parameters.max_period.micros()), (200, 100_000));
        assert_eq!((parameters.lossless, scenario.without_forwarder()), (false, &[0, 1][..]));
    }
    let by_size = "by-size: [ { up-to: 10kB, service: bulk } ]";
    let random = format!("{{ kind: random, service: web, {by_size}, from: r1, to: r1, sizes: websearch, load: 10% }}");
    assert!(read("shaper", &random).is_ok_and(|scenario| scenario.aggregates().is_some()));
    // No data needs credits.
    let web = read("shaper", "{ service: web, from: a, to: b }");
    assert!(web.is_ok_and(|scenario| scenario.aggregates().is_none() && scenario.without_forwarder().is_empty()));
}

/// The policy with forwarders whose ports lose nothing.
#[test]
fn forwarders_of_the_policy_claim_to_lose_nothing() {
    let policy = POLICY.replace("nic: 1Gb/s, ", SWITCHES);
    let bulk = "{ service: bulk, from: a, to: b }\naggregates: { period: 1ms }";
    let scenario = read_with(&policy, "shaper", bulk).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let parameters = &scenario.aggregates().expect("of a service with credits").parameters;
    assert_eq!((parameters.lossless, scenario.without_forwarder()), (true, &[][..]));
    // 2 · 500 Mb/s · p and an eighth are 256 kB.
    assert_eq!((parameters.period.micros(), parameters.max_period.micros()), (1_000, 1_820));
}

/// The remarks on a scenario under a policy.
fn remarks(policy: &str, enforcement: &str, more: &str) -> Vec<String> {
    let text = format!(
        "scenario: 1\nname: test\npolicy: test.policy.yaml\nduration: 1s\nenforcement: {enforcement}\ntraffic:\n  - \
         {{ service: bulk, from: a, to: b, transport: dctcp }}\nmeasure: {{ rack: r1, direction: rx, every: 1s \
         }}\n{more}"
    );
    let source = Source::from_text("test.scenario.yaml", &text);
    let read = Scenario::from_source(&source, Path::new(""), |_| Policy::parse("test.policy.yaml", policy));
    let (_, remarks) = read.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    remarks.iter().map(|remark| remark.cause().to_owned()).collect()
}

/// Ports have the policy's queue for credits, unless the scenario gives them another discipline.
#[test]
fn ports_without_a_queue_for_credits_are_remarked() {
    let policy = POLICY.replace("nic: 1Gb/s, ", SWITCHES);
    let is_remarked = |more: &str| {
        let all = remarks(&policy, "shaper", more);
        all.iter().any(|remark| remark.contains("simulated ports have no queue for credits"))
    };
    assert!(is_remarked("links: { queue: { discipline: strict-priority, buffer: 256kB } }\n"));
    assert!(!is_remarked("links: { buffer: 256kB }\n"));
    // One port with a discipline of its own: no port has queues for credits.
    let star = "topology: star, hosts: 2, host-link: { rate: 1Gb/s }";
    let queue = "queue: { discipline: strict-priority }";
    let own = |more: &str| format!("network: {{ {star}{more} }}\nmachines: {{ a: h0, b: h1 }}\n");
    assert!(is_remarked(&own(&format!(", {queue}"))));
    assert!(!is_remarked(&own("")));
}

/// With tenants, whose queues replace all others, and with pairs of machines whose guaranteed traffic is first.
#[test]
fn queues_for_credits_beside_tenants() {
    let switches = "nic: 1Gb/s, slots: 2, switches: { forwarders: true, buffer: 256kB, queues: 8, scheduler: { \
                    strict: 2, weighted: 6 } }, ";
    let tenants = "tenants: { t: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 3 } ] } }\n";
    let policy = POLICY.replace("nic: 1Gb/s, ", switches) + tenants;
    let is_remarked = |enforcement: &str| {
        let all = remarks(&policy, enforcement, "links: { queue: { discipline: strict-priority, buffer: 256kB } }\n");
        all.into_iter().find(|remark| remark.contains("simulated ports have no queue for credits"))
    };
    assert_eq!(["none", "qshare"].map(is_remarked), [None, None]);
    let of_pairs = is_remarked("trinity").unwrap_or_default();
    assert!(of_pairs.contains("with `enforcement: trinity`, so other traffic"), "{of_pairs}");
    let of_disciplines = is_remarked("elasticswitch").unwrap_or_default();
    assert!(of_disciplines.contains("beside a port with a discipline of its own"), "{of_disciplines}");
}

/// A class of messages is refused where ports have a queue for them, and has an effect where they keep their classes.
#[test]
fn classes_of_messages_beside_queues_for_credits() {
    let policy = POLICY.replace("nic: 1Gb/s, ", SWITCHES);
    let strict = "links: { queue: { discipline: strict-priority, buffer: 256kB } }\n";
    let aggregates = "{ service: bulk, from: a, to: b }\naggregates: { control-priority: 1 }\n";
    let paced = "{ service: bulk, from: a, to: b, transport: { protocol: pace, control-priority: 1 } }\n";
    for traffic in [aggregates, paced] {
        let refused = read_with(&policy, "shaper", traffic).map(drop).expect_err("a class").render(false);
        assert!(refused.contains("`control-priority` has no effect"), "{refused}");
        let kept = |policy: &str, enforcement: &str, more: &str| {
            let read = read_with(policy, enforcement, &format!("{traffic}{more}"));
            read.map(drop).map_err(|errors| errors.render(false))
        };
        assert_eq!(kept(&policy, "shaper", strict), Ok(()));
        assert_eq!(kept(&policy, "none", ""), Ok(()));
        // Switches without queues for credits.
        assert_eq!(
            kept(&policy.replace("queues: 8, scheduler: weighted", "queues: 1, scheduler: plain"), "shaper", ""),
            Ok(())
        );
    }
    insta::assert_snapshot!(read_with(&policy, "shaper", aggregates).map(drop).expect_err("a class").render(false));
}

/// Shapers and limits of pairs mark at all ports.
#[test]
fn dctcp_is_remarked_only_where_nothing_marks() {
    let is_remarked = |enforcement: &str| {
        let all = remarks(POLICY, enforcement, "");
        all.iter().any(|remark| remark.contains("no queue marks packets"))
    };
    assert_eq!(["none", "shaper", "parley"].map(is_remarked), [true, false, false]);
}

#[test]
fn refusals_of_aggregates() {
    let paced =
        "{ service: bulk, from: a, to: b, transport: dctcp }\n  - { service: web, from: a, to: b, transport: pace }";
    let refused = read("shaper", paced).expect_err("credits of flows and of aggregates");
    insta::assert_snapshot!(refused.render(false));
    let bulk = "{ service: bulk, from: a, to: b }";
    for (enforcement, traffic, cause) in [
        (
            "shaper",
            "{ service: bulk, from: a, to: b, transport: d3 }".to_owned(),
            "sent by d3, which has agents of its own",
        ),
        ("shaper", "{ service: bulk, from: a, to: b, transport: expresspass }".to_owned(), "sent by expresspass"),
        ("shaper", format!("{bulk}\naggregates: {{ weight: 3 }}"), "a service has its weight in the policy"),
        ("shaper", format!("{bulk}\naggregates: {{ share: 0.5 }}"), "the policy has the share of credits"),
        ("shaper", format!("{bulk}\naggregates: {{ max-period: 4ms }}"), "the policy has the longest period"),
        ("shaper", format!("{bulk}\naggregates: {{ dup-thresh: 3 }}"), "aggregates repair nothing"),
        ("shaper", format!("{bulk}\naggregates: {{ period: 40us }}"), "write at least `aggregates: { period: "),
        ("shaper", format!("{bulk}\naggregates: {{ period: 200ms }}"), "max-period is shorter"),
        (
            "shaper",
            format!("{bulk}\nevents: [ {{ at: 1s, policy: \"services.bulk.credits.weight=3\" }} ]"),
            "an event changes services' credits",
        ),
    ] {
        let refused = read(enforcement, &traffic).map(drop).expect_err(cause).render(false);
        assert!(refused.contains(cause), "{refused}");
    }
    let several = "{ service: bulk, from: a, to: b }\nnetwork: { topology: leaf-spine, racks: 2, hosts: 1, spines: 2, \
                   host-link: { rate: 1Gb/s }, fabric-link: { rate: 500Mb/s } }\nmachines: { a: h0, b: h1 }";
    let racks = "{ r1: { uplink: 1Gb/s, machines: [a] }, r2: { uplink: 1Gb/s, machines: [b] } }";
    let without = POLICY.replace("{ r1: { uplink: 1Gb/s, machines: [a, b] } }", racks);
    let policy = without.replace("nic: 1Gb/s, ", "nic: 1Gb/s, switches: { forwarders: true }, ");
    let refused = read_with(&policy, "shaper", several).map(drop).expect_err("several paths").render(false);
    assert!(refused.contains("these hosts have several paths"), "{refused}");
    assert!(read_with(&without, "shaper", several).is_ok(), "hosts alone grant on any path");
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
    let lab = "aggregates: { period: 20ms }\n";
    assert_eq!((reason(&[], "cubic", lab), reason(&[], "newreno", lab)), (None, None));
    let paced = reason(&[], "{ protocol: pace, period: 20ms, max-period: 60ms }", "").unwrap_or_default();
    assert!(paced.contains("is sent by pace"), "{paced}");
    for (changes, more, expected) in [
        (
            &[("period-max: 20ms", "period-max: 19ms")][..],
            "aggregates: { period: 19ms }\n",
            "limits the periods of credits to 19 ms",
        ),
        (&[("period-max: 20ms", "share: 50%"), (", buffer: 60kB", "")], "", "neither `period-max` nor the buffers"),
        (&[("{ forwarders: true, buffer: 60kB }", "{ buffer: 60kB }")], "", "the policy's switches grant none"),
        (&[], "without-forwarder: [r1]\n", "some of its switches have no forwarder"),
        (&[], "aggregates: { period: 19ms }\n", "a shortest period of 19 ms, and the lab has one of 20 ms"),
        (
            &[],
            "aggregates: { period: 20ms, control-loss: 0.01 }\n",
            "`control-loss` of its `aggregates` is the simulator's",
        ),
    ] {
        let lab = if more.contains("aggregates") { "" } else { lab };
        let reason = reason(changes, "cubic", &format!("{lab}{more}")).unwrap_or_default();
        assert!(reason.contains(expected), "{changes:?} {more}: {reason}");
    }
}
