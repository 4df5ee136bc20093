//! [`PolicyNeeds`]: what a policy needs of the ports of its network's switches.
//!
//! The one place where keys of the language become needs of ports: `levels:` needs strict queues by DSCP value, and
//! that no machine claims a level on which the policy lets it send nothing. A machine without an agent may claim none,
//! and neither may one that is not in the policy. No machine may claim network control, whose queue is above all
//! services without a level. `tenants:` need a weighted queue for each that may have one. `credits:` on switches that
//! grant them need a queue of data with at least the share of which ports grant, and room for at least the bytes that
//! they may hold, and a place above it for messages.
//!
//! Worked example: level 1 (DSCP 46) of all machines, level 2 (DSCP 34) of m1 to m4: packets that arrive from m5 with
//! DSCP 34, 48 or 56 are re-marked to 0.
//!
//! Source: QJump's slides (a priority for each level); RFC 2475 section 2.3.3 (marking at the edge of a domain).

use crate::drain::DrainLimits;
use crate::port::{DscpSet, Schedule};
use crate::request::{CONTROL, CreditClasses, Group, Needs};
use weir_network::graph::LinkRef;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES, CREDITS, Offer};
use weir_policy::{
    CreditQueue, Credits, EpochForm, LevelRates, Levels, MachineSet, Policy, beside_levels, credit_budget, credit_room,
};
use weir_units::{Bandwidth, Bytes, Duration, Load, MachineId};

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
    /// Credits, the part of a port that levels reserve, and the longest period; `None` without switches that grant
    /// credits, or with an unknown longest period.
    granted: Option<(Credits, Option<Load>, Duration)>,
}

impl PolicyNeeds {
    /// The needs of a policy. `mark` is the ECN threshold of queues, if any; the machines `without_agent` may claim no
    /// level.
    pub fn of(policy: &Policy, mark: Option<Bytes>, without_agent: Vec<MachineId>) -> Self {
        let levels = policy.levels().map_or(&[][..], |levels| levels.all());
        // Levels on switches without strict queues were refused with the policy; queues that it does not state are the
        // usual ones. Without levels nothing needs more than one queue.
        let offer = match (levels, policy.tenants()) {
            ([], []) if !grants_credits(policy) => Offer::PLAIN,
            ([], _) => policy.network().offer().unwrap_or(Offer::PLAIN),
            _ => policy.network().offer().unwrap_or(Offer::STRICT),
        };
        // Queues of tenants are there from the beginning; a controller gives them weights and values.
        let queues = if policy.tenants().is_empty() { 0 } else { offer.available().1 };
        let groups = vec![Group { dscps: Vec::new(), weight: 1 }; queues];
        let of_levels = levels.iter().map(|level| vec![level.dscp]).collect();
        let (own, shared) = match policy.credit_queue().filter(|_| grants_credits(policy)) {
            Some(CreditQueue::Weighted { own, others }) => (Some(Schedule::Weighted(own)), others),
            Some(CreditQueue::Strict) => (Some(Schedule::Strict), 1),
            None => (None, 1),
        };
        let data = own.map(|schedule| (CREDIT_DATA, schedule));
        let credits = grants_credits(policy).then_some(CreditClasses { data, messages: CREDIT_MESSAGES });
        Self {
            needs: Needs { levels: of_levels, mark, groups, credits, shared },
            offer,
            levels: levels.iter().map(|level| (level.dscp, level.senders.clone())).collect(),
            without_agent: MachineSet::new(without_agent),
            strict: policy.levels().map_or(Some((None, Bytes::ZERO)), strict_part),
            granted: granted(policy),
            of_tenants: if queues > 0 { policy.tenant_dscps().into_iter().collect() } else { DscpSet::default() },
        }
    }

    /// The service of the weighted queues of a port of this rate, each of which holds at most `buffer`: the rest of
    /// what strict queues may take. `None` if levels may take all of it, or if data with credits has a strict queue and
    /// the longest period is not known.
    pub fn drain_limits(&self, rate: Bandwidth, buffer: Bytes) -> Option<DrainLimits> {
        let (load, burst) = self.strict?;
        let rate = beside_levels(rate, load);
        let is_strict = |(_, schedule): (u8, Schedule)| schedule.is_strict();
        let (rate, burst) = match self.needs.credits.and_then(|credits| credits.data).is_some_and(is_strict) {
            true => {
                let (credits, _, period) = self.granted?;
                let granted = credits.rate(rate);
                (rate.saturating_sub(granted), burst + credit_budget(granted, period))
            }
            false => (rate, burst),
        };
        (rate > Bandwidth::ZERO).then_some(DrainLimits { rate, burst, buffer })
    }

    /// The buffer that the queue of data with credits needs at a port whose link has this rate: 2 R p, with room for
    /// packets without credits. `None` where ports grant none, or the longest period is not known.
    pub fn credit_buffer(&self, link: Bandwidth) -> Option<Bytes> {
        let (credits, reserved, period) = self.granted?;
        Some(credit_room(credits.rate(beside_levels(link, reserved)), period))
    }

