//! The shown rows of a view: machines, services on them, and tenants, sorted and filtered.

use crate::text;
use std::cmp::Reverse;
use weir_observe::Liveness;
use weir_observe::watcher::View;
use weir_status::{AgentStatus, DirectionStatus, FabricStatus, Mode, Status, SwitchStatus, TenantPort, TenantStatus};
use weir_units::{Bandwidth, Direction, Duration, Instant};

/// The order of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// The largest usage first.
    #[default]
    Usage,
    /// Limited ones first, the nearest to its limit before others.
    Limited,
    /// By machine, then by service.
    Machine,
    /// By service, then by machine.
    Service,
}

impl Order {
    pub(crate) const ALL: [Self; 4] = [Self::Usage, Self::Limited, Self::Machine, Self::Service];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Limited => "limited",
            Self::Machine => "machine",
            Self::Service => "service",
        }
    }
    pub(crate) fn next(self) -> Self {
        let index = Self::ALL.iter().position(|order| *order == self).unwrap_or_default();
        Self::ALL[(index + 1) % Self::ALL.len()]
    }
}

/// The filter of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Filter {
    /// Words that must all be in a row's machine, rack, service or deciding constraint.
    pub(crate) words: String,
    /// Only this direction.
    pub(crate) direction: Option<Direction>,
}

/// One service on one machine in one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) agent: &'a AgentStatus,
    pub(crate) lost: bool,
    pub(crate) service: &'a str,
    pub(crate) direction: Direction,
    pub(crate) status: &'a DirectionStatus,
}

impl Row<'_> {
    pub(crate) fn usage(&self) -> Bandwidth {
        self.status.usage.unwrap_or(Bandwidth::ZERO)
    }
    /// The rate of what the service's pacing or queue dropped, if it dropped anything.
    pub(crate) fn dropped(&self) -> Option<Bandwidth> {
        self.status.dropped.filter(|rate| *rate > Bandwidth::ZERO)
    }
    /// The deciding constraint; a dash if unknown.
    pub(crate) fn decided_by(&self) -> &str {
        self.status.decided_by.as_deref().unwrap_or("-")
    }
    fn matches(&self, filter: &Filter) -> bool {
        if filter.direction.is_some_and(|direction| direction != self.direction) {
            return false;
        }
        let texts = [&self.agent.machine, &self.agent.rack, self.service, self.decided_by()];
        filter.words.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
    }
    /// Usage as a part of the limit, in thousandths.
    fn fullness(&self) -> u128 {
        u128::from(self.usage().bps()) * 1_000 / u128::from(self.status.effective_limit().bps().max(1))
    }
}

/// The services to show.
pub(crate) fn services<'a>(view: &'a View, filter: &Filter, order: Order) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for liveness in &view.livenesses {
        let Some(Status::Agent(agent)) = liveness.status.as_deref() else { continue };
        for service in &agent.services {
            for direction in Direction::ALL {
                let status = service.direction(direction);
                let row = Row { agent, lost: liveness.lost.is_some(), service: &service.service, direction, status };
                if row.matches(filter) {
                    rows.push(row);
                }
            }
        }
    }
    // The sorts are stable: equal rows stay in the order of sources and of the policy.
    match order {
        Order::Usage => rows.sort_by_key(|row| Reverse(row.usage())),
        Order::Limited => rows.sort_by_key(|row| Reverse((row.status.is_limited(), row.fullness()))),
        Order::Machine => {}
        Order::Service => rows.sort_by_key(|row| row.service),
    }
    rows
}

/// One source: an agent, a fabric broker, a switch, or one without a status yet.
#[derive(Debug, Clone)]
pub(crate) struct Machine<'a> {
    pub(crate) name: String,
    pub(crate) agent: Option<&'a AgentStatus>,
    pub(crate) fabric: Option<&'a FabricStatus>,
    pub(crate) switch: Option<&'a SwitchStatus>,
    /// The time since its loss, and the reason.
    pub(crate) lost: Option<(Duration, &'a str)>,
}

