//! [`Mechanism`]: what serves a service, and its need of the network.
//!
//! Problem: one policy may have guarantees, latency levels, tenants and credits, of which each needs something else of
//! the switches. Approach: one function from a leaf service to its mechanism, which a program prints beside what the
//! network states of its switches.
//!
//! | Mechanism | Needs | Gives |
//! |---|---|---|
//! | shares (Parley) | hosts alone | guarantees, limits and weights |
//! | levels (QJump) | strict queues | a bound of delay |
//! | tenant queues (QShare) | weighted queues | guarantees inside the network, and free bandwidth at once |
//! | credits (PACE) | forwarders | no loss, and fair shares within a few periods |
//!
//! Worked example: `level: 1` on a network whose file has no `switches` is served by levels, whose strict queues are
//! not stated.

use crate::levels::LevelChoice;
use crate::model::Policy;
use weir_units::{ServiceId, Weight};

/// The mechanism that serves a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Shapers of hosts, with brokers for racks and the fabric.
    Shares,
    /// A latency level.
    Level(LevelChoice),
    /// Virtual machines with guarantees, and queues of switches that are bound to tenants.
    Tenant,
    /// Credits, by this weight.
    Credits(Weight),
}

/// A property of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// None: any switch.
    Nothing,
    /// Strict queues beside the one of all other traffic.
    StrictQueues,
    /// Weighted queues beside the one of all other traffic.
    WeightedQueues,
    /// Ports that grant credits.
    Forwarders,
}

impl Mechanism {
    /// Its name and its paper's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shares => "shares (Parley)",
            Self::Level(_) => "level (QJump)",
            Self::Tenant => "tenant queues (QShare)",
            Self::Credits(_) => "credits (PACE)",
        }
    }
    /// The property of switches that it needs.
    pub fn need(self) -> Need {
        match self {
            Self::Shares => Need::Nothing,
            Self::Level(_) => Need::StrictQueues,
            Self::Tenant => Need::WeightedQueues,
            Self::Credits(_) => Need::Forwarders,
        }
    }
}

impl Need {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "any switch",
            Self::StrictQueues => "strict queues",
            Self::WeightedQueues => "weighted queues",
            Self::Forwarders => "forwarders",
        }
    }
}

impl Policy {
    /// The mechanism that serves a leaf service or a tenant's service.
    pub fn mechanism(&self, service: ServiceId) -> Mechanism {
        let own = self.services().get(service);
        match (own.level, own.credits) {
            (Some(level), _) => Mechanism::Level(level),
            (None, Some(weight)) => Mechanism::Credits(weight),
            (None, None) if self.tenants().iter().any(|tenant| tenant.service == service) => Mechanism::Tenant,
            (None, None) => Mechanism::Shares,
        }
    }
    /// Whether the network's switches have what a mechanism needs; `None` where the file states no queues.
    pub fn offers(&self, need: Need) -> Option<bool> {
        let queues = || self.network().offer().map(|offer| offer.available());
        match need {
            Need::Nothing => Some(true),
            Need::StrictQueues => queues().map(|(strict, _)| strict > 0),
            Need::WeightedQueues => queues().map(|(_, weighted)| weighted > 0),
            Need::Forwarders => Some(self.network().forwarders()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(switches: &str) -> Vec<(&'static str, Option<bool>)> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, slots: 1, racks: {{ r: {{ uplink: 1Gb/s, machines: [m1, m2] }} \
             }}{switches} }}\nlevels: {{ factors: [1] }}\nservices: {{ web: {{ match: [ {{ port: 1 }} ] }}, ptp: {{ \
             match: [ {{ port: 2 }} ], level: 1 }}, bulk: {{ match: [ {{ port: 3 }} ], credits: {{}} }} }}\ntenants: \
             {{ red: {{ vms: 1, bandwidth: 1Mb/s }} }}\n"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let of = |path: &str| policy.mechanism(policy.services().named(path).expect("a service"));
        ["web", "ptp", "red", "bulk"]
            .map(|path| (of(path).name(), policy.offers(of(path).need())))
            .into_iter()
            .collect()
    }

    #[test]
    fn each_service_has_one_mechanism() {
        let names = ["shares (Parley)", "level (QJump)", "tenant queues (QShare)", "credits (PACE)"];
        let expected = |offers: [Option<bool>; 4]| names.into_iter().zip(offers).collect::<Vec<_>>();
        assert_eq!(offers(""), expected([Some(true), None, None, Some(false)]));
        assert_eq!(
            offers(", switches: { scheduler: { strict: 2, weighted: 4 }, forwarders: true }"),
            expected([Some(true); 4])
        );
        assert_eq!(
            offers(", switches: { scheduler: strict }"),
            expected([Some(true), Some(true), Some(false), Some(false)])
        );
    }
}
