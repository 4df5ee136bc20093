//! Receive meter, feedback and destination limiters together, packet by packet.
//!
//! A link of 10 Gb/s with a FIFO queue that marks above 80 kB and drops above 1 MB, 10 µs to and from each sender.
//! Senders send 1,500 B packets as fast as their limiters let them: the worst that a service can do. Each packet
//! takes up to 50 ns longer than the last, at random: in perfect step, a full queue would always drop the same ones'.

use crate::common::Receiver;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_datapath::{Destination, FeedbackSampler, ReceiveMeter};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

const LINK: u64 = 10_000_000_000;
const PACKET: u64 = 1500;
const DELAY: u64 = 10_000;
const MARKED_ABOVE: u64 = 80_000;
const BUFFER: u64 = 1_000_000;
/// A packet's time on the link, ns.
const PACKET_NS: u64 = PACKET * 8_000_000_000 / LINK;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender may have something to send.
    Send(usize),
    /// Feedback reaches a sender.
    Feedback(usize, u64),
}

struct Sender {
    limiter: Option<Destination>,
    weight: Weight,
    /// Its own link is busy until then.
    free: u64,
    /// The only `Send` that counts.
    next: u64,
    received: u64,
}

/// Measurements at a receiver.
struct Outcome {
    /// Bytes of each sender in the second half.
    shares: Vec<u64>,
    /// bit/s in the second half.
    usage: f64,
    /// The largest overshoot above C, in bits.
    overshoot: f64,
    /// When R was last more than 5 % off C/n, in ns.
    settled: u64,
    dropped: u64,
}

#[expect(clippy::too_many_lines, reason = "one event loop, whose events share its state")]
fn run(parameters: &ShaperParameters, capacity: Bandwidth, weights: &[Weight], until: u64) -> Outcome {
    let mut meter = ReceiveMeter::new(Instant::ZERO, parameters, Bandwidth::UNLIMITED);
    meter.set_capacity(capacity); // the busy start: R = C
    let (mut receiver, mut sampler) = (Receiver::alone(meter), FeedbackSampler::new(Instant::ZERO, parameters, 3));
    let mut events = BinaryHeap::new();
    let mut senders: Vec<Sender> = weights
        .iter()
        .map(|weight| Sender {
            limiter: Destination::initial(Instant::ZERO, &parameters.destination),
            weight: *weight,
            free: 0,
            next: 0,
            received: 0,
        })
        .collect();
    for sender in 0..senders.len() {
        events.push(Reverse((0, Event::Send(sender))));
    }
    let (mut link_free, mut dropped) = (0u64, 0);
    let mut random = 1u64;
    let (level, mut settled) = (capacity.bps() / weights.len() as u64, 0);
    // The largest sum of (bits - C * time) over any window, as in Kadane's maximum subarray.
    let (mut overshoot, mut run, mut last) = (0f64, 0f64, 0u64);
    while let Some(Reverse((now, event))) = events.pop() {
        if now >= until {
            break;
        }
        match event {
            Event::Feedback(sender, rate) => {
                let Sender { limiter, weight, .. } = &mut senders[sender];
                let (at, rate) = (Instant::from_nanos(now), Bandwidth::from_bps(rate));
                match limiter {
                    Some(limiter) => {
                        limiter.feedback(at, rate, *weight);
                    }
                    None => *limiter = Some(Destination::by_feedback(at, &parameters.destination, rate, *weight)),
                }
                senders[sender].next = now;
                events.push(Reverse((now, Event::Send(sender))));
            }
            Event::Send(index) => {
                let sender = &mut senders[index];
                if sender.next != now {
                    continue;
                }
                let at = Instant::from_nanos(now);
                let allowed =
                    sender.limiter.as_mut().map_or(now, |limiter| limiter.earliest(at).nanos()).max(sender.free);
                if allowed > now {
                    sender.next = allowed;
                    events.push(Reverse((allowed, Event::Send(index))));
                    continue;
                }
                let mut requests = false;
                if let Some(limiter) = &mut sender.limiter {
                    limiter.departure(at, Bytes::new(PACKET));
                    requests = limiter.requests_feedback(at);
                }
                // Knuth's MMIX generator
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sender.free = now + PACKET_NS + (random >> 33) % 50;
                sender.next = sender.free;
                events.push(Reverse((sender.next, Event::Send(index))));
                let queued = link_free.saturating_sub(now) * LINK / 8_000_000_000;
                if queued > BUFFER {
                    dropped += 1;
                    continue;
                }
                link_free = link_free.max(now) + PACKET_NS;
                let arrived = link_free;
                if arrived >= until / 2 {
                    sender.received += PACKET;
                }
                run = (run - capacity.bps() as f64 * (arrived - last) as f64 * 1e-9).max(0.0) + PACKET as f64 * 8.0;
                (last, overshoot) = (arrived, overshoot.max(run));
                let marked = u32::from(queued > MARKED_ABOVE);
                let at = Instant::from_nanos(arrived);
                receiver.packets(0, at, Bytes::new(PACKET), 1, marked);
                let rate = receiver.services[0].meter.rate().bps();
                if rate.abs_diff(level) > level / 20 {
                    settled = arrived;
                }
                if sampler.is_due(at, Bytes::new(PACKET)) || (requests && marked == 0) {
                    events.push(Reverse((arrived + 2 * DELAY, Event::Feedback(index, rate))));
                }
            }
        }
    }
    let shares: Vec<u64> = senders.iter().map(|s| s.received).collect();
    let usage = shares.iter().sum::<u64>() as f64 * 8.0 / ((until - until / 2) as f64 * 1e-9);
    Outcome { shares, usage, overshoot, settled, dropped }
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|s| s * s).sum());
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn greedy_senders_converge_to_equal_shares() {
    let capacity = Bandwidth::from_gbps(9);
    // Within 30 intervals as in the fluid, as long as each sender receives feedback within three; a
    // hundred at 200 us swing for a while, and not at 500 us (Parley's Table 3, with some 90
    // senders for each receiver).
    for (senders, micros, within) in
        [(1, 200, 30), (2, 200, 30), (5, 200, 30), (10, 200, 30), (30, 200, 30), (100, 200, 400), (100, 500, 30)]
    {
        let parameters = ShaperParameters { interval: Duration::from_micros(micros), ..ShaperParameters::PARLEY };
        let outcome = run(&parameters, capacity, &vec![Weight::ONE; senders], 100_000_000);
        let shares: Vec<f64> = outcome.shares.iter().map(|s| *s as f64).collect();
        let (overshoot, settled) = (outcome.overshoot / (9e3 * micros as f64), outcome.settled / (micros * 1000));
        println!(
            "{senders} at {micros} us: {:.3} Gb/s, Jain {:.4}, overshoot {overshoot:.2} T of C, settled after \
                {settled} T, {} dropped",
            outcome.usage / 1e9,
            jain(&shares),
            outcome.dropped,
        );
        assert!((outcome.usage / 9e9 - 1.0).abs() < 0.01, "{senders} senders use {}", outcome.usage);
        assert!(jain(&shares) > 0.999, "{senders} senders: {}", jain(&shares));
        assert!(overshoot < 15.0, "{senders} senders: {overshoot} intervals of C above C");
        assert!(settled <= within, "{senders} senders: {settled} intervals");
    }
}

