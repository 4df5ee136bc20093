//! Checks of the agent, by its status.

use super::{Verdict, doubtful, fine, quoted, skipped, wrong};
use crate::facts::{Facts, StatusFacts};
use weir_status::{AgentStatus, NO_POD, SessionState, Status};

/// This host's agent: the first status.
pub(super) fn agent(facts: &Facts) -> Option<&AgentStatus> {
    match &facts.statuses.first()?.status {
        Ok(Status::Agent(agent)) => Some(agent),
        _ => None,
    }
}

/// How long a status is current: three periods, of at least a second.
fn current_ms(agent: &AgentStatus) -> u64 {
    3 * agent.period_ms.max(1_000)
}

/// Whether a status is neither old nor dated in the future.
pub(super) fn is_current(facts: &Facts, agent: &AgentStatus) -> bool {
    facts.now_ms.abs_diff(agent.written_ms) <= current_ms(agent)
}

/// Judges this host's agent.
fn of_agent(facts: &Facts, judge: impl FnOnce(&AgentStatus) -> Verdict) -> Verdict {
    agent(facts).map_or_else(|| skipped("no status of an agent (--status)"), judge)
}

pub(super) fn status(facts: &Facts) -> Verdict {
    let show = "systemctl status weir-agent";
    match facts.statuses.first() {
        None => skipped("no --status"),
        Some(StatusFacts { source, status: Err(error) }) => {
            wrong(format!("{source}: {error}"), "no agent writes its status there").mend(show)
        }
        Some(StatusFacts { source, status: Ok(Status::Agent(agent)) }) => {
            let ahead = agent.written_ms.saturating_sub(facts.now_ms);
            if ahead > current_ms(agent) {
                let found = format!("{source}: dated {ahead} ms in the future");
                return wrong(found, "a clock was set back, or it is another host's status").mend("timedatectl");
            }
            let age = facts.now_ms.saturating_sub(agent.written_ms);
            if is_current(facts, agent) {
                return fine(format!("{}, {age} ms old", agent.machine));
            }
            wrong(format!("{source}: {age} ms old"), "the agent has ended or does not progress").mend(show)
        }
        Some(StatusFacts { source, .. }) => {
            wrong(format!("{source}: not of an agent"), "the first --status is this host's")
        }
    }
}

pub(super) fn enforces(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| match &agent.not_enforced {
        _ if agent.interface_absent => {
            wrong(format!("{} is gone", agent.interface), "nothing is limited until it is back").mend("ip link")
        }
        Some(reason) => wrong(reason, "limits are not in force").mend("systemctl restart weir-agent"),
        None => fine(format!("by {}", agent.backend)),
    })
}

pub(super) fn policy(facts: &Facts) -> Verdict {
    let reload = "systemctl reload weir-agent";
    of_agent(facts, |agent| match (&agent.policy_refused, &facts.policy) {
        (Some(reason), _) => wrong(reason, "the last reload was refused, and the old policy is in force").mend(reload),
        (None, Some(policy)) if policy.fingerprint != agent.policy => wrong(
            format!("{} is {}, the agent has {}", policy.file, policy.fingerprint, agent.policy),
            "machines with different policies do not use each other's reports",
        )
        .mend(reload),
        (None, None) => skipped("no policy file was given"),
        (None, Some(_)) => fine(&agent.policy),
    })
}

pub(super) fn peers(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| {
        let found = format!("{} of {}", agent.peers_alive, agent.peers);
        if agent.peers_alive >= agent.peers {
            return fine(found);
        }
        let top = match &facts.policy {
            Some(policy) => format!("weir top --once --policy {}", quoted(&policy.file)),
            None => {
                let sources: Vec<String> = facts.statuses.iter().map(|status| quoted(&status.source)).collect();
                format!("weir top --once {}", sources.join(" "))
            }
        };
        let why = "without reports a machine counts as it last reported, and without any the static policy applies";
        if agent.peers_alive == 0 { wrong(found, why) } else { doubtful(found, why) }.mend(top)
    })
}

/// A counter of datagrams that do not count; `compare` is to have the same output on all machines.
fn counter(count: u64, what: &str, why: &'static str, compare: String) -> Verdict {
    match count {
        0 => fine("none refused"),
        _ => doubtful(format!("{count} datagrams {what}"), why).mend(compare),
    }
}

