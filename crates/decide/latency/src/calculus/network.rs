//! A network: the bounds at each of its ports, and of whole paths.
//!
//! At its host a level's traffic has the burst σ. At a later port its burst has grown by the variation of its delay
//! until there alone: frames that arrive in a time `t` left the host in a time `t + (longest − shortest delay)`, so
//! the burst is `σ + ρ · (longest − shortest)`. The shortest delay is that of a frame alone; of several paths the
//! longest and the shortest count. Ports are visited in the order in which traffic passes them.
//!
//! Worked example: 9 racks of 16 hosts of 10 Gb/s, 4 spines of 40 Gb/s, f = 1, frames of 9,000 B, a load of a half. The
//! interface delays a frame by at most two frames' times, 14.4 µs, so that behind it a burst of 9,000 B has grown by
//! ρ · 14.35 µs, which is 63 B.
//!
//! Source: Cruz 1991, part II; Le Boudec and Thiran, Network Calculus, §1.4.3.

use super::port::{Aggregate, PortBound, most_bytes, port_bounds, shortest_time};
use super::routes::{PortClass, PortKind, Routes, SenderMask};
use weir_units::{Bandwidth, Bytes, Duration};

/// The traffic of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelTraffic {
    /// The sets of hosts that send on it.
    pub senders: SenderMask,
    /// σ of each host.
    pub burst: Bytes,
    /// ρ of each host.
    pub rate: Bandwidth,
}

/// The traffic of levels, the most urgent first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTraffic {
    /// Of each level: its senders, and σ and ρ of each of them.
    pub levels: Vec<LevelTraffic>,
    /// By level: the largest burst of less urgent traffic that a host's interface does not interrupt.
    pub behind_interface: Vec<Bytes>,
    /// The same for a switch's port: a frame.
    pub behind_port: Vec<Bytes>,
    /// The smallest frame.
    pub smallest: Bytes,
    /// A host may hold a frame for up to this time before its interface.
    pub jitter: Duration,
    /// The time that the switches of a path need for a frame, together.
    pub processing: Duration,
}

/// The bounds of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkBound {
    /// By class of [`Routes::ports`] and level; `None` where there is none, or no traffic of the level.
    pub ports: Vec<Vec<Option<PortBound>>>,
    /// By level: the time from a frame's release by its regulator to the arrival of its last bit, propagation included;
    /// `None` without a bound.
    pub paths: Vec<Option<Duration>>,
    /// By level: the first class of ports at which it has no bound.
    pub unbounded_at: Vec<Option<usize>>,
}

/// The shortest and the longest delay of a level's frames from their host until they arrive.
type Delays = Option<(Duration, Duration)>;

/// The bounds of the traffic on these routes.
pub fn bounds(routes: &Routes, traffic: &NetworkTraffic) -> NetworkBound {
    let levels = traffic.levels.len();
    let mut network = NetworkBound {
        ports: Vec::with_capacity(routes.ports.len()),
        paths: vec![Some(Duration::ZERO); levels],
        unbounded_at: vec![None; levels],
    };
    let mut arrivals: Vec<Option<Vec<Delays>>> = vec![None; routes.arrivals.len()];
    for (at, port) in routes.ports.iter().enumerate() {
        for (arrival, _) in &port.inputs {
            if arrivals[*arrival].is_none() {
                arrivals[*arrival] = Some(delays(routes, traffic, &network.ports, &arrivals, *arrival));
            }
        }
        let of = |arrival: usize| arrivals[arrival].as_deref().unwrap_or_default();
        let mut found = port_of(routes, traffic, port, of);
        for (level, found) in found.iter_mut().enumerate() {
            let senders = traffic.levels[level].senders;
            if port.inputs.iter().all(|(arrival, _)| routes.arrivals[*arrival].senders & senders == 0) {
                *found = None;
                continue;
            }
            match *found {
                None => {
                    network.paths[level] = None;
                    network.unbounded_at[level].get_or_insert(at);
                }
                Some(bound) if port.kind == PortKind::Host => {
                    let longest =
                        port.inputs.iter().filter_map(|(arrival, _)| of(*arrival)[level]).map(|(_, most)| most);
                    let whole = longest.max().unwrap_or(Duration::ZERO) + bound.delay + port.delay + traffic.processing;
                    network.paths[level] = network.paths[level].map(|path| path.max(whole));
                }
                Some(_) => {}
            }
        }
        network.ports.push(found);
    }
    network
}

