//! Services that share an interface by departure times: senders that wait for their packets to
//! leave, as sockets do, and senders that wait for nothing, as guests do.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_datapath::{CpuBatch, Lease, Leaves, Limiter, Pacer, PacingConfig};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

const FRAME: u32 = 1514;
const TICK: Duration = Duration::from_micros(200);

fn config(mbps: u64, sharing: Sharing) -> PacingConfig {
    PacingConfig {
        rate: Bandwidth::from_mbps(mbps),
        sharing,
        horizon: Duration::from_millis(20),
        queue: Bytes::new(15_140),
        burst: Bytes::new(15_140),
        cpus: 4,
    }
}

fn share(min: u64, max: u64, weight: u32) -> Share {
    Share {
        min: Bandwidth::from_mbps(min),
        max: if max == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_mbps(max) },
        weight: Weight::from_thousandths(weight * 1000).expect("a weight"),
    }
}

/// What hands packets over.
#[derive(Debug, Clone, Copy)]
struct Source {
    service: usize,
    /// From when on, in milliseconds.
    start: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A socket with so many packets under way: the next is handed over when one has left.
    Socket(u32),
    /// So many Mb/s, whatever becomes of it.
    Guest(u64),
}

fn sockets(service: usize, start: u64, count: usize) -> Vec<Source> {
    vec![Source { service, start, kind: Kind::Socket(2) }; count]
}

/// A packet that left: its service, when it was handed over and when it left, in ns.
#[derive(Debug, Clone, Copy)]
struct Left {
    service: usize,
    offered: u64,
    at: u64,
    excess: bool,
}

struct Run {
    left: Vec<Left>,
    pacer: Pacer,
}

impl Run {
    /// Runs for `time` milliseconds; `change` is called before each packet.
    fn new(pacer: Pacer, sources: &[Source], time: u64, change: impl FnMut(&mut Pacer, u64)) -> Self {
        Self::with(pacer, sources, time, false, None, change)
    }

    fn with(
        mut pacer: Pacer,
        sources: &[Source],
        time: u64,
        alone: bool,
        mut destination: Option<(usize, Limiter)>,
        mut change: impl FnMut(&mut Pacer, u64),
    ) -> Self {
        // Ties go round among the sources, as qdiscs do among flows.
        let mut order = 0u64;
        let mut events = BinaryHeap::new();
        for (i, source) in sources.iter().enumerate() {
            let packets = if let Kind::Socket(window) = source.kind { window } else { 1 };
            for _ in 0..packets {
                order += 1;
                events.push(Reverse((source.start * 1_000_000, order, i)));
            }
        }
        let mut left = Vec::new();
        let mut ticked = 0;
        while let Some(Reverse((now, _, i))) = events.pop() {
            if now > time * 1_000_000 {
                break;
            }
            while ticked + TICK.nanos() <= now {
                ticked += TICK.nanos();
                pacer.tick(Instant::from_nanos(ticked), TICK);
            }
            change(&mut pacer, now);
            let Source { service, kind, .. } = sources[i];
            let limiter = destination.as_mut().filter(|(of, _)| *of == i).map(|(_, limiter)| limiter);
            let leaves = pacer.departure(service, limiter, Instant::from_nanos(now), FRAME, alone);
            if let Some(at) = leaves.at() {
                let excess = matches!(leaves, weir_datapath::Leaves::Excess(_));
                left.push(Left { service, offered: now, at: at.nanos(), excess });
            }
            order += 1;
            let next = match (kind, leaves.at()) {
                // The packet itself takes its time on the wire, which a socket does not wait for less than.
                (Kind::Socket(_), Some(at)) => at.nanos().max(now + 1_000),
                (Kind::Socket(_), None) => now + 1_000_000,
                (Kind::Guest(mbps), _) => now + u64::from(FRAME) * 8_000 / mbps,
            };
            events.push(Reverse((next, order, i)));
        }
        left.sort_by_key(|packet| packet.at);
        Self { left, pacer }
    }