impl Machine<'_> {
    /// The usage of the interface by all services.
    pub(crate) fn usage(&self, direction: Direction) -> Bandwidth {
        let services = self.agent.map_or(&[][..], |agent| &agent.services);
        services.iter().filter_map(|service| service.direction(direction).usage).sum()
    }
    /// The state as a text.
    pub(crate) fn state(&self) -> String {
        if let Some(switch) = self.switch {
            let refused = if switch.policy_refused.is_some() { ", policy refused" } else { "" };
            let unread = match switch.unread() {
                0 => String::new(),
                ports => format!(", counters of {} not read", text::count(ports, "port")),
            };
            return format!("switch, {}/{} ports in force{refused}{unread}", switch.in_force(), switch.ports.len());
        }
        match (self.agent, self.fabric) {
            (Some(agent), _) => agent_state(agent),
            (_, Some(fabric)) => {
                let leads = if fabric.leads { "leads" } else { "standby" };
                format!("fabric broker, {leads}, {}/{} racks", fabric.racks_reporting, fabric.racks)
            }
            (None, None) => String::new(),
        }
    }
}

/// The state of an agent as a text.
fn agent_state(agent: &AgentStatus) -> String {
    if agent.interface_absent {
        return format!("{} is gone", agent.interface);
    }
    if let Some(why) = &agent.not_enforced {
        return format!("not enforced: {why}");
    }
    let mode = agent.mode.map_or("starts", Mode::name);
    match &agent.fabric {
        Some(link) if link.shut_out => {
            let why = link.session.as_ref().map_or(Some("no --fabric"), |session| session.last_failure.as_deref());
            format!("shut out of the fabric broker: {}", why.unwrap_or("it sends no limits"))
        }
        _ if !agent.unheard.is_empty() => format!("of an older epoch: {}", agent.unheard.join(", ")),
        Some(link) if link.leads => format!("leads, {mode} {}/{} peers", agent.peers_alive, agent.peers),
        _ => format!("{mode} {}/{} peers", agent.peers_alive, agent.peers),
    }
}

/// All sources, lost ones first.
pub(crate) fn machines(view: &View) -> Vec<Machine<'_>> {
    let mut machines: Vec<Machine<'_>> = view.livenesses.iter().map(|liveness| machine(liveness, view.at)).collect();
    machines.sort_by_key(|machine| machine.lost.is_none());
    machines
}

fn machine(liveness: &Liveness, now: Instant) -> Machine<'_> {
    let (agent, fabric, switch) = match liveness.status.as_deref() {
        Some(Status::Agent(agent)) => (Some(agent), None, None),
        Some(Status::Fabric(fabric)) => (None, Some(fabric), None),
        Some(Status::Switch(switch)) => (None, None, Some(switch)),
        None => (None, None, None),
    };
    let lost = liveness.lost.as_ref().map(|lost| (now.saturating_since(lost.since), lost.why.as_str()));
    Machine { name: liveness.name(), agent, fabric, switch, lost }
}

/// A tenant, with the fabric broker that binds its queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tenant<'a> {
    pub(crate) status: &'a TenantStatus,
    fabric: &'a FabricStatus,
}

impl Tenant<'_> {
    /// Its queues as a text: `own for 12 s`, `shared`, with the step of a move.
    pub(crate) fn queues(&self) -> String {
        let place = if self.status.has_queues { "own" } else { "shared" };
        let since = self.status.since_ms.map(|since| self.fabric.written_ms.saturating_sub(since) as f64 / 1e3);
        let since = since.map_or(String::new(), |since| format!(" for {}", text::about(since)));
        let moves = self.status.moves.as_ref().map_or(String::new(), |step| format!(", moves: {step}"));
        format!("{place}{since}{moves}")
    }
    /// The ports at which it competes for queues: `r1 spine0 (12 for 7), and 2 more`.
    pub(crate) fn competes(&self) -> String {
        let port = |port: &TenantPort| format!("{} ({} for {})", port.port, port.tenants, port.queues);
        let ports = self.status.competes.iter().map(port).collect::<Vec<_>>().join(", ");
        match self.status.competes_left_out {
            0 => ports,
            more => format!("{ports}, and {more} more"),
        }
    }
}

