//! Racks and machines, read in canonical order with the places that admission control speaks about.
//!
//! Worked example: racks `b: [m10, m9]` and `a: ["m[1-2]"]` give the machines `m1`, `m2` (rack `a`), `m9`,
//! `m10` (rack `b`) with the ids 0 to 3. Ranges are counted before they are expanded, so
//! `m[1-900000000]` costs nothing but its message.

use super::rates;
use crate::filter_syntax as syntax;
use crate::language::MAX_MACHINES;
use crate::model::{Machine, Network, Rack};
use crate::names::{NameRange, natural_order};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use weir_document::{Field, Key, Node, Problems, Span, Suggester};
use weir_units::{Bandwidth, Direction, MachineId, PerDirection, RackId};

/// A network with the places it was written at.
pub(crate) struct ReadNetwork {
    pub(crate) network: Network,
    /// The speed of each machine; [`Field::Bad`] where it was reported.
    pub(crate) nics: Vec<PerDirection<Field<Bandwidth>>>,
    /// The speed of each rack's uplink.
    pub(crate) uplinks: Vec<PerDirection<Field<Bandwidth>>>,
    /// Whether every machine that the file names was read: only then is one that is missing a mistake elsewhere.
    pub(crate) complete: bool,
}

/// A machine before it has an id.
struct Found {
    name: String,
    rack: usize,
    place: Span,
}

/// Reads the network; where it is missing or wrong, what is sound of it.
pub(crate) fn read(node: Option<&Node>, problems: &mut Problems) -> ReadNetwork {
    let mut racks: Vec<&(Key, Node)> =
        node.and_then(|node| node.get("racks")).map_or(&[][..], Node::entries).iter().collect();
    racks.sort_by(|(a, _), (b, _)| natural_order(&a.text, &b.text));
    let (mut found, complete) = machines(&racks, problems);
    found.sort_by(|a, b| a.rack.cmp(&b.rack).then_with(|| natural_order(&a.name, &b.name)));

    let default = rates(node.and_then(|node| node.get("nic")));
    let mut nics = vec![PerDirection::both(Field::Absent); found.len()];
    let mut addresses = vec![None; found.len()];
    if let Some(special) = node.and_then(|node| node.get("machines")) {
        overrides(special, &found, &mut nics, &mut addresses, problems);
    }
    let mut without = Vec::new();
    for (machine, nic) in nics.iter_mut().enumerate() {
        for direction in Direction::ALL {
            nic[direction] = nic[direction].or(default[direction]);
        }
        if matches!(nic.tx, Field::Absent) {
            without.push(machine);
        }
    }
    if let Some(first) = without.first() {
        let more = match without.len() {
            1 => String::new(),
            n => format!(" (nor have {} more)", n - 1),
        };
        problems.error(
            found[*first].place,
            format!("machine `{}` has no speed{more}", found[*first].name),
            "write `nic: 10Gb/s` under `network`, or under the machine in `network.machines`",
        );
    }

    let uplinks: Vec<_> = racks.iter().map(|(_, node)| rates(node.get("uplink"))).collect();
    let speed = |fields: &PerDirection<Field<Bandwidth>>| PerDirection {
        tx: fields.tx.value().unwrap_or_default(),
        rx: fields.rx.value().unwrap_or_default(),
    };
    let mut network_racks: Vec<_> = racks
        .iter()
        .zip(&uplinks)
        .map(|((key, _), uplink)| Rack { name: key.text.clone(), uplink: speed(uplink), machines: Vec::new() })
        .collect();
    let mut all = Vec::with_capacity(found.len());
    for (i, machine) in found.into_iter().enumerate() {
        network_racks[machine.rack].machines.push(MachineId(i as u32));
        let rack = RackId(machine.rack as u32);
        all.push(Machine { name: machine.name, rack, nic: speed(&nics[i]), address: addresses[i] });
    }
    ReadNetwork { network: Network::new(network_racks, all), nics, uplinks, complete }
}

