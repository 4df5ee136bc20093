//! [`LevelNetwork`]: the senders of a policy's levels on its network, and the bursts that their frames meet.
//!
//! A host is described by the sets of senders that it is in, one for each distinct `machines:` of a service on a level;
//! which level a service is on does not matter, so one description serves every choice of levels.
//!
//! Worked example: `ptp` runs everywhere and `cache` on m1 to m40: m1 is in two sets, m41 in one.

use crate::calculus::{Cycle, LevelTraffic, NetworkBound, NetworkTraffic, PortKind, Routes, SenderMask, bounds};
use std::sync::Arc;
use weir_network::graph::Packets;
use weir_network::{Graph, Wiring};
use weir_policy::{LevelSettings, MachineSet, Policy, WorstLatency};
use weir_shaping::{SMALLEST_FRAME, htb_burst, htb_rate};
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, ServiceId};

/// The largest super-packet of Linux (`GSO_LEGACY_MAX_SIZE`, 64 KiB), without the headers of its segments.
const SUPER_PACKET: u64 = 65_536;
/// Sets of senders that are distinguished; all others count as one.
const SETS_MAX: usize = 63;

/// The bursts of less urgent traffic that a host's interface does not interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Super-packets of so many segments, as Linux makes them.
    Segments(u32),
    /// Frames, as the simulator's hosts send.
    Frames,
}

/// A service on a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Levelled {
    /// Its index among the services on levels.
    pub(super) index: usize,
    pub(super) id: ServiceId,
    /// The set of its machines.
    pub(super) senders: SenderMask,
    pub(super) target: Option<WorstLatency>,
    /// The most that it may send at a machine.
    pub(super) max: Bandwidth,
}

impl Levelled {
    /// Whether its set stands for several sets, so that it may not run at all their machines.
    pub(super) fn is_merged(&self) -> bool {
        self.senders == 1 << SETS_MAX
    }
}

/// A policy's network with the senders of its levels.
#[derive(Debug, Clone)]
pub struct LevelNetwork {
    graph: Arc<Graph>,
    routes: Result<Routes, Cycle>,
    pub(super) services: Vec<Levelled>,
    /// The combinations of sets that hosts are in, each once, with the number of its hosts.
    pub(super) hosts: Vec<(SenderMask, u64)>,
}

impl LevelNetwork {
    /// The network of a policy with services on levels.
    pub fn new(policy: &Policy) -> Self {
        Self::on(policy, policy.graph())
    }

    /// The same on another network, whose hosts are the policy's machines.
    pub fn on(policy: &Policy, graph: Arc<Graph>) -> Self {
        let machines = policy.network().machines().len() as u32;
        let mut sets: Vec<Option<MachineSet>> = Vec::new();
        let mut services = Vec::new();
        for (id, service) in policy.services().leaves().filter(|(_, service)| service.level().is_some()) {
            let own = service.machines().cloned();
            let set = sets.iter().position(|known| *known == own).unwrap_or_else(|| {
                if sets.len() > SETS_MAX {
                    // One set for the rest: more senders, and so larger bounds.
                    sets[SETS_MAX] = None;
                    return SETS_MAX;
                }
                sets.push(own);
                sets.len() - 1
            });
            let (target, max) = (service.worst_latency(), policy.machine_ceiling(id, Direction::Tx));
            services.push(Levelled { index: services.len(), id, senders: 1 << set, target, max });
        }
        let mask = |machine: u32| {
            let within = |set: &Option<MachineSet>| set.as_ref().is_none_or(|set| set.contains(MachineId(machine)));
            sets.iter().enumerate().filter(|(_, set)| within(set)).fold(0, |mask, (index, _)| mask | 1 << index)
        };
        let masks: Vec<SenderMask> = (0..machines).map(mask).collect();
        let mut routes = Routes::new(&graph, &masks);
        if let (Ok(routes), Wiring::Racks(_)) = (&mut routes, policy.wiring()) {
            // The buffers of a network of racks are those that it states, for plans; others are the simulator's.
            let stated = policy.network().port_buffers();
            for port in &mut routes.ports {
                port.buffer = match port.kind {
                    PortKind::Interface => None,
                    PortKind::Host => stated.machine,
                    PortKind::Fabric => stated.rack,
                };
            }
        }
        let mut hosts: Vec<(SenderMask, u64)> = Vec::new();
        for mask in masks {
            match hosts.iter_mut().find(|(known, _)| *known == mask) {
                Some((_, count)) => *count += 1,
                None => hosts.push((mask, 1)),
            }
        }
        Self { graph, routes, services, hosts }
    }

    /// The network's links.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The classes of its ports.
    ///
    /// # Errors
    /// [`Cycle`] if no bound is known, since ports depend on each other.
    pub fn routes(&self) -> Result<&Routes, Cycle> {
        self.routes.as_ref().map_err(|cycle| *cycle)
    }

    /// The number of machines in the union of sets.
    pub(super) fn sender_count(&self, senders: SenderMask) -> u64 {
        self.hosts.iter().filter(|(mask, _)| mask & senders != 0).map(|(_, count)| count).sum()
    }

