//! The longest round trips of an idle network: a full frame from a sender to a receiver, and a small packet back.
//!
//! Among the shortest paths by hops between two switches the longest counts, since a flow may take any of them, and the
//! rate of the slowest link on any of them. The two slowest hosts of each switch stand for all of them: one of them is
//! another host than the sender.
//!
//! Worked example: two hosts at a switch, links of 1 Gb/s and 10 µs. A packet of 84 B takes 0.672 µs on a link, a frame
//! of 1,514 B 12.112 µs; the round trip is 4 · 10 + 2 · 0.672 + 2 · 12.112 = 65.568 µs.

use std::collections::{BTreeMap, VecDeque};
use weir_network::graph::{Graph, LinkSpec};
use weir_units::{Bandwidth, Duration, MachineId};

/// A round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trip {
    /// On the idle network.
    pub(super) time: Duration,
    /// The rate of the slowest link that the frame may take.
    pub(super) rate: Bandwidth,
    /// The sender and the receiver.
    pub(super) ends: [MachineId; 2],
}

/// The longest time over the shortest paths by hops between two switches, and the rate of the slowest link on them.
type Between = Option<(Duration, Bandwidth)>;

/// A cable from a switch.
struct Next {
    to: usize,
    /// The time of a frame there and the small packet back.
    time: Duration,
    rate: Bandwidth,
}

/// The longest round trips of a network, by the switch of the sender.
pub(super) struct RoundTrips<'g> {
    pub(super) graph: &'g Graph,
    /// Bytes of the small packet.
    small: u64,
    /// The cables of each switch.
    next: Vec<Vec<Next>>,
    known: BTreeMap<usize, Vec<Between>>,
}

impl<'g> RoundTrips<'g> {
    /// The trips of a full frame one way and a packet of `small` bytes the other way.
    pub(super) fn new(graph: &'g Graph, small: u64) -> Self {
        let mut next: Vec<Vec<Next>> = graph.switches.iter().map(|_| Vec::new()).collect();
        let frame = graph.packets.frame();
        let cable = |to, there: &LinkSpec, back: &LinkSpec| Next {
            to,
            time: time(there, frame) + time(back, small),
            rate: there.rate,
        };
        for own in &graph.cables {
            next[own.a].push(cable(own.b, &own.a_to_b, &own.b_to_a));
            next[own.b].push(cable(own.a, &own.b_to_a, &own.a_to_b));
        }
        Self { graph, small, next, known: BTreeMap::new() }
    }

    /// A time that no round trip exceeds, by one search from any switch: between two switches there are at most twice
    /// as many hops as from there to the farthest one.
    pub(super) fn bound(&self) -> Duration {
        let frame = self.graph.packets.frame();
        let hosts = self.graph.hosts.iter();
        let host = hosts.map(|host| time(&host.up, frame).max(time(&host.down, frame))).max().unwrap_or_default();
        let cable = self.next.iter().flatten().map(|cable| cable.time).max().unwrap_or_default();
        let mut hops = vec![u64::MAX; self.next.len()];
        hops[0] = 0;
        let (mut queue, mut farthest) = (VecDeque::from([0]), 0);
        while let Some(at) = queue.pop_front() {
            farthest = hops[at];
            for cable in &self.next[at] {
                if hops[cable.to] == u64::MAX {
                    hops[cable.to] = hops[at] + 1;
                    queue.push_back(cable.to);
                }
            }
        }
        // Both packets pass both hosts' links, none of them for longer than a frame.
        host * 4 + cable * (2 * farthest)
    }

    /// From the switch `from` to each other one.
    fn from(&mut self, from: usize) -> &[Between] {
        let Self { next, known, .. } = self;
        known.entry(from).or_insert_with(|| {
            let mut hops = vec![usize::MAX; next.len()];
            let mut all: Vec<Between> = vec![None; next.len()];
            (hops[from], all[from]) = (0, Some((Duration::ZERO, Bandwidth::UNLIMITED)));
            let mut queue = VecDeque::from([from]);
            while let Some(at) = queue.pop_front() {
                let Some((here, rate)) = all[at] else { continue };
                for cable in &next[at] {
                    let to = cable.to;
                    if hops[to] == usize::MAX {
                        hops[to] = hops[at] + 1;
                        queue.push_back(to);
                    }
                    if hops[to] == hops[at] + 1 {
                        let (longest, slowest) = all[to].unwrap_or((Duration::ZERO, Bandwidth::UNLIMITED));
                        let (time, rate) = (here + cable.time, rate.min(cable.rate));
                        all[to] = Some((longest.max(time), slowest.min(rate)));
                    }
                }
            }
            all
        })
    }

    /// The longest round trip of data from a sender to a receiver; `None` if there is no other receiver.
    pub(super) fn longest(&mut self, senders: &[MachineId], receivers: &[MachineId]) -> Option<Trip> {
        let (graph, frame, small) = (self.graph, self.graph.packets.frame(), self.small);
        let of = |host: MachineId| &graph.hosts[host.index()];
        let slowest = |hosts: &[MachineId], time: &dyn Fn(MachineId) -> Duration| {
            let mut slowest: BTreeMap<usize, Vec<(Duration, MachineId)>> = BTreeMap::new();
            for &host in hosts {
                let here = slowest.entry(of(host).switch).or_default();
                here.push((time(host), host));
                here.sort_unstable_by(|a, b| b.cmp(a));
                here.truncate(2);
            }
            slowest
        };
        let senders = slowest(senders, &|host| time(&of(host).up, frame) + time(&of(host).down, small));
        let receivers = slowest(receivers, &|host| time(&of(host).down, frame) + time(&of(host).up, small));
        let mut longest: Option<Trip> = None;
        for (&at, froms) in &senders {
            let between = self.from(at);
            for (&end, tos) in &receivers {
                let Some((middle, rate)) = between[end] else { continue };
                let pairs = froms.iter().flat_map(|from| tos.iter().map(move |to| (from, to)));
                for (&(up, from), &(down, to)) in pairs.filter(|((_, from), (_, to))| from != to) {
                    let time = up + middle + down;
                    if longest.is_none_or(|longest| (time, [from, to]) > (longest.time, longest.ends)) {
                        let rate = rate.min(of(from).up.rate).min(of(to).down.rate);
                        longest = Some(Trip { time, rate, ends: [from, to] });
                    }
                }
            }
        }
        longest
    }
}

/// The time of `bytes` over a link.
pub(super) fn time(link: &LinkSpec, bytes: u64) -> Duration {
    let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(link.rate.bps().max(1)));
    link.delay + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
}
