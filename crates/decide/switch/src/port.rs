//! [`PortConfig`]: the configuration that a port shall have. [`PortState`]: the one that it has.
//!
//! A port has queues 0 to n − 1. Strict queues have the highest numbers, and the highest number is the most urgent;
//! weighted queues share what strict ones leave, in bytes, by weight (deficit round robin). A complete map assigns each
//! of the 64 DSCP values to a queue. A queue marks ECN-capable packets that find more than a threshold in it, and holds
//! a limited number of bytes. Packets that arrive by the port with one of a set of DSCP values are re-marked to 0, so
//! that a neighbour cannot claim the queues of these values anywhere in the network.
//!
//! A [`PortConfig`] is valid by construction. A [`PortState`] is what a driver reads, whatever a person or an
//! interrupted change left: queues may be missing, and a port that Weir never configured has none and no map.
//!
//! Worked example: queues 0 to 2 with weights 1, 3, 3 and queue 3 strict, DSCP 46 in queue 3, DSCP 10 and 12 in
//! queues 1 and 2, all others in queue 0.
//!
//! Source: the order of SONiC's queues (strict before weighted, the highest index first); IEEE 802.1Q clause 8.6.8
//! (strict priority before enhanced transmission selection); RFC 2474 (DSCP).

use crate::change::Field;
use std::collections::BTreeMap;
use std::fmt;
use weir_units::{Bandwidth, Bytes};

/// The most queues of a port (IEEE 802.1Q has eight traffic classes).
pub const QUEUES_MAX: usize = 8;
/// DSCP values (RFC 2474: six bits).
pub const DSCPS: usize = 64;
/// The smallest buffer of a queue: a full Ethernet frame without its check sequence. A smaller one would drop it.
pub const BUFFER_MIN: Bytes = Bytes::new(1_514);

/// The rule by which a queue is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schedule {
    /// Before all queues of lower numbers.
    Strict,
    /// After all strict queues, in proportion to the weight, at least 1.
    Weighted(u16),
}

impl Schedule {
    /// Whether it is strict.
    pub fn is_strict(self) -> bool {
        self == Self::Strict
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Weighted(weight) => write!(f, "weight {weight}"),
        }
    }
}

/// One queue of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// The rule by which it is served.
    pub schedule: Schedule,
    /// ECN-capable packets that find more than so many bytes in the queue, themselves included, are marked; `None`:
    /// none are.
    pub mark: Option<Bytes>,
    /// The most bytes in the queue; `None`: the switch's default. Whether queues share them is the driver's.
    pub buffer: Option<Bytes>,
}

/// The queue of each DSCP value: always complete, since what a switch does with an unlisted value depends on the
/// switch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DscpMap([u8; DSCPS]);

impl DscpMap {
    /// All values in one queue.
    pub const fn all(queue: u8) -> Self {
        Self([queue; DSCPS])
    }
    /// The queues of the values 0 to 63.
    pub const fn from_queues(queues: [u8; DSCPS]) -> Self {
        Self(queues)
    }
    /// By value.
    pub const fn queues(&self) -> &[u8; DSCPS] {
        &self.0
    }
    /// The queue of a value.
    ///
    /// # Panics
    /// If the value is not below 64.
    pub fn queue(&self, dscp: u8) -> u8 {
        self.0[usize::from(dscp)]
    }
    /// Assigns a value to a queue.
    ///
    /// # Panics
    /// If the value is not below 64.
    pub fn assign(&mut self, dscp: u8, queue: u8) {
        self.0[usize::from(dscp)] = queue;
    }
    /// The values of a queue, as a text: `0-9, 11`.
    pub fn values(&self, queue: u8) -> String {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for dscp in (0..DSCPS).filter(|dscp| self.0[*dscp] == queue) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == dscp => *last = dscp,
                _ => ranges.push((dscp, dscp)),
            }
        }
        let text = |(first, last): &(usize, usize)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        };
        ranges.iter().map(text).collect::<Vec<_>>().join(", ")
    }
    /// The queues to which it refers, ascending.
    pub fn used(&self) -> Vec<u8> {
        let mut used = self.0.to_vec();
        used.sort_unstable();
        used.dedup();
        used
    }
}

/// A set of DSCP values.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct DscpSet(u64);

impl DscpSet {
    /// The values whose bits are set.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// One bit for each value.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Whether it has no value.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether it has all values of another set.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// The values, ascending.
    pub fn values(self) -> impl Iterator<Item = u8> {
        (0..DSCPS as u8).filter(move |dscp| self.0 >> dscp & 1 == 1)
    }
}

