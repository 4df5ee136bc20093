//! Hints on minima below those of their children: values that the next check accepts.
//!
//! Problem: a parent's minimum has to be the sum of its children's, and is bounded itself, by maxima and by the
//! capacity. A hint that only names the sum is refused by the next check. Approach: compute the minima that the
//! services would have if all of them were raised to their children's, and the most that each may have beside the
//! others. If the sum is at most that, it is the hint; otherwise the children have to be lowered to it.
//!
//! Worked example: at machines `p` has a maximum of 1 Gb/s and no minimum, its children have 600 and 500 Mb/s. A
//! minimum of 1.1 Gb/s would be above the maximum, so the hint is to lower the children's minima by 100 Mb/s and to
//! write `machine: { min: 1Gb/s }`.

use super::{Capacity, Fit, most_of, runs_at, sums_of};
use crate::read::ReadService;
use crate::write::rate;
use std::ops::Range;
use weir_document::{Field, Span};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, ServiceId};

/// A hint on a minimum, with its positions.
pub(super) struct Advice {
    pub(super) hint: String,
    /// The position of the maximum that is the reason.
    pub(super) maximum: Option<Span>,
    /// The text of the minimum instead of the one at a position.
    pub(super) fix: Option<(Span, String)>,
}

/// A minimum below the sum of the children's.
pub(super) struct Shortfall<'a> {
    pub(super) service: ServiceId,
    /// Its position, unless the service has none.
    pub(super) span: Option<Span>,
    /// The minimum; zero where there is none.
    pub(super) own: Bandwidth,
    /// The sum of the children's minima, in bit/s.
    pub(super) sum: u128,
    /// The directions in which it is too low.
    pub(super) directions: &'a [Direction],
}

/// The most that a minimum may be.
struct Bound {
    /// Bit/s.
    most: u128,
    /// The service whose maximum it follows from, with the maximum and its position; otherwise the capacity.
    maximum: Option<(ServiceId, Bandwidth, Span)>,
}

/// The minima at one contention point if all are raised to their children's.
pub(super) struct Raise<'a> {
    fit: &'a Fit<'a>,
    /// By service, in bit/s.
    raised: PerDirection<Vec<u128>>,
    /// By machine or rack: the capacity beside the raised minima of all services, in bit/s, where it is known.
    left: PerDirection<Vec<Option<i128>>>,
}

impl<'a> Raise<'a> {
    /// `contradictory` has the services whose minimum is above a maximum, by id.
    pub(super) fn new(fit: &'a Fit<'a>, contradictory: &[bool]) -> Self {
        let raised = |direction: Direction| {
            let mut raised = vec![0; fit.services.len()];
            // Children come after their parents.
            for (id, service) in fit.services.iter().enumerate().rev() {
                let own = service.shares[fit.point][direction].min.value().unwrap_or_default();
                let children = &service.service.children;
                let sum = match children.iter().any(|child| contradictory[child.index()]) {
                    true => 0,
                    false => {
                        let of = |child: &ServiceId| (&fit.services[child.index()], raised[child.index()]);
                        most_of(&fit.network.network, fit.point, children.iter().map(of))
                    }
                };
                raised[id] = sum.max(own.bps().into());
            }
            raised
        };
        let raised = PerDirection { tx: raised(Direction::Tx), rx: raised(Direction::Rx) };
        let places = fit.places();
        let left = |direction: Direction| {
            let roots = fit.roots().map(|(id, service)| (service, raised[direction][id]));
            let sums = sums_of(&fit.network.network, fit.point, roots);
            let all = sums.into_iter().flat_map(|(range, sum)| range.map(move |_| sum));
            let left = |((_, [tx, rx]), sum): (&(&str, [Option<Capacity>; 2]), u128)| {
                let (capacity, _) = (*match direction {
                    Direction::Tx => tx,
                    Direction::Rx => rx,
                })?;
                Some(i128::from(capacity.bps()) - i128::try_from(sum).unwrap_or(i128::MAX))
            };
            places.iter().zip(all).map(left).collect()
        };
        let left = PerDirection { tx: left(Direction::Tx), rx: left(Direction::Rx) };
        Self { fit, raised, left }
    }