    /// What a service sends between two times in milliseconds, in Mb/s.
    fn rate(&self, service: usize, from: u64, until: u64) -> f64 {
        let inside = |packet: &&Left| packet.service == service && (from..until).contains(&(packet.at / 1_000_000));
        let packets = self.left.iter().filter(inside).count() as f64;
        packets * f64::from(FRAME) * 8.0 / 1e3 / (until - from) as f64
    }
}

#[track_caller]
fn within(measured: f64, expected: f64, percent: f64) {
    assert!((measured / expected - 1.0).abs() * 100.0 <= percent, "{measured:.2} is not {expected} ± {percent} %");
}

fn pacer(mbps: u64, sharing: Sharing, shares: &[Share]) -> Pacer {
    Pacer::new(&config(mbps, sharing), shares, Bytes::new(FRAME.into()))
}

#[test]
fn offered_load_does_not_change_the_shares() {
    // One socket beside fifty, and beside a guest that sends ten times what the interface carries.
    for other in [sockets(1, 0, 50), vec![Source { service: 1, start: 0, kind: Kind::Guest(1000) }]] {
        let pacer = pacer(100, Sharing::Fill, &[share(0, 0, 1), share(0, 0, 1)]);
        let sources = [sockets(0, 300, 1), other].concat();
        let run = Run::new(pacer, &sources, 1000, |_, _| {});
        within(run.rate(1, 100, 300), 100.0, 1.0);
        within(run.rate(0, 400, 1000), 50.0, 3.0);
        within(run.rate(0, 400, 1000) + run.rate(1, 400, 1000), 100.0, 1.0);
        // Its committed rate applies from the first packet on.
        assert!(run.rate(0, 300, 320) >= 48.0, "{}", run.rate(0, 300, 320));
    }
}

#[test]
fn capacity_of_idle_services_is_shared_by_weight() {
    let shares = [share(0, 0, 1), share(0, 0, 2), share(0, 0, 5)];
    let pacer = pacer(100, Sharing::Fill, &shares);
    let run = Run::new(pacer, &[sockets(0, 0, 20), sockets(1, 0, 1)].concat(), 2000, |_, _| {});
    within(run.rate(0, 600, 2000), 33.3, 4.0);
    within(run.rate(1, 600, 2000), 66.7, 4.0);
    assert_eq!(run.rate(2, 0, 2000), 0.0);
}

#[test]
fn guarantees_and_maxima_hold_under_both_rules() {
    // 70 guaranteed, 20 at most, and the rest: `fill` clips shares of 98.4 at 70 and 20, `add` adds
    // halves of what 70 leaves.
    let shares = [share(70, 0, 1), share(0, 20, 1), share(0, 0, 1)];
    for (sharing, expected) in [(Sharing::Fill, [70.0, 14.2, 14.2]), (Sharing::Add, [79.5, 9.5, 9.5])] {
        let pacer = pacer(100, sharing, &shares);
        let sources = [sockets(0, 0, 1), sockets(1, 0, 10), sockets(2, 0, 30)].concat();
        let run = Run::new(pacer, &sources, 1500, |_, _| {});
        // The excess is the margin of 1.6, first come first served.
        for (service, expected) in expected.into_iter().enumerate() {
            let got = run.rate(service, 500, 1500);
            assert!(got > expected * 0.98 && got < expected + 2.0, "{sharing:?}, {service}: {got} of {expected}");
        }
        let sum: f64 = (0..3).map(|service| run.rate(service, 500, 1500)).sum();
        within(sum, 100.0, 1.0);
    }
    let alone = Run::new(pacer(100, Sharing::Fill, &shares), &sockets(1, 0, 4), 500, |_, _| {});
    within(alone.rate(1, 100, 500), 20.0, 1.0);
}

