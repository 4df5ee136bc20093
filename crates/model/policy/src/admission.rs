//! Admission control: the minima must be feasible.
//!
//! Rules, at each contention point and in each direction (Parley §3.1):
//! 1. no service's minimum is above the maximum of a service that it is nested in;
//! 2. a parent's minimum is at least the sum of its children's;
//! 3. the minima of the top-level services fit each machine, each rack's uplink and the fabric,
//!    where the capacity is the speed or the cap, whichever is lower. A machine must have room for
//!    all services that run there (`machines:`; a service without it runs on every machine), a rack
//!    for all that run on one of its machines. Bounded latency levels precede all of them, and services with credits
//!    have a queue of their own, so these parts of the capacity do not count.
//!
//! Rule 2 makes top-level services sufficient in rule 3. Equal problems are reported once: both
//! directions together, and all machines (or racks) of the same capacity together.
//!
//! Worked example: `dfs` with rack min 6 Gb/s and `web` with 5 Gb/s do not fit an uplink of 10
//! Gb/s: the minima sum to 11 Gb/s, 1 Gb/s more than the capacity.

mod raise;

use crate::credits::Credits;
use crate::machine_set::ids_of;
use crate::model::Policy;
use crate::read::{ReadCaps, ReadService, direction_names, same_in_directions};
use crate::sweep;
use raise::{Advice, Raise, Shortfall};
use std::collections::BTreeMap;
use std::ops::Range;
use weir_document::{Diagnostic, Field, Problems, Span};
use weir_network::Network;
use weir_network::names::list_names;
use weir_network::read::ReadNetwork;
use weir_units::{BILLION, Bandwidth, ContentionPoint, Direction, Load, MachineId, PerDirection, ServiceId};

/// Reports every minimum that does not fit. Values that were reported before are left out of all
/// sums.
pub(crate) fn check(
    network: &ReadNetwork,
    services: &[ReadService],
    caps: &ReadCaps,
    (reserved, credits): (Option<Load>, Option<&Credits>),
    problems: &mut Problems,
) {
    let mut contradictory = vec![false; services.len()];
    for (id, service) in services.iter().enumerate() {
        contradictory[id] = above_an_ancestor(service, services, problems);
    }
    for point in ContentionPoint::ALL {
        let fit = Fit { network, services, caps, point, reserved, credits };
        fit.below_children(&contradictory, problems);
        fit.check(problems);
    }
}

/// The position of the largest minimum of the top-level services at a machine, in receive
/// direction.
pub(crate) fn largest_receive_minimum(services: &[ReadService]) -> Option<Span> {
    let roots = services.iter().enumerate().filter(|(_, service)| service.service.parent.is_none());
    let minima = minima(roots, ContentionPoint::Machine, Direction::Rx);
    (minima.sum > 0).then_some(minima.largest_span)
}

/// Rule 1. Returns whether something was reported.
fn above_an_ancestor(service: &ReadService, services: &[ReadService], problems: &mut Problems) -> bool {
    let mut found = false;
    for point in ContentionPoint::ALL {
        let conflict = |direction: Direction| {
            let Field::Value(min, min_span) = service.shares[point][direction].min else { return None };
            let mut above = service.service.parent;
            while let Some(id) = above {
                let ancestor = &services[id.index()];
                if let Field::Value(max, max_span) = ancestor.shares[point][direction].max
                    && min > max
                {
                    return Some((min, min_span, max, max_span, id));
                }
                above = ancestor.service.parent;
            }
            None
        };
        for ((min, min_span, max, max_span, id), list) in same_in_directions(conflict) {
            found = true;
            problems.error_with(
                min_span,
                format!(
                    "service `{}`: the minimum {min} at the {point} ({}) is above the maximum {max} of `{}`, in \
                     which it is nested",
                    service.service.path(),
                    direction_names(&list),
                    services[id.index()].service.path(),
                ),
                "lower this `min` or raise that `max`",
                (max_span, "the maximum"),
            );
        }
    }
    found
}

/// Minima that are added up.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Minima {
    /// Bit/s.
    sum: u128,
    largest_span: Span,
    /// Largest first.
    parts: Vec<(std::cmp::Reverse<Bandwidth>, usize)>,
}

impl Minima {
    /// The largest few with their services.
    fn list(&self, services: &[ReadService]) -> String {
        const SHOWN: usize = 5;
        let shown = self.parts.iter().take(SHOWN);
        let mut text = shown
            .map(|(min, id)| format!("`{}` {}", services[*id].service.path(), min.0))
            .collect::<Vec<_>>()
            .join(", ");
        if self.parts.len() > SHOWN {
            text.push_str(&format!(" and {} more", self.parts.len() - SHOWN));
        }
        text
    }
}