    /// The largest frame of the network on the wire.
    fn largest_frame(&self, settings: &LevelSettings) -> Bytes {
        Bytes::new(self.graph.packets.frame() + settings.framing.get())
    }

    /// The bounds of levels of these senders and rates.
    ///
    /// # Errors
    /// As [`LevelNetwork::routes`].
    pub fn bounds(
        &self,
        settings: &LevelSettings,
        sizes: Sizes,
        levels: &[LevelTraffic],
    ) -> Result<NetworkBound, Cycle> {
        let frame = self.largest_frame(settings);
        let interface = match sizes {
            Sizes::Frames => frame,
            Sizes::Segments(segments) => super_packet(self.graph.packets, settings, segments).max(frame),
        };
        // Less urgent levels have frames of at most P.
        let behind = |others: Bytes| vec![others.max(settings.packet); levels.len()];
        let traffic = NetworkTraffic {
            levels: levels.to_vec(),
            behind_interface: behind(interface),
            behind_port: behind(frame),
            smallest: Bytes::new(SMALLEST_FRAME.get().min(self.graph.packets.headers.into())),
            jitter: self.graph.jitter,
            processing: settings.processing,
        };
        Ok(bounds(self.routes()?, &traffic))
    }

    /// The bytes of a message on the wire, in frames of at most P; `None` if a frame of P carries no payload.
    pub fn wire_bytes(&self, settings: &LevelSettings, message: Bytes) -> Option<u64> {
        let full = self.payload(settings)? + u64::from(self.graph.packets.headers) + settings.framing.get();
        let others = message.get().div_ceil(self.payload(settings)?).saturating_sub(1);
        others.checked_mul(full)?.checked_add(self.last_frame(settings, message)?)
    }

    /// The bytes that a level of this burst lets leave at once, if the last of them are the last frame of this message,
    /// and the rate at which others follow: on Linux by HTB, which sends less at once beside frames smaller than P.
    pub(super) fn release(
        &self,
        (settings, sizes): (&LevelSettings, Sizes),
        (burst, rate): (Bytes, Bandwidth),
        message: Bytes,
    ) -> (Bytes, Bandwidth) {
        let Sizes::Segments(_) = sizes else { return (burst, rate) };
        let rate = htb_rate(rate, settings.framing);
        let last = self.last_frame(settings, message).unwrap_or(0);
        (htb_burst(burst, settings.packet, rate) + Bytes::new(last), rate)
    }

    /// The bytes of a message's last frame on the wire; `None` if a frame of P carries no payload.
    fn last_frame(&self, settings: &LevelSettings, message: Bytes) -> Option<u64> {
        let full = self.payload(settings)?;
        let payload = message.get().saturating_sub(message.get().div_ceil(full).saturating_sub(1) * full);
        let headers = u64::from(self.graph.packets.headers);
        Some((payload + headers).max(SMALLEST_FRAME.get().min(headers + full)) + settings.framing.get())
    }

    /// The payload of a full frame of levels; `None` if a frame of P carries none.
    fn payload(&self, settings: &LevelSettings) -> Option<u64> {
        let overhead = u64::from(self.graph.packets.headers) + settings.framing.get();
        let payload = settings.packet.get().checked_sub(overhead).filter(|payload| *payload > 0)?;
        Some(payload.min(self.graph.packets.payload.into()))
    }

    /// The rate on the wire of messages of a rate, rounded up.
    pub fn wire_rate(&self, settings: &LevelSettings, target: &WorstLatency) -> Option<Bandwidth> {
        let wire = u128::from(self.wire_bytes(settings, target.message)?);
        let bps = (u128::from(target.rate.bps()) * wire).div_ceil(target.message.get().max(1).into());
        u64::try_from(bps).ok().map(Bandwidth::from_bps)
    }
}

/// A super-packet of so many segments on the wire: at most 64 KiB and the headers of its segments.
fn super_packet(packets: Packets, settings: &LevelSettings, segments: u32) -> Bytes {
    let most = segments_at_most(packets).min(segments);
    let payload = (u64::from(most) * u64::from(packets.payload)).min(SUPER_PACKET);
    Bytes::new(payload + u64::from(most) * (u64::from(packets.headers) + settings.framing.get()))
}

/// The segments of Linux's largest super-packet in this network.
pub(super) fn segments_at_most(packets: Packets) -> u32 {
    SUPER_PACKET.div_ceil(packets.payload.max(1).into()) as u32
}

impl Sizes {
    /// The super-packets of hosts under these settings.
    pub fn of_linux(settings: &LevelSettings) -> Self {
        Self::Segments(settings.segments.unwrap_or(u32::MAX))
    }
}

/// The time that a message waits in its host for the bytes beyond σ; `None` if it is not known.
pub(super) fn waiting(bytes: u64, burst: Bytes, rate: Bandwidth) -> Option<Duration> {
    let rest = u128::from(bytes.saturating_sub(burst.get())) * 8_000_000_000;
    let nanos = rest.checked_div(rate.bps().into()).map(|nanos| nanos + 1);
    let nanos = if rest == 0 { 0 } else { nanos? };
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}
