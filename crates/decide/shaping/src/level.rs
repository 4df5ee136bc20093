//! [`LevelLimits`]: the limits of a latency level at a machine that may send on it.
//!
//! Worked example: 40 machines of 10 Gb/s, one level of factor 1, frames of 1538 B, a load of a half: a bucket of
//! 1538 B that fills at 125 Mb/s.

use weir_policy::{EpochForm, Level, Place, Policy};
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId};

/// Bytes of the smallest Ethernet frame without its check sequence (IEEE 802.3), to which shorter ones are padded.
pub const SMALLEST_FRAME: Bytes = Bytes::new(60);
/// The unit of HTB's buckets: a psched tick (PSCHED_SHIFT 6).
const TICK: Duration = Duration::from_nanos(64);

/// The rate, a whole number of bytes per second, of HTB's class for a level of `rate`: HTB rounds the time of a frame
/// down by less than 1 ns, so each frame is given one more.
pub fn htb_rate(rate: Bandwidth, framing: Bytes) -> Bandwidth {
    let frame = u128::from((SMALLEST_FRAME + framing).get()) * 1_000_000_000;
    let bytes = (rate.bps() / 8).max(1);
    let rounded = u64::try_from(frame / (frame.div_ceil(u128::from(bytes)) + 1)).unwrap_or(bytes).min(bytes).max(1);
    Bandwidth::from_bps(rounded * 8)
}

/// The bytes that HTB's class lets leave at once before the last frame: a frame leaves while the bucket of σ − P, a
/// whole number of ticks, is not in debt.
pub fn htb_burst(burst: Bytes, packet: Bytes, rate: Bandwidth) -> Bytes {
    burst.saturating_sub(packet).saturating_sub(rate.bytes_in(TICK) + Bytes::new(1))
}

/// The limits of a latency level at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelLimits {
    /// ρ: the rate of the token bucket; the mean rate of windows.
    pub rate: Bandwidth,
    /// Bytes of the bucket, or of a window: `fP`.
    pub burst: Bytes,
    /// T: the length of a window; `None` for a token bucket.
    pub epoch: Option<Duration>,
    /// P: the largest frame on the wire.
    pub packet: Bytes,
    /// Bytes of each frame on the wire beside the frame.
    pub framing: Bytes,
    /// The DSCP value of its traffic.
    pub dscp: u8,
}

impl LevelLimits {
    /// The limits of a policy's levels at a machine, the most urgent first; `None` for levels on which it sends
    /// nothing. A level's rate is at most the interface's, and the sum of its services' maxima if each has one.
    pub fn of_machine(policy: &Policy, machine: MachineId) -> Vec<Option<Self>> {
        let Some(levels) = policy.levels() else { return Vec::new() };
        let settings = levels.settings();
        let nic = policy.machine_capacity(machine, Direction::Tx);
        let of = |index: usize| {
            let level = Level::from_index(index);
            let rates = levels.get(level);
            let sends = rates.senders.as_ref().is_none_or(|senders| senders.contains(machine));
            let leaves = policy.services().leaves().map(|(leaf, _)| leaf);
            let own = leaves.filter(|&leaf| policy.level_of(leaf) == Some(level));
            let own = own.filter(|&leaf| policy.runs_at(leaf, Place::Machine(machine)));
            let maxima: Bandwidth = own.map(|leaf| policy.machine_ceiling(leaf, Direction::Tx)).sum();
            sends.then(|| Self {
                rate: rates.rate.min(maxima).min(nic),
                burst: settings.quota(rates.factor),
                epoch: (settings.epoch == EpochForm::Windowed).then(|| levels.epoch()),
                packet: settings.packet,
                framing: settings.framing,
                dscp: rates.dscp,
            })
        };
        (0..levels.all().len()).map(of).collect()
    }
}
