//! The estimates of all methods, for each service with a latency target.
//!
//! Approach: one queue for each service: the slowest capacity and the highest load on its way (see
//! [`weir_latency::plan`]), unless the command line overrides them. Every method estimates the same four
//! values for it. The deciding method gives the highest load of the network; the lowest such
//! load of all services gives the caps. The premises of the bound are checked against the network.

use super::caps;
use super::model::{Estimate, Found, Method, NeededCap, Plan, ServicePlan, traffic};
use super::network::PlannedNetwork;
use super::trace::TraceInput;
use crate::error::AnswerError;
use crate::text;
use weir_latency::levels::Admitted;
use weir_latency::plan::points::name as point_name;
use weir_latency::plan::queue::{self, CapacityFrom};
use weir_latency::plan::{
    Overload, Point, every_packet_has_a_service, gaps, maxima, overloads, points, points_of, port_needs,
};
use weir_latency::{Burst, BurstBound, LatencyError, Mm1};
use weir_policy::{LatencyTarget, Policy};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Duration, Load, Quantile, ServiceId};

/// The subject of a plan, and its method.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// Only these points; all if empty.
    pub at: Vec<ContentionPoint>,
    /// Instead of the slowest capacity.
    pub capacity: Option<Bandwidth>,
    /// Instead of the highest load.
    pub load: Option<Load>,
    /// Steps of the rate law until senders have converged.
    pub iterations: u32,
    /// Instead of iterations × interval.
    pub convergence: Option<Duration>,
    /// The number of senders whose bursts may arrive at once.
    pub senders: u32,
    /// The deciding method.
    pub by: Method,
    /// Further capacities for the trace as it is.
    pub trace_at: Vec<Bandwidth>,
    /// Whether the curve of the trace will be drawn.
    pub curve: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            at: Vec::new(),
            capacity: None,
            load: None,
            iterations: queue::ITERATIONS,
            convergence: None,
            senders: queue::SENDERS,
            by: Method::Bound,
            trace_at: Vec::new(),
            curve: false,
        }
    }
}

impl PlanOptions {
    /// Whether a point counts.
    pub fn judges(&self, point: ContentionPoint) -> bool {
        self.at.is_empty() || self.at.contains(&point)
    }
}

/// Whether a policy has services with a `p99` target, which [`plan`] takes. Without any, the bounds of its latency
/// levels are the whole plan.
///
/// # Errors
/// A policy without any latency target.
pub fn targets(policy: &Policy, admitted: Option<&Admitted>) -> Result<bool, AnswerError> {
    let percentiles = policy.services().all().iter().any(|service| service.latency().is_some());
    if !percentiles && admitted.is_none() {
        return Err(AnswerError::refused("no service has a latency target")
            .hint("write `latency: { message: 1MB, p99: 20ms }` under a service, or `level: auto` with `worst`"));
    }
    Ok(percentiles)
}

/// The plan of a policy with at least one `p99` target.
///
/// # Errors
/// A trace without messages of a service with a target; a caller that ends the work on the trace.
pub fn plan(
    policy: &Policy,
    choices: &PlanOptions,
    network: &PlannedNetwork,
    mut trace: Option<&mut TraceInput<'_>>,
) -> Result<Plan, AnswerError> {
    let points: Vec<Point> =
        points(policy, policy.caps()).into_iter().filter(|point| choices.judges(point.point)).collect();
    let shapers = ShaperConfig::parley(policy, None, None);
    let overloads = overloads(policy, load(&points, choices).0);
    let context = Context { policy, choices, network, overloads: &overloads };
    let mut services = Vec::new();
    for (id, service) in policy.services().iter() {
        let Some(target) = service.latency() else { continue };
        let shaper = queue::shaper(policy, id, &shapers);
        services.push(service_plan(&context, id, target, shaper, trace.as_deref_mut())?);
    }
    let most = most(&services);
    let trace = trace.map(|trace| trace.summary());
    let mut plan = Plan { points, trace, services, most, caps: Vec::new(), refused: None };
    if let Ok(Some(most)) = plan.most
        && plan.exceeds_a_target()
    {
        plan.caps = caps::needed(policy, most, |point| choices.judges(point));
    }
    plan.refused = refusal(policy, &plan.caps);
    Ok(plan)
}

/// The highest load that keeps every service's target.
fn most(services: &[ServicePlan]) -> Found<Option<Load>> {
    let mut most = None;
    for service in services {
        let Some(estimate) = service.deciding() else { continue };
        let of = estimate.largest_load.clone().map_err(|why| format!("{}: {why}", service.path))?;
        most = match (most, of) {
            (Some(a), Some(b)) => Some(Load::min(a, b)),
            (a, b) => a.or(b),
        };
    }
    Ok(most)
}

