//! Scenario files.

use crate::{fixed_policy, refusal};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_network::graph::LinkRef;
use weir_network::language::{MAX_RATE, MIN_RATE};
use weir_policy::Policy;
use weir_scenario::{Files, Governed, Pattern, ReadOptions, Scenario};
use weir_units::{Bytes, Duration, MachineId};
use weir_workload::Workload;

static POLICY: LazyLock<Policy> = LazyLock::new(fixed_policy);

/// The limit for one file; larger ones are refused by length alone.
const LIMIT: u64 = 1 << 20;

/// Flows above which pairs are not listed: a fuzz case should take a millisecond.
const MOST_PAIRS: usize = 10_000;

/// The memory of a case's network: some ten thousand hosts, so that a case stays short.
const MEMORY: Bytes = Bytes::new(20_000_000);

/// Every named policy is the fixed one; tables of sizes and of flows are short ones.
struct Shelf;

impl Files for Shelf {
    fn policy(&mut self, path: &Path) -> Result<(Policy, Vec<Diagnostic>), Diagnostics> {
        assert!(path != Path::new("directory"), "a policy without a name is read");
        Ok((POLICY.clone(), Vec::new()))
    }
    fn table(&mut self, path: &Path) -> Result<Arc<Source>, Diagnostics> {
        let sizes = path.to_string_lossy().contains("sizes");
        let text = if sizes { "size_bytes,cdf\n1000,0.5\n3000,1\n" } else { "start_s,src,dst,bytes\n0,0,1,100\n" };
        Ok(Source::from_text(path.display().to_string(), text))
    }
}

/// Reads `data` as a scenario file. A refusal has its positions in the text. A scenario has its
/// times in order, its machines ascending, links with rates, and no host that sends to itself.
/// Returns whether it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn scenario(data: &[u8]) -> bool {
    let source = match Source::from_bytes("test.scenario.yaml", data.to_vec(), LIMIT) {
        Ok(source) => source,
        Err(errors) => return refusal::check(&errors),
    };
    let options = ReadOptions { memory: Some(MEMORY), ..ReadOptions::default() };
    let scenario = match Scenario::from_files(&source, Path::new("directory"), &mut Shelf, &options) {
        Ok((scenario, notes)) => {
            notes.iter().for_each(refusal::one);
            scenario
        }
        Err(errors) => return refusal::check(&errors),
    };
    let duration = scenario.duration();
    assert!(!duration.is_zero() && !scenario.name().is_empty());
    network(&scenario);
    if let Some(of) = scenario.governed() {
        governed(&scenario, of);
    }
    assert!(!scenario.flow_groups().is_empty(), "a scenario without traffic");
    for group in scenario.flow_groups() {
        assert!(group.priority < 8 && group.service.is_some() == scenario.governed().is_some());
        let mut workload = Workload::new(&group.spec, 1);
        if let Some(flow) = workload.next().and_then(|at| workload.poll(at)) {
            assert!(flow.from != flow.to, "a machine sends to itself");
            assert!(flow.bytes > 0 && flow.from.index().max(flow.to.index()) < scenario.graph().hosts.len());
        }
    }
    true
}

/// Checks the graph, and the references to it.
fn network(scenario: &Scenario) {
    let graph = scenario.graph();
    let within = |link: LinkRef| match link {
        LinkRef::Up(host) | LinkRef::Down(host) => host.index() < graph.hosts.len(),
        LinkRef::Forward(cable) | LinkRef::Backward(cable) => cable < graph.cables.len(),
    };
    assert!(graph.hosts.iter().all(|host| host.switch < graph.switches.len()));
    let rates = MIN_RATE..=MAX_RATE;
    assert!(graph.links().all(|link| rates.contains(&graph.link(link).rate)), "a link that cannot be simulated");
    let mut names = BTreeSet::new();
    assert!(graph.links().all(|link| names.insert(graph.link_name(link))), "two links of one name");
    let events = scenario.events();
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at), "events are not in order");
    for event in events {
        assert!(event.at <= scenario.duration() && !event.links.is_empty());
        assert!(event.links.iter().all(|link| within(*link)));
    }
    let measurement = scenario.measurement();
    assert!(!measurement.every.is_zero() && measurement.every <= scenario.duration());
    assert!(measurement.links.iter().all(|link| within(*link)));
}

/// Checks the part under a policy.
fn governed(scenario: &Scenario, governed: &Governed) {
    let duration = scenario.duration();
    let network = governed.policy.network();
    assert_eq!(network.machines().len(), scenario.graph().hosts.len(), "hosts that are no machines");
    if let Some(links) = governed.links {
        let (buffer, mtu) = (links.queue.buffer, links.mtu);
        assert!(mtu > Bytes::ZERO && buffer >= mtu, "a buffer of {buffer} for {mtu}");
        assert!(links.spines > 0 && !links.delay.is_zero());
    }
    assert!(governed.measure.rack.index() < network.racks().len());
    let ascending = |ids: &[MachineId]| !ids.is_empty() && ids.windows(2).all(|pair| pair[0] < pair[1]);
    for traffic in scenario.transfers() {
        assert!(governed.policy.services().get(traffic.service).is_leaf());
        assert!(traffic.start < traffic.stop && traffic.stop <= duration && traffic.flows > 0);
        assert!(traffic.start >= Duration::ZERO);
        assert!(ascending(&traffic.from), "{:?}", traffic.from);
        assert!(ascending(&traffic.to), "{:?}", traffic.to);
        if traffic.from.len() * traffic.to.len() <= MOST_PAIRS {
            let pairs = traffic.pairs();
            assert!(!pairs.is_empty(), "traffic without a sender");
            assert!(pairs.iter().all(|(from, to)| from != to), "a machine sends to itself");
            assert!(traffic.pattern != Pattern::Pairs || pairs.len() == traffic.to.len());
        }
    }
}
