//! The counters of a run's forwarders: sums over all ports, and the highest values of named links.
//!
//! Names begin with `credits_`.
//!
//! - The counters of `datapath/credit.h`: sums over all ports. Late data on changed routes is `rerouted` in place of
//!   `late`; its packets are `rerouted_packets`.
//! - `overfull`: events at which A + Q of a port was above its bound. `fullest_ppm`: A + Q of the fullest port as a
//!   part of its bound, in millionths.
//! - `dropped_packets`: frames of data that links and ports lost. `excluded_packets`: those of them on links that
//!   failed, and at ports that re-routed flows had newly crossed.
//! - `control_messages`, `control_bytes`, `control_lost`: requests, allocations, returns without data and terminations
//!   that ports took, and those that links lost.
//! - `slow_returns`: round trips longer than a period, whose returns arrived after the next allocation was issued.
//! - `ports`, `ports_without_forwarder`: with one of the latter no port claims to be lossless.
//!
//! Of a link NAME that the scenario names in `measure.links`: `peak_bytes_at_NAME` (A + Q), `queue_bytes_at_NAME` (Q),
//! `bound_bytes_at_NAME` (2 · C_0 at a grant), each at its highest; `data_bytes_at_NAME` and `control_bytes_at_NAME`,
//! the frames that the port took; `capacity_bytes_at_NAME`, what the link could have carried; `control_rate_at_NAME`
//! in bit/s.
//!
//! Example: allocations for data over `a->b` pass `b->a`. At two frames of 1,514 B for each of 84 B,
//! `credits_control_bytes_at_b->a` is 2.8 % of `credits_data_bytes_at_a->b`.

use super::super::AnyAgent;
use super::CreditAgent;
use super::control::ControlCounts;
use crate::ids::PortId;
use crate::observer::Observer;
use crate::world::World;
use std::collections::BTreeMap;

/// Losses of data with credits, and the ports without forwarders.
#[derive(Debug, Clone, Default)]
pub(crate) struct CreditLosses {
    /// Frames that links and ports lost.
    pub(crate) dropped: u64,
    /// Those on links that failed, and at ports that re-routed flows had newly crossed.
    pub(crate) excluded: u64,
    /// Switches whose ports have no forwarder.
    pub(crate) without: Vec<bool>,
}

impl CreditAgent {
    /// Adds the port's counters to sums over ports.
    fn add_to(&self, sums: &mut BTreeMap<String, u64>) {
        let counters = self.port.counters();
        let mut add = |name: &str, value: u64| *sums.entry(format!("credits_{name}")).or_default() += value;
        for (name, _, value) in counters.each() {
            let value = match name {
                "late" => value - self.rerouted.late,
                "late_packets" => value - self.rerouted.late_packets,
                "rerouted" => value + self.rerouted.late,
                _ => value,
            };
            add(name, value);
        }
        let ControlCounts { messages, bytes, lost } = self.control.counts();
        add("rerouted_packets", self.rerouted.packets);
        add("overfull", self.bound.reading().exceeded);
        add("control_messages", messages);
        add("control_bytes", bytes);
        add("control_lost", lost);
        add("slow_returns", self.receivers.as_ref().map_or(0, super::Receivers::slow));
        add("ports", 1);
        let fullest = sums.entry("credits_fullest_ppm".to_owned()).or_default();
        *fullest = self.bound.reading().fullest.max(*fullest);
    }
}

impl<O: Observer> World<O> {
    /// The agent of a forwarder at a port.
    fn credit_agent(&self, port: PortId) -> Option<&CreditAgent> {
        let mut at = self.records[port.index()].agent;
        while let Some(installed) = self.agents.installed.get(at as usize) {
            if let AnyAgent::Credits(agent) = &installed.agent {
                return Some(agent);
            }
            at = installed.next;
        }
        None
    }

    /// The sums of the counters of all ports of forwarders, by name; none without any. See the module's documentation.
    pub fn credit_counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for installed in &self.agents.installed {
            if let AnyAgent::Credits(agent) = &installed.agent {
                agent.add_to(&mut sums);
            }
        }
        let losses = &self.agents.losses;
        if !sums.is_empty() {
            sums.insert("credits_dropped_packets".to_owned(), losses.dropped);
            sums.insert("credits_excluded_packets".to_owned(), losses.excluded);
            let without = self.ports_without_forwarder().count() as u64;
            sums.insert("credits_ports_without_forwarder".to_owned(), without);
        }
        sums
    }

    /// The highest values of a port of a forwarder, and its bytes; none of another port.
    pub(crate) fn credit_readings(&self, port: PortId) -> Vec<(&'static str, u64)> {
        let Some(agent) = self.credit_agent(port) else { return Vec::new() };
        let (bound, control) = (agent.bound.reading(), agent.control.counts());
        let seconds = self.now.picos() as f64 / 1e12;
        let rate = if seconds > 0.0 { (control.bytes as f64 * 8.0 / seconds) as u64 } else { 0 };
        vec![
            ("peak_bytes", bound.peak),
            ("queue_bytes", bound.queue),
            ("bound_bytes", bound.budget),
            ("data_bytes", agent.data),
            ("control_bytes", control.bytes),
            ("capacity_bytes", self.capacity(port)),
            ("control_rate", rate),
        ]
    }

    /// The ports of switches without forwarders, where others have them.
    pub(crate) fn ports_without_forwarder(&self) -> impl Iterator<Item = PortId> + '_ {
        let without = &self.agents.losses.without;
        (0..self.ports.len() as u32).map(PortId).filter(|port| {
            let at = self.records[port.index()].at.node();
            at.switch().is_some_and(|switch| without.get(switch.index()).copied().unwrap_or(false))
        })
    }
}
