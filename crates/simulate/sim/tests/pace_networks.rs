//! PACE beside other traffic, on networks that change, and with lost control messages.

use crate::pace::{counter, search};
use crate::support::scenarios;
use crate::support::{SIZES, dumbbell, link};
use std::sync::Arc;
use weir_network::graph::Routing;
use weir_sim::checkers::{self, Checkers};
use weir_sim::{FlowId, FlowSpec, HostId, RunOutcome, ServiceIndex, SimTime, Stop, World};
use weir_transport::{Parameters, pace};
use weir_units::{Bandwidth, Duration};

/// A dumbbell with pairs of hosts and 1 Gb/s in all links, with a queue, a transport and more keys.
fn pairs(flows: u32, queue: &str, transport: &str, more: &str) -> String {
    format!(
        "scenario: 1\nname: pairs\nseed: 1\nduration: 100ms\nnetwork: {{ topology: dumbbell, hosts: 2, host-link: {{ \
         rate: 1Gb/s, delay: 10us, queue: {queue} }}, fabric-link: {{ rate: 1Gb/s, delay: 10us, queue: {queue} }} \
         }}\ntransport: {transport}\ntraffic:\n  - {{ name: credits, from: s0, to: r0, flows: {flows} }}\n{more}"
    )
}

const TAIL: &str = "{ discipline: drop-tail, buffer: 500kB }";

fn ends(outcome: &RunOutcome) -> bool {
    outcome.results.flows.iter().all(|flow| flow.finished.is_some())
}

/// The bytes of a group's flows.
fn delivered(outcome: &RunOutcome, name: &str) -> u64 {
    let group = outcome.results.groups.iter().position(|group| group.name == name).expect("a group");
    let samples = outcome.results.group_samples.iter().filter(|sample| sample.group as usize == group);
    samples.map(|sample| sample.delivered).sum()
}

/// A hundredth of control messages is lost at each link: all flows end, and no data is lost.
#[test]
fn lost_control_messages_lose_no_data() {
    let run = |seed| {
        let scenario = scenarios::read("", search("symmetric", "{ protocol: pace, control-loss: 0.01 }", ""));
        scenarios::run_with(&scenario, seed, true)
    };
    let outcome = run(1);
    let (lost, taken) = (counter(&outcome, "credits_control_lost"), counter(&outcome, "credits_control_messages"));
    let share = lost as f64 / (lost + taken) as f64;
    assert!((0.005..0.015).contains(&share), "{lost} of {taken}");
    assert!(ends(&outcome));
    for name in ["packets_dropped", "credits_dropped_packets", "credits_overfull"] {
        assert_eq!(counter(&outcome, name), 0, "{name}");
    }
    assert_eq!(run(1).results.counters, outcome.results.counters);
    assert_ne!(counter(&run(2), "credits_control_lost"), lost);
}

/// 64 flows have two frames for each allocation of 84 B: 2.8 % of the data's bytes go the other way, plus returns
/// without data.
#[test]
fn control_messages_are_a_small_part_of_the_reverse_direction() {
    let measure = "measure: { every: 1ms, links: [ \"left->right\", \"right->left\" ] }\n";
    let outcome = scenarios::run("", pairs(64, TAIL, "pace", measure));
    let control = counter(&outcome, "credits_control_bytes_at_right->left") as f64;
    let data = counter(&outcome, "credits_data_bytes_at_left->right") as f64;
    assert!((0.025..0.031).contains(&(control / data)), "{control} of {data} B");
    let capacity = counter(&outcome, "credits_capacity_bytes_at_right->left");
    assert_eq!(capacity, 12_500_000);
    assert_eq!(counter(&outcome, "credits_control_rate_at_right->left"), (control * 80.0) as u64);
    // The port came near its bound and not above; all that it had granted and queued includes its queue.
    let at = |of: &str| counter(&outcome, &format!("credits_{of}_bytes_at_left->right"));
    assert!(at("queue") > 0 && at("queue") <= at("peak") && at("peak") <= at("bound"));
    assert!((500_000..=1_000_000).contains(&counter(&outcome, "credits_fullest_ppm")));
}

/// Three messages on one connection: each is over in its ideal time and a few periods.
#[test]
fn messages_after_idle_gaps_get_credits() {
    let edge = link(Bandwidth::from_gbps(1), Duration::from_micros(10), 500_000);
    let (mut world, ..) = dumbbell(1, SIZES, edge, edge);
    world.set_short_host_queues();
    let size = 250_000;
    let flow = world.add_flow(spec(0, 1, size), &Parameters::Pace(pace::Parameters::default()));
    let mut spans = Vec::new();
    let mut start = SimTime::ZERO;
    for message in 1..=3 {
        if message > 1 {
            // Shorter and longer than the memory of ports and receivers, 0.8 and 20 ms.
            start = world.now() + SimTime::from_millis([2, 60][message as usize - 2]);
            while world.run_until(start) != Stop::Limit {}
            world.write(flow, size);
            world.expect(flow, message * size);
        }
        run_to_end(&mut world, flow, start + SimTime::from_millis(50));
        spans.push((world.now() - start).picos() / 1_000_000);
    }
    checkers::check(&world);
    // 250 kB take 2.1 ms at 1 Gb/s.
    assert!(spans.iter().all(|span| (2_000..3_000).contains(span)), "{spans:?} us");
    assert_eq!(world.credit_counters().get("credits_late_packets"), Some(&0));
}

fn spec(from: u32, to: u32, size: u64) -> FlowSpec {
    FlowSpec {
        from: HostId(from),
        to: HostId(to),
        service: ServiceIndex(0),
        priority: 0,
        start: SimTime::ZERO,
        stop: SimTime::NEVER,
        size: Some(size),
        deadline: None,
        hash: 7,
    }
}

