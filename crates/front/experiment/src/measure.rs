//! The measured value of a run.
//!
//! Samples count for a window when they end in `(from, to]`; flows when they start in `[from, to)`.
//! A window that a run did not reach gives nothing, so an interrupted run never looks like a whole
//! one.
//!
//! Worked example: with samples each second, the window from 10 to 20 s is the mean of the ten
//! samples that end at 11 to 20 s.

use crate::model::{Counted, FairnessIndex, LevelQuantity, Measure, Run, Setting, SlowdownOf, Window};
use weir_results::record::rate;
use weir_results::summary::percentile_of;
use weir_results::{MeterSample, Results, jain};
use weir_scenario::{RunResult, Scenario};
use weir_units::{Bandwidth, Bytes, Duration, MachineId, ServiceId, SimTime};

/// A measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// In the base unit.
    pub value: f64,
    /// Whether the value is a lower bound: it depends on a flow that did not end.
    pub is_lower_bound: bool,
}

impl Reading {
    /// An exact value.
    pub const fn exact(value: f64) -> Self {
        Self { value, is_lower_bound: false }
    }
    /// The mean; a lower bound where one of them is. `None` of none.
    pub fn mean(readings: &[Self]) -> Option<Self> {
        let sum: f64 = readings.iter().map(|reading| reading.value).sum();
        let is_lower_bound = readings.iter().any(|reading| reading.is_lower_bound);
        (!readings.is_empty()).then(|| Self { value: sum / readings.len() as f64, is_lower_bound })
    }
}

/// The measurements of a backend in a run.
#[derive(Debug, Clone, Copy)]
pub struct RunData<'a> {
    /// The scenario that ran.
    pub scenario: &'a Scenario,
    /// Services' bandwidths at the measured uplink; empty without a policy.
    pub services: &'a RunResult,
    /// Flows, links and flow groups, if the backend reports them.
    pub results: Option<&'a Results>,
    /// The end of the run.
    pub until: Duration,
}

