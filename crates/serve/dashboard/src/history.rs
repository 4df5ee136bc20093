//! An hour of usage, limits and deciding constraints, in bounded memory.
//!
//! Approach: two rings for each series: every second of the last five minutes, and every ten
//! seconds of the last hour. Ten samples become one: the mean usage, and the lowest limit with its
//! constraint, because a service that was limited for a part of the time was limited. A series
//! takes memory from its first known sample on.
//!
//! Worked example: 5 × 100 and 5 × 200 Mb/s, of which one second was limited to 150 by `rack r1`:
//! 150 Mb/s under a limit of 150 Mb/s by `rack r1`.

/// Seconds of a slot of the fine ring.
pub const FINE_STEP: u64 = 1;
/// Slots of the fine ring: five minutes.
pub const FINE_SLOTS: usize = 300;
/// Seconds of a slot of the coarse ring.
pub const COARSE_STEP: u64 = 10;
/// Slots of the coarse ring: an hour.
pub const COARSE_SLOTS: usize = 360;
/// The most series: 160 MB.
pub const MOST_SERIES: usize = 20_000;

/// One second, or ten, of one service on one machine in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Bit/s; not a number if unknown.
    pub usage: f32,
    /// Bit/s; infinite when none.
    pub limit: f32,
    /// The number of the deciding constraint; the recorder numbers constraints.
    pub decided_by: u16,
}

impl Sample {
    /// An unknown sample.
    pub const UNKNOWN: Self = Self { usage: f32::NAN, limit: f32::INFINITY, decided_by: 0 };
}

/// One of the two rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    /// Every second of five minutes.
    Fine,
    /// Every ten seconds of an hour.
    Coarse,
}

impl Ring {
    /// Seconds of a slot.
    pub const fn step(self) -> u64 {
        match self {
            Self::Fine => FINE_STEP,
            Self::Coarse => COARSE_STEP,
        }
    }
    /// The number of slots.
    pub const fn slots(self) -> usize {
        match self {
            Self::Fine => FINE_SLOTS,
            Self::Coarse => COARSE_SLOTS,
        }
    }
}

#[derive(Debug, Clone)]
struct Series {
    fine: Box<[Sample]>,
    coarse: Box<[Sample]>,
    /// The slot under way: sum of usages, their number, and the lowest limit.
    sum: f64,
    count: u32,
    lowest: Sample,
}

impl Series {
    fn new() -> Self {
        Self {
            fine: vec![Sample::UNKNOWN; FINE_SLOTS].into(),
            coarse: vec![Sample::UNKNOWN; COARSE_SLOTS].into(),
            sum: 0.0,
            count: 0,
            lowest: Sample::UNKNOWN,
        }
    }
    fn gather(&mut self, sample: Sample) {
        if sample.usage.is_nan() {
            return;
        }
        self.sum += f64::from(sample.usage);
        self.count += 1;
        if self.count == 1 || sample.limit < self.lowest.limit {
            self.lowest = sample;
        }
    }
    fn gathered(&mut self) -> Sample {
        let usage = if self.count == 0 { f32::NAN } else { (self.sum / f64::from(self.count)) as f32 };
        let sample = Sample { usage, ..self.lowest };
        (self.sum, self.count, self.lowest) = (0.0, 0, Sample::UNKNOWN);
        sample
    }
}

/// The series of a network.
#[derive(Debug, Clone)]
pub struct History {
    series: Vec<Option<Series>>,
    made: usize,
    /// The last second that was recorded, counted from the first; `None` before that.
    last: Option<u64>,
    /// Series that had no room in the last second.
    left_out: usize,
}

impl History {
    /// Room for `series` series, none of them made.
    pub fn new(series: usize) -> Self {
        Self { series: vec![None; series], made: 0, last: None, left_out: 0 }
    }

    /// Records one second; `sample` gives each series' sample. Seconds that were missed are unknown. A second that is
    /// not newer than the last is ignored.
    pub fn record(&mut self, second: u64, mut sample: impl FnMut(usize) -> Sample) {
        if self.last.is_some_and(|last| second <= last) {
            return;
        }
        let first = self.last.map_or(second, |last| last + 1);
        // Samples older than the rings are lost, and so is the slot that was under way then.
        let kept = second.saturating_sub(COARSE_STEP * COARSE_SLOTS as u64);
        let (first, forgets) = (first.max(kept), first < kept);
        self.left_out = 0;
        for index in 0..self.series.len() {
            let now = sample(index);
            if self.series[index].is_none() && !now.usage.is_nan() {
                if self.made == MOST_SERIES {
                    self.left_out += 1;
                } else {
                    self.made += 1;
                    self.series[index] = Some(Series::new());
                }
            }
            let Some(series) = &mut self.series[index] else { continue };
            if forgets {
                series.gathered();
            }
            for at in first..=second {
                if at % COARSE_STEP == 0 && at > 0 {
                    // A new slot begins: the gathered samples are of the previous one.
                    series.coarse[(at / COARSE_STEP - 1) as usize % COARSE_SLOTS] = series.gathered();
                }
                let sample = if at == second { now } else { Sample::UNKNOWN };
                series.fine[at as usize % FINE_SLOTS] = sample;
                series.gather(sample);
            }
        }
        self.last = Some(second);
    }

