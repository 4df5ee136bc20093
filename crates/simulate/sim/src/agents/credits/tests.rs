//! The agent of a port, driven by hand: 1 Gb/s, periods of 200 µs.

use super::*;
use weir_credits::{Period, Request, Return};

use weir_transport::agents::ControlField;
use weir_units::Duration;

const GBPS: Bandwidth = Bandwidth::from_gbps(1);
const FLOW: FlowKey = FlowKey { slot: 0, from: 0, to: 1, hash: 7 };

fn micros(at: u64) -> SimTime {
    SimTime::from_micros(at)
}

fn agent() -> CreditAgent {
    let of = PortOf {
        rate: GBPS,
        ingress: GBPS,
        is_host: false,
        scheduled: false,
        whole_frames: false,
        frame: 1_514,
        headers: 66,
        claims: true,
        seed: 1,
    };
    CreditAgent::new(&Parameters::default(), of)
}

fn passing<'a>(kind: PacketKind, size: u32, direct: bool, control: Option<&'a mut ControlField>) -> Passing<'a> {
    let (flow, port, credits) = (Some(FLOW), PortState { taken: 0, held: 0 }, kind == PacketKind::Data);
    Passing { kind, size, flow, credits, direct, port, control }
}

/// The bytes that are left of an allocation of 25,000 B when it has passed to the sender.
fn allocate(agent: &mut CreditAgent, at: u64, clock: u32, direct: bool) -> u64 {
    let (period, bytes) = (Period::from_micros(200), Bytes::new(25_000));
    let allocation = Allocation {
        clock,
        period,
        longest: period,
        potential: bytes,
        demand: bytes,
        allocation: bytes,
        weight: Weight::ONE,
        queueing: Duration::ZERO,
    };
    let mut field = ControlField::from(Box::new(Message::Allocation(allocation)));
    let mut packet = passing(PacketKind::Message, ALLOCATION, direct, Some(&mut field));
    assert_eq!(agent.on_return(micros(at), &mut packet), Verdict::Pass);
    match field.get::<Box<Message>>().map(|message| **message) {
        Some(Message::Allocation(allocation)) => allocation.allocation.get(),
        other => panic!("{other:?}"),
    }
}

fn enter(agent: &mut CreditAgent, at: u64, size: u32, message: Option<Message>) -> Verdict {
    let mut field = message.map(|message| ControlField::from(Box::new(message)));
    agent.on_enter(micros(at), &mut passing(PacketKind::Data, size, true, field.as_mut()))
}

fn request(agent: &mut CreditAgent, at: u64, clock: u32) {
    let message = Message::Request(Request { weight: Weight::ONE, clock });
    assert_eq!(enter(agent, at, 66, Some(message)), Verdict::Pass);
}

#[test]
fn an_allocation_that_crosses_the_termination_grants_nothing() {
    let mut agent = agent();
    request(&mut agent, 0, 0);
    assert_eq!(allocate(&mut agent, 10, 1, true), 25_000);
    enter(&mut agent, 100, 66, Some(Message::Terminate));
    assert_eq!(agent.port.outstanding(), Bytes::ZERO);
    assert_eq!((allocate(&mut agent, 200, 2, true), agent.forwarder.flows()), (0, 0));
    request(&mut agent, 300, 1);
    assert_eq!((allocate(&mut agent, 310, 3, true), agent.forwarder.flows()), (25_000, 1));
}

#[test]
fn an_astray_allocation_leaves_no_state() {
    let mut agent = agent();
    assert_eq!(allocate(&mut agent, 10, 1, false), 0);
    assert_eq!((agent.flows.number(FLOW), agent.port.counters().astray), (None, 1));
}

#[test]
fn data_without_a_grant_is_dropped_and_on_changed_routes_counted() {
    let mut agent = agent();
    request(&mut agent, 0, 0);
    allocate(&mut agent, 10, 1, true);
    for frame in 0..16 {
        assert_eq!(enter(&mut agent, 20 + 12 * frame, 1_514, None), Verdict::Pass);
    }
    // 776 B of the grant are left.
    assert_eq!(enter(&mut agent, 212, 1_514, None), Verdict::Consume);
    assert_eq!((agent.port.counters().late_packets, agent.is_excluded(micros(212).instant())), (1, false));
    agent.on_routes(micros(220).instant());
    assert_eq!(enter(&mut agent, 224, 1_514, None), Verdict::Pass);
    assert!(agent.is_excluded(micros(224).instant()));
    assert_eq!((agent.rerouted.packets, agent.rerouted.late, agent.bound.reading().exceeded), (1, 1_514, 0));
    let over = micros(224).instant() + agent.port.longest_lifetime();
    assert!(!agent.is_excluded(over));
}

/// A port whose queue has more than its grants: a fault of the port, which the bound finds.
#[test]
fn a_queue_above_the_budget_exceeds_the_bound() {
    let mut agent = agent();
    request(&mut agent, 0, 0);
    allocate(&mut agent, 10, 1, true);
    assert_eq!(agent.bound.reading().exceeded, 0);
    // 2 · C_0 is 50,000 B, and 25,000 B are granted.
    agent.queue.enter(micros(20), 25_001, 0, 0);
    enter(&mut agent, 20, 1_514, None);
    assert_eq!(agent.bound.reading().exceeded, 1);
}

/// Data that entered without a grant excuses no excess after it has left, although the queue has never been empty.
#[test]
fn a_standing_queue_above_the_budget_exceeds_the_bound() {
    let mut agent = agent();
    request(&mut agent, 0, 0);
    allocate(&mut agent, 10, 1, true);
    agent.on_routes(micros(10).instant());
    // Another flow, without credits here, and granted data behind it.
    agent.on_data(micros(20), FlowKey { slot: 1, ..FLOW }, 1_514, 0);
    assert_eq!(agent.queue.held(micros(20)).ungranted, 1_514);
    assert_eq!(enter(&mut agent, 20, 1_514, None), Verdict::Pass);
    // 2 · C_0 is 50,000 B; A is 21,972 B after the last frame.
    agent.queue.enter(micros(30), 26_515, 0, 1_514);
    assert_eq!(agent.queue.held(micros(36)).ungranted, 0);
    assert_eq!(agent.bound.reading().exceeded, 0);
    enter(&mut agent, 36, 1_514, None);
    assert_eq!(agent.bound.reading().exceeded, 1);
}

#[test]
fn the_queue_of_other_traffic_takes_no_credits() {
    let mut agent = agent();
    request(&mut agent, 0, 0);
    let mut full = passing(PacketKind::Data, 1_514, true, None);
    (full.credits, full.port.held) = (false, 400_000);
    assert_eq!(agent.on_enter(micros(5), &mut full), Verdict::Pass);
    assert_eq!((allocate(&mut agent, 10, 1, true), agent.queue.held(micros(10)).bytes), (25_000, 0));
}

#[test]
fn cuts_of_later_ports_are_released() {
    let mut agent = agent();
    request(&mut agent, 0, 0);
    allocate(&mut agent, 10, 1, true);
    let period = Period::from_micros(200);
    let returned = Return {
        clock: 1,
        period,
        longest: period,
        potential: Bytes::new(25_000),
        allocation: Bytes::new(10_000),
        queueing: Duration::from_micros(400),
    };
    enter(&mut agent, 100, 1_514, Some(Message::Return(returned)));
    assert_eq!(agent.port.outstanding(), Bytes::new(8_486));
}
