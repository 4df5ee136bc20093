//! The content of a plan: for each service with a latency target, its queue and the estimates.

use super::network::Timer;
use weir_latency::Burst;
use weir_latency::plan::{Gap, Point, PortNeed, Verdict};
use weir_policy::LatencyTarget;
use weir_units::{BILLION, Bandwidth, Bytes, ContentionPoint, Duration, Load, PerDirection, ServiceId};

/// The method for a completion time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The M/M/1 queue.
    Mm1,
    /// The burst bound.
    Bound,
    /// The trace, simulated.
    Trace,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Mm1, Self::Bound, Self::Trace];

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Mm1 => "M/M/1",
            Self::Bound => "burst bound",
            Self::Trace => "trace",
        }
    }
    /// The name for programs and the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mm1 => "mm1",
            Self::Bound => "bound",
            Self::Trace => "trace",
        }
    }
}

/// A value, or the reason for its absence.
pub type Found<T> = Result<T, String>;

/// The estimates of one method. Each value keeps the target, or is the time; it varies one of the planned capacity and
/// load, and holds what its comment names.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The method.
    pub method: Method,
    /// The completion time at the planned capacity and load.
    pub time: Found<Duration>,
    /// The highest load on the planned capacity that keeps the target; `None` for any below 100 %.
    pub largest_load: Found<Option<Load>>,
    /// The lowest capacity that keeps the target at the planned load, a part of that capacity.
    pub capacity_at_load: Found<Bandwidth>,
    /// The lowest capacity that keeps the target for the planned traffic, in bit/s.
    pub capacity_for_traffic: Found<Bandwidth>,
    /// The assumptions in one line.
    pub assumes: String,
}

impl Estimate {
    /// Whether a load keeps the target.
    pub fn keeps(&self, load: Option<Load>) -> bool {
        match (&self.largest_load, load) {
            (Ok(Some(most)), Some(load)) => load <= *most,
            (Ok(None), Some(_)) => true,
            _ => false,
        }
    }
}

/// A trace as it is, at one capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct AsItIs {
    /// The capacity.
    pub capacity: Bandwidth,
    /// A part of the capacity, above 1 where more arrives.
    pub load: f64,
    /// The completion time.
    pub time: Found<Duration>,
}

/// The whole of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSummary {
    /// Its file.
    pub name: String,
    /// The number of messages.
    pub messages: u64,
    /// The sum of their sizes.
    pub bytes: u128,
    /// From the first message to the last.
    pub span: Duration,
    /// The longest time between a message and the next one.
    pub longest_gap: Duration,
    /// The mean rate over the span, rounded down to bit/s.
    pub offered: Bandwidth,
}

impl TraceSummary {
    /// Whether the times look like those of another unit: more than a day, or messages in bursts with more time between
    /// them than the rest of the trace lasts.
    pub fn has_strange_times(&self) -> bool {
        const DAY: Duration = Duration::from_secs(86_400);
        self.span > DAY || (self.messages > 2 && self.longest_gap.nanos() > self.span.nanos() / 2)
    }
}

/// The plan of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicePlan {
    /// The service.
    pub id: ServiceId,
    /// Its path.
    pub path: String,
    /// Its target.
    pub target: LatencyTarget,
    /// The capacity of the planned queue.
    pub capacity: Bandwidth,
    /// The origin of the capacity.
    pub capacity_from: String,
    /// The highest load on it; `None` if it may reach 100 %.
    pub load: Option<Load>,
    /// The origin of the load.
    pub load_from: String,
    /// The burst beyond the peak load.
    pub burst: Burst,
    /// σ at the planned capacity.
    pub sigma: Bytes,
    /// The estimates, one for each method.
    pub estimates: Vec<Estimate>,
    /// The trace at the planned and the requested capacities.
    pub as_it_is: Vec<AsItIs>,
    /// The trace at the lowest capacity that keeps the target for it as it is; `None` without a trace.
    pub as_it_is_smallest: Option<Found<AsItIs>>,
    /// The trace's completion times by load, for the curve.
    pub trace_curve: Vec<(Load, Duration)>,
    /// The assumptions of all estimates, one line each.
    pub assumes: Vec<String>,
    /// The deciding method.
    pub by: Method,
    /// The buffers that the bound needs at the ports of switches.
    pub needs: Vec<PortNeed>,
    /// The premises of the bound that are not known to hold.
    pub gaps: Vec<Gap>,
    /// The timer that repairs the loss of a message's last packets.
    pub timer: Timer,
}

