//! [`Policer`]: the bound on what senders without Weir deliver to a service with a receive limit.
//!
//! The rule, its constants and its source are in `datapath/policer.h`. Call [`Policer::tick`] when followers' packets
//! arrive and when the limit changes, and [`Policer::police`] once per packet of any other sender, in order of time.
//!
//! Worked example: a limit of 20 Mb/s and a UDP flood of 200 Mb/s. 0.31 s of the limit pass at once, then one packet in
//! ten.

use crate::abi;
use crate::parameters::limit;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoliceVerdict {
    /// It passes unchanged.
    Pass,
    /// It passes and is marked CE.
    Mark,
    /// It is dropped.
    Drop,
}

impl PoliceVerdict {
    /// From `WEIR_POLICE_*`.
    pub(crate) fn of(raw: i32) -> Self {
        match raw as u32 {
            abi::POLICE_PASS => Self::Pass,
            abi::POLICE_MARK => Self::Mark,
            _ => Self::Drop,
        }
    }
}

/// Polices the senders of one service at its receiver that do not apply feedback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policer {
    raw: abi::Policer,
}

impl Policer {
    /// Counts `followed` bytes of senders that apply feedback and `passed` bytes of others since the last call. Sets
    /// the rate of the others under the service's receive limit, unlimited or clamped to 10 kb/s to 8 Tb/s.
    /// `interval` is that of the service's meter. Returns the bytes that have left the virtual queue: the meter counts
    /// them in place of `passed`.
    pub fn tick(
        &mut self,
        now: Instant,
        limit: Bandwidth,
        interval: Duration,
        followed: Bytes,
        passed: Bytes,
    ) -> Bytes {
        let taken =
            abi::Taken { followed_bytes: followed.get(), stranger_bytes: passed.get(), ..abi::Taken::default() };
        self.tick_taken(now, limit, interval, &taken)
    }

    /// The same with the kernel's sums over all CPUs. Returns the bytes that the meter counts in all.
    pub fn tick_taken(&mut self, now: Instant, limit: Bandwidth, interval: Duration, taken: &abi::Taken) -> Bytes {
        let (limit, interval) = (self::limit(limit), interval.nanos());
        Bytes::new(abi::tick_policer(&mut self.raw, now.nanos(), limit, interval, 0, taken))
    }

    /// The decision about `bytes` in `segments` packets at `now`; `ect`: the sender uses ECN.
    pub fn police(&mut self, now: Instant, bytes: Bytes, segments: u32, ect: bool) -> PoliceVerdict {
        let bytes = u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        PoliceVerdict::of(abi::police(&mut self.raw, now.nanos(), bytes, segments, ect.into()))
    }

    /// The C structure.
    pub fn raw(&self) -> &abi::Policer {
        &self.raw
    }
}