fn minima<'a>(
    services: impl Iterator<Item = (usize, &'a ReadService)>,
    point: ContentionPoint,
    direction: Direction,
) -> Minima {
    let mut minima = Minima { sum: 0, largest_span: Span::default(), parts: Vec::new() };
    let mut largest = Bandwidth::ZERO;
    for (id, service) in services {
        let Field::Value(min, span) = service.shares[point][direction].min else { continue };
        minima.sum += u128::from(min.bps());
        minima.parts.push((std::cmp::Reverse(min), id));
        if min > largest {
            (largest, minima.largest_span) = (min, span);
        }
    }
    minima.parts.sort_unstable();
    minima
}

/// The minima of the services of a list that run at one instance of a contention point: the instance where they sum to
/// most.
fn most<'a, I: Iterator<Item = (usize, &'a ReadService)>>(
    network: &Network,
    services: impl Fn() -> I,
    point: ContentionPoint,
    direction: Direction,
) -> Minima {
    if services().all(|(_, service)| service.service.machines.is_none()) {
        return minima(services(), point, direction);
    }
    let largest = sums(network, services(), point, direction).into_iter().max_by_key(|(range, sum)| {
        // The first of equal ones.
        (*sum, std::cmp::Reverse(range.start))
    });
    let at = largest.map_or(0, |(range, _)| range.start);
    minima(services().filter(|(_, service)| runs_at(network, service, point, at)), point, direction)
}

/// The sums of minima at each instance of a contention point.
fn sums<'a>(
    network: &Network,
    services: impl Iterator<Item = (usize, &'a ReadService)>,
    point: ContentionPoint,
    direction: Direction,
) -> Vec<(Range<u32>, u128)> {
    let minimum = |service: &ReadService| service.shares[point][direction].min.value().map_or(0, Bandwidth::bps);
    sums_of(network, point, services.map(|(_, service)| (service, minimum(service).into())))
}

/// The sums of given minima, in bit/s, at each instance of a contention point.
fn sums_of<'a>(
    network: &Network,
    point: ContentionPoint,
    minima: impl Iterator<Item = (&'a ReadService, u128)>,
) -> Vec<(Range<u32>, u128)> {
    sweep::sums(network, point, minima.map(|(service, minimum)| (service.service.machines(), minimum)))
}

/// The largest of these sums.
fn most_of<'a>(
    network: &Network,
    point: ContentionPoint,
    minima: impl Iterator<Item = (&'a ReadService, u128)>,
) -> u128 {
    sums_of(network, point, minima).into_iter().map(|(_, sum)| sum).max().unwrap_or(0)
}

/// Whether a service runs at an instance of a contention point.
fn runs_at(network: &Network, service: &ReadService, point: ContentionPoint, instance: u32) -> bool {
    let Some(machines) = service.service.machines() else { return true };
    match point {
        ContentionPoint::Machine => machines.contains(MachineId(instance)),
        ContentionPoint::Rack => machines.overlaps(&ids_of(&network.racks()[instance as usize])),
        ContentionPoint::Fabric => true,
    }
}

/// A sum as people write it. Sums above the largest [`Bandwidth`] are given in Tb/s, rounded up.
fn rate(bps: u128) -> String {
    match u64::try_from(bps) {
        Ok(bps) if bps <= Bandwidth::MAX.bps() => Bandwidth::from_bps(bps).to_string(),
        _ => format!("{} Tb/s", bps.div_ceil(1_000_000_000_000)),
    }
}

/// The part of a capacity that latency levels leave to others, rounded down.
pub fn beside_levels(capacity: Bandwidth, reserved: Option<Load>) -> Bandwidth {
    let Some(load) = reserved else { return capacity };
    let rest = u128::from(capacity.bps()) * u128::from(load.headroom()) / u128::from(BILLION);
    Bandwidth::from_bps(u64::try_from(rest).unwrap_or(u64::MAX))
}

/// The part that services with credits leave of what levels leave, rounded up. Where all services have credits they
/// have no share, and nothing else is guaranteed.
fn beside_credits(beside_levels: Bandwidth, credits: Option<&Credits>) -> Bandwidth {
    let own = credits.filter(|credits| credits.share().is_some()).map(|credits| credits.rate(beside_levels));
    beside_levels.saturating_sub(own.unwrap_or(Bandwidth::ZERO))
}

