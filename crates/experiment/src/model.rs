//! The valid experiment: every file that it names was read, and every name in it is resolved.

use crate::figure::Figure;
use crate::unit::{Dimension, Unit};
use std::path::PathBuf;
use std::sync::Arc;
use weir_latency::{BurstBound, Load, Quantile};
use weir_policy::{Demands, Policy};
use weir_results::Percentile;
use weir_scenario::Scenario;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, MachineId, RackId, ServiceId};

/// How much is run: enough to see the result, or as much as the paper did where that can be borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Setting {
    /// Ends within a minute on two cores.
    #[default]
    Quick,
    /// What the file calls full.
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

/// Something that may differ between the settings.
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
    /// What it shows.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// About how long it takes on two cores.
    pub takes: PerSetting<Duration>,
    /// What to run, in the file's order; none where all values are computed.
    pub runs: Vec<Run>,
    /// The values, in the file's order; at least one.
    pub values: Vec<Value>,
    /// What to draw.
    pub figures: Vec<Figure>,
    /// What a reader of the comparison must know.
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
    /// What is changed in it: path and value, as `weir sim --set` takes them.
    pub set: PerSetting<Vec<(String, String)>>,
    /// How many seeds it is run with, from the scenario's own on; values are means over them.
    pub seeds: PerSetting<u32>,
    /// Published rates are this many times the scenario's.
    pub scale: u32,
    /// The scenario, with the changes.
    pub scenario: PerSetting<Arc<Scenario>>,
}

/// A value that a paper prints, or that belongs beside one.
#[derive(Debug, Clone)]
pub struct Value {
    /// What it is called; unique in the experiment.
    pub metric: String,
    /// The unit in which it is shown.
    pub unit: Unit,
    /// As published; `None` where the source prints no number.
    pub published: Option<Published>,
    /// Where it stands: a section, a figure, a table.
    pub place: String,
    /// What gives its counterpart.
    pub measure: Measure,
    /// What is expected of it; `None` where it is only shown.
    pub expected: Option<Expected>,
    /// Why it differs from what was published, where it does.
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

/// What is expected of a measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// The published number once it is rounded to as many digits.
    AsPrinted,
    /// At most this far from the published one, as a fraction of it.
    Within(f64),
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
    /// At most so many times it.
    AtMost(f64),
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

/// Whose bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// A service at the measured uplink, or all services together: frames as the link carries them.
    Service(Option<ServiceId>),
    /// What reached the receivers of a traffic entry, by name: its bytes in full frames.
    Entry(String),
    /// What a watched link carried, by name: frames.
    Link(String),
    /// What machine shapers sent of a service: frames, of one machine or of all.
    Sent(ServiceId, Option<MachineId>),
    /// What they received.
    Received(ServiceId, Option<MachineId>),
}

/// What gives the counterpart of a published value. Runs are places in [`Experiment::runs`].
#[derive(Debug, Clone)]
pub enum Measure {
    /// The mean bandwidth over a window.
    Bandwidth {
        /// The run.
        run: usize,
        /// Whose.
        of: Counted,
        /// Over which part of the run.
        window: PerSetting<Window>,
    },
    /// A percentile of the completion times of an entry's flows that start in a window.
    CompletionTime {
        /// The run.
        run: usize,
        /// The entry of the traffic.
        entry: String,
        /// Which percentile.
        percentile: Percentile,
        /// Over which part of the run.
        window: PerSetting<Window>,
    },
    /// The mean over a window of the rate R that a receive meter tells its senders.
    MeterRate {
        /// The run.
        run: usize,
        /// The service.
        service: ServiceId,
        /// The receiving machine.
        machine: MachineId,
        /// Over which part of the run.
        window: PerSetting<Window>,
    },
    /// Jain's index of mean bandwidths over a window.
    Fairness {
        /// The run.
        run: usize,
        /// Among whom.
        of: Vec<Counted>,
        /// Over which part of the run.
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
        /// Over which part of the run.
        window: PerSetting<Window>,
    },
    /// How long from the start of a window on until the bandwidth is at most a limit for the rest of it.
    Settling {
        /// The run.
        run: usize,
        /// Whose.
        of: Counted,
        /// The limit, at the scale of what was published.
        limit: Bandwidth,
        /// Over which part of the run.
        window: PerSetting<Window>,
    },
    /// What a policy gives for demands.
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
        /// Which number of it.
        share: Share,
    },
    /// What a policy says about a service.
    PolicyShare {
        /// The policy.
        policy: Arc<Policy>,
        /// The service.
        service: ServiceId,
        /// Where.
        point: ContentionPoint,
        /// The direction.
        direction: Direction,
        /// Its minimum; else its maximum.
        min: bool,
    },
    /// What can pass a rack's uplink by a policy.
    PolicyCapacity {
        /// The policy.
        policy: Arc<Policy>,
        /// The rack.
        rack: RackId,
        /// The direction.
        direction: Direction,
    },
    /// The completion time that holds whatever happens (Parley equation 2).
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
        /// How long it takes.
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
    /// The wall-clock time of sharing one level.
    SharingTime {
        /// How many services.
        services: u32,
    },
    /// What one machine's report of its services takes, without headers.
    ReportSize {
        /// How many services.
        services: u32,
    },
    /// What the leaders of racks send to the fabric broker, headers included.
    FabricReports {
        /// How many services.
        services: u32,
        /// How many racks.
        racks: u32,
        /// How often.
        period: Duration,
    },
    /// What one machine sends to report its services to all others of its rack, headers included.
    RackReports {
        /// How many services.
        services: u32,
        /// How many machines.
        machines: u32,
        /// How often.
        period: Duration,
    },
}

impl Measure {
    /// What it gives.
    pub fn dimension(&self) -> Dimension {
        match self {
            Self::Bandwidth { .. }
            | Self::MeterRate { .. }
            | Self::Allocation { .. }
            | Self::PolicyShare { .. }
            | Self::PolicyCapacity { .. }
            | Self::RackReports { .. }
            | Self::FabricReports { .. } => Dimension::Rate,
            Self::CompletionTime { .. }
            | Self::Settling { .. }
            | Self::Bound { .. }
            | Self::Mm1 { .. }
            | Self::Mm1Queue { .. }
            | Self::SharingTime { .. } => Dimension::Time,
            Self::Fairness { .. } => Dimension::Number,
            Self::Queue { .. } | Self::Burst { .. } => Dimension::Packets,
            Self::ReportSize { .. } => Dimension::Size,
        }
    }
    /// The run that it needs; `None` where it is computed.
    pub fn run(&self) -> Option<usize> {
        match self {
            Self::Bandwidth { run, .. }
            | Self::MeterRate { run, .. }
            | Self::CompletionTime { run, .. }
            | Self::Fairness { run, .. }
            | Self::Queue { run, .. }
            | Self::Settling { run, .. } => Some(*run),
            _ => None,
        }
    }
    /// Whether it differs from one computer to the next.
    pub fn is_wall_clock(&self) -> bool {
        matches!(self, Self::SharingTime { .. })
    }
}

/// A number of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// What was asked for.
    Demand,
    /// What is given.
    Allocation,
    /// What could be taken at once, as Parley's figure 6 shows it.
    Headroom,
}