/// Why the policy with these caps would be refused, as a clause.
fn refusal(policy: &Policy, caps: &[NeededCap]) -> Option<String> {
    let mut policy = policy.clone();
    for needed in caps {
        match policy.with_cap(needed.point, needed.cap) {
            Ok(changed) => policy = changed,
            // A cap changes only what fits: the first error is about that.
            Err(errors) => return errors.all().first().map(|error| error.cause().to_owned()),
        }
    }
    None
}

/// The input of the plans of all services.
struct Context<'a> {
    policy: &'a Policy,
    choices: &'a PlanOptions,
    network: &'a PlannedNetwork,
    overloads: &'a [Overload],
}

fn service_plan(
    context: &Context<'_>,
    id: ServiceId,
    target: LatencyTarget,
    (interval, one_burst): (Duration, Bytes),
    trace: Option<&mut TraceInput<'_>>,
) -> Result<ServicePlan, AnswerError> {
    let Context { policy, choices, network, overloads } = *context;
    let points = points_of(policy, policy.caps(), id).into_iter();
    let points = &points.filter(|point| choices.judges(point.point)).collect::<Vec<Point>>()[..];
    let service = policy.services().get(id);
    let convergence = choices.convergence.unwrap_or_else(|| queue::convergence(interval, choices.iterations));
    let shapers = Bytes::new(one_burst.get().saturating_mul(choices.senders.into()));
    let burst = Burst { convergence, shapers };

    let (capacity, capacity_from) = capacity(policy, id, target, one_burst, points, choices);
    let (load, load_from) = load(points, choices);
    let sigma = burst.size(capacity);
    let sigma_is = origin_of_sigma(burst, sigma, one_burst, interval, choices);

    let bound = BurstBound { burst, message: target.message };
    let needs = port_needs(policy.network(), points, &bound, choices.capacity, network.buffers)
        .map_err(|error| AnswerError::refused(error.to_string()))?;
    let mut estimates = vec![by_mm1(target, capacity, load)?, by_bound(&bound, target, capacity, load, &sigma_is)];
    let (mut as_it_is, mut as_it_is_smallest, mut trace_curve) = (Vec::new(), None, Vec::new());
    if let Some(trace) = trace {
        let mut queue = trace.of(service.path())?;
        estimates.push(queue.estimate(capacity, load, target.p99)?);
        for capacity in std::iter::once(capacity).chain(choices.trace_at.iter().copied()) {
            as_it_is.push(queue.as_it_is(capacity)?);
        }
        as_it_is_smallest = Some(queue.smallest_as_it_is(target.p99)?);
        if choices.curve {
            trace_curve = queue.curve(capacity)?;
        }
    }
    Ok(ServicePlan {
        id,
        path: service.path().to_owned(),
        target,
        capacity,
        capacity_from,
        load,
        load_from,
        burst,
        sigma,
        estimates,
        as_it_is,
        as_it_is_smallest,
        trace_curve,
        assumes: assumptions(policy, id, points, choices),
        by: choices.by,
        gaps: gaps(policy, id, &needs, overloads, points),
        needs,
        timer: network.timer(policy, id),
    })
}

/// The reason why nothing holds at a load of 100 %.
pub(super) fn full() -> String {
    "no time holds at a load of 100 %".to_owned()
}

/// The estimate of the M/M/1 queue.
fn by_mm1(target: LatencyTarget, capacity: Bandwidth, load: Option<Load>) -> Result<Estimate, AnswerError> {
    let mm1 = Mm1::new(target.message, Quantile::P99).map_err(|error| AnswerError::refused(error.to_string()))?;
    Ok(Estimate {
        method: Method::Mm1,
        time: load.ok_or_else(full).and_then(|load| or_text(mm1.completion_time(capacity, load))),
        largest_load: or_text(mm1.largest_load(capacity, target.p99)).map(Some),
        capacity_at_load: load.ok_or_else(full).and_then(|load| or_text(mm1.smallest_capacity_at(load, target.p99))),
        capacity_for_traffic: load
            .ok_or_else(full)
            .and_then(|load| or_text(mm1.smallest_capacity_for(traffic(capacity, Some(load)), target.p99))),
        assumes: format!(
            "Poisson arrivals, exponential sizes of {} on average; 99 of 100 messages of all sizes",
            target.message
        ),
    })
}

/// The estimate of the burst bound. `sigma_is` names the origin of σ.
fn by_bound(
    bound: &BurstBound,
    target: LatencyTarget,
    capacity: Bandwidth,
    load: Option<Load>,
    sigma_is: &str,
) -> Estimate {
    let sigma = bound.burst.size(capacity);
    Estimate {
        method: Method::Bound,
        time: load.ok_or_else(full).and_then(|load| or_text(bound.completion_time(capacity, load))),
        largest_load: or_text(bound.largest_load(capacity, target.p99)).map(Some),
        capacity_at_load: load.ok_or_else(full).and_then(|load| capacity_at(bound, load, target.p99)),
        capacity_for_traffic: load
            .ok_or_else(full)
            .and_then(|load| capacity_for(bound, traffic(capacity, Some(load)), target.p99)),
        assumes: format!(
            "at most σ = {} beyond the peak load ({sigma_is}); every message of {}, at worst",
            text::size(sigma.get()),
            target.message
        ),
    }
}

