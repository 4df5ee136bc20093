//! The ideal completion time of a flow: how long it would take on an idle network, its sender never
//! waiting.
//!
//! Every link i of the way has rate R_i and delay d_i; frames are stored and forwarded. Of n frames
//! all but the last have P bytes and the last has q ≤ P. Frame k leaves link i when it has arrived,
//! the frame before it has left, and it has been sent: the longest way through that grid of (frame,
//! link) is the time of the last bit. A way runs along the links with the first frame, waits n − 2
//! frames at one link, and goes over to the last frame at some link j:
//!
//! T = Σ d_i + max over j of [ Σ_{i ≤ j} P/R_i + (n − 2) · max_{i ≤ j} P/R_i + Σ_{i ≥ j} q/R_i ],
//! for n ≥ 2,
//!
//! and Σ d_i + Σ q/R_i for one frame. The formula is exact: a flow that its window never limits
//! takes this time to the picosecond where rates have whole picoseconds per byte, and within one
//! per link and frame elsewhere.
//!
//! Worked example: 2 frames of 1514 B over 10, 1 and 10 Gb/s with 10 µs each: 30 µs + 1.2112 + 2 ·
//! 12.112 + 1.2112 µs = 56.6464 µs.
//!
//! A slowdown is the measured time over this one; it counts the waiting for windows,
//! acknowledgements and other flows.

use crate::ids::{HostId, Node, PortId};
use crate::observer::Observer;
use crate::serial_clock::SerialClock;
use crate::world::World;
use weir_transport::agents::FlowKey;
use weir_units::{Bandwidth, SimTime};

/// The time of a flow of `bytes` over links of these rates and delays, in packets of at most
/// `payload` and `headers` bytes.
pub fn ideal_time(links: &[(Bandwidth, SimTime)], bytes: u64, payload: u32, headers: u32) -> SimTime {
    let frames = bytes.div_ceil(u64::from(payload)).max(1);
    let last = (bytes - (frames - 1) * u64::from(payload)) as u32 + headers;
    let full = payload + headers;
    let time = |rate: Bandwidth, size: u32| SerialClock::new(rate).advance(size).picos();
    let delays: u64 = links.iter().map(|link| link.1.picos()).sum();
    // The time of the last frame after each link.
    let mut rest: u64 = links.iter().map(|link| time(link.0, last)).sum();
    if frames == 1 {
        return SimTime::from_picos(delays + rest);
    }
    let (mut first, mut slowest, mut longest) = (0, 0, 0);
    for link in links {
        let frame = time(link.0, full);
        first += frame;
        slowest = slowest.max(frame);
        longest = longest.max((frames - 2).saturating_mul(slowest).saturating_add(first + rest));
        rest -= time(link.0, last);
    }
    SimTime::from_picos(longest.saturating_add(delays))
}

impl<O: Observer> World<O> {
    /// The ports that a flow's packets pass from one host to another; `None` if there is no way.
    /// With spraying, one of the ways.
    pub fn way(&self, from: HostId, to: HostId, hash: u32) -> Option<Vec<PortId>> {
        let leaf = self.hosts[to.index()].leaf;
        let mut ports = vec![self.interface(from)];
        loop {
            let last = ports[ports.len() - 1];
            match self.port(last).to() {
                Node::Host(_) => return Some(ports),
                Node::Switch(switch) => ports.push(self.routes.route(switch, leaf, to, hash)?),
            }
        }
    }

    /// The port by which a node sends the data of a flow over the routes of this time: a sending host's interface, or
    /// what the switch chooses, also in a tenant's tree. `None` at other hosts, without a route, and where packets are
    /// sprayed. An agent of another port of the switch, whose link carried a message back to the sender, thus
    /// recognises that the flow's data does not pass its port.
    pub fn data_port(&self, at: Node, flow: FlowKey) -> Option<PortId> {
        let (from, to) = (HostId(flow.from), HostId(flow.to));
        let switch = match at {
            Node::Host(host) => return (host == from).then(|| self.interface(host)),
            Node::Switch(switch) => switch,
        };
        let leaf = self.hosts.get(to.index())?.leaf;
        if self.tags.has_trees()
            && let Some(of) = self.flows.get(flow.slot as usize)
            && let Some(next) = self.tags.next(of.address.service, switch, leaf)
        {
            return Some(next);
        }
        if self.spray.is_some() { None } else { self.routes.route(switch, leaf, to, flow.hash) }
    }

    /// The ideal completion time of a flow ([`ideal_time`]); zero if there is no way.
    pub fn ideal(&self, from: HostId, to: HostId, hash: u32, bytes: u64) -> SimTime {
        let Some(ports) = self.way(from, to, hash) else { return SimTime::ZERO };
        let link = |port: &PortId| (self.rate(*port), self.delay(*port));
        let links: Vec<_> = ports.iter().map(link).collect();
        ideal_time(&links, bytes, self.sizes.payload, self.sizes.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DELAY: SimTime = SimTime::from_micros(10);

    #[test]
    fn the_worked_example() {
        let links = [10, 1, 10].map(|gbps| (Bandwidth::from_gbps(gbps), DELAY));
        assert_eq!(ideal_time(&links, 2 * 1448, 1448, 66), SimTime::from_nanos(56_646) + SimTime::from_picos(400));
        // A small second frame cannot overtake: it catches up with the first at the last link.
        let small = ideal_time(&links, 1448 + 1, 1448, 66);
        assert_eq!(small, SimTime::from_picos(30_000_000 + 1_211_200 + 12_112_000 + 1_211_200 + 67 * 800));
    }

    proptest! {
        /// The formula against the recurrence that it solves, frame by frame and link by link.
        #[test]
        fn agrees_with_storing_and_forwarding(
            rates in proptest::collection::vec(prop::sample::select(vec![1u64, 2, 5, 10, 25, 40, 100]), 1..6),
            bytes in 1u64..40_000,
        ) {
            let links: Vec<_> = rates.iter().map(|&gbps| (Bandwidth::from_gbps(gbps), DELAY)).collect();
            let mut free = vec![0u64; links.len()];
            let mut sent = 0;
            let mut arrived = 0;
            while sent < bytes {
                let length = (bytes - sent).min(1448);
                sent += length;
                let mut at = 0;
                for (link, free) in links.iter().zip(&mut free) {
                    *free = at.max(*free) + (length + 66) * 8_000_000_000_000 / link.0.bps();
                    at = *free + link.1.picos();
                }
                arrived = at;
            }
            prop_assert_eq!(ideal_time(&links, bytes, 1448, 66).picos(), arrived);
        }
    }
}