    fn service(&self, id: ServiceId) -> &ReadService {
        &self.fit.services[id.index()]
    }

    /// The hint on a minimum.
    pub(super) fn advice(&self, of: &Shortfall<'_>) -> Advice {
        let bounds = of.directions.iter().map(|direction| self.bound(of.service, *direction));
        let Some(bound) = bounds.min_by_key(|bound| bound.most) else {
            unreachable!("a minimum is too low in a direction");
        };
        let needed = of.directions.iter().map(|direction| self.raised[*direction][of.service.index()]).max();
        let needed = needed.unwrap_or_default();
        if needed > bound.most {
            return self.lower(of, &bound);
        }
        let needed = as_rate(needed);
        let above = self.above(of);
        let hint = format!("{}{above}, or lower the minima of the children", self.written(of, needed));
        let is_whole = above.is_empty() && self.is_raised_by_its_text(of);
        let fix = of.span.filter(|_| is_whole).map(|span| (span, rate(needed)));
        Advice { hint, maximum: None, fix }
    }

    /// The hint if the minimum cannot be the sum.
    fn lower(&self, of: &Shortfall<'_>, bound: &Bound) -> Advice {
        let point = self.fit.point;
        let reason = match bound.maximum {
            Some((id, maximum, _)) => format!("`{}` has a maximum of {maximum}", self.service(id).service.path()),
            None => format!("more does not fit the capacity beside other minima at the {point}"),
        };
        // A minimum that is above a maximum itself is reported as that.
        let most = bound.most.max(of.own.bps().into());
        let excess = as_rate(of.sum.saturating_sub(most));
        let hint = match most {
            0 => format!("remove the minima of the children at the {point}: {reason}"),
            _ if most == u128::from(of.own.bps()) => {
                format!("lower the minima of the children by {} in all: {reason}", rate(excess))
            }
            _ => {
                let own = self.written(of, as_rate(most));
                format!("lower the minima of the children by {} in all, and {own}: {reason}", rate(excess))
            }
        };
        Advice { hint, maximum: bound.maximum.map(|(_, _, span)| span), fix: None }
    }

    /// Whether a text in the place of the minimum changes the directions that are too low, and no other one.
    fn is_raised_by_its_text(&self, of: &Shortfall<'_>) -> bool {
        let min = |direction: Direction| self.service(of.service).shares[self.fit.point][direction].min;
        let mut with_it = Direction::ALL.into_iter().filter(|direction| min(*direction).span() == of.span);
        of.span.is_some() && with_it.all(|direction| of.directions.contains(&direction))
    }

    /// The change of the file that gives a minimum of `to`.
    fn written(&self, of: &Shortfall<'_>, to: Bandwidth) -> String {
        let (point, to, service) = (self.fit.point, rate(to), self.service(of.service));
        let path = service.service.path();
        if self.is_raised_by_its_text(of) {
            return format!("raise it to `{to}`");
        }
        match of.directions {
            [direction] => {
                let keys = service.shares[point][*direction].keys;
                match (keys.share, keys.direction) {
                    (true, true) => format!("add `min: {to}` to `{direction}` in `{point}` of `{path}`"),
                    (true, false) => format!("add `{direction}: {{ min: {to} }}` to `{point}` of `{path}`"),
                    (false, _) => format!("write `{point}: {{ {direction}: {{ min: {to} }} }}` on `{path}`"),
                }
            }
            _ => match service.shares[point].tx.keys.share {
                true => format!("add `min: {to}` to `{point}` of `{path}`"),
                false => format!("write `{point}: {{ min: {to} }}` on `{path}`"),
            },
        }
    }