impl FromIterator<u8> for DscpSet {
    /// # Panics
    /// If a value is not below 64.
    fn from_iter<T: IntoIterator<Item = u8>>(values: T) -> Self {
        let bit = |dscp: u8| 1u64.checked_shl(dscp.into()).expect("a DSCP value is below 64");
        Self(values.into_iter().fold(0, |bits, dscp| bits | bit(dscp)))
    }
}

impl fmt::Debug for DscpSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DscpSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values().map(|dscp| dscp.to_string()).collect();
        f.pad(&if values.is_empty() { "none".to_owned() } else { values.join(", ") })
    }
}

impl fmt::Debug for DscpMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DscpMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues: Vec<String> =
            self.used().into_iter().map(|queue| format!("{} in queue {queue}", self.values(queue))).collect();
        f.write_str(&queues.join("; "))
    }
}

/// The configuration of a port as a driver reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortState {
    /// The rate to which the port is limited; `None`: its line rate.
    pub rate: Option<Bandwidth>,
    /// The queues by number.
    pub queues: BTreeMap<u8, QueueConfig>,
    /// The map, if the port classifies by DSCP.
    pub map: Option<DscpMap>,
    /// Arriving packets with these DSCP values are re-marked to 0.
    pub remark: DscpSet,
}

/// The configurations of a switch's ports, by name.
pub type SwitchState = BTreeMap<String, PortState>;

impl PortState {
    /// Whether the port has no configuration of Weir's at all.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
    /// Whether the map refers to existing queues only.
    pub fn is_sound(&self) -> bool {
        self.map.is_none_or(|map| map.used().iter().all(|queue| self.queues.contains_key(queue)))
    }
}

/// A field with a value that cannot be: the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {cause}")]
pub struct FieldError {
    /// The field.
    pub field: Field,
    /// The cause.
    pub cause: String,
    /// The remedy.
    pub hint: String,
}

impl FieldError {
    pub(crate) fn new(field: Field, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field, cause: cause.into(), hint: hint.into() }
    }
}

/// A valid configuration of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig(PortState);

impl PortConfig {
    /// A port with these queues, from number 0 on; `rate` is `None` for the line rate.
    ///
    /// Refuses no or more than [`QUEUES_MAX`] queues, a weighted queue above a strict one, a weight, rate or threshold
    /// of 0, a buffer below [`BUFFER_MIN`], and a map that refers to another queue.
    pub fn new(rate: Option<Bandwidth>, queues: Vec<QueueConfig>, map: DscpMap) -> Result<Self, FieldError> {
        if rate.is_some_and(|rate| rate.bps() == 0 || rate.is_unlimited()) {
            return Err(FieldError::new(Field::Rate, "a port's rate is above 0 and finite", "leave the rate out"));
        }
        if queues.is_empty() || queues.len() > QUEUES_MAX {
            let cause = format!("{} queues; a port has 1 to {QUEUES_MAX}", queues.len());
            return Err(FieldError::new(Field::Queues, cause, "use fewer levels or groups"));
        }
        let mut strict_below = None;
        for (number, queue) in (0u8..).zip(&queues) {
            match (queue.schedule, strict_below) {
                (Schedule::Weighted(0), _) => {
                    let hint = "weights are 1 or more";
                    return Err(FieldError::new(Field::Schedule(number), "weight 0", hint));
                }
                (Schedule::Weighted(_), Some(below)) => {
                    let cause = format!("weighted, above the strict queue {below}");
                    let hint = "give strict queues the highest numbers";
                    return Err(FieldError::new(Field::Schedule(number), cause, hint));
                }
                (Schedule::Weighted(_), None) => {}
                (Schedule::Strict, _) => strict_below = Some(number),
            }
            if queue.mark == Some(Bytes::ZERO) {
                let hint = "a threshold is 1 B or more; leave it out to mark nothing";
                return Err(FieldError::new(Field::Mark(number), "a threshold of 0 marks every packet", hint));
            }
            if let Some(buffer) = queue.buffer.filter(|buffer| *buffer < BUFFER_MIN) {
                let cause = format!("{buffer} hold no full frame");
                return Err(FieldError::new(Field::Buffer(number), cause, format!("{BUFFER_MIN} or more")));
            }
        }
        if let Some(dscp) = (0..DSCPS as u8).find(|dscp| usize::from(map.queue(*dscp)) >= queues.len()) {
            let cause = format!("refers to queue {}, of {} queues", map.queue(dscp), queues.len());
            return Err(FieldError::new(Field::Dscp(dscp), cause, "queues are numbered from 0"));
        }
        let queues = (0..).zip(queues).collect();
        Ok(Self(PortState { rate, queues, map: Some(map), remark: DscpSet::default() }))
    }

    /// A port whose queues are the switch's own: arriving packets with these DSCP values are re-marked to 0.
    pub fn remark_only(remark: DscpSet) -> Self {
        Self(PortState { remark, ..PortState::default() })
    }

