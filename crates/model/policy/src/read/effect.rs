//! Notes on shares and caps that have no effect, or not all of it.
//!
//! Problem: a maximum above an interface's speed, a cap above an uplink, or a guarantee that no traffic can fill is
//! accepted, and an operator takes it for a limit or a guarantee. Approach: compare each setting with the most that
//! the network and the other settings of its service allow anywhere: only a setting without effect at every machine,
//! rack or in the fabric is noted.
//!
//! 1. A maximum at the machine has an effect below the capacity (the speed or the cap) of some machine of its service,
//!    and below the maxima of the services that it is nested in. (A maximum at a rack always has one: it bounds each
//!    machine while there are no reports, `docs/design/ceilings.md`.)
//! 2. A minimum at the rack can be used up to the sum of its machines' capacities, within their own maxima; one at the
//!    fabric up to the sum of those of the racks.
//! 3. A cap has an effect below some speed that it caps; at the fabric below the sum of the uplinks.
//! 4. Machines have all of their minima if the sum in a rack is at most the service's maximum there; racks likewise
//!    with the fabric.
//!
//! Worked example: two machines of 1 Gb/s in a rack. `machine: { max: 5Gb/s }` has no effect, and of `rack: { min:
//! 8Gb/s }` only 2 Gb/s can be used. With `machine: { min: 900Mb/s }` and `rack: { max: 1Gb/s }` each machine has 500
//! Mb/s if both are busy.

use super::{ReadCaps, ReadService, direction_names, same_in_directions};
use crate::machine_set::MachineSet;
use crate::write::rate;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_document::{Field, Problems};
use weir_network::Network;
use weir_network::read::ReadNetwork;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, PerDirection, RackId};

/// Notes the settings without effect. The policy has no error so far.
pub(super) fn note(network: &ReadNetwork, services: &[ReadService], caps: &ReadCaps, problems: &mut Problems) {
    let network = &network.network;
    let effect = Effect { network, services, caps };
    for point in ContentionPoint::ALL {
        effect.cap(point, problems);
    }
    let all = Rc::new(Racks::in_directions(network, caps, None));
    // By service that others are nested in.
    let mut of_parents: BTreeMap<usize, Rc<PerDirection<Racks>>> = BTreeMap::new();
    for (id, service) in services.iter().enumerate() {
        let inherited = match service.service.parent {
            Some(parent) => of_parents.get(&parent.index()).unwrap_or(&all),
            None => &all,
        };
        let racks = match (service.machines_span, service.service.machines()) {
            (Some(_), Some(machines)) => Rc::new(Racks::in_directions(network, caps, Some(machines))),
            _ => Rc::clone(inherited),
        };
        effect.service(service, &racks, problems);
        if !service.service.is_leaf() {
            of_parents.insert(id, racks);
        }
    }
}

/// Racks with the same uplink and the same machines of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rack {
    /// The speed or the cap.
    uplink: Bandwidth,
    /// How many machines have a capacity, by the speed or the cap.
    machines: BTreeMap<Bandwidth, u64>,
}

impl Rack {
    fn count(&self) -> u64 {
        self.machines.values().sum()
    }

    /// The traffic that its machines carry together, in bit/s, at most `each` of them.
    fn carried(&self, each: Bandwidth) -> u128 {
        let of = |(capacity, count): (&Bandwidth, &u64)| u128::from(capacity.min(&each).bps()) * u128::from(*count);
        self.machines.iter().map(of).sum()
    }
}

/// The racks on which a service runs, in one direction, with how many there are of each kind.
struct Racks(BTreeMap<Rack, u64>);

impl Racks {
    fn in_directions(network: &Network, caps: &ReadCaps, machines: Option<&MachineSet>) -> PerDirection<Self> {
        let of = |direction| Self::new(network, caps, machines, direction);
        PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
    }

