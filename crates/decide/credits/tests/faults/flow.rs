//! The ends of a flow in the world.

use crate::plan::{Application, FRAME, FlowPlan, Variant};
use crate::world::Nanos;
use std::collections::BTreeMap;
use weir_credits::{Allocation, Receiver, Return, Sender, SenderSettings};
use weir_units::{Bytes, Duration, Instant};

/// The shortest part of a packet that is worth a frame.
const SHORTEST: u64 = 64;
/// A backlog that no world sends.
const ENDLESS: u64 = 1 << 40;

/// Timers of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Receiver,
    Request,
    Departure,
    Write,
    Rogue,
}

/// A flow with both ends.
pub(crate) struct Flow {
    pub(crate) plan: FlowPlan,
    pub(crate) sender: Sender,
    pub(crate) receiver: Option<Receiver>,
    whole_frames: bool,
    variant: Variant,
    /// Bytes that wait.
    pub(crate) backlog: u64,
    /// d_p as it arrived last.
    pub(crate) potential: Bytes,
    pub(crate) started: bool,
    pub(crate) over: bool,
    pub(crate) rogue_until: Nanos,
    /// Until then, data may be late: the flow has another path.
    pub(crate) excluded_until: Nanos,
    pub(crate) outage_until: Nanos,
    /// Bytes of grants at each port that data beyond the credits has used: as much of the other data may be late.
    pub(crate) debts: BTreeMap<usize, u64>,
    /// Bytes that may be late after that: a remainder of a whole frame has no grant on the new path, and is carried
    /// over together with later ones that have.
    pub(crate) remainder: u64,
    /// The path that it takes at each trunk.
    pub(crate) paths: Vec<usize>,
    pub(crate) due: [Option<Nanos>; 5],
    pub(crate) delivered: u64,
}

/// The next step of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A packet of that size leaves now.
    Send(u64),
    /// The next one leaves then.
    Wait(Nanos),
    /// Nothing can be sent.
    Nothing,
}

impl Flow {
    pub(crate) fn new(plan: FlowPlan, trunks: usize, whole_frames: bool, variant: Variant) -> Self {
        let sender = Self::begin(&plan, whole_frames, variant, plan.start);
        Self {
            plan,
            sender,
            receiver: None,
            whole_frames,
            variant,
            backlog: 0,
            potential: Bytes::ZERO,
            started: false,
            over: false,
            rogue_until: 0,
            excluded_until: 0,
            outage_until: 0,
            debts: BTreeMap::new(),
            remainder: 0,
            paths: vec![0; trunks],
            due: [None; 5],
            delivered: 0,
        }
    }

    fn begin(plan: &FlowPlan, whole_frames: bool, variant: Variant, now: Nanos) -> Sender {
        let timeout = [Duration::from_millis(5), Duration::from_millis(20)];
        let whole_frames = whole_frames && !variant.no_carry;
        let settings = SenderSettings { weight: plan.weight, frame: Bytes::new(FRAME), whole_frames, timeout };
        Sender::new(Instant::from_nanos(now), settings)
    }

    /// The flow begins.
    pub(crate) fn start(&mut self) {
        self.started = true;
        self.backlog = match self.plan.application {
            Application::Backlog => ENDLESS,
            Application::Size(bytes) => bytes,
            Application::Rate(_) => 0,
        };
    }

    /// The application adds a frame; returns the time to the next one.
    pub(crate) fn write(&mut self, now: Nanos) -> Option<Nanos> {
        let Application::Rate(rate) = self.plan.application else { return None };
        self.backlog += FRAME;
        self.sender.on_write(Instant::from_nanos(now), Bytes::new(FRAME));
        Some(FRAME * 8_000_000_000 / rate.bps())
    }

    /// An allocation arrives; returns whether it counts.
    pub(crate) fn on_allocation(&mut self, now: Nanos, allocation: &Allocation) -> bool {
        let counts = self.sender.on_allocation(Instant::from_nanos(now), allocation, Bytes::new(self.backlog));
        if counts {
            self.potential = allocation.potential;
        }
        counts
    }

    /// The next step of the sender.
    pub(crate) fn step(&self, now: Nanos) -> Step {
        let departure = self.sender.departure().nanos().max(now);
        let credit = self.sender.credit(Instant::from_nanos(departure)).get();
        let most = FRAME.min(self.backlog);
        let size = if self.whole_frames { most } else { most.min(credit) };
        if size == 0 || size > credit || size < SHORTEST.min(self.backlog) {
            return Step::Nothing;
        }
        if departure > now { Step::Wait(departure) } else { Step::Send(size) }
    }

    /// A packet leaves; returns whether it is within the credits.
    pub(crate) fn send(&mut self, bytes: u64) -> bool {
        let covered = self.sender.spend(Bytes::new(bytes));
        self.backlog = self.backlog.saturating_sub(bytes);
        if self.backlog == 0 {
            self.sender.on_empty();
        }
        covered
    }

    /// More data, also after the end.
    pub(crate) fn extend(&mut self, now: Nanos, bytes: u64) {
        self.over = false;
        self.backlog += bytes;
        self.sender.on_write(Instant::from_nanos(now), Bytes::new(bytes));
    }

    /// The values to return.
    pub(crate) fn take_return(&mut self) -> Option<Return> {
        let mut returned = self.sender.take_return()?;
        if self.variant.full_potential {
            returned.potential = self.potential;
        }
        if self.variant.plain_lifetime {
            returned.queueing = Duration::ZERO;
        }
        Some(returned)
    }

    /// Whether it has sent all that it has to send.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.plan.application, Application::Size(_)) && self.started && self.backlog == 0
    }
}
