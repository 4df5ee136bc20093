//! [`CreditPort`]: the part of a PACE forwarder that runs per packet, which reduces allocations and counts data.
//!
//! The rule, its bounds and its source are in `datapath/credit.h`; [`weir_credits::Forwarder`] computes the values to
//! publish. A port is in the direction of the data: allocations arrive against it.
//!
//! Order of calls: [`CreditPort::publish`] before the first allocation and whenever the shares change;
//! [`CreditPort::on_request`] for each request; [`CreditPort::allocate`] for each allocation on its way to the sender,
//! after its demand is recorded if [`CreditPort::is_new`]; [`CreditPort::on_return`] for the values that come back,
//! before [`CreditPort::on_data`] for the packet that carries them; [`CreditPort::terminate`] at the end.
//!
//! A [`CreditFlow`] is the state of one flow at one port. It is to be kept for [`CreditPort::longest_lifetime`] after
//! the last new allocation: dropped sooner, the flow's data is late when it comes, or is taken for that of another
//! path, and allocations that follow a termination are granted. No call panics.
//!
//! Worked example: 1 Gb/s, p = 200 µs, two flows of weight 1.
//!
//! ```
//! use weir_credits::{Allocation, Period, Published, Return, WHOLE};
//! use weir_datapath::{CreditFlow, CreditPort, CreditPortSettings};
//! use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};
//!
//! let (rate, period) = (Bandwidth::from_gbps(1), Period::from_micros(200));
//! let most = Period::from_micros(5_100);
//! let mut port = CreditPort::new(&CreditPortSettings { rate, most, lossless: true });
//! // A half of the port for a weight of 1, which is 1000 thousandths.
//! let per_weight = (WHOLE << 16) / 2 / 1000;
//! port.publish(&Published { per_weight, rest: 0, period, longest: period });
//! let (mut flow, whole) = (CreditFlow::default(), Bytes::new(25_000));
//! let mut allocation = Allocation {
//!     clock: 1,
//!     period,
//!     longest: period,
//!     potential: whole,
//!     demand: whole,
//!     allocation: whole,
//!     weight: Weight::ONE,
//!     queueing: Duration::ZERO,
//! };
//! let at = |micros: u64| Instant::from_nanos(micros * 1000);
//! port.on_request(&mut flow, 0);
//! assert!(port.is_new(&flow, &allocation));
//! port.allocate(&mut flow, &mut allocation, at(0), Bytes::ZERO, true);
//! assert_eq!((allocation.allocation, port.outstanding()), (Bytes::new(12_500), Bytes::new(12_500)));
//! // Another port reduces it to 10,000 B, which come back with the first data.
//! let Allocation { potential, longest, queueing, .. } = allocation;
//! let returned = Return { clock: 1, period, longest, potential, allocation: Bytes::new(10_000), queueing };
//! port.on_return(&mut flow, &returned, at(100));
//! assert!(!port.on_data(&mut flow, Bytes::new(1_500), at(100)));
//! assert_eq!(port.outstanding(), Bytes::new(8_500));
//! // What is not sent expires; data is late then.
//! assert!(port.on_data(&mut flow, Bytes::new(1_500), at(2_000)));
//! assert_eq!((port.outstanding(), port.counters().expired), (Bytes::ZERO, 8_500));
//! ```

use crate::abi;
use weir_credits::{Allocation, Period, Published, Return};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The largest rate of the C code: 2⁴⁴ bit/s.
const RATE_MAX: u64 = 1 << 44;

/// The constants of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditPortSettings {
    /// R: the rate of the port that flows with credits have, from 1 bit/s to 2⁴⁴ bit/s (17 Tb/s); clamped.
    pub rate: Bandwidth,
    /// p-max: the longest period of this port and of its flows. The wheel of expiries has room for lifetimes of 15 such
    /// periods, three and two more for each of six ports; an allocation with a longer lifetime gets no credits.
    pub most: Period,
    /// Whether data beyond the grants is dropped.
    pub lossless: bool,
}

