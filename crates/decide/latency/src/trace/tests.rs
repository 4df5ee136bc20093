//! The trace queue against a plain model, against M/M/1 and M/D/1, and its searches against
//! exhaustive search.

use super::*;
use crate::mm1::Mm1;
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use weir_units::Bytes;
use weir_units::{Load, Quantile};

fn trace(messages: &[(u64, u64)]) -> Trace {
    Trace::new(messages.iter().map(|(at, bytes)| (*at, *bytes, None))).unwrap()
}

fn read(text: &str) -> Result<Trace, ReadError> {
    let tag = |name: &str| ["a", "b"].iter().position(|known| *known == name).map(|index| Tag(index as u32));
    Trace::read(text.as_bytes(), tag, &mut ())
}

/// The worked example at several capacities, by hand: at 1 Gb/s a message takes 8 µs.
#[test]
fn a_queue_by_hand() {
    let trace = trace(&[(0, 1000), (0, 1000), (5_000, 1000)]);
    let time = |mbps: u64, billionths: u32| {
        let queue = TraceQueue::new(&trace, Quantile::from_billionths(billionths).unwrap(), &[]).unwrap();
        queue.completion_time(Bandwidth::from_mbps(mbps), &mut ()).unwrap().nanos()
    };
    // Finished after 8, 16 and 24 − 5 = 19 µs.
    assert_eq!([1, 333_333_333, 333_333_334, 666_666_667].map(|p| time(1_000, p)), [8_000, 8_000, 16_000, 19_000]);
    // At 10 Gb/s the third finds an empty queue: 0.8, 1.6, 0.8 µs.
    assert_eq!([1, 333_333_334, 666_666_667].map(|p| time(10_000, p)), [800, 800, 1_600]);
    // 2000 bytes arrive within 5 µs: 3.2 Gb/s.
    assert_eq!(trace.offered(), Bandwidth::from_mbps(3_200));
    assert_eq!([4, 3, 2].map(|gbps| trace.load(Bandwidth::from_gbps(gbps))), [0.8, 3.2 / 3.0, 1.6]);
    assert_eq!((trace.bytes(), trace.longest_gap()), (3_000, Duration::from_micros(5)));
    let all = TraceQueue::new(&trace, Quantile::P99, &[]).unwrap();
    // The second needs 16 kbit within 10 µs. The third finds 8 of them remaining, and is done 16
    // kbit later: 10 µs as well.
    assert_eq!(all.smallest_capacity(Duration::from_micros(10), &mut ()), Ok(Bandwidth::from_mbps(1_600)));
}

/// With gaps twice as long the load is half, and with all three messages apart each takes 8 µs.
#[test]
fn another_load_is_other_gaps() {
    let messages = [(0, 1000), (9_000, 1000), (21_000, 500), (30_000, 1000)];
    let slower: Vec<_> = messages.iter().map(|(at, bytes)| (at * 2, *bytes)).collect();
    let (trace, slower) = (trace(&messages), trace(&slower));
    let capacity = Bandwidth::from_gbps(1);
    // 2500 bytes in 30 µs at 1 Gb/s: two thirds, and in 60 µs a third.
    assert_eq!([&trace, &slower].map(|trace| trace.load(capacity)), [2.0 / 3.0, 1.0 / 3.0]);
    let load = Load::from_billionths(333_333_333).unwrap();
    let queue = |trace| TraceQueue::new(trace, Quantile::P50, &[]).unwrap();
    let stretched = queue(&trace).completion_time_at(capacity, load, &mut ()).unwrap();
    assert_eq!(stretched, queue(&slower).completion_time(capacity, &mut ()).unwrap());
}

