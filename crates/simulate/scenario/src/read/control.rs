//! `enforcement:`, `shaper:`, `brokers:`, and events of brokers and of the policy.
//!
//! A policy that changes during the run is checked before the run: each change applies to the
//! policy with all earlier changes, in the order of time ([`Policy::with`]).

use super::names::Names;
use super::{Files, Reader};
use crate::governed::{
    BrokerRule, BrokerSet, BrokerSettings, ControlChange, ControlEvent, Enforcement, LevelSwitches, PolicyChange,
    ShaperSettings, Stale,
};
use crate::language::{
    ENFORCEMENT_KEYWORDS, MIN_PERIOD, RULE_KEYWORDS, SERVICE_EVENT, STALE_KEYWORDS, SWITCH_KEYWORDS, SYSTEMS_FROM,
};
use std::sync::Arc;
use weir_alloc::has_fabric_limits;
use weir_document::{Field, Node, quote, scalar};
use weir_pair_rates::PairSystem;
use weir_policy::Policy;
use weir_policy::language::{MAX_BURST, MAX_INTERVAL, MIN_BURST, MIN_INTERVAL};
use weir_units::{Duration, MachineId};

/// The keyword for the fabric broker.
const FABRIC: &str = "fabric";

impl<F: Files> Reader<'_, F> {
    pub(super) fn enforcement(&mut self, root: &Node) -> Enforcement {
        match root.field("enforcement", |text| scalar::word(text, "", ENFORCEMENT_KEYWORDS)).value() {
            Some(0) => Enforcement::None,
            Some(1) => Enforcement::Shaper,
            Some(2) => Enforcement::EyeQ,
            Some(4) => Enforcement::Levels,
            Some(5) => Enforcement::QShare,
            Some(index) if index >= SYSTEMS_FROM => Enforcement::Pairs(PairSystem::ALL[index - SYSTEMS_FROM]),
            _ => Enforcement::Parley,
        }
    }

    /// Reads `levels:`; `None` only if something was reported.
    pub(super) fn level_switches(&mut self, node: Option<&Node>, names: &Names<'_>) -> Option<LevelSwitches> {
        let mut switches = LevelSwitches::default();
        let Some(node) = node else { return Some(switches) };
        let part = |key: &str| node.field(key, |text| scalar::word(text, "", SWITCH_KEYWORDS)).value() != Some(1);
        (switches.regulators, switches.priorities) = (part("regulators"), part("priorities"));
        if let Some(node) = node.get("without-agent") {
            switches.disobedient = self.hosts(node, names)?;
        }
        Some(switches)
    }

    pub(super) fn shaper_settings(&mut self, node: Option<&Node>) -> ShaperSettings {
        let Some(node) = node else { return ShaperSettings::default() };
        let interval = self.metering_interval(node, "interval").value();
        let burst = node.field("burst", scalar::size);
        if let Field::Value(size, span) = burst
            && !(MIN_BURST..=MAX_BURST).contains(&size)
        {
            let cause = format!("the burst {size} is not between {MIN_BURST} and {MAX_BURST}");
            self.error(span, cause, "for example `64kB`");
        }
        ShaperSettings { interval, burst: burst.value() }
    }

    /// The interval of receive meters, in the policy's bounds.
    fn metering_interval(&mut self, node: &Node, key: &str) -> Field<Duration> {
        let field = node.field(key, |text| scalar::time(text, false));
        if let Field::Value(time, span) = field
            && !(MIN_INTERVAL..=MAX_INTERVAL).contains(&time)
        {
            let cause = format!("the interval {time} is not between {MIN_INTERVAL} and {MAX_INTERVAL}");
            self.error(span, cause, "for example `200us`");
            return Field::Bad;
        }
        field
    }

    pub(super) fn broker_settings(&mut self, node: Option<&Node>, names: &Names<'_>) -> BrokerSettings {
        let Some(node) = node else { return BrokerSettings::default() };
        let written = node.field("period", |text| scalar::time(text, false));
        if let Field::Value(time, span) = written
            && time < MIN_PERIOD
        {
            let cause = format!("the period {time} is shorter than {MIN_PERIOD}");
            self.error(span, cause, format!("write at least {MIN_PERIOD}"));
        }
        let period = written.value().unwrap_or(BrokerSettings::default().period);
        let times = |time: Duration, n: u64| Duration::from_nanos(time.nanos().saturating_mul(n));
        let mut not_below = |key: &str, other: &str, least: Duration, default: Duration| {
            let field = node.field(key, |text| scalar::time(text, false));
            if let Field::Value(time, span) = field
                && time < least
                && !written.is_bad()
            {
                let cause = format!("the {key} {time} is shorter than the {other} {least}");
                self.error(span, cause, format!("write at least {least}"));
            }
            field.value().unwrap_or(default)
        };
        // Parley's ratios (Table 1): 1 s, 5 s, 10 s, 50 s.
        let timeout = not_below("timeout", "period", period, times(period, 5));
        let fabric_period = not_below("fabric-period", "period", period, times(period, 10));
        let fabric_timeout = not_below("fabric-timeout", "fabric-period", fabric_period, times(fabric_period, 5));
        let stale = match node.field("stale", |text| scalar::word(text, "", STALE_KEYWORDS)).value() {
            Some(1) => Stale::Forget,
            _ => Stale::Keep,
        };
        let rule = match node.field("rule", |text| scalar::word(text, "", RULE_KEYWORDS)).value() {
            Some(1) => BrokerRule::Published,
            _ => BrokerRule::Ceilings,
        };
        let fabric = node.get("fabric").and_then(|node| self.machine(node, names));
        let fabric = fabric.unwrap_or(BrokerSettings::default().fabric);
        BrokerSettings { period, timeout, fabric_period, fabric_timeout, stale, rule, fabric }
    }

    /// The machine with this name.
    fn machine(&mut self, node: &Node, names: &Names<'_>) -> Option<MachineId> {
        let name = node.scalar()?;
        let machine = names.host(name);
        if machine.is_none() {
            let known = names.graph.hosts.iter().map(|host| &*host.name);
            let hint = self.suggester.hint_of_name(name, known, "name a machine of the policy");
            self.error(node.span, format!("there is no machine {} in the policy", quote(name)), hint);
        }
        machine
    }

    /// The events other than links', by time.
    pub(super) fn control_events(
        &mut self,
        node: Option<&Node>,
        names: &Names<'_>,
        policy: &Arc<Policy>,
        duration: Field<Duration>,
    ) -> Vec<ControlEvent> {
        let mut items: Vec<(Duration, &Node, &str)> = Vec::new();
        for item in node.map_or(&[][..], Node::items) {
            let Some(kind) = SERVICE_EVENT.chosen(item).map(|variant| variant.id) else { continue };
            if !matches!(kind, "crash" | "restart" | "shaper-interval" | "policy") {
                continue;
            }
            if let Some(at) = self.event_time(item, duration).value() {
                items.push((at, item, kind));
            }
        }
        // Stable: simultaneous events keep the file's order. Changes of the policy add up in this
        // order.
        items.sort_by_key(|(at, ..)| *at);
        let mut policy = Arc::clone(policy);
        let mut events = Vec::new();
        for (at, item, kind) in items {
            let change = match kind {
                "shaper-interval" => {
                    self.metering_interval(item, "shaper-interval").value().map(ControlChange::ShaperInterval)
                }
                "policy" => {
                    let change = self.policy_change(item, &policy);
                    if let Some(change) = &change {
                        policy = Arc::clone(&change.policy);
                    }
                    change.map(ControlChange::Policy)
                }
                "crash" => self.broker_set(item, names).map(ControlChange::Crash),
                _ => self.broker_set(item, names).map(ControlChange::Restart),
            };
            events.extend(change.map(|change| ControlEvent { at, change }));
        }
        events
    }

    /// Remarks on keys without an effect under this enforcement and all policies of the run.
    pub(super) fn without_effect(&mut self, root: &Node, enforcement: Enforcement, policies: &[&Policy]) {
        let word = enforcement.word();
        let no_shapers = "there are no shapers with `enforcement: none`, so this has no effect";
        let no_brokers = format!("there are no brokers with `enforcement: {word}`, so this has no effect");
        if let Some(node) = root.get("shaper")
            && enforcement == Enforcement::None
        {
            self.problems.note(node.span, no_shapers, "leave `shaper` out, or write another `enforcement`");
        }
        if let Some(node) = root.get("brokers")
            && enforcement != Enforcement::Parley
        {
            self.problems.note(node.span, &*no_brokers, "leave `brokers` out, or write `enforcement: parley`");
        }
        for item in root.get("events").map_or(&[][..], Node::items) {
            let hint = "leave the event out, or write another `enforcement`";
            match (item.get("shaper-interval"), item.get("policy")) {
                (Some(node), _) if enforcement == Enforcement::None => self.problems.note(node.span, no_shapers, hint),
                (_, Some(node)) if enforcement == Enforcement::None => {
                    let cause = "nothing enforces the policy with `enforcement: none`, so this has no effect";
                    self.problems.note(node.span, cause, hint);
                }
                _ => {}
            }
            let Some(broker) = item.get("broker") else { continue };
            let all = if broker.items().is_empty() { std::slice::from_ref(broker) } else { broker.items() };
            if enforcement != Enforcement::Parley {
                self.problems.note(broker.span, &*no_brokers, "leave the event out, or write `enforcement: parley`");
            } else if let Some(fabric) = all.iter().find(|node| node.scalar() == Some(FABRIC))
                && !policies.iter().any(|policy| has_fabric_limits(policy))
            {
                self.problems.note(
                    fabric.span,
                    "the policy does not limit the fabric, so its broker has no limits to set and this has no effect",
                    "write `fabric:` under a service or `caps: { fabric: … }` in the policy, or leave it out",
                );
            }
        }
    }

    fn broker_set(&mut self, item: &Node, names: &Names<'_>) -> Option<BrokerSet> {
        let node = item.get("broker")?;
        let all = if node.items().is_empty() { std::slice::from_ref(node) } else { node.items() };
        let (fabric, others): (Vec<&Node>, Vec<&Node>) = all.iter().partition(|node| node.scalar() == Some(FABRIC));
        if let [_, second, ..] = fabric[..] {
            self.error(second.span, "the fabric broker is named twice", "name it once");
            return None;
        }
        let machines = if others.is_empty() { Vec::new() } else { self.hosts_in(&others, names)? };
        Some(BrokerSet { machines, fabric: !fabric.is_empty() })
    }

    /// The policy after a change of `policy`.
    fn policy_change(&mut self, item: &Node, policy: &Policy) -> Option<PolicyChange> {
        let node = item.get("policy")?;
        // A change without a path and a value has been reported.
        let setting = node.scalar().filter(|text| text.contains('='))?;
        match policy.with(setting) {
            Ok(changed) => Some(PolicyChange { setting: setting.to_owned(), policy: Arc::new(changed) }),
            Err(errors) => {
                self.others.push(errors);
                self.error(
                    node.span,
                    "the policy cannot be changed so",
                    "write a change after which its file would be accepted, with the same machines and services",
                );
                None
            }
        }
    }
}
