//! Checks of the interface of the policy.

use super::agent::{agent as agent_status, is_current};
use super::{Verdict, doubtful, fine, skipped, wrong};
use crate::facts::{Facts, InterfaceFacts};
use weir_linux::tc::Found;

/// The interface, or why there is nothing to judge.
fn interface(facts: &Facts) -> Result<(&str, &InterfaceFacts), Verdict> {
    match &facts.interface {
        None => Err(skipped("no --interface")),
        Some((_, Err(error))) => Err(skipped(error)),
        Some((name, Ok(interface))) => Ok((name, interface)),
    }
}

pub(super) fn there(facts: &Facts) -> Verdict {
    match &facts.interface {
        None => skipped("no --interface"),
        Some((_, Err(error))) => wrong(error, "nothing is limited there").mend("ip link"),
        Some((_, Ok(interface))) if !interface.ethernet => {
            wrong("no Ethernet", "the programs read Ethernet headers").mend("ip link")
        }
        Some((name, Ok(interface))) if interface.loopback => {
            wrong(format!("{name} is the loopback"), "no packet of another machine passes it").mend("ip link")
        }
        Some((name, Ok(_))) => fine(name),
    }
}

pub(super) fn segments(facts: &Facts) -> Verdict {
    let (name, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    let bound = facts.policy.as_ref().and_then(|policy| policy.segments);
    let levels = bound.is_some() || agent_status(facts).is_some_and(|agent| !agent.levels.is_empty());
    match (&interface.segments, bound) {
        (Err(error), _) => skipped(error),
        (Ok(1), _) if !levels => {
            doubtful("gso_max_segs 1", "each frame costs a pass through the stack, and no latency level needs it")
                .mend(format!("ip link set dev {name} gso_max_segs 65535"))
        }
        // An agent that does not run has not set it yet.
        (Ok(most), Some(bound)) if *most > bound && runs(facts, name) => wrong(
            format!("gso_max_segs {most}, and `levels.segments` is {bound}"),
            "a buffer of other traffic delays packets of latency levels beyond their bound",
        )
        .mend(format!("ip link set dev {name} gso_max_segs {bound}")),
        (Ok(most), _) => fine(format!("gso_max_segs {most}")),
    }
}

pub(super) fn offloads(facts: &Facts) -> Verdict {
    let (name, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    let offloads = match &interface.offloads {
        Ok(offloads) => offloads,
        Err(error) => return skipped(error),
    };
    if offloads.lro {
        return doubtful(
            "LRO is on",
            "the device merges frames and drops their headers, so that bytes of received packets are not counted",
        )
        .mend(format!("ethtool -K {name} lro off"));
    }
    if !offloads.gro {
        return doubtful("GRO is off", "each received frame costs a pass through the programs and the stack")
            .mend(format!("ethtool -K {name} gro on"));
    }
    if !offloads.gso && !offloads.tso {
        return doubtful("GSO and TSO are off", "each sent frame costs a pass through the programs and the qdisc")
            .mend(format!("ethtool -K {name} gso on"));
    }
    let on = [(offloads.gro, "GRO"), (offloads.gso, "GSO"), (offloads.tso, "TSO")];
    let on: Vec<&str> = on.into_iter().filter_map(|(is_on, name)| is_on.then_some(name)).collect();
    fine(format!("{} on", on.join(", ")))
}

pub(super) fn qdisc(facts: &Facts) -> Verdict {
    let (name, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    let runs = runs(facts, name);
    let restart = "systemctl restart weir-agent";
    match &interface.qdisc {
        Err(error) => skipped(error),
        Ok(Found::Foreign(qdisc)) if qdisc.is_root() => {
            wrong(format!("{qdisc}, of another program"), "the agent does not replace it, and limits nothing")
                .mend(format!("tc qdisc del dev {name} root"))
        }
        Ok(Found::Foreign(qdisc)) => wrong(
            format!("{qdisc} below the root, of another program"),
            "the agent does not replace it, and limits nothing",
        )
        .mend(format!("tc qdisc show dev {name}")),
        Ok(Found::Default(kind)) if runs => {
            wrong(format!("the kernel's {kind}"), "an agent runs and its qdisc is gone").mend(restart)
        }
        Ok(Found::Default(kind)) => fine(format!("the kernel's {kind}")),
        Ok(Found::Leftover | Found::OtherBackend) if runs || facts.statuses.is_empty() => fine("Weir's"),
        Ok(Found::Leftover | Found::OtherBackend) => {
            doubtful("Weir's, without a current status of an agent", "limits of an ended agent may be in force")
                .mend(format!("weir agent --remove --interface {name}"))
        }
    }
}

/// Whether this host's status is of an agent that runs on the interface.
fn runs(facts: &Facts, name: &str) -> bool {
    agent_status(facts).is_some_and(|agent| agent.interface == name && is_current(facts, agent))
}

pub(super) fn programs(facts: &Facts) -> Verdict {
    let (name, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    match (&interface.detached, &interface.agent) {
        (Err(error), _) => skipped(error),
        (Ok(detached), _) if detached.is_empty() => fine("attached, or none"),
        (Ok(detached), Ok(Some(_))) => {
            wrong(format!("{} detached", detached.join(", ")), "the agent has not attached them again")
                .mend("systemctl restart weir-agent")
        }
        (Ok(detached), _) => {
            wrong(format!("{} detached", detached.join(", ")), "limits that an agent left are not in force")
                .mend(format!("weir agent --remove --interface {name}"))
        }
    }
}

pub(super) fn agent(facts: &Facts) -> Verdict {
    let (_, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    match &interface.agent {
        Err(error) => skipped(error),
        Ok(Some(process)) => fine(format!("process {process}")),
        Ok(None) => doubtful("no agent", "nothing is limited, or limits that an agent left are")
            .mend("systemctl start weir-agent"),
    }
}
