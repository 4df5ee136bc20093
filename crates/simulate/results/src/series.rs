//! Utilisation, goodput, queues and fairness over time, from samples.
//!
//! A sample covers an interval and carries the interval's end. Rates are drawn at the interval's
//! middle, values of its end (a queue) at the end. The interval is as long as the run's, or shorter
//! where the run ended (or the sample before was taken) sooner. Points are (seconds, value).
//!
//! Worked example: samples every 1 ms; in the second a link of 10 Gb/s sent 625,000 bytes, which is
//! 5 Gb/s: the point (0.0015 s, 0.5).

use crate::record::{GroupSample, LinkRecord, MeterSample, Results};
use weir_units::{Bandwidth, MachineId, SimTime};

/// Seconds as a float, for drawing.
pub fn seconds(time: SimTime) -> f64 {
    time.picos() as f64 / 1e12
}

/// The start of an interval that ends at `at`, when the sample before it ended at `before`.
fn start(results: &Results, at: SimTime, before: SimTime) -> SimTime {
    results.sample_interval.map_or(before, |interval| at.saturating_sub(interval)).max(before)
}

/// Walks over (start, end, sample) of the samples that `is` chooses.
fn intervals<'a, S: Copy>(
    results: &'a Results,
    samples: &'a [S],
    is: impl Fn(&S) -> bool + 'a,
    at: impl Fn(&S) -> SimTime + 'a,
) -> impl Iterator<Item = (SimTime, SimTime, S)> + 'a {
    let chosen = samples.iter().filter(move |sample| is(sample));
    chosen.scan(SimTime::ZERO, move |before, sample| {
        let (from, to) = (start(results, at(sample), *before), at(sample));
        *before = to;
        Some((from, to, *sample))
    })
}

/// A rate in bit/s over an interval; not a number over no time.
fn rate(bytes: u64, from: SimTime, to: SimTime) -> f64 {
    let length = seconds(to.saturating_sub(from));
    if length > 0.0 { bytes as f64 * 8.0 / length } else { f64::NAN }
}

fn middle(from: SimTime, to: SimTime) -> f64 {
    (seconds(from) + seconds(to)) / 2.0
}

/// Bytes sent by a link over its capacity, 0 to 1, by time; not a number while it was down: a gap
/// in a line.
pub fn utilisation(results: &Results, link: u32) -> Vec<(f64, f64)> {
    let share = |bytes: u64, capacity: u64| if capacity > 0 { bytes as f64 / capacity as f64 } else { f64::NAN };
    intervals(results, &results.link_samples, move |sample| sample.link == link, |sample| sample.at)
        .map(|(from, to, sample)| (middle(from, to), share(sample.bytes, sample.capacity)))
        .collect()
}

/// Bytes that waited at the ends of intervals, and the most that waited within them, by time.
pub fn queue(results: &Results, link: u32) -> Vec<(f64, u64, u64)> {
    let samples = results.link_samples.iter().filter(|sample| sample.link == link);
    samples.map(|sample| (seconds(sample.at), sample.queue, sample.queue_peak)).collect()
}

/// The length of a link's queue that `percent` of its samples do not exceed, in bytes: nearest-rank
/// over the lengths at the ends of intervals. `None` for a link without samples.
pub fn queue_percentile(results: &Results, link: u32, percent: f64) -> Option<u64> {
    let samples = results.link_samples.iter().filter(|sample| sample.link == link);
    let mut lengths: Vec<u64> = samples.map(|sample| sample.queue).collect();
    lengths.sort_unstable();
    // The tolerance of `summary`: 99 % of 100 samples is the 99th, despite the rounding of floats.
    let index = (percent / 100.0 * lengths.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    lengths.get(index - 1).copied()
}

/// The used, allowed and advertised rates of a service at a machine, in bit/s by time; an unlimited
/// rate is not a number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MeterSeries {
    /// Frames sent.
    pub sent: Vec<(f64, f64)>,
    /// The root limiter's rate.
    pub limit: Vec<(f64, f64)>,
    /// Frames received.
    pub received: Vec<(f64, f64)>,
    /// C.
    pub capacity: Vec<(f64, f64)>,
    /// R.
    pub rate: Vec<(f64, f64)>,
}

