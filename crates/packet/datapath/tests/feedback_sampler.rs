//! Feedback sampling: a decision without a clock read never differs from one with it.

use proptest::prelude::*;
use std::collections::HashMap;
use weir_datapath::{Address, Advertised, FeedbackSampler, abi};
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId};

/// A packet: nanoseconds since the one before, bytes, and how far off the time is by which it surely has come.
fn packet() -> impl Strategy<Value = (u64, u64, u64)> {
    (prop_oneof![0..2_000u64, 0..400_000u64], prop_oneof![64..1_515u64, 64..65_536u64], 0..300_000u64)
}

proptest! {
    #[test]
    fn coarse_time_agrees_with_the_clock(
        packets in prop::collection::vec(packet(), 1..400),
        bytes in prop_oneof![Just(0u32), 1..30_000u32],
        interval in prop_oneof![Just(0u64), 1_000..1_000_000u64],
        seed in any::<u32>(),
    ) {
        let start = abi::FeedbackSampler { interval, bytes, sent_at: 0, unsent_bytes: 0, draw: seed };
        let (mut model, mut fast) = (FeedbackSampler(start), FeedbackSampler(start));
        let mut now = 0;
        for (gap, bytes, off) in packets {
            now += gap;
            let (at, bytes) = (Instant::from_nanos(now), Bytes::new(bytes));
            let due = model.is_due(at, bytes);
            if fast.is_not_due(Instant::from_nanos(now + off), bytes) {
                prop_assert!(!due);
            } else {
                prop_assert_eq!(fast.is_due(at, bytes), due);
            }
            prop_assert_eq!(fast, model);
        }
    }
}

/// IPv4 addresses of one network, and IPv6 ones that differ in one half or the other.
fn address() -> impl Strategy<Value = Address> {
    let ipv4 = (0..40u64).prop_map(|host| [0, (0x0a00_0000 + host).swap_bytes() | 0xffff_0000]);
    let ipv6 = (0..6u64, 0..6u64).prop_map(|(network, host)| [network, host]);
    prop_oneof![ipv4, ipv6]
}

proptest! {
    /// Feedback is only suppressed if this rate was advertised recently.
    #[test]
    fn only_an_advertised_rate_is_suppressed(
        events in prop::collection::vec((address(), address(), 0..3u32, 1..4u64, 0..400u64), 1..300),
    ) {
        let mut advertised = Advertised::<16>::new(Duration::from_micros(1000));
        let mut known: HashMap<(Address, Address, u32), (u64, u64, u32)> = HashMap::new();
        let mut now = 10_000;
        for (source, destination, service, rate, on) in events {
            now += on;
            let (at, bandwidth) = (Instant::from_nanos(now * 1000), Bandwidth::from_bps(rate));
            if advertised.repeats((&source, &destination), ServiceId(service), bandwidth, at) {
                let known = known.get(&(source, destination, service));
                let recent = |(before, at, again): &(u64, u64, u32)| *before == rate && now - at < 1000 << again;
                prop_assert!(known.is_some_and(recent), "{:?}", known);
            } else {
                let known = known.entry((source, destination, service)).or_insert((0, now, 0));
                // A sender evicted from its slot counts as new, and gets feedback sooner.
                let again = if known.0 == rate { (known.2 + 1).min(3) } else { 0 };
                *known = (rate, now, again);
            }
        }
    }
}

#[test]
fn unchanged_rate_is_advertised_with_backoff() {
    let mut advertised = Advertised::<256>::new(Duration::from_micros(1000));
    let hosts: Vec<Address> = (1..=32u64).map(|host| [0, (0x0a4d_0000 + host).swap_bytes() | 0xffff_0000]).collect();
    let mut count = |rate: fn(u64) -> u64| {
        let mut sent = 0;
        // Ten milliseconds of packets.
        for packet in 0..10_000u64 {
            let ends = (&hosts[1 + packet as usize % 31], &hosts[0]);
            let (rate, now) = (Bandwidth::from_mbps(rate(packet)), Instant::from_nanos((20_000 + packet) * 1000));
            sent += u32::from(!advertised.repeats(ends, ServiceId(0), rate, now));
        }
        sent
    };
    // 31 senders in 256 slots: the few that share one get more feedback.
    // At 0, 1, 3 and 7 ms each.
    let [same, changing] = [count(|_| 5), count(|packet| 5 + packet / 200)];
    assert!((124..1_000).contains(&same), "{same} of 10,000");
    assert!((1_550..3_500).contains(&changing), "each of 50 rates: {changing} of 10,000");
}

#[test]
fn slow_meters_advertise_before_the_silence_timeout() {
    // Intervals of 10 us to 1 s; silence is a second.
    for interval in [10, 200, 20_000, 62_500, 100_000, 500_000, 1_000_000] {
        let mut advertised = Advertised::<16>::new(Duration::from_micros(2 * interval));
        let ends: (Address, Address) = ([0, 1], [0, 2]);
        let selected = |at: &u64| {
            !advertised.repeats(
                (&ends.0, &ends.1),
                ServiceId(0),
                Bandwidth::from_mbps(5),
                Instant::from_nanos(at * 1_000_000),
            )
        };
        let at: Vec<u64> = (1_000..11_000).filter(selected).collect();
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] <= 250), "{interval} us: {at:?}");
        assert!(at.len() >= 40, "{interval} us: {at:?}");
    }
}

#[test]
fn most_packets_are_decided_without_a_clock_read() {
    // 64 B packets each 100 ns, ticks of 200 us, the product's 10 kB and T.
    let mut sampler = FeedbackSampler(abi::FeedbackSampler {
        interval: 200_000,
        bytes: 10_000,
        sent_at: 0,
        unsent_bytes: 0,
        draw: 7,
    });
    let (mut clock_reads, mut due) = (0, 0);
    for i in 0..1_000_000u64 {
        let (now, tick) = (i * 100, (i * 100 / 200_000 + 1) * 200_000);
        if !sampler.is_not_due(Instant::from_nanos(tick), Bytes::new(64)) {
            clock_reads += 1;
            due += u32::from(sampler.is_due(Instant::from_nanos(now), Bytes::new(64)));
        }
    }
    assert!((6_300..6_500).contains(&due), "one in 10 kB: {due}");
    assert!(clock_reads < 150_000, "{clock_reads} of a million read the clock");
}
