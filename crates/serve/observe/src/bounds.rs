//! The causes for which the bounds of latency levels are not in force.
//!
//! A bound holds if every sender is limited to the same levels and every port has their queues: one sender or port
//! without them breaks the bounds of all. A cause is therefore
//!
//! - a premise that does not hold, in the status of an agent or a switch;
//! - an agent or switch with other levels than the others: DSCP values, and for agents bounds;
//! - an agent or switch whose levels are unknown, since it is lost. The levels of a lost agent stay in force if it runs
//!   with `--keep`. A switch that is not watched may have lost its queues.
//!
//! A lost machine is no cause where a watched switch re-marks its packets (`--without-agent`), and neither is a fabric
//! broker, which has no levels. Without levels anywhere there are no bounds, and no causes.
//!
//! Worked example: level 1 has DSCP 46. m1 and m2 have a bound of 85 µs, and m3, whose policy is newer, 90 µs: "m3: has
//! other levels than m1".

use crate::liveness::Liveness;
use std::collections::{BTreeMap, BTreeSet};
use weir_status::{Status, SwitchStatus};

/// The levels of an agent or a switch, the most urgent first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Levels {
    dscps: Vec<u8>,
    /// In ns; `None` for a switch, which has no bounds.
    bounds: Option<Vec<Option<u64>>>,
}

impl Levels {
    /// The levels in a status; `None` where it has none of its own, or they are unknown.
    fn of(status: &Status) -> Option<Self> {
        match status {
            Status::Agent(agent) => Some(Self {
                dscps: agent.levels.iter().map(|level| level.dscp).collect(),
                bounds: Some(agent.levels.iter().map(|level| level.bound_ns).collect()),
            }),
            Status::Switch(switch) => Some(Self { dscps: switch.levels.clone()?, bounds: None }),
            Status::Fabric(_) => None,
        }
    }

    fn agrees_with(&self, other: &Self) -> bool {
        let bounds = self.bounds.as_ref().zip(other.bounds.as_ref());
        self.dscps == other.dscps && bounds.is_none_or(|(own, other)| own == other)
    }
}

/// The levels of most sources, and a source that has them.
struct Reference {
    name: String,
    levels: Levels,
}

impl Reference {
    /// Agents decide, since their status has the bounds; switches where no agent has levels.
    fn of(livenesses: &[Liveness]) -> Option<Self> {
        let known = |liveness: &Liveness| {
            let levels = Levels::of(liveness.status.as_deref()?).filter(|levels| !levels.dscps.is_empty())?;
            Some((levels, liveness.title()))
        };
        // By levels: the number of sources, and the first of them.
        let mut counts: BTreeMap<Levels, (usize, usize, String)> = BTreeMap::new();
        for (index, (levels, name)) in livenesses.iter().filter_map(known).enumerate() {
            counts.entry(levels).or_insert((0, index, name)).0 += 1;
        }
        let most = |(levels, (count, first, _)): &(Levels, (usize, usize, String))| {
            (levels.bounds.is_some(), *count, std::cmp::Reverse(*first))
        };
        counts.into_iter().max_by_key(most).map(|(levels, (_, _, name))| Self { name, levels })
    }

    /// Why the levels of a status are not these.
    fn obstacle(&self, liveness: &Liveness, status: &Status) -> Option<String> {
        match Levels::of(status) {
            Some(levels) if levels.agrees_with(&self.levels) => None,
            Some(_) => Some(format!("{}: has other levels than {}", liveness.title(), self.name)),
            None => Some(format!("{}: its levels are unknown: its watch is of an earlier version", liveness.title())),
        }
    }
}

/// The causes for which the bounds of latency levels are not in force, one line for each.
pub fn obstacles_to_bounds(livenesses: &[Liveness]) -> Vec<String> {
    let reference = Reference::of(livenesses);
    // A switch of an earlier version may have levels.
    let unknown = |liveness: &Liveness| match liveness.status.as_deref() {
        Some(Status::Switch(switch)) => !switch.is_without_levels(),
        _ => false,
    };
    if reference.is_none() && !livenesses.iter().any(unknown) {
        return Vec::new();
    }
    let kept_off = kept_off_levels(livenesses);
    livenesses.iter().flat_map(|liveness| obstacles(liveness, reference.as_ref(), &kept_off)).collect()
}

