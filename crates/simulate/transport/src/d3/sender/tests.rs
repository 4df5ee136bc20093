//! D3's sending half with hand-made grants, and with a port.

use super::super::Router;
use super::*;
use crate::api::AckContent;

const US: fn(u64) -> SimTime = SimTime::from_micros;

fn connection(bytes: u64, deadline: Option<SimTime>) -> Connection {
    Connection {
        bytes,
        payload: 1000,
        headers: 0,
        start: SimTime::ZERO,
        deadline,
        line_rate: Bandwidth::from_gbps(1),
        round_trip: Some(US(100)),
        sprayed: false,
    }
}
fn sender(bytes: u64, deadline: Option<SimTime>) -> Sender {
    Sender::new(&Parameters::default(), &connection(bytes, deadline))
}
/// An acknowledgement, with a router's grant to the request.
fn acknowledge(sender: &mut Sender, now: SimTime, next: u64, grant: Option<RateHeader>) {
    let content = AckContent { next, stamp: now.saturating_sub(US(100)), echo: false };
    if let Some(grant) = grant {
        sender.on_control(now, &Box::new(grant).into());
    }
    sender.on_ack(now, &Ack { content, sack: &[] });
}
/// The header after ports of these rates, numbered from 0, have granted. No other flow uses them.
fn granted(mut header: RateHeader, mbps: &[u64]) -> RateHeader {
    for (port, rate) in (0..).zip(mbps) {
        Router::new(port, Bandwidth::from_mbps(*rate)).on_request(SimTime::ZERO, &mut header);
    }
    header
}
fn noting_ports(header: &RateHeader) -> Vec<u32> {
    header.before.iter().map(|note| note.port).collect()
}

#[test]
fn requests_first_then_sends_at_the_smallest_grant_and_returns_it() {
    let mut sender = sender(3_000, None);
    let first = sender.poll(SimTime::ZERO).unwrap();
    assert_eq!((first.length, first.control), (0, true));
    let header = sender.request(SimTime::ZERO);
    let (rate, within) = (Bandwidth::from_gbps(1), SimTime::from_millis(10));
    assert_eq!(header, RateHeader { number: 1, rate, within, ..RateHeader::EMPTY });
    assert_eq!(sender.poll(SimTime::ZERO), None);
    acknowledge(&mut sender, US(100), 0, Some(granted(header, &[500, 200, 800])));

    let data = sender.poll(US(100)).unwrap();
    assert_eq!((data.sequence, data.length, data.control), (0, 1000, true));
    let header = sender.request(US(100));
    assert_eq!((noting_ports(&header), header.last), (vec![0, 1, 2], false));
    // 1000 B at 200 Mb/s.
    assert_eq!(sender.poll(US(100)), None);
    assert_eq!(sender.timer(), US(140));
    assert_eq!(sender.on_timer(US(140), false), Timeout::Nothing);
    let data = sender.poll(US(140)).unwrap();
    assert_eq!((data.sequence, data.control), (1000, false));
    assert_eq!(sender.window(), 2_500);
    // A faster grant does not wait for the slower one's turn.
    acknowledge(&mut sender, US(150), 1000, Some(granted(header.clone(), &[1000])));
    // A repeated grant changes nothing, and it is not the grant of the next request.
    acknowledge(&mut sender, US(150), 1000, Some(granted(header, &[7])));
    assert_eq!(sender.timer(), US(158));
    let data = sender.poll(US(158)).unwrap();
    assert_eq!((data.sequence, data.control), (2000, true));
    let header = sender.request(US(158));
    acknowledge(&mut sender, US(300), 3000, Some(granted(header, &[400])));
    assert!(!sender.is_done());
    let last = sender.poll(US(300)).unwrap();
    assert_eq!((last.length, last.control), (0, true));
    let header = sender.request(US(300));
    assert!(header.last);
    // One note of each port.
    assert_eq!(noting_ports(&header), [1, 2, 0]);
    assert!(sender.is_done());
    assert_eq!((sender.poll(US(300)), sender.timer()), (None, SimTime::NEVER));
}

