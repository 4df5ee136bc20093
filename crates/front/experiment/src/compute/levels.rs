//! The epoch and the rate of a latency level, as its policy has them.
//!
//! Worked example: 144 hosts with frames of 9,000 B and 10 Gb/s: two frames of each take 2.0736 ms, in which a host
//! sends one: 34.72 Mb/s.
//!
//! Source: QJump's slides.

use weir_policy::{EpochForm, LevelSettings};
use weir_units::{Bandwidth, Bytes, Duration, Load};

/// The time for a frame of a level at a host in seconds, or with `rate` its rate in bit/s.
pub(super) fn epoch(hosts: u32, packet: Bytes, capacity: Bandwidth, factor: u32, frames: u32, rate: bool) -> f64 {
    let settings = LevelSettings {
        packet,
        framing: Bytes::ZERO,
        load: Load::from_billionths(500_000_000).expect("a half"),
        epoch: EpochForm::Windowed,
        processing: Duration::ZERO,
        slowest: capacity,
        segments: None,
        dscp: Vec::new(),
    };
    // The policy's epoch has two frames of each host.
    let two = settings.epoch_time([(1, u64::from(hosts))]);
    let epoch = Duration::from_nanos(two.nanos() * u64::from(frames) / 2);
    match rate {
        true => settings.rate(factor, epoch).bps() as f64,
        false => epoch.as_secs_f64() / f64::from(factor),
    }
}
