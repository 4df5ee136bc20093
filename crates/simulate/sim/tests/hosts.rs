//! Hosts as data: the order in their interfaces, and handshakes.

use crate::support::{SIZES, delivered, dumbbell, flow, link, run};
use weir_scenario::{HostOrder, HostQueues};
use weir_sim::checkers::Checkers;
use weir_sim::{FlowSpec, HostId, PortId, SimTime, World};
use weir_transport::{Parameters, dctcp, newreno, udp};
use weir_units::{Bandwidth, Bytes, Duration};

const FRAME: u64 = 1514;

/// One sender, two receivers, and nothing slower than the sender's interface.
fn network(queues: Option<HostQueues>) -> (World<Checkers>, [HostId; 3]) {
    let edge = link(Bandwidth::from_gbps(1), Duration::from_micros(5), 10_000_000);
    let mut world = World::new(0, SIZES, Checkers::default());
    let switch = world.add_switch();
    let hosts = [0, 1, 2].map(|_| world.add_host(switch, edge, edge));
    world.compute_routes();
    world.set_short_host_queues();
    if let Some(queues) = queues {
        world.set_host_queues(&queues);
    }
    (world, hosts)
}

fn fifo(buffer: Option<u64>, mark: Option<u64>) -> HostQueues {
    let order = HostOrder::Fifo { buffer: buffer.map(Bytes::new), mark: mark.map(Bytes::new) };
    HostQueues { order, flow_limit: None }
}

fn reno(window: u32) -> Parameters {
    let mut parameters = newreno::Parameters::default();
    parameters.tcp.initial_window = window;
    Parameters::NewReno(parameters)
}

/// The time of a packet that starts behind a flow of 100 packets of the same host, to another receiver.
fn behind_a_window(queues: Option<HostQueues>) -> f64 {
    let (mut world, [a, b, c]) = network(queues);
    world.add_flow(flow(a, b, Some(100 * 1448)), &reno(100));
    let late = FlowSpec { start: SimTime::from_micros(1), ..flow(a, c, Some(1448)) };
    let late = world.add_flow(late, &reno(10));
    run(&mut world, SimTime::from_secs(1));
    let time = world.flow(late).finished().expect("it is over") - SimTime::from_micros(1);
    // In frames of the interface, beyond the way.
    let ideal = world.ideal(a, c, 2, 1448);
    (time - ideal).picos() as f64 / (FRAME as f64 * 8.0 * 1000.0)
}

#[test]
fn a_packet_waits_behind_the_window_of_another_flow_only_in_a_fifo() {
    // The rest of the frame in transmission, and the frames of the long flow that wait.
    let near = |queues, waiting: f64| {
        let (waited, rest) = (behind_a_window(queues), 1.0 - 1000.0 / (FRAME as f64 * 8.0));
        assert!((waited - waiting - rest).abs() < 0.02, "{waited} of {waiting} frames, {queues:?}");
    };
    near(None, 2.0);
    near(Some(fifo(None, None)), 99.0);
    near(Some(HostQueues { flow_limit: Some(Bytes::new(10 * FRAME)), ..fifo(None, None) }), 10.0);
    near(Some(HostQueues { order: HostOrder::Fair, flow_limit: Some(Bytes::new(5 * FRAME)) }), 5.0);
}

/// Two DCTCP flows of one host: its interface is the bottleneck.
fn dctcp_flows(queues: Option<HostQueues>) -> (World<Checkers>, PortId, u64) {
    let (mut world, [a, b, c]) = network(queues);
    let parameters = Parameters::Dctcp(dctcp::Parameters::default());
    let flows = [b, c].map(|to| world.add_flow(flow(a, to, None), &parameters));
    run(&mut world, SimTime::from_millis(200));
    let port = world.interface(a);
    let sent = flows.iter().map(|id| delivered(&world, *id)).sum();
    (world, port, sent)
}

#[test]
fn interfaces_mark_and_drop_as_configured() {
    let full = 0.94 * 0.2 * 1e9 / 8.0;
    let (world, port, sent) = dctcp_flows(None);
    assert_eq!((world.counters().marked, world.counters().dropped), (0, 0));
    assert!(world.held(port) <= 5 * FRAME, "{} B wait", world.held(port));
    assert!(sent as f64 > full, "{sent} B");
    let (world, port, sent) = dctcp_flows(Some(fifo(None, Some(20 * FRAME))));
    assert!(world.counters().marked > 0 && world.counters().dropped == 0);
    assert!(world.held(port) < 40 * FRAME, "{} B wait", world.held(port));
    assert!(sent as f64 > full, "{sent} B");
    // Dropped packets are repeated, and the flows share what the buffer lets through.
    let (world, _, sent) = dctcp_flows(Some(fifo(Some(30 * FRAME), None)));
    assert!(world.counters().dropped > 0 && world.counters().retransmissions >= world.counters().dropped);
    assert!(sent as f64 > 0.8 * full, "{sent} B");
    assert!(world.flows().all(|(_, flow)| flow.in_host() <= 31 * FRAME));
}