/// The bounds of one port, by level.
fn port_of<'a>(
    routes: &Routes,
    traffic: &NetworkTraffic,
    port: &PortClass,
    of: impl Fn(usize) -> &'a [Delays],
) -> Vec<Option<PortBound>> {
    let mut sums = vec![Aggregate::default(); traffic.levels.len()];
    let mut bounded = traffic.levels.len();
    for &(arrival, hosts) in &port.inputs {
        for (level, &LevelTraffic { senders, burst, rate }) in traffic.levels.iter().enumerate() {
            if routes.arrivals[arrival].senders & senders == 0 {
                continue;
            }
            let Some((shortest, longest)) = of(arrival)[level] else {
                bounded = bounded.min(level);
                continue;
            };
            let grown = u128::from(burst.get()) + most_bytes(rate, longest.saturating_sub(shortest));
            sums[level].burst += u128::from(hosts) * grown;
            sums[level].rate += u128::from(hosts) * u128::from(rate.bps());
        }
    }
    let (behind, jitter) = match port.kind {
        PortKind::Interface => (&traffic.behind_interface, traffic.jitter),
        PortKind::Fabric | PortKind::Host => (&traffic.behind_port, Duration::ZERO),
    };
    let mut found = port_bounds(port.rate, &sums[..bounded], behind);
    found.iter_mut().flatten().for_each(|bound| bound.delay += jitter);
    found.resize(traffic.levels.len(), None);
    found
}

