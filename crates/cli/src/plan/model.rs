//! The content of a plan: for each service with a latency target, its queue and the estimates.

use weir_latency::{Burst, Load};
use weir_planning::Point;
use weir_policy::LatencyTarget;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Duration, PerDirection};

/// The method for a completion time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Method {
    /// The M/M/1 queue.
    Mm1,
    /// The burst bound.
    Bound,
    /// The trace, simulated.
    Trace,
}

impl Method {
    /// The name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mm1 => "M/M/1",
            Self::Bound => "burst bound",
            Self::Trace => "trace",
        }
    }
    /// The name for programs and the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mm1 => "mm1",
            Self::Bound => "bound",
            Self::Trace => "trace",
        }
    }
}

/// A value, or the reason for its absence.
pub(crate) type Found<T> = Result<T, String>;

/// The estimates of one method.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) method: Method,
    /// The completion time at the planned capacity and load.
    pub(crate) time: Found<Duration>,
    /// The highest load on the planned capacity that keeps the target; `None` for any below 100 %.
    pub(crate) largest_load: Found<Option<Load>>,
    /// The lowest capacity that keeps the target: at the planned load, or under the trace as it is.
    pub(crate) smallest_capacity: Found<Bandwidth>,
    /// The assumptions in one line.
    pub(crate) assumes: String,
}

impl Estimate {
    /// Whether a load keeps the target.
    pub(crate) fn keeps(&self, load: Option<Load>) -> bool {
        match (&self.largest_load, load) {
            (Ok(Some(most)), Some(load)) => load <= *most,
            (Ok(None), Some(_)) => true,
            _ => false,
        }
    }
}

/// A trace as it is, at one capacity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AsItIs {
    pub(crate) capacity: Bandwidth,
    /// `None` for 100 % and more.
    pub(crate) load: Option<Load>,
    pub(crate) time: Found<Duration>,
}

/// The plan of one service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServicePlan {
    pub(crate) path: String,
    pub(crate) target: LatencyTarget,
    /// The capacity of the planned queue, and its origin.
    pub(crate) capacity: Bandwidth,
    pub(crate) capacity_from: String,
    /// The highest load on it; `None` if it may reach 100 %.
    pub(crate) load: Option<Load>,
    pub(crate) load_from: String,
    pub(crate) burst: Burst,
    /// σ at the planned capacity.
    pub(crate) sigma: Bytes,
    pub(crate) estimates: Vec<Estimate>,
    /// The trace at the requested capacities.
    pub(crate) as_it_is: Vec<AsItIs>,
    /// The trace's completion times by load, for the curve.
    pub(crate) trace_curve: Vec<(Load, Duration)>,
    /// The assumptions of all estimates, one line each.
    pub(crate) assumes: Vec<String>,
    /// The deciding method.
    pub(crate) by: Method,
}

impl ServicePlan {
    /// The deciding estimate.
    pub(crate) fn deciding(&self) -> Option<&Estimate> {
        self.estimates.iter().find(|estimate| estimate.method == self.by)
    }
    /// Whether the deciding estimate keeps the target at `load`.
    pub(crate) fn keeps(&self, load: Option<Load>) -> bool {
        self.deciding().is_some_and(|estimate| estimate.keeps(load))
    }
    /// Whether it keeps the target at the planned load.
    pub(crate) fn is_kept(&self) -> bool {
        self.keeps(self.load)
    }
}

/// A cap that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededCap {
    pub(crate) point: ContentionPoint,
    pub(crate) cap: PerDirection<Option<Bandwidth>>,
}

/// The plan of a policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) points: Vec<Point>,
    pub(crate) services: Vec<ServicePlan>,
    /// The highest load that keeps every target; `None` if every load does, an error if none does.
    pub(crate) most: Found<Option<Load>>,
    /// The caps that bring the load down to it; empty if none is needed, or if none would help.
    pub(crate) caps: Vec<NeededCap>,
    /// Why the policy with these caps would be refused.
    pub(crate) refused: Option<String>,
}

impl Plan {
    /// Whether every target is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.services.iter().all(ServicePlan::is_kept)
    }
}