/// The completion time of a flow of 3 packets with and without a handshake, and the time of a round trip of headers.
fn with_and_without_handshake(transport: impl Fn(bool) -> Parameters) -> [SimTime; 3] {
    let edge = link(Bandwidth::from_gbps(1), Duration::from_micros(5), 300_000);
    let mut round_trip = SimTime::ZERO;
    let times = [false, true].map(|handshake| {
        let (mut world, pairs, _) = dumbbell(1, SIZES, edge, edge);
        let (from, to) = pairs[0];
        let id = world.add_flow(flow(from, to, Some(3 * 1448)), &transport(handshake));
        run(&mut world, SimTime::from_secs(1));
        round_trip = world.ideal(from, to, 0, 0) + world.ideal(to, from, 0, 0);
        world.flow(id).finished().expect("it is over")
    });
    [times[0], times[1], round_trip]
}

#[test]
fn a_handshake_takes_a_round_trip_before_the_first_data() {
    let transports: [fn(bool) -> Parameters; 3] = [
        |on| {
            let mut parameters = newreno::Parameters::default();
            parameters.tcp.handshake = on;
            Parameters::NewReno(parameters)
        },
        |on| {
            let mut parameters = weir_transport::cubic::Parameters::default();
            parameters.tcp.handshake = on;
            Parameters::Cubic(parameters)
        },
        |on| {
            let mut parameters = dctcp::Parameters::default();
            parameters.tcp.handshake = on;
            Parameters::Dctcp(parameters)
        },
    ];
    for transport in transports {
        let [without, with, round_trip] = with_and_without_handshake(transport);
        assert_eq!(with - without, round_trip);
    }
}

/// The first packet of a handshake finds its link down; it is repeated after the initial timeout, and its repetition
/// after twice that.
#[test]
fn a_lost_handshake_is_repeated() {
    let edge = link(Bandwidth::from_gbps(1), Duration::from_micros(5), 300_000);
    let (mut world, pairs, port) = dumbbell(1, SIZES, edge, edge);
    let mut parameters = newreno::Parameters::default();
    (parameters.tcp.handshake, parameters.tcp.initial_rto) = (true, SimTime::from_millis(300));
    let (from, to) = pairs[0];
    let id = world.add_flow(flow(from, to, Some(1448)), &Parameters::NewReno(parameters));
    world.take_down(port);
    run(&mut world, SimTime::from_millis(800));
    assert_eq!((world.counters().dropped, delivered(&world, id)), (2, 0));
    world.bring_up(port);
    run(&mut world, SimTime::from_secs(2));
    let finished = world.flow(id).finished().expect("it is over");
    assert!(finished > SimTime::from_millis(900) && finished < SimTime::from_millis(901), "{finished}");
    assert_eq!(world.counters().timeouts, 2);
}

/// A flow that is stopped before its connection exists sends nothing and is over.
#[test]
fn a_flow_may_end_before_its_handshake() {
    let edge = link(Bandwidth::from_gbps(1), Duration::from_micros(5), 300_000);
    let (mut world, pairs, port) = dumbbell(1, SIZES, edge, edge);
    let mut parameters = newreno::Parameters::default();
    parameters.tcp.handshake = true;
    let spec = FlowSpec { stop: SimTime::from_millis(500), ..flow(pairs[0].0, pairs[0].1, None) };
    world.add_flow(spec, &Parameters::NewReno(parameters));
    world.take_down(port);
    run(&mut world, SimTime::from_secs(3));
    assert_eq!((world.counters().sent, world.packets()), (1, 0));
}

/// A host that sends at its interface's rate loses what is on the wire when its cable is pulled, and continues.
#[test]
fn a_busy_host_continues_after_its_link_was_down() {
    for queues in [None, Some(fifo(Some(30 * FRAME), None))] {
        let (mut world, [a, b, _]) = network(queues);
        let id = world.add_flow(flow(a, b, None), &reno(10));
        run(&mut world, SimTime::from_millis(10));
        let up = world.interface(a);
        world.take_down(up);
        run(&mut world, SimTime::from_millis(20));
        assert!(world.flow(id).in_host() <= 31 * FRAME, "{} B", world.flow(id).in_host());
        world.bring_up(up);
        run(&mut world, SimTime::from_secs(2));
        let before = delivered(&world, id);
        run(&mut world, SimTime::from_secs(3));
        let rate = (delivered(&world, id) - before) as f64 * 8.0 / 1e9;
        assert!(rate > 0.8, "{rate} Gb/s after the repair");
    }
}

/// A buffer bounds what a host without a link keeps, and a sender whose packets are dropped in its host sends on.
#[test]
fn a_full_interface_drops_datagrams_and_their_sender_continues() {
    let limit = HostQueues { flow_limit: Some(Bytes::new(4 * FRAME)), ..fifo(Some(20 * FRAME), None) };
    let (mut world, [a, b, c]) = network(Some(limit));
    let rate = |mbps| Parameters::Udp(udp::Parameters { rate: Some(Bandwidth::from_mbps(mbps)), ..Default::default() });
    let flows = [world.add_flow(flow(a, b, None), &rate(800)), world.add_flow(flow(a, c, None), &rate(800))];
    let up = world.interface(a);
    run(&mut world, SimTime::from_millis(10));
    world.take_down(up);
    run(&mut world, SimTime::from_millis(20));
    assert!(world.held(up) <= 20 * FRAME, "{} B wait", world.held(up));
    world.bring_up(up);
    let before = flows.map(|id| delivered(&world, id));
    run(&mut world, SimTime::from_millis(40));
    for (id, before) in flows.iter().zip(before) {
        assert!(delivered(&world, *id) > before + 100_000, "one of two datagram flows stopped");
    }
}