/// The rates of a machine shaper for a service, by time.
pub fn meter(results: &Results, host: MachineId, service: u32) -> MeterSeries {
    let mut series = MeterSeries::default();
    let of = |sample: &MeterSample| sample.host == host && sample.service == service;
    for sample in results.meter_samples.iter().filter(|sample| of(sample)) {
        // Idle services have no sample, so the one before does not give the interval's length.
        let from = sample.at.saturating_sub(results.sample_interval.unwrap_or(sample.at));
        let (middle, end) = (middle(from, sample.at), seconds(sample.at));
        let known = |rate: Option<Bandwidth>| rate.map_or(f64::NAN, |rate| rate.bps() as f64);
        series.sent.push((middle, rate(sample.sent, from, sample.at)));
        series.received.push((middle, rate(sample.received, from, sample.at)));
        series.limit.push((end, known(sample.limit)));
        series.capacity.push((end, known(sample.capacity)));
        series.rate.push((end, known(sample.rate)));
    }
    series
}

/// Application bit/s that a group received, by time.
pub fn goodput(results: &Results, group: u32) -> Vec<(f64, f64)> {
    intervals(results, &results.group_samples, move |sample| sample.group == group, |sample| sample.at)
        .map(|(from, to, sample)| (middle(from, to), rate(sample.delivered, from, to)))
        .collect()
}

/// Jain's index over the flows of a group, by time; not a number where it is not known: a gap in a
/// line.
pub fn fairness(results: &Results, group: u32) -> Vec<(f64, f64)> {
    intervals(results, &results.group_samples, move |sample| sample.group == group, |sample| sample.at)
        .map(|(from, to, sample)| (middle(from, to), sample.jain().unwrap_or(f64::NAN)))
        .collect()
}

/// Jain's index over the flows of all groups, by time; not a number where it is not known: a gap in
/// a line.
pub fn fairness_of_all(results: &Results) -> Vec<(f64, f64)> {
    let mut before = SimTime::ZERO;
    let all = results.group_samples.chunk_by(|a, b| a.at == b.at).map(|samples| {
        let (from, to) = (start(results, samples[0].at, before), samples[0].at);
        before = to;
        let mut sum = GroupSample::default();
        for sample in samples {
            sum.delivered = sum.delivered.saturating_add(sample.delivered);
            sum.flows = sum.flows.saturating_add(sample.flows);
            sum.squares = sum.squares.saturating_add(sample.squares);
        }
        // A group without counts would look as if all its flows were one.
        let counted = samples.iter().all(|sample| sample.delivered == 0 || sample.squares > 0);
        (middle(from, to), sum.jain().filter(|_| counted).unwrap_or(f64::NAN))
    });
    all.collect()
}

/// The links with samples, in the run's order.
pub fn watched(results: &Results) -> Vec<u32> {
    let mut seen = vec![false; results.links.len()];
    for sample in &results.link_samples {
        if let Some(seen) = seen.get_mut(sample.link as usize) {
            *seen = true;
        }
    }
    (0..).zip(seen).filter(|(_, seen)| *seen).map(|(link, _)| link).collect()
}