#[test]
fn limit_holds_and_the_remaining_capacity_is_used() {
    let mut pacer = pacer(100, Sharing::Fill, &[share(0, 0, 1), share(0, 0, 1)]);
    pacer.set_limit(0, Bandwidth::from_mbps(20));
    let sources = [sockets(0, 0, 8), sockets(1, 0, 1)].concat();
    let lift = |pacer: &mut Pacer, now| {
        if now >= 600_000_000 {
            pacer.set_limit(0, Bandwidth::UNLIMITED);
        }
    };
    let run = Run::new(pacer, &sources, 1200, lift);
    within(run.rate(0, 200, 600), 20.0, 1.0);
    within(run.rate(1, 200, 600), 80.0, 1.0);
    within(run.rate(0, 800, 1200), 50.0, 4.0);
}

#[test]
fn static_policy_applies_without_an_agent() {
    let mut pacer = pacer(100, Sharing::Fill, &[share(0, 40, 1)]);
    pacer.set_limit(0, Bandwidth::from_mbps(5));
    let with = Run::with(pacer.clone(), &sockets(0, 0, 2), 400, false, None, |_, _| {});
    let without = Run::with(pacer, &sockets(0, 0, 2), 400, true, None, |_, _| {});
    within(with.rate(0, 100, 400), 5.0, 2.0);
    within(without.rate(0, 100, 400), 40.0, 1.0);
}

#[test]
fn backlog_is_bounded_by_the_horizon() {
    let shares = [share(0, 10, 1), share(0, 0, 1)];
    let pacer = pacer(100, Sharing::Fill, &shares);
    let flood = Source { service: 0, start: 0, kind: Kind::Guest(2000) };
    let run = Run::new(pacer, &[vec![flood], sockets(1, 0, 1)].concat(), 500, |_, _| {});
    within(run.rate(0, 100, 500), 10.0, 1.0);
    // A dropped packet is charged to no other service.
    within(run.rate(1, 100, 500), 90.0, 1.5);
    assert!(run.pacer.dropped(0) > 50_000 && run.pacer.dropped(1) == 0);
    let longest = run.left.iter().map(|packet| packet.at - packet.offered).max().expect("packets");
    // 20 ms, or ten frames and the burst of ten at 10 Mb/s.
    assert!(longest <= 25_000_000, "{longest}");
}

#[test]
fn low_rate_allows_128_frames_beyond_the_horizon() {
    let pacer = pacer(100, Sharing::Fill, &[share(0, 1, 1)]);
    let run = Run::new(pacer, &[Source { service: 0, start: 0, kind: Kind::Guest(50) }], 2000, |_, _| {});
    within(run.rate(0, 500, 2000), 1.0, 2.0);
    let longest = run.left.iter().map(|packet| packet.at - packet.offered).max().expect("packets");
    // Ten frames of 12.1 ms.
    assert!((115_000_000..140_000_000).contains(&longest), "{longest}");
}

/// The departures in ns of `count` frames at 1 ms of a service whose limit rises from `before` to `after` then, behind
/// `waiting` frames at 0; and the last of theirs. Nothing else limits the service, and the least burst is a frame.
fn departures_after_a_rise(before: Bandwidth, waiting: usize, after: Bandwidth, count: usize) -> (Vec<u64>, u64) {
    let frame = Bytes::new(FRAME.into());
    let config = PacingConfig { rate: Bandwidth::UNLIMITED, burst: frame, ..config(0, Sharing::Fill) };
    let mut pacer = Pacer::new(&config, &[share(0, 0, 1)], frame);
    let mut batch = CpuBatch::default();
    let mut send = |pacer: &mut Pacer, now: u64| {
        let (now, due) = (Instant::from_nanos(now), Instant::from_nanos(now + 100_000));
        let leaves = pacer.departure_on(&mut batch, 0, (None, None), (TICK, due), now, FRAME);
        leaves.at().expect("within the horizon").nanos()
    };
    pacer.set_limit(0, before);
    let last = (0..waiting).map(|_| send(&mut pacer, 0)).last().expect("a frame waits");
    pacer.set_limit(0, after);
    ((0..count).map(|_| send(&mut pacer, 1_000_000)).collect(), last)
}

