//! [`Topology`]: which interfaces are guests, and the hardware addresses of their frames on the uplink.
//!
//! Problem: a bridge's forwarding database has addresses by VLAN of the bridge, and the program has frames of the
//! uplink before they enter any bridge. Approach: each bridge with guests has entrances, its ports on the uplink's
//! side, and an entrance translates VLANs. The uplink's side is the uplink itself, a bond that it is part of, and their
//! VLANs.
//!
//! | port on the uplink's side | bridge | frame of an address in VLAN w of the bridge |
//! |---|---|---|
//! | uplink | without VLANs | any tag, or none |
//! | uplink | with VLANs | tag w, or none if w is the port's untagged VLAN |
//! | VLAN v of the uplink | without VLANs | tag v |
//! | VLAN v of the uplink | with VLANs | tag v if w is the port's untagged VLAN |
//!
//! Packets that the host routes to a bridge have the bridge in their key, and the VLAN of the bridge itself.
//!
//! Worked example: `eth0` is the uplink, `eth0.10` and `tap3` are ports of `br10`. The entry `52:54:00:00:00:03 dev
//! tap3 master br10` is for frames with that address and the tag 10.

use super::links::{Kind, Link};
use super::neighbours::Neighbour;
use std::collections::BTreeMap;
use weir_datapath::abi::{ANY_VLAN, GuestAddress, GuestPaths};
use weir_policy::PodFacts;

/// Frames of any tag.
const ANY: u16 = ANY_VLAN as u16;

/// A port of a bridge on the uplink's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entrance {
    /// The tag of its frames on the uplink; `None` for the uplink itself.
    tag: Option<u16>,
    /// With a bridge that distinguishes VLANs: that of frames without a further tag.
    untagged: Option<u16>,
}

/// A guest's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestLink {
    pub(super) name: String,
    /// The pod behind it, if there is a record of one.
    pub(super) pod: Option<PodFacts>,
    bridge: Option<u32>,
}

/// The guests of a host, seen from an uplink.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Topology {
    /// By the index of their interface.
    pub(super) guests: BTreeMap<u32, GuestLink>,
    /// Interfaces that are neither guests nor the uplink's own.
    pub(super) others: Vec<String>,
    /// By bridge, of those that guests are in: whether it distinguishes VLANs, and its own untagged one.
    bridges: BTreeMap<u32, (bool, Option<u16>)>,
    entrances: BTreeMap<u32, Vec<Entrance>>,
    /// By bridge, a tunnel that is a port of it.
    tunnels: BTreeMap<u32, String>,
    /// Addresses of this host other than the uplink's.
    pub(super) own: Vec<[u8; 6]>,
}

impl Topology {
    /// `untagged`: by bridge and by port, the VLAN of frames without a tag.
    pub(super) fn new(uplink: u32, links: &[Link], untagged: &BTreeMap<u32, u16>) -> Self {
        let by_index: BTreeMap<u32, &Link> = links.iter().map(|link| (link.index, link)).collect();
        let bridge_of = |link: &Link| {
            link.master.filter(|master| by_index.get(master).is_some_and(|of| matches!(of.kind, Kind::Bridge { .. })))
        };
        let own = own_side(uplink, &by_index);
        let mut topology = Self::default();
        for link in links.iter().filter(|link| !own.contains_key(&link.index)) {
            match link.kind {
                Kind::Guest => {
                    let (name, bridge) = (link.name.clone(), bridge_of(link));
                    let guest = GuestLink { name, pod: None, bridge };
                    topology.guests.insert(link.index, guest);
                }
                _ => topology.others.push(link.name.clone()),
            }
            if let (Kind::Tunnel, Some(bridge)) = (link.kind, bridge_of(link)) {
                topology.tunnels.insert(bridge, link.name.clone());
            }
        }
        for bridge in topology.guests.values().filter_map(|guest| guest.bridge) {
            let vlans = by_index.get(&bridge).is_some_and(|link| link.kind == Kind::Bridge { vlans: true });
            topology.bridges.insert(bridge, (vlans, untagged.get(&bridge).copied()));
        }
        for (index, tag) in &own {
            let Some(link) = by_index.get(index) else { continue };
            let bridge = bridge_of(link);
            if let Some(bridge) = bridge.filter(|bridge| topology.bridges.contains_key(bridge)) {
                let entrance = Entrance { tag: *tag, untagged: untagged.get(index).copied() };
                topology.entrances.entry(bridge).or_default().push(entrance);
            }
            let addresses = [Some(*link), bridge.and_then(|bridge| by_index.get(&bridge).copied())];
            topology.own.extend(addresses.into_iter().flatten().filter_map(|link| link.hardware));
        }
        topology
    }