impl RunData<'_> {
    /// The counterpart of a value from this run; `None` if the run does not measure it, or ended
    /// before.
    pub fn reading(&self, run: &Run, measure: &Measure, setting: Setting) -> Option<Reading> {
        let scale = f64::from(run.scale);
        match measure {
            Measure::Bandwidth { of, window, .. } => {
                let window = self.reached(*window.get(setting))?;
                Some(Reading::exact(self.mean(of, window)? * scale))
            }
            Measure::MeterRate { service, machine, window, .. } => {
                let window = self.reached(*window.get(setting))?;
                Some(Reading::exact(self.meter_rate(*service, *machine, window)? * scale))
            }
            Measure::Fairness { of, window, index, .. } => {
                let window = self.reached(*window.get(setting))?;
                let means = || of.iter().map(|of| self.mean(of, window)).collect::<Option<Vec<f64>>>();
                let value = match index {
                    FairnessIndex::Jain => jain(&means()?),
                    FairnessIndex::Samples => self.fairness_of_samples(of, window),
                    FairnessIndex::Deviation => deviation(&means()?),
                };
                value.map(Reading::exact)
            }
            Measure::Settling { of, limit, window, .. } => {
                let window = self.reached(*window.get(setting))?;
                self.settling(of, limit.bps() as f64 / scale, window).map(Reading::exact)
            }
            Measure::CompletionTime { group, percentile, above, window, .. } => {
                let (times, unknown) = self.completion_times(group, *above, self.reached(*window.get(setting))?)?;
                let Some(percentile) = percentile else {
                    let mean = times.iter().sum::<f64>() / times.len() as f64;
                    return (!times.is_empty()).then_some(Reading { value: mean, is_lower_bound: unknown > 0 });
                };
                // Unfinished flows are ordered by their ages: a position among them is a lower
                // bound.
                let known = times.len() - unknown;
                let value = percentile_of(&times, 0, *percentile)?;
                let index = percentile.index(times.len())?;
                Some(Reading { value, is_lower_bound: index >= known })
            }
            Measure::Slowdown { of, .. } => self.slowdown(of),
            Measure::Counter { name, per, .. } => {
                let counter = |name: &String| self.results?.counters.get(name).map(|count| *count as f64);
                let per = per.as_ref().map_or(Some(1.0), |per| counter(per).filter(|count| *count > 0.0))?;
                Some(Reading::exact(counter(name)? / per))
            }
            Measure::Queue { link, percentile, packet, window, .. } => {
                let queues = self.queues(link, self.reached(*window.get(setting))?, *packet)?;
                percentile_of(&queues, 0, *percentile).map(Reading::exact)
            }
            Measure::Level { level, of, link, .. } => {
                self.level(*level, *of, link.as_deref().unwrap_or_default()).map(Reading::exact)
            }
            _ => None,
        }
    }

    /// The mean slowdown of flows, or a percentile.
    fn slowdown(&self, of: &SlowdownOf) -> Option<Reading> {
        let results = self.results?;
        let group = results.groups.iter().position(|known| known.name == of.group)?;
        let more = SimTime::from(of.acknowledgement);
        let (mut known, mut ages) = (Vec::new(), Vec::new());
        for flow in results.flows.iter().filter(|flow| flow.group as usize == group) {
            if flow.bytes <= of.above.get() || flow.bytes > of.up_to.get() || flow.ideal == SimTime::ZERO {
                continue;
            }
            let over = |took: SimTime| (took + more).picos() as f64 / (flow.ideal + more).picos() as f64;
            match flow.completion_time() {
                Some(took) => known.push(over(took)),
                None => ages.push(over(results.simulated.saturating_sub(flow.start))),
            }
        }
        let all = known.len() + ages.len();
        let Some(percentile) = of.percentile else {
            let sum: f64 = known.iter().chain(&ages).sum();
            return (all > 0).then(|| Reading { value: sum / all as f64, is_lower_bound: !ages.is_empty() });
        };
        // Unfinished flows are the slowest: a position among them is a lower bound.
        known.sort_unstable_by(f64::total_cmp);
        ages.sort_unstable_by(f64::total_cmp);
        let is_lower_bound = percentile.index(all)? >= known.len();
        known.extend(ages);
        percentile_of(&known, 0, percentile).map(|value| Reading { value, is_lower_bound })
    }

    /// The mean over a window's samples of Jain's index over the flows of these groups; samples with fewer than two
    /// active flows are left out.
    fn fairness_of_samples(&self, of: &[Counted], window: Window) -> Option<f64> {
        let results = self.results?;
        let is_counted = |sample: &&weir_results::GroupSample| {
            let name = results.groups.get(sample.group as usize).map(|group| &group.name);
            of.iter().any(|of| matches!(of, Counted::FlowGroup(group) if Some(group) == name))
        };
        let index = |samples: &[weir_results::GroupSample]| {
            let at = samples.first()?.at.duration();
            let mut sum = weir_results::GroupSample::default();
            for sample in samples.iter().filter(is_counted) {
                sum.delivered = sum.delivered.saturating_add(sample.delivered);
                sum.flows = sum.flows.saturating_add(sample.flows);
                sum.squares = sum.squares.saturating_add(sample.squares);
            }
            (sum.flows > 1 && at > window.from && at <= window.to).then(|| sum.jain()).flatten()
        };
        let indices: Vec<f64> = results.group_samples.chunk_by(|a, b| a.at == b.at).filter_map(index).collect();
        (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64)
    }

    /// A quantity of a latency level, from the run's counters.
    fn level(&self, level: u32, of: LevelQuantity, link: &str) -> Option<f64> {
        let counter = |name: &str| {
            let value = self.results?.counters.get(&format!("level_{level}_{name}"))?;
            Some(*value as f64)
        };
        let seconds = |name: &str| Some(counter(name)? / 1e9);
        match of {
            LevelQuantity::Worst => seconds("worst_ns"),
            LevelQuantity::Bound => seconds("bound_ns"),
            LevelQuantity::Tightness => Some(counter("worst_ns")? / counter("bound_ns")?),
            LevelQuantity::Late => counter("late"),
            LevelQuantity::Overfull => counter("overfull"),
            LevelQuantity::Median => seconds("median_ns"),
            LevelQuantity::P99 => seconds("p99_ns"),
            LevelQuantity::Queue => {
                let at = |name: &str| counter(&format!("{name}_bytes_at_{link}"));
                Some(at("backlog")? / at("backlog_bound")?)
            }
        }
    }

    fn reached(&self, window: Window) -> Option<Window> {
        (window.to <= self.until).then_some(window)
    }

    /// Bandwidth over time in bit/s: the end of each interval in seconds, and its mean.
    pub fn over_time(&self, of: &Counted) -> Vec<(f64, f64)> {
        let second = |at: SimTime| at.picos() as f64 / 1e12;
        match of {
            Counted::Service(service) => {
                let of = |sample: &weir_scenario::Sample| -> f64 {
                    let chosen = sample.bandwidth.iter().filter(|(id, _)| service.is_none_or(|service| service == *id));
                    chosen.map(|(_, bandwidth)| bandwidth.bps() as f64).sum()
                };
                self.services.samples.iter().map(|sample| (sample.at.as_secs_f64(), of(sample))).collect()
            }
            Counted::FlowGroup(name) => {
                let Some(results) = self.results else { return Vec::new() };
                let group = results.groups.iter().position(|group| group.name == *name);
                // The bytes on links for it, for comparison with services: all but the last packet
                // of a flow are full.
                let packets = self.scenario.graph().packets;
                let frames = f64::from(packets.payload + packets.headers) / f64::from(packets.payload);
                let mut last = SimTime::ZERO;
                let samples = results.group_samples.iter().filter(|sample| Some(sample.group as usize) == group);
                let point = |sample: &weir_results::GroupSample| {
                    let time = sample.at.saturating_sub(std::mem::replace(&mut last, sample.at));
                    (second(sample.at), rate(sample.delivered, time).bps() as f64 * frames)
                };
                samples.map(point).collect()
            }
            Counted::Link(name) => {
                let Some(results) = self.results else { return Vec::new() };
                let link = results.links.iter().position(|link| link.name == *name);
                let mut last = SimTime::ZERO;
                let samples = results.link_samples.iter().filter(|sample| Some(sample.link as usize) == link);
                let point = |sample: &weir_results::LinkSample| {
                    let time = sample.at.saturating_sub(std::mem::replace(&mut last, sample.at));
                    (second(sample.at), rate(sample.bytes, time).bps() as f64)
                };
                samples.map(point).collect()
            }
            Counted::Sent(service, machine) => self.metered(*service, *machine, |sample| sample.sent),
            Counted::Received(service, machine) => self.metered(*service, *machine, |sample| sample.received),
        }
    }

    /// Bandwidth over time by the meters of machine shapers, of one machine or of all.
    fn metered(
        &self,
        service: ServiceId,
        machine: Option<MachineId>,
        bytes: impl Fn(&MeterSample) -> u64,
    ) -> Vec<(f64, f64)> {
        let mut points: Vec<(SimTime, u64)> = Vec::new();
        for sample in self.meters(service).filter(|sample| machine.is_none_or(|machine| machine == sample.host)) {
            match points.last_mut() {
                Some((at, sum)) if *at == sample.at => *sum += bytes(sample),
                _ => points.push((sample.at, bytes(sample))),
            }
        }
        let mut last = SimTime::ZERO;
        let point = |(at, bytes): (SimTime, u64)| {
            let time = at.saturating_sub(std::mem::replace(&mut last, at));
            (at.picos() as f64 / 1e12, rate(bytes, time).bps() as f64)
        };
        points.into_iter().map(point).collect()
    }

    /// The samples of a service's meters, ascending by time.
    fn meters(&self, service: ServiceId) -> impl Iterator<Item = &MeterSample> {
        let path = self.scenario.governed().map(|of| of.policy.services().get(service).path());
        let index =
            self.results.and_then(|results| results.services.iter().position(|known| Some(known.as_str()) == path));
        let samples = self.results.map_or(&[][..], |results| &results.meter_samples);
        samples.iter().filter(move |sample| Some(sample.service as usize) == index)
    }

    fn meter_rate(&self, service: ServiceId, machine: MachineId, window: Window) -> Option<f64> {
        let (from, to) = (SimTime::from(window.from), SimTime::from(window.to));
        let inside = |sample: &&MeterSample| sample.host == machine && sample.at > from && sample.at <= to;
        let rates: Vec<f64> =
            self.meters(service).filter(inside).filter_map(|sample| Some(bps(sample.rate?))).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }

    /// The samples of a window: those that end in it.
    fn within(&self, of: &Counted, window: Window) -> Vec<(f64, f64)> {
        let (from, to) = (window.from.as_secs_f64(), window.to.as_secs_f64());
        // Half a nanosecond on either side: ends are whole nanoseconds that went through a float.
        let inside = |at: f64| at > from + 0.5e-9 && at < to + 0.5e-9;
        self.over_time(of).into_iter().filter(|(at, _)| inside(*at)).collect()
    }

    fn mean(&self, of: &Counted, window: Window) -> Option<f64> {
        let samples = self.within(of, window);
        let sum: f64 = samples.iter().map(|(_, bps)| bps).sum();
        (!samples.is_empty()).then(|| sum / samples.len() as f64)
    }

    /// Seconds from the window's start to the end of its last sample above `limit`; `None` if its
    /// last one is.
    fn settling(&self, of: &Counted, limit: f64, window: Window) -> Option<f64> {
        let samples = self.within(of, window);
        let (_, last) = samples.last()?;
        if *last > limit {
            return None;
        }
        let above = samples.iter().rev().find(|(_, bps)| *bps > limit);
        Some(above.map_or(0.0, |(at, _)| (at - window.from.as_secs_f64()).max(0.0)))
    }

    /// Completion times of the flows of a flow group that start in the window and have more than `above` bytes, in
    /// seconds and ascending. The ages of unfinished flows come last, with their number.
    pub fn completion_times(&self, group: &str, above: Bytes, window: Window) -> Option<(Vec<f64>, usize)> {
        let results = self.results?;
        let index = results.groups.iter().position(|known| known.name == group)?;
        let (from, to) = (SimTime::from(window.from), SimTime::from(window.to));
        let flows = results.flows.iter().filter(|flow| flow.group as usize == index);
        let flows = flows.filter(|flow| flow.start >= from && flow.start < to && flow.bytes > above.get());
        let seconds = |time: SimTime| time.picos() as f64 / 1e12;
        let (mut known, mut ages) = (Vec::new(), Vec::new());
        for flow in flows {
            match flow.completion_time() {
                Some(time) => known.push(seconds(time)),
                None => ages.push(seconds(results.simulated.saturating_sub(flow.start))),
            }
        }
        known.sort_unstable_by(f64::total_cmp);
        ages.sort_unstable_by(f64::total_cmp);
        // A flow that may have been about to finish is no slower than one that took longer.
        let slowest = known.last().copied().unwrap_or(0.0);
        let unknown = ages.len();
        known.extend(ages.into_iter().map(|age| age.max(slowest)));
        Some((known, unknown))
    }

    /// The backlog of a link at the ends of the window's samples, in packets and ascending.
    pub fn queues(&self, link: &str, window: Window, packet: Bytes) -> Option<Vec<f64>> {
        let results = self.results?;
        let link = results.links.iter().position(|known| known.name == link)?;
        let (from, to) = (SimTime::from(window.from), SimTime::from(window.to));
        let samples = results.link_samples.iter().filter(|sample| sample.link as usize == link);
        let samples = samples.filter(|sample| sample.at > from && sample.at <= to);
        let mut queues: Vec<f64> = samples.map(|sample| sample.queue as f64 / packet.get() as f64).collect();
        queues.sort_unstable_by(f64::total_cmp);
        Some(queues)
    }
}

/// The published value at the scale of a run.
pub fn at_scale(value: f64, run: &Run) -> f64 {
    value / f64::from(run.scale)
}

/// A bandwidth as a number in bit/s.
pub(crate) fn bps(bandwidth: Bandwidth) -> f64 {
    bandwidth.bps() as f64
}
/// The largest distance of a value from the mean, as a part of the mean; `None` without values, or of zeros.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let largest = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
    (mean > 0.0).then(|| largest / mean)
}

#[cfg(test)]
mod tests {
    use super::deviation;

    #[test]
    fn the_largest_distance_from_the_mean() {
        assert_eq!(deviation(&[100.0, 100.0]), Some(0.0));
        // Of a mean of 100.
        assert_eq!(deviation(&[95.0, 98.0, 107.0]), Some(0.07));
        assert_eq!((deviation(&[0.0, 0.0]), deviation(&[])), (None, None));
    }
}
