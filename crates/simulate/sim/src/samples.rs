//! Measurements while a network runs: links and machine shapers at intervals, and a rack's uplink
//! by service.

use crate::brokers::ServiceIndices;
use crate::ids::{HostId, MeterId, PortId, ServiceIndex};
use crate::observer::Observer;
use crate::shaper::ShaperReading;
use crate::world::World;
use weir_network::Graph;
use weir_network::graph::LinkRef;
use weir_results::{ClassCount, LinkRecord, LinkSample, MeterSample};
use weir_scenario::{Measure, Sample, Scenario};
use weir_units::{Bandwidth, Bytes, Duration, MachineId, PerDirection, ServiceId};

/// Samples of the links that a scenario watches.
#[derive(Debug)]
pub(crate) struct LinkSampler {
    watched: Vec<Watched>,
    pub(crate) samples: Vec<LinkSample>,
}

#[derive(Debug)]
struct Watched {
    /// The link's index among all.
    link: u32,
    port: PortId,
    sent: u64,
    capacity: u64,
    dropped: u64,
    marked: u64,
    /// The largest backlog ever, of intervals that are over.
    peak: u64,
}

impl LinkSampler {
    pub(crate) fn new<O: Observer>(scenario: &Scenario, world: &World<O>) -> Self {
        let watched = |&link: &LinkRef| Watched {
            link: link_index(scenario.graph(), link),
            port: world.port_of(link),
            sent: 0,
            capacity: 0,
            dropped: 0,
            marked: 0,
            peak: 0,
        };
        Self { watched: scenario.measurement().links.iter().map(watched).collect(), samples: Vec::new() }
    }

    /// Takes a sample of each link.
    pub(crate) fn take<O: Observer>(&mut self, world: &mut World<O>) {
        let at = world.now();
        for watched in &mut self.watched {
            let queue_peak = world.take_peak(watched.port);
            watched.peak = watched.peak.max(queue_peak);
            let (held, capacity) = (world.held(watched.port), world.capacity(watched.port));
            let counts = world.counts(watched.port);
            let sum = |counts: &[crate::port::ClassCount]| counts.iter().map(|count| count.packets).sum::<u64>();
            let taken: u64 = counts.taken.iter().map(|count| count.bytes).sum();
            // Frames lost with a link were taken and not sent, and appear as nothing sent.
            let sent = taken.saturating_sub(held).max(watched.sent);
            let (dropped, marked) = (sum(&counts.dropped), sum(&counts.marked));
            self.samples.push(LinkSample {
                at,
                link: watched.link,
                bytes: sent - watched.sent,
                capacity: capacity - watched.capacity,
                queue: held,
                queue_peak,
                dropped: dropped - watched.dropped,
                marked: marked - watched.marked,
            });
            (watched.sent, watched.capacity) = (sent, capacity);
            (watched.dropped, watched.marked) = (dropped, marked);
        }
    }

    /// The largest backlog ever at a port, of intervals that are over.
    fn peak(&self, port: PortId) -> u64 {
        self.watched.iter().find(|watched| watched.port == port).map_or(0, |watched| watched.peak)
    }
}

/// The index of a link among all of its graph: [`Graph::links`].
fn link_index(graph: &Graph, link: LinkRef) -> u32 {
    let hosts = graph.hosts.len() as u32;
    match link {
        LinkRef::Up(host) => 2 * host.0,
        LinkRef::Down(host) => 2 * host.0 + 1,
        LinkRef::Forward(cable) => 2 * hosts + 2 * cable as u32,
        LinkRef::Backward(cable) => 2 * hosts + 2 * cable as u32 + 1,
    }
}