#[test]
fn requests_the_rate_of_the_deadline() {
    let mut flow = sender(1_000_000, Some(SimTime::from_millis(10)));
    flow.poll(SimTime::ZERO);
    assert_eq!(flow.request(SimTime::ZERO).desired, Bandwidth::from_mbps(800));
    // 562,500 B are there after 5 ms.
    assert_eq!(flow.pacer.desired(SimTime::from_millis(5), 437_500), Bandwidth::from_mbps(700));
    assert_eq!(flow.pacer.desired(SimTime::from_millis(9), 437_500), Bandwidth::from_gbps(1));
    assert_eq!(flow.pacer.desired(SimTime::from_millis(10), 437_500), Bandwidth::ZERO);
}

#[test]
fn a_flow_with_a_grant_of_zero_sends_a_request_per_round_trip() {
    let mut sender = sender(1_000, None);
    for round in 0..5 {
        let now = US(100 * round);
        let bare = sender.poll(now).unwrap();
        assert_eq!((bare.length, bare.control), (0, true));
        let header = sender.request(now);
        assert_eq!(noting_ports(&header).len(), usize::from(round > 0));
        assert_eq!(sender.poll(now), None);
        acknowledge(&mut sender, US(100 * round + 100), 0, Some(granted(header, &[0])));
    }
}

#[test]
fn a_lost_request_is_repeated() {
    let mut sender = sender(1_000, None);
    sender.poll(SimTime::ZERO);
    sender.request(SimTime::ZERO);
    // Three of the handshake's round trips are less than the shortest timeout.
    let due = sender.timer();
    assert_eq!(due, SimTime::from_millis(10));
    sender.on_timer(due, false);
    assert!(sender.poll(due).unwrap().control);
    sender.request(due);
    assert_eq!(sender.timer(), SimTime::from_millis(30));
}

/// The first request of a flow with a long round trip is not considered lost before its grant can
/// arrive.
#[test]
fn a_long_round_trip_is_waited_for() {
    let connection = Connection { round_trip: Some(SimTime::from_millis(50)), ..connection(1_000, None) };
    let mut sender: Sender = Machine::new(&Parameters::default(), &connection);
    sender.poll(SimTime::ZERO);
    let header = sender.request(SimTime::ZERO);
    assert_eq!((header.within, sender.timer()), (SimTime::from_millis(100), SimTime::from_millis(150)));
}

/// A grant of 1 kb/s releases a packet every 8 s. The flow still sends a request once per round
/// trip.
#[test]
fn a_flow_with_a_small_grant_sends_a_request_per_round_trip() {
    let mut sender = sender(1_000_000, None);
    let little = |header: &RateHeader| RateHeader { rate: Bandwidth::from_bps(1_000), ..header.clone() };
    sender.poll(SimTime::ZERO);
    let mut header = sender.request(SimTime::ZERO);
    for round in 1..5 {
        let now = US(100 * round);
        acknowledge(&mut sender, now, 0, Some(little(&header)));
        let bare = sender.poll(now).unwrap();
        assert_eq!((bare.length, bare.control), (0, true));
        header = sender.request(now);
        // Its first packet leaves at once, the others wait.
        let data = sender.poll(now);
        assert_eq!(data.map(|data| (data.length, data.control)), (round == 1).then_some((1000, false)));
    }
}

/// Oracle: four settled flows of 250 Mb/s at 1 Gb/s; a newcomer waits a round trip, then all have
/// 200.
#[test]
fn senders_and_a_router_settle() {
    let mut router = Router::new(0, Bandwidth::from_gbps(1));
    let mut flows: Vec<_> = (0..4).map(|_| sender(u64::MAX, None)).collect();
    let round = |flows: &mut [Sender], router: &mut Router, now: SimTime| {
        for flow in flows {
            let next = flow.highest();
            flow.on_timer(now, false);
            if flow.poll(now).is_some_and(|segment| segment.control) {
                let mut header = flow.request(now);
                router.on_request(now, &mut header);
                acknowledge(flow, now + US(90), next, Some(header));
            }
        }
    };
    for step in 0..10 {
        round(&mut flows, &mut router, US(100 * step));
    }
    let rates = |flows: &[Sender]| flows.iter().map(|flow| flow.pacer.rate.bps() / 1_000_000).collect::<Vec<_>>();
    assert_eq!(rates(&flows), [250; 4]);
    flows.insert(0, sender(u64::MAX, None));
    round(&mut flows, &mut router, US(1000));
    assert_eq!(rates(&flows), [0, 200, 200, 200, 200]);
    round(&mut flows, &mut router, US(1100));
    assert_eq!(rates(&flows), [200; 5]);
}
