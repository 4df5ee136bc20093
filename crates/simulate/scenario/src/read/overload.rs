//! A remark on random traffic above the rate of hosts' links.
//!
//! Problem: `load` is of the senders of one flow group. Flow groups add up, receivers may be fewer
//! than senders, and a `gap` may have any value; then queues and the number of flows grow as long
//! as the traffic lasts, and completion times depend more on the duration than on the network. Some
//! experiments need this, so it is not refused. Approach: through the starts and ends of flow
//! groups in the order of time, keep the mean load of all active ones on each host's link; the
//! first flow group that brings a link to its rate is remarked on.
//!
//! Worked example: 15 senders at 60 % and one receiver, all at 10 Gb/s, offer 9 times the rate of
//! the receiver's link.

use super::traffic::Read;
use weir_document::{Node, Problems};
use weir_network::graph::Graph;
use weir_units::{Bandwidth, MachineId, SimTime};
use weir_workload::{Framing, Hosts, MeanGap, Spec};

/// The load offered to a host's link, in bit/s.
#[derive(Debug, Clone, Copy, Default)]
struct Offered {
    up: f64,
    down: f64,
}

/// A flow group with a mean rate.
struct Offer<'a> {
    item: &'a Node,
    senders: &'a Hosts,
    receivers: &'a Hosts,
    start: SimTime,
    until: SimTime,
    /// In bit/s, headers included.
    rate: f64,
}

impl<'a> Offer<'a> {
    /// `None` for traffic without a mean rate of its own.
    fn new(item: &'a Node, spec: &'a Spec, framing: Framing) -> Option<Self> {
        let rate = |wire: f64, gap: MeanGap| wire * 8e12 / gap.picos();
        match spec {
            Spec::Random(random) => Some(Self {
                item,
                senders: random.senders(),
                receivers: random.receivers(),
                start: random.start(),
                until: random.until(),
                rate: rate(random.sizes().mean_wire_bytes(framing), random.gap()),
            }),
            Spec::Incasts(incasts) => Some(Self {
                item,
                senders: incasts.senders(),
                receivers: incasts.receivers(),
                start: incasts.start(),
                until: incasts.until(),
                rate: rate(framing.wire_bytes(incasts.bytes()) as f64 * f64::from(incasts.fan_in()), incasts.gap()),
            }),
            _ => None,
        }
    }
}

/// Remarks on the first flow group that brings a host's link to its rate. `traffic` is the parsed
/// form of `items`.
pub(super) fn remark(items: &[Node], traffic: &[Read], graph: &Graph, problems: &mut Problems) {
    let Ok(framing) = Framing::new(graph.packets.payload, graph.packets.headers) else { return };
    let groups = items.iter().zip(traffic);
    let offers: Vec<Offer<'_>> =
        groups.filter_map(|(item, read)| Offer::new(item, &read.traffic.spec, framing)).collect();
    // Starts and ends in the order of time; an end makes room for a simultaneous start.
    let starts = offers.iter().enumerate().map(|(place, offer)| (offer.start, true, place));
    let ends = offers.iter().enumerate().map(|(place, offer)| (offer.until, false, place));
    let mut changes: Vec<_> = starts.chain(ends).collect();
    changes.sort_unstable();
    let mut offered = vec![Offered::default(); graph.hosts.len()];
    for (_, starts, place) in changes {
        let Offer { item, senders, receivers, rate, .. } = offers[place];
        let rate = if starts { rate } else { -rate };
        senders.iter().for_each(|host| offered[host.index()].up += rate / senders.len() as f64);
        receivers.iter().for_each(|host| offered[host.index()].down += rate / receivers.len() as f64);
        if !starts {
            continue;
        }
        let of = |host: MachineId| (&graph.hosts[host.index()], offered[host.index()]);
        let up = senders.iter().map(of).find_map(|(host, of)| too_much("from", &host.name, of.up, host.up.rate));
        let too_much = up.or_else(|| {
            receivers.iter().map(of).find_map(|(host, of)| too_much("to", &host.name, of.down, host.down.rate))
        });
        if let Some(cause) = too_much {
            let at = item.get("load").or(item.get("rate")).or(item.get("gap")).map_or(item.span, |node| node.span);
            problems.note(at, cause, "write a smaller `load` or `rate` or a longer `gap`, or name more hosts");
            return;
        }
    }
}

/// The remark on a link with an offered load of so many bit/s.
fn too_much(way: &str, host: &str, offered: f64, rate: Bandwidth) -> Option<String> {
    // Sums of loads are rounded.
    const EXACT: f64 = 1e-9;
    let load = offered / rate.bps() as f64;
    (load >= 1.0 - EXACT).then(|| {
        let percent = (load * 100.0).round();
        format!(
            "random traffic offers {percent} % of the rate of the link {way} `{host}`: queues grow as long as it lasts"
        )
    })
}
