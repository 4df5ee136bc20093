//! [`CreditGate`]: the departures of a PACE sender of whole frames.
//!
//! The rule, its bounds and its source are in `datapath/credit_gate.h`. It is [`weir_credits::Sender`] with
//! `whole_frames`, without requests, in the form that runs per packet in the kernel. Call [`CreditGate::offer`] for
//! each frame that is added to those that wait, [`CreditGate::departure`] for the first of these, and
//! [`CreditGate::take_return`] after each allocation.
//!
//! Worked example: 5,000 B in 200 µs. Three frames of 1,514 B leave after 0, 60.56 and 121.12 µs; the fourth waits.
//!
//! ```
//! use weir_credits::{Allocation, Period};
//! use weir_datapath::CreditGate;
//! use weir_units::{Bytes, Duration, Instant, Weight};
//!
//! let (period, bytes) = (Period::from_micros(200), Bytes::new(5_000));
//! let allocation = Allocation {
//!     clock: 1,
//!     period,
//!     longest: period,
//!     potential: Bytes::new(25_000),
//!     demand: bytes,
//!     allocation: bytes,
//!     weight: Weight::ONE,
//!     queueing: Duration::ZERO,
//! };
//! let mut gate = CreditGate::new(Instant::ZERO, Bytes::new(1_514));
//! assert!(gate.on_allocation(Instant::ZERO, &allocation, Bytes::new(20_000)));
//! let departures = [(); 4].map(|()| gate.departure(Instant::ZERO, Bytes::new(1_514)).map(Instant::nanos));
//! assert_eq!(departures, [Some(0), Some(60_560), Some(121_120), None]);
//! assert_eq!(gate.take_return().map(|returned| returned.potential), Some(Bytes::new(15_000)));
//! assert_eq!((gate.take_return(), gate.credit(Instant::ZERO)), (None, Bytes::new(458)));
//! ```

use crate::abi;
use crate::credit::{narrow, to_raw};
use weir_credits::{Allocation, Period, Return};
use weir_units::{Bytes, Duration, Instant};

/// The credits of one flow at its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditGate {
    raw: abi::CreditGate,
}

impl CreditGate {
    /// A flow without credits that begins at `now`; `frame` is the largest frame on the wire, at least 1 B.
    pub fn new(now: Instant, frame: Bytes) -> Self {
        let mut raw = abi::CreditGate::default();
        abi::credit_gate_init(&mut raw, narrow(frame).max(1), now.nanos());
        Self { raw }
    }

    /// An allocation has arrived; `backlog` bytes wait. Returns whether it is later than the newest one, and counts.
    pub fn on_allocation(&mut self, now: Instant, allocation: &Allocation, backlog: Bytes) -> bool {
        abi::credit_gate_allocate(&mut self.raw, &to_raw(allocation), narrow(backlog), now.nanos()) != 0
    }

    /// A frame is added to those that wait.
    pub fn offer(&mut self, bytes: Bytes) {
        abi::credit_gate_offer(&mut self.raw, narrow(bytes));
    }

    /// The departure of a frame at `now` or later, at most 1 µs early for allocations up to 1 GiB; its credits are
    /// spent. `None` if there are too few, or if the period of the allocation is over. Frames up to 128 B leave at
    /// `now`.
    pub fn departure(&mut self, now: Instant, bytes: Bytes) -> Option<Instant> {
        let departure = abi::credit_gate_departure(&mut self.raw, narrow(bytes), now.nanos());
        (departure != u64::MAX).then(|| Instant::from_nanos(departure))
    }

    /// The values to return, once for each allocation.
    pub fn take_return(&mut self) -> Option<Return> {
        let mut raw = abi::Returned::default();
        (abi::credit_gate_take_return(&mut self.raw, &mut raw) != 0).then(|| Return {
            clock: raw.clock,
            period: Period::from_micros(raw.period),
            longest: Period::from_micros(raw.longest),
            potential: Bytes::new(raw.potential.into()),
            allocation: Bytes::new(raw.allocation.into()),
            queueing: Duration::from_micros(raw.queueing.into()),
        })
    }

    /// The credits that are left at `now`: none after the end of the period, until the next allocation.
    pub fn credit(&self, now: Instant) -> Bytes {
        let end = self.raw.began + u64::from(self.raw.period) * 1000;
        if now.nanos() > end { Bytes::ZERO } else { Bytes::new(abi::credit_gate_left(&self.raw).into()) }
    }

    /// The C structure.
    pub fn raw(&self) -> &abi::CreditGate {
        &self.raw
    }
}
