//! Remarks on guarantees that leave a machine's shapers no capacity to divide.
//!
//! Problem: shapers admit only a part of an interface's link for receiving, so that a full
//! interface can be distinguished from one that is not; admission control counts with the whole
//! link, as rack brokers and static limits do. Minima between the two are kept as long as not all
//! services are busy, and leave no capacity to divide when all are. Approach: compare the receive
//! guarantees of machines with the capacities of the shapers that will enforce them.
//!
//! Worked example: 6 and 3.6 Gb/s of 10 Gb/s are admitted, and are 100 Mb/s more than the 9.5 Gb/s of Parley's shapers.
//!
//! Source: the interface's part of its link in [`ShaperConfig`]; EyeQ's is 90 %.

use crate::text;
use std::collections::BTreeMap;
use weir_document::Diagnostic;
use weir_policy::Policy;
use weir_scenario::{Enforcement, Outcome, Scenario};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, ContentionPoint, Direction};

/// The number of machines that a remark names.
const NAMED: usize = 3;

/// Remarks on a policy that Parley's shapers would enforce.
pub fn of_policy(policy: &Policy) -> Vec<Diagnostic> {
    remarks(policy, &ShaperConfig::parley(policy, None, None))
}

/// A scenario that was read, with these remarks behind its notes.
pub fn with_remarks(read: Outcome) -> Outcome {
    read.map(|(scenario, mut notes)| {
        notes.extend(of_scenario(&scenario));
        (scenario, notes)
    })
}

/// Remarks on the policy of a scenario, by its enforcement in the simulator.
fn of_scenario(scenario: &Scenario) -> Vec<Diagnostic> {
    let Some(governed) = scenario.governed() else { return Vec::new() };
    match governed.enforcement {
        Enforcement::None | Enforcement::Levels | Enforcement::Pairs(_) => Vec::new(),
        Enforcement::EyeQ => remarks(&governed.policy, &ShaperConfig::eyeq(&governed.policy, None, None)),
        Enforcement::Shaper | Enforcement::Parley | Enforcement::QShare => of_policy(&governed.policy),
    }
}

fn remarks(policy: &Policy, shapers: &ShaperConfig) -> Vec<Diagnostic> {
    let guaranteed = policy.guaranteed(ContentionPoint::Machine, Direction::Rx);
    let Some((source, span)) = policy.receive_minimum_place() else { return Vec::new() };
    let mut short: BTreeMap<Bandwidth, Vec<&str>> = BTreeMap::new();
    for (machine, plan) in policy.network().machines().iter().zip(&shapers.machines) {
        if guaranteed > plan.capacities.rx {
            short.entry(plan.capacities.rx).or_default().push(machine.name());
        }
    }
    let percent = shapers.parameters.interface.percent_of_link;
    let remark = |(capacity, machines): (Bandwidth, Vec<&str>)| {
        let cause = format!(
            "the receive minima of {} sum to {guaranteed}, more than the {capacity} ({percent} % of the link) that \
             shapers let in: they have nothing to divide when all services are busy",
            text::list(&machines, NAMED),
        );
        let excess = guaranteed.saturating_sub(capacity);
        let hint = format!("lower machine minima by {excess} in all; `rx: {{ min: … }}` is for receive alone");
        Diagnostic::note(source, span, cause, hint)
    };
    short.into_iter().map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two services with these machine shares on three machines, one of them faster.
    fn policy(web: &str, dfs: &str, caps: &str) -> Policy {
        let text = format!(
            "weir: 1
network:
  nic: 10Gb/s
  machines: {{ m3: {{ nic: 40Gb/s }} }}
  racks: {{ r: {{ uplink: 40Gb/s, machines: [m1, m2, m3] }} }}
services:
  web: {{ match: [ {{ port: 80 }} ], machine: {web} }}
  dfs: {{ match: [ {{ port: 81 }} ], machine: {dfs} }}
{caps}"
        );
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
    }

    #[test]
    fn machines_that_guarantee_more_than_shapers_let_in() {
        let eyeq = |policy: &Policy| remarks(policy, &ShaperConfig::eyeq(policy, None, None));
        // 9.6 of 10: 9.5 is Parley's, 9 EyeQ's.
        let above = policy("{ min: 6Gb/s }", "{ rx: { min: 3.6Gb/s } }", "");
        let both = [of_policy(&above), eyeq(&above)].concat();
        insta::assert_snapshot!(both.iter().map(|remark| remark.render(false)).collect::<String>());
        // The exact capacity; the other direction; a cap that admission control applies to minima.
        let just = policy("{ min: 6Gb/s }", "{ min: 3.5Gb/s }", "");
        assert_eq!((of_policy(&just), eyeq(&just).len()), (Vec::new(), 1));
        assert_eq!(of_policy(&policy("{ min: 6Gb/s }", "{ tx: { min: 4Gb/s } }", "")), []);
        assert_eq!(of_policy(&policy("{ min: 5Gb/s }", "{ min: 4Gb/s }", "caps: { machine: 9Gb/s }")), []);
        assert_eq!(of_policy(&policy("{}", "{}", "")), []);
        // A remark on a changed value names the change.
        let changed = just.with("services.web.machine.min=6.5Gb/s").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(of_policy(&changed)[0].file(), "policy.yaml with services.web.machine.min");
    }
}