    /// The same port, whose arriving packets with these DSCP values are re-marked to 0.
    #[must_use]
    pub fn remarking(mut self, remark: DscpSet) -> Self {
        self.0.remark = remark;
        self
    }

    /// The same port with another map.
    ///
    /// # Errors
    /// A value in a queue that the port does not have.
    pub fn mapping(&self, map: DscpMap) -> Result<Self, FieldError> {
        Ok(Self::new(self.rate(), self.queues().copied().collect(), map)?.remarking(self.remark()))
    }

    /// The configuration that a port has; `None` where its state is no valid one.
    pub fn of_state(state: &PortState) -> Option<Self> {
        let numbers = 0..u8::try_from(state.queues.len()).ok()?;
        let queues = numbers.map(|number| state.queues.get(&number).copied()).collect::<Option<Vec<_>>>()?;
        Some(Self::new(state.rate, queues, state.map?).ok()?.remarking(state.remark))
    }

    /// The same port without a limit of its rate.
    #[must_use]
    pub fn at_line_rate(mut self) -> Self {
        self.0.rate = None;
        self
    }

    /// The same port with the switch's own buffers.
    #[must_use]
    pub fn with_default_buffers(mut self) -> Self {
        self.0.queues.values_mut().for_each(|queue| queue.buffer = None);
        self
    }

    /// The configuration as a state.
    pub fn state(&self) -> &PortState {
        &self.0
    }
    /// The rate; `None` for the line rate.
    pub fn rate(&self) -> Option<Bandwidth> {
        self.0.rate
    }
    /// The queues from number 0 on.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = &QueueConfig> {
        self.0.queues.values()
    }
    /// The DSCP values that are re-marked to 0 where they arrive.
    pub fn remark(&self) -> DscpSet {
        self.0.remark
    }
    /// The queue of each DSCP value.
    pub fn map(&self) -> DscpMap {
        self.0.map.unwrap_or(DscpMap::all(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: QueueConfig = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };
    const STRICT: QueueConfig = QueueConfig { schedule: Schedule::Strict, ..PLAIN };

    fn refused(rate: Option<Bandwidth>, queues: Vec<QueueConfig>, map: DscpMap) -> String {
        let error = PortConfig::new(rate, queues, map).expect_err("refused");
        assert!(!error.hint.is_empty());
        error.to_string()
    }

    #[test]
    fn invalid_configurations_are_refused_by_field() {
        let all = DscpMap::all(0);
        assert_eq!(refused(Some(Bandwidth::ZERO), vec![PLAIN], all), "rate: a port's rate is above 0 and finite");
        assert_eq!(refused(None, vec![], all), "queues: 0 queues; a port has 1 to 8");
        assert_eq!(refused(None, vec![PLAIN; 9], all), "queues: 9 queues; a port has 1 to 8");
        let weightless = QueueConfig { schedule: Schedule::Weighted(0), ..PLAIN };
        assert_eq!(refused(None, vec![PLAIN, weightless], all), "queue 1, scheduler: weight 0");
        let gap = vec![PLAIN, STRICT, PLAIN];
        assert_eq!(refused(None, gap, all), "queue 2, scheduler: weighted, above the strict queue 1");
        let mark = QueueConfig { mark: Some(Bytes::ZERO), ..PLAIN };
        assert_eq!(refused(None, vec![mark], all), "queue 0, ECN threshold: a threshold of 0 marks every packet");
        let buffer = QueueConfig { buffer: Some(Bytes::new(1_000)), ..PLAIN };
        assert_eq!(refused(None, vec![buffer], all), "queue 0, buffer: 1 kB hold no full frame");
        let mut map = all;
        map.assign(46, 2);
        assert_eq!(refused(None, vec![PLAIN; 2], map), "DSCP 46: refers to queue 2, of 2 queues");
    }

    #[test]
    fn maps_are_read_as_ranges() {
        let mut map = DscpMap::all(0);
        for (dscp, queue) in [(10, 1), (12, 1), (13, 1), (63, 2)] {
            map.assign(dscp, queue);
        }
        assert_eq!(map.to_string(), "0-9, 11, 14-62 in queue 0; 10, 12-13 in queue 1; 63 in queue 2");
        assert_eq!(map.values(5), "");
        assert_eq!(map.used(), [0, 1, 2]);
    }

    #[test]
    fn a_map_to_a_missing_queue_is_not_sound() {
        let config = PortConfig::new(None, vec![PLAIN, STRICT], DscpMap::all(1)).expect("valid");
        assert!(config.state().is_sound() && PortState::default().is_sound());
        let mut state = config.state().clone();
        state.queues.remove(&1);
        assert!(!state.is_sound());
    }
}
