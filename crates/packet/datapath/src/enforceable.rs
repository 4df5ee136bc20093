//! Whether hosts and switches can enforce a policy: the bounds of their tables, before anything is changed.
//!
//! Problem: a valid policy may have more services or filters than the tables of the datapath hold, and a refusal at the
//! first agent comes when the policy is already rolled out. Approach: agents, forwarders and `weir check` call the
//! same functions. The filters of an agent depend on the name of its interface, since a glob that matches it holds for
//! all packets; without a name, [`refusal_anywhere`] tries the names that the globs suggest.
//!
//! Worked example: of 300 filters with a glob each (`eth0`, `e*0`, …) and a `dscp`, few are compared with a packet of a
//! guest. On `eth0` all of them are compared with every packet, and 256 are the most.

use crate::abi::SERVICES_MAX;
use crate::classifier::{Classifier, ClassifierError};
use std::collections::BTreeSet;
use weir_policy::Policy;
use weir_units::ServiceId;

/// A policy exceeds a table of a host or switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unenforceable {
    /// More services than the table of a host has.
    #[error("the policy has {count} services, tenants included, and a host enforces at most {SERVICES_MAX}")]
    TooManyServices {
        /// Number of services without children, which are those of tenants too.
        count: usize,
    },
    /// More services than the table of a forwarder has.
    #[error(
        "the policy has {count} services, parents and tenants included, and a forwarder has at most {SERVICES_MAX}"
    )]
    TooManyAtForwarders {
        /// Number of all services.
        count: usize,
    },
    /// The filters.
    #[error(transparent)]
    Filters(#[from] ClassifierError),
}

impl Unenforceable {
    /// A policy that would be taken, in general terms.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooManyServices { .. } | Self::TooManyAtForwarders { .. } => {
                "bundle services that are treated alike into one with several filters"
            }
            Self::Filters(error) => error.hint(),
        }
    }

    /// The service of the filter that the error is about, if it is about one.
    pub fn service(&self) -> Option<ServiceId> {
        match self {
            Self::Filters(error) => error.service(),
            _ => None,
        }
    }
}

/// The classifier of a host's or forwarder's interface of this name, which need not exist.
///
/// # Errors
/// If the policy has more services or filters than the tables of an interface.
pub fn fits(policy: &Policy, interface: &str) -> Result<Classifier, Unenforceable> {
    let count = policy.services().leaves().count();
    if count > SERVICES_MAX as usize {
        return Err(Unenforceable::TooManyServices { count });
    }
    Ok(Classifier::of(policy, Some(interface))?)
}

/// Whether forwarders have room for the services of a policy, whose table has parents too. It always has where no
/// service has credits or switches are no forwarders.
///
/// # Errors
/// If there are too many.
pub fn fits_forwarders(policy: &Policy) -> Result<(), Unenforceable> {
    let count = policy.services().all().len();
    let has_forwarders = policy.credits().is_some() && policy.network().forwarders();
    if has_forwarders && count > SERVICES_MAX as usize {
        return Err(Unenforceable::TooManyAtForwarders { count });
    }
    Ok(())
}

/// The names of interfaces that [`refusal_anywhere`] tries.
const NAMES_MAX: usize = 64;
/// Bytes of an interface's name (Linux, `IFNAMSIZ` less the zero at the end).
const NAME_MAX: usize = 15;

/// The first refusal of agents and forwarders on interfaces of any name, with the name; an empty name is one that no
/// glob matches but `*`. Names are those that filters state, and those of their globs without wildcards, 64 at most.
pub fn refusal_anywhere(policy: &Policy) -> Option<(String, Unenforceable)> {
    if let Err(error) = fits_forwarders(policy) {
        return Some((String::new(), error));
    }
    let globs: BTreeSet<&str> = policy
        .services()
        .leaves()
        .flat_map(|(_, service)| service.matches())
        .filter_map(|filter| filter.interface.as_deref())
        .collect();
    let mut names = vec![String::new()];
    for name in globs.into_iter().map(|glob| glob.replace('*', "").replace('?', "0")) {
        if names.len() <= NAMES_MAX && name.len() <= NAME_MAX && !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().find_map(|name| fits(policy, &name).err().map(|error| (name, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(services: &str, switches: &str) -> Policy {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1] }} }}{switches} }}\n\
             services:\n{services}"
        );
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
    }

    #[test]
    fn a_host_has_1024_services() {
        let services = |count: usize| -> String {
            (1..=count).map(|port| format!("  s{port}: {{ match: [ {{ port: {port} }} ] }}\n")).collect()
        };
        assert!(fits(&policy(&services(1_024), ""), "eth0").is_ok());
        let refused = Unenforceable::TooManyServices { count: 1_025 };
        assert_eq!(fits(&policy(&services(1_025), ""), "eth0"), Err(refused.clone()));
        assert_eq!(refusal_anywhere(&policy(&services(1_025), "")), Some((String::new(), refused)));
    }

    #[test]
    fn a_forwarder_has_parents_too() {
        let children = (1..=1_024).map(|port| format!("c{port}: {{ match: [ {{ port: {port} }} ], credits: {{}} }}"));
        let services = format!("  p: {{ services: {{ {} }} }}\n", children.collect::<Vec<_>>().join(", "));
        let refused = Unenforceable::TooManyAtForwarders { count: 1_025 };
        let with = policy(&services, ", switches: { forwarders: true, buffer: 4MB }");
        assert_eq!(refusal_anywhere(&with), Some((String::new(), refused)));
        assert_eq!(refusal_anywhere(&policy(&services, "")), None);
    }

    /// Each glob has a list of its own for packets of guests. On an interface that all match, all filters are compared.
    #[test]
    fn globs_that_match_an_interface_are_tried_on_it() {
        let stars = |count: usize| "*".repeat(count % 4);
        let glob =
            |i: usize| format!("{}e{}t{}h{}0{}", stars(i), stars(i / 4), stars(i / 16), stars(i / 64), stars(i / 256));
        let filter = |i| format!("{{ interface: \"{}\", dscp: {}, protocol: {} }}", glob(i), i % 64, i / 64 + 1);
        let of_globs = |count: usize| {
            let filters: Vec<_> = (0..count).map(filter).collect();
            policy(&format!("  a: {{ match: [ {} ] }}\n", filters.join(", ")), "")
        };
        assert_eq!(refusal_anywhere(&of_globs(256)), None);
        assert!(fits(&of_globs(300), "tap3").is_ok());
        let (name, refused) = refusal_anywhere(&of_globs(300)).expect("refused");
        assert_eq!((&*name, refused.service()), ("eth0", Some(ServiceId(0))));
    }
}