fn run_to_end(world: &mut World<Checkers>, flow: FlowId, until: SimTime) {
    while world.run_until(until) == Stop::Over {
        if world.next_over() == Some(flow) {
            return;
        }
    }
    panic!("the flow is not over at {until}");
}

/// A link is down for longer than the receivers wait. Afterwards flows have all of the link again.
#[test]
fn an_outage_of_50_ms_is_survived() {
    let events = "events:\n  - { at: 20ms, do: down, link: \"left<->right\" }\n  - { at: 70ms, do: up, link: \
                  \"left<->right\" }\n\
                  measure: { every: 10ms, links: [ \"left->right\" ] }\n";
    let outcome = scenarios::run("", pairs(4, TAIL, "pace", events).replace("duration: 100ms", "duration: 200ms"));
    let sent: Vec<u64> = outcome.results.link_samples.iter().map(|sample| sample.bytes).collect();
    // 1.25 MB are all of the link in 10 ms. Timeouts of 10 ms double with each repetition, so the last begins before
    // 100 ms and ends before 180 ms.
    assert!(sent[1] > 1_200_000 && sent[19] > 1_200_000, "{sent:?}");
    assert_eq!(counter(&outcome, "credits_dropped_packets"), counter(&outcome, "credits_excluded_packets"));
    assert_eq!((counter(&outcome, "credits_late_packets"), counter(&outcome, "credits_overfull")), (0, 0));
}

/// A full class of drop-tail traffic beside PACE takes nothing of its budget.
#[test]
fn another_full_class_takes_no_credits() {
    let queue = "{ discipline: deficit-round-robin, weights: [1, 1, 1, 1, 1, 1, 1, 1], buffer: 300kB }";
    let other = "  - { name: others, from: s1, to: r1, flows: 8, priority: 1, transport: newreno }\n";
    let run = |other: &str| scenarios::run("", pairs(4, queue, "{ protocol: pace, share: 0.5 }", other));
    let outcome = run(other);
    assert!(counter(&outcome, "packets_dropped") > 0);
    for name in ["credits_dropped_packets", "credits_late_packets", "credits_overfull"] {
        assert_eq!(counter(&outcome, name), 0, "{name}");
    }
    let (credits, others) = (delivered(&outcome, "credits"), delivered(&outcome, "others"));
    let alone = delivered(&run(""), "credits");
    // Half of 12.5 MB, of which 1448 of 1514 B are data.
    assert!(alone > 5_700_000 && credits * 100 > alone * 97, "{credits} beside {others} B, {alone} alone");
}

/// One of two spines fails and returns while flows fill the racks' uplinks: the only losses are those on its links, and
/// re-routed data is counted apart.
#[test]
fn losses_of_a_failing_link_are_excluded() {
    let more = "  - { name: long, from: \"h[0-3]\", to: \"h[4-7]\", flows: 2 }\nevents:\n  - { at: 60ms, do: down, \
                link: \"leaf0<->spine1\" }\n  - { at: 120ms, do: up, link: \"leaf0<->spine1\" }\n";
    let text = search("symmetric", "pace", more).replace("duration: 1s", "duration: 300ms");
    let outcome = scenarios::run("", text);
    assert!(counter(&outcome, "credits_rerouted_packets") > 0);
    assert!(counter(&outcome, "credits_dropped_packets") > 0);
    assert_eq!(counter(&outcome, "credits_dropped_packets"), counter(&outcome, "credits_excluded_packets"));
    assert_eq!((counter(&outcome, "credits_late_packets"), counter(&outcome, "credits_overfull")), (0, 0));
}

/// The spines have no forwarders: flows share what they have, and no port claims to be lossless.
#[test]
fn ports_without_forwarders_are_reported() {
    let outcome = scenarios::run("", search("symmetric", "pace", "without-forwarder: [ \"spine[0-1]\" ]\n"));
    assert!(ends(&outcome));
    assert_eq!(counter(&outcome, "credits_ports_without_forwarder"), 8);
    assert_eq!(counter(&outcome, "credits_no_forwarder_at_spine1->leaf3"), 1);
    assert!(!outcome.results.counters.contains_key("credits_no_forwarder_at_leaf3->spine1"));
    // 16 interfaces, 16 ports to hosts, 8 to spines.
    assert_eq!(counter(&outcome, "credits_ports"), 40);
}

/// Allocations that arrive where their data does not leave grant nothing and leave no state.
#[test]
fn astray_allocations_grant_nothing() {
    let scenario = scenarios::read("", search("symmetric", "pace", ""));
    let mut graph = (**scenario.graph()).clone();
    graph.routing = Routing::Ecmp;
    let mut world = World::from_graph(&Arc::new(graph), 1, 1, Checkers::default());
    world.set_short_host_queues();
    for host in 0..8_u32 {
        let spec = FlowSpec { hash: host.wrapping_mul(0x9E37_79B9), ..spec(host, 8 + host, 1_000_000) };
        world.add_flow(spec, &Parameters::Pace(pace::Parameters::default()));
    }
    while world.run_until(SimTime::from_millis(50)) != Stop::Limit {
        while world.next_over().is_some() {}
    }
    checkers::check(&world);
    let counters = world.credit_counters();
    assert!(counters["credits_astray"] > 0 && counters["credits_late_packets"] == 0, "{counters:?}");
}

/// A round trip of 65 µs is within a period. Behind the queue of eight flows, up to 400 µs, some are not.
#[test]
fn slow_returns_are_counted() {
    let slow = |flows| counter(&scenarios::run("", pairs(flows, TAIL, "pace", "")), "credits_slow_returns");
    assert_eq!(slow(1), 0);
    assert!(slow(8) > 0);
}
