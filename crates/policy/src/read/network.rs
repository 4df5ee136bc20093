//! Racks and machines, read in canonical order with their positions for admission control.
//!
//! Worked example: racks `b: [m10, m9]` and `a: ["m[1-2]"]` give the machines `m1`, `m2` (rack
//! `a`), `m9`, `m10` (rack `b`) with the ids 0 to 3. Ranges are counted before they are expanded,
//! so `m[1-900000000]` costs nothing but its message.

use super::rates;
use crate::filter_syntax as syntax;
use crate::language::{MAX_BUFFER, MAX_MACHINES, MIN_BUFFER};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use weir_document::{Field, Key, Node, Problems, Span, Suggester, scalar};
use weir_network::names::{NameRange, natural_order};
use weir_network::{Machine, Network, PortBuffers, Rack};
use weir_units::{Bandwidth, Bytes, Direction, MachineId, PerDirection, RackId};

/// A network with its positions.
pub(crate) struct ReadNetwork {
    pub(crate) network: Network,
    /// The speed of each machine; [`Field::Bad`] where it was reported.
    pub(crate) nics: Vec<PerDirection<Field<Bandwidth>>>,
    /// The speed of each rack's uplink.
    pub(crate) uplinks: Vec<PerDirection<Field<Bandwidth>>>,
    /// Whether every machine that the file names was read: only then is a missing one a mistake
    /// elsewhere.
    pub(crate) complete: bool,
}

/// A machine before it has an id.
struct Found {
    name: String,
    rack: usize,
    place: Span,
}

/// Reads the network; its sound part if it is missing or wrong.
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
    let mut members = vec![Vec::new(); racks.len()];
    let mut all = Vec::with_capacity(found.len());
    for (i, machine) in found.into_iter().enumerate() {
        members[machine.rack].push(MachineId(i as u32));
        let rack = RackId(machine.rack as u32);
        all.push(Machine::new(machine.name, rack, speed(&nics[i]), addresses[i]));
    }
    let network_racks = racks.iter().zip(&uplinks).zip(members);
    let network_racks = network_racks
        .map(|(((key, _), uplink), members)| Rack::new(key.text.clone(), speed(uplink), members))
        .collect();
    let port_buffers = port_buffers(node.and_then(|node| node.get("switches")), problems);
    ReadNetwork { network: Network::new(network_racks, all, port_buffers), nics, uplinks, complete }
}

/// Reads `switches: { buffer: … }`: one size for all ports, or one for each contention point.
fn port_buffers(switches: Option<&Node>, problems: &mut Problems) -> PortBuffers {
    let Some(node) = switches.and_then(|node| node.get("buffer")) else { return PortBuffers::default() };
    let mut checked = |field: Field<Bytes>| {
        if let Field::Value(size, span) = field
            && !(MIN_BUFFER..=MAX_BUFFER).contains(&size)
        {
            let cause = format!("the buffer {size} of a port is not between {} B and {MAX_BUFFER}", MIN_BUFFER.get());
            problems.error(span, cause, "write the bytes that one full port can queue, for example `256kB`");
        }
        field.value()
    };
    if node.entries().is_empty() {
        let both = checked(node.read(scalar::size));
        return PortBuffers { machine: both, rack: both };
    }
    let mut of = |key: &str| checked(node.field(key, scalar::size));
    PortBuffers { machine: of("machine"), rack: of("rack") }
}

/// All machines of all racks, each once, and whether these are all written ones.
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
                (
                    format!("machine `{name}`{more} is listed twice in rack `{}`", key.text),
                    "keep one of them".to_owned(),
                )
            } else {
                let other = &racks[first.rack].0.text;
                (
                    format!("machine `{name}`{more} is listed in two racks, `{other}` and `{}`", key.text),
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

/// Reads `network.machines` into `nics` and `addresses`, which are indexed like `found`.
fn overrides(
    node: &Node,
    found: &[Found],
    nics: &mut [PerDirection<Field<Bandwidth>>],
    addresses: &mut [Option<IpAddr>],
    problems: &mut Problems,
) {
    let mut overrides = Overrides::new(found);
    // Names are resolved for one range after the other; all ranges together may not name more.
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
        overrides.speed(key, &range, special.get("nic"), nics, problems);
        if let Some(written) = special.get("address") {
            overrides.address(key, &range, written, addresses, problems);
        }
    }
}

/// The machines of a network by name, and the positions of what was written for them so far.
struct Overrides<'a> {
    found: &'a [Found],
    by_name: HashMap<&'a str, usize>,
    suggester: Suggester,
    speeds: HashMap<usize, Span>,
    addresses: BTreeMap<IpAddr, (usize, Span)>,
}

impl<'a> Overrides<'a> {
    fn new(found: &'a [Found]) -> Self {
        Self {
            found,
            by_name: found.iter().enumerate().map(|(i, machine)| (machine.name.as_str(), i)).collect(),
            suggester: Suggester::default(),
            speeds: HashMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// The speed of a range's machines; each machine may have one. Reports the first unknown name.
    fn speed(
        &mut self,
        key: &Key,
        range: &NameRange,
        written: Option<&Node>,
        nics: &mut [PerDirection<Field<Bandwidth>>],
        problems: &mut Problems,
    ) {
        let mut unknown = false;
        for name in range.names() {
            let Some(&machine) = self.by_name.get(name.as_str()) else {
                if !std::mem::replace(&mut unknown, true) {
                    let known = self.found.iter().map(|machine| machine.name.as_str());
                    let hint = self.suggester.hint(&name, known, "name machines of a rack");
                    problems.error(key.span, format!("there is no machine `{name}` in any rack"), hint);
                }
                continue;
            };
            let Some(written) = written else { continue };
            if let Some(first) = self.speeds.insert(machine, written.span) {
                problems.error_with(
                    written.span,
                    format!("the speed of machine `{name}` is written twice"),
                    "keep one of them",
                    (first, "first here"),
                );
                break;
            }
            nics[machine] = rates(Some(written));
        }
    }

    /// The address of one machine, which no other machine may have.
    fn address(
        &mut self,
        key: &Key,
        range: &NameRange,
        written: &Node,
        addresses: &mut [Option<IpAddr>],
        problems: &mut Problems,
    ) {
        let Field::Value(address, span) = written.read(syntax::ip) else { return };
        if range.count() > 1 {
            problems.error(
                span,
                format!("one address for the {} machines of `{}`", range.count(), key.text),
                "give each machine its own, for example `m1: { address: 10.0.0.1 }`",
            );
            return;
        }
        let named = range.names().next().and_then(|name| self.by_name.get(name.as_str()).copied());
        let Some(machine) = named else { return };
        let name = &self.found[machine].name;
        if let Some((other, first)) = self.addresses.insert(address, (machine, span)) {
            problems.error_with(
                span,
                format!("the address {address} is given to two machines, `{}` and `{name}`", self.found[other].name),
                "give each machine its own",
                (first, "first here"),
            );
        }
        if addresses[machine].replace(address).is_some() {
            problems.error(span, format!("the address of machine `{name}` is written twice"), "keep one of them");
        }
    }
}