impl Policy {
    /// The part of a capacity that bounded latency levels and services with credits leave: that of guarantees and of
    /// tenants.
    pub fn beside_levels_and_credits(&self, capacity: Bandwidth) -> Bandwidth {
        let reserved = self.levels().and_then(|levels| levels.reserved());
        beside_credits(beside_levels(capacity, reserved), self.credits())
    }
}

/// The source of a capacity.
type Capacity = (Bandwidth, Option<Span>);

/// Machines or racks of the same capacities and sums.
struct Group<'a> {
    /// The position of the capacity of the first of them.
    spans: PerDirection<Option<Span>>,
    names: Vec<&'a str>,
    /// The index of the first of them.
    first: u32,
}

/// Rule 3 at one contention point.
struct Fit<'a> {
    network: &'a ReadNetwork,
    services: &'a [ReadService],
    caps: &'a ReadCaps,
    point: ContentionPoint,
    /// The part of every port that bounded latency levels may fill.
    reserved: Option<Load>,
    /// Services with credits, which have a part of the rest.
    credits: Option<&'a Credits>,
}

impl Fit<'_> {
    /// Rule 2.
    fn below_children(&self, contradictory: &[bool], problems: &mut Problems) {
        let (services, point) = (self.services, self.point);
        let mut raise = None;
        for (id, service) in services.iter().enumerate().filter(|(_, service)| !service.service.is_leaf()) {
            let children = &service.service.children;
            if children.iter().any(|child| contradictory[child.index()]) {
                continue;
            }
            let children = || children.iter().map(|id| (id.index(), &services[id.index()]));
            let shortfall = |direction: Direction| {
                let own = service.shares[point][direction].min;
                let minima = most(&self.network.network, children, point, direction);
                let own_bps = own.value().unwrap_or_default();
                (!own.is_bad() && minima.sum > u128::from(own_bps.bps())).then(|| (own.span(), own_bps, minima))
            };
            for ((span, own, minima), directions) in same_in_directions(shortfall) {
                let raise = raise.get_or_insert_with(|| Raise::new(self, contradictory));
                let of =
                    Shortfall { service: ServiceId(id as u32), span, own, sum: minima.sum, directions: &directions };
                self.refuse_minimum(&of, &minima, raise, problems);
            }
        }
    }

    fn refuse_minimum(&self, of: &Shortfall<'_>, minima: &Minima, raise: &Raise<'_>, problems: &mut Problems) {
        let service = &self.services[of.service.index()];
        let own = match of.span {
            Some(_) => format!("the minimum is {}", of.own),
            None => "no minimum".to_owned(),
        };
        let cause = format!(
            "service `{}`: {own} at the {} ({}), but the minima of its children sum to {}: {}",
            service.service.path(),
            self.point,
            direction_names(of.directions),
            rate(minima.sum),
            minima.list(self.services),
        );
        let span = of.span.unwrap_or(service.name);
        if problems.is_full() {
            // It is counted only.
            return problems.error(span, cause, "");
        }
        let Advice { hint, maximum, fix } = raise.advice(of);
        let label = maximum.map_or((minima.largest_span, "the largest of them"), |span| (span, "the maximum"));
        let error = Diagnostic::error(problems.source(), span, cause, hint).with_label(label.0, label.1);
        problems.report(match fix {
            Some((span, text)) => error.with_fix(span, text),
            None => error,
        });
    }

    fn check(&self, problems: &mut Problems) {
        let network = &self.network.network;
        let sums = Direction::ALL.map(|direction| sums(network, self.roots(), self.point, direction));
        // Points with the same two capacities and the same two sums have the same problem.
        type Key = ([Option<Bandwidth>; 2], [u128; 2]);
        let mut places: BTreeMap<Key, Group<'_>> = BTreeMap::new();
        let mut at = [0, 0];
        for (instance, (name, capacities)) in (0..).zip(self.places()) {
            for (at, sums) in at.iter_mut().zip(&sums) {
                while sums[*at].0.end <= instance {
                    *at += 1;
                }
            }
            let [tx, rx] = capacities;
            let spans = PerDirection { tx: tx.and_then(|(_, span)| span), rx: rx.and_then(|(_, span)| span) };
            let rates = capacities.map(|capacity| capacity.map(|(rate, _)| rate));
            let key = (rates, [sums[0][at[0]].1, sums[1][at[1]].1]);
            let group = || Group { spans, names: Vec::new(), first: instance };
            places.entry(key).or_insert_with(group).names.push(name);
        }
        for (([tx, rx], sums), group) in places {
            let (capacities, sums) = (PerDirection { tx, rx }, PerDirection { tx: sums[0], rx: sums[1] });
            let excess = |direction: Direction| {
                let capacity = capacities[direction].filter(|capacity| sums[direction] > u128::from(capacity.bps()))?;
                let here = self.roots().filter(|(_, service)| runs_at(network, service, self.point, group.first));
                Some((capacity, group.spans[direction], minima(here, self.point, direction)))
            };
            for ((capacity, span, minima), list) in same_in_directions(excess) {
                self.refuse((capacity, span), &minima, &list, &group.names, problems);
            }
        }
    }

    /// The top-level services.
    fn roots(&self) -> impl Iterator<Item = (usize, &ReadService)> {
        self.services.iter().enumerate().filter(|(_, service)| service.service.parent.is_none())
    }

    fn refuse(
        &self,
        (capacity, span): (Bandwidth, Option<Span>),
        minima: &Minima,
        directions: &[Direction],
        names: &[&str],
        problems: &mut Problems,
    ) {
        let point = self.point;
        let shortfall = rate(minima.sum - u128::from(capacity.bps()));
        let place = match point {
            ContentionPoint::Machine if names.len() == 1 => format!("machine {}", list_names(names.iter().copied())),
            ContentionPoint::Machine => format!("machines {}", list_names(names.iter().copied())),
            ContentionPoint::Rack if names.len() == 1 => format!("rack {}", list_names(names.iter().copied())),
            ContentionPoint::Rack => format!("racks {}", list_names(names.iter().copied())),
            ContentionPoint::Fabric => "the fabric".to_owned(),
        };
        let levels = self.reserved.map(|load| format!(" beside latency levels, which may fill {load}"));
        let share = self.credits.and_then(|credits| credits.share());
        let credits = share.map(|share| format!(" beside services with credits (`share` {share})"));
        let beside = [levels, credits].into_iter().flatten().collect::<Vec<_>>().join(", and");
        let cause = format!(
            "the minima do not fit {place} ({}): they sum to {}, the capacity{} is {capacity}, {shortfall} \
             are missing: {}",
            direction_names(directions),
            rate(minima.sum),
            beside,
            minima.list(self.services),
        );
        let mut hint = format!("lower {point} minima by {shortfall} in all, or raise the capacity");
        if share.is_some() {
            hint.push_str(", or write a smaller `credits: { share: … }`");
        }
        let everywhere = minima.parts.iter().any(|(_, id)| self.services[*id].service.machines.is_none());
        if point != ContentionPoint::Fabric && minima.parts.len() > 1 && everywhere {
            hint.push_str("; if a service does not run on every machine, name its `machines`");
        }
        match span {
            Some(span) => problems.error_with(minima.largest_span, cause, hint, (span, "the capacity")),
            None => problems.error(minima.largest_span, cause, hint),
        }
    }

    /// Every machine, rack, or the fabric, with its capacities (tx, rx). `None` where one was
    /// reported.
    fn places(&self) -> Vec<(&str, [Option<Capacity>; 2])> {
        let (network, caps) = (&self.network.network, &self.caps[self.point]);
        let capacities = |speed: &dyn Fn(Direction) -> Option<Capacity>| {
            Direction::ALL.map(|direction| {
                let speed = speed(direction)?;
                let (rate, span) = match caps[direction] {
                    Field::Value(cap, span) if cap < speed.0 => (cap, Some(span)),
                    _ => speed,
                };
                Some((beside_credits(beside_levels(rate, self.reserved), self.credits), span))
            })
        };
        let written = |field: Field<Bandwidth>| field.value().map(|rate| (rate, field.span()));
        match self.point {
            ContentionPoint::Machine => network
                .machines()
                .iter()
                .zip(&self.network.nics)
                .map(|(machine, nic)| (machine.name(), capacities(&|direction| written(nic[direction]))))
                .collect(),
            ContentionPoint::Rack => network
                .racks()
                .iter()
                .zip(&self.network.uplinks)
                .map(|(rack, uplink)| (rack.name(), capacities(&|direction| written(uplink[direction]))))
                .collect(),
            ContentionPoint::Fabric => {
                let uplinks = |direction: Direction| {
                    let all: Option<Vec<_>> =
                        self.network.uplinks.iter().map(|uplink| uplink[direction].value()).collect();
                    all.filter(|all| !all.is_empty()).map(|all| (all.into_iter().sum(), None))
                };
                vec![("", capacities(&uplinks))]
            }
        }
    }
}
