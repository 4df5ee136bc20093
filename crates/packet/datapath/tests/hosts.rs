//! [`Hosts`] against the parts that it consists of, and its worked example.

use std::sync::Arc;
use weir_datapath::{Arrival, CpuBatch, Hosts, Pacer, PacingConfig, Peer, PoliceVerdict};
use weir_policy::{Share, Sharing};
use weir_shaping::{MachinePlan, ServiceShaper, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Duration, Instant, PerDirection};

const FRAME: Bytes = Bytes::new(1514);

fn config(capacity: Bandwidth, shares: &[Share]) -> ShaperConfig {
    let shares: Vec<_> = shares.iter().map(|&share| PerDirection { tx: share, rx: share }).collect();
    let plan = Arc::new(MachinePlan::of_list(Sharing::Fill, PerDirection::both(capacity), &shares));
    ShaperConfig {
        sharing: Sharing::Fill,
        services: vec![ServiceShaper::default(); shares.len()],
        machines: vec![plan; 2],
        ..ShaperConfig::default()
    }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

#[test]
fn worked_example() {
    let mut hosts = Hosts::new(1, FRAME);
    hosts.set_limit(0, 0, Bandwidth::from_bps(12_112_000));
    let departures: Vec<_> = (0..4).map(|_| hosts.send(0, 0, at(0), 1514)).collect();
    assert_eq!(departures, [0, 0, 1_000_000, 2_000_000].map(|nanos| Some(at(nanos))));
    // The host beside it has no limit.
    assert_eq!(hosts.send(1, 0, at(5), 1514), Some(at(5)));
}

/// The departures of `count` frames at 1 ms of a host whose limit rises from `before` to `after` then, behind `waiting`
/// frames at 0; and the last of theirs.
fn departures_after_a_rise(before: Bandwidth, waiting: usize, after: Bandwidth, count: usize) -> (Vec<u64>, u64) {
    let mut hosts = Hosts::new(1, FRAME);
    hosts.set_limit(0, 0, before);
    let send = |hosts: &mut Hosts, now| hosts.send(0, 0, at(now), 1514).expect("within the horizon").nanos();
    let last = (0..waiting).map(|_| send(&mut hosts, 0)).last().expect("a frame waits");
    hosts.set_limit(0, 0, after);
    ((0..count).map(|_| send(&mut hosts, 1_000_000)).collect(), last)
}

#[test]
fn rise_of_a_limit_overtakes_no_packet_and_leads_to_no_burst() {
    // A frame takes 1 ms, and then 100 us; the burst is then a millisecond, ten frames.
    let (departures, last) =
        departures_after_a_rise(Bandwidth::from_bps(12_112_000), 12, Bandwidth::from_bps(121_120_000), 100);
    assert_eq!(last, 10_000_000);
    assert!(departures[0] >= last && departures.is_sorted(), "{departures:?}");
    for (first, from) in departures.iter().enumerate() {
        for (frames, until) in departures[first..].iter().enumerate() {
            assert!(frames as u64 * 100_000 <= until - from + 1_000_000, "{frames} frames from {from} to {until} ns");
        }
    }
    // The next departure of the lower limit is at 11 ms, and nine frames are in the burst.
    assert_eq!(departures[99], 11_000_000 + (99 - 9) * 100_000 + 1, "rounded up");
}

#[test]
fn limit_that_is_lifted_overtakes_no_packet() {
    let (departures, last) = departures_after_a_rise(Bandwidth::from_bps(12_112_000), 12, Bandwidth::UNLIMITED, 3);
    assert_eq!(departures, [last; 3]);
}

#[test]
fn rise_behind_a_departure_beyond_the_horizon_holds_at_once() {
    let (departures, last) = departures_after_a_rise(Bandwidth::from_bps(200_000), 3, Bandwidth::from_mbps(50), 1);
    assert_eq!((departures[0], last), (1_000_000, 60_560_000));
}

/// Two services, of which one has a root limit, depart as by a pacer whose ticks come from a timer.
#[test]
fn departures_are_those_of_a_pacer_with_a_timer() {
    let (rate, limit) = (Bandwidth::from_mbps(1000), Bandwidth::from_mbps(300));
    let shares = [Share::default(); 2];
    let mut hosts = Hosts::new(3, FRAME);
    hosts.set_shapers(Instant::ZERO, &config(rate, &shares));
    hosts.set_limit(1, 0, limit);
    let frames = |count: u64| Bytes::new(count * FRAME.get());
    let pacing = PacingConfig {
        rate,
        sharing: Sharing::Fill,
        horizon: Duration::from_millis(20),
        queue: frames(128),
        burst: frames(10),
        cpus: 1,
    };
    let shares = shares.map(|share| Share { max: rate, ..share });
    let mut pacer = Pacer::new(&pacing, &shares, FRAME);
    pacer.set_limit(0, limit);
    let mut batches = [CpuBatch::default(); 2];
    let (tick, mut due, mut now, mut random) = (Duration::from_micros(100), at(0), 0, 1u64);
    let mut waited = 0;
    for _ in 0..100_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 1.4 times the interface's rate, with pauses of up to 3 ms.
        now += if (random >> 33).is_multiple_of(700) { (random >> 40) % 3_000_000 } else { (random >> 40) % 16_000 };
        let service = (random >> 60) as usize % 2;
        while due <= at(now) {
            pacer.tick(due, tick);
            due = due + tick;
        }
        let batch = &mut batches[service];
        let expected = pacer.departure_on(batch, service, (None, None), (tick, due), at(now), 1514).at();
        // A departure of a lease can be in the past.
        let expected = expected.map(|departure| departure.max(at(now)));
        assert_eq!(hosts.send(1, service, at(now), 1514), expected, "at {now} ns");
        waited += u32::from(expected.is_some_and(|departure| departure > at(now)));
    }
    assert!(waited > 10_000, "{waited} packets wait");
}