/// The worked example of the queue's module: the load, the traffic and the arrivals as they are need other capacities.
#[test]
fn each_smallest_capacity_holds_something_else() {
    let trace = trace(&[(0, 1000), (5_000, 1000)]);
    let queue = TraceQueue::new(&trace, Quantile::P99, &[]).unwrap();
    let target = Duration::from_micros(4);
    let at = |load| queue.smallest_capacity_at(Load::from_fraction(load).unwrap(), target, &mut ());
    let for_traffic = |mbps| queue.smallest_capacity_for(Bandwidth::from_mbps(mbps), target, &mut ());
    // 8000 bits in 4 µs each; below 80 % the gap is longer, and no message waits.
    assert_eq!([0.8, 0.4].map(at), [Ok(Bandwidth::from_gbps(2)), Ok(Bandwidth::from_gbps(2))]);
    // At 90 % of C the gap lasts as long as 8000 / 0.9 = 8888 bits, at 99 % 8080 bits: none waits, as short a trace is.
    assert_eq!(at(0.99), Ok(Bandwidth::from_gbps(2)));
    // Twice the traffic of the trace halves the gap: 16000 bits within 2.5 + 4 µs; as much again, 1.25 + 4 µs.
    assert_eq!(for_traffic(3_200), Ok(Bandwidth::from_bps(2_461_538_462)));
    assert_eq!(for_traffic(6_400), Ok(Bandwidth::from_bps(3_047_619_048)));
    // The trace as it is has 1.6 Gb/s.
    assert_eq!(for_traffic(1_600), queue.smallest_capacity(target, &mut ()));
    assert_eq!(for_traffic(0), Ok(Bandwidth::from_gbps(2)));
    for traffic in [Bandwidth::from_bps(Bandwidth::MAX.bps() + 1), Bandwidth::UNLIMITED] {
        assert_eq!(queue.smallest_capacity_for(traffic, target, &mut ()), Err(TraceError::OutOfRange));
    }
    let never = TraceError::Never { least: Duration::from_nanos(1) };
    assert_eq!(queue.smallest_capacity_for(Bandwidth::from_gbps(1), Duration::ZERO, &mut ()), Err(never));
    assert_eq!(queue.smallest_capacity_at(Load::from_fraction(0.5).unwrap(), Duration::ZERO, &mut ()), Err(never));
}

/// A message each million seconds: 1 b/s, which 10 Gb/s carry ten billion times. Less than a billionth is neither no
/// load nor a full queue.
#[test]
fn a_load_below_a_billionth_is_not_full() {
    const MILLION_SECONDS: u64 = 1_000_000_000_000_000;
    let rare = trace(&[(0, 125_000), (MILLION_SECONDS, 125_000)]);
    assert_eq!(rare.offered(), Bandwidth::from_bps(1));
    assert_eq!(rare.load(Bandwidth::from_gbps(10)), 1e-10);
    // Two messages a nanosecond apart, and no time for the second to wait: the nanosecond has to become 8 µs.
    let bursts = trace(&[(0, 1000), (1, 1000), (MILLION_SECONDS, 1000)]);
    let queue = TraceQueue::new(&bursts, Quantile::P99, &[]).unwrap();
    let largest = |target| queue.largest_load(Bandwidth::from_gbps(1), target, &mut ());
    assert_eq!(largest(Duration::from_micros(8)), Err(TraceError::Faint));
    assert_eq!(largest(Duration::from_micros(16)), Ok(None));
    // Three bytes that are equally far apart, half a bit a second: at any load each finds an empty queue.
    let slow = trace(&[(0, 1), (16_000_000_000, 1), (32_000_000_000, 1)]);
    assert_eq!(slow.offered(), Bandwidth::ZERO);
    let queue = TraceQueue::new(&slow, Quantile::P99, &[]).unwrap();
    let load = Load::from_fraction(0.75).unwrap();
    assert_eq!(queue.completion_time_at(Bandwidth::from_gbps(8), load, &mut ()), Ok(Duration::from_nanos(1)));
    assert_eq!(queue.smallest_capacity_at(load, Duration::from_nanos(1), &mut ()), Ok(Bandwidth::from_gbps(8)));
    assert_eq!(queue.largest_load(Bandwidth::from_gbps(8), Duration::from_nanos(1), &mut ()), Ok(None));
}

/// Products beyond 128 bits, by their factors.
#[test]
fn quotients_of_long_products_are_exact() {
    let large = u128::from(u64::MAX);
    for (a, b, c, expected) in [
        (7, 5, 3, 11),
        (large << 32, large << 40, large << 40, large << 32),
        ((large << 60) + 1, 1 << 100, 1 << 120, large << 40),
        (0, u128::MAX, 1, 0),
        (u128::MAX, 2, 1, u128::MAX),
        (1, 1, 0, u128::MAX),
    ] {
        assert_eq!(queue::quotient(a, b, c), expected, "{a} · {b} / {c}");
    }
}

