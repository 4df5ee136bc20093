//! Scenario files.

use crate::{fixed_policy, refusal};
use std::path::Path;
use std::sync::LazyLock;
use weir_document::Source;
use weir_policy::Policy;
use weir_scenario::{Pattern, Scenario};
use weir_units::{Bytes, Duration, MachineId};

static POLICY: LazyLock<Policy> = LazyLock::new(fixed_policy);

/// The limit for one file; larger ones are refused by length alone.
const LIMIT: u64 = 1 << 20;

/// Flows above which pairs are not listed: a fuzz case should take a millisecond.
const MOST_PAIRS: usize = 10_000;

/// Reads `data` as a scenario file; whatever policy it names is the fixed one. A refusal has its places in
/// the text. A scenario has its times in order, its machines ascending and nobody who sends to itself. Returns
/// whether it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn scenario(data: &[u8]) -> bool {
    let source = match Source::from_bytes("test.scenario.yaml", data.to_vec(), LIMIT) {
        Ok(source) => source,
        Err(errors) => return refusal::check(&errors),
    };
    let read = Scenario::from_source(&source, Path::new("directory"), |path| {
        assert!(path != Path::new("directory"), "a policy without a name is read");
        Ok((POLICY.clone(), Vec::new()))
    });
    let scenario = match read {
        Ok((scenario, notes)) => {
            notes.iter().for_each(refusal::one);
            scenario
        }
        Err(errors) => return refusal::check(&errors),
    };
    let duration = scenario.duration();
    assert!(!duration.is_zero() && !scenario.name().is_empty());
    let (links, measure) = (scenario.links(), scenario.measure());
    assert!(links.mtu > Bytes::ZERO && links.buffer >= links.mtu, "a buffer of {} for {}", links.buffer, links.mtu);
    assert!(links.spines > 0 && !links.delay.is_zero());
    assert!(!measure.every.is_zero() && measure.every <= duration);
    assert!(measure.rack.index() < scenario.policy().network().racks().len());
    assert!(!scenario.traffic().is_empty(), "a scenario without traffic");
    let ascending = |ids: &[MachineId]| !ids.is_empty() && ids.windows(2).all(|pair| pair[0] < pair[1]);
    for traffic in scenario.traffic() {
        assert!(scenario.policy().services().get(traffic.service).is_leaf());
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
    true
}