/// Bytes sent by a link over its capacity in the whole run, 0 to 1; zero in a run of no time.
pub fn mean_utilisation(results: &Results, link: &LinkRecord) -> f64 {
    let sent = crate::record::rate(link.bytes, results.simulated);
    if link.rate == Bandwidth::ZERO { 0.0 } else { sent.bps() as f64 / link.rate.bps() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ClassCount, LinkSample};

    fn link(rate: Bandwidth) -> LinkRecord {
        LinkRecord {
            name: "a->b".to_owned(),
            rate,
            bytes: 1_250_000,
            packets: 0,
            dropped: 0,
            marked: 0,
            classes: [ClassCount::default(); 8],
            queue_peak: 0,
        }
    }

    fn results() -> Results {
        // 10 Gb/s: 1.25 MB in a millisecond.
        let sample = |at, link, bytes, queue| LinkSample {
            at: SimTime::from_micros(at),
            link,
            bytes,
            capacity: if at == 2_500 { 625_000 } else { 1_250_000 },
            queue,
            queue_peak: queue + 1,
            ..LinkSample::default()
        };
        let group = |at, delivered| GroupSample {
            at: SimTime::from_micros(at),
            delivered,
            flows: 2,
            squares: u128::from(delivered / 2).pow(2) * 2,
            ..GroupSample::default()
        };
        Results {
            simulated: SimTime::from_micros(2_500),
            sample_interval: Some(SimTime::from_millis(1)),
            links: vec![link(Bandwidth::from_gbps(40)), link(Bandwidth::from_gbps(10))],
            link_samples: vec![sample(1_000, 1, 0, 0), sample(2_000, 1, 625_000, 7), sample(2_500, 1, 625_000, 9)],
            group_samples: vec![group(1_000, 125_000), group(2_500, 0)],
            ..Results::default()
        }
    }

    #[test]
    fn queues_have_percentiles() {
        let mut run = results();
        let sample = |queue| LinkSample { link: 1, queue, ..LinkSample::default() };
        run.link_samples.extend((10..=106).rev().map(sample));
        // 0, 7, 9 and 10 to 106: 100 samples.
        assert_eq!(queue_percentile(&run, 1, 99.0), Some(105));
        assert_eq!(queue_percentile(&run, 1, 3.0), Some(9));
        assert_eq!(queue_percentile(&run, 1, 100.0), Some(106));
        assert_eq!(queue_percentile(&run, 0, 50.0), None);
    }

    #[test]
    fn meters_have_rates() {
        let mut run = results();
        let sample = MeterSample {
            at: SimTime::from_millis(2),
            host: MachineId(0),
            service: 1,
            sent: 0,
            limit: None,
            received: 625_000,
            capacity: Some(Bandwidth::from_gbps(9)),
            rate: Some(Bandwidth::from_gbps(5)),
        };
        run.meter_samples = vec![sample, MeterSample { host: MachineId(1), ..sample }];
        let series = meter(&run, MachineId(0), 1);
        assert_eq!((series.received, series.sent), (vec![(0.001_5, 5e9)], vec![(0.001_5, 0.0)]));
        assert_eq!((series.capacity, series.rate), (vec![(0.002, 9e9)], vec![(0.002, 5e9)]));
        assert!(series.limit[0].1.is_nan());
    }

    #[test]
    fn rates_stand_in_the_middle_of_their_interval() {
        let run = results();
        let close = |got: &[(f64, f64)], expected: &[(f64, f64)]| {
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(expected) {
                let apart = (got.0 - expected.0).abs() + (got.1 - expected.1).abs() / expected.1.max(1.0);
                assert!(apart < 1e-12, "{got:?} is not {expected:?}");
            }
        };
        // The last interval is half as long: the same bytes are twice the rate.
        close(&utilisation(&run, 1), &[(0.000_5, 0.0), (0.001_5, 0.5), (0.002_25, 1.0)]);
        assert_eq!(queue(&run, 1)[1..], [(0.002, 7, 8), (0.002_5, 9, 10)]);
        assert_eq!(utilisation(&run, 0), []);
        assert_eq!(watched(&run), [1]);
        // A group without a sample at 2 ms: the next one covers its own interval only.
        close(&goodput(&run, 0), &[(0.000_5, 1e9), (0.002, 0.0)]);
        let fairness = fairness(&run, 0);
        close(&fairness[..1], &[(0.000_5, 1.0)]);
        assert!(fairness.len() == 2 && fairness[1].1.is_nan(), "nothing was delivered");
    }

    #[test]
    fn fairness_over_all_groups() {
        // A group of one flow that had 30 bytes, one of two that had 10 and 20; then one without
        // counts.
        let sample = |at, group, delivered, flows, squares| GroupSample {
            at: SimTime::from_millis(at),
            group,
            delivered,
            flows,
            squares,
            ..GroupSample::default()
        };
        let run = Results {
            group_samples: vec![
                sample(1, 0, 30, 1, 900),
                sample(1, 1, 30, 2, 500),
                sample(2, 0, 30, 1, 900),
                sample(2, 1, 30, 2, 0),
            ],
            ..results()
        };
        let all = fairness_of_all(&run);
        assert_eq!(all[0], (0.000_5, 3_600.0 / 4_200.0));
        assert!(all.len() == 2 && all[1].0 == 0.001_5 && all[1].1.is_nan(), "{all:?}");
    }

    #[test]
    fn over_the_whole_run() {
        let run = results();
        // 10 Mb in 2.5 ms are 4 Gb/s.
        assert_eq!(mean_utilisation(&run, &run.links[0]), 0.1);
        assert_eq!(mean_utilisation(&Results { simulated: SimTime::ZERO, ..run.clone() }, &run.links[0]), 0.0);
    }
}