    /// The same without latency levels: queues of tenants and credits, and the shared one.
    #[must_use]
    pub fn without_levels(self) -> Self {
        let needs = Needs { levels: Vec::new(), ..self.needs };
        let offer = if needs.groups.is_empty() && needs.credits.is_none() { Offer::PLAIN } else { self.offer };
        Self { needs, offer, levels: Vec::new(), strict: Some((None, Bytes::ZERO)), ..self }
    }

    /// The same without latency levels, tenants and credits: one queue.
    #[must_use]
    pub fn one_queue(self) -> Self {
        let needs = Needs { groups: Vec::new(), credits: None, shared: 1, ..self.needs };
        Self { needs, of_tenants: DscpSet::default(), ..self }.without_levels()
    }

    /// The DSCP values that no machine outside the policy may claim: those of all levels, of tenants, of credits, and
    /// of network control.
    pub fn claimable(&self) -> DscpSet {
        let of_credits = self.needs.credits.map_or(&[][..], |_| &CREDITS).iter().copied();
        let of_levels = self.levels.iter().map(|(dscp, _)| *dscp);
        self.control().chain(of_levels).chain(self.of_tenants.values()).chain(of_credits).collect()
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

/// Whether services have credits, and switches grant them.
fn grants_credits(policy: &Policy) -> bool {
    policy.credits().is_some() && policy.network().forwarders()
}

/// [`PolicyNeeds::granted`] of a policy.
fn granted(policy: &Policy) -> Option<(Credits, Option<Load>, Duration)> {
    let period = policy.credit_plan().filter(|_| grants_credits(policy))?.period_max?;
    Some((*policy.credits()?, policy.levels().and_then(|levels| levels.reserved()), period))
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
    fn data_with_credits_has_its_share_and_its_buffer() {
        let of = |switches: &str, services: &str| {
            let text = format!(
                "weir: 1\nnetwork: {{ nic: 1Gb/s, switches: {{ {switches} }}, racks: {{ r: {{ uplink: 1Gb/s, machines: \
                 [m1, m2] }} }} }}\ncredits: {{ share: 60%, period-max: 2ms }}\nservices:\n  {services}\n"
            );
            let policy = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0;
            let machine = policy.network().machine_named("m2").expect("a machine");
            let needs = PolicyNeeds::of(&policy, None, vec![machine]);
            let plan = policy.credit_plan().expect("credits");
            (needs, plan.ports[1].needed(plan.period_max.expect("stated")), LinkRef::Down(machine))
        };
        let rate = Bandwidth::from_gbps(1);
        let a = "a: { match: [ { port: 1 } ], credits: {} }";
        let both = format!("{a}\n  b: {{ match: [ {{ port: 2 }} ] }}");
        let (needs, needed, m2) = of("forwarders: true, scheduler: weighted", &both);
        // 2 · 600 Mb/s · 2 ms are 300 kB, and an eighth of that.
        assert_eq!((needed, needs.credit_buffer(rate)), (Bytes::new(337_500), Some(Bytes::new(337_500))));
        let credits = CreditClasses { data: Some((10, Schedule::Weighted(3))), messages: 40 };
        assert_eq!((needs.needs.credits, needs.needs.shared), (Some(credits), 2));
        // A machine without an agent may not claim what only credits give.
        assert_eq!(needs.remark(m2).to_string(), "10, 40");
        assert_eq!(needs.remark(LinkRef::Forward(0)).to_string(), "none");
        let queues =
            |needs: &PolicyNeeds| needs.needs.of_port(Some(rate), None).lower(needs.offer).map(|c| c.queues().len());
        assert_eq!([queues(&needs.clone().without_levels()), queues(&needs.one_queue())], [Ok(2), Ok(1)]);
        // All services have credits: one queue. Switches that grant nothing, or with one queue: the same.
        assert_eq!(
            of("forwarders: true, scheduler: weighted", a).0.needs.credits.and_then(|credits| credits.data),
            None
        );
        let (needs, ..) = of("forwarders: true, scheduler: plain", &both);
        assert_eq!((needs.needs.credits.and_then(|credits| credits.data), needs.needs.shared), (None, 1));
        // A strict queue takes R, and the bytes that a port may hold, before weighted queues.
        let (needs, ..) = of("forwarders: true, scheduler: strict", &both);
        let limits = needs.drain_limits(rate, Bytes::new(1)).expect("known");
        assert_eq!((limits.rate, limits.burst), (Bandwidth::from_mbps(400), Bytes::new(300_000)));
        let (needs, ..) = of("scheduler: weighted", &both);
        assert_eq!((needs.needs.credits, queues(&needs), needs.credit_buffer(rate)), (None, Ok(1), None));
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