/// The state of a flow at one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreditFlow {
    raw: abi::CreditFlow,
}

impl CreditFlow {
    /// The C structure.
    pub fn raw(&self) -> &abi::CreditFlow {
        &self.raw
    }
}

/// The online part of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditPort {
    rules: abi::CreditRules,
    raw: Box<abi::CreditPort>,
}

impl CreditPort {
    /// A port without grants, which grants nothing before [`CreditPort::publish`]. Its senders cut frames to their
    /// credits.
    pub fn new(settings: &CreditPortSettings) -> Self {
        let longest = u64::from(3 + abi::CREDIT_WAIT_PERIODS) * settings.most.duration().nanos();
        // A grant may expire at the start of any slot but the present one, and lifetimes are rounded up.
        let slot = longest / u64::from(abi::CREDIT_SLOTS - 1) + 1;
        let rules = abi::CreditRules {
            rate: bits(settings.rate),
            slot_bits: slot.next_power_of_two().trailing_zeros(),
            lossless: settings.lossless.into(),
            ..abi::CreditRules::default()
        };
        Self { rules, raw: bytemuck::zeroed_box() }
    }

    /// The same port for senders that send whole frames of at most `frame`, as on Linux: a remainder below one frame is
    /// carried over, and frames up to 128 B, which are acknowledgements, need no credits.
    #[must_use]
    pub fn with_whole_frames(mut self, frame: Bytes) -> Self {
        self.rules.carry = narrow(frame).saturating_sub(1);
        self.rules.exempt = abi::CREDIT_EXEMPT;
        self
    }

    /// The values for allocations from now on. a_w is clamped to the whole port.
    pub fn publish(&mut self, published: &Published) {
        self.rules.per_weight = published.per_weight.min(abi::CREDIT_WHOLE);
        self.rules.rest = published.rest;
        self.rules.period = published.period.micros();
        self.rules.longest = published.longest.micros();
    }

    /// R has changed, clamped as in [`CreditPortSettings::rate`]. Grants are kept.
    pub fn set_rate(&mut self, rate: Bandwidth) {
        self.rules.rate = bits(rate);
    }

    /// The port has lost its state: it grants nothing before `until`, by when all grants from before have expired, and
    /// data that arrives before is not late.
    pub fn close_until(&mut self, until: Instant) {
        self.rules.closed_until = until.nanos();
    }

    /// The longest lifetime of a grant, to which a restart closes the port.
    pub fn longest_lifetime(&self) -> Duration {
        Duration::from_nanos(u64::from(abi::CREDIT_SLOTS) << self.rules.slot_bits)
    }

    /// A sender requests credits; `clock` is that of the newest allocation that it has had, or 0. Without a request, a
    /// flow that the port has not seen counts as one from another path. A clock before those of the port is void,
    /// unless no grant of the flow lives: both ends have lost their clocks then, and the port continues from this one.
    pub fn on_request(&self, flow: &mut CreditFlow, clock: u32) {
        abi::credit_request(&self.raw, &mut flow.raw, clock);
    }

    /// Whether an allocation is later than the flow's newest, and the flow is not over. Others get no credits, and are
    /// not to change the shares.
    pub fn is_new(&self, flow: &CreditFlow, allocation: &Allocation) -> bool {
        abi::credit_is_new(&flow.raw, &to_raw(allocation)) != 0
    }

