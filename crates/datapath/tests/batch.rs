//! Packets that leave in their CPU's batch: limits hold, nothing of them is lost, and each CPU's packets stay in order.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_datapath::{Batch, Leaves, Limiter, Pacer, PacingConfig};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

const FRAME: u32 = 1514;
const TICK: Duration = Duration::from_micros(200);
const CPUS: usize = 4;

/// Of one service, on an interface of 40 Gb/s.
fn pacer() -> Pacer {
    let config = PacingConfig {
        rate: Bandwidth::from_gbps(40),
        sharing: Sharing::Fill,
        horizon: Duration::from_millis(20),
        queue: Bytes::new(15_140),
        burst: Bytes::new(15_140),
    };
    let share = Share { min: Bandwidth::ZERO, max: Bandwidth::UNLIMITED, weight: Weight::ONE };
    Pacer::new(&config, &[share], Bytes::new(FRAME.into()))
}

fn burst(mbps: u64) -> u64 {
    Bandwidth::from_mbps(mbps).bytes_in(Duration::from_millis(1)).get().max(15_140)
}

fn due(now: u64) -> Instant {
    Instant::from_nanos((now / TICK.nanos() + 1) * TICK.nanos())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Senders that wait for their packets to leave, on some CPUs, get all of a limit between them, whatever each keeps ahead and does not use;
    /// and each CPU's packets leave in the order in which they came.
    #[test]
    fn a_limit_is_used_in_full_and_in_order(
        mbps in 20u64..20_000,
        of_destination in any::<bool>(),
        sockets in prop::collection::vec((0..CPUS, 2u32..40, 60u32..1514), 1..12),
    ) {
        let limit = Bandwidth::from_mbps(mbps);
        let mut pacer = pacer();
        let mut limiter = Limiter::new(limit, Bytes::new(burst(mbps)));
        if !of_destination {
            pacer.set_limit(0, limit);
        }
        let mut batches = [(Batch::default(), 0u64); CPUS];
        let mut events = BinaryHeap::new();
        let mut order = 0u64;
        for (socket, (_, window, _)) in sockets.iter().enumerate() {
            for _ in 0..*window {
                order += 1;
                events.push(Reverse((1_000_000u64, order, socket)));
            }
        }
        let (start, end) = (20_000_000u64, 120_000_000u64);
        let (mut sent, mut all, mut ticked) = (0u64, 0u64, 0);
        while let Some(Reverse((now, _, socket))) = events.pop() {
            if now > end {
                break;
            }
            while ticked + TICK.nanos() <= now {
                ticked += TICK.nanos();
                pacer.tick(Instant::from_nanos(ticked), TICK);
            }
            let (cpu, _, bytes) = sockets[socket];
            let (batch, last) = &mut batches[cpu];
            let to = if of_destination { (Some((0, &mut limiter)), None) } else { (None, None) };
            let leaves = pacer.departure_on(batch, 0, to, (TICK, due(now)), Instant::from_nanos(now), bytes);
            order += 1;
            let Some(at) = leaves.at().map(Instant::nanos) else {
                events.push(Reverse((now + 1_000_000, order, socket)));
                continue;
            };
            prop_assert!(at >= *last, "{at} after {last} on CPU {cpu}");
            *last = at;
            all += u64::from(bytes);
            if (start..end).contains(&at) {
                sent += u64::from(bytes);
            }
            // The packet itself takes its time on the wire.
            events.push(Reverse((at.max(now + 1_000), order, socket)));
        }
        let uncounted: u64 = batches.iter().map(|(batch, _)| batch.uncounted().get()).sum();
        prop_assert_eq!(pacer.sent(0).get() + uncounted, all);
        let got = sent as f64 * 8e3 / (end - start) as f64;
        // So many packets in each microsecond, at most.
        let wanted: f64 = sockets.iter().map(|(_, window, bytes)| f64::from(window * bytes) * 8.0).sum();
        let expected = wanted.min(mbps as f64);
        prop_assert!(got < 1.02 * mbps as f64 && got > 0.98 * expected, "{got} Mb/s of {expected}");
    }

    /// Where packets wait on one CPU, most need no look at the clocks.
    #[test]
    fn what_waits_looks_at_the_clocks_once_for_several(mbps in 1_000u64..20_000) {
        let mut pacer = pacer();
        pacer.set_limit(0, Bandwidth::from_mbps(mbps));
        let (mut batch, mut looks, mut packets, mut now) = (Batch::default(), 0, 0, 1_000_000u64);
        // Twice the limit for 10 ms.
        while now < 11_000_000 {
            now += u64::from(FRAME) * 4_000 / mbps;
            let before = (batch.uncounted(), pacer.sent(0));
            pacer.departure_on(&mut batch, 0, (None, None), (TICK, due(now)), Instant::from_nanos(now), FRAME);
            packets += 1;
            looks += u64::from(pacer.sent(0) != before.1 || batch.uncounted() == before.0);
        }
        // An eighth of a burst, in frames.
        let part = (burst(mbps) / 8 * 8 / 10).min(131_072) / u64::from(FRAME);
        prop_assert!(looks * part.min(8) < packets * 2, "{looks} looks for {packets} packets, {part} at a time");
    }

    /// On CPUs that let packets leave in batches, by the time of the last tick where that does: a limit, a service's or those of two
    /// destinations, is exceeded by no more than its burst and an eighth, what it carries between two ticks and a packet. All bytes are charged.
    #[test]
    fn batches_keep_a_limit(
        mbps in 20u64..20_000,
        of_destinations in any::<bool>(),
        long in any::<bool>(),
        phases in prop::collection::vec((1u64..400, 100usize..800), 1..5),
        packets in prop::collection::vec((0usize..4, 0usize..8, 60u32..1514), 50..200),
    ) {
        let limit = Bandwidth::from_mbps(mbps);
        let tick = if long { Duration::from_millis(20) } else { TICK };
        let mut pacer = pacer();
        let burst = burst(mbps);
        let mut limiters = [Limiter::new(limit, Bytes::new(burst)), Limiter::new(limit, Bytes::new(burst))];
        if !of_destinations {
            pacer.set_limit(0, limit);
        }
        let mut batches = [(Batch::default(), 0); 4];
        let mut now = 1_000u64;
        let (mut left, mut in_batch) = ([Vec::new(), Vec::new()], 0);
        let slow = phases.iter().all(|(percent, _)| *percent < 100);
        for (percent, count) in phases {
            for (cpu, run, bytes) in packets.iter().cycle().take(count) {
                now += u64::from(*bytes) * 8_000 * 100 / (mbps * percent);
                let due = Instant::from_nanos((now / tick.nanos() + 1) * tick.nanos());
                let (batch, last) = &mut batches[*cpu];
                // Some packets in a row go to one.
                let place = if of_destinations { usize::from(*run == 0) } else { 0 };
                let [one, other] = &mut limiters;
                let (own, paid) = if place == 0 { (one, other) } else { (other, one) };
                let to = if of_destinations {
                    (Some((place as u32, own)), (*last != place).then_some(paid))
                } else {
                    (None, None)
                };
                *last = place;
                let before = batch.uncounted();
                match pacer.departure_on(batch, 0, to, (tick, due), Instant::from_nanos(now), *bytes) {
                    Leaves::Entitled(at) | Leaves::Spare(at) => left[place].push((at.nanos(), *bytes)),
                    Leaves::Never => {}
                }
                in_batch += usize::from(batch.uncounted() > before);
            }
        }
        let all: u64 = left.iter().flatten().map(|(_, bytes)| u64::from(*bytes)).sum();
        let unpaid: u64 = batches.iter().map(|(batch, _)| batch.uncounted().get()).sum();
        prop_assert_eq!(pacer.sent(0).get() + unpaid, all);
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
        // A part of a burst that is smaller than a packet is nobody's, and who sends a packet in a tick looks with each.
        prop_assert!(burst < 200_000 || slow || in_batch > 0);
    }

    /// Who wants more than its limit gets the departures that the clock gives, or is ahead by what passed since the last tick, which may be
    /// late; and is refused nothing that would not wait for too long.
    #[test]
    fn what_waits_needs_no_clock(
        mbps in 20u64..20_000,
        percent in 110u64..400,
        late in 0u64..30_000_000,
        packets in prop::collection::vec(60u32..1514, 300..900),
    ) {
        let limited = || {
            let mut pacer = pacer();
            pacer.set_limit(0, Bandwidth::from_mbps(mbps));
            (pacer, Batch::default())
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
            let at = |(pacer, batch): &mut (Pacer, Batch), tick| {
                match pacer.departure_on(batch, 0, (None, None), (tick, due), Instant::from_nanos(now), bytes) {
                    Leaves::Entitled(at) | Leaves::Spare(at) => Some(at.nanos()),
                    Leaves::Never => None,
                }
            };
            // Ticks that are further apart do not stand for the clock.
            let (own, exact) = (at(&mut by_tick, TICK), at(&mut by_clock, Duration::from_millis(20)));
            match (own, exact) {
                (Some(own), Some(exact)) => {
                    prop_assert!(own <= exact.max(now) + packet, "{own} by the tick, {exact} by the clock, at {now}");
                    prop_assert!(exact - own.min(exact) <= 2 * TICK.nanos() + late + packet, "{own} by the tick, {exact} by the clock");
                    waited += u64::from(own > now);
                }
                (own, exact) => {
                    refused += i64::from(bytes) * (i64::from(own.is_none()) - i64::from(exact.is_none()));
                    prop_assert!(refused <= 2 * 1514, "refused by the tick alone at {now}");
                }
            }
        }
        // What is above the limit is more than may leave at once.
        let burst = burst(mbps);
        prop_assert!(waited > 0 || all * (percent - 100) / percent < 2 * burst);
    }
}
