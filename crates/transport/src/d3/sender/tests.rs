//! D3's sending half with answers made by hand, and with a port.

use super::super::Router;
use super::*;
use crate::api::Answer;

const US: fn(u64) -> SimTime = SimTime::from_micros;

fn sender(bytes: u64, deadline: Option<SimTime>) -> Sender {
    let connection = Connection {
        bytes,
        payload: 1000,
        headers: 0,
        start: SimTime::ZERO,
        deadline,
        line_rate: Bandwidth::from_gbps(1),
        round_trip: None,
    };
    Sender::new(&Parameters::default(), &connection)
}
/// An acknowledgement, with what a router says to the request.
fn answer(sender: &mut Sender, now: SimTime, next: u64, grant: Option<RateHeader>) {
    let answer = Answer { next, stamp: now.saturating_sub(US(100)), echo: false };
    sender.on_ack(now, &Ack { answer, sack: &[], grant: grant.as_ref() });
}
fn granted(mut header: RateHeader, mbps: &[u64]) -> RateHeader {
    for rate in mbps {
        header.granted[usize::from(header.hops)] = Bandwidth::from_mbps(*rate);
        header.hops += 1;
    }
    header
}

#[test]
fn asks_first_then_sends_at_the_smallest_grant_and_says_goodbye() {
    let mut sender = sender(3_000, None);
    let first = sender.poll(SimTime::ZERO).unwrap();
    assert_eq!((first.length, first.request), (0, true));
    let header = sender.request(SimTime::ZERO);
    assert_eq!(header, RateHeader { first: true, number: 1, ..RateHeader::EMPTY });
    assert_eq!(sender.poll(SimTime::ZERO), None);
    answer(&mut sender, US(100), 0, Some(granted(header, &[500, 200, 800])));

    let data = sender.poll(US(100)).unwrap();
    assert_eq!((data.sequence, data.length, data.request), (0, 1000, true));
    let header = sender.request(US(100));
    assert_eq!(header.previous[..4], [500, 200, 800, 0].map(Bandwidth::from_mbps));
    assert!(!header.first && !header.last);
    // 1000 B at 200 Mb/s.
    assert_eq!(sender.poll(US(100)), None);
    assert_eq!(sender.timer(), US(140));
    assert_eq!(sender.on_timer(US(140), false), Timeout::Nothing);
    let data = sender.poll(US(140)).unwrap();
    assert_eq!((data.sequence, data.request), (1000, false));
    assert_eq!(sender.window(), 2_500);
    // A faster grant does not wait for the slower one's turn.
    answer(&mut sender, US(150), 1000, Some(granted(header, &[1000])));
    // The same answer once more changes nothing, and it is not the answer to what is asked next.
    answer(&mut sender, US(150), 1000, Some(granted(header, &[7])));
    assert_eq!(sender.timer(), US(158));
    let data = sender.poll(US(158)).unwrap();
    assert_eq!((data.sequence, data.request), (2000, true));
    let header = sender.request(US(158));
    answer(&mut sender, US(300), 3000, Some(granted(header, &[400])));
    assert!(!sender.is_done());
    let last = sender.poll(US(300)).unwrap();
    assert_eq!((last.length, last.request), (0, true));
    let header = sender.request(US(300));
    assert!(header.last);
    assert_eq!(header.previous[0], Bandwidth::from_mbps(400));
    assert!(sender.is_done());
    assert_eq!((sender.poll(US(300)), sender.timer()), (None, SimTime::NEVER));
}

#[test]
fn asks_for_what_the_deadline_needs() {
    let mut flow = sender(1_000_000, Some(SimTime::from_millis(10)));
    flow.poll(SimTime::ZERO);
    assert_eq!(flow.request(SimTime::ZERO).desired, Bandwidth::from_mbps(800));
    // 562,500 B are there after 5 ms.
    assert_eq!(flow.pacer.desired(SimTime::from_millis(5), 437_500), Bandwidth::from_mbps(700));
    assert_eq!(flow.pacer.desired(SimTime::from_millis(9), 437_500), Bandwidth::from_gbps(1));
    assert_eq!(flow.pacer.desired(SimTime::from_millis(10), 437_500), Bandwidth::ZERO);
}

#[test]
fn a_flow_that_is_granted_nothing_asks_once_per_round_trip() {
    let mut sender = sender(1_000, None);
    for round in 0..5 {
        let now = US(100 * round);
        let bare = sender.poll(now).unwrap();
        assert_eq!((bare.length, bare.request), (0, true));
        let header = sender.request(now);
        assert_eq!(header.first, round == 0);
        assert_eq!(sender.poll(now), None);
        answer(&mut sender, US(100 * round + 100), 0, Some(granted(header, &[0])));
    }
}

#[test]
fn a_lost_request_is_repeated() {
    let mut sender = sender(1_000, None);
    sender.poll(SimTime::ZERO);
    sender.request(SimTime::ZERO);
    let due = sender.timer();
    assert_eq!(due, SimTime::from_millis(10));
    sender.on_timer(due, false);
    assert!(sender.poll(due).unwrap().request);
    sender.request(due);
    assert_eq!(sender.timer(), SimTime::from_millis(30));
}

/// Oracle: four settled flows of 250 Mb/s at 1 Gb/s; a newcomer waits a round trip, then all have 200.
#[test]
fn senders_and_a_router_settle() {
    let mut router = Router::new(Bandwidth::from_gbps(1));
    let mut flows: Vec<_> = (0..4).map(|_| sender(u64::MAX, None)).collect();
    let round = |flows: &mut [Sender], router: &mut Router, now: SimTime| {
        for flow in flows {
            let next = flow.highest();
            flow.on_timer(now, false);
            if flow.poll(now).is_some_and(|segment| segment.request) {
                let mut header = flow.request(now);
                router.on_request(now, &mut header);
                answer(flow, now + US(90), next, Some(header));
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