#[test]
fn refuses_inputs_without_a_result() {
    assert_eq!(Trace::new([]), Err(TraceError::TooShort));
    assert_eq!(Trace::new([(1, 1, None), (1, 1, None)]), Err(TraceError::TooShort));
    let trace = trace(&[(0, 1000), (1_000, 1000)]);
    assert_eq!(TraceQueue::new(&trace, Quantile::P99, &[Tag(7)]).unwrap().counted(), 2, "no tags: all have every tag");
    let tagged = Trace::new([(0, 1, Some(Tag(0))), (1, 1, None)]).unwrap();
    assert_eq!(TraceQueue::new(&tagged, Quantile::P99, &[Tag(7)]).unwrap_err(), TraceError::NoneSuch);
    let queue = TraceQueue::new(&trace, Quantile::P99, &[]).unwrap();
    for capacity in [Bandwidth::ZERO, Bandwidth::UNLIMITED] {
        assert_eq!(queue.completion_time(capacity, &mut ()), Err(TraceError::Capacity(capacity)));
    }
    let never = TraceError::Never { least: Duration::from_nanos(1) };
    assert_eq!(queue.smallest_capacity(Duration::ZERO, &mut ()), Err(never));
    // 1000 bytes at 1 Gb/s take 8 µs regardless of other messages.
    let never = TraceError::Never { least: Duration::from_micros(8) };
    assert_eq!(queue.largest_load(Bandwidth::from_gbps(1), Duration::from_micros(7), &mut ()), Err(never));
    struct Impatient;
    impl Watch for Impatient {
        fn rows(&mut self, _: u64, _: u64) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let stopped = queue.smallest_capacity(Duration::from_micros(9), &mut Impatient);
    assert_eq!(stopped, Err(TraceError::Stopped));
}

/// Only messages of a tag are selected, but all of them fill the queue.
#[test]
fn tags() {
    let text = "start_s,service,flow,bytes\n0,b,1,100000\n0,a,2,1000\n0.001,a,3,1000\n0.002,,4,500\n";
    let trace = read(text).unwrap();
    let time = |tags: &[Tag], quantile| {
        let queue = TraceQueue::new(&trace, quantile, tags).unwrap();
        queue.completion_time(Bandwidth::from_gbps(1), &mut ()).unwrap().nanos()
    };
    // Behind 100 kB the first of a takes 808 µs, the second 8 µs.
    let (a, b) = (Tag(0), Tag(1));
    assert_eq!([&[a][..], &[b], &[a, b]].map(|tags| time(tags, Quantile::P50)), [8_000, 800_000, 800_000]);
    assert_eq!([&[a][..], &[b], &[a, b]].map(|tags| time(tags, Quantile::P99)), [808_000, 800_000, 808_000]);
}

#[test]
fn tables() {
    let expected = trace(&[(0, 100), (1_500, 200)]);
    for text in [
        "0,100\n0.0000015,200\n",
        "time,size\n1.0000015,200\n1,100",
        "\u{feff}# measured\r\nsize , host, time\r\n\r\n100,x,0.0\r\n200,y,1.5e-06\r\n",
        "bytes,start_s\n100,5\n200,5.0000015009\n",
        "id,bytes,start_ps\n0,100,5000000000000\n1,200,5000001500900\n",
        "start_ns,bytes\n5,100\n1505.9,200\n",
        "start_us,bytes\n7,100\n8.5,200\n",
        "size,time_ms\n100,7\n200,7.0015\n",
        "size,time_s,start\n100,7,x\n200,7.0000015,y\n",
        "\"time\",\"size\"\n0,100\n0.0000015,200\n",
        "\"time\",\"size\",\"the \"\"host\"\", by name\"\n\"0\",\"100\",\"a,b\"\n0.0000015 , 200,\"\"\n",
        "\"0\",100\n\"0.0000015\",200\n",
    ] {
        assert_eq!(read(text).unwrap(), expected, "{text}");
    }
    let refused = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(refused("1ms,100\n"), "line 1: `1ms` is not a time in seconds");
    assert_eq!(refused("time,size\n0,1kB\n"), "line 2: `1kB` is not a size in bytes");
    assert_eq!(refused("0,0\n"), "line 1: `0` is not a size in bytes");
    assert_eq!(refused("0,1\r2,3\n"), "line 1: `1\\u{d}2` is not a size in bytes");
    assert_eq!(refused("0,+1\n"), "line 1: `+1` is not a size in bytes");
    assert_eq!(refused("-1,5\n"), "line 1: `-1` is not a time in seconds");
    assert_eq!(refused("0,1\n0\n"), "line 2: a field is missing");
    assert_eq!(refused("start_ps,size\n1s,1\n"), "line 2: `1s` is not a time in picoseconds");
    assert_eq!(refused("time_ms,size\n1s,1\n"), "line 2: `1s` is not a time in milliseconds");
    assert_eq!(refused("when,size\n"), "line 1: the head line has no column `time`");
    assert_eq!(refused("time,size,service\n0,1,c\n"), "line 2: there is no service `c`");
    assert_eq!(
        refused("time,size,service\n0,1,\u{1b}[31m\u{202e}c\n"),
        "line 2: there is no service `\\u{1b}[31m\\u{202e}c`"
    );
    assert_eq!(refused("\u{feff}\u{feff}time,size\n"), "line 1: the head line has no column `time`");
    assert_eq!(refused("start_s,start_ns,size\n"), "line 1: there are both `start_s` and `start_ns`");
    assert_eq!(refused("time,size\n0,1\n1,\"2\n3,4\n"), "line 3: a quote is not closed on its line");
    assert_eq!(refused("\"time,size\n0,1\n"), "line 1: a quote is not closed on its line");
    assert_eq!(refused("time,size,service\n0,1,\"a\"\n1,1,\"b,a\"\n"), "line 3: there is no service `b,a`");
    assert_eq!(refused(&format!("{}1\n", ",".repeat(4_094))), "line 1: the head line has no column `time`");
    assert_eq!(refused("0,1\n"), "a trace needs messages at two times or more");
    assert_eq!(refused(&format!("{}\n", "1".repeat(5_000))), "line 1: the line is longer than 4096 bytes");
    assert_eq!(
        refused("time,size\n0,1\n1700000000000000000,1\n"),
        "line 3: `1700000000000000000` seconds are more than the 584 years that are read"
    );
    for time in ["1e30", "1e", "", ".", "1..2", "0x1"] {
        assert_eq!(refused(&format!("0,1\n{time},1\n")), format!("line 2: `{time}` is not a time in seconds"));
    }
    // 2^64 − 1 nanoseconds in picoseconds.
    let span = read("start_ps,size\n0,1\n18446744073709551615000,1\n").unwrap().span();
    assert_eq!(span, Duration::from_nanos(u64::MAX));
    assert_eq!(read("0,1\n18446744073,1\n").unwrap().span(), Duration::from_secs(18_446_744_073));
}

/// A draw from an exponential distribution.
fn exponential(rng: &mut StdRng, mean: f64) -> f64 {
    -mean * (1.0 - rng.random::<f64>()).ln()
}

/// The mean over seeded runs, and half the width of its 99.9 % interval (Student's t for 29 degrees
/// of freedom).
fn estimate(run: impl Fn(&mut StdRng) -> f64) -> (f64, f64) {
    const RUNS: usize = 30;
    const T: f64 = 3.659;
    let values: Vec<f64> = (0..RUNS).map(|seed| run(&mut StdRng::seed_from_u64(seed as u64))).collect();
    let mean = values.iter().sum::<f64>() / RUNS as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64;
    (mean, T * (variance / RUNS as f64).sqrt())
}

/// Messages of 1 MB on average at 10 Gb/s, a load of 80 %; 200,000 of them, more than a thousand
/// relaxation times.
fn simulated(sizes: impl Fn(&mut StdRng) -> f64, quantile: Quantile) -> (f64, f64) {
    let capacity = Bandwidth::from_gbps(10);
    estimate(|rng| {
        let mut at = 0.0;
        let messages = (0..200_000).map(|_| {
            // Ideal service takes 800,000 ns.
            at += exponential(rng, 1_000_000.0);
            (at as u64, sizes(rng).max(1.0) as u64, None)
        });
        let trace = Trace::new(messages.collect::<Vec<_>>()).unwrap();
        let queue = TraceQueue::new(&trace, quantile, &[]).unwrap();
        queue.completion_time(capacity, &mut ()).unwrap().as_secs_f64() * 1e3
    })
}

/// The formula of §2.1 and the simulated queue agree: 18.42 ms for the 99th percentile, 2.77 ms for
/// the median.
#[test]
fn is_the_m_m_1_queue() {
    for quantile in [Quantile::P50, Quantile::P99] {
        let model = Mm1::new(Bytes::new(1_000_000), quantile).unwrap();
        let exact = model.completion_time(Bandwidth::from_gbps(10), Load::from_fraction(0.8).unwrap()).unwrap();
        let (mean, half) = simulated(|rng| exponential(rng, 1_000_000.0), quantile);
        let exact = exact.as_secs_f64() * 1e3;
        assert!((mean - exact).abs() < half && half < 0.03 * exact, "{mean} ± {half} for {exact} ms");
    }
}

/// Messages of one size: the waiting time of M/D/1 in units of the service time has
/// P(W ≤ t) = (1 − ρ) Σ (ρ(k − t))^k / k! · e^(−ρ(k − t)) over k = 0 to ⌊t⌋ (Erlang 1909).
#[test]
fn is_the_m_d_1_queue() {
    let within = |t: f64| {
        let rho = 0.8;
        let term = |k: u32| {
            let x = rho * (f64::from(k) - t);
            (1..=k).fold((-x).exp(), |term, i| term * x / f64::from(i))
        };
        (1.0 - rho) * (0..=t as u32).map(term).sum::<f64>()
    };
    for quantile in [Quantile::P50, Quantile::P99] {
        let (mut low, mut high) = (0.0, 30.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if within(middle) < quantile.as_f64() { low = middle } else { high = middle }
        }
        let exact = (high + 1.0) * 0.8;
        let (mean, half) = simulated(|_| 1_000_000.0, quantile);
        assert!((mean - exact).abs() < half && half < 0.03 * exact, "{mean} ± {half} for {exact} ms");
    }
}

/// Completion times by departures instead of work, in units of 1/C nanoseconds.
fn departures(messages: &[(u64, u64)], bps: u64) -> Vec<u64> {
    let mut last = 0u128;
    let mut times = Vec::new();
    for (at, bytes) in messages {
        let at = u128::from(*at) * u128::from(bps);
        last = last.max(at) + u128::from(*bytes) * 8_000_000_000;
        times.push((last - at).div_ceil(bps.into()) as u64);
    }
    times
}

fn messages() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let sorted = |mut list: Vec<(u64, u64)>| {
        list.push((100_000, 700));
        list.push((0, 300));
        list.sort_by_key(|message| message.0);
        list
    };
    proptest::collection::vec((0u64..100_000, 1u64..20_000), 0..60).prop_map(sorted)
}

