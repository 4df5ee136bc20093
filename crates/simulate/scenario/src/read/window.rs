//! A remark on a receive window of TCP that cannot fill rate times round trip.
//!
//! Problem: a sender has at most a window of data on its way, so a flow alone has at most a window per round trip,
//! whatever the rate of its links; on fast and long networks results then show the window and not the network.
//! Approach: the longest round trip of a flow group, a full frame and its acknowledgement on the idle network, times
//! the slowest rate of its path is compared with the window. Flows that a host has under way together fill the path
//! together, and flows below the window do not reach it. Under a policy, services with a limit need less.
//!
//! The first flow group that needs a larger window is remarked on.
//!
//! Worked example: a star of 400 Gb/s and 25 µs per link. The round trip is 100.07 µs, in which 5.0 MB of frames of
//! 1,514 B arrive, 4.79 MB of payload; with a window of 4 MB a flow has 334 Gb/s.

use super::traffic::Read;
use super::trips::{RoundTrips, Trip};
use std::collections::BTreeSet;
use weir_document::Problems;
use weir_network::graph::Graph;
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, MachineId, ServiceId};
use weir_workload::Spec;

/// Cables that are looked at for one flow group: some tens of milliseconds. On a network that is larger and fast, the
/// round trips from the first of the senders' switches count.
const MOST_STEPS: usize = 10_000_000;
/// The largest window of TCP: 1 GiB (RFC 7323 §2.3).
const LARGEST_WINDOW: u64 = 1 << 30;

/// Remarks on the first flow group whose window is too small.
pub(super) fn remark(traffic: &[Read], graph: &Graph, policy: Option<&Policy>, problems: &mut Problems) {
    let windows = traffic.iter().filter_map(|read| Some((read, Window::of(read)?)));
    let windows: Vec<(&Read, Window)> = windows.collect();
    if windows.is_empty() {
        return;
    }
    let mut trips = RoundTrips::new(graph, graph.packets.headers.into());
    let rates = graph.hosts.iter().map(|host| host.up.rate).max();
    let most = payload_in(graph, rates.unwrap_or_default(), trips.bound());
    for (read, window) in windows {
        if window.together() >= most {
            continue;
        }
        let (senders, receivers) = read.traffic.spec.ends();
        let senders = of_first_switches(graph, senders);
        let Some(trip) = trips.longest(&senders, &receivers) else { continue };
        let rate = trip.rate.min(limit(policy, read.traffic.service));
        let needed = payload_in(graph, rate, trip.time);
        if window.together() < needed {
            note(read, window, Trip { rate, ..trip }, needed, graph, problems);
            return;
        }
    }
}

/// The receive window of a flow group.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// In bytes of payload.
    bytes: u64,
    /// The number of flows that share a path.
    flows: u64,
}

impl Window {
    /// `None` if no flow reaches it.
    fn of(read: &Read) -> Option<Self> {
        let traffic = &read.traffic;
        let bytes = traffic.transport.receive_window().filter(|window| traffic.spec.largest() > *window)?;
        // Messages of a round go to different connections or hosts; others share those of their two hosts.
        let connections = match traffic.spec {
            Spec::Random(_) | Spec::List(_) => traffic.connections.unwrap_or(1).into(),
            _ => 1,
        };
        Some(Self { bytes, flows: traffic.spec.together().max(connections) })
    }

    /// The payload that the flows have on their way together.
    fn together(self) -> u64 {
        self.bytes.saturating_mul(self.flows)
    }
}

/// Payload of full frames at a rate in a time.
fn payload_in(graph: &Graph, rate: Bandwidth, time: Duration) -> u64 {
    let bytes = u128::from(rate.bytes_in(time).get());
    let payload = bytes * u128::from(graph.packets.payload) / u128::from(graph.packets.frame().max(1));
    u64::try_from(payload).unwrap_or(u64::MAX)
}

/// The senders at the first switches, as many as [`MOST_STEPS`] allows.
fn of_first_switches(graph: &Graph, senders: Vec<MachineId>) -> Vec<MachineId> {
    let most = (MOST_STEPS / (graph.switches.len() + 2 * graph.cables.len() + 1)).max(1);
    let switch = |host: &MachineId| graph.hosts[host.index()].switch;
    let switches: BTreeSet<usize> = senders.iter().map(switch).collect();
    match switches.iter().nth(most) {
        Some(end) => senders.into_iter().filter(|host| switch(host) < *end).collect(),
        None => senders,
    }
}

/// The smallest limit of a service and of those that it is nested in.
fn limit(policy: Option<&Policy>, service: Option<ServiceId>) -> Bandwidth {
    let Some((policy, service)) = policy.zip(service) else { return Bandwidth::UNLIMITED };
    let services = policy.services();
    std::iter::successors(Some(service), |service| services.get(*service).parent())
        .flat_map(|service| ContentionPoint::ALL.into_iter().map(move |point| (service, point)))
        .flat_map(|(service, point)| Direction::ALL.map(|direction| services.get(service).share(point, direction).max))
        .min()
        .unwrap_or(Bandwidth::UNLIMITED)
}

fn note(read: &Read, window: Window, trip: Trip, needed: u64, graph: &Graph, problems: &mut Problems) {
    let [from, to] = trip.ends.map(|host| &graph.hosts[host.index()].name);
    let protocol = read.traffic.transport.protocol();
    let flows = match window.flows {
        1 => format!("a flow of {protocol} has"),
        flows => format!("{flows} flows of {protocol} have"),
    };
    // A window per round trip, with the headers of its frames.
    let frames = u128::from(window.together()) * u128::from(graph.packets.frame()) / u128::from(graph.packets.payload);
    let bits = frames * 8_000_000_000 / u128::from(trip.time.nanos().max(1));
    let possible = three_digits(u64::try_from(bits).unwrap_or(u64::MAX));
    let cause = format!(
        "{flows} at most {} on the way, and the round trip between `{from}` and `{to}` takes {}: {possible} of {}",
        Bytes::new(window.together()),
        trip.time,
        trip.rate
    );
    let each = needed.div_ceil(window.flows).div_ceil(100_000) * 100;
    let hint = match each.saturating_mul(1_000) <= LARGEST_WINDOW {
        true => format!("write `receive-window: {each}kB`, or let more flows share the path"),
        false => "let more flows share the path".to_owned(),
    };
    problems.note(read.at, cause, hint);
}

/// A rate whose other digits than the first three are zeros.
fn three_digits(bps: u64) -> Bandwidth {
    let unit = 10_u64.pow(bps.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Bandwidth::from_bps(bps / unit * unit)
}
