//! Racks and machines with the positions of their speeds; properties of single machines.
//!
//! Worked example: racks `b: [m10, m9]` and `a: ["m[1-2]"]` give the machines `m1`, `m2` (rack
//! `a`), `m9`, `m10` (rack `b`) with the ids 0 to 3. Ranges are counted before they are expanded,
//! so `m[1-900000000]` costs nothing but its message.

use super::queue::{can_be_simulated, links_have};
use super::{NetworkReader, ReadNetwork, rates};
use crate::graph::Packets;
use crate::language::{
    DSCP_MAP_KEYWORDS, MAX_BUFFER, MAX_MACHINES, MAX_MTU, MAX_PORT_QUEUES, MAX_SLOTS, MAX_SPINES_OF_RACKS, MIN_BUFFER,
    MIN_MTU, SCHEDULER_KEYWORDS, YES_NO, ip,
};
use crate::names::{NameRange, natural_order};
use crate::network::{Machine, Network, PortBuffers, Rack, Wiring};
use crate::switches::{COMMON_QUEUES, Map, Offer, Scheduler};
use crate::topology::Links;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use weir_document::{Field, Key, Node, Problems, Span, Suggester, quote, scalar};
use weir_units::{Bandwidth, Bytes, Direction, MachineId, PerDirection, RackId};

/// A machine before it has an id.
pub(super) struct MachineDraft {
    pub(super) name: String,
    pub(super) rack: usize,
    pub(super) place: Span,
}

impl MachineDraft {
    pub(super) fn new(name: &str, rack: usize, place: Span) -> Self {
        Self { name: name.to_owned(), rack, place }
    }
}

impl NetworkReader<'_> {
    /// Racks and machines; their sound part if something is missing or wrong.
    pub(super) fn racks(&mut self, node: &Node) -> ReadNetwork {
        let problems = &mut *self.problems;
        let mut racks: Vec<&(Key, Node)> = node.get("racks").map_or(&[][..], Node::entries).iter().collect();
        racks.sort_by(|(a, _), (b, _)| natural_order(&a.text, &b.text));
        let (mut found, complete) = machines(&racks, problems);
        found.sort_by(|a, b| a.rack.cmp(&b.rack).then_with(|| natural_order(&a.name, &b.name)));

        let mut properties = properties(node.get("machines"), &found, problems);
        let default = rates(node.get("nic"));
        let mut without = Vec::new();
        for (machine, nic) in properties.nics.iter_mut().enumerate() {
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
        let network_racks = racks.iter().zip(&uplinks).map(|((key, _), uplink)| (key.text.clone(), speed(uplink)));
        let port_buffers = port_buffers(node.get("switches"), problems);
        let (offer, map) = queues(node.get("switches"), problems);
        let slots = properties.slots(node);
        let network = network(network_racks.collect(), found, &properties, port_buffers);
        let forwarders = forwarders(node.get("switches"));
        let network = network.with_offer(offer, map).with_forwarders(forwarders).with_slots(&slots);
        let wiring = Wiring::Racks(self.links_of_racks(node.get("links")));
        ReadNetwork { network, wiring, nics: properties.nics, uplinks, complete }
    }

    /// The links and ports between racks.
    pub fn links_of_racks(&mut self, node: Option<&Node>) -> Links {
        let mut links = Links::default();
        let Some(node) = node else { return links };
        if let Field::Value(delay, _) = self.delay(node) {
            links.delay = delay;
        }
        let (buffer, mtu) = (node.field("buffer", scalar::size), node.field("mtu", scalar::size));
        if let Field::Value(size, span) = mtu {
            if (MIN_MTU..=MAX_MTU).contains(&size) {
                links.mtu = size;
            } else {
                self.error(
                    span,
                    format!("the mtu {size} is not between {} B and {} B", MIN_MTU.get(), MAX_MTU.get()),
                    "write for example `1500B`",
                );
            }
        }
        if let Field::Value(size, span) = buffer {
            links.queue.buffer = size;
            if size > MAX_BUFFER {
                self.error(span, format!("the buffer {size} is larger than {MAX_BUFFER}"), "for example `256kB`");
            }
        }
        if let Some(queue) = node.get("queue") {
            if let Some(span) = buffer.span() {
                self.error(span, "there is a `buffer` beside a `queue`", "write it inside of `queue`");
            }
            // The size of headers does not matter here: the buffer is checked against the mtu.
            let packets = Packets { payload: links.mtu.get() as u32, headers: 0 };
            links.queue = self.queue(Some(queue), links.queue, packets, true).unwrap_or(links.queue);
        } else if links.queue.buffer < links.mtu {
            let span = buffer.span().or(mtu.span()).unwrap_or(node.span);
            self.error(
                span,
                format!("the buffer {} holds no packet of {}", links.queue.buffer, links.mtu),
                "make it at least as large as the mtu",
            );
        }
        if let Some(spines) =
            node.field("spines", |text| scalar::integer(text, "", 1, MAX_SPINES_OF_RACKS.into())).value()
        {
            links.spines = spines as u32;
        }
        links
    }

    /// Whether links of these racks' rates can be simulated; the first that cannot is reported at
    /// `at`.
    pub fn can_simulate_racks(&mut self, network: &Network, links: &Links, at: Span) -> bool {
        let interface = network.machines().iter().find_map(|machine| {
            let rate = Direction::ALL.map(|direction| machine.nic()[direction]);
            let rate = rate.into_iter().find(|rate| !can_be_simulated(*rate))?;
            Some(format!("machine {} has an interface of {rate}", quote(machine.name())))
        });
        let uplink = || {
            network.racks().iter().find_map(|rack| {
                let whole = Direction::ALL.map(|direction| rack.uplink()[direction]);
                let link = |rate: &Bandwidth| Bandwidth::from_bps(rate.bps() / u64::from(links.spines));
                let whole = whole.into_iter().find(|rate| !can_be_simulated(link(rate)))?;
                let over = match links.spines {
                    1 => String::new(),
                    spines => format!(" over {spines} spines, links of {}", link(&whole)),
                };
                Some(format!("rack {} has an uplink of {whole}{over}", quote(rack.name())))
            })
        };
        let Some(cause) = interface.or_else(uplink) else { return true };
        let hint = format!("{}; write another rate, or divide an uplink over other `spines`", links_have());
        self.error(at, format!("{cause}, which cannot be simulated"), hint);
        false
    }
}

