//! Scenarios with a network of their own: valid files, and every refusal as people see it.

use proptest::prelude::*;
use std::path::Path;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_network::graph::{Discipline, LinkRef, QueueSpec, Routing};
use weir_policy::Policy;
use weir_scenario::{Change, Files, ReadOptions, Scenario};
use weir_transport::Parameters;
use weir_units::{Bandwidth, Bytes, Duration, MachineId};
use weir_workload::{Framing, Spec, Workload};

/// A policy and two tables.
struct Shelf;

impl Files for Shelf {
    fn policy(&mut self, path: &Path) -> Result<(Policy, Vec<Diagnostic>), Diagnostics> {
        let text = "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks:\n    r1: { uplink: 10Gb/s, machines: [m1, m2] }\n    \
            r2: { uplink: 10Gb/s, machines: [m3] }\nservices: { a: { match: [ { port: 1 } ] } }\n";
        Policy::parse(&path.display().to_string(), text)
    }
    fn table(&mut self, path: &Path) -> Result<std::sync::Arc<Source>, Diagnostics> {
        let text = match path.to_str() {
            Some("some/flows.csv") => "start_s,src,dst,bytes\n0,0,h1,100\n0.5,h2,3,200\n",
            Some("some/wrong.csv") => "start_s,src,dst,bytes\n0,0,h1,100\n0.5,h2,h99,200\n0,h1,h1,7\n",
            Some("some/sizes.csv") => "size_bytes,cdf\n1000,0.5\n3000,1\n",
            _ => return Source::read(path, 1000),
        };
        Ok(Source::from_text(path.display().to_string(), text))
    }
}

const GOOD: &str = "scenario: 1
name: test
duration: 1s
network:
  topology: leaf-spine
  racks: 2
  hosts: 4
  spines: 2
  host-link: { rate: 10Gb/s, delay: 2us, queue: { discipline: ecn, buffer: 300kB, mark: 97500B } }
  fabric-link: { rate: 40Gb/s, queue: { discipline: deficit-round-robin, weights: [4, 2, 1, 1, 1, 1, 1, 1] } }
  queue: drop-tail
  packets: { payload: 1460B, headers: 40B }