/// The machines whose packets no level can have, by the status of a watched switch.
fn kept_off_levels(livenesses: &[Liveness]) -> BTreeSet<&str> {
    let current = livenesses.iter().filter(|liveness| liveness.lost.is_none());
    let switches = current.filter_map(|liveness| match liveness.status.as_deref() {
        Some(Status::Switch(switch)) => Some(switch),
        _ => None,
    });
    switches.flat_map(SwitchStatus::kept_off_levels).collect()
}

/// The causes of one source.
fn obstacles(liveness: &Liveness, reference: Option<&Reference>, kept_off: &BTreeSet<&str>) -> Vec<String> {
    let lost = liveness.lost.as_ref().map(|lost| &lost.why);
    let unknown = |what: &str, why: &String| vec![format!("{}: its {what} are unknown: {why}", liveness.title())];
    match (lost, liveness.status.as_deref()) {
        _ if liveness.is_fabric_broker() => Vec::new(),
        (Some(why), _) if liveness.is_switch() => unknown("ports", why),
        (Some(_), _) if kept_off.contains(liveness.name().as_str()) => Vec::new(),
        (Some(why), None) => unknown("levels", why),
        (Some(why), Some(Status::Agent(agent))) if !agent.keeps => unknown("levels", why),
        (_, Some(status)) => {
            let other = reference.and_then(|reference| reference.obstacle(liveness, status));
            other.into_iter().chain(status.obstacles_to_bounds()).collect()
        }
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::Whose;
    use weir_policy::Policy;
    use weir_status::{AgentStatus, FabricStatus, LevelStatus, SwitchPortStatus};
    use weir_units::{Bandwidth, Instant};

    fn policy() -> Policy {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [\"m[1-4]\"] } } }\n\
                    services: { a: { match: [ { port: 1 } ] } }\n";
        Policy::parse("policy.yaml", text).expect("sound").0
    }

    /// An agent with levels of these DSCP values and bounds.
    fn agent(machine: &str, levels: &[(u8, u64)]) -> AgentStatus {
        let policy = policy();
        let level = |(index, &(dscp, bound)): (usize, &(u8, u64))| LevelStatus {
            level: index as u32 + 1,
            dscp,
            rate: Bandwidth::from_mbps(8),
            burst_bytes: 1_538,
            bound_ns: Some(bound),
            counters: None,
        };
        let machine = policy.network().machine_named(machine).expect("a machine");
        AgentStatus {
            levels: levels.iter().enumerate().map(level).collect(),
            keeps: true,
            ..AgentStatus::outline(&policy, machine)
        }
    }

    /// A switch with a port to m1 in force, and one to m2 that `differs`.
    fn switch(levels: Option<&[u8]>, differs: bool) -> SwitchStatus {
        let port = |port: &str, differs: bool| SwitchPortStatus {
            port: port.into(),
            interface: port.into(),
            differs: differs.then(|| "rate: 20 Mb/s -> line rate".to_owned()).into_iter().collect(),
            ..SwitchPortStatus::default()
        };
        SwitchStatus {
            ports: vec![port("m1", false), port("m2", differs)],
            levels: levels.map(<[u8]>::to_vec),
            ..SwitchStatus::outline("r1".into(), "0123456789abcdef".into(), 10_000)
        }
    }

    fn seen(status: Status) -> Liveness {
        let mut liveness = Liveness::new("http://10.0.0.1:1".parse().expect("a source"), None);
        liveness.record(Instant::ZERO, Ok(status));
        liveness
    }

    fn lost(mut liveness: Liveness) -> Liveness {
        liveness.record(Instant::from_nanos(1), Err("refused".into()));
        liveness
    }

    fn never_seen(machine: &str) -> Liveness {
        lost(Liveness::new("http://10.0.0.1:1".parse().expect("a source"), Some(machine.to_owned())))
    }

    fn a(machine: &str, levels: &[(u8, u64)]) -> Liveness {
        seen(Status::Agent(agent(machine, levels)))
    }

    fn s(levels: Option<&[u8]>, differs: bool) -> Liveness {
        seen(Status::Switch(switch(levels, differs)))
    }

    const LEVELS: &[(u8, u64)] = &[(46, 85_000), (34, 420_000)];
    const DSCPS: Option<&[u8]> = Some(&[46, 34]);

    #[test]
    fn agents_and_switches_must_have_the_same_levels() {
        let same = [a("m1", LEVELS), a("m2", LEVELS), s(DSCPS, false)];
        assert_eq!(obstacles_to_bounds(&same), Vec::<String>::new());
        let others = [
            a("m3", &[(46, 90_000), (34, 420_000)]),
            a("m1", LEVELS),
            a("m2", LEVELS),
            a("m4", &[]),
            s(Some(&[46]), false),
            s(Some(&[]), false),
            s(None, false),
        ];
        assert_eq!(
            obstacles_to_bounds(&others),
            [
                "m3: has other levels than m1",
                "m4: has other levels than m1",
                "switch r1: has other levels than m1",
                "switch r1: has other levels than m1",
                "switch r1: its levels are unknown: its watch is of an earlier version",
            ]
        );
        let switches_first = [a("m1", &[]), s(Some(&[46]), false)];
        assert_eq!(obstacles_to_bounds(&switches_first), ["m1: has other levels than switch r1"]);
    }

    #[test]
    fn without_levels_there_are_no_bounds() {
        let none = [a("m1", &[]), never_seen("m2"), s(Some(&[]), true), lost(s(Some(&[]), false))];
        assert_eq!(obstacles_to_bounds(&none), Vec::<String>::new());
        // A watch of an earlier version reports no levels.
        let cause = "switch r1, port m2: not as the policy needs it";
        assert_eq!(obstacles_to_bounds(&[a("m1", &[]), s(None, true)]), [cause]);
        assert_eq!(obstacles_to_bounds(&[a("m1", LEVELS), s(DSCPS, true)]), [cause]);
    }

    #[test]
    fn levels_of_lost_sources_are_unknown_unless_the_agent_keeps_them() {
        let ended = Status::Agent(AgentStatus { keeps: false, ..agent("m2", LEVELS) });
        let watched = Liveness::new("http://10.0.0.2:1".parse().expect("a source"), None).of(Whose::Switch);
        let broker = FabricStatus::outline(&policy(), "f1", 1);
        let unseen = Liveness::new("http://10.0.0.3:1".parse().expect("a source"), None).of(Whose::FabricBroker);
        let sources = [
            lost(a("m1", LEVELS)),
            lost(seen(ended)),
            never_seen("m3"),
            lost(s(DSCPS, false)),
            lost(watched),
            lost(seen(Status::Fabric(broker))),
            lost(unseen),
        ];
        assert_eq!(
            obstacles_to_bounds(&sources),
            [
                "m2: its levels are unknown: refused",
                "m3: its levels are unknown: refused",
                "switch r1: its ports are unknown: refused",
                "switch http://10.0.0.2:1/status: its ports are unknown: refused",
            ]
        );
    }

    #[test]
    fn machine_without_an_agent_is_no_cause_behind_a_port_that_re_marks() {
        let with = |differs| {
            let machines = vec!["m1".to_owned(), "m2".to_owned(), "m9".to_owned()];
            seen(Status::Switch(SwitchStatus { without_agent: machines, ..switch(DSCPS, differs) }))
        };
        let rack = |switch: Liveness| [never_seen("m1"), never_seen("m2"), a("m3", LEVELS), switch];
        assert_eq!(obstacles_to_bounds(&rack(with(false))), Vec::<String>::new());
        assert_eq!(
            obstacles_to_bounds(&rack(with(true))),
            ["m2: its levels are unknown: refused", "switch r1, port m2: not as the policy needs it"]
        );
        assert_eq!(obstacles_to_bounds(&rack(lost(with(false)))).len(), 3, "the switch may have lost its ports");
    }
}