/// What arrives at twice the capacity lowers R, and the feedback has it.
#[test]
fn feedback_follows_arrivals() {
    let mut hosts = Hosts::new(2, FRAME);
    hosts.set_shapers(Instant::ZERO, &config(Bandwidth::from_gbps(1), &[Share::default()]));
    let capacity = hosts.receive_capacity(0, 0).expect("shapers");
    let packet =
        |peer| Arrival { bytes: 1514, capable: true, marked: false, requests_feedback: false, reacts: false, peer };
    let mut last = None;
    for number in 0..2000 {
        let reception = hosts.receive(0, 0, at(number * 6056), packet(Peer::Follower));
        assert_eq!(reception.verdict, PoliceVerdict::Pass);
        last = reception.feedback.or(last);
    }
    let rate = last.expect("feedback");
    assert!(rate.bps() * 4 < capacity.bps(), "{rate} of {capacity}");
    assert_eq!(hosts.meter(0, 0).map(|meter| meter.rate()), Some(rate));
}

/// A service without a capacity has no rate, and its senders get no feedback, also if they request it.
#[test]
fn service_without_a_capacity_sends_no_feedback() {
    for (capacity, feedback) in [(Bandwidth::UNLIMITED, false), (Bandwidth::from_gbps(1), true)] {
        let mut hosts = Hosts::new(1, FRAME);
        hosts.set_shapers(Instant::ZERO, &config(capacity, &[Share::default()]));
        let (requests_feedback, peer) = (true, Peer::Follower);
        let arrival = Arrival { bytes: 1514, capable: true, marked: true, requests_feedback, reacts: false, peer };
        let sent = (0..1000).filter_map(|i| hosts.receive(0, 0, at(i * 1000), arrival).feedback).count();
        assert_eq!(sent > 0, feedback, "{sent} with {capacity}");
    }
}

/// Packets of strangers above the limit are dropped; a host without a limit drops none.
#[test]
fn strangers_are_policed() {
    let mut hosts = Hosts::new(2, FRAME);
    hosts.set_shapers(Instant::ZERO, &config(Bandwidth::from_gbps(1), &[Share::default()]));
    hosts.set_receive_limit(0, 0, Bandwidth::from_mbps(20));
    let arrival = Arrival {
        bytes: 1514,
        capable: false,
        marked: false,
        requests_feedback: false,
        reacts: false,
        peer: Peer::Stranger,
    };
    let dropped = [0, 1].map(|host| {
        let drops = |number: &u64| hosts.receive(host, 0, at(number * 60_560), arrival).verdict == PoliceVerdict::Drop;
        (0..50_000).filter(drops).count()
    });
    // 200 Mb/s for 3 s: 0.31 s of the limit and one in ten of the rest pass.
    assert!((44_000..45_000).contains(&dropped[0]), "{dropped:?}");
    assert_eq!(dropped[1], 0);
}