    /// The last second that was recorded.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// The number of series without memory when the last second was recorded.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// A series, oldest sample first: as many as the ring has slots, ending with the last second
    /// (fine) or with the last full ten seconds (coarse).
    pub fn samples(&self, index: usize, ring: Ring) -> Vec<Sample> {
        let slots = ring.slots();
        let Some(last) = self.last else { return vec![Sample::UNKNOWN; slots] };
        let Some(series) = self.series.get(index).and_then(Option::as_ref) else {
            return vec![Sample::UNKNOWN; slots];
        };
        // One past the newest slot that is complete.
        let (ring, end) = match ring {
            Ring::Fine => (&series.fine, last + 1),
            Ring::Coarse => (&series.coarse, last / COARSE_STEP),
        };
        let slot = |back: usize| match end.checked_sub(back as u64) {
            Some(at) => ring[at as usize % slots],
            None => Sample::UNKNOWN,
        };
        (1..=slots).rev().map(slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(usage: f32, limit: f32, decided_by: u16) -> Sample {
        Sample { usage, limit, decided_by }
    }

    fn usages(history: &History, ring: Ring, last: usize) -> Vec<Option<f32>> {
        let samples = history.samples(0, ring);
        assert_eq!(samples.len(), ring.slots());
        samples[samples.len() - last..]
            .iter()
            .map(|sample| Some(sample.usage).filter(|usage| !usage.is_nan()))
            .collect()
    }

    /// The module's worked example.
    #[test]
    fn ten_seconds_become_one_sample() {
        let mut history = History::new(1);
        for second in 0..=10 {
            let usage = if second % 2 == 0 { 100e6 } else { 200e6 };
            let limit = if second == 3 { 150e6 } else { f32::INFINITY };
            history.record(second, |_| sample(usage, limit, if second == 3 { 7 } else { 1 }));
        }
        assert_eq!(history.samples(0, Ring::Coarse).last(), Some(&sample(150e6, 150e6, 7)));
        assert_eq!(usages(&history, Ring::Coarse, 2), [None, Some(150e6)]);
        assert_eq!(usages(&history, Ring::Fine, 3), [Some(100e6), Some(200e6), Some(100e6)]);
    }

    #[test]
    fn rings_keep_their_time_and_no_more() {
        let mut history = History::new(1);
        for second in 0..8_000 {
            history.record(second, |_| sample(second as f32, f32::INFINITY, 0));
        }
        let fine = usages(&history, Ring::Fine, FINE_SLOTS);
        assert_eq!((fine[0], fine[FINE_SLOTS - 1]), (Some(7_700.0), Some(7_999.0)));
        let coarse = usages(&history, Ring::Coarse, COARSE_SLOTS);
        // The last full ten seconds are 7,980 to 7,989.
        assert_eq!((coarse[0], coarse[COARSE_SLOTS - 1]), (Some(4_394.5), Some(7_984.5)));
    }

    #[test]
    fn missed_seconds_are_unknown() {
        let mut history = History::new(1);
        for second in [100, 101, 104, 104, 103, 131] {
            history.record(second, |_| sample(second as f32, 5.0, 2));
        }
        assert_eq!(history.last(), Some(131));
        let fine = usages(&history, Ring::Fine, 32);
        let known: Vec<_> = fine.iter().enumerate().filter_map(|(at, usage)| usage.map(|usage| (at, usage))).collect();
        assert_eq!(known, [(0, 100.0), (1, 101.0), (4, 104.0), (31, 131.0)]);
        assert_eq!(usages(&history, Ring::Coarse, 4), [None, Some(305.0 / 3.0), None, None]);
        // After an hour without a status no sample is left.
        history.record(131 + 4_000, |_| Sample::UNKNOWN);
        assert!(usages(&history, Ring::Fine, FINE_SLOTS).iter().all(Option::is_none));
        assert!(usages(&history, Ring::Coarse, COARSE_SLOTS).iter().all(Option::is_none));
    }

    #[test]
    fn series_take_memory_when_known_up_to_the_bound() {
        let mut history = History::new(MOST_SERIES + 3);
        history.record(0, |_| Sample::UNKNOWN);
        assert_eq!((history.made, history.left_out()), (0, 0));
        // Two seconds of all series would take 160 MB here: one of each kind shows it.
        history.made = MOST_SERIES - 1;
        history.record(1, |index| if index < 4 { sample(1.0, 1.0, 0) } else { Sample::UNKNOWN });
        assert_eq!((history.made, history.left_out()), (MOST_SERIES, 3));
        assert!(history.samples(1, Ring::Fine).iter().all(|sample| sample.usage.is_nan()));
        assert_eq!(history.samples(9_999_999, Ring::Fine).len(), FINE_SLOTS);
        assert_eq!(std::mem::size_of::<Sample>() * (FINE_SLOTS + COARSE_SLOTS), 7_920);
    }
}