    /// The addresses of frames that are forwarded to a neighbour.
    pub(super) fn frames_to(&self, neighbour: &Neighbour) -> Vec<GuestAddress> {
        let Some((has_vlans, own_vlan)) = self.bridges.get(&neighbour.bridge) else { return Vec::new() };
        let frame = |vlan, bridge| GuestAddress { hardware: neighbour.hardware, vlan, bridge };
        let is_untagged = |untagged: Option<u16>| untagged == Some(neighbour.vlan);
        let mut frames = Vec::new();
        for entrance in self.entrances.get(&neighbour.bridge).into_iter().flatten() {
            match (entrance.tag, has_vlans) {
                (tag, false) => frames.push(frame(tag.unwrap_or(ANY), 0)),
                (None, true) => {
                    frames.push(frame(neighbour.vlan, 0));
                    frames.extend(is_untagged(entrance.untagged).then(|| frame(0, 0)));
                }
                (Some(tag), true) => frames.extend(is_untagged(entrance.untagged).then(|| frame(tag, 0))),
            }
        }
        if !has_vlans || is_untagged(*own_vlan) {
            frames.push(frame(ANY, neighbour.bridge));
        }
        frames
    }

    /// The guests in no bridge with the uplink, by index: the host routes their packets.
    pub(super) fn routed(&self) -> BTreeMap<u32, String> {
        let guests = self.guests.iter().filter(|(_, guest)| !self.is_bridged(guest));
        guests.map(|(index, guest)| (*index, guest.name.clone())).collect()
    }

    /// The interfaces whose packets get a number, by index: while a guest is found by it, all but those of guests that
    /// are found by their interface. A guest of no service could otherwise set the number of another one in its own
    /// namespace. `has_row` is whether a guest is of a service, by index.
    pub(super) fn numbered(&self, has_row: impl Fn(u32) -> bool) -> BTreeMap<u32, String> {
        if !self.guests.iter().any(|(index, guest)| has_row(*index) && !self.is_bridged(guest)) {
            return BTreeMap::new();
        }
        let guests = self.guests.iter().filter(|(index, guest)| !has_row(**index) || !self.is_bridged(guest));
        guests.map(|(index, guest)| (*index, guest.name.clone())).collect()
    }

    /// A guest that only a tunnel of this host connects with the uplink, among those of services, and the tunnel: the
    /// program finds no guest of a packet that arrives in a tunnel.
    pub(super) fn tunnelled(&self, has_row: impl Fn(u32) -> bool) -> Option<(&str, &str)> {
        let guests = self.guests.iter().filter(|(index, guest)| has_row(**index) && !self.is_bridged(guest));
        let mut behind = guests.filter_map(|(_, guest)| Some((&*guest.name, &**self.tunnels.get(&guest.bridge?)?)));
        behind.next()
    }

    fn is_bridged(&self, guest: &GuestLink) -> bool {
        guest.bridge.is_some_and(|bridge| self.entrances.contains_key(&bridge))
    }

    /// The ways to guests that exist.
    pub(super) fn paths(&self) -> GuestPaths {
        let bridged = self.guests.values().filter(|guest| self.is_bridged(guest)).count();
        GuestPaths { bridged: u32::from(bridged > 0), routed: u32::from(bridged < self.guests.len()) }
    }
}

