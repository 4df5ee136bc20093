//! [`PolicyNeeds`]: what a policy needs of the ports of its network's switches.
//!
//! The one place where keys of the language become needs of ports: `levels:` needs strict queues by DSCP value, and
//! that no machine claims a level on which the policy lets it send nothing. A machine without an agent may claim none,
//! and neither may one that is not in the policy. No machine may claim network control, whose queue is above all
//! services without a level. `tenants:` need a weighted queue for each that may have one.
//!
//! Worked example: level 1 (DSCP 46) of all machines, level 2 (DSCP 34) of m1 to m4: packets that arrive from m5 with
//! DSCP 34, 48 or 56 are re-marked to 0.
//!
//! Source: QJump's slides (a priority for each level); RFC 2475 section 2.3.3 (marking at the edge of a domain).

use crate::drain::DrainLimits;
use crate::port::DscpSet;
use crate::request::{CONTROL, Group, Needs};
use weir_network::graph::LinkRef;
use weir_network::switches::Offer;
use weir_policy::{EpochForm, LevelRates, Levels, MachineSet, Policy, beside_levels};
use weir_units::{Bandwidth, Bytes, Load, MachineId};

/// The needs of a policy at the ports of its network.
#[derive(Debug, Clone)]
pub struct PolicyNeeds {
    /// The needs of all ports.
    pub needs: Needs,
    /// The queues of the switches.
    pub offer: Offer,
    /// By level: its DSCP value, and the machines that may send on it; `None` for all of them.
    levels: Vec<(u8, Option<MachineSet>)>,
    without_agent: MachineSet,
    /// The values that tenants can have.
    of_tenants: DscpSet,
    /// The part of a port's rate that all levels may take, and their bursts; `None`: levels that together may fill a
    /// port.
    strict: Option<(Option<Load>, Bytes)>,
}

impl PolicyNeeds {
    /// The needs of a policy. `mark` is the ECN threshold of queues, if any; the machines `without_agent` may claim no
    /// level.
    pub fn of(policy: &Policy, mark: Option<Bytes>, without_agent: Vec<MachineId>) -> Self {
        let levels = policy.levels().map_or(&[][..], |levels| levels.all());
        // Levels on switches without strict queues were refused with the policy; queues that it does not state are the
        // usual ones. Without levels nothing needs more than one queue.
        let offer = match (levels, policy.tenants()) {
            ([], []) => Offer::PLAIN,
            ([], _) => policy.network().offer().unwrap_or(Offer::PLAIN),
            _ => policy.network().offer().unwrap_or(Offer::STRICT),
        };
        // Queues of tenants are there from the beginning; a controller gives them weights and values.
        let queues = if policy.tenants().is_empty() { 0 } else { offer.available().1 };
        let groups = vec![Group { dscps: Vec::new(), weight: 1 }; queues];
        let of_levels = levels.iter().map(|level| vec![level.dscp]).collect();
        Self {
            needs: Needs { levels: of_levels, mark, groups, shared: 1 },
            offer,
            levels: levels.iter().map(|level| (level.dscp, level.senders.clone())).collect(),
            without_agent: MachineSet::new(without_agent),
            strict: policy.levels().map_or(Some((None, Bytes::ZERO)), strict_part),
            of_tenants: if queues > 0 { policy.tenant_dscps().into_iter().collect() } else { DscpSet::default() },
        }
    }

    /// The service of the weighted queues of a port of this rate, each of which holds at most `buffer`: the rest of
    /// what strict queues may take. `None` if levels may take all of it.
    pub fn drain_limits(&self, rate: Bandwidth, buffer: Bytes) -> Option<DrainLimits> {
        let (load, burst) = self.strict?;
        let rate = beside_levels(rate, load);
        (rate > Bandwidth::ZERO).then_some(DrainLimits { rate, burst, buffer })
    }

    /// The same without latency levels: tenants' queues and the shared one.
    #[must_use]
    pub fn without_levels(self) -> Self {
        let needs = Needs { levels: Vec::new(), ..self.needs };
        let offer = if needs.groups.is_empty() { Offer::PLAIN } else { self.offer };
        Self { needs, offer, levels: Vec::new(), strict: Some((None, Bytes::ZERO)), ..self }
    }

