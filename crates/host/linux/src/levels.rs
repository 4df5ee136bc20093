//! Latency levels on an interface: the rules of their regulators, the level of each service, and their counters.
//!
//! The programs count and drop (`bpf/levels.h`), and classes delay: those of [`crate::htb::HtbTree`], and with `edt`
//! those of the bands before [`crate::fq::Fq`]. HTB has no windows: a level of windows gets a token bucket of the same
//! burst and mean rate, which sends less in any time than windows may.
//!
//! Order of calls: [`InterfaceDatapath::set_slots`], then the shaper's classes, to which packets of levels go, then
//! [`InterfaceDatapath::set_levels`] and [`InterfaceDatapath::set_rules`].
//!
//! Worked example: level 1 of 34.7 Mb/s with a burst of 1,538 B and DSCP 46: `weir_level_rules[0]` has these, the
//! entries of its services in `weir_service_marks` are 1, and bit 46 of `level_dscps` is set, so that packets of no
//! level with that value are re-marked.
//!
//! Source: `datapath/level.h`, `bpf/levels.h`.

use crate::htb;
use crate::loader::{InterfaceDatapath, LoaderError};
use crate::priority_bands;
use crate::settings::{Classes, kernel_time};
use weir_datapath::abi::{LEVEL_RECEIVED, LEVEL_SENT, LEVELS_MAX, LevelRules, REST};
use weir_datapath::{LEVEL_QUEUE, LevelRegulator, level_rules};
use weir_policy::Level;
use weir_shaping::{LevelLimits, SMALLEST_FRAME, htb_rate};
use weir_units::{Bytes, Duration, Instant, ServiceId};

/// The latency levels of a policy at a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLevels {
    /// By level, the most urgent first: its DSCP value, and its limits if the host sends on it.
    pub levels: Vec<(u8, Option<LevelLimits>)>,
    /// By leaf service: its levels at this host.
    pub of_service: Vec<(ServiceId, ServiceLevels)>,
    /// The most segments of a super-packet of other traffic; longer ones are counted. `None` for any.
    pub segments: Option<u32>,
}

/// The levels of a service at a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceLevels {
    /// The level of its sent packets.
    pub sent: Option<Level>,
    /// Whether other hosts send packets to it on a level. No receive limit applies to those, since their senders'
    /// levels limit them.
    pub received: bool,
}

impl HostLevels {
    /// By level: its limits, if the host sends on it.
    pub fn limits(&self) -> Vec<Option<LevelLimits>> {
        self.levels.iter().map(|(_, limits)| *limits).collect()
    }
}

/// The counters of a level at a host since its programs were first attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelReading {
    /// Bytes that left or wait, with framing.
    pub bytes: Bytes,
    /// Frames of these.
    pub packets: u64,
    /// Bytes that wait.
    pub backlog: Bytes,
    /// The longest wait of a packet.
    pub longest_wait: Duration,
    /// Frames larger than P, and super-packets that nothing cuts.
    pub oversize: u64,
    /// Buffers that found a full queue.
    pub dropped: u64,
    /// Packets of no level that carried the level's DSCP value, and were re-marked to 0.
    pub remarked: u64,
}

impl InterfaceDatapath {
    /// Sets the levels' regulators, DSCP values and services. Regulators go on with their debts.
    ///
    /// # Panics
    /// With more than [`LEVELS_MAX`] levels.
    pub fn set_levels(&mut self, host: &HostLevels, classes: Classes) -> Result<(), LoaderError> {
        let count = u32::try_from(host.levels.len()).unwrap_or(u32::MAX);
        assert!(count <= LEVELS_MAX, "{count} levels");
        for index in 0..LEVELS_MAX {
            let rules = host.levels.get(index as usize).map_or_else(LevelRules::default, |(dscp, limits)| {
                // Also where no service sends on it: packets that claim it are counted there.
                limits.as_ref().map_or_else(|| unused(*dscp), rules)
            });
            if self.maps.level_rules.get(index)? != rules {
                self.maps.level_rules.set(index, rules)?;
            }
        }
        let mut of_slot = vec![0; REST as usize];
        for (service, levels) in &host.of_service {
            let sent = levels.sent.map_or(0, |level| level.index() as u32 + 1);
            let received = if levels.received { LEVEL_RECEIVED } else { 0 };
            of_slot[self.slots.of(*service)? as usize] = sent | received;
        }
        self.marks.levels = of_slot;
        self.write_marks()?;
        self.config.levels = count;
        self.config.level_segments = host.segments.unwrap_or(0);
        self.config.level_dscps = host.levels.iter().fold(0, |bits, (dscp, _)| bits | 1 << (dscp & 0x3f));
        self.config.class_level = match classes {
            _ if count == 0 => 0,
            Classes::Htb => htb::HANDLE | u32::from(htb::LEVEL_FIRST),
            Classes::Edt => htb::HANDLE | u32::from(priority_bands::BAND_FIRST),
            Classes::None => 0,
        };
        self.write_config()
    }

    /// Whether the service of a slot sends on a level.
    pub fn is_on_level(&self, slot: u32) -> Result<bool, LoaderError> {
        Ok(self.config.levels > 0 && self.maps.service_marks.get(slot)? & LEVEL_SENT != 0)
    }

    /// The counters of the levels in force, the most urgent first.
    pub fn level_readings(&self) -> Result<Vec<LevelReading>, LoaderError> {
        let now = Instant::from_nanos(kernel_time());
        let one = |index| {
            let state = self.maps.level_states.get(index)?;
            let rules = self.maps.level_rules.get(index)?;
            let level = state.level;
            Ok(LevelReading {
                bytes: Bytes::new(level.sent),
                packets: level.packets,
                backlog: LevelRegulator::from_raw(rules, level).backlog(now),
                longest_wait: Duration::from_nanos(level.longest_wait),
                oversize: level.oversize,
                dropped: level.dropped,
                remarked: state.remarked,
            })
        };
        (0..self.config.levels).map(one).collect()
    }
}

/// The rules of a level with these limits, whose class has no windows, cuts super-packets, and has a rounded rate.
fn rules(limits: &LevelLimits) -> LevelRules {
    let (rate, smallest) = (htb_rate(limits.rate, limits.framing).bps(), SMALLEST_FRAME.get() as u32);
    LevelRules { rate, epoch: 0, cuts: 1, smallest, ..level_rules(limits, LEVEL_QUEUE) }
}

/// The rules of a level that no service of this host sends on.
fn unused(dscp: u8) -> LevelRules {
    LevelRules { rate: 1, packet: u32::MAX, dscp: dscp.into(), ..LevelRules::default() }
}
