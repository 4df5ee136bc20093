//! [`Levels`]: the latency levels of a policy, with the rates that hosts may send at.
//!
//! Problem: a message of a few packets must not wait behind the bulk traffic of a network. Approach, QJump's: hosts
//! limit urgent traffic so strictly that its queues are bounded in the worst case, and switches serve it first. On
//! level `i` a host may put at most `σ + ρt` bytes into the network in any time `t`:
//!
//! | limiter | T, the epoch | σ, burst | ρ, rate |
//! |---|---|---|---|
//! | token bucket ([`EpochForm::Regulated`]) | `Σ nᵢfᵢP / (load · R)` | `fP` | `fP/T` |
//! | window that begins with its first packet ([`EpochForm::Windowed`]) | `2nP/R + ε` | `2fP − p` | `fP/T` |
//!
//! `p` is the smallest frame: a window that begins with one leaves nearly `fP` for its end. With frames of `P` alone
//! the burst is `(2f − 1)P`. `P` is the largest frame on the wire, `f` the factor of the level, `n` the machines that
//! may send on it, `R` the rate of the slowest link, and ε the time that switches need. With token buckets the levels
//! fill `load` of a port at most, if all machines send to one; with windows the first level fills half of it, and a
//! level is bounded as long as it and those above fill a port at most. T is rounded up to a nanosecond, ρ down to a
//! bit per second.
//!
//! Worked example (the published settings): n = 144, P = 9 kB, R = 10 Gb/s: with windows T = 2.0736 ms and ρ = 34.72
//! Mb/s at f = 1; with token buckets, one level and a load of 50 % the same.
//!
//! Source: QJump's slides (epoch, levels), the authors' kernel module (the window: `docs/design/levels.md`); Cruz, A
//! calculus for network delay, part I, 1991 (σ and ρ).
//! Deviates from the slides in: the token bucket, and the load that they fix at a half.

use crate::machine_set::MachineSet;
use std::fmt;
use weir_units::{BILLION, Bandwidth, Bytes, Duration, Load};

/// The smallest Ethernet frame without its check sequence (IEEE 802.3).
const SMALLEST_FRAME: u64 = 60;

/// A latency level; level 1 is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The level with this index, 0 for level 1.
    ///
    /// # Panics
    /// If the index is above 254.
    pub fn from_index(index: usize) -> Self {
        assert!(index < 255, "a level is below 256");
        Self(index as u8)
    }
    /// The index into tables by level: 0 for level 1.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Level {
    /// The number, from 1 on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&(u16::from(self.0) + 1).to_string())
    }
}

/// `level:` of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LevelChoice {
    /// This level.
    Numbered(Level),
    /// The level that keeps the service's `latency`, chosen by the planner.
    Auto,
}

/// `latency: { message: 1kB, worst: 400us, rate: 50Mb/s }`: a worst case to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorstLatency {
    /// The message's size.
    pub message: Bytes,
    /// The time within which every message arrives, or with `round_trip` its answer.
    pub worst: Duration,
    /// The rate of messages that each machine of the service sends.
    pub rate: Bandwidth,
    /// Whether `worst` includes an answer of the same size on the same level.
    pub round_trip: bool,
}

/// The limiter of a level at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum EpochForm {
    /// A token bucket: at most `σ + ρt` bytes in any time `t`.
    #[default]
    Regulated,
    /// The authors' limiter: at most `fP` bytes in a window of T, which begins with its first packet.
    Windowed,
}

/// `levels:` as written, with defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSettings {
    /// P: the largest frame of levelled traffic on the wire, with framing.
    pub packet: Bytes,
    /// Bytes that a link needs for each frame beside the frame.
    pub framing: Bytes,
    /// The part of every port that bounded levels may fill together.
    pub load: Load,
    /// The limiter.
    pub epoch: EpochForm,
    /// ε: the time that the switches of a path need for a packet, together.
    pub processing: Duration,
    /// R: the rate of the slowest link.
    pub slowest: Bandwidth,
    /// The most segments of a super-packet of other traffic at a host; `None` for Linux's limit of 64 KiB.
    pub segments: Option<u32>,
    /// The DSCP value of each level, the most urgent first; at least as many as levels.
    pub dscp: Vec<u8>,
}