/// The traffic of a load on a capacity, rounded down to bit/s; `None` is 100 %.
pub(super) fn traffic(capacity: Bandwidth, load: Option<Load>) -> Bandwidth {
    let part = |load: Load| u128::from(capacity.bps()) * u128::from(load.billionths()) / u128::from(BILLION);
    // Below the capacity, since the load is below one.
    load.map_or(capacity, |load| Bandwidth::from_bps(part(load) as u64))
}

impl ServicePlan {
    /// The planned traffic.
    pub fn traffic(&self) -> Bandwidth {
        traffic(self.capacity, self.load)
    }
    /// The deciding estimate.
    pub fn deciding(&self) -> Option<&Estimate> {
        self.estimates.iter().find(|estimate| estimate.method == self.by)
    }
    /// Whether the deciding estimate keeps the target at `load`.
    pub fn keeps(&self, load: Option<Load>) -> bool {
        self.deciding().is_some_and(|estimate| estimate.keeps(load))
    }
    /// Whether it keeps the target at the planned load. The bound's premises count where the bound
    /// decides; the other methods state no worst case.
    pub fn verdict(&self) -> Verdict {
        match self.keeps(self.load) {
            false => Verdict::NotKept,
            true if self.by == Method::Bound && !self.gaps.is_empty() => Verdict::Unproven,
            true => Verdict::Kept,
        }
    }
    /// Why the target is unproven, a clause each. Equal clauses of both directions appear once, and
    /// of the overloads of uplinks only the worst: the same maxima prevent the other.
    pub fn doubts(&self) -> Vec<String> {
        if self.verdict() != Verdict::Unproven {
            return Vec::new();
        }
        let excess = |gap: &Gap| match gap {
            Gap::Overload(overload) => overload.excess.map(|excess| excess.burst),
            Gap::Buffer(_) | Gap::Limiter(_) => None,
        };
        let worst = self.gaps.iter().filter_map(excess).max();
        let mut doubts: Vec<String> = Vec::new();
        let shown = self.gaps.iter().filter(|gap| excess(gap).is_none() || excess(gap) == worst);
        for doubt in shown.map(ToString::to_string) {
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
        doubts
    }
    /// Whether the target is unproven since packets may be lost.
    pub fn may_lose(&self) -> bool {
        self.verdict() == Verdict::Unproven && self.gaps.iter().any(Gap::may_lose)
    }
    /// The completion time with `timeouts` timeouts after each other, if the deciding method has
    /// one and losses are repaired.
    pub fn with_timeouts(&self, timeouts: u32) -> Option<Duration> {
        let time = self.deciding()?.time.as_ref().ok()?;
        let wait = weir_latency::retransmission::wait(self.timer.shortest?, timeouts);
        Some(Duration::from_nanos(time.nanos().saturating_add(wait.nanos())))
    }
}

/// A cap that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededCap {
    /// The contention point.
    pub point: ContentionPoint,
    /// The cap of each direction that needs one.
    pub cap: PerDirection<Option<Bandwidth>>,
}

/// The plan of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The points where messages contend.
    pub points: Vec<Point>,
    /// The trace, if there is one.
    pub trace: Option<TraceSummary>,
    /// The services with a target.
    pub services: Vec<ServicePlan>,
    /// The highest load that keeps every target; `None` if every load does, an error if none does.
    pub most: Found<Option<Load>>,
    /// The caps that bring the load down to it; empty if none is needed, or if none would help.
    pub caps: Vec<NeededCap>,
    /// Why the policy with these caps would be refused.
    pub refused: Option<String>,
}

impl Plan {
    /// Whether a target is not kept at the planned load, whatever the premises.
    pub fn exceeds_a_target(&self) -> bool {
        self.services.iter().any(|service| service.verdict() == Verdict::NotKept)
    }
    /// Whether every target is kept.
    pub fn is_kept(&self) -> bool {
        self.services.iter().all(|service| service.verdict() == Verdict::Kept)
    }
}
