//! Networks and searches that the tests of this crate share.

use proptest::prelude::*;
use proptest::strategy::Strategy as Values;
use std::sync::Arc;
use weir_network::graph::{Graph, LinkSpec, Packets, QueueSpec, Routing};
use weir_network::topology::{Common, Topology};
use weir_placement::{Fabric, Ledger, Placer, Strategy, Weighing};
use weir_units::{Bandwidth, Duration};

/// A bandwidth in Mb/s.
pub(crate) const MBPS: fn(u64) -> Bandwidth = Bandwidth::from_mbps;

/// A link of this rate.
pub(crate) fn link(mbps: u64) -> LinkSpec {
    LinkSpec { rate: MBPS(mbps), delay: Duration::ZERO, queue: QueueSpec::default() }
}

/// The graph of a topology.
pub(crate) fn built(topology: Topology) -> Graph {
    let common =
        Common { routing: Routing::Ecmp, packets: Packets::default(), shared_buffer: None, jitter: Duration::ZERO };
    topology.build(common)
}

/// A network without tenants, each machine with this many slots, and a search.
pub(crate) fn placer(graph: &Graph, fabric: Fabric, slots: u32, strategy: Strategy) -> Placer {
    let fabric = Arc::new(fabric);
    let ledger = Ledger::new(&fabric, &fabric.rates(graph), vec![slots; graph.hosts.len()]);
    Placer::new(fabric, ledger, strategy, 8)
}

/// All searches.
pub(crate) fn strategies() -> impl Values<Value = Strategy> {
    prop_oneof![
        Just(Strategy::QShare(Weighing::Load)),
        Just(Strategy::QShare(Weighing::Queues)),
        Just(Strategy::QShare(Weighing::Bandwidth)),
        Just(Strategy::FirstFit),
        Just(Strategy::Oktopus),
    ]
}
