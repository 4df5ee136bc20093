//! The buffers that a bound needs at the ports of switches, beside those that the network states.
//!
//! Problem: the burst bound counts queues that lose nothing, so a port with a smaller buffer than
//! its queue makes the bound void. Approach: at each contention point whose queue is a switch's
//! port, compare the queue's most bytes, σ + Z at that port's capacity, to the stated buffer.
//!
//! | point | direction | queue |
//! |---|---|---|
//! | machine | transmit | in the host: a full interface throttles its senders and loses nothing |
//! | machine | receive | the port of the rack's switch towards the machine |
//! | rack | transmit, receive | the port of the uplink, at the rack's end or at the fabric's |
//! | fabric | both | none of its own: the ports of the uplinks |
//!
//! σ grows with the capacity, so the fastest port of a kind decides. Several links of an uplink
//! count as one port, which is safe: their buffers together are larger than each.
//!
//! Worked example: 15 intervals of 200 µs at 1 Gb/s are σ = 375 kB. With messages of 20 kB each port
//! needs 395 kB.
//!
//! Source: [`crate::burst_bound`] (Cruz's bound on the backlog, with the message).

use super::points::Point;
use crate::{BurstBound, LatencyError};
use std::fmt;
use weir_network::{Network, PortBuffers};
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction};

/// The buffer that a bound needs at the ports of one contention point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortNeed {
    /// The kind of point.
    pub point: ContentionPoint,
    /// The direction, from the viewpoint of the machine or the rack.
    pub direction: Direction,
    /// The capacity of the fastest of these ports.
    pub capacity: Bandwidth,
    /// σ at this capacity.
    pub sigma: Bytes,
    /// σ and the message: the most bytes in the queue.
    pub needed: Bytes,
    /// The buffer that the network states.
    pub stated: Option<Bytes>,
}

impl PortNeed {
    /// Whether the stated buffer holds the queue.
    pub fn is_met(&self) -> bool {
        self.stated.is_some_and(|stated| stated >= self.needed)
    }
}

impl fmt::Display for PortNeed {
    /// The clause of a verdict for a port whose buffer does not hold the queue.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, point, .. } = self;
        write!(f, "the bound needs {needed} of buffer at the {}; the network states ", super::points::name(*point))?;
        match self.stated {
            Some(stated) => write!(f, "{stated}"),
            None => f.write_str("none"),
        }
    }
}

/// The needs of all points of `points` that are ports of switches. `capacity` replaces that of the
/// ports.
///
/// # Errors
/// Those of [`BurstBound::buffer`].
pub fn port_needs(
    network: &Network,
    points: &[Point],
    bound: &BurstBound,
    capacity: Option<Bandwidth>,
    stated: PortBuffers,
) -> Result<Vec<PortNeed>, LatencyError> {
    let mut needs = Vec::new();
    for at in points {
        let (fastest, stated) = match (at.point, at.direction) {
            (ContentionPoint::Machine, Direction::Rx) => {
                (network.machines().iter().map(|machine| machine.nic().rx).max(), stated.machine)
            }
            (ContentionPoint::Rack, direction) => {
                (network.racks().iter().map(|rack| rack.uplink()[direction]).max(), stated.rack)
            }
            (ContentionPoint::Machine, Direction::Tx) | (ContentionPoint::Fabric, _) => continue,
        };
        let Some(capacity) = capacity.or(fastest) else { continue };
        needs.push(PortNeed {
            point: at.point,
            direction: at.direction,
            capacity,
            sigma: bound.burst.size(capacity),
            needed: bound.buffer(capacity)?,
            stated,
        });
    }
    Ok(needs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Burst;
    use crate::plan::points;
    use weir_policy::Policy;
    use weir_units::Duration;

    fn needs(switches: &str, capacity: Option<Bandwidth>) -> Vec<(String, u64, bool)> {
        let text = format!(
            "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: {{ a: {{ uplink: 4Gb/s, machines: [m1] }}, b: {{ uplink: {{ tx: \
             1Gb/s, rx: 2Gb/s }}, machines: [m2] }} }}\n{switches}services: {{ s: {{ match: [ {{ port: 1 }} ] }} }}\n"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("sound");
        let burst = Burst::from_convergence(Duration::from_millis(3));
        let bound = BurstBound { burst, message: Bytes::new(20_000) };
        let points = points(&policy, policy.caps());
        let found = port_needs(policy.network(), &points, &bound, capacity, policy.network().port_buffers());
        let row =
            |need: &PortNeed| (format!("{} {}", need.point, need.direction.name()), need.needed.get(), need.is_met());
        found.expect("finite").iter().map(row).collect()
    }

    /// 3 ms at 1 Gb/s are 375 kB, at the fastest uplink of 4 Gb/s 1.5 MB; and 20 kB each.
    #[test]
    fn fastest_port_of_each_kind_decides() {
        let rows = |machine, rack| {
            [("machine rx", 395_000, machine), ("rack tx", 1_520_000, rack), ("rack rx", 1_520_000, rack)]
                .map(|(at, needed, met)| (at.to_owned(), needed, met))
        };
        assert_eq!(needs("", None), rows(false, false));
        assert_eq!(needs("  switches: { buffer: 395kB }\n", None), rows(true, false));
        assert_eq!(needs("  switches: { buffer: 394999B }\n", None), rows(false, false));
        assert_eq!(needs("  switches: { buffer: { rack: 1520kB } }\n", None), rows(false, true));
        let given = needs("  switches: { buffer: 395kB }\n", Some(Bandwidth::from_gbps(1)));
        assert!(given.iter().all(|(_, needed, met)| (*needed, *met) == (395_000, true)), "{given:?}");
    }
}
