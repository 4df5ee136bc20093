//! The report about senders without Weir to a service with a receive limit.
//!
//! Problem: such a sender does not apply the service's rate, so the receiver polices it (`datapath/policer.h`), at the
//! price of losses. An operator should learn that, but not of the first packets of each sender with Weir, which the
//! kernel cannot recognise before the sender's ECN capability message, or after seconds of silence. Approach: a remark
//! for a period in which strangers sent more than a tenth of what the service received, more than such first packets,
//! and so much that some was marked or dropped.
//!
//! Worked example: 2.5 MB passed and 9 MB were dropped in a period: `senders without Weir are policed: 2.5 MB received,
//! 9 MB dropped in the last period`.

use crate::model::DirectionStatus;
use weir_units::{Bandwidth, Bytes, Duration};

/// The policer's totals for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strangers {
    /// Bytes that passed.
    pub bytes: u64,
    /// Packets that were marked.
    pub packets_marked: u64,
    /// Bytes that were dropped.
    pub bytes_dropped: u64,
    /// Packets that were dropped.
    pub packets_dropped: u64,
}

/// Bytes of a period that are no remark: the packets of six senders before their first feedback, one in 10 kB.
const FIRST_PACKETS: u64 = 65_536;
/// The part of a service's traffic that is no remark.
const SMALL_PART: u64 = 10;

impl DirectionStatus {
    /// Reports the policer's totals after a period. The usage is that of the same period.
    pub fn policed(&mut self, totals: Strangers, period: Duration) {
        // Without an earlier reading there is no period; a smaller total is that of new counters.
        let since = |total: u64, before: Option<u64>| total.saturating_sub(before.unwrap_or(total));
        let (passed, dropped) =
            (since(totals.bytes, self.stranger_bytes), since(totals.bytes_dropped, self.stranger_bytes_dropped));
        let marked = since(totals.packets_marked, self.stranger_packets_marked);
        let received = self.usage.map_or(0, |usage| usage.bytes_in(period).get());
        let offered = passed + dropped;
        let congest = marked > 0 || dropped > 0;
        self.dropped = Some(Bandwidth::from_transfer(Bytes::new(dropped), period));
        self.remark = (congest && offered > FIRST_PACKETS && offered > received / SMALL_PART).then(|| {
            let (passed, dropped) = (Bytes::new(passed), Bytes::new(dropped));
            format!("senders without Weir are policed: {passed} received, {dropped} dropped in the last period")
        });
        self.stranger_bytes = Some(totals.bytes);
        self.stranger_packets_marked = Some(totals.packets_marked);
        self.stranger_bytes_dropped = Some(totals.bytes_dropped);
        self.stranger_packets_dropped = Some(totals.packets_dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_remarked_and_first_packets_are_not() {
        let second = Duration::from_secs(1);
        let mut rx = DirectionStatus { usage: Some(Bandwidth::from_mbps(20)), ..DirectionStatus::default() };
        let totals = |bytes, bytes_dropped| Strangers { bytes, bytes_dropped, ..Strangers::default() };
        rx.policed(totals(1_000_000, 1_000_000), second);
        assert_eq!(rx.remark, None, "no earlier reading");
        rx.policed(totals(3_500_000, 10_000_000), second);
        let remark = rx.remark.as_deref();
        assert_eq!(remark, Some("senders without Weir are policed: 2.5 MB received, 9 MB dropped in the last period"));
        assert_eq!(rx.dropped, Some(Bandwidth::from_mbps(72)));
        // Many senders with Weir that are not recognised after a silence: nothing is congested.
        rx.policed(totals(6_000_000, 10_000_000), second);
        assert_eq!(rx.remark, None);
        // A tenth of 2.5 MB, and less.
        rx.policed(totals(6_240_000, 10_010_000), second);
        assert_eq!(rx.remark, None);
        // First packets of a service that hardly receives.
        rx.usage = Some(Bandwidth::from_bps(500_000));
        rx.policed(totals(6_295_000, 10_020_000), second);
        assert_eq!(rx.remark, None);
        // New counters, after the programs were attached again.
        rx.policed(totals(0, 0), second);
        assert_eq!((rx.remark.as_deref(), rx.stranger_bytes), (None, Some(0)));
    }
}