#[test]
fn fifty_senders_without_requests_oscillate_at_200_us_and_not_at_500() {
    // A sender receives feedback once per 10 kB of its own: 0.44 ms at 9 Gb/s / 50, more than two intervals late.
    let mut parameters = ShaperParameters::PARLEY;
    parameters.destination.request_after = Duration::ZERO;
    let weights = vec![Weight::ONE; 50];
    let capacity = Bandwidth::from_gbps(9);
    let swinging = run(&parameters, capacity, &weights, 100_000_000);
    assert!(swinging.usage < 8e9, "{}", swinging.usage);
    parameters.interval = Duration::from_micros(500);
    let steady = run(&parameters, capacity, &weights, 100_000_000);
    assert!((steady.usage / 9e9 - 1.0).abs() < 0.01, "{}", steady.usage);
}

#[test]
fn weighted_senders_share_by_weight() {
    let weights: Vec<Weight> = [1000, 2000, 500, 4000].into_iter().filter_map(Weight::from_thousandths).collect();
    let outcome = run(&ShaperParameters::PARLEY, Bandwidth::from_gbps(9), &weights, 60_000_000);
    for (share, part) in outcome.shares.iter().zip([1.0, 2.0, 0.5, 4.0]) {
        let expected = 9e9 * 30e-3 / 8.0 * part / 7.5;
        assert!((*share as f64 / expected - 1.0).abs() < 0.03, "{share} B of {expected}");
    }
}

#[test]
fn eyeq_converges_to_the_capacity() {
    for senders in [1, 2, 10, 30] {
        let outcome = run(&ShaperParameters::EYEQ, Bandwidth::from_gbps(9), &vec![Weight::ONE; senders], 100_000_000);
        println!("{senders}: {:.3} Gb/s, overshoot {:.2} T", outcome.usage / 1e9, outcome.overshoot / (9e9 * 200e-6));
        assert!((outcome.usage / 9e9 - 1.0).abs() < 0.05, "{senders} senders use {}", outcome.usage);
    }
}