proptest! {
    #[test]
    fn is_first_in_first_out(messages in messages(), bps in 1_000u64..1 << 44, p in 1u32..1_000_000_000) {
        let trace = trace(&messages);
        let quantile = Quantile::from_billionths(p).unwrap();
        let queue = TraceQueue::new(&trace, quantile, &[]).unwrap();
        let mut times = departures(&messages, bps);
        times.sort_unstable();
        let rank = (times.len() as u128 * u128::from(p)).div_ceil(1_000_000_000) as usize;
        let time = queue.completion_time(Bandwidth::from_bps(bps), &mut ()).unwrap();
        prop_assert_eq!(time.nanos(), times[rank - 1]);
        // At its own load a trace is unchanged, except for the rounding of the load to a billionth.
        if let Ok(load) = Load::from_fraction(trace.load(Bandwidth::from_bps(bps))) {
            let again = queue.completion_time_at(Bandwidth::from_bps(bps), load, &mut ()).unwrap();
            let off = again.as_secs_f64() / time.as_secs_f64() - 1.0;
            prop_assert!(off.abs() < 1e-3, "{again} and {time}");
        }
    }
    /// More capacity is never slower, and less load never either.
    #[test]
    fn is_monotone(messages in messages(), bps in 1_000u64..1 << 40, more in 1u64..1 << 40, rho in 1u32..999_999_999) {
        let trace = trace(&messages);
        let queue = TraceQueue::new(&trace, Quantile::P99, &[]).unwrap();
        let (slow, fast) = (Bandwidth::from_bps(bps), Bandwidth::from_bps(bps + more));
        prop_assert!(queue.completion_time(fast, &mut ()).unwrap() <= queue.completion_time(slow, &mut ()).unwrap());
        let at = |billionths| queue.completion_time_at(fast, Load::from_billionths(billionths).unwrap(), &mut ());
        prop_assert!(at(rho).unwrap() <= at(rho + 1).unwrap());
    }
    /// The searches find the edge: their result keeps the target, and one bit/s less does not.
    #[test]
    fn searches(
        messages in messages(), nanos in 1u64..1 << 34, bps in 1_000_000u64..1 << 40, rho in 1u32..1_000_000_000,
    ) {
        let trace = trace(&messages);
        let queue = TraceQueue::new(&trace, Quantile::P99, &[]).unwrap();
        let target = Duration::from_nanos(nanos);
        let smallest = queue.smallest_capacity(target, &mut ()).unwrap();
        prop_assert!(queue.completion_time(smallest, &mut ()).unwrap() <= target);
        if smallest.bps() > 1 {
            let less = Bandwidth::from_bps(smallest.bps() - 1);
            prop_assert!(queue.completion_time(less, &mut ()).unwrap() > target);
        }
        // The same for a traffic: its load is rounded to a billionth below and above.
        let traffic = Bandwidth::from_bps(bps >> 8);
        let smallest = queue.smallest_capacity_for(traffic, target, &mut ()).unwrap().bps();
        let time = |bps: u64, more: u64| {
            let billionths = u64::try_from(u128::from(traffic.bps()) * 1_000_000_000 / u128::from(bps)).unwrap() + more;
            let load = Load::from_billionths(u32::try_from(billionths).ok()?).ok()?;
            Some(queue.completion_time_at(Bandwidth::from_bps(bps), load, &mut ()).unwrap())
        };
        if let Some(time) = time(smallest, 0) {
            prop_assert!(time <= target);
        }
        if smallest > 1 && let Some(time) = time(smallest - 1, 1) {
            prop_assert!(time > target);
        }
        // And for a load.
        let load = Load::from_billionths(rho).unwrap();
        let smallest = queue.smallest_capacity_at(load, target, &mut ()).unwrap();
        prop_assert!(queue.completion_time_at(smallest, load, &mut ()).unwrap() <= target);
        if smallest.bps() > 1 {
            let less = Bandwidth::from_bps(smallest.bps() - 1);
            prop_assert!(queue.completion_time_at(less, load, &mut ()).unwrap() > target);
        }
        let capacity = Bandwidth::from_bps(bps);
        match queue.largest_load(capacity, target, &mut ()) {
            Ok(Some(load)) => {
                prop_assert!(queue.completion_time_at(capacity, load, &mut ()).unwrap() <= target);
                let more = Load::from_billionths(load.billionths() + 1).unwrap();
                prop_assert!(queue.completion_time_at(capacity, more, &mut ()).unwrap() > target);
            }
            Ok(None) => {
                let full = Load::from_billionths(999_999_999).unwrap();
                prop_assert!(queue.completion_time_at(capacity, full, &mut ()).unwrap() <= target);
            }
            Err(TraceError::Never { least }) => prop_assert!(least > target),
            Err(TraceError::Faint) => {
                let faintest = Load::from_billionths(1).unwrap();
                prop_assert!(queue.completion_time_at(capacity, faintest, &mut ()).unwrap() > target);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
    #[test]
    fn any_table_is_a_trace_or_refused(
        text in "(time,size\n|\"time\",start_ns,size\n)?([0-9.e-]{0,8},[0-9]{0,5}\n|\\PC{0,12}\n){0,8}",
        quoted in "(\"time\",size\n)?(\"?[0-9]{1,3}\"?,\"?[0-9]{1,3}\"?\n){0,8}",
    ) {
        for text in [text, quoted] {
            match read(&text) {
                Ok(trace) => prop_assert!(trace.len() >= 2),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