#[test]
fn rise_of_a_limit_overtakes_no_packet_and_leads_to_no_burst() {
    // A frame takes 1 ms, and then 100 us; the burst is then a millisecond, ten frames. As many frames as fill the
    // horizon have their next departure beyond it.
    for (waiting, last_at) in [(12, 10_000_000), (22, 20_000_000)] {
        let (before, after) = (Bandwidth::from_bps(12_112_000), Bandwidth::from_bps(121_120_000));
        let (departures, last) = departures_after_a_rise(before, waiting, after, 18);
        assert_eq!(last, last_at);
        assert!(departures[0] >= last && departures.is_sorted(), "{departures:?}");
        for (first, from) in departures.iter().enumerate() {
            for (frames, until) in departures[first..].iter().enumerate() {
                let allowed = until - from + 1_000_000;
                assert!(frames as u64 * 100_000 <= allowed, "{frames} frames from {from} to {until} ns");
            }
        }
        // The next departure of the lower limit is at 11 or 21 ms, and nine frames are in the burst.
        assert!(departures[17].abs_diff(last + 1_000_000 + (17 - 9) * 100_000) <= 1, "{departures:?}");
    }
}

#[test]
fn limit_that_is_lifted_overtakes_no_packet() {
    let (departures, last) = departures_after_a_rise(Bandwidth::from_bps(12_112_000), 12, Bandwidth::UNLIMITED, 3);
    assert_eq!(departures, [last; 3]);
}

#[test]
fn rise_behind_a_departure_far_beyond_the_horizon_holds_at_once() {
    let (departures, last) = departures_after_a_rise(Bandwidth::from_bps(200_000), 3, Bandwidth::from_mbps(50), 1);
    assert_eq!((departures[0], last), (1_000_000, 60_560_000));
}

#[test]
fn packet_that_the_service_limit_drops_is_not_charged_to_its_destination() {
    let frame = Bytes::new(FRAME.into());
    let mut pacer = Pacer::new(&config(100, Sharing::Fill), &[share(0, 5, 1)], frame);
    let mut limiter = Limiter::new(Bandwidth::from_mbps(50), frame);
    let (now, due) = (Instant::ZERO, Instant::from_nanos(100_000));
    let mut batch = CpuBatch::default();
    for _ in 0..1000 {
        pacer.departure_on(&mut batch, 0, (None, Some(&mut limiter)), (TICK, due), now, FRAME);
    }
    let accepted = 1000 - pacer.dropped(0);
    assert!(accepted < 100, "{accepted} packets are within the horizon");
    // 0.24 ms a frame, without the burst.
    let next = limiter.earliest(now).nanos();
    assert!(next <= accepted * 242_240, "{next} ns after {accepted} packets");
}

#[test]
fn destination_limiter_applies_within_its_service() {
    let pacer = pacer(100, Sharing::Fill, &[share(0, 50, 1)]);
    // The first socket's receiver lets it send 5 Mb/s.
    let limiter = Limiter::new(Bandwidth::from_mbps(5), Bytes::new(1514));
    let sources = [
        Source { service: 0, start: 0, kind: Kind::Socket(4) },
        Source { service: 0, start: 0, kind: Kind::Socket(4) },
    ];
    let held = Run::with(pacer, &sources[..1], 500, false, Some((0, limiter.clone())), |_, _| {});
    within(held.rate(0, 100, 500), 5.0, 1.0);
    let pacer = Pacer::new(&config(100, Sharing::Fill), &[share(0, 50, 1)], Bytes::new(FRAME.into()));
    let both = Run::with(pacer, &sources, 500, false, Some((0, limiter)), |_, _| {});
    within(both.rate(0, 100, 500), 50.0, 1.0);
}