    /// The minima of services above that are too low only once this one is raised.
    fn above(&self, of: &Shortfall<'_>) -> String {
        let mut text = String::new();
        let mut above = self.service(of.service).service.parent;
        while let Some(id) = above {
            let parent = self.service(id);
            let needed = of.directions.iter().filter_map(|direction| {
                let own = parent.shares[self.fit.point][*direction].min.value().unwrap_or_default();
                let raised = self.raised[*direction][id.index()];
                let children = parent.service.children.iter();
                let written = |child: &ServiceId| {
                    let child = self.service(*child);
                    (child, child.shares[self.fit.point][*direction].min.value().unwrap_or_default().bps().into())
                };
                let is_reported = most_of(&self.fit.network.network, self.fit.point, children.map(written));
                (raised > u128::from(own.bps()) && is_reported <= u128::from(own.bps())).then_some(raised)
            });
            if let Some(needed) = needed.max() {
                text.push_str(&format!(
                    ", and give `{}` `min: {}` there",
                    parent.service.path(),
                    rate(as_rate(needed))
                ));
            }
            above = parent.service.parent;
        }
        text
    }

    /// The most that a service's minimum may be: its maximum, the part of its parent's that its siblings leave, and so
    /// on up to the capacity. Where a service and its siblings run on different machines it may be less than
    /// possible.
    fn bound(&self, id: ServiceId, direction: Direction) -> Bound {
        let mut bound = Bound { most: Bandwidth::MAX.bps().into(), maximum: None };
        // The minima of siblings, up to the ancestor at hand.
        let mut beside = 0_u128;
        let mut at = id;
        loop {
            let service = self.service(at);
            if let Field::Value(max, span) = service.shares[self.fit.point][direction].max
                && u128::from(max.bps()).saturating_sub(beside) < bound.most
            {
                let most = u128::from(max.bps()).saturating_sub(beside);
                bound = Bound { most, maximum: Some((at, max, span)) };
            }
            let Some(parent) = service.service.parent else { break };
            beside = beside.saturating_add(self.siblings(at, parent, direction));
            at = parent;
        }
        let (raised, left) = (self.raised[direction][at.index()], &self.left[direction]);
        let here = (0..).zip(left).filter(|(instance, _)| self.runs_at(at, *instance));
        if let Some(left) = here.filter_map(|(_, left)| *left).min() {
            let most = i128::try_from(raised).unwrap_or(i128::MAX).saturating_add(left);
            let most = u128::try_from(most).unwrap_or(0).saturating_sub(beside);
            if most < bound.most {
                bound = Bound { most, maximum: None };
            }
        }
        bound
    }

    fn runs_at(&self, id: ServiceId, instance: u32) -> bool {
        runs_at(&self.fit.network.network, self.service(id), self.fit.point, instance)
    }

    /// The largest sum of the raised minima of a service's siblings where it runs.
    fn siblings(&self, id: ServiceId, parent: ServiceId, direction: Direction) -> u128 {
        let siblings = self.service(parent).service.children.iter().filter(|sibling| **sibling != id);
        let of = |sibling: &ServiceId| (self.service(*sibling), self.raised[direction][sibling.index()]);
        let network = &self.fit.network.network;
        let sums = sums_of(network, self.fit.point, siblings.map(of));
        let is_there = |range: &Range<u32>| match (self.service(id).service.machines(), self.fit.point) {
            (Some(machines), ContentionPoint::Machine) => machines.overlaps(range),
            (Some(machines), ContentionPoint::Rack) => {
                machines.racks(network).iter().any(|racks| racks.start < range.end && range.start < racks.end)
            }
            _ => true,
        };
        sums.into_iter().filter(|(range, _)| is_there(range)).map(|(_, sum)| sum).max().unwrap_or(0)
    }
}

/// A sum that is at most a bound, or an excess of sums; [`Bandwidth::MAX`] above it.
fn as_rate(bps: u128) -> Bandwidth {
    Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)).min(Bandwidth::MAX)
}