    /// `None`: every machine.
    fn new(network: &Network, caps: &ReadCaps, machines: Option<&MachineSet>, direction: Direction) -> Self {
        let capped = |speed: Bandwidth, point: ContentionPoint| match caps[point][direction] {
            Field::Value(cap, _) => speed.min(cap),
            _ => speed,
        };
        let capacity = |id: u32| capped(network.machine(MachineId(id)).nic()[direction], ContentionPoint::Machine);
        let all = 0..network.machines().len() as u32;
        let ids = machines.map_or(std::slice::from_ref(&all), MachineSet::ranges).iter().cloned().flatten();
        let mut by_rack: BTreeMap<RackId, BTreeMap<Bandwidth, u64>> = BTreeMap::new();
        for id in ids {
            let rack = network.machine(MachineId(id)).rack();
            *by_rack.entry(rack).or_default().entry(capacity(id)).or_default() += 1;
        }
        let mut racks = BTreeMap::new();
        for (rack, machines) in by_rack {
            let uplink = capped(network.rack(rack).uplink()[direction], ContentionPoint::Rack);
            *racks.entry(Rack { uplink, machines }).or_default() += 1;
        }
        Self(racks)
    }

    /// The largest capacity of a machine.
    fn fastest(&self) -> Bandwidth {
        self.0.keys().filter_map(|rack| rack.machines.keys().next_back()).max().copied().unwrap_or_default()
    }

    /// The most that the machines of a rack carry, each at most `each`.
    fn most_carried(&self, each: Bandwidth) -> u128 {
        self.0.keys().map(|rack| rack.carried(each)).max().unwrap_or(0)
    }

    /// The traffic that the racks carry together, each machine at most `machine` and each rack at most `rack`.
    fn all_carried(&self, machine: Bandwidth, rack: Bandwidth) -> u128 {
        let of = |(kind, count): (&Rack, &u64)| {
            let uplink = u128::from(kind.uplink.min(rack).bps());
            kind.carried(machine).min(uplink) * u128::from(*count)
        };
        self.0.iter().map(of).sum()
    }

    /// The most machines of a rack.
    fn most_machines(&self) -> u64 {
        self.0.keys().map(Rack::count).max().unwrap_or(0)
    }

    /// The number of racks.
    fn count(&self) -> u64 {
        self.0.values().sum()
    }
}

/// A bound that a service above sets: its index and its maximum.
type Above = (usize, Bandwidth);

struct Effect<'a> {
    network: &'a Network,
    services: &'a [ReadService],
    caps: &'a ReadCaps,
}