#[test]
fn unclassified_traffic_has_a_hundredth_and_excess_capacity() {
    let unclassified = 1;
    let sources = [sockets(0, 0, 40), vec![Source { service: unclassified, start: 0, kind: Kind::Guest(1) }]].concat();
    let run = Run::new(pacer(100, Sharing::Fill, &[share(0, 0, 1)]), &sources, 500, |_, _| {});
    within(run.rate(unclassified, 100, 500), 1.0, 3.0);
    let late = run.left.iter().filter(|packet| packet.service == unclassified);
    let late = late.map(|packet| packet.at - packet.offered).max().expect("packets");
    assert!(late < 1_000_000, "rack datagrams do not wait: {late} ns");
    let alone = Run::new(pacer(100, Sharing::Fill, &[share(0, 0, 1)]), &sockets(unclassified, 0, 2), 500, |_, _| {});
    within(alone.rate(unclassified, 100, 500), 100.0, 1.5);
}

#[test]
fn fair_rate_follows_the_active_services() {
    let shares = [share(0, 0, 1), share(0, 0, 1)];
    let config = config(100, Sharing::Fill);
    let run = Run::new(pacer(100, Sharing::Fill, &shares), &sockets(0, 0, 4), 600, |_, _| {});
    let aim = 100.0 * 63.0 / 64.0;
    within(run.pacer.rate().bps() as f64 / 1e6, aim, 1.0);
    let both = [sockets(0, 0, 4), sockets(1, 300, 4)].concat();
    let run = Run::new(Pacer::new(&config, &shares, Bytes::new(FRAME.into())), &both, 600, |_, _| {});
    within(run.pacer.rate().bps() as f64 / 1e6, aim / 2.0, 4.0);
    assert_eq!(run.pacer.interval(), Duration::from_millis(20), "the horizon");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The interface is fully used while there is demand, and no capacity is assigned twice: the
    /// departures match the interface's rate in the long run.
    #[test]
    fn interface_is_fully_used_and_not_exceeded(
        mbps in 10u64..400,
        fill in any::<bool>(),
        flows in prop::collection::vec((1usize..20, 1u32..5, 0u64..40), 1..5),
    ) {
        let minima: u64 = flows.iter().map(|(_, _, percent)| percent).sum();
        let part = |percent: u64| if minima > 100 { 0 } else { mbps * percent / 100 };
        let shares: Vec<Share> = flows.iter().map(|(_, weight, percent)| share(part(*percent), 0, *weight)).collect();
        let sources: Vec<Source> =
            flows.iter().enumerate().flat_map(|(service, (count, ..))| sockets(service, 0, *count)).collect();
        let sharing = if fill { Sharing::Fill } else { Sharing::Add };
        let pacer = pacer(mbps, sharing, &shares);
        // Intervals are longer where the interface is slower.
        let interval = pacer.interval().nanos() / 1_000_000 + 1;
        let (from, until) = (10 * interval, 60 * interval);
        let run = Run::new(pacer, &sources, until, |_, _| {});
        let sum: f64 = (0..flows.len()).map(|service| run.rate(service, from, until)).sum();
        prop_assert!((sum / mbps as f64 - 1.0).abs() < 0.02, "{sum} of {mbps}");
        // Guarantees hold from the start.
        for (service, share) in shares.iter().enumerate() {
            let got = run.rate(service, 0, until);
            prop_assert!(got > 0.97 * share.min.bps() as f64 / 1e6, "{service}: {got} of {share:?}");
        }
    }

    /// Excess packets leave in the order in which they were handed over, within the interface's rate.
    #[test]
    fn excess_departures_are_in_order(counts in prop::collection::vec(1usize..10, 1..4)) {
        let shares = vec![share(0, 0, 1); counts.len() + 3];
        let sources: Vec<Source> =
            counts.iter().enumerate().flat_map(|(service, count)| sockets(service, 0, *count)).collect();
        let run = Run::new(pacer(100, Sharing::Fill, &shares), &sources, 100, |_, _| {});
        let mut excess: Vec<Left> = run.left.iter().filter(|packet| packet.excess).copied().collect();
        prop_assert!(!excess.is_empty());
        let departures: Vec<u64> = excess.iter().map(|packet| packet.at).collect();
        excess.sort_by_key(|packet| packet.offered);
        prop_assert!(excess.iter().map(|packet| packet.at).eq(departures));
    }

    /// On CPUs that let packets leave in batches, by the time of the last tick where that does: a
    /// limit, a service's or those of two destinations, is exceeded by no more than its burst and
    /// an eighth, what it carries between two ticks and a packet. All bytes are charged.
    #[test]
    fn batches_stay_within_a_limit(
        mbps in 20u64..20_000,
        of_destinations in any::<bool>(),
        long in any::<bool>(),
        phases in prop::collection::vec((1u64..400, 100usize..800), 1..5),
        packets in prop::collection::vec((0usize..4, 0usize..8, 60u32..1514), 50..200),
    ) {
        let limit = Bandwidth::from_mbps(mbps);
        let tick = if long { Duration::from_millis(20) } else { TICK };
        let mut pacer = pacer(40_000, Sharing::Fill, &[share(0, 0, 1)]);
        let burst = limit.bytes_in(Duration::from_millis(1)).get().max(15_140);
        let mut limiters = [Limiter::new(limit, Bytes::new(burst)), Limiter::new(limit, Bytes::new(burst))];
        let mut leases = [Lease::default(); 2];
        if !of_destinations {
            pacer.set_limit(0, limit);
        }
        let mut batches = [(CpuBatch::default(), 0); 4];
        let mut now = 1_000u64;
        let (mut left, mut in_batch) = ([Vec::new(), Vec::new()], 0);
        for (percent, count) in phases {
            for (cpu, run, bytes) in packets.iter().cycle().take(count) {
                now += u64::from(*bytes) * 8_000 * 100 / (mbps * percent);
                let due = Instant::from_nanos((now / tick.nanos() + 1) * tick.nanos());
                let (batch, last) = &mut batches[*cpu];
                // Some packets in a row go to one.
                let index = if of_destinations { usize::from(*run == 0) } else { 0 };
                let [one, other] = &mut limiters;
                let (own, paid) = if index == 0 { (one, other) } else { (other, one) };
                let to = if of_destinations {
                    (Some((index as u32, own, &mut leases[index])), (*last != index).then_some(paid))
                } else {
                    (None, None)
                };
                *last = index;
                let before = batch.unpaid();
                match pacer.departure_on(batch, 0, to, (tick, due), Instant::from_nanos(now), *bytes) {
                    Leaves::Committed(at) | Leaves::Excess(at) => left[index].push((at.nanos(), *bytes)),
                    Leaves::Never => {}
                }
                in_batch += usize::from(batch.unpaid() > before);
            }
        }
        let all: u64 = left.iter().flatten().map(|(_, bytes)| u64::from(*bytes)).sum();
        let unpaid: u64 = batches.iter().map(|(batch, _)| batch.unpaid().get()).sum();
        let used: u64 = leases.iter().map(|lease| lease.uncounted().get()).sum();
        prop_assert_eq!(pacer.sent(0).get() + unpaid + used + pacer.uncounted(0).get(), all);
        let more = burst * 9 / 8 + if long { 0 } else { limit.bytes_in(tick).get() } + 2 * 1514;
        for mut left in left {
            left.sort_unstable();
            let (mut bucket, mut last) = (0f64, 0);
            for (at, bytes) in left {
                bucket = (bucket - (at - last) as f64 * mbps as f64 / 8_000.0).max(0.0) + f64::from(bytes);
                prop_assert!(bucket <= more as f64, "{bucket} of {more} at {at}");
                last = at;
            }
        }
        // A part of a burst smaller than a packet is not used.
        prop_assert!(burst < 200_000 || in_batch > 0);
    }

    /// A service above its limit gets the departures of the exact clock, or is ahead of it by at
    /// most the time since the last tick, which may be late. No packet within the horizon is
    /// dropped.
    #[test]
    fn delayed_packet_departs_alike_without_a_clock_read(
        mbps in 20u64..20_000,
        percent in 110u64..400,
        late in 0u64..30_000_000,
        packets in prop::collection::vec(60u32..1514, 300..900),
    ) {
        let limited = || {
            let mut pacer = pacer(40_000, Sharing::Fill, &[share(0, 0, 1)]);
            pacer.set_limit(0, Bandwidth::from_mbps(mbps));
            (pacer, CpuBatch::default())
        };
        let (mut by_tick, mut by_clock) = (limited(), limited());
        let (mut now, mut waited, mut refused) = (100_000_000u64, 0, 0i64);
        // Where both refuse some, they refuse others, and as much.
        let packet = 1514 * 8_000 / mbps;
        // Ticks stop for a while.
        let stop = now + 1_000_000;
        let all: u64 = packets.iter().map(|bytes| u64::from(*bytes)).sum();
        for bytes in packets {
            now += u64::from(bytes) * 8_000 * 100 / (mbps * percent);
            let seen = if now < stop { now } else { now.saturating_sub(late).max(stop) };
            let due = Instant::from_nanos((seen / TICK.nanos() + 1) * TICK.nanos());
            let at = |(pacer, batch): &mut (Pacer, CpuBatch), tick| {
                match pacer.departure_on(batch, 0, (None, None), (tick, due), Instant::from_nanos(now), bytes) {
                    Leaves::Committed(at) | Leaves::Excess(at) => Some(at.nanos()),
                    Leaves::Never => None,
                }
            };
            // Ticks that are further apart do not stand for the clock.
            let (own, exact) = (at(&mut by_tick, TICK), at(&mut by_clock, Duration::from_millis(20)));
            match (own, exact) {
                (Some(own), Some(exact)) => {
                    prop_assert!(own <= exact.max(now) + packet, "{own} by the tick, {exact} by the clock, at {now}");
                    prop_assert!(exact - own.min(exact) <= 2 * TICK.nanos() + late + packet, "{own} by the tick, \
                        {exact} by the clock");
                    waited += u64::from(own > now);
                }
                (own, exact) => {
                    refused += i64::from(bytes) * (i64::from(own.is_none()) - i64::from(exact.is_none()));
                    prop_assert!(refused <= 2 * 1514, "refused by the tick alone at {now}");
                }
            }
        }
        // What is above the limit is more than may leave at once.
        let burst = Bandwidth::from_mbps(mbps).bytes_in(Duration::from_millis(1)).get().max(15_140);
        prop_assert!(waited > 0 || all * (percent - 100) / percent < 2 * burst);
    }

    /// Who waits is no newcomer because another packet's time lies before.
    #[test]
    fn waiting_service_is_no_newcomer_at_an_older_time(back in 1u64..200_000) {
        let mut pacer = pacer(100, Sharing::Fill, &[share(0, 0, 1), share(0, 0, 1)]);
        let start = 1_000_000_000;
        let mut hand_over = |at: u64| pacer.departure(0, None, Instant::from_nanos(at), FRAME, false);
        for _ in 0..30 {
            hand_over(start);
        }
        pacer.tick(Instant::from_nanos(start + 200_000), TICK);
        let rate = pacer.rate();
        for tick in 1..200 {
            pacer.departure(0, None, Instant::from_nanos(start + tick * 200_000), 100, false);
            pacer.tick(Instant::from_nanos(start + tick * 200_000 + 100), TICK);
        }
        let risen = pacer.rate();
        prop_assert!(risen > rate, "{risen} after {rate}");
        let now = start + 200 * 200_000;
        for _ in 0..40 {
            pacer.departure(0, None, Instant::from_nanos(now), FRAME, false);
        }
        pacer.departure(0, None, Instant::from_nanos(now - back), FRAME, false);
        pacer.tick(Instant::from_nanos(now + 1), TICK);
        prop_assert_eq!(pacer.rate(), risen);
    }
}
