//! Hosts with Parley's shapers, shared by the tests of shapers.

use super::{SIZES, delivered, run};
use std::sync::Arc;
use weir_policy::{Share, Sharing};
use weir_shaping::MachinePlan;
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, FlowSpec, HostId, ServiceShaper, ShaperConfig, SimTime, World};
use weir_units::{Bandwidth, Bytes, PerDirection};

/// Parley, Table 1.
pub(crate) const MARK: Bytes = Bytes::new(80_000);

/// Parley's shapers for services with these receive shares at each machine.
pub(crate) fn parley(hosts: usize, shares: &[Share]) -> ShaperConfig {
    let capacities = PerDirection { tx: Bandwidth::from_gbps(10), rx: Bandwidth::from_mbps(9500) };
    let shares: Vec<_> = shares.iter().map(|&share| PerDirection { tx: Share::default(), rx: share }).collect();
    list(hosts, capacities, &shares)
}

/// Parley's shapers for services with these shares at each machine of these capacities.
pub(crate) fn list(hosts: usize, capacities: PerDirection<Bandwidth>, shares: &[PerDirection<Share>]) -> ShaperConfig {
    let plan = Arc::new(MachinePlan::of_list(Sharing::Fill, capacities, shares));
    ShaperConfig {
        sharing: Sharing::Fill,
        services: vec![ServiceShaper::default(); shares.len()],
        machines: vec![plan; hosts],
        ..ShaperConfig::default()
    }
}

/// An endless flow of a path of its own.
pub(crate) fn flow(from: HostId, to: HostId, number: u32) -> FlowSpec {
    FlowSpec { hash: number.wrapping_mul(0x9E37_79B9) ^ from.0, ..super::flow(from, to, None) }
}

/// Each flow's delivered rate between two times, in Mb/s of payload, and headers as the links count
/// them.
pub(crate) fn rates(world: &mut World<Checkers>, flows: &[FlowId], from: SimTime, to: SimTime) -> Vec<f64> {
    run(world, from);
    let before: Vec<u64> = flows.iter().map(|&flow| delivered(world, flow)).collect();
    run(world, to);
    let time = (to - from).picos() as f64 / 1e12;
    let frame = f64::from(SIZES.payload + SIZES.headers) / f64::from(SIZES.payload);
    let rate = |(&flow, before): (&FlowId, u64)| (delivered(world, flow) - before) as f64 * frame * 8.0 / time / 1e6;
    flows.iter().zip(before).map(rate).collect()
}