impl Effect<'_> {
    /// Rule 3.
    fn cap(&self, point: ContentionPoint, problems: &mut Problems) {
        let useless = |direction: Direction| {
            let Field::Value(cap, span) = self.caps[point][direction] else { return None };
            let uplinks = || self.network.racks().iter().map(|rack| rack.uplink()[direction]);
            let most: Bandwidth = match point {
                ContentionPoint::Machine => {
                    self.network.machines().iter().map(|machine| machine.nic()[direction]).max()?
                }
                ContentionPoint::Rack => uplinks().max()?,
                ContentionPoint::Fabric => uplinks().sum(),
            };
            (cap >= most).then_some((span, cap, most))
        };
        for ((span, cap, most), directions) in same_in_directions(useless) {
            let carry = match point {
                ContentionPoint::Machine => format!("machines have at most {most}"),
                ContentionPoint::Rack => format!("uplinks have at most {most}"),
                ContentionPoint::Fabric => format!("uplinks sum to {most}"),
            };
            problems.note(
                span,
                format!("the cap {cap} at the {point} ({}) has no effect: {carry}", direction_names(&directions)),
                format!("leave it out, or write less than `{}`", rate(most)),
            );
        }
    }

    fn service(&self, service: &ReadService, racks: &PerDirection<Racks>, problems: &mut Problems) {
        self.maximum(service, racks, problems);
        self.minimum(service, ContentionPoint::Rack, racks, problems);
        self.minimum(service, ContentionPoint::Fabric, racks, problems);
        let machines = |direction: Direction| racks[direction].most_machines();
        let points = (ContentionPoint::Machine, ContentionPoint::Rack);
        clipped(service, points, &machines, problems);
        let count = |direction: Direction| racks[direction].count();
        clipped(service, (ContentionPoint::Rack, ContentionPoint::Fabric), &count, problems);
    }

    /// The lowest maximum of the services that a service is nested in.
    fn above(&self, service: &ReadService, point: ContentionPoint, direction: Direction) -> Option<Above> {
        let mut lowest: Option<Above> = None;
        let mut at = service.service.parent;
        while let Some(id) = at {
            let parent = &self.services[id.index()];
            let max = parent.shares[point][direction].max.value();
            if let Some(max) = max.filter(|max| lowest.is_none_or(|(_, lowest)| *max < lowest)) {
                lowest = Some((id.index(), max));
            }
            at = parent.service.parent;
        }
        lowest
    }

    /// The lowest maximum of a service and those that it is nested in.
    fn limit(&self, service: &ReadService, point: ContentionPoint, direction: Direction) -> Bandwidth {
        let above = self.above(service, point, direction).map_or(Bandwidth::UNLIMITED, |(_, max)| max);
        service.shares[point][direction].max.value().unwrap_or(Bandwidth::UNLIMITED).min(above)
    }

    /// Rule 1.
    fn maximum(&self, service: &ReadService, racks: &PerDirection<Racks>, problems: &mut Problems) {
        let point = ContentionPoint::Machine;
        let useless = |direction: Direction| {
            let Field::Value(max, span) = service.shares[point][direction].max else { return None };
            if max.is_unlimited() {
                return None;
            }
            let fastest = racks[direction].fastest();
            let above = self.above(service, point, direction).filter(|(_, above)| *above < fastest);
            let most = above.map_or(fastest, |(_, above)| above);
            (max >= most).then_some((span, max, most, above.map(|(id, _)| id)))
        };
        for ((span, max, most, above), directions) in same_in_directions(useless) {
            let reason = match above {
                Some(id) => format!("`{}`, in which it is nested, has {most}", self.services[id].service.path()),
                None => format!("its machines have at most {most}"),
            };
            let (path, directions) = (service.service.path(), direction_names(&directions));
            problems.note(
                span,
                format!("service `{path}`: the maximum {max} at the machine ({directions}) has no effect: {reason}"),
                format!("leave `max` out, or write less than `{}`", rate(most)),
            );
        }
    }

    /// Rule 2.
    fn minimum(
        &self,
        service: &ReadService,
        point: ContentionPoint,
        racks: &PerDirection<Racks>,
        problems: &mut Problems,
    ) {
        let unused = |direction: Direction| {
            let Field::Value(min, span) = service.shares[point][direction].min else { return None };
            let machine = self.limit(service, ContentionPoint::Machine, direction);
            let usable = match point {
                ContentionPoint::Fabric => {
                    racks[direction].all_carried(machine, self.limit(service, ContentionPoint::Rack, direction))
                }
                _ => racks[direction].most_carried(machine),
            };
            let usable = Bandwidth::from_bps(u64::try_from(usable).unwrap_or(u64::MAX));
            (min > usable).then_some((span, min, usable))
        };
        let carriers = match point {
            ContentionPoint::Fabric => "its racks carry",
            _ => "its machines in a rack carry",
        };
        for ((span, min, usable), directions) in same_in_directions(unused) {
            let (path, directions) = (service.service.path(), direction_names(&directions));
            problems.note(
                span,
                format!(
                    "service `{path}`: of the minimum {min} at the {point} ({directions}) only {usable} can be used: \
                     {carriers} no more"
                ),
                lower(service, usable),
            );
        }
    }
}

/// Rule 4: the minima at the first point, of which `count` share the maximum at the second.
fn clipped(
    service: &ReadService,
    (of, at): (ContentionPoint, ContentionPoint),
    count: &dyn Fn(Direction) -> u64,
    problems: &mut Problems,
) {
    let clipped = |direction: Direction| {
        let Field::Value(min, span) = service.shares[of][direction].min else { return None };
        let max = service.shares[at][direction].max.value().filter(|max| !max.is_unlimited())?;
        let (count, sum) = (count(direction), u128::from(min.bps()) * u128::from(count(direction)));
        (sum > u128::from(max.bps())).then_some((span, min, max, count))
    };
    for ((span, min, max, count), directions) in same_in_directions(clipped) {
        let (path, directions) = (service.service.path(), direction_names(&directions));
        let each = Bandwidth::from_bps(max.bps() / count);
        let places = match of {
            ContentionPoint::Machine => format!("all {count} machines of a rack"),
            _ => format!("all {count} racks"),
        };
        problems.note(
            span,
            format!(
                "service `{path}`: where {places} are busy, each has {each} of the minimum {min} at the {of} \
                 ({directions}): the maximum at the {at} is {max}"
            ),
            format!("raise that `max`, or {}", lower(service, each)),
        );
    }
}

/// The hint to lower a minimum: those of children sum to at most their parent's.
fn lower(service: &ReadService, to: Bandwidth) -> String {
    let children = if service.service.is_leaf() { "" } else { ", and lower those of its children" };
    format!("write at most `{}`{children}", rate(to))
}
