//! Leases of delayed packets: limits are fully used, and packets to one destination stay in order on all CPUs.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_datapath::{CpuBatch, Lease, Limiter, Pacer, PacingConfig};
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
        cpus: CPUS as u32,
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

    /// Senders that wait for their packets to leave, on some CPUs, reach all of their limits, one of
    /// the service, of two destinations, or both, despite unused leases; and packets leave to each
    /// destination in the order in which they came, except those that a CPU's batch releases at
    /// once.
    #[test]
    fn limits_are_fully_used_in_order(
        mbps in 20u64..19_000,
        kind in 0..3,
        percent in 30u64..300,
        sockets in prop::collection::vec((0..CPUS, 0..2usize, 2u32..40, 60u32..1514), 1..12),
    ) {
        let limit = Bandwidth::from_mbps(mbps);
        let of_destinations = kind > 0;
        let root = match kind {
            0 => mbps,
            1 => 20_000_000,
            _ => mbps * percent / 100,
        };
        let mut pacer = pacer();
        if kind != 1 {
            pacer.set_limit(0, Bandwidth::from_mbps(root));
        }
        let mut limiters = [Limiter::new(limit, Bytes::new(burst(mbps))), Limiter::new(limit, Bytes::new(burst(mbps)))];
        let mut leases = [Lease::default(); 2];
        let mut batches = [(CpuBatch::default(), 0); CPUS];
        let mut events = BinaryHeap::new();
        let mut order = 0u64;
        for (socket, (_, _, window, _)) in sockets.iter().enumerate() {
            for _ in 0..*window {
                order += 1;
                events.push(Reverse((1_000_000u64, order, socket)));
            }
        }
        let (start, end) = (20_000_000u64, 120_000_000u64);
        let (mut sent, mut all, mut ticked) = (0u64, 0u64, 0);
        let (mut last, mut of_cpu) = ([0u64; 2], [[0u64; 2]; CPUS]);
        while let Some(Reverse((now, _, socket))) = events.pop() {
            if now > end {
                break;
            }
            while ticked + TICK.nanos() <= now {
                ticked += TICK.nanos();
                pacer.tick(Instant::from_nanos(ticked), TICK);
            }
            let (cpu, index, _, bytes) = sockets[socket];
            let index = if of_destinations { index } else { 0 };
            let (batch, before) = &mut batches[cpu];
            let [one, other] = &mut limiters;
            let (own, paid) = if index == 0 { (one, other) } else { (other, one) };
            let to = if of_destinations {
                (Some((index as u32, own, &mut leases[index])), (*before != index).then_some(paid))
            } else {
                (None, None)
            };
            *before = index;
            let unpaid = batch.unpaid();
            let leaves = pacer.departure_on(batch, 0, to, (TICK, due(now)), Instant::from_nanos(now), bytes);
            order += 1;
            let Some(at) = leaves.at().map(Instant::nanos) else {
                events.push(Reverse((now + 1_000_000, order, socket)));
                continue;
            };
            if batch.unpaid() <= unpaid {
                prop_assert!(at >= last[index], "{at} after {} to {index} at {now}", last[index]);
                last[index] = at;
            }
            // A CPU's own stay in order with what its batch lets leave, too.
            prop_assert!(at >= of_cpu[cpu][index], "{at} after {} on CPU {cpu} at {now}", of_cpu[cpu][index]);
            of_cpu[cpu][index] = at;
            all += u64::from(bytes);
            if (start..end).contains(&at.max(now)) {
                sent += u64::from(bytes);
            }
            // The packet itself takes its time on the wire.
            events.push(Reverse((at.max(now + 1_000), order, socket)));
        }
        let unpaid: u64 = batches.iter().map(|(batch, _)| batch.unpaid().get()).sum();
        let used: u64 = leases.iter().map(|lease| lease.uncounted().get()).sum();
        prop_assert_eq!(pacer.sent(0).get() + unpaid + used + pacer.uncounted(0).get(), all);
        let got = sent as f64 * 8e3 / (end - start) as f64;
        // So many packets in each microsecond, at most.
        let mut wanted = [0f64; 2];
        for (_, index, window, bytes) in &sockets {
            wanted[if of_destinations { *index } else { 0 }] += f64::from(window * bytes) * 8.0;
        }
        let expected = wanted.map(|wanted| if of_destinations { wanted.min(mbps as f64) } else { wanted });
        let expected = expected.iter().sum::<f64>().min(root as f64);
        prop_assert!(got < 1.02 * expected.max(1.0) && got > 0.97 * expected, "{got} Mb/s of {expected}");
    }

    /// While packets wait, most of them read no clock, on any CPU.
    #[test]
    fn one_lease_covers_several_delayed_packets(
        mbps in 1_000u64..20_000,
        cpus in 1..=CPUS,
    ) {
        let mut pacer = pacer();
        pacer.set_limit(0, Bandwidth::from_mbps(mbps));
        let (mut batches, mut looks, mut packets, mut now) = ([CpuBatch::default(); CPUS], 0, 0usize, 1_000_000u64);
        // A tenth more than the limit: all wait from 11 ms on.
        while now < 25_000_000 {
            now += u64::from(FRAME) * 8_000 * 10 / 11 / mbps;
            let batch = &mut batches[packets % cpus];
            let before = (batch.unpaid(), pacer.uncounted(0));
            pacer.departure_on(batch, 0, (None, None), (TICK, due(now)), Instant::from_nanos(now), FRAME);
            if now > 15_000_000 {
                packets += 1;
                looks += usize::from(batch.unpaid() <= before.0 && pacer.uncounted(0) <= before.1);
            }
        }
        // An eighth of a burst, in frames, and what comes in a tick.
        let part = (burst(mbps) / 8 * 8 / 10).min(131_072) / u64::from(FRAME);
        prop_assert!(looks * part.min(6) as usize <= packets * 2, "{looks} looks for {packets} packets, {part} at a \
            time");
    }

    /// The unused leases of silent destinations leave no room for a new destination, but only for
    /// 20 ms.
    #[test]
    fn unused_lease_expires(mbps in 1_000u64..10_000, silent in 2u32..24) {
        let mut pacer = pacer();
        pacer.set_limit(0, Bandwidth::from_mbps(mbps));
        let destination = || (CpuBatch::default(), Limiter::new(Bandwidth::UNLIMITED, Bytes::ZERO), Lease::default());
        let mut destinations: Vec<_> = (0..=silent).map(|_| destination()).collect();
        let mut now = 1_000_000u64;
        let (mut taken, mut packets) = (0, 0);
        while now < 45_000_000 {
            now += u64::from(FRAME) * 8_000 * 10 / 11 / mbps;
            // A tenth more than the limit: all wait from 11 ms on. From 15 ms on the last one sends alone.
            let which = if now < 15_000_000 { (now / 10_000) as u32 % silent } else { silent };
            let (batch, limiter, lease) = &mut destinations[which as usize];
            let before = lease.uncounted();
            let to = (Some((which, limiter, &mut *lease)), None);
            pacer.departure_on(batch, 0, to, (TICK, due(now)), Instant::from_nanos(now), FRAME);
            if now > 40_000_000 {
                packets += 1;
                taken += usize::from(lease.uncounted() > before);
            }
        }
        prop_assert!(taken * 2 > packets, "{taken} of {packets} packets without a look");
    }

    /// What many destinations of a service left of their leases, each in its own tick, and all come
    /// back to at once, is an eighth of a burst at most.
    #[test]
    fn early_return_shrinks_the_lease_to_an_eighth(
        mbps in 1_000u64..10_000, count in 2usize..24, packets in 3u32..12,
    ) {
        let mut pacer = pacer();
        pacer.set_limit(0, Bandwidth::from_mbps(mbps));
        let unlimited = || (Limiter::new(Bandwidth::UNLIMITED, Bytes::ZERO), Lease::default());
        let mut destinations: Vec<(Limiter, Lease)> = (0..count).map(|_| unlimited()).collect();
        // Each on a CPU of its own, which has no batch while what is sent waits.
        let mut batches = vec![CpuBatch::default(); count];
        let (mut now, mut left) = (1_000_000u64, Vec::new());
        let mut send = |index: usize, now: u64, bytes: u32| {
            let (limiter, lease) = &mut destinations[index];
            let to = (Some((index as u32, limiter, lease)), None);
            let (tick, at) = ((TICK, due(now)), Instant::from_nanos(now));
            let leaves = pacer.departure_on(&mut batches[index], 0, to, tick, at, bytes);
            left.extend(leaves.at().map(|at| (at.nanos().max(now), bytes)));
        };
        // The burst goes, and a millisecond's time waits.
        for _ in 0..2 * burst(mbps) / u64::from(FRAME) {
            send(0, now, FRAME);
        }
        // As much as the limit carries, in turn: it never rests.
        for turn in 0..count * 4 {
            for _ in 0..packets {
                now += u64::from(FRAME) * 8_000 / mbps;
                send(turn % count, now, FRAME);
            }
            now = due(now).nanos();
            for _ in 0..TICK.nanos() * mbps / 8_000 / u64::from(FRAME) {
                send(0, now, FRAME);
            }
        }
        for index in 0..count {
            send(index, now, FRAME);
            send(index, now, FRAME);
        }
        left.sort_unstable();
        let most = (burst(mbps) * 9 / 8 + 2 * u64::from(FRAME)) as f64;
        let (mut bucket, mut last) = (0f64, 0);
        for (at, bytes) in left {
            bucket = (bucket - (at - last) as f64 * mbps as f64 / 8_000.0).max(0.0) + f64::from(bytes);
            prop_assert!(bucket <= most, "{bucket} of {most} at {at}");
            last = at;
        }
    }
}