/// The delays of a host's traffic until it arrives, by level.
fn delays(
    routes: &Routes,
    traffic: &NetworkTraffic,
    ports: &[Vec<Option<PortBound>>],
    arrivals: &[Option<Vec<Delays>>],
    arrival: usize,
) -> Vec<Delays> {
    let arrival = &routes.arrivals[arrival];
    let of = |level: usize| -> Delays {
        if arrival.via.is_empty() {
            return Some((Duration::ZERO, Duration::ZERO));
        }
        let mut both: Delays = None;
        for &(port, before) in &arrival.via {
            let class = &routes.ports[port];
            let (shortest, longest) = arrivals[before].as_ref()?[level]?;
            let shortest = shortest + shortest_time(traffic.smallest, class.rate) + class.delay;
            let longest = longest + ports[port][level]?.delay + class.delay;
            both =
                both.map_or(Some((shortest, longest)), |(least, most)| Some((least.min(shortest), most.max(longest))));
        }
        both
    };
    let present = |level: usize| arrival.senders & traffic.levels[level].senders != 0;
    (0..traffic.levels.len()).map(|level| if present(level) { of(level) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_network::Graph;
    use weir_network::graph::{LinkSpec, Packets, QueueSpec, Routing};
    use weir_network::topology::{Common, FatTree, LeafSpine, ParkingLot, Star};

    const COMMON: Common = Common {
        routing: Routing::Ecmp,
        packets: Packets { payload: 1448, headers: 66 },
        shared_buffer: None,
        jitter: Duration::ZERO,
    };

    fn link(gbps: u64) -> LinkSpec {
        LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::ZERO, queue: QueueSpec::default() }
    }

    fn traffic(levels: &[(u64, u64)], frame: u64) -> NetworkTraffic {
        let level = |(burst, bps): &(u64, u64)| LevelTraffic {
            senders: 1,
            burst: Bytes::new(*burst),
            rate: Bandwidth::from_bps(*bps),
        };
        let levels: Vec<_> = levels.iter().map(level).collect();
        NetworkTraffic {
            behind_interface: vec![Bytes::new(frame); levels.len()],
            behind_port: vec![Bytes::new(frame); levels.len()],
            levels,
            smallest: Bytes::new(60),
            jitter: Duration::ZERO,
            processing: Duration::ZERO,
        }
    }

    fn bound(graph: &Graph, senders: usize, traffic: &NetworkTraffic) -> NetworkBound {
        let masks: Vec<SenderMask> = (0..graph.hosts.len()).map(|host| (host < senders).into()).collect();
        bounds(&Routes::new(graph, &masks).expect("no cycle"), traffic)
    }

    /// Eight senders and a receiver on a star; every delay from hand: 1500 B take 1.2 µs. At the interface two frames:
    /// 2.4 µs; the burst behind it has grown by ρ · (2.4 − 0.048) µs at 500 Mb/s, 147 B. At the receiver's port 8 ·
    /// 1647 + 1500 B: 11.7408 µs.
    #[test]
    fn a_star_by_hand() {
        let graph = Star { hosts: 9, host_link: link(10) }.build(COMMON);
        let found = bound(&graph, 8, &traffic(&[(1_500, 500_000_000)], 1_500));
        let delays: Vec<u64> = found.ports.iter().map(|port| port[0].expect("bounded").delay.nanos()).collect();
        // Of interfaces, of ports to a sender (seven others), of the receiver's.
        assert_eq!(delays, [2_400, (7 * 1_647u64 + 1_500) * 8 / 10 + 1, 11_741]);
        assert_eq!(found.paths, [Some(Duration::from_nanos(2_400 + 11_741))]);
    }

    #[test]
    fn slower_ports_have_no_bound() {
        let graph = Star { hosts: 9, host_link: link(10) }.build(COMMON);
        let found = bound(&graph, 9, &traffic(&[(1_500, 1_000_000_000), (3_000, 500_000_000)], 1_500));
        assert!(found.paths[0].is_some() && found.paths[1].is_none());
        assert_eq!(found.unbounded_at, [None, Some(1)]);
    }

    fn graph(kind: usize, size: u32) -> Graph {
        let (host_link, fabric_link) = (link(10), link(10));
        match kind {
            0 => Star { hosts: 4 * size, host_link }.build(COMMON),
            1 => LeafSpine { racks: size + 1, hosts: 3, spines: 2, host_link, fabric_link }.build(COMMON),
            2 => ParkingLot { switches: size + 1, hosts: 2, host_link, fabric_link }.build(COMMON),
            _ => FatTree { k: 4, cores: 4, aggregations: 2, host_link, fabric_link }.build(COMMON),
        }
    }

    proptest! {
        /// More senders, and larger frames, never make a bound smaller.
        #[test]
        fn paths_grow_with_senders_and_frames(
            kind in 0usize..4,
            size in 1u32..4,
            senders in 1usize..8,
            more in 0usize..4,
            frame in 64u64..9_000,
            larger in 0u64..9_000,
        ) {
            let graph = graph(kind, size);
            let levels = [(frame, 20_000_000), (5 * frame, 60_000_000)];
            let before = bound(&graph, senders.min(graph.hosts.len()), &traffic(&levels, frame));
            let busier = bound(&graph, (senders + more).min(graph.hosts.len()), &traffic(&levels, frame));
            let levels = levels.map(|(burst, rate)| (burst + larger, rate));
            let bigger = bound(&graph, senders.min(graph.hosts.len()), &traffic(&levels, frame + larger));
            prop_assert!(before.paths.iter().all(Option::is_some));
            for after in [busier, bigger] {
                prop_assert!(before.paths.iter().zip(&after.paths).all(|(before, after)| before <= after));
            }
        }

        /// A longer chain never makes a bound smaller.
        #[test]
        fn paths_grow_with_hops(switches in 2u32..7, frame in 64u64..9_000) {
            let chain = |switches| {
                let (host_link, fabric_link) = (link(10), link(10));
                ParkingLot { switches, hosts: 1, host_link, fabric_link }.build(COMMON)
            };
            let of = |switches| bound(&chain(switches), 2, &traffic(&[(frame, 20_000_000)], frame)).paths[0];
            prop_assert!(of(switches) <= of(switches + 1));
        }
    }
}
