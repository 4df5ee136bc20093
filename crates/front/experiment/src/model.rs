//! The valid experiment: every file that it names was read, and every name in it is resolved.

use crate::datacenter::Datacenter;
use crate::figure::Figure;
use crate::unit::{Dimension, Unit};
use std::path::PathBuf;
use std::sync::Arc;
use weir_latency::BurstBound;
use weir_policy::{Demands, Policy};
use weir_results::Percentile;
use weir_scenario::Scenario;
use weir_tenancy::Quantity;
use weir_units::{
    Bandwidth, Bytes, ContentionPoint, Direction, Duration, Load, MachineId, Quantile, RackId, ServiceId,
};

/// The size of a run: enough to see the result, or the paper's if that is practical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Setting {
    /// Ends within a minute on two cores.
    #[default]
    Quick,
    /// The file's full size.
    Full,
}

impl Setting {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Quick, Self::Full];
    /// `quick` or `full`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// A value that may differ between the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerSetting<T> {
    /// In the quick setting.
    pub quick: T,
    /// In the full one.
    pub full: T,
}

impl<T> PerSetting<T> {
    /// That of one setting.
    pub fn get(&self, setting: Setting) -> &T {
        match setting {
            Setting::Quick => &self.quick,
            Setting::Full => &self.full,
        }
    }
}

/// A published experiment that can be run.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The name on the command line.
    pub id: String,
    /// Its claim.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// About how long it takes on two cores.
    pub takes: PerSetting<Duration>,
    /// The runs, in the file's order; none if all values are computed.
    pub runs: Vec<Run>,
    /// The datacenters, in the file's order.
    pub datacenters: Vec<Datacenter>,
    /// The values, in the file's order; at least one.
    pub values: Vec<Value>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Remarks that a reader of the comparison needs.
    pub notes: Vec<String>,
}

impl Experiment {
    /// The run with this name.
    pub fn run_named(&self, name: &str) -> Option<usize> {
        self.runs.iter().position(|run| run.name == name)
    }
}

/// A scenario with some values changed.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its name in the file.
    pub name: String,
    /// The scenario's file.
    pub path: PathBuf,
    /// The changes: path and value, as `weir sim --set` takes them.
    pub set: PerSetting<Vec<(String, String)>>,
    /// The number of seeds, from the scenario's own on; values are means over them.
    pub seeds: PerSetting<u32>,
    /// Published rates are this many times the scenario's.
    pub scale: u32,
    /// The scenario, with the changes.
    pub scenario: PerSetting<Arc<Scenario>>,
}

/// A value that a paper prints, or that belongs beside one.
#[derive(Debug, Clone)]
pub struct Value {
    /// Its name; unique in the experiment.
    pub metric: String,
    /// The unit in which it is shown.
    pub unit: Unit,
    /// As published; `None` where the source prints no number.
    pub published: Option<Published>,
    /// Its source: a section, a figure, a table.
    pub place: String,
    /// The measure of its counterpart.
    pub measure: Measure,
    /// The expectation; `None` if it is only shown.
    pub expected: Option<Expected>,
    /// The reason of a difference from the published value, if there is one.
    pub note: Option<String>,
}

/// A published number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// In the base unit.
    pub value: f64,
    /// Digits printed behind the point, in the value's unit.
    pub decimals: usize,
}

/// The expectation of a measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// The published number once it is rounded to as many digits.
    AsPrinted,
    /// At most this far from the published one, as a fraction of it.
    Within(f64),
    /// At most this far, as a fraction of it, from a number that the source does not print, in the base unit.
    Near(f64, f64),
    /// At most this, in the base unit.
    AtMost(f64),
    /// At least this, in the base unit.
    AtLeast(f64),
    /// In a relation to another measured value.
    Beside(Which, usize),
}

/// A relation to another measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Which {
    /// At most this fraction from it.
    Within(f64),
    /// At most so many times it, and so much more, in the base unit.
    AtMost(f64, f64),
    /// At least so many times it.
    AtLeast(f64),
}

/// A part of a run, from the start of the traffic on; `from` is before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where it starts.
    pub from: Duration,
    /// Where it ends.
    pub to: Duration,
}

/// The subject of a bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// A service at the measured uplink, or all services together: frames as the link carries them.
    Service(Option<ServiceId>),
    /// The bytes that reached the receivers of a flow group, by name, in full frames.
    FlowGroup(String),
    /// The frames over a watched link, by name.
    Link(String),
    /// The frames of a service that machine shapers sent, of one machine or of all.
    Sent(ServiceId, Option<MachineId>),
    /// The frames of a service that they received.
    Received(ServiceId, Option<MachineId>),
}