/// The speed of both directions; zero where it was reported.
fn speed(fields: &PerDirection<Field<Bandwidth>>) -> PerDirection<Bandwidth> {
    PerDirection { tx: fields.tx.value().unwrap_or_default(), rx: fields.rx.value().unwrap_or_default() }
}

/// A network of these racks and machines, which are in canonical order.
fn network(
    racks: Vec<(String, PerDirection<Bandwidth>)>,
    found: Vec<MachineDraft>,
    properties: &Properties,
    port_buffers: PortBuffers,
) -> Network {
    let mut members = vec![Vec::new(); racks.len()];
    let mut all = Vec::with_capacity(found.len());
    for (i, machine) in found.into_iter().enumerate() {
        members[machine.rack].push(MachineId(i as u32));
        let (nic, rack) = (speed(&properties.nics[i]), RackId(machine.rack as u32));
        all.push(Machine::new(machine.name, rack, nic, properties.addresses[i]));
    }
    let racks = racks.into_iter().zip(members).map(|((name, uplink), members)| Rack::new(name, uplink, members));
    Network::new(racks.collect(), all, port_buffers)
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

/// Reads `switches: { forwarders: … }`.
pub(super) fn forwarders(switches: Option<&Node>) -> bool {
    let field = switches.map(|node| node.field("forwarders", |text| scalar::word(text, "", YES_NO)));
    field.and_then(|field| field.value()) == Some(1)
}

/// Reads the queues of `switches:`, and the place of their DSCP maps.
pub(super) fn queues(switches: Option<&Node>, problems: &mut Problems) -> (Option<Offer>, Map) {
    let offer = offer(switches, problems);
    let Some(written) = switches.and_then(|node| node.get("dscp-map")) else { return (offer, Map::default()) };
    let map = match written.read(|text| scalar::word(text, "", DSCP_MAP_KEYWORDS)).value() {
        Some(1) => Map::PerSwitch,
        _ => Map::PerPort,
    };
    match offer {
        None if switches.is_some_and(|node| node.get("scheduler").is_none()) => {
            let hint = "write `scheduler: strict`, `weighted` or `plain` beside it";
            problems.error(written.span, "the map of DSCP values has no queues", hint);
        }
        Some(Offer { queues, .. }) if map == Map::PerSwitch && queues > COMMON_QUEUES => {
            let cause = format!("switches that choose a packet's queue on arrival have {COMMON_QUEUES}, not {queues}");
            let hint = "they choose among eight traffic classes: write `queues: 8`, or `dscp-map: port`";
            problems.error(written.span, cause, hint);
        }
        _ => {}
    }
    (offer, map)
}

/// Reads `switches: { queues: …, scheduler: … }`; `None` where neither is written.
fn offer(switches: Option<&Node>, problems: &mut Problems) -> Option<Offer> {
    let node = switches?;
    let count = |node: &Node, key: &str| {
        let field = node.field(key, |text| scalar::integer(text, "", 1, MAX_PORT_QUEUES.into()));
        field.value().and_then(|number| u8::try_from(number).ok())
    };
    let queues = count(node, "queues");
    let Some(written) = node.get("scheduler") else {
        if let Some(queues) = node.get("queues") {
            let hint = "write `scheduler: strict`, `weighted` or `plain`";
            problems.error(queues.span, "the queues of a port have no scheduler", hint);
        }
        return None;
    };
    let scheduler = match written.read(|text| scalar::word(text, "", SCHEDULER_KEYWORDS)).value() {
        Some(0) => Scheduler::Plain,
        Some(1) => Scheduler::Strict,
        Some(_) => Scheduler::Weighted,
        None => Scheduler::Mixed { strict: count(written, "strict")?, weighted: count(written, "weighted")? },
    };
    let needed = match scheduler {
        Scheduler::Plain => 1,
        Scheduler::Strict | Scheduler::Weighted => COMMON_QUEUES,
        Scheduler::Mixed { strict, weighted } => strict + weighted,
    };
    let has = queues.unwrap_or(needed);
    let mismatch = match scheduler {
        Scheduler::Plain => has != 1,
        Scheduler::Mixed { .. } => has != needed,
        Scheduler::Strict | Scheduler::Weighted => false,
    };
    if mismatch {
        let span = node.get("queues").map_or(written.span, |queues| queues.span);
        let cause = format!("a port with this scheduler has {needed} queues, not {has}");
        problems.error(span, cause, format!("leave `queues` out, or write `queues: {needed}`"));
    }
    Some(Offer { queues: has, scheduler })
}

/// All machines of all racks, each once, and whether these are all written ones.
fn machines(racks: &[&(Key, Node)], problems: &mut Problems) -> (Vec<MachineDraft>, bool) {
    let mut complete = !racks.is_empty();
    let mut found: Vec<MachineDraft> = Vec::new();
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
                found.push(MachineDraft { name, rack, place: item.span });
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

/// Properties of single machines, by machine.
pub(super) struct Properties {
    /// The speeds; [`Field::Absent`] where none is written.
    pub(super) nics: Vec<PerDirection<Field<Bandwidth>>>,
    pub(super) addresses: Vec<Option<IpAddr>>,
    /// The room for virtual machines, where it is written for the machine.
    pub(super) slots: Vec<Option<u32>>,
}

impl Properties {
    /// The slots of every machine of a network: its own, or `slots` of the network.
    pub(super) fn slots(&self, network: &Node) -> Vec<u32> {
        let all = slots_of(network).value().unwrap_or(0);
        self.slots.iter().map(|own| own.unwrap_or(all)).collect()
    }
}

fn slots_of(node: &Node) -> Field<u32> {
    node.field("slots", |text| scalar::integer(text, "", 0, MAX_SLOTS.into()).map(|slots| slots as u32))
}

/// Reads `network.machines`.
pub(super) fn properties(node: Option<&Node>, found: &[MachineDraft], problems: &mut Problems) -> Properties {
    let (nics, addresses) = (vec![PerDirection::both(Field::Absent); found.len()], vec![None; found.len()]);
    let mut properties = Properties { nics, addresses, slots: vec![None; found.len()] };
    let Some(node) = node else { return properties };
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
            return properties;
        }
        left -= range.count();
        overrides.speed(key, &range, special.get("nic"), &mut properties.nics, problems);
        overrides.slots(&range, special, &mut properties.slots, problems);
        if let Some(written) = special.get("address") {
            overrides.address(key, &range, written, &mut properties.addresses, problems);
        }
    }
    properties
}