/// The uplink, bonds that it is part of, and their VLANs with their tags, by index.
fn own_side(uplink: u32, links: &BTreeMap<u32, &Link>) -> BTreeMap<u32, Option<u16>> {
    let mut own = BTreeMap::from([(uplink, None)]);
    let master = |index: u32| links.get(&index).and_then(|link| link.master);
    if let Some(bond) = master(uplink).filter(|bond| links.get(bond).is_some_and(|link| link.kind == Kind::Bond)) {
        own.insert(bond, None);
    }
    let vlans = links.values().filter_map(|link| match link.kind {
        Kind::Vlan { id, of } if own.contains_key(&of) => Some((link.index, Some(id))),
        _ => None,
    });
    let vlans: Vec<_> = vlans.collect();
    own.extend(vlans);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, kind: Kind, master: u32) -> Link {
        let hardware = Some([2, 0, 0, 0, 0, index as u8]);
        Link { index, name: format!("i{index}"), kind, master: (master != 0).then_some(master), hardware }
    }

    const fn bridge(vlans: bool) -> Kind {
        Kind::Bridge { vlans }
    }

    fn frames(links: &[Link], untagged: &[(u32, u16)], bridge: u32, vlan: u16) -> Vec<(u16, u32)> {
        let topology = Topology::new(1, links, &untagged.iter().copied().collect());
        let frames = topology.frames_to(&Neighbour { bridge, vlan, hardware: [2; 6] });
        frames.into_iter().map(|frame| (frame.vlan, frame.bridge)).collect()
    }

    #[test]
    fn frames_have_the_tags_by_which_they_enter_the_bridge() {
        let direct = |vlans| [link(1, Kind::Other, 5), link(2, Kind::Guest, 5), link(5, bridge(vlans), 0)];
        assert_eq!(frames(&direct(false), &[], 5, 0), [(ANY, 0), (ANY, 5)]);
        assert_eq!(frames(&direct(true), &[(1, 10), (5, 1)], 5, 10), [(10, 0), (0, 0)]);
        assert_eq!(frames(&direct(true), &[(1, 10), (5, 1)], 5, 1), [(1, 0), (ANY, 5)]);
        let tagged = |vlans| {
            let vlan = Kind::Vlan { id: 7, of: 1 };
            [link(1, Kind::Other, 0), link(3, vlan, 5), link(2, Kind::Guest, 5), link(5, bridge(vlans), 0)]
        };
        assert_eq!(frames(&tagged(false), &[], 5, 0), [(7, 0), (ANY, 5)]);
        assert_eq!(frames(&tagged(true), &[(3, 1), (5, 9)], 5, 1), [(7, 0)]);
        assert_eq!(frames(&tagged(true), &[(3, 1), (5, 9)], 5, 2), []);
        // A bridge that the uplink is not in, and one without guests.
        let routed = [link(1, Kind::Other, 0), link(2, Kind::Guest, 5), link(5, bridge(false), 0)];
        assert_eq!(frames(&routed, &[], 5, 0), [(ANY, 5)]);
        assert_eq!(frames(&routed, &[], 6, 0), []);
    }

    #[test]
    fn guests_behind_a_tunnel_are_reported_unless_the_uplink_is_in_their_bridge() {
        let links = |master| {
            let (uplink, tunnel) = (link(1, Kind::Other, master), link(3, Kind::Tunnel, 5));
            [uplink, tunnel, link(2, Kind::Guest, 5), link(4, Kind::Guest, 0), link(5, bridge(false), 0)]
        };
        let of = |master| Topology::new(1, &links(master), &BTreeMap::new());
        assert_eq!(of(0).tunnelled(|_| true), Some(("i2", "i3")));
        assert_eq!(of(0).tunnelled(|index| index == 4), None);
        assert_eq!(of(5).tunnelled(|_| true), None);
    }

    #[test]
    fn uplinks_are_no_guests_and_bonds_are_theirs() {
        let bonded = [
            link(1, Kind::Guest, 3),
            link(3, Kind::Bond, 5),
            link(2, Kind::Guest, 5),
            link(4, Kind::Guest, 3),
            link(5, bridge(false), 0),
        ];
        let topology = Topology::new(1, &bonded, &BTreeMap::new());
        assert_eq!(topology.guests.keys().copied().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(topology.others, ["i5"]);
        assert_eq!(topology.paths(), GuestPaths { bridged: 1, routed: 1 });
        assert_eq!(topology.routed(), BTreeMap::from([(4, "i4".to_owned())]));
        assert_eq!(frames(&bonded, &[], 5, 0), [(ANY, 0), (ANY, 5)]);
        assert!(topology.own.contains(&[2, 0, 0, 0, 0, 5]), "the bridge's own address");
        assert_eq!(Topology::new(1, &bonded[..1], &BTreeMap::new()).paths(), GuestPaths::default());
    }
}