pub(super) fn keys(facts: &Facts) -> Verdict {
    let why = "since the agent's start: a machine has another key, or forged datagrams arrive";
    let key = facts.key.as_ref().map_or_else(|| "/etc/weir/key".to_owned(), |(path, _)| path.display().to_string());
    let compare = format!("sha256sum {}", quoted(&key));
    of_agent(facts, |agent| counter(agent.counters.datagrams_forged, "with an invalid tag", why, compare))
}

pub(super) fn versions(facts: &Facts) -> Verdict {
    let why = "since the agent's start: a machine runs another version of Weir";
    of_agent(facts, |agent| {
        counter(agent.counters.datagrams_other_version, "of another version", why, "weir --version".to_owned())
    })
}

pub(super) fn filters(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| {
        // A scheduler decides which pods a node has, so a selector without a pod here is usual.
        let (pods, others): (Vec<&String>, Vec<&String>) =
            agent.filters_unmatched.iter().partition(|line| line.contains(NO_POD));
        let missed = others.into_iter().chain(&agent.guests_missed).chain(&agent.cgroups_missed);
        let missed: Vec<&str> = missed.map(String::as_str).collect();
        if !missed.is_empty() {
            return doubtful(missed.join("; "), "packets of these services belong to no service or to another one");
        }
        match pods.first() {
            Some(first) if pods.len() > 1 => fine(format!("{first} (and {} more)", pods.len() - 1)),
            Some(first) => fine(*first),
            None => fine("all match"),
        }
    })
}

pub(super) fn levels(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| match agent.level_obstacles.is_empty() {
        true => fine(if agent.levels.is_empty() { "no levels" } else { "all hold" }),
        false => {
            doubtful(agent.level_obstacles.join("; "), "packets of latency levels may wait longer than their bound")
        }
    })
}

pub(super) fn fabric(facts: &Facts) -> Verdict {
    const DAYS_LEFT: i64 = 30;
    of_agent(facts, |agent| {
        let Some((link, session)) = agent.fabric.as_ref().and_then(|link| Some((link, link.session.as_ref()?))) else {
            return skipped("no fabric broker is configured");
        };
        let now = i64::try_from(facts.now_ms / 1_000).unwrap_or(i64::MAX);
        let days = session.certificate_ends.map(|ends| (ends - now).div_euclid(86_400));
        match days {
            Some(days) if days < 0 => wrong("the certificate has ended", "the fabric broker refuses this machine"),
            _ if link.leads && session.state != SessionState::Up => {
                let reason = session.last_failure.as_deref().unwrap_or("no failure yet");
                wrong(
                    format!("{}: {reason}", session.state.name()),
                    "the rack does not report to the fabric, whose limits end",
                )
            }
            Some(days) if days < DAYS_LEFT => {
                doubtful(format!("the certificate ends in {days} days"), "the fabric broker then refuses this machine")
            }
            _ => fine(session.state.name()),
        }
    })
}

pub(super) fn rack_policies(facts: &Facts) -> Verdict {
    let fingerprint = |facts: &StatusFacts| match facts.status.as_ref().ok()? {
        Status::Agent(agent) => Some((agent.machine.clone(), agent.policy.clone())),
        Status::Fabric(broker) => Some((broker.name.clone(), broker.policy.clone())),
        Status::Switch(_) => None,
    };
    let all: Vec<(String, String)> = facts.statuses.iter().filter_map(fingerprint).collect();
    if all.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        let listed: Vec<String> = all.iter().map(|(name, policy)| format!("{name} has {policy}")).collect();
        return wrong(listed.join(", "), "machines with different policies do not use each other's reports");
    }
    // The check `agent.status` has the reason for the first one.
    let unread = |facts: &StatusFacts| Some(format!("{}: {}", facts.source, facts.status.as_ref().err()?));
    let unread: Vec<String> = facts.statuses.iter().skip(1).filter_map(unread).collect();
    if !unread.is_empty() {
        return doubtful(unread.join("; "), "the policy of that machine cannot be compared");
    }
    match &all[..] {
        [(_, first), _, ..] => fine(format!("{first} in {} statuses", all.len())),
        _ => skipped("needs two statuses (--status)"),
    }
}