transport: { protocol: newreno, min-rto: 10ms }
traffic:
  - { from: \"h[0-3]\", to: rack1, pattern: pairs, size: 1MB, spread: 1ms }
  - { kind: random, name: search, from: all, to: all, sizes: websearch, load: 60%, flows: 200, priority: 1 }
  - { kind: list, file: flows.csv, transport: newreno }
  - { kind: incast, from: leaf0, to: h4, size: 64kB, every: 10ms, rounds: 10 }
  - { kind: shuffle, among: all, size: 10kB, parallel: 2, order: staggered }
  - { kind: barrier, among: all, size: 1kB, pattern: to-one, root: h7, think: 1ms, jitter: 1us }
  - { kind: requests, from: leaf0, to: leaf1, request: 200B, response: sizes.csv, outstanding: 2, think: 1ms,
      connections: 3 }
  - { kind: bursts, from: leaf0, to: all, on: 100ms, off: 50ms, spread: 10ms, stop: 900ms,
      transport: { protocol: udp, rate: 1Gb/s } }
events:
  - { at: 20ms, do: up, link: \"leaf0<->spine1\" }
  - { at: 10ms, do: down, link: \"leaf0<->spine1\" }
  - { at: 5ms, do: rate, link: \"leaf0->spine[0-1]\", rate: 1Gb/s }
  - { at: 1ms, do: weights, link: \"spine0->leaf1\", weights: [1, 1, 1, 1, 1, 1, 1, 2] }
measure: { every: 1ms, links: [\"leaf0->spine0\", \"leaf1->h7\"] }
";

fn read_with(text: &str, options: &ReadOptions) -> Result<Scenario, Diagnostics> {
    let source = Source::from_text("test.scenario.yaml", text);
    Scenario::from_files(&source, Path::new("some"), &mut Shelf, options).map(|(scenario, _)| scenario)
}

fn read(text: &str) -> Result<Scenario, Diagnostics> {
    // Four gigabytes: a small machine.
    read_with(text, &ReadOptions { memory: Some(Bytes::new(4_000_000_000)), ..ReadOptions::default() })
}

fn refused(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors.render(false),
    }
}

fn changed(from: &str, to: &str) -> String {
    let text = GOOD.replace(from, to);
    assert_ne!(text, GOOD, "{from}");
    refused(&text)
}

/// [`GOOD`] with another network.
fn over(network: &str) -> String {
    let text = format!(
        "scenario: 1\nname: test\nduration: 1s\nnetwork: {network}\ntraffic: [ {{ kind: random, from: all, to: all, \
         sizes: 10kB, gap: 1ms }} ]\n"
    );
    refused(&text)
}

#[test]
fn reads_every_key() {
    let scenario = read(GOOD).unwrap_or_else(|errors| panic!("{errors}"));
    let graph = scenario.graph();
    assert_eq!((graph.hosts.len(), graph.switches.len(), graph.cables.len()), (8, 4, 4));
    assert_eq!((graph.packets.payload, graph.packets.headers, graph.routing), (1460, 40, Routing::Ecmp));
    let host = &graph.hosts[5];
    assert_eq!((host.up.rate, host.up.delay), (Bandwidth::from_gbps(10), Duration::from_micros(2)));
    let ecn = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(300_000), mark: Some(Bytes::new(97_500)) };
    assert_eq!((host.down.queue, host.up.queue), (ecn, QueueSpec { mark: None, ..ecn }));
    let fabric = graph.cables[0].a_to_b;
    let weighted = Discipline::DeficitRoundRobin { weights: [4, 2, 1, 1, 1, 1, 1, 1], quantum: 1500 };
    assert_eq!((fabric.rate, fabric.delay), (Bandwidth::from_gbps(40), Duration::from_micros(1)));
    assert_eq!((fabric.queue.discipline, fabric.queue.buffer), (weighted, Bytes::new(256_000)));

    let groups = scenario.flow_groups();
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["transfers0", "search", "list2", "incast3", "shuffle4", "barrier5", "requests6", "bursts7"]);
    assert!(groups.iter().all(|group| group.service.is_none()));
    assert!(groups[..7].iter().all(|group| group.transport.protocol() == "newreno"));
    assert_ne!(groups[0].transport, Parameters::default());
    assert_eq!(groups[2].transport, Parameters::default());
    assert_eq!((groups[1].connections, groups[6].connections), (None, Some(3)));
    assert_eq!(groups.iter().map(|group| group.priority).collect::<Vec<_>>(), [0, 1, 0, 0, 0, 0, 0, 0]);
    let expected: Vec<_> = groups.iter().map(|group| Workload::new(&group.spec, 1).expected()).collect();
    assert_eq!(expected, [Some(4), Some(200), Some(2), Some(40), Some(56), None, None, None]);
    // 8 hosts of 10 Gb/s at 60 %; headers count.
    let Spec::Random(random) = &groups[1].spec else { panic!("random traffic") };
    let wire = random.sizes().mean_wire_bytes(Framing::new(1460, 40).expect("a payload"));
    assert!(wire > random.sizes().mean() * 1500.0 / 1460.0);
    assert!((random.gap().picos() / (wire * 8.0 / (0.6 * 80e9) * 1e12) - 1.0).abs() < 1e-9);

    let events = scenario.events();
    assert_eq!(events.iter().map(|event| event.at.nanos() / 1_000_000).collect::<Vec<_>>(), [1, 5, 10, 20]);
    assert_eq!(events[0].change, Change::Weights([1, 1, 1, 1, 1, 1, 1, 2]));
    assert_eq!(events[0].links.iter().map(|link| graph.link_name(*link)).collect::<Vec<_>>(), ["spine0->leaf1"]);
    assert_eq!((events[1].links.len(), events[1].change), (2, Change::Rate(Bandwidth::from_gbps(1))));
    assert_eq!(
        (&events[2].links[..], events[2].change),
        (&[LinkRef::Forward(1), LinkRef::Backward(1)][..], Change::Down)
    );
    let measured: Vec<_> = scenario.measurement().links.iter().map(|link| graph.link_name(*link)).collect();
    assert_eq!(measured, ["leaf1->h7", "leaf0->spine0"]);
    assert!(scenario.governed().is_none() && scenario.simulator_only().is_some());
}

#[test]
fn flows_have_quotas_by_their_size() {
    let quotas = "load: 60%, quotas: { epoch: 1050us, sizes: [9kB, 19500B] }";
    let scenario = read(&GOOD.replace("load: 60%", quotas)).unwrap_or_else(|errors| panic!("{errors}"));
    let quotas = scenario.flow_groups()[1].quotas.as_ref().expect("quotas");
    assert_eq!((quotas.epoch, &quotas.sizes[..]), (Duration::from_micros(1050), &[9_000, 19_500].map(Bytes::new)[..]));
    let classes = [1, 9_000, 9_001, 19_500, 19_501].map(|frames| quotas.class_of(Bytes::new(frames)));
    assert_eq!(classes, [0, 0, 1, 1, 1]);
}

/// [`GOOD`] with other keys of random traffic.
fn random_with(keys: &str) -> String {
    changed("load: 60%", &format!("load: 60%, {keys}"))
}

/// A rate is what the same load of the same links would be, and may be more than they carry.
#[test]
fn a_rate_is_a_load() {
    let gap = |written: &str| {
        let scenario = read(&GOOD.replace("load: 60%", written)).unwrap_or_else(|errors| panic!("{errors}"));
        let Spec::Random(random) = &scenario.flow_groups()[1].spec else { panic!("random traffic") };
        random.gap().picos()
    };
    // 8 hosts of 10 Gb/s.
    assert!((gap("load: 60%") / gap("rate: 48Gb/s") - 1.0).abs() < 1e-12);
    assert!((gap("rate: 48Gb/s, per-sender: on") / gap("rate: 48Gb/s") - 1.0).abs() < 1e-12);
    assert!((gap("rate: 48Gb/s") / gap("rate: 96Gb/s") - 2.0).abs() < 1e-12);
}

#[test]
fn hosts_may_be_one_range() {
    let links = "[ { between: [h0, s], rate: 1Gb/s }, { between: [h1, s], rate: 1Gb/s } ]";
    let text = format!(
        "scenario: 1\nname: t\nduration: 1s\nnetwork: {{ topology: links, hosts: [\"h[0-1]\"], switches: [s], \
         links: {links} }}\ntraffic: [ {{ from: h0, to: h1 }} ]\n"
    );
    assert_eq!(read(&text).unwrap_or_else(|errors| panic!("{errors}")).graph().hosts.len(), 2);
}

#[test]
fn missing_keys() {
    let scenario = read(
        "scenario: 1\nname: t\nduration: 1s\nnetwork: { topology: star, hosts: 100, host-link: { \
                         rate: 10Gb/s } }\ntraffic: [ { from: h0, to: h1 } ]\n",
    )
    .expect("good");
    assert_eq!((scenario.seed(), scenario.measurement().every), (1, Duration::from_millis(5)));
    assert_eq!(scenario.measurement().links.len(), 64);
    assert_eq!(scenario.measurement().links[63], LinkRef::Down(MachineId(63)));
    assert_eq!(scenario.graph().hosts[0].down.queue, QueueSpec::default());
    assert_eq!((scenario.graph().packets.payload, scenario.graph().packets.headers), (1448, 66));
    assert_eq!(scenario.flow_groups()[0].transport, Parameters::default());
}

/// Loads add up while groups are active together, and count at receivers too; one alone at 99 %
/// needs no remark.
#[test]
fn overload_gets_a_remark() {
    let notes = |groups: &[&str]| {
        let groups = groups.join(" }\n  - { kind: random, sizes: 10kB, ");
        let text = format!(
            "scenario: 1\nname: t\nduration: 1s\nnetwork: {{ topology: star, hosts: 4, host-link: {{ rate: 10Gb/s \
             }} }}\n\
             traffic:\n  - {{ kind: random, sizes: 10kB, {groups} }}\n"
        );
        let source = Source::from_text("test.scenario.yaml", text);
        let (_, notes) =
            Scenario::from_files(&source, Path::new(""), &mut Shelf, &ReadOptions::default()).expect("good");
        notes.iter().map(|note| note.render(false)).collect::<String>()
    };
    assert_eq!(notes(&["from: all, to: all, load: 99%"]), "");
    assert_eq!(
        notes(&["from: all, to: all, load: 60%, stop: 500ms", "from: all, to: all, load: 60%, start: 500ms"]),
        ""
    );
    let remarks = [
        notes(&["from: all, to: all, load: 60%", "from: h2, to: all, load: 50%, start: 10ms"]),
        // Three at 40 % to one: 120 %.
        notes(&["from: \"h[1-3]\", to: h0, load: 40%"]),
        // 10 kB and 7 headers in 1 µs are 84 Gb/s.
        notes(&["from: h0, to: all, gap: 1us"]),
    ];
    insta::assert_snapshot!(remarks.join("\n"));
}

#[test]
fn transports_without_their_queues_get_a_remark() {
    let notes = |protocol: &str, queue: &str| {
        let text = format!(
            "scenario: 1\nname: t\nduration: 1s\nnetwork: {{ topology: star, hosts: 2, queue: {queue}, host-link: \
             {{ rate: 10Gb/s }} }}\ntransport: {protocol}\ntraffic: [ {{ from: h0, to: h1 }} ]\n"
        );
        let source = Source::from_text("test.scenario.yaml", text);
        let (_, notes) =
            Scenario::from_files(&source, Path::new(""), &mut Shelf, &ReadOptions::default()).expect("good");
        notes.iter().map(|note| note.render(false)).collect::<String>()
    };
    assert_eq!(
        notes("dctcp", "{ discipline: ecn, mark: 30kB }") + &notes("pfabric", "pfabric") + &notes("cubic", "fifo"),
        ""
    );
    insta::assert_snapshot!(notes("dctcp", "drop-tail") + &notes("pfabric", "{ discipline: ecn, mark: 30kB }"));
}

#[test]
fn oversubscription_sets_the_fabrics_rate() {
    let rate = |network: &str| {
        let text =
            format!("scenario: 1\nname: t\nduration: 1s\nnetwork: {network}\ntraffic: [ {{ from: h0, to: h1 }} ]\n");
        read(&text).unwrap_or_else(|errors| panic!("{errors}")).graph().cables[0].a_to_b
    };
    // 16 hosts of 10 Gb/s over 4 uplinks, four times oversubscribed.
    let link = rate(
        "{ topology: leaf-spine, racks: 2, hosts: 16, spines: 4, oversubscription: 4, host-link: { rate: 10Gb/s, \
         delay: 3us } }",
    );
    assert_eq!((link.rate, link.delay), (Bandwidth::from_gbps(10), Duration::from_micros(3)));
    let link = rate(
        "{ topology: leaf-spine, racks: 2, hosts: 16, spines: 4, oversubscription: 1, fabric-link: { delay: 5us }, \
         host-link: { rate: 10Gb/s } }",
    );
    assert_eq!((link.rate, link.delay), (Bandwidth::from_gbps(40), Duration::from_micros(5)));
    assert_eq!(rate("{ topology: fat-tree, k: 4, host-link: { rate: 10Gb/s } }").rate, Bandwidth::from_gbps(10));
    assert_eq!(
        rate("{ topology: fat-tree, k: 4, oversubscription: 2.5, host-link: { rate: 10Gb/s } }").rate,
        Bandwidth::from_gbps(4)
    );
}

#[test]
fn links_one_by_one() {
    let text = "scenario: 1\nname: t\nduration: 1s\nnetwork:\n  topology: links\n  hosts: [\"c[1-2]\", s]\n  \
                switches: [a, b]\n  links:\n    \
        - { between: [c1, a], rate: 10Gb/s }\n    - { between: [a, c2], rate: 10Gb/s }\n    \
        - { between: [s, b], rate: 10Gb/s, back: { rate: 1Gb/s, queue: { discipline: ecn, mark: 30kB } } }\n    \
        - { between: [a, b], rate: 40Gb/s, delay: 10us, back: { delay: 20us } }\n  groups: { clients: \"c[1-2]\" }\n\
        traffic: [ { from: clients, to: s } ]\n";
    let scenario = read(text).unwrap_or_else(|errors| panic!("{errors}"));
    let graph = scenario.graph();
    let (s, cable) = (&graph.hosts[2], &graph.cables[0]);
    assert_eq!((&*s.name, s.switch), ("s", 1));
    assert_eq!((s.up.rate, s.down.rate), (Bandwidth::from_gbps(10), Bandwidth::from_gbps(1)));
    assert_eq!((s.up.queue.mark, s.down.queue.mark), (None, Some(Bytes::new(30_000))));
    assert_eq!((cable.a_to_b.delay, cable.b_to_a.delay), (Duration::from_micros(10), Duration::from_micros(20)));
    assert_eq!(cable.b_to_a.rate, Bandwidth::from_gbps(40));
    assert_eq!(graph.groups["clients"], [0, 1].map(MachineId));
}

#[test]
fn under_a_policy_the_simulator_runs_everything_and_the_lab_gives_its_reason() {
    let text = |extra: &str, group: &str| {
        format!(
            "scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\n{extra}traffic: [ {{ service: a, from: r1, to: \
             r2{group} }} ]\nmeasure: {{ rack: r1, direction: tx, every: 1ms }}\n"
        )
    };
    let reason = |extra: &str, group: &str| {
        let scenario = read(&text(extra, group)).unwrap_or_else(|errors| panic!("{errors}"));
        scenario.simulator_only().unwrap_or("the lab runs it").to_owned()
    };
    insta::assert_snapshot!(
        [
            reason("", ""),
            reason("transport: cubic\n", ", stop: 500ms"),
            reason("", ", size: 1MB"),
            reason("", ", spread: 1ms"),
            reason("", ", kind: random, sizes: 1kB, gap: 1ms"),
            reason("", ", kind: incast, size: 1kB, every: 1ms"),
            reason("transport: { protocol: udp, rate: 1Mb/s }\n", ", kind: incast, size: 1kB, every: 1ms"),
            reason("", ", kind: incast, size: 1kB, gap: 1ms, fan-in: 1"),
            reason("transport: dctcp\n", ""),
            reason("", ", priority: 3"),
            reason("links: { queue: { discipline: ecn, mark: 30kB } }\n", ""),
            reason("events: [ { at: 1ms, do: down, link: \"r1<->spine0\" } ]\n", ""),
        ]
        .join("\n")
    );
    let scenario =
        read(&text("links: { spines: 2, queue: { discipline: strict-priority, buffer: 64kB } }\n", "")).expect("good");
    assert_eq!(scenario.graph().cables[0].a_to_b.queue.discipline, Discipline::StrictPriority);
    let links = scenario.governed().and_then(|governed| governed.links).expect("racks");
    assert_eq!(links.queue.buffer, Bytes::new(64_000));
    let links: Vec<_> = scenario.measurement().links.iter().map(|link| scenario.graph().link_name(*link)).collect();
    assert_eq!(links, ["r1->spine0", "r1->spine1"]);
    assert_eq!(scenario.flow_groups()[0].service, Some(scenario.transfers()[0].service));
}

/// The policy over a star of its own.
fn own_network(star: &str, rest: &str) -> String {
    refused(&format!(
        "scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\nnetwork: {{ topology: star, {star} }}\n{rest}\
         traffic: [ {{ service: a, from: m1, to: m2 }} ]\nmeasure: {{ rack: r1, direction: tx, every: 1ms }}\n"
    ))
}

macro_rules! refusals {
    ($($name:ident: $text:expr;)*) => { $(
        #[test]
        fn $name() {
            insta::assert_snapshot!($text);
        }
    )* };
}

refusals! {
    quotas_that_do_not_ascend: random_with("quotas: { epoch: 1ms, sizes: [9kB, 9kB] }");
    more_quotas_than_classes: random_with("quotas: { epoch: 1ms, sizes: [1B, 2B, 3B, 4B, 5B, 6B, 7B, 8B, 9B] }");
    quotas_of_messages: random_with("quotas: { epoch: 1ms, sizes: [9kB] }, connections: 2");
    services_by_size_without_a_policy: random_with("by-size: [ { up-to: 10kB, service: a } ]");
    topology: changed("leaf-spine", "leafspine");
    no_topology: changed("  topology: leaf-spine\n", "");
    key_of_another_topology: changed("spines: 2", "spines: 2\n  k: 4");
    rate_zero: changed("rate: 10Gb/s, delay", "rate: 0Gb/s, delay");
    rate_too_fast: changed("rate: 10Gb/s, delay", "rate: 9Tb/s, delay");
    rate_too_slow: changed("rate: 10Gb/s, delay", "rate: 9999b/s, delay");
    no_fabric_rate: changed("{ rate: 40Gb/s, queue", "{ queue");
    no_fabric_link: over("{ topology: leaf-spine, racks: 2, hosts: 2, spines: 2, host-link: { rate: 1Gb/s } }");
    rate_and_oversubscription: changed("  queue: drop-tail", "  queue: drop-tail\n  oversubscription: 2");
    oversubscription_of_nothing: over("{ topology: leaf-spine, racks: 2, hosts: 1, spines: 1000, oversubscription: \
                                       1000, host-link: { rate: 1kb/s } }");
    oversubscription_below_the_clock: over("{ topology: leaf-spine, racks: 2, hosts: 1, spines: 1000, \
                                            oversubscription: 200, host-link: { rate: 1Gb/s } }");
    oversubscription_above_the_clock: over("{ topology: leaf-spine, racks: 2, hosts: 40, spines: 1, \
                                            oversubscription: 1, host-link: { rate: 400Gb/s } }");
    oversubscription_beyond_numbers: over("{ topology: leaf-spine, racks: 2, hosts: 1000000, spines: 1, \
                                           oversubscription: 0.001, host-link: { rate: 8Tb/s } }");
    odd_k: over("{ topology: fat-tree, k: 5, host-link: { rate: 1Gb/s } }");
    too_many_cores: over("{ topology: fat-tree, k: 4, cores: 5, host-link: { rate: 1Gb/s } }");
    too_many_aggregations: over("{ topology: fat-tree, k: 4, aggregations: 3, host-link: { rate: 1Gb/s } }");
    million_hosts: over("{ topology: fat-tree, k: 160, host-link: { rate: 10Gb/s } }");
    more_routes_than_memory: over("{ topology: leaf-spine, racks: 100000, hosts: 1, spines: 1, host-link: { rate: \
                                   10Gb/s }, fabric-link: { rate: 10Gb/s } }");
    many_racks: over("{ topology: leaf-spine, racks: 100000, hosts: 1000, spines: 4, host-link: { rate: 10Gb/s }, \
                      fabric-link: { rate: 10Gb/s } }");
    ecn_without_mark: changed("discipline: ecn, buffer: 300kB, mark: 97500B", "discipline: ecn, buffer: 300kB");
    ecn_as_a_keyword: changed("queue: drop-tail", "queue: ecn");
    mark_of_drop_tail: changed("queue: drop-tail", "queue: { discipline: drop-tail, mark: 10kB }");
    mark_above_the_buffer: changed("mark: 97500B", "mark: 300kB");
    buffer_below_a_packet: changed("buffer: 300kB", "buffer: 1499B");
    weights_of_the_wrong_length: changed("weights: [4, 2, 1, 1, 1, 1, 1, 1]", "weights: [4, 2]");
    nine_weights: changed("weights: [1, 1, 1, 1, 1, 1, 1, 2]", "weights: [1, 1, 1, 1, 1, 1, 1, 2, 3]");
    weight_zero: changed("weights: [4, 2,", "weights: [0, 2,");
    payload: changed("payload: 1460B", "payload: 100kB");
    shared_buffer: changed("  queue: drop-tail", "  shared-buffer: { size: 100B, alpha: 0 }");
    discipline: changed("deficit-round-robin,", "drr,");
    transport: changed("protocol: newreno", "protocol: newrenno");
    transport_parameter: changed("min-rto: 10ms", "min-rto: 0ms");
    transport_key_of_another: changed("min-rto: 10ms", "gain: 0.1");
    kind: changed("kind: incast", "kind: in-cast");
    key_of_another_kind: changed("every: 10ms, rounds: 10", "every: 10ms, sizes: 10kB");
    service_without_a_policy: changed("kind: random,", "kind: random, service: a,");
    unknown_host: changed("to: h4", "to: h8");
    unknown_group: changed("from: leaf0, to: h4", "from: leaf2, to: h4");
    load_above_one: changed("load: 60%", "load: 120%");
    load_without_a_unit: changed("load: 60%", "load: 0.6");
    load_and_gap: changed("load: 60%", "load: 60%, gap: 1ms");
    neither_load_nor_gap: changed("load: 60%, ", "");
    to_itself: changed("from: leaf0, to: h4", "from: leaf0, to: h3");
    random_to_itself: changed("from: all, to: all, sizes", "from: h1, to: h1, sizes");
    transfers_to_itself: changed("pattern: pairs, size: 1MB", "pattern: full-mesh, size: 1MB }\n  - { from: h1, to: \
        h1");
    shuffle_of_one: changed("among: all, size: 10kB", "among: h1, size: 10kB");
    a_group_as_receiver: changed("to: h4", "to: leaf1");
    to_one_without_a_root: changed("pattern: to-one, root: h7", "pattern: to-one");
    root_of_a_ring: changed("pattern: to-one", "pattern: ring");
    every_and_pause: changed("every: 10ms", "every: 10ms, pause: 1ms");
    neither_every_nor_pause: changed("every: 10ms, ", "");
    outstanding_and_gap: changed("outstanding: 2, think: 1ms", "outstanding: 2, gap: 1ms");
    think_in_an_open_loop: changed("outstanding: 2", "gap: 1ms");
    priority: changed("priority: 1", "priority: 8");
    load_and_rate: changed("load: 60%", "load: 60%, rate: 48Gb/s");
    rate_zero_of_a_flow_group: changed("load: 60%", "rate: 0b/s");
    per_sender: changed("load: 60%", "load: 60%, per-sender: each");
    connections_of_udp: changed("load: 60%, flows: 200", "load: 60%, connections: 24, transport: udp");
    connections_of_pfabric: changed("kind: list, file: flows.csv, transport: newreno", "kind: list, file: \
        flows.csv, connections: 4, transport: pfabric");
    no_connection: changed("connections: 3", "connections: 0");
    many_connections: changed("connections: 3 }", "connections: 3 }\n  - { kind: random, from: all, to: all, sizes: \
                                                   10kB, gap: 1ms, connections: 1001 }");
    connections_of_transfers: changed("spread: 1ms", "spread: 1ms, connections: 2");
    bursts_of_no_time: changed("on: 100ms", "on: 0s");
    bursts_without_their_length: changed("on: 100ms, ", "");
    bursts_that_begin_after_their_end: changed("spread: 10ms, stop", "spread: 950ms, stop");
    bursts_to_oneself: changed("from: leaf0, to: all, on", "from: h1, to: h1, on");
    two_of_one_name: changed("kind: list,", "kind: list, name: search,");
    sizes: changed("sizes: websearch", "sizes: web-search");
    sizes_reversed: changed("sizes: websearch", "sizes: 2kB-1kB");
    no_such_sizes: changed("response: sizes.csv", "response: size.csv");
    no_such_list: changed("file: flows.csv", "file: flow.csv");
    wrong_list: changed("file: flows.csv", "file: wrong.csv");
    event_after_the_end: changed("at: 20ms", "at: 20s");
    event: changed("do: rate", "do: rates");
    an_event_of_a_policy: changed("do: up, link: \"leaf0<->spine1\"", "do: up, link: \"leaf0<->spine1\", policy: a=1");
    unknown_link: changed("\"leaf0->spine[0-1]\"", "\"leaf0->leaf1\"");
    range_in_a_link: changed("\"leaf0->spine[0-1]\"", "\"leaf0->spine[0-01]\"");
    unknown_end: changed("\"spine0->leaf1\"", "\"spin0->leaf1\"");
    no_link: changed("\"leaf1->h7\"", "leaf1");
    a_link_twice: changed("\"leaf1->h7\"", "\"leaf0<->spine0\"");
    weights_of_a_fifo: changed("\"spine0->leaf1\"", "\"leaf1->h7\"");
    measured_rack: changed("measure: {", "measure: { rack: leaf0,");
    sample_too_long: changed("every: 1ms, links", "every: 2s, links");
    starts_after_the_end: changed("size: 64kB, every", "size: 64kB, start: 1s, every");
    machine_without_a_host: own_network("hosts: 3, host-link: { rate: 1Gb/s }", "");
    machines_of_two_hosts: own_network("hosts: 3, host-link: { rate: 1Gb/s }",
                                       "machines: { \"m[1-3]\": \"h[0-1]\" }\n");
    a_machine_mapped_twice: own_network("hosts: 3, host-link: { rate: 1Gb/s }",
                                        "machines: { \"m[1-3]\": \"h[0-2]\", m2: h1 }\n");
    racks_on_one_switch: own_network("hosts: 3, host-link: { rate: 1Gb/s }",
                                     "machines: { \"m[1-3]\": \"h[0-2]\" }\n");
    links_beside_a_network: own_network("hosts: 3, host-link: { rate: 1Gb/s }", "links: { spines: 2 }\n");
    mapping_without_a_network: refused("scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\nmachines: { m1: h1 }\n\
                                        traffic: [ { service: a, from: r1, to: r2 } ]\nmeasure: { rack: r1, \
                                        direction: tx, every: 1ms }\n");
    policy_over_a_network_without_services: changed("network:\n", "policy: p.yaml\nnetwork:\n");
    neither_network: refused("scenario: 1\nname: test\nduration: 1s\ntraffic: [ { from: a, to: b } ]\n");
    no_service_under_a_policy: refused("scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\ntraffic: [ { from: r1, \
                                        to: r2 } ]\nmeasure: { rack: r1, direction: tx, every: 1ms }\n");
    enforcement_without_a_policy: changed("network:\n", "enforcement: none\nnetwork:\n");
    buffer_beside_queue: refused("scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\nlinks: { buffer: 100kB, \
                                  queue: drop-tail }\ntraffic: [ { service: a, from: r1, to: r2 } ]\nmeasure: { \
                                  rack: r1, direction: tx, every: 1ms }\n");
    deadline_of_udp: changed("load: 60%, flows: 200", "load: 60%, deadline: 20ms, transport: udp");
    ports_of_two_kinds: changed("  - { kind: incast", "  - { kind: random, from: all, to: all, sizes: 10kB, gap: \
                                                       1ms, transport: { protocol: d3, beta: 2 } }\n  - { kind: \
                                                       random, from: all, to: all, sizes: 10kB, gap: 1ms, \
                                                       transport: d3 }\n  - { kind: random, from: all, to: all, \
                                                       sizes: 10kB, gap: 1ms, transport: { protocol: d3, beta: 2, \
                                                       interval: 1ms, dup-thresh: 9 } }\n  - { kind: incast");
    host_without_a_link: over("{ topology: links, hosts: [h1, h2, h3], switches: [a], links: [ { between: [h1, a], \
                               rate: 1Gb/s }, { between: [h3, a], rate: 1Gb/s } ] }");
    host_without_a_link_beside_one_with_a_bad_link: over("{ topology: links, hosts: [h1, h2, h3], switches: [a], \
                                                          links: [ { between: [h1, a], rate: 1Gb/s }, { between: \
                                                          [h3, a], rate: 0b/s } ] }");
    a_bad_link_between_switches: over("{ topology: links, hosts: [h1, h2], switches: [a, b], links: [ { between: \
                                       [h1, a], rate: 1Gb/s }, { between: [h2, b], rate: 1Gb/s }, { between: [a, \
                                       b], rate: 1 } ] }");
    a_single_host: over("{ topology: links, hosts: [\"h[1-1]\"], switches: [a], links: [ { between: [h1, a], rate: \
                         1Gb/s } ] }");
    a_link_with_one_end: over("{ topology: links, hosts: [\"h[1-2]\"], switches: [a], links: [ { between: [a], \
                               rate: 1Gb/s } ] }");
    host_with_two_links: over("{ topology: links, hosts: [h1, h2], switches: [a], links: [ { between: [h1, a], \
                               rate: 1Gb/s }, { between: [a, h1], rate: 1Gb/s } ] }");
    link_to_itself: over("{ topology: links, hosts: [h1, h2], switches: [a], links: [ { between: [a, a], rate: \
                          1Gb/s } ] }");
    link_between_hosts: over("{ topology: links, hosts: [h1, h2], switches: [a], links: [ { between: [h1, h2], \
                              rate: 1Gb/s } ] }");
    link_with_three_ends: over("{ topology: links, hosts: [h1, h2], switches: [a], links: [ { between: [h1, h2, a], \
                                rate: 1Gb/s } ] }");
    unknown_end_of_a_link: over("{ topology: links, hosts: [host1, h2], switches: [a], links: [ { between: [hosst1, \
                                 a], rate: 1Gb/s } ] }");
    in_pieces: over("{ topology: links, hosts: [h1, h2], switches: [a, b, c], links: [ { between: [h1, a], rate: \
                     1Gb/s }, { between: [h2, c], rate: 1Gb/s }, { between: [b, c], rate: 1Gb/s } ] }");
    a_name_twice: over("{ topology: links, hosts: [h1, h2], switches: [a, h1], links: [ { between: [h1, a], rate: \
                        1Gb/s } ] }");
    group_of_unknown_hosts: over("{ topology: links, hosts: [h1, h2], switches: [a], groups: { h1: h2, g: [h3, a] }, \
                              links: [ { between: [h1, a], rate: 1Gb/s }, { between: [h2, a], rate: 1Gb/s } ] }");
    several: changed("  racks: 2\n  hosts: 4\n", "  racks: 0\n  host: 4\n  routing: ecpm\n");
}

fn set(pairs: &[(&str, &str)]) -> Result<Scenario, Diagnostics> {
    let set = pairs.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    read_with(GOOD, &ReadOptions { set, memory: None })
}

#[test]
fn values_are_set_from_outside() {
    let scenario = set(&[
        ("seed", "7"),
        ("duration", "2s"),
        ("network.host-link.rate", "25Gb/s"),
        ("network.routing", "spray"),
        ("network.shared-buffer.size", "9MB"),
        ("traffic[1].load", "30%"),
        ("traffic[1].flows", "10"),
        ("traffic[2].transport.min-rto", "1ms"),
        ("transport", "cubic"),
        ("events[0].at", "1s"),
        ("measure", "{ every: 5ms, links: [\"leaf0->spine0\"] }"),
        ("network.queue", "{ discipline: ecn, buffer: 90kB, mark: 30kB }"),
    ])
    .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((scenario.seed(), scenario.duration()), (7, Duration::from_secs(2)));
    assert_eq!(scenario.graph().hosts[0].up.rate, Bandwidth::from_gbps(25));
    assert_eq!(scenario.graph().routing, Routing::Spray);
    assert_eq!(scenario.graph().shared_buffer.expect("shared").bytes, Bytes::new(9_000_000));
    assert_eq!(scenario.flow_groups()[0].transport.protocol(), "cubic");
    // A bare word becomes the mapping that it stands for.
    assert_eq!(scenario.flow_groups()[2].transport.protocol(), "newreno");
    assert_ne!(scenario.flow_groups()[2].transport, Parameters::default());
    assert_eq!(Workload::new(&scenario.flow_groups()[1].spec, 1).expected(), Some(10));
    assert_eq!(scenario.events().last().expect("events").at, Duration::from_secs(1));
    // Brackets are read as the file's own would be.
    let measurement = scenario.measurement();
    assert_eq!((measurement.every, measurement.links.len()), (Duration::from_millis(5), 1));
    let scenario = set(&[("events", "[]")]).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(scenario.events().is_empty());
}

#[test]
fn refused_settings() {
    let mut all = String::new();
    for (path, value) in [
        ("traffic[1].load", "120%"),
        ("traffic[0].load", "50%"),
        ("traffic[7].load", "50%"),
        ("traffic[1].lod", "50%"),
        ("traffic.load", "50%"),
        ("seed[0]", "1"),
        ("sed", "1"),
        ("seed.x", "1"),
        ("", "1"),
        ("traffic[", "1"),
        ("network.fabric-link.rate", "0b/s"),
        ("network.spine", "3"),
        ("network.k", "3"),
        ("transport.min-rt", "1ms"),
        ("transport.min-rto", "1"),
        ("transport", "tcp"),
        ("duration", "5ms"),
        ("policy", "p.yaml"),
        ("traffic[1].from", "absent"),
        ("traffic[1].priority", "9"),
        ("measure.links[0]", "a->b"),
        ("measure.every", "1ns"),
        ("events", "{ at: 1ms }"),
        ("events", "none"),
        ("events", "[ { at: 1ms, do: down, link: x->y } ]"),
        ("events", "[ { at: 1ms, do: down"),
        ("traffic", "[]"),
        ("traffic[0]", "{ from: absent, to: all, size: &a 1kB }"),
        // What is not in the file: a scalar, a mapping, a mapping on the way, keys in it.
        ("seed", "x"),
        ("traffic[0].transport", "{ protocol: udp, rate: 10 }"),
        ("traffic[0].transport.rate", "10Mb/s"),
        ("traffic[0].transport", "{ protocol: udp, protocol: udp, rat: 10Mb/s }"),
        ("traffic[99].size", "1kB"),
    ] {
        let Err(errors) = set(&[(path, value)]) else { panic!("{path}={value} is accepted") };
        all.push_str(&format!("--set {path}={value}\n{}\n", errors.render(false)));
    }
    insta::assert_snapshot!(all);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn mutated_scenarios(changes in proptest::collection::vec((
        any::<prop::sample::Index>(), 0usize..8, prop::sample::select(vec![
        "leaf0", "h1", "all", "[", "]", "{", "}", ", ", ": ", "\n", "0s", "1s", "9999999min", "pairs", "1", "-1",
        "99999999999",
        "k: 6", "star", "fat-tree", "dumbbell", "links", "parking-lot", "->", "<->", "%", "100%", "kind: ", "udp",
        "dctcp", "ecn", "mark: 1kB", "queue: ", "incast",
        "hosts: 3", "\u{0}", "*x", "h[1-9]", "policy: p", "oversubscription: 3", "switches: [a]", "between: [a, b]",
    ])), 1..6)) {
        let mut text = GOOD.to_owned();
        for (at, cut, word) in changes {
            let from = text.floor_char_boundary(at.index(text.len() + 1));
            let to = text.ceil_char_boundary((from + cut).min(text.len()));
            text.replace_range(from..to, word);
        }
        match read(&text) {
            Ok(scenario) => {
                let graph = scenario.graph();
                prop_assert!(!scenario.flow_groups().is_empty());
                prop_assert!(graph.links().all(|link| graph.link(link).rate > Bandwidth::ZERO));
                let events = scenario.events();
                prop_assert!(events.iter().all(|event| event.at <= scenario.duration() && !event.links.is_empty()));
                prop_assert!(scenario.measurement().every <= scenario.duration());
                for group in scenario.flow_groups() {
                    let mut workload = Workload::new(&group.spec, 1);
                    if let Some(flow) = workload.next().and_then(|at| workload.poll(at)) {
                        prop_assert!(flow.from != flow.to && flow.to.index() < graph.hosts.len());
                    }
                }
            }
            Err(errors) => { let _ = errors.render(false); }
        }
    }

    #[test]
    fn settings_are_taken_or_refused(
        path in "[a-z.\\[\\]0-9-]{0,20}|(traffic|events|measure|network|transport)(\\[[0-9]\\])?\\.[a-z-]{1,8}",
        value in "\\PC{0,10}",
    ) {
        if let Err(errors) = set(&[(&path, &value)]) {
            for error in errors.all() {
                prop_assert!(error.span().end as usize <= GOOD.len() && !error.cause().is_empty());
            }
        }
    }
}
