//! Counters of queues, from COUNTERS_DB.
//!
//! SONiC's daemons read the hardware's counters in a period (10 s by default, `counterpoll queue interval` sets it), so
//! that a value is as old. A counter that the platform does not have is absent, not 0.
//!
//! Source: sonic-utilities, scripts/queuestat, counterpoll/main.py.

use weir_switch::QueueReading;
use weir_units::Bytes;

/// The counters of a queue since the switch started; `None` where the platform has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounters {
    /// Packets that were sent.
    pub packets: Option<u64>,
    /// Bytes that were sent.
    pub bytes: Option<u64>,
    /// Packets that were dropped.
    pub dropped_packets: Option<u64>,
    /// Bytes that were dropped.
    pub dropped_bytes: Option<u64>,
    /// Packets that were marked (ECN); of newer releases.
    pub marked_packets: Option<u64>,
}

/// The fields in the order of [`QueueCounters`].
pub(crate) const FIELDS: [&str; 5] = [
    "SAI_QUEUE_STAT_PACKETS",
    "SAI_QUEUE_STAT_BYTES",
    "SAI_QUEUE_STAT_DROPPED_PACKETS",
    "SAI_QUEUE_STAT_DROPPED_BYTES",
    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
];

impl From<QueueCounters> for QueueReading {
    /// Without a backlog: SONiC has none of the moment.
    fn from(counters: QueueCounters) -> Self {
        Self {
            sent: counters.bytes.map(Bytes::new),
            backlog: None,
            dropped: counters.dropped_packets,
            marked: counters.marked_packets,
        }
    }
}

impl QueueCounters {
    /// From the values of [`FIELDS`]. A value that is empty or no number is absent.
    pub(crate) fn of(values: &[Option<String>]) -> Self {
        let number = |index: usize| values.get(index).cloned().flatten().and_then(|text| text.parse().ok());
        Self {
            packets: number(0),
            bytes: number(1),
            dropped_packets: number(2),
            dropped_bytes: number(3),
            marked_packets: number(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_counter_is_not_0() {
        let values = [Some("7".to_owned()), None, Some(String::new()), Some("0".to_owned())];
        let expected = QueueCounters { packets: Some(7), dropped_bytes: Some(0), ..QueueCounters::default() };
        assert_eq!(QueueCounters::of(&values), expected);
    }
}
