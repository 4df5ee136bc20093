//! `measure:` of a value: its references must exist.

use super::{Reader, both, integer, text};
use crate::language::{
    self, BOUND_KEYWORDS, DIRECTION_KEYWORDS, EPOCH_KEYWORDS, LEVEL_KEYWORDS, MEASURE, POINT_KEYWORDS, SHARE_KEYWORDS,
};
use crate::model::{
    Counted, FairnessIndex, LevelQuantity, Measure, PerSetting, Run, Setting, Share, SlowdownOf, Window,
};
use std::sync::Arc;
use weir_document::scalar::{self, MILLION};
use weir_document::{Node, quote};
use weir_latency::{Burst, BurstBound};
use weir_policy::{Demands, Policy};
use weir_results::Percentile;
use weir_scenario::Scenario;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, Load, MachineId, Quantile, ServiceId};

/// Millionths of the whole in a hundredth of a per cent, which percentiles count in.
const MILLIONTHS_IN_PERCENTILE: u64 = 100;
/// Billionths, which loads count in, in a millionth.
const BILLIONTHS_IN_MILLIONTH: u64 = 1_000;

impl Reader<'_> {
    /// `None` only if something was reported.
    pub(super) fn measure(&mut self, node: &Node) -> Option<Measure> {
        match MEASURE.chosen(node)?.id {
            kind @ ("bandwidth" | "settling" | "meter-rate" | "completion-time" | "slowdown" | "fairness" | "queue"
            | "counter" | "level") => {
                let run = self.run_of(node)?;
                self.measured_in(run, kind, node)
            }
            "network-epoch" => network_epoch(node),
            "reservation" => self.reservation(node),
            kind @ ("tenants" | "ports" | "queued" | "dscp-values" | "gain" | "links") => self.tenancy(kind, node),
            "allocation" => self.allocation(node),
            "policy-share" => self.policy_share(node),
            "policy-capacity" => self.policy_capacity(node),
            kind @ ("bound" | "burst" | "mm1" | "mm1-queue") => self.queueing(kind, node),
            kind => brokers(kind, node),
        }
    }

    /// A measure of a run.
    fn measured_in(&mut self, run: usize, kind: &str, node: &Node) -> Option<Measure> {
        match kind {
            "bandwidth" => {
                let (of, window) = (self.counted(node, run), self.window_of(node, &[run]));
                Some(Measure::Bandwidth { run, of: of?, window: window? })
            }
            "settling" => {
                let (of, window) = (self.counted(node, run), self.window_of(node, &[run]));
                let (of, window) = (of?, window?);
                Some(Measure::Settling { run, of, limit: rate(node, "at-most")?, window })
            }
            "meter-rate" => {
                let (service, window) = (self.shaped(node.get("service")?, run), self.window_of(node, &[run]));
                let machine = self.machine(node.get("machine")?, run);
                Some(Measure::MeterRate { run, service: service?, machine: machine?, window: window? })
            }
            "completion-time" => {
                let (group, window) = (self.flow_group(node.get("group")?, run), self.window_of(node, &[run]));
                let percentile = match node.get("percentile") {
                    Some(_) => Some(self.percentile(node)?),
                    None => None,
                };
                let above = size(node, "above").unwrap_or_default();
                Some(Measure::CompletionTime { run, group: group?, percentile, above, window: window? })
            }
            "slowdown" => self.slowdown(run, node),
            "fairness" => self.fairness(run, node),
            "level" => self.level(run, node),
            "counter" => {
                let counter = |key: &str| Some(node.get(key)?.scalar()?.to_owned());
                Some(Measure::Counter { run, name: counter("name")?, per: counter("per") })
            }
            _ => {
                let (link, window) = (self.link(node.get("link")?, run), self.window_of(node, &[run]));
                let (percentile, packet) = (self.percentile(node)?, size(node, "packet")?);
                Some(Measure::Queue { run, link: link?, percentile, packet, window: window? })
            }
        }
    }

    fn level(&mut self, run: usize, node: &Node) -> Option<Measure> {
        let level = count(node, "level")?;
        let has = |setting: Setting| {
            let scenario = self.runs[run].scenario.get(setting);
            let levels = scenario.governed().and_then(|governed| governed.policy.levels());
            levels.map_or(0, |levels| levels.all().len()) >= level as usize
        };
        if !Setting::ALL.into_iter().all(has) {
            let cause = format!("the policy of the run has no level {level}");
            self.error(node.span, cause, "name a level of `levels.factors`");
            return None;
        }
        let of = LevelQuantity::ALL[word(node, "of", LEVEL_KEYWORDS)?];
        let link = match (node.get("link"), of) {
            (Some(link), LevelQuantity::Queue) => Some(self.any_link(link, run)?),
            (None, LevelQuantity::Queue) => {
                self.error(node.span, "the link of the queue is missing", "for example `link: \"leaf0->h0\"`");
                return None;
            }
            (Some(link), _) => {
                self.error(link.span, "only a `queue` has a link", "remove it, or write `of: queue`");
                return None;
            }
            (None, _) => None,
        };
        Some(Measure::Level { run, level, of, link })
    }

    fn slowdown(&mut self, run: usize, node: &Node) -> Option<Measure> {
        let group = self.flow_group(node.get("group")?, run)?;
        let percentile = match node.get("percentile") {
            Some(_) => Some(self.percentile(node)?),
            None => None,
        };
        let optional = |key: &str, absent: Bytes| node.get(key).map_or(Some(absent), |_| size(node, key));
        let (above, up_to) = (optional("above", Bytes::ZERO)?, optional("up-to", Bytes::new(u64::MAX))?);
        if above >= up_to {
            let cause = format!("no flow has more than {above} and at most {up_to}");
            self.error(node.span, cause, "write an `up-to` that is larger than `above`");
            return None;
        }
        let acknowledgement = match node.get("acknowledgement") {
            Some(_) => time(node, "acknowledgement")?,
            None => Duration::ZERO,
        };
        Some(Measure::Slowdown { run, of: SlowdownOf { group, percentile, above, up_to, acknowledgement } })
    }

    fn fairness(&mut self, run: usize, node: &Node) -> Option<Measure> {
        let window = self.window_of(node, &[run]);
        let (services, groups) = (node.get("services"), node.get("groups"));
        let (Some(list), true) = (services.or(groups), services.is_none() || groups.is_none()) else {
            let cause = "the subjects of the fairness index are missing";
            self.error(node.span, cause, "write either `services` or `groups`");
            return None;
        };
        let one = |item| match services {
            Some(_) => self.service(item, run).map(Counted::Service),
            None => self.flow_group(item, run).map(Counted::FlowGroup),
        };
        let of: Vec<_> = list.items().iter().filter_map(one).collect();
        let index = match (node.get("each"), node.get("of")) {
            (Some(each), Some(of)) => {
                let hint = "write one of them";
                self.problems.error_with(of.span, "samples have an index alone", hint, (each.span, "each sample"));
                return None;
            }
            (Some(_), None) => FairnessIndex::Samples,
            (None, Some(_)) => FairnessIndex::Deviation,
            (None, None) => FairnessIndex::Jain,
        };
        if let Some(each) = node.get("each").filter(|_| services.is_some()) {
            let hint = "name the flow groups in `groups`";
            self.error(each.span, "services have no index over the flows of a sample", hint);
            return None;
        }
        (of.len() == list.items().len()).then_some(Measure::Fairness { run, of, index, window: window? })
    }

    fn policy_share(&mut self, node: &Node) -> Option<Measure> {
        let policy = self.policy(node)?;
        let service = self.policy_service(node, &policy)?;
        let point = ContentionPoint::ALL[word(node, "point", POINT_KEYWORDS)?];
        let min = word(node, "of", BOUND_KEYWORDS)? == 0;
        let direction = direction(node)?;
        let share = policy.services().get(service).share(point, direction);
        if !min && share.max.is_unlimited() {
            let path = policy.services().get(service).path();
            let hint = "compare a bound that the policy sets";
            self.error(node.span, format!("`{path}` has no maximum there"), hint);
            return None;
        }
        Some(Measure::PolicyShare { policy, service, point, direction, min })
    }

    fn policy_capacity(&mut self, node: &Node) -> Option<Measure> {
        let policy = self.policy(node)?;
        let name = node.get("rack")?;
        let Some(rack) = policy.network().rack_named(name.scalar()?) else {
            let racks: Vec<&str> = policy.network().racks().iter().map(|rack| rack.name()).collect();
            self.unknown(name, "rack", &racks);
            return None;
        };
        Some(Measure::PolicyCapacity { rack, direction: direction(node)?, policy })
    }

    /// A formula or a simulation of one queue.
    fn queueing(&mut self, kind: &str, node: &Node) -> Option<Measure> {
        let capacity = rate(node, "capacity");
        Some(match kind {
            "bound" => {
                let burst = Burst::from_convergence(time(node, "convergence")?);
                let bound = BurstBound { burst, message: size(node, "message")? };
                Measure::Bound { bound, capacity: capacity?, load: load(node)? }
            }
            "burst" => {
                let (convergence, packet) = (time(node, "convergence")?, size(node, "packet")?);
                Measure::Burst { capacity: capacity?, convergence, packet }
            }
            "mm1" => {
                let quantile = percent(node, "percentile")? * BILLIONTHS_IN_MILLIONTH;
                let quantile = Quantile::from_billionths(u32::try_from(quantile).ok()?).ok()?;
                let message = size(node, "message")?;
                Measure::Mm1 { capacity: capacity?, load: load(node)?, message, quantile }
            }
            _ => {
                let messages = node.get("messages")?;
                let messages = both(|setting| integer(messages.get(setting.name()).unwrap_or(messages)))?;
                let (percentile, message) = (self.percentile(node)?, size(node, "message")?);
                Measure::Mm1Queue { capacity: capacity?, load: load(node)?, message, percentile, messages }
            }
        })
    }

    fn allocation(&mut self, node: &Node) -> Option<Measure> {
        let policy = self.policy(node)?;
        let demands = self.demands_for(node, &policy)?;
        let service = self.policy_service(node, &policy)?;
        let machine = match node.get("machine") {
            None => None,
            Some(name) => match policy.network().machine_named(name.scalar()?) {
                Some(machine) => Some(machine),
                None => {
                    let machines: Vec<&str> = policy.network().machines().iter().map(|one| one.name()).collect();
                    self.unknown(name, "machine", &machines);
                    return None;
                }
            },
        };
        let share = match node.get("of") {
            None => Share::Allocation,
            Some(_) => [Share::Demand, Share::Allocation, Share::Headroom][word(node, "of", SHARE_KEYWORDS)?],
        };
        Some(Measure::Allocation { policy, demands, service, machine, direction: direction(node)?, share })
    }

    /// The index of the run that a key names.
    pub(super) fn run_at(&mut self, node: &Node) -> Option<usize> {
        let place = self.runs.iter().position(|run| Some(run.name.as_str()) == node.scalar());
        if place.is_none() {
            let names: Vec<String> = self.runs.iter().map(|run| run.name.clone()).collect();
            self.unknown(node, "run", &names.iter().map(String::as_str).collect::<Vec<_>>());
        }
        place
    }

    pub(super) fn run_of(&mut self, node: &Node) -> Option<usize> {
        self.run_at(node.get("run")?)
    }

    /// A window by name or inline, within all of `runs`.
    pub(super) fn window_of(&mut self, node: &Node, runs: &[usize]) -> Option<PerSetting<Window>> {
        let node = node.get("window")?;
        let name = node.scalar()?;
        let window = match (self.windows.get(name), language::window(name)) {
            (Some(window), _) => *window,
            (None, Ok((from, to))) => {
                let window = Window { from, to };
                PerSetting { quick: window, full: window }
            }
            (None, Err(refusal)) => {
                let names: Vec<String> = self.windows.keys().cloned().collect();
                if names.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                    self.error(node.span, refusal.cause, refusal.hint);
                } else {
                    self.unknown(node, "window", &names.iter().map(String::as_str).collect::<Vec<_>>());
                }
                return None;
            }
        };
        for (run, setting) in runs.iter().flat_map(|run| Setting::ALL.map(|setting| (*run, setting))) {
            let (ends, run) = (window.get(setting), &self.runs[run]);
            let duration = run.scenario.get(setting).duration();
            if ends.to > duration {
                let cause = format!(
                    "the window from {} to {} is not within the run `{}`, which lasts {duration} in the {} setting",
                    ends.from,
                    ends.to,
                    run.name,
                    setting.name()
                );
                self.error(node.span, cause, "let it end earlier, or the run last longer");
                return None;
            }
        }
        Some(window)
    }

    /// The subject of a bandwidth: exactly one of five keys.
    fn counted(&mut self, node: &Node, run: usize) -> Option<Counted> {
        const KEYS: [&str; 5] = ["service", "group", "link", "sent", "received"];
        let mut written = KEYS.iter().filter_map(|key| Some((*key, node.get(key)?)));
        let (Some((key, of)), None) = (written.next(), written.next()) else {
            let hint = "write exactly one of `service`, `group`, `link`, `sent` and `received`";
            self.error(node.span, "the subject of the bandwidth is missing", hint);
            return None;
        };
        let machine = match node.get("machine") {
            Some(machine) if matches!(key, "sent" | "received") => Some(self.machine(machine, run)?),
            Some(machine) => {
                let hint = "remove it, or write `sent` or `received`";
                self.error(machine.span, format!("`machine` does not go with `{key}`"), hint);
                return None;
            }
            None => None,
        };
        match key {
            "service" => self.service(of, run).map(Counted::Service),
            "group" => self.flow_group(of, run).map(Counted::FlowGroup),
            "link" => self.link(of, run).map(Counted::Link),
            "sent" => Some(Counted::Sent(self.shaped(of, run)?, machine)),
            _ => Some(Counted::Received(self.shaped(of, run)?, machine)),
        }
    }

    /// A service of a run with machine shapers, whose meters are the only measurement at machines.
    pub(super) fn shaped(&mut self, node: &Node, run: usize) -> Option<ServiceId> {
        let service = self.service(node, run)?;
        let Some(service) = service else {
            self.error(node.span, "meters are those of one service", "name one");
            return None;
        };
        let scenarios = &self.runs[run].scenario;
        if Setting::ALL.iter().any(|setting| !scenarios.get(*setting).enforcement().shapes()) {
            let hint = "measure a `service` at the uplink or a `group`, or give the run another `enforcement`";
            self.error(node.span, "this run has no machine shapers, so it has no meters", hint);
            return None;
        }
        Some(service)
    }

    /// A machine of a run's policy, the same one in both settings.
    fn machine(&mut self, node: &Node, run: usize) -> Option<MachineId> {
        let scenarios = self.runs[run].scenario.clone();
        let mut machine = |scenario: &Scenario| {
            let network = scenario.governed()?.policy.network();
            let machine = network.machine_named(node.scalar()?);
            if machine.is_none() {
                let names: Vec<&str> = network.machines().iter().map(|one| one.name()).collect();
                self.unknown(node, "machine", &names);
            }
            machine
        };
        let (quick, full) = (machine(&scenarios.quick)?, machine(&scenarios.full)?);
        self.same(node, quick, full)
    }

    /// A service that a run sends, the same one in both settings; the inner `None` is all of them.
    pub(super) fn service(&mut self, node: &Node, run: usize) -> Option<Option<ServiceId>> {
        let scenarios = self.runs[run].scenario.clone();
        let (quick, full) = (self.service_in(node, &scenarios.quick)?, self.service_in(node, &scenarios.full)?);
        self.same(node, quick, full)
    }

    fn service_in(&mut self, node: &Node, scenario: &Scenario) -> Option<Option<ServiceId>> {
        let name = node.scalar()?;
        let Some(governed) = scenario.governed() else {
            let hint = "name a `group` or a `link`";
            self.error(node.span, "the scenario has no policy, so it has no services", hint);
            return None;
        };
        if name == "all" {
            return Some(None);
        }
        let sent: Vec<ServiceId> = scenario.sending();
        match governed.policy.services().named(name).filter(|id| sent.contains(id)) {
            Some(service) => Some(Some(service)),
            None => {
                let path = |id: &ServiceId| governed.policy.services().get(*id).path().to_owned();
                let mut names: Vec<String> = sent.iter().map(path).collect();
                names.dedup();
                self.unknown(node, "service in the traffic", &names.iter().map(String::as_str).collect::<Vec<_>>());
                None
            }
        }
    }

    /// The meaning of a name in both settings: they may have different policies, which number
    /// services and machines differently.
    fn same<T: PartialEq>(&mut self, node: &Node, quick: T, full: T) -> Option<T> {
        if quick != full {
            let hint = "let the policies of both settings list the same machines and services in the same order";
            self.error(node.span, format!("{} has another place in the full setting", quote(node.scalar()?)), hint);
            return None;
        }
        Some(quick)
    }

    pub(super) fn flow_group(&mut self, node: &Node, run: usize) -> Option<String> {
        let names = |run: &Run, setting: Setting| -> Vec<String> {
            run.scenario.get(setting).names().into_iter().map(str::to_owned).collect()
        };
        self.in_both(node, run, "flow group", names)
    }

    pub(super) fn link(&mut self, node: &Node, run: usize) -> Option<String> {
        let names = |run: &Run, setting: Setting| -> Vec<String> {
            let scenario = run.scenario.get(setting);
            scenario.measurement().links.iter().map(|link| scenario.graph().link_name(*link)).collect()
        };
        self.in_both(node, run, "watched link", names)
    }

    /// Any link of a run's network.
    fn any_link(&mut self, node: &Node, run: usize) -> Option<String> {
        let names = |run: &Run, setting: Setting| -> Vec<String> {
            let graph = run.scenario.get(setting).graph();
            graph.links().map(|link| graph.link_name(link)).collect()
        };
        self.in_both(node, run, "link", names)
    }

    /// A name that a run has in both settings.
    fn in_both(
        &mut self,
        node: &Node,
        run: usize,
        what: &str,
        names: impl Fn(&Run, Setting) -> Vec<String>,
    ) -> Option<String> {
        let name = node.scalar()?;
        for setting in Setting::ALL {
            let names = names(&self.runs[run], setting);
            if !names.iter().any(|known| known == name) {
                self.unknown(node, what, &names.iter().map(String::as_str).collect::<Vec<_>>());
                return None;
            }
        }
        Some(name.to_owned())
    }

    fn percentile(&mut self, node: &Node) -> Option<Percentile> {
        let millionths = percent(node, "percentile")?;
        Some(Percentile(u32::try_from(millionths / MILLIONTHS_IN_PERCENTILE).ok()?))
    }

    pub(super) fn policy(&mut self, node: &Node) -> Option<Arc<Policy>> {
        let path = self.directory.join(text(node, "policy")?);
        if let Some(read) = self.policies.get(&path) {
            return read.clone();
        }
        let policy = match Policy::read(&path) {
            Ok((policy, notes)) => {
                self.notes.extend(notes);
                Some(Arc::new(policy))
            }
            Err(errors) => {
                self.others.push(errors);
                None
            }
        };
        self.policies.insert(path, policy.clone());
        policy
    }

    fn demands_for(&mut self, node: &Node, policy: &Arc<Policy>) -> Option<Arc<Demands>> {
        let path = self.directory.join(text(node, "demands")?);
        let key = (self.directory.join(text(node, "policy")?), path);
        if let Some(read) = self.demands.get(&key) {
            return read.clone();
        }
        let demands = match Demands::read(policy, &key.1) {
            Ok(demands) => Some(Arc::new(demands)),
            Err(errors) => {
                self.others.push(errors);
                None
            }
        };
        self.demands.insert(key, demands.clone());
        demands
    }

    fn policy_service(&mut self, node: &Node, policy: &Policy) -> Option<ServiceId> {
        let name = node.get("service")?;
        let service = policy.services().named(name.scalar()?);
        if service.is_none() {
            let paths: Vec<&str> = policy.services().all().iter().map(|service| service.path()).collect();
            self.unknown(name, "service in the policy", &paths);
        }
        service
    }
}