/// The measure of a published value's counterpart. Runs are indices into [`Experiment::runs`].
#[derive(Debug, Clone)]
pub enum Measure {
    /// The mean bandwidth over a window.
    Bandwidth {
        /// The run.
        run: usize,
        /// The subject.
        of: Counted,
        /// The part of the run.
        window: PerSetting<Window>,
    },
    /// The mean or a percentile of the completion times of the flows of a flow group that start in a window.
    CompletionTime {
        /// The run.
        run: usize,
        /// The flow group.
        group: String,
        /// Which percentile; `None` for the mean.
        percentile: Option<Percentile>,
        /// Only flows of more bytes.
        above: Bytes,
        /// The part of the run.
        window: PerSetting<Window>,
    },
    /// The mean slowdown of flows of a flow group, or a percentile.
    Slowdown {
        /// The run.
        run: usize,
        /// The flows.
        of: SlowdownOf,
    },
    /// A counter of a run.
    Counter {
        /// The run.
        run: usize,
        /// Its name in results.
        name: String,
        /// The counter by which it is divided, if any.
        per: Option<String>,
    },
    /// The mean over a window of the rate R that a receive meter advertises to its senders.
    MeterRate {
        /// The run.
        run: usize,
        /// The service.
        service: ServiceId,
        /// The receiving machine.
        machine: MachineId,
        /// The part of the run.
        window: PerSetting<Window>,
    },
    /// The fairness of mean bandwidths over a window.
    Fairness {
        /// The run.
        run: usize,
        /// The subjects.
        of: Vec<Counted>,
        /// The number.
        index: FairnessIndex,
        /// The part of the run.
        window: PerSetting<Window>,
    },
    /// A percentile of a link's queue over the samples of a window, in packets.
    Queue {
        /// The run.
        run: usize,
        /// The link.
        link: String,
        /// Which percentile.
        percentile: Percentile,
        /// The size of a packet.
        packet: Bytes,
        /// The part of the run.
        window: PerSetting<Window>,
    },
    /// How long from the start of a window on until the bandwidth is at most a limit for the rest
    /// of it.
    Settling {
        /// The run.
        run: usize,
        /// The subject.
        of: Counted,
        /// The limit, at the published scale.
        limit: Bandwidth,
        /// The part of the run.
        window: PerSetting<Window>,
    },
    /// A measurement of a latency level.
    Level {
        /// The run.
        run: usize,
        /// The number of the level, from 1 on.
        level: u32,
        /// The measured quantity.
        of: LevelQuantity,
        /// For [`LevelQuantity::Queue`]: the link that names a class of ports.
        link: Option<String>,
    },
    /// The time for a frame of a latency level at a host, or its rate.
    NetworkEpoch {
        /// The number of hosts.
        hosts: u32,
        /// The size of a frame.
        packet: Bytes,
        /// The rate of the slowest link.
        capacity: Bandwidth,
        /// The factor of the level.
        factor: u32,
        /// Frames of each host in an epoch: 1 or 2.
        frames: u32,
        /// Whether the rate is wanted, and not the time.
        rate: bool,
    },
    /// The allocation of a policy for demands.
    Allocation {
        /// The policy.
        policy: Arc<Policy>,
        /// The demands.
        demands: Arc<Demands>,
        /// The service.
        service: ServiceId,
        /// One machine, or the sum of all.
        machine: Option<MachineId>,
        /// The direction.
        direction: Direction,
        /// The number that is compared.
        share: Share,
    },
    /// A share in a policy.
    PolicyShare {
        /// The policy.
        policy: Arc<Policy>,
        /// The service.
        service: ServiceId,
        /// The contention point.
        point: ContentionPoint,
        /// The direction.
        direction: Direction,
        /// Its minimum; else its maximum.
        min: bool,
    },
    /// The capacity of a rack's uplink by a policy.
    PolicyCapacity {
        /// The policy.
        policy: Arc<Policy>,
        /// The rack.
        rack: RackId,
        /// The direction.
        direction: Direction,
    },
    /// The completion time that holds in every case (Parley equation 2).
    Bound {
        /// The message and the burst.
        bound: BurstBound,
        /// The queue's speed.
        capacity: Bandwidth,
        /// The load on it.
        load: Load,
    },
    /// The burst of a congestion control that converges in some time, in packets.
    Burst {
        /// The queue's speed.
        capacity: Bandwidth,
        /// The time of convergence.
        convergence: Duration,
        /// The size of a packet.
        packet: Bytes,
    },
    /// The completion time of an M/M/1 queue by formula.
    Mm1 {
        /// The queue's speed.
        capacity: Bandwidth,
        /// The load on it.
        load: Load,
        /// The mean message.
        message: Bytes,
        /// Which quantile.
        quantile: Quantile,
    },
    /// The same of a simulated queue.
    Mm1Queue {
        /// The queue's speed.
        capacity: Bandwidth,
        /// The load on it.
        load: Load,
        /// The mean message.
        message: Bytes,
        /// Which percentile.
        percentile: Percentile,
        /// How many messages.
        messages: PerSetting<u64>,
    },
    /// A number of a datacenter that is filled with tenants.
    Datacenter {
        /// The datacenter, an index into [`Experiment::datacenters`].
        datacenter: usize,
        /// The number.
        of: Quantity,
    },
    /// The bandwidth that a tenant reserves of a machine's link, by the hose model.
    Reservation {
        /// By machine, the bandwidths of the tenant's virtual machines on it.
        machines: Vec<Vec<Bandwidth>>,
        /// The machine.
        machine: usize,
    },
    /// The wall-clock time of sharing one level.
    SharingTime {
        /// How many services.
        services: u32,
    },
    /// The size of one machine's report of its services, without headers.
    ReportSize {
        /// How many services.
        services: u32,
    },
    /// The traffic of racks' leaders to the fabric broker, headers included.
    FabricReports {
        /// How many services.
        services: u32,
        /// How many racks.
        racks: u32,
        /// The period.
        period: Duration,
    },
    /// The traffic of one machine's reports of its services to all others of its rack, headers
    /// included.
    RackReports {
        /// How many services.
        services: u32,
        /// How many machines.
        machines: u32,
        /// The period.
        period: Duration,
    },
}

