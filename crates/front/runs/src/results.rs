//! From a run to its results.
//!
//! Problem: the simulator returns flows, links and the bandwidths of services by id; the lab returns these
//! bandwidths and its own records. Files and pages need one form of both, with names. Approach: [`simulated`] and
//! [`measured`] make [`Results`]; the bandwidths and phases of services come from one function, so that the two
//! backends are comparable.
//!
//! Worked example: service `b` starts at 20 s of 60 s: the phases are 0 to 20 s and 20 to 60 s. The mean of the first
//! one is over the samples that end in it, and its settled mean over those that begin at 10 s or later.

use std::collections::{BTreeMap, BTreeSet};
use weir_results::invalid::unique;
use weir_results::policy::{MeasuringPoint, Phase, ServiceSample, TransferRecord};
use weir_results::{Backend, FlowRecord, InvalidResults, LabRecords, PolicyResults, Results};
use weir_scenario::{Governed, LabScenario, RunResult, Sample, Scenario};
use weir_sim::RunOutcome;
use weir_units::{Bytes, Duration, ServiceId, SimTime};

/// Checks before a run that its results will not have two hosts, groups, links or services of one name.
///
/// # Errors
/// The first name that is there twice.
pub fn names_are_unique(scenario: &Scenario) -> Result<(), InvalidResults> {
    let graph = scenario.graph();
    unique("hosts", graph.hosts.iter().map(|host| &host.name))?;
    unique("groups", scenario.flow_groups().iter().map(|group| &group.name))?;
    unique("links", graph.links().map(|link| graph.link_name(link)))?;
    let services = scenario.governed().map(|governed| governed.policy.services());
    unique("services", services.iter().flat_map(|services| services.iter()).map(|(_, service)| service.path()))
}

/// The results of a simulated run; `set` has the changed values of the scenario.
pub fn simulated(scenario: &Scenario, outcome: RunOutcome, set: &[(String, String)]) -> Results {
    let policy = scenario.governed().map(|governed| {
        let services = services(scenario, governed, &outcome.uplink);
        let transfers = transfers(scenario, governed, &services.services, &outcome.results.flows);
        PolicyResults { transfers, ..services }
    });
    Results { policy, parameters: parameters(set), ..outcome.results }
}

/// The results of a run in the lab; `result` has the bandwidths at the measured uplink.
pub fn measured(
    scenario: LabScenario<'_>,
    result: &RunResult,
    complete: bool,
    records: LabRecords,
    set: &[(String, String)],
) -> Results {
    Results {
        scenario: scenario.name().to_owned(),
        backend: Backend::Lab,
        seed: scenario.seed(),
        complete,
        simulated: result.samples.last().map_or(SimTime::ZERO, |sample| sample.at.into()),
        parameters: parameters(set),
        counters: records.counters.clone(),
        policy: Some(services(&scenario, scenario.governed(), result).with_lab(records)),
        ..Results::default()
    }
}

/// Path to value; the seed has a key of its own.
fn parameters(set: &[(String, String)]) -> BTreeMap<String, String> {
    set.iter().filter(|(path, _)| path != "seed").cloned().collect()
}

/// The bandwidths of services, without connections.
fn services(scenario: &Scenario, governed: &Governed, result: &RunResult) -> PolicyResults {
    let (policy, measure) = (&governed.policy, governed.measure);
    let transfers = scenario.transfers().iter().map(|traffic| traffic.service);
    let applications = scenario.applications().iter().map(|own| own.service);
    let ids: BTreeSet<ServiceId> = transfers.chain(applications).collect();
    let path = |id: &ServiceId| governed.service_path(*id).to_owned();
    let sample = |sample: &Sample| ServiceSample {
        at: sample.at.into(),
        bandwidth: sample.bandwidth.iter().map(|(id, bandwidth)| (path(id), *bandwidth)).collect(),
    };
    PolicyResults {
        enforcement: scenario.enforcement().word().to_owned(),
        duration: scenario.duration().into(),
        measure: MeasuringPoint {
            rack: policy.network().rack(measure.rack).name().to_owned(),
            direction: measure.direction.name().to_owned(),
            every: measure.every.into(),
            capacity: policy.rack_capacity(measure.rack, measure.direction),
        },
        services: ids.iter().map(path).collect(),
        phases: phases((scenario, governed), &ids, result),
        samples: result.samples.iter().map(sample).collect(),
        ..PolicyResults::default()
    }
}