/// The machines of a network by name, and the positions of what was written for them so far.
struct Overrides<'a> {
    found: &'a [MachineDraft],
    by_name: HashMap<&'a str, usize>,
    suggester: Suggester,
    speeds: HashMap<usize, Span>,
    slots: HashMap<usize, Span>,
    addresses: BTreeMap<IpAddr, (usize, Span)>,
}

impl<'a> Overrides<'a> {
    fn new(found: &'a [MachineDraft]) -> Self {
        Self {
            found,
            by_name: found.iter().enumerate().map(|(i, machine)| (machine.name.as_str(), i)).collect(),
            suggester: Suggester::default(),
            speeds: HashMap::new(),
            slots: HashMap::new(),
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
                    let hint = self.suggester.hint_of_name(&name, known, "name machines of a rack");
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

    /// The slots of a range's machines; each machine may have one number. Unknown names have been reported.
    fn slots(&mut self, range: &NameRange, special: &Node, slots: &mut [Option<u32>], problems: &mut Problems) {
        let Field::Value(written, span) = slots_of(special) else { return };
        for name in range.names() {
            let Some(&machine) = self.by_name.get(name.as_str()) else { continue };
            if let Some(first) = self.slots.insert(machine, span) {
                let cause = format!("the slots of machine `{name}` are written twice");
                return problems.error_with(span, cause, "keep one of them", (first, "first here"));
            }
            slots[machine] = Some(written);
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
        let Field::Value(address, span) = written.read(ip) else { return };
        if written.scalar().and_then(|text| text.parse().ok()) != Some(address) {
            let text = quote(written.scalar().unwrap_or_default());
            let cause = format!("{text} is an IPv4 address in IPv6's notation: it is {address} here");
            problems.note(span, cause, format!("write `{address}`"));
        }
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