/// The tenants of leading fabric brokers, by falling score, as the filter's words have them.
pub(crate) fn tenants<'a>(machines: &[Machine<'a>], filter: &Filter) -> Vec<Tenant<'a>> {
    let brokers = machines.iter().filter(|machine| machine.lost.is_none()).filter_map(|machine| machine.fabric);
    let of = |fabric: &'a FabricStatus| fabric.tenant_queues.iter().map(move |queues| (fabric, queues));
    let all = brokers
        .flat_map(of)
        .flat_map(|(fabric, queues)| queues.tenants.iter().map(move |status| Tenant { status, fabric }));
    let matches = |tenant: &Tenant<'_>| {
        let (queues, competes) = (tenant.queues(), tenant.competes());
        let texts = [tenant.status.tenant.as_str(), &queues, &competes];
        filter.words.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
    };
    let mut tenants: Vec<Tenant<'a>> = all.filter(matches).collect();
    tenants.sort_by_key(|tenant| Reverse(tenant.status.score_bps));
    tenants
}

#[cfg(test)]
mod tests {
    use super::super::fixture::view;
    use super::*;
    use weir_status::{FabricLink, FabricSession};

    fn shown(words: &str, direction: Option<Direction>, order: Order) -> Vec<String> {
        let view = view();
        let filter = Filter { words: words.to_owned(), direction };
        let one = |row: &Row<'_>| format!("{} {} {}", row.agent.machine, row.service, row.direction.name());
        services(&view, &filter, order).iter().map(one).collect()
    }

    #[test]
    fn services_are_sorted_and_filtered() {
        let tx = Some(Direction::Tx);
        assert_eq!(shown("", tx, Order::Usage), ["m1 bulk tx", "m2 bulk tx", "m1 web tx", "m2 web tx"]);
        assert_eq!(shown("", tx, Order::Machine), ["m1 bulk tx", "m1 web tx", "m2 bulk tx", "m2 web tx"]);
        assert_eq!(shown("", tx, Order::Service), ["m1 bulk tx", "m2 bulk tx", "m1 web tx", "m2 web tx"]);
        assert_eq!(shown("rack bulk", None, Order::Limited), ["m1 bulk tx", "m2 bulk tx"]);
        assert_eq!(shown("m2 web", None, Order::Machine), ["m2 web tx", "m2 web rx"]);
        assert!(shown("none", None, Order::Usage).is_empty());
    }

    #[test]
    fn lost_source_comes_first() {
        let view = view();
        let names: Vec<_> = machines(&view).iter().map(|machine| machine.name.clone()).collect();
        assert_eq!(names, ["m2", "m3", "m1", "f1"]);
        let all = machines(&view);
        assert_eq!(all[0].lost, Some((Duration::from_secs(12), "Connection refused (os error 111)")));
        assert_eq!(all[2].usage(Direction::Tx), Bandwidth::from_mbps(410));
        assert_eq!(all[3].state(), "fabric broker, leads, 2/2 racks");
    }

    #[test]
    fn leaders_and_machines_without_a_fabric_broker_are_shown() {
        let view = view();
        let of_m1 = machines(&view)[2].agent.expect("an agent").clone();
        let state = |link: FabricLink| agent_state(&AgentStatus { fabric: Some(link), ..of_m1.clone() });
        assert_eq!(state(FabricLink::default()), "runtime 1/1 peers");
        assert_eq!(state(FabricLink { leads: true, ..FabricLink::default() }), "leads, runtime 1/1 peers");
        let shut_out = |session| state(FabricLink { leads: true, shut_out: true, session, ..FabricLink::default() });
        let session = |last_failure: Option<&str>| {
            Some(FabricSession { last_failure: last_failure.map(str::to_owned), ..FabricSession::default() })
        };
        assert_eq!(shut_out(None), "shut out of the fabric broker: no --fabric");
        assert_eq!(shut_out(session(Some("refused"))), "shut out of the fabric broker: refused");
        assert_eq!(shut_out(session(None)), "shut out of the fabric broker: it sends no limits");
    }

    #[test]
    fn orders_go_round() {
        let mut order = Order::default();
        for _ in 0..4 {
            order = order.next();
        }
        assert_eq!(order, Order::default());
    }
}