    /// An allocation of a flow arrives, and is reduced to the flow's share and to what the port can hold beside its
    /// grants and `queued` bytes of data. If the flow's data leaves by another port (not `direct`), it gets no credits.
    /// Lengths of time are rounded up to microseconds.
    pub fn allocate(
        &mut self,
        flow: &mut CreditFlow,
        allocation: &mut Allocation,
        now: Instant,
        queued: Bytes,
        direct: bool,
    ) {
        let mut raw = to_raw(allocation);
        if direct {
            let queued = narrow(queued);
            self.advance(now);
            abi::credit_allocate(&mut self.raw, &self.rules, &mut flow.raw, &mut raw, now.nanos(), queued);
        } else {
            abi::credit_astray(&mut self.raw, &mut raw);
        }
        allocation.period = Period::from_micros(raw.period);
        allocation.longest = Period::from_micros(raw.longest);
        allocation.potential = Bytes::new(raw.potential.into());
        allocation.demand = Bytes::new(raw.demand.into());
        allocation.allocation = Bytes::new(raw.allocation.into());
        allocation.queueing = Duration::from_micros(raw.queueing.into());
    }

    /// The values of an allocation come back, before the first data or alone: cuts of later ports are released, and the
    /// lifetime of the grant is corrected.
    pub fn on_return(&mut self, flow: &mut CreditFlow, returned: &Return, now: Instant) {
        self.advance(now);
        abi::credit_return(&mut self.raw, &self.rules, &mut flow.raw, &returned_to_raw(returned));
    }

    /// A packet of a flow's data arrives. Returns whether it is dropped: it is late, and the port is lossless.
    pub fn on_data(&mut self, flow: &mut CreditFlow, bytes: Bytes, now: Instant) -> bool {
        self.advance(now);
        abi::credit_data(&mut self.raw, &self.rules, &mut flow.raw, narrow(bytes), now.nanos()) != 0
    }

    /// A packet of data arrives of a flow for which the driver keeps no state. Returns whether it is dropped.
    pub fn on_unknown_data(&mut self, bytes: Bytes, now: Instant) -> bool {
        self.advance(now);
        abi::credit_unknown(&mut self.raw, &self.rules, narrow(bytes), now.nanos()) != 0
    }

    /// A flow is over: its grants are released. Allocations get nothing before [`CreditPort::on_request`].
    pub fn terminate(&mut self, flow: &mut CreditFlow, now: Instant) {
        self.advance(now);
        abi::credit_terminate(&mut self.raw, &mut flow.raw);
    }

    /// Grants expire.
    fn advance(&mut self, now: Instant) {
        abi::credit_advance(&mut self.raw, &self.rules, now.nanos());
    }

    /// A: bytes granted that had not arrived, been released or expired at the last call.
    pub fn outstanding(&self) -> Bytes {
        Bytes::new(self.raw.outstanding)
    }

    /// The counters since the port's start.
    pub fn counters(&self) -> &abi::CreditCounters {
        &self.raw.counters
    }

    /// The C structure of the state.
    pub fn raw(&self) -> &abi::CreditPort {
        &self.raw
    }

    /// The C structure of the settings and the published values.
    pub fn rules(&self) -> &abi::CreditRules {
        &self.rules
    }
}

/// The fields of an allocation that ports read; lengths of time rounded up.
pub(crate) fn to_raw(allocation: &Allocation) -> abi::Allocation {
    abi::Allocation {
        clock: allocation.clock,
        period: allocation.period.micros(),
        longest: allocation.longest.micros(),
        potential: narrow(allocation.potential),
        demand: narrow(allocation.demand),
        allocation: narrow(allocation.allocation),
        weight: allocation.weight.thousandths(),
        queueing: micros(allocation.queueing),
    }
}

fn returned_to_raw(returned: &Return) -> abi::Returned {
    abi::Returned {
        clock: returned.clock,
        period: returned.period.micros(),
        longest: returned.longest.micros(),
        potential: narrow(returned.potential),
        allocation: narrow(returned.allocation),
        queueing: micros(returned.queueing),
    }
}

/// Whole microseconds, rounded up; at most 2³² − 1.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.nanos().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// Narrows to the 32 bits of messages and of the C code.
pub(crate) fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

fn bits(rate: Bandwidth) -> u64 {
    rate.bps().clamp(1, RATE_MAX)
}
