//! Switches: which port leads to a host.
//!
//! A switch knows for each host the ports on shortest paths to it. Of several it takes one by the packet's
//! hash, so all packets of a flow go one way and stay in order (ECMP, RFC 2992). The hash is mixed with the
//! switch's own number first: otherwise flows that one tier has sent left would all be sent left by the next.

use crate::ids::{HostId, PortId};

/// A switch's forwarding table.
#[derive(Debug, Default)]
pub struct Switch {
    salt: u32,
    /// For each host, the place of its first port in `ports` and how many there are.
    routes: Vec<(u32, u32)>,
    ports: Vec<PortId>,
}

/// A multiplier that spreads low bits over high ones: 2^32 divided by the golden ratio, odd (Knuth, TAOCP 3, §6.4).
const SPREAD: u32 = 0x9E37_79B1;

/// Mixes all bits of a number into all bits.
#[inline]
pub(crate) fn mix(number: u32) -> u32 {
    let number = (number ^ (number >> 16)).wrapping_mul(SPREAD);
    let number = (number ^ (number >> 15)).wrapping_mul(SPREAD);
    number ^ (number >> 16)
}

impl Switch {
    /// A switch that knows no host; `number` tells it from the others.
    pub fn new(number: u32) -> Self {
        Self { salt: mix(number.wrapping_add(1)), ..Self::default() }
    }

    /// Replaces the table: for each host, the ports that lead to it.
    pub(crate) fn set_routes<'a>(&mut self, routes: impl Iterator<Item = &'a [PortId]>) {
        self.ports.clear();
        self.routes.clear();
        for ports in routes {
            self.routes.push((self.ports.len() as u32, ports.len() as u32));
            self.ports.extend_from_slice(ports);
        }
    }

    /// The port for a packet to `host`.
    ///
    /// # Panics
    /// If no port leads there: the topology is in pieces.
    #[inline]
    pub fn route(&self, host: HostId, hash: u32) -> PortId {
        let (first, count) = self.routes[host.index()];
        assert!(count > 0, "no route to host {}", host.0);
        let chosen = if count == 1 { 0 } else { (u64::from(mix(hash ^ self.salt)) * u64::from(count)) >> 32 };
        self.ports[first as usize + chosen as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_spread_over_equal_ports_and_stay_on_theirs() {
        let mut switch = Switch::new(0);
        let ports = [PortId(0), PortId(1), PortId(2), PortId(3)];
        switch.set_routes([&ports[..]].into_iter());
        let mut counts = [0; 4];
        for hash in 0..4000 {
            let port = switch.route(HostId(0), hash);
            assert_eq!(port, switch.route(HostId(0), hash));
            counts[port.index()] += 1;
        }
        // 1000 each; four standard deviations of a binomial distribution are 110.
        assert!(counts.iter().all(|&count| (890..1110).contains(&count)), "{counts:?}");
    }

    #[test]
    fn tiers_choose_independently() {
        let (mut first, mut second) = (Switch::new(0), Switch::new(1));
        let ports = [PortId(0), PortId(1)];
        first.set_routes([&ports[..]].into_iter());
        second.set_routes([&ports[..]].into_iter());
        let same = (0..1000).filter(|&hash| first.route(HostId(0), hash) == second.route(HostId(0), hash)).count();
        assert!((400..600).contains(&same), "{same}");
    }
}