    /// The same without latency levels and tenants: one queue.
    #[must_use]
    pub fn one_queue(self) -> Self {
        let needs = Needs { groups: Vec::new(), ..self.needs };
        Self { needs, of_tenants: DscpSet::default(), ..self }.without_levels()
    }

    /// The DSCP values that no machine outside the policy may claim: those of all levels, of tenants, and of network
    /// control.
    pub fn claimable(&self) -> DscpSet {
        self.control().chain(self.levels.iter().map(|(dscp, _)| *dscp)).chain(self.of_tenants.values()).collect()
    }

    /// The values of network control, which have a strict queue beside levels.
    fn control(&self) -> impl Iterator<Item = u8> {
        let is_level = |dscp: &u8| self.levels.iter().any(|(level, _)| level == dscp);
        CONTROL.into_iter().filter(move |dscp| !self.levels.is_empty() && !is_level(dscp))
    }

    /// The DSCP values that are re-marked where packets of the neighbour behind this link arrive.
    pub fn remark(&self, link: LinkRef) -> DscpSet {
        let LinkRef::Down(machine) = link else { return DscpSet::default() };
        if self.without_agent.contains(machine) {
            return self.claimable();
        }
        let may_send = |senders: &Option<MachineSet>| senders.as_ref().is_none_or(|senders| senders.contains(machine));
        let others = self.levels.iter().filter(|(_, senders)| !may_send(senders)).map(|(dscp, _)| *dscp);
        self.control().chain(others).collect()
    }
}

/// The part of a port that levels may take if all senders send to it, and their bursts; `None` where the levels are not
/// bounded: with windows, those of a low priority may send more together than a port carries.
fn strict_part(levels: &Levels) -> Option<(Option<Load>, Bytes)> {
    let sum = |of: fn(&LevelRates) -> u64| -> u128 {
        levels.all().iter().map(|level| u128::from(of(level)) * u128::from(level.sender_count)).sum()
    };
    let slowest = u128::from(levels.settings().slowest.bps());
    let is_bounded = levels.settings().epoch == EpochForm::Regulated || sum(|level| level.rate.bps()) < slowest;
    let burst = Bytes::new(u64::try_from(sum(|level| level.burst.get())).unwrap_or(u64::MAX));
    is_bounded.then(|| (levels.reserved(), burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_may_claim_the_levels_on_which_they_send() {
        let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 40Gb/s, machines: [\"m[1-3]\"] } } }\n\
            levels: { factors: [1, 2] }\nservices:\n  a: { match: [ { port: 1 } ], level: 1, machines: [m1, m2] }\n  \
            b: { match: [ { port: 2 } ], level: 2, machines: [m1, m3] }\n";
        let policy = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let machine = |name| policy.network().machine_named(name).expect("a machine");
        let needs = PolicyNeeds::of(&policy, None, vec![machine("m3")]);
        let remarked = |link| needs.remark(link).to_string();
        assert_eq!(
            ["m1", "m2", "m3"].map(|name| remarked(LinkRef::Down(machine(name)))),
            ["48, 56", "34, 48, 56", "34, 46, 48, 56"]
        );
        assert_eq!(remarked(LinkRef::Forward(0)), "none");
        assert_eq!(needs.needs.levels, [vec![46], vec![34]]);
    }

    #[test]
    fn ports_without_enforcement_have_one_queue() {
        let text = "weir: 1\nnetwork:\n  nic: 1Gb/s\n  switches: { queues: 8, scheduler: weighted }\n  slots: 2\n  \
            racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } }\ntenants:\n  t: { vms: 2, bandwidth: 100Mb/s, \
            match: [ { port: 1 } ] }\n";
        let policy = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let needs = PolicyNeeds::of(&policy, None, Vec::new());
        let queues = |needs: &PolicyNeeds| {
            let request = needs.needs.of_port(Some(policy.network().machines()[0].nic().tx), None);
            request.lower(needs.offer).map(|config| config.queues().count())
        };
        assert_eq!([queues(&needs.clone().without_levels()), queues(&needs.one_queue())], [Ok(8), Ok(1)]);
    }
}
