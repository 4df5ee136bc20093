//! The fingerprint of a policy: equal where shares and ids are equal.
//!
//! Hosts compare fingerprints before they use each other's usage reports, so it must not depend on
//! the platform, the compiler or the order of the file, and must cover names, capacities, services,
//! filters, ports of tunnels, shares, machines, caps and the weights of senders and of credits, by which a receiver's
//! share or that of a port is divided: hosts that disagree on those would divide it against the
//! policy. It leaves out content that changes neither ids nor shares: comments, addresses,
//! switches' buffers, the virtual machines of tenants, latency targets, levels, and the intervals
//! and bursts of shapers. Those decide how soon and how smoothly a host reaches its shares, and no
//! other host needs them, so they can be changed host by host while the rack continues sharing. It
//! guards against mistakes, not against attackers (authentication keeps those out), so 64 bits of
//! FNV-1a are enough.
//!
//! Approach: a canonical text, one line for each fact, fed into the hash as it is written; names
//! hold no blanks and no line ends, so no two policies have the same text.
//!
//! Source: FNV-1a, <http://www.isthe.com/chongo/tech/comp/fnv/>; the empty text hashes to the
//! offset basis 0xcbf29ce484222325, `a` to 0xaf63dc4c8601ec8c.

use crate::machine_set::MachineSet;
use crate::model::{Caps, Services, Sharing};
use crate::tunnels::Tunnels;
use std::fmt::{self, Write};
use weir_network::Network;
use weir_units::{ContentionPoint, Direction};

struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

/// The services, and the ports of tunnels whose networks their filters specify.
pub(crate) type Classes<'a> = (&'a Services, &'a Tunnels);

/// The fingerprint of the content that decides shares and ids.
pub(crate) fn of(sharing: Sharing, network: &Network, classes: Classes<'_>, caps: &Caps) -> u64 {
    let mut hash = Fnv::new();
    // The hash takes every text: there is no error to handle.
    let _ = write(&mut hash, sharing, network, classes, caps);
    hash.0
}

/// The canonical text. Rates in bit/s, weights in thousandths.
fn write(out: &mut impl Write, sharing: Sharing, network: &Network, classes: Classes<'_>, caps: &Caps) -> fmt::Result {
    let (services, tunnels) = classes;
    writeln!(out, "weir 1 {}", sharing.name())?;
    // The default has no line, so that policies without the key keep their fingerprints.
    if *tunnels != Tunnels::default() {
        for (kind, ports) in [("vxlan", tunnels.vxlan()), ("geneve", tunnels.geneve())] {
            for port in ports {
                writeln!(out, "tunnel {kind} {port}")?;
            }
        }
    }
    for point in ContentionPoint::ALL {
        writeln!(out, "cap {} {} {}", point, caps[point].tx.bps(), caps[point].rx.bps())?;
    }
    for rack in network.racks() {
        writeln!(out, "rack {} {} {}", rack.name(), rack.uplink().tx.bps(), rack.uplink().rx.bps())?;
        for id in rack.machines() {
            let machine = network.machine(*id);
            writeln!(out, "machine {} {} {}", machine.name(), machine.nic().tx.bps(), machine.nic().rx.bps())?;
        }
    }
    for service in services.all() {
        writeln!(out, "service {} {} {}", service.path(), service.sharing().name(), service.order())?;
        for filter in service.matches() {
            writeln!(out, "match {}", filter.canonical_text())?;
        }
        for point in ContentionPoint::ALL {
            for direction in Direction::ALL {
                let share = service.share(point, direction);
                let weight = share.weight.thousandths();
                writeln!(out, "share {point} {direction} {} {} {weight}", share.min.bps(), share.max.bps())?;
            }
        }
        for range in service.machines().into_iter().flat_map(MachineSet::ranges) {
            writeln!(out, "machines {} {}", range.start, range.end)?;
        }
        // Sender and receiver of a flow use the same weight.
        if let Some(weight) = service.credits() {
            writeln!(out, "credits {}", weight.thousandths())?;
        }
        for (machine, weight) in service.senders() {
            writeln!(out, "sender {} {}", network.machine(*machine).name(), weight.thousandths())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_fnv_1a() {
        let hash = |text: &str| {
            let mut hash = Fnv::new();
            hash.write_str(text).map(|()| hash.0)
        };
        assert_eq!(hash(""), Ok(0xcbf2_9ce4_8422_2325));
        assert_eq!(hash("a"), Ok(0xaf63_dc4c_8601_ec8c));
        assert_eq!(hash("foobar"), Ok(0x8594_4171_f739_67e8));
    }
}