/// The connections of each service.
fn transfers(
    scenario: &Scenario,
    governed: &Governed,
    services: &[String],
    flows: &[FlowRecord],
) -> Vec<TransferRecord> {
    let service = |flow: &FlowRecord| {
        let group = scenario.flow_groups().get(flow.group as usize)?;
        group.service_of(Bytes::new(flow.bytes))
    };
    let record = |name: &String| {
        let id = governed.policy.services().named(name);
        let flows = flows.iter().filter(|flow| id.is_some() && service(flow) == id);
        flows.fold(TransferRecord { service: name.clone(), ..TransferRecord::default() }, |mut sum, flow| {
            sum.flows += 1;
            sum.delivered_bytes += flow.delivered;
            sum.retransmissions += u64::from(flow.retransmissions);
            sum.timeouts = Some(sum.timeouts.unwrap_or(0) + u64::from(flow.timeouts));
            sum
        })
    };
    services.iter().map(record).collect()
}

fn phases(
    (scenario, governed): (&Scenario, &Governed),
    services: &BTreeSet<ServiceId>,
    result: &RunResult,
) -> Vec<Phase> {
    let every = governed.measure.every;
    let ends = scenario.transfers().iter().flat_map(|traffic| [traffic.start, traffic.stop]);
    let applications = scenario.applications().iter().flat_map(|own| [own.start, own.stop]);
    let ends: BTreeSet<Duration> = ends.chain(applications).chain([Duration::ZERO, scenario.duration()]).collect();
    let ends: Vec<Duration> = ends.into_iter().collect();
    let path = |id: &ServiceId| governed.service_path(*id).to_owned();
    let entry = |from: Duration, to: Duration| {
        let sends = |id: &&ServiceId| {
            let mut traffic = scenario.transfers().iter().filter(|traffic| traffic.service == **id);
            let mut applications = scenario.applications().iter().filter(|own| own.service == **id);
            traffic.any(|traffic| traffic.start < to && traffic.stop > from)
                || applications.any(|own| own.start < to && own.stop > from)
        };
        // Only samples inside the window: the first one begins at `from` or later.
        let means = |from: Duration| {
            let first_end = (from + every).saturating_sub(Duration::from_nanos(1));
            let mean = |id: &ServiceId| result.mean(*id, first_end, to);
            services.iter().map(|id| (path(id), mean(id))).collect()
        };
        let middle = Duration::from_nanos(from.nanos().midpoint(to.nanos()));
        Phase {
            from: from.into(),
            to: to.into(),
            sending: services.iter().filter(sends).map(path).collect(),
            mean: means(from),
            settled: means(middle),
        }
    };
    ends.windows(2).map(|ends| entry(ends[0], ends[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;
    use std::path::Path;
    use weir_document::Source;
    use weir_sim::{Options, simulate};

    /// Two links between the switches a and b, and two flow groups.
    const PARALLEL: &str = "scenario: 1
name: parallel
duration: 1s
network:
  topology: links
  hosts: [h1, h2]
  switches: [a, b]
  links:
    - { between: [h1, a], rate: 1Gb/s }
    - { between: [b, h2], rate: 1Gb/s }
    - { between: [a, b], rate: 1Gb/s }
    - { between: [a, b], rate: 1Gb/s }
traffic: [ { from: h1, to: h2, size: 10kB }, { from: h2, to: h1, size: 10kB } ]
";

    #[test]
    fn names_are_checked_before_a_run_as_after_it() {
        let source = Source::from_text("parallel.scenario.yaml", PARALLEL);
        let no_policy = |_: &Path| unreachable!("it has no policy");
        let (scenario, _) = Scenario::from_source(&source, Path::new(""), no_policy).expect("good");
        names_are_unique(&scenario).expect("unique names");
        let outcome = simulate(&scenario, 1, &Options::default(), &mut |_| ControlFlow::Continue(())).expect("a run");
        let results = simulated(&scenario, outcome, &[]);
        results.check().expect("sound results");
        let names: BTreeSet<&str> = results.links.iter().map(|link| link.name.as_str()).collect();
        assert!(names.len() == 8 && names.contains("a->b#1") && names.contains("b->a#2"), "{names:?}");
        let graph = scenario.graph();
        assert_eq!(graph.links().map(|link| graph.link_name(link)).collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn two_links_of_one_name_are_refused() {
        let error = unique("links", ["a->b", "b->a", "a->b"]).expect_err("a name twice");
        assert_eq!(error.to_string(), "two links are called `a->b`");
        assert_eq!(unique("links", ["a->b#1", "a->b#2"].map(str::to_owned)), Ok(()));
    }
}