/// The counts of every link over the whole run.
pub(crate) fn link_records<O: Observer>(graph: &Graph, world: &mut World<O>, sampler: &LinkSampler) -> Vec<LinkRecord> {
    let record = |link: LinkRef| {
        let port = world.port_of(link);
        let queue_peak = world.take_peak(port).max(sampler.peak(port));
        let counts = world.counts(port);
        let class = |index: usize| ClassCount {
            bytes: counts.taken[index].bytes,
            packets: counts.taken[index].packets,
            dropped: counts.dropped[index].packets,
            marked: counts.marked[index].packets,
        };
        let classes: [ClassCount; 8] = std::array::from_fn(class);
        let sum = |of: fn(&ClassCount) -> u64| classes.iter().map(of).sum::<u64>();
        LinkRecord {
            name: graph.link_name(link),
            rate: world.mean_rate(port),
            // Waiting bytes have not been sent.
            bytes: sum(|class| class.bytes).saturating_sub(world.held(port)),
            packets: sum(|class| class.packets),
            dropped: sum(|class| class.dropped),
            marked: sum(|class| class.marked),
            classes,
            queue_peak,
        }
    };
    graph.links().map(record).collect()
}

/// Samples of machine shapers: every service at every host with traffic or with changed rates.
#[derive(Debug, Default)]
pub(crate) struct MeterSampler {
    /// By host and service, the values of the last sample.
    last: Vec<(PerDirection<Bytes>, Option<ShaperReading>)>,
    pub(crate) samples: Vec<MeterSample>,
}

impl MeterSampler {
    /// Takes a sample of each service of `indices` at each host.
    pub(crate) fn take<O: Observer>(&mut self, indices: &ServiceIndices, world: &World<O>) {
        let hosts = (0..world.host_count() as u32).map(HostId);
        let services = hosts.flat_map(|host| indices.iter().map(move |(_, service)| (host, service)));
        let finite = |rate: Bandwidth| (!rate.is_unlimited()).then_some(rate);
        for (index, (host, service)) in services.enumerate() {
            let (bytes, reading) = (world.host_bytes(host, service), world.shaper(host, service));
            if self.last.len() <= index {
                self.last.push((PerDirection::default(), None));
            }
            let (before, last) = std::mem::replace(&mut self.last[index], (bytes, reading));
            let Some(now) = reading.filter(|_| bytes != before || reading != last) else { continue };
            self.samples.push(MeterSample {
                at: world.now(),
                host: MachineId(host.0),
                service: service.0.into(),
                sent: (bytes.tx - before.tx).get(),
                limit: finite(now.limit),
                received: (bytes.rx - before.rx).get(),
                capacity: finite(now.capacity),
                rate: finite(now.rate),
            });
        }
    }
}

/// Samples of the measured rack's uplink, by service.
#[derive(Debug)]
pub(crate) struct UplinkSampler {
    meter: MeterId,
    /// When the last sample was taken.
    last: Duration,
    /// The services that the scenario sends, in id order, and the last reading of the meter.
    services: Vec<(ServiceId, ServiceIndex, Bytes)>,
    pub(crate) samples: Vec<Sample>,
}

impl UplinkSampler {
    pub(crate) fn new<O: Observer>(
        scenario: &Scenario,
        measure: Measure,
        indices: &ServiceIndices,
        world: &mut World<O>,
    ) -> Self {
        let links = scenario.graph().rack_uplinks(measure.rack, measure.direction);
        let ports: Vec<PortId> = links.into_iter().map(|link| world.port_of(link)).collect();
        let meter = world.add_meter(&ports);
        let sending = scenario.sending();
        let services =
            indices.iter().filter(|(id, _)| sending.contains(id)).map(|(id, index)| (id, index, Bytes::ZERO)).collect();
        Self { meter, last: Duration::ZERO, services, samples: Vec::new() }
    }

    /// Takes a sample.
    pub(crate) fn take<O: Observer>(&mut self, world: &World<O>) {
        let at = world.now().duration();
        let (meter, elapsed) = (self.meter, at.saturating_sub(self.last));
        self.last = at;
        let bandwidth = self
            .services
            .iter_mut()
            .map(|(service, index, before)| {
                let total = world.metered(meter, *index);
                let bytes = total - *before;
                *before = total;
                (*service, Bandwidth::from_transfer(bytes, elapsed))
            })
            .collect();
        self.samples.push(Sample { at, bandwidth });
    }
}