/// The part of the burst that decides σ.
fn origin_of_sigma(burst: Burst, sigma: Bytes, one_burst: Bytes, interval: Duration, choices: &PlanOptions) -> String {
    if burst.shapers >= sigma {
        return format!("{} bursts of {one_burst}", choices.senders);
    }
    let because = match choices.convergence {
        Some(_) => "as given".to_owned(),
        None => format!("{} iterations of {interval}", choices.iterations),
    };
    let convergence = burst.convergence;
    format!("{convergence} of the capacity until senders have converged, {because}")
}

fn or_text<T>(result: Result<T, weir_latency::LatencyError>) -> Found<T> {
    result.map_err(|error| error.to_string())
}

/// The smallest capacity for a traffic by the bound, or the reason why every capacity is too slow.
fn capacity_for(bound: &BurstBound, traffic: Bandwidth, target: Duration) -> Found<Bandwidth> {
    bound.smallest_capacity_for(traffic, target).map_err(|error| match error {
        LatencyError::NoCapacity { .. } => {
            let (traffic, convergence) = (text::rate(traffic), bound.burst.convergence);
            format!("no capacity keeps {target} for {traffic} of traffic: convergence alone takes {convergence}")
        }
        other => other.to_string(),
    })
}

/// The smallest capacity at a load by the bound, or the reason why every capacity is too slow.
fn capacity_at(bound: &BurstBound, load: Load, target: Duration) -> Found<Bandwidth> {
    bound.smallest_capacity_at(load, target).map_err(|error| match error {
        LatencyError::NoCapacity { least, .. } => {
            let (load, least) = (super::words::load(Some(load)), super::words::time(least));
            let convergence = bound.burst.convergence;
            format!("no capacity keeps {target} at a load of {load}, where {convergence} of convergence become {least}")
        }
        other => other.to_string(),
    })
}

/// The capacity to plan for, and its origin.
fn capacity(
    policy: &Policy,
    id: ServiceId,
    target: LatencyTarget,
    burst: Bytes,
    points: &[Point],
    choices: &PlanOptions,
) -> (Bandwidth, String) {
    if let Some(capacity) = choices.capacity {
        return (capacity, "as given".to_owned());
    }
    let (capacity, from) = queue::capacity(policy, id, target, burst, points);
    let from = match from {
        CapacityFrom::Nothing => "nothing".to_owned(),
        CapacityFrom::Slowest(point) => format!("the slowest point, the {}", point_name(point)),
        CapacityFrom::OwnMaximum => "its own maximum at a machine".to_owned(),
    };
    (capacity, from)
}

/// The load to plan for, and its origin.
fn load(points: &[Point], choices: &PlanOptions) -> (Option<Load>, String) {
    let fullest = queue::fullest(points);
    if let Some(load) = choices.load {
        let from = match fullest {
            Some(point) if point.load != Some(load) => {
                format!("as given, instead of the policy's {}", super::words::load(point.load))
            }
            _ => "as given".to_owned(),
        };
        return (Some(load), from);
    }
    match fullest {
        None => (None, "nothing".to_owned()),
        Some(point) => (point.load, format!("the fullest point, the {}", point_name(point.point))),
    }
}

/// The assumptions of all methods about this service.
fn assumptions(policy: &Policy, id: ServiceId, points: &[Point], choices: &PlanOptions) -> Vec<String> {
    let mut lines = vec![
        "all services together stay below the peak load, and one queue delays a message; several on its way add up"
            .to_owned(),
        "TCP services with a target send only messages, no more than the maxima of all others leave of the peak load"
            .to_owned(),
        "no packet is lost: every port on its way can queue what these times count".to_owned(),
    ];
    let evenly = points.iter().any(|point| point.bound == weir_latency::plan::Bound::Evenly);
    if evenly && choices.load.is_none() {
        lines.push(
            "the traffic of a rack's uplink is spread evenly over its machines, and no other traffic loads them"
                .to_owned(),
        );
    }
    if !every_packet_has_a_service(policy) {
        lines.push(
            "packets of no service, and of hosts without Weir, have no limit: with them the load stays below its peak"
                .to_owned(),
        );
    }
    let maxima = maxima(policy, id);
    if !maxima.is_empty() {
        lines.push(format!("its own load stays below its maxima ({}): nothing limits it", text::list(&maxima, 4)));
    }
    lines
}
