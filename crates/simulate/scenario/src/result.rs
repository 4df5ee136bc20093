//! The result of a run of a scenario, the same for every backend.

use weir_units::{Bandwidth, Duration, ServiceId};

/// The measured time series of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunResult {
    /// Samples in time order.
    pub samples: Vec<Sample>,
}

/// One sampling interval at the measuring point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The end of the interval, since the start of the traffic.
    pub at: Duration,
    /// The bandwidth of each leaf service that the scenario sends, in id order. Frames are counted
    /// as the link carries them: Ethernet header included, preamble and frame check not.
    pub bandwidth: Vec<(ServiceId, Bandwidth)>,
}

impl RunResult {
    /// The mean bandwidth of `service` over the samples whose intervals end in `(from, to]`; `None`
    /// if there are none.
    pub fn mean(&self, service: ServiceId, from: Duration, to: Duration) -> Option<Bandwidth> {
        let mut sum: u128 = 0;
        let mut count: u128 = 0;
        for sample in self.samples.iter().filter(|sample| sample.at > from && sample.at <= to) {
            count += 1;
            sum += sample
                .bandwidth
                .iter()
                .find(|(id, _)| *id == service)
                .map_or(0, |(_, bandwidth)| u128::from(bandwidth.bps()));
        }
        (count > 0).then(|| Bandwidth::from_bps((sum / count) as u64))
    }
}
