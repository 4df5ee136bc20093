//! Values that need no run: shares of a policy, latency formulas, a queue of one server, brokers'
//! bytes.
//!
//! | module | computes |
//! |---|---|
//! | `shares` | allocations, and the shares of a policy |
//! | `hose` | the reservation of a link |
//! | `levels` | the epoch and the rate of a latency level |
//! | `queue` | a simulated M/M/1 queue |
//! | `reports` | the reports of rack brokers |
//! | `sharing` | the time of sharing |
//!
//! Worked example: Parley section 4: congestion control that takes 10 ms to converge at 100 Mb/s
//! admits 125,000 bytes, which are 83.3 packets of 1500 bytes.

mod hose;
mod levels;
mod queue;
mod reports;
mod shares;
mod sharing;

use crate::measure::{Reading, bps};
use crate::model::{Measure, Setting};
use weir_latency::{Burst, LatencyError, Mm1};

/// The reason why a value cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ComputeError {
    /// It is measured in a run, or in a datacenter with tenants.
    #[error("this value comes from a run, or from a datacenter with tenants")]
    NeedsRun,
    /// A formula has no result.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// More services than a policy can distinguish.
    #[error("{0} services cannot be distinguished by ports")]
    TooManyServices(u32),
}

/// The value of a measure that needs no run, in the base unit. `clock` gives wall-clock seconds,
/// for measures of a computation's time; all others ignore it.
///
/// # Errors
/// If the measure needs a run or a datacenter, or a formula has no result.
pub fn value(measure: &Measure, setting: Setting, clock: &dyn Fn() -> f64) -> Result<Reading, ComputeError> {
    let value = match measure {
        Measure::Allocation { policy, demands, service, machine, direction, share } => {
            bps(shares::allocation(policy, demands, *service, *machine, *direction, *share))
        }
        Measure::PolicyShare { policy, service, point, direction, min } => {
            let share = policy.services().get(*service).share(*point, *direction);
            bps(if *min { share.min } else { share.max })
        }
        Measure::PolicyCapacity { policy, rack, direction } => bps(policy.rack_capacity(*rack, *direction)),
        Measure::Bound { bound, capacity, load } => bound.completion_time(*capacity, *load)?.as_secs_f64(),
        Measure::Burst { capacity, convergence, packet } => {
            let burst = Burst::from_convergence(*convergence).size(*capacity);
            burst.get() as f64 / packet.get() as f64
        }
        Measure::Mm1 { capacity, load, message, quantile } => {
            Mm1::new(*message, *quantile)?.completion_time(*capacity, *load)?.as_secs_f64()
        }
        Measure::Mm1Queue { capacity, load, message, percentile, messages } => {
            let mean_service = message.get() as f64 * 8.0 / bps(*capacity);
            queue::percentile(mean_service, load.as_f64(), *messages.get(setting), *percentile)
        }
        Measure::SharingTime { services } => sharing::time(*services, clock),
        Measure::ReportSize { services } => reports::size_of_rows(*services)? as f64,
        Measure::RackReports { services, machines, period } => reports::rate(*services, *machines, *period)?,
        Measure::FabricReports { services, racks, period } => reports::fabric_rate(*services, *racks, *period)?,
        Measure::NetworkEpoch { hosts, packet, capacity, factor, frames, rate } => {
            levels::epoch(*hosts, *packet, *capacity, *factor, *frames, *rate)
        }
        Measure::Reservation { machines, machine } => bps(hose::reservation(machines, *machine)),
        Measure::Bandwidth { .. }
        | Measure::Counter { .. }
        | Measure::Datacenter { .. }
        | Measure::Level { .. }
        | Measure::MeterRate { .. }
        | Measure::CompletionTime { .. }
        | Measure::Slowdown { .. }
        | Measure::Fairness { .. }
        | Measure::Queue { .. }
        | Measure::Settling { .. } => return Err(ComputeError::NeedsRun),
    };
    Ok(Reading::exact(value))
}