impl LevelSettings {
    /// T, for levels with these factors and numbers of sending machines: rounded up to a nanosecond. Saturates.
    pub fn epoch_time(&self, levels: impl IntoIterator<Item = (u32, u64)>) -> Duration {
        let packet = u128::from(self.packet.get()) * 8_000_000_000;
        let nanos = match self.epoch {
            EpochForm::Regulated => {
                let frames: u128 =
                    levels.into_iter().map(|(factor, hosts)| u128::from(factor) * u128::from(hosts)).sum();
                // The load in billionths of R.
                let load = u128::from(self.load.billionths()) * u128::from(self.slowest.bps());
                (packet.saturating_mul(frames).saturating_mul(u128::from(BILLION))).div_ceil(load.max(1))
            }
            EpochForm::Windowed => {
                let hosts = levels.into_iter().next().map_or(1, |(_, hosts)| hosts);
                let frames =
                    packet.saturating_mul(2 * u128::from(hosts)).div_ceil(u128::from(self.slowest.bps().max(1)));
                frames.saturating_add(self.processing.nanos().into())
            }
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1))
    }

    /// The bytes of a level of this factor that a host may send at once: `fP`. Saturates.
    pub fn quota(&self, factor: u32) -> Bytes {
        Bytes::new(self.packet.get().saturating_mul(factor.into()))
    }

    /// σ: the burst of a level of this factor. Saturates.
    pub fn burst(&self, factor: u32) -> Bytes {
        match self.epoch {
            EpochForm::Regulated => self.quota(factor),
            // The end of one window and the start of the next, less the packet that began the first one, an epoch
            // before the next. It may be of the smallest size.
            EpochForm::Windowed => {
                let first = (SMALLEST_FRAME + self.framing.get()).min(self.packet.get());
                Bytes::new(self.quota(factor.saturating_mul(2)).get() - first)
            }
        }
    }

    /// ρ: the rate of a level of this factor, rounded down to a bit per second.
    pub fn rate(&self, factor: u32, epoch: Duration) -> Bandwidth {
        let bits = u128::from(self.quota(factor).get()) * 8_000_000_000;
        Bandwidth::from_bps(u64::try_from(bits / u128::from(epoch.nanos().max(1))).unwrap_or(u64::MAX))
    }
}

/// A level's senders and rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRates {
    /// f.
    pub factor: u32,
    /// The machines that may send on the level; `None` for every machine.
    pub senders: Option<MachineSet>,
    /// n: their number.
    pub sender_count: u64,
    /// σ of each of them.
    pub burst: Bytes,
    /// ρ of each of them.
    pub rate: Bandwidth,
    /// The DSCP value of its traffic.
    pub dscp: u8,
}

/// The latency levels of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    pub(crate) settings: LevelSettings,
    pub(crate) epoch: Duration,
    pub(crate) levels: Vec<LevelRates>,
}

impl Levels {
    /// `levels:` as written, with defaults.
    pub fn settings(&self) -> &LevelSettings {
        &self.settings
    }
    /// T.
    pub fn epoch(&self) -> Duration {
        self.epoch
    }
    /// The levels, the most urgent first; empty while the planner has not chosen factors (`level: auto`).
    pub fn all(&self) -> &[LevelRates] {
        &self.levels
    }
    /// A level.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn get(&self, level: Level) -> &LevelRates {
        &self.levels[level.index()]
    }
}

impl Levels {
    /// Levels of these factors and senders; `machines` is the number of all machines.
    pub fn new(settings: LevelSettings, levels: Vec<(u32, Option<MachineSet>)>, machines: u64) -> Self {
        let count = |senders: &Option<MachineSet>| senders.as_ref().map_or(machines, MachineSet::count);
        let epoch = settings.epoch_time(levels.iter().map(|(factor, senders)| (*factor, count(senders))));
        let level = |((factor, senders), dscp): ((u32, Option<MachineSet>), &u8)| LevelRates {
            factor,
            sender_count: count(&senders),
            senders,
            burst: settings.burst(factor),
            rate: settings.rate(factor, epoch),
            dscp: *dscp,
        };
        let levels = levels.into_iter().zip(&settings.dscp).map(level).collect();
        Self { epoch, levels, settings }
    }