/// A measure of the brokers' sharing and reports.
fn network_epoch(node: &Node) -> Option<Measure> {
    Some(Measure::NetworkEpoch {
        hosts: count(node, "hosts")?,
        packet: size(node, "packet")?,
        capacity: rate(node, "capacity")?,
        factor: count(node, "factor")?,
        frames: count(node, "frames")?,
        rate: word(node, "of", EPOCH_KEYWORDS)? == 1,
    })
}

fn brokers(kind: &str, node: &Node) -> Option<Measure> {
    let services = count(node, "services")?;
    Some(match kind {
        "sharing-time" => Measure::SharingTime { services },
        "report-size" => Measure::ReportSize { services },
        "rack-reports" => {
            let (machines, period) = (count(node, "machines")?, time(node, "period")?);
            Measure::RackReports { services, machines, period }
        }
        _ => Measure::FabricReports { services, racks: count(node, "racks")?, period: time(node, "period")? },
    })
}

/// A whole number below 2^32; the check has seen its range.
pub(super) fn count(node: &Node, key: &str) -> Option<u32> {
    node.get(key).and_then(integer).and_then(|count| u32::try_from(count).ok())
}

pub(super) fn word(node: &Node, key: &str, words: &[&str]) -> Option<usize> {
    node.field(key, |text| scalar::word(text, "", words)).value()
}

fn direction(node: &Node) -> Option<Direction> {
    match node.get("direction") {
        None => Some(Direction::Tx),
        Some(_) => Some([Direction::Tx, Direction::Rx][word(node, "direction", DIRECTION_KEYWORDS)?]),
    }
}

fn rate(node: &Node, key: &str) -> Option<Bandwidth> {
    node.field(key, |text| scalar::rate(text, false, false)).value()
}

fn size(node: &Node, key: &str) -> Option<Bytes> {
    node.field(key, scalar::size).value()
}

fn time(node: &Node, key: &str) -> Option<Duration> {
    node.field(key, |text| scalar::time(text, false)).value()
}

/// In millionths of the whole.
pub(super) fn percent(node: &Node, key: &str) -> Option<u64> {
    node.field(key, |text| scalar::percent(text, "", "")).value()
}

fn load(node: &Node) -> Option<Load> {
    let billionths = percent(node, "load")? * BILLIONTHS_IN_MILLIONTH;
    debug_assert!(billionths < MILLION * BILLIONTHS_IN_MILLIONTH, "a load is below the whole");
    Load::from_billionths(u32::try_from(billionths).ok()?).ok()
}
