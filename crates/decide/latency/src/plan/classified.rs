//! Whether every IP packet belongs to a service.
//!
//! Problem: packets of no service have no limit (`docs/reference/agent.md`), so neither caps nor maxima bound
//! the load with them. Approach: a leaf whose filters accept every packet makes the policy cover
//! all. Otherwise a plan names the assumption that such packets stay within the peak load.

use weir_policy::{Match, Policy};

/// Whether one service's filters accept every IP packet.
pub fn every_packet_has_a_service(policy: &Policy) -> bool {
    policy.services().leaves().any(|(_, service)| {
        let accepts = |v4: bool| service.matches().iter().any(|filter| accepts_all(filter, v4));
        accepts(true) && accepts(false)
    })
}

/// Whether a filter accepts all packets of IPv4 or of IPv6.
fn accepts_all(filter: &Match, v4: bool) -> bool {
    let address = filter.address.is_none_or(|prefix| prefix.prefix_len() == 0 && prefix.addr().is_ipv4() == v4);
    address && Match { address: None, ..filter.clone() } == Match::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_without_exceptions_cover_every_packet() {
        let covers = |filters: &str| {
            let text = format!(
                "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 1Gb/s, machines: [m] }} }} }}\nservices: {{ \
                 web: {{ match: [ {{ port: 80 }} ] }}, rest: {{ match: [ {filters} ], order: 1 }} }}\n"
            );
            every_packet_has_a_service(&Policy::parse("policy.yaml", &text).expect("sound").0)
        };
        assert!(covers("{ address: 0.0.0.0/0 }, { address: \"::/0\" }"));
        assert!(!covers("{ address: 0.0.0.0/0 }"));
        assert!(!covers("{ address: 0.0.0.0/0, protocol: tcp }, { address: \"::/0\" }"));
        assert!(!covers("{ protocol: udp }, { protocol: tcp }"));
    }
}
