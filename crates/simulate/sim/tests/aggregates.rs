//! Aggregates with credits: flows of TCP whose data waits in hosts.

use crate::support::{SIZES, delivered, flow, link};
use weir_sim::checkers::{self, Checkers};
use weir_sim::{FlowId, HostId, SimTime, Stop, World};
use weir_transport::{Parameters, newreno, pace, tcp};
use weir_units::{Bandwidth, Duration};

/// A star of hosts, 1 Gb/s and 10 µs, with buffers of so many bytes.
fn star(hosts: u32, buffer: u64) -> World<Checkers> {
    let link = link(Bandwidth::from_gbps(1), Duration::from_micros(10), buffer);
    let mut world = World::new(0, SIZES, Checkers::default());
    let switch = world.add_switch();
    for _ in 0..hosts {
        world.add_host(switch, link, link);
    }
    world.compute_routes();
    world
}

fn newreno() -> Parameters {
    let tcp = tcp::Parameters { min_rto: SimTime::from_millis(10), ..Default::default() };
    Parameters::NewReno(newreno::Parameters { tcp })
}

fn run(world: &mut World<Checkers>, until: SimTime) {
    while world.run_until(until) == Stop::Over {
        while world.next_over().is_some() {}
    }
    checkers::check(world);
}

/// Ten flows of one host and one of each of three others to a fifth one.
fn senders(world: &mut World<Checkers>) -> Vec<Vec<FlowId>> {
    let flows = |from: u32| if from == 0 { 10 } else { 1 };
    let mut add = |from: u32, number: u32| {
        let spec = flow(HostId(from), HostId(4), None);
        world.add_flow(weir_sim::FlowSpec { hash: 100 * from + number, ..spec }, &newreno())
    };
    (0..4).map(|from| (0..flows(from)).map(|number| add(from, number)).collect()).collect()
}

/// Hosts have equal shares, however many flows they have, and no frame is dropped; without credits the same buffer
/// loses frames.
#[test]
fn hosts_share_a_port_without_loss() {
    // 2 · R · p and a frame of each aggregate, with p = 200 µs; and acknowledgements.
    let buffer = 50_000 + 4 * 1_514 + 5_000;
    let mut world = star(5, buffer);
    world.set_aggregates(&pace::Parameters::default());
    let flows = senders(&mut world);
    let at = |world: &World<Checkers>| -> Vec<u64> {
        flows.iter().map(|own| own.iter().map(|&flow| delivered(world, flow)).sum()).collect()
    };
    run(&mut world, SimTime::from_millis(100));
    let before = at(&world);
    run(&mut world, SimTime::from_millis(200));
    let bytes: Vec<u64> = at(&world).iter().zip(before).map(|(after, before)| after - before).collect();
    let counters = world.credit_counters();
    assert_eq!(world.counters().dropped, 0);
    for name in ["credits_late_packets", "credits_overfull", "credits_dropped_packets"] {
        assert_eq!(counters[name], 0, "{name}");
    }
    // 12.5 MB in 100 ms, of which 1448 of 1514 B are data.
    let sum: u64 = bytes.iter().sum();
    assert!(sum * 100 > 11_955_000 * 93, "{bytes:?}");
    assert!(bytes.iter().all(|own| (own * 4).abs_diff(sum) * 100 <= sum * 5), "{bytes:?}");
    assert_eq!((world.aggregate_counters().overspent, world.aggregate_counters().astray), (0, 0));

    let mut world = star(5, buffer);
    senders(&mut world);
    run(&mut world, SimTime::from_millis(200));
    assert!(world.counters().dropped > 0);
}

/// Flows that end one after the other with pauses: the aggregate ends and begins again.
#[test]
fn an_aggregate_begins_again_after_a_pause() {
    let mut world = star(2, 100_000);
    world.set_aggregates(&pace::Parameters::default());
    for start in [0, 30, 300] {
        let spec = flow(HostId(0), HostId(1), Some(250_000));
        let spec = weir_sim::FlowSpec { start: SimTime::from_millis(start), hash: start as u32, ..spec };
        world.add_flow(spec, &newreno());
    }
    let mut ends = Vec::new();
    while world.run_until(SimTime::from_millis(400)) == Stop::Over {
        while world.next_over().is_some() {
            ends.push(world.now().picos() / 1_000_000_000);
        }
    }
    checkers::check(&world);
    // 250 kB take 2.1 ms, and a window that begins with 10 segments some round trips and periods more.
    assert!(ends.iter().zip([0, 30, 300]).all(|(end, start)| (start + 2..start + 6).contains(end)), "{ends:?}");
    assert_eq!((ends.len(), world.counters().dropped), (3, 0));
}