    /// The part of a port of the slowest rate that bounded levels fill if all senders send to it: the `load` of token
    /// buckets; of windows the sum of the levels that fit. `None` if no level is bounded.
    pub fn reserved(&self) -> Option<Load> {
        if self.settings.epoch == EpochForm::Regulated {
            return Some(self.settings.load);
        }
        let slowest = u128::from(self.settings.slowest.bps().max(1));
        let mut filled = 0u128;
        for level in &self.levels {
            let next = filled + u128::from(level.rate.bps()) * u128::from(level.sender_count);
            if next > slowest {
                break;
            }
            filled = next;
        }
        let billionths = (filled * u128::from(BILLION)).div_ceil(slowest);
        Load::from_billionths(u32::try_from(billionths).unwrap_or(BILLION).min(BILLION - 1)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(epoch: EpochForm) -> LevelSettings {
        LevelSettings {
            packet: Bytes::new(9_000),
            framing: Bytes::ZERO,
            load: Load::from_fraction(0.5).expect("a load"),
            epoch,
            processing: Duration::ZERO,
            slowest: Bandwidth::from_gbps(10),
            segments: None,
            dscp: vec![46; 8],
        }
    }

    /// The published table: 144 hosts, frames of 9,000 B, 10 Gb/s. The slides write a level as n = 144/f; each is the
    /// only one of its epoch. Times in nanoseconds, rates in bit/s.
    #[test]
    fn published_levels() {
        let settings = settings(EpochForm::Windowed);
        let epoch = settings.epoch_time([(1, 144)]);
        assert_eq!(epoch.nanos(), 2_073_600);
        // The authors' settings have half of it: nP/R.
        let short = Duration::from_nanos(epoch.nanos() / 2);
        for (factor, long_bps, short_bps, long_ns) in [
            (1, 34_722_222, 69_444_444, 2_073_600),
            (2, 69_444_444, 138_888_888, 1_036_800),
            (3, 104_166_666, 208_333_333, 691_200),
            (5, 173_611_111, 347_222_222, 414_720),
            (10, 347_222_222, 694_444_444, 207_360),
            (20, 694_444_444, 1_388_888_888, 103_680),
            (100, 3_472_222_222, 6_944_444_444, 20_736),
            (144, 5_000_000_000, 10_000_000_000, 14_400),
        ] {
            assert_eq!(settings.rate(factor, epoch).bps(), long_bps, "{factor}");
            assert_eq!(settings.rate(factor, short).bps(), short_bps, "{factor}");
            assert_eq!(epoch.nanos() / u64::from(factor), long_ns, "{factor}: one frame in this time");
        }
    }

    #[test]
    fn token_buckets_fill_the_load() {
        let epoch = settings(EpochForm::Regulated).epoch_time([(1, 144)]);
        assert_eq!(epoch, settings(EpochForm::Windowed).epoch_time([(1, 144)]));
        // Another level of ten times the rate: eleven times as long.
        assert_eq!(settings(EpochForm::Regulated).epoch_time([(1, 144), (10, 144)]).nanos(), 11 * epoch.nanos());
        assert_eq!(settings(EpochForm::Windowed).epoch_time([(1, 144), (10, 144)]), epoch);
    }

    #[test]
    fn windows_have_larger_bursts() {
        let bursts = |form| [1, 2, 10].map(|factor| settings(form).burst(factor).get());
        assert_eq!(bursts(EpochForm::Regulated), [9_000, 18_000, 90_000]);
        assert_eq!(bursts(EpochForm::Windowed), [18_000 - 60, 36_000 - 60, 180_000 - 60]);
        // Frames of one size, as published: (2f - 1) P.
        let equal = LevelSettings { packet: Bytes::new(60), ..settings(EpochForm::Windowed) };
        assert_eq!([1, 2, 10].map(|factor| equal.burst(factor).get() / 60), [1, 3, 19]);
    }

    /// Frames of 1,518 B, 40 hosts, T = nP/R: a host sends 20,586 frames in a second.
    #[test]
    fn frames_in_a_second() {
        let settings = LevelSettings { packet: Bytes::new(1_518), ..settings(EpochForm::Windowed) };
        let epoch = Duration::from_nanos(settings.epoch_time([(1, 40)]).nanos().div_ceil(2));
        assert_eq!(1_000_000_000 / epoch.nanos(), 20_586);
        let twelve = settings.epoch_time([(1, 12)]);
        assert_eq!(twelve.nanos().div_ceil(2), 14_573);
    }

    proptest! {
        /// Rounding is on the safe side: the levels together fill at most the load.
        #[test]
        fn rates_fill_at_most_the_load(
            levels in proptest::collection::vec((1u32..2_000, 1u64..100_000), 1..6),
            packet in 64u64..9_100,
            load in 1_000u32..1_000_000_000,
            slowest in 1_000_000u64..400_000_000_000,
        ) {
            let settings = LevelSettings {
                packet: Bytes::new(packet),
                load: Load::from_billionths(load).expect("a load"),
                slowest: Bandwidth::from_bps(slowest),
                ..settings(EpochForm::Regulated)
            };
            let epoch = settings.epoch_time(levels.iter().copied());
            let filled = levels.iter().map(|(factor, hosts)| {
                u128::from(settings.rate(*factor, epoch).bps()) * u128::from(*hosts)
            });
            prop_assert!(filled.sum::<u128>() * 1_000_000_000 <= u128::from(load) * u128::from(slowest));
        }
    }
}