impl Measure {
    /// The dimension of its value.
    pub fn dimension(&self) -> Dimension {
        match self {
            Self::Bandwidth { .. }
            | Self::MeterRate { .. }
            | Self::Allocation { .. }
            | Self::PolicyShare { .. }
            | Self::PolicyCapacity { .. }
            | Self::RackReports { .. }
            | Self::Reservation { .. }
            | Self::FabricReports { .. }
            | Self::NetworkEpoch { rate: true, .. } => Dimension::Rate,
            Self::Level { of, .. } => of.dimension(),
            Self::CompletionTime { .. }
            | Self::Settling { .. }
            | Self::Bound { .. }
            | Self::Mm1 { .. }
            | Self::Mm1Queue { .. }
            | Self::SharingTime { .. }
            | Self::NetworkEpoch { rate: false, .. } => Dimension::Time,
            Self::Fairness { .. } | Self::Slowdown { .. } | Self::Counter { .. } | Self::Datacenter { .. } => {
                Dimension::Number
            }
            Self::Queue { .. } | Self::Burst { .. } => Dimension::Packets,
            Self::ReportSize { .. } => Dimension::Size,
        }
    }
    /// The run that it needs; `None` if it is computed.
    pub fn run(&self) -> Option<usize> {
        match self {
            Self::Bandwidth { run, .. }
            | Self::MeterRate { run, .. }
            | Self::CompletionTime { run, .. }
            | Self::Slowdown { run, .. }
            | Self::Fairness { run, .. }
            | Self::Queue { run, .. }
            | Self::Settling { run, .. }
            | Self::Counter { run, .. }
            | Self::Level { run, .. } => Some(*run),
            _ => None,
        }
    }
    /// The datacenter that it needs; `None` if it is of none.
    pub fn datacenter(&self) -> Option<usize> {
        match self {
            Self::Datacenter { datacenter, .. } => Some(*datacenter),
            _ => None,
        }
    }
    /// Whether it differs from one computer to the next.
    pub fn is_wall_clock(&self) -> bool {
        matches!(self, Self::SharingTime { .. })
    }
}

/// The flows whose slowdown is measured, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowdownOf {
    /// The flow group.
    pub group: String,
    /// Which percentile; `None` for the mean.
    pub percentile: Option<Percentile>,
    /// Flows have more bytes than this.
    pub above: Bytes,
    /// And at most so many.
    pub up_to: Bytes,
    /// The time that is added to completion times and to ideal times; zero for none.
    pub acknowledgement: Duration,
}

/// A number for the fairness of bandwidths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairnessIndex {
    /// Jain's index of the subjects' means.
    Jain,
    /// The mean of Jain's indices of the samples, over the flows of all groups that are active in a sample.
    Samples,
    /// The largest distance of a mean from the mean of all, as a part of the latter.
    Deviation,
}

/// A quantity of a latency level in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelQuantity {
    /// The longest delay of a frame.
    Worst,
    /// Its bound.
    Bound,
    /// The first as a part of the second.
    Tightness,
    /// Frames that arrived after their bound.
    Late,
    /// Frames that found a queue above its bound.
    Overfull,
    /// The median of the delays.
    Median,
    /// Their 99th percentile.
    P99,
    /// The largest queue at the ports of a class, as a part of its bound.
    Queue,
}

impl LevelQuantity {
    /// In the order of the keywords.
    pub(crate) const ALL: [Self; 8] =
        [Self::Worst, Self::Bound, Self::Tightness, Self::Late, Self::Overfull, Self::Median, Self::P99, Self::Queue];

    fn dimension(self) -> Dimension {
        match self {
            Self::Worst | Self::Bound | Self::Median | Self::P99 => Dimension::Time,
            Self::Tightness | Self::Queue => Dimension::Number,
            Self::Late | Self::Overfull => Dimension::Packets,
        }
    }
}

/// A number of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The demand.
    Demand,
    /// The allocation.
    Allocation,
    /// The headroom, as in Parley's figure 6.
    Headroom,
}