/// All machines of all racks, each once, and whether these are all that are written.
fn machines(racks: &[&(Key, Node)], problems: &mut Problems) -> (Vec<Found>, bool) {
    let mut complete = !racks.is_empty();
    let mut found: Vec<Found> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut total: u64 = 0;
    for (rack, (key, node)) in racks.iter().enumerate() {
        complete &= node.get("machines").is_some_and(|list| !list.items().is_empty());
        for item in node.get("machines").map_or(&[][..], Node::items) {
            let Some(Ok(range)) = item.scalar().map(NameRange::parse) else {
                complete = false;
                continue;
            };
            total = total.saturating_add(range.count());
            if total > MAX_MACHINES as u64 {
                problems.error(
                    item.span,
                    format!("the network has more than {MAX_MACHINES} machines"),
                    "check the ends of this range",
                );
                return (found, false);
            }
            let mut twice: Option<(String, usize)> = None;
            let mut more = 0;
            for name in range.names() {
                if let Some(first) = by_name.get(&name) {
                    more += usize::from(twice.is_some());
                    twice.get_or_insert((name, *first));
                    continue;
                }
                by_name.insert(name.clone(), found.len());
                found.push(Found { name, rack, place: item.span });
            }
            let Some((name, first)) = twice else { continue };
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let first = &found[first];
            let (cause, hint) = if first.rack == rack {
                (format!("machine `{name}`{more} stands twice in rack `{}`", key.text), "keep one of them".to_owned())
            } else {
                let other = &racks[first.rack].0.text;
                (
                    format!("machine `{name}`{more} stands in two racks, `{other}` and `{}`", key.text),
                    format!(
                        "remove it from one of them; machines are named once for all racks, for example `{}-{name}`",
                        key.text
                    ),
                )
            };
            problems.error_with(item.span, cause, hint, (first.place, "first here"));
        }
    }
    (found, complete)
}

/// Reads `network.machines` into `nics` and `addresses`, which have the places of `found`.
fn overrides(
    node: &Node,
    found: &[Found],
    nics: &mut [PerDirection<Field<Bandwidth>>],
    addresses: &mut [Option<IpAddr>],
    problems: &mut Problems,
) {
    let by_name: HashMap<&str, usize> =
        found.iter().enumerate().map(|(i, machine)| (machine.name.as_str(), i)).collect();
    let mut suggester = Suggester::default();
    let mut nic_places: HashMap<usize, Span> = HashMap::new();
    let mut taken: BTreeMap<IpAddr, (usize, Span)> = BTreeMap::new();
    // Names are looked up for one range after the other; all ranges together may not name more.
    let mut left = 10 * MAX_MACHINES as u64;
    for (key, special) in node.entries() {
        let Ok(range) = NameRange::parse(&key.text) else { continue };
        if range.count() > left {
            problems.error(
                key.span,
                format!("`{}` names more machines than a network can have", key.text),
                "check the ends of this range",
            );
            return;
        }
        left -= range.count();
        let mut unknown = false;
        for name in range.names() {
            let Some(&machine) = by_name.get(name.as_str()) else {
                if !std::mem::replace(&mut unknown, true) {
                    let hint = suggester.hint(
                        &name,
                        found.iter().map(|machine| machine.name.as_str()),
                        "name machines that stand in a rack",
                    );
                    problems.error(key.span, format!("there is no machine `{name}` in any rack"), hint);
                }
                continue;
            };
            let nic = rates(special.get("nic"));
            if let Some(written) = special.get("nic") {
                if let Some(first) = nic_places.insert(machine, written.span) {
                    problems.error_with(
                        written.span,
                        format!("the speed of machine `{name}` is written twice"),
                        "keep one of them",
                        (first, "first here"),
                    );
                    break;
                }
                nics[machine] = nic;
            }
        }
        let Some(written) = special.get("address") else { continue };
        let Field::Value(address, span) = written.read(syntax::ip) else { continue };
        if range.count() > 1 {
            problems.error(
                span,
                format!("one address for the {} machines of `{}`", range.count(), key.text),
                "give each machine its own, for example `m1: { address: 10.0.0.1 }`",
            );
            continue;
        }
        let Some(&machine) = range.names().next().and_then(|name| by_name.get(name.as_str())) else { continue };
        if let Some((other, place)) = taken.insert(address, (machine, span)) {
            problems.error_with(
                span,
                format!(
                    "the address {address} is given to two machines, `{}` and `{}`",
                    found[other].name, found[machine].name
                ),
                "give each machine its own",
                (place, "first here"),
            );
        }
        if addresses[machine].replace(address).is_some() {
            problems.error(
                span,
                format!("the address of machine `{}` is written twice", found[machine].name),
                "keep one of them",
            );
        }
    }
}
