//! From the highest load that keeps every target to the caps that hold it.
//!
//! Approach: the rack's cap first, since it also lightens the machines and the fabric; then the
//! points that are still too full. A cap is the load times the slowest capacity, rounded down to
//! four digits for readability.
//!
//! Worked example: 61.7 % of 80 Gb/s is 49.36 Gb/s at the rack; the interfaces then carry at most 49.36 %.

use super::compute::PlanOptions;
use super::model::{Method, NeededCap, Plan, ServicePlan};
use crate::error::AnswerError;
use weir_latency::plan::{Point, gaps, overloads, points, points_of};
use weir_policy::{Policy, cap_text};
use weir_units::{Bandwidth, ContentionPoint, Direction, Load, PerDirection};

/// The order in which caps are computed.
const ORDER: [ContentionPoint; 3] = [ContentionPoint::Rack, ContentionPoint::Machine, ContentionPoint::Fabric];

/// The caps that bring every point that is `judged` down to `most`.
pub(super) fn needed(policy: &Policy, most: Load, judged: impl Fn(ContentionPoint) -> bool) -> Vec<NeededCap> {
    let mut caps = *policy.caps();
    let mut needed = Vec::new();
    for point in ORDER.into_iter().filter(|point| judged(*point)) {
        let mut cap = PerDirection::both(None);
        for at in points(policy, &caps).iter().filter(|at| at.point == point && at.exceeds(most)) {
            let bandwidth = at_load(at, most);
            cap[at.direction] = Some(bandwidth);
        }
        for direction in Direction::ALL {
            caps[point][direction] = cap[direction].unwrap_or(caps[point][direction]);
        }
        if cap != PerDirection::both(None) {
            needed.push(NeededCap { point, cap });
        }
    }
    needed
}

/// A policy with a cap that brings a point down to the load that keeps every target.
pub struct CappedPolicy {
    /// The cap.
    pub cap: NeededCap,
    /// The text of the policy's file with the cap; nothing else is changed.
    pub text: String,
    /// The load.
    pub load: Load,
    /// Whether no point is above the load.
    pub is_low: bool,
    /// Whether every premise of the bound is known to hold, if the bound decides.
    pub is_proven: bool,
    /// The caps that other points still need.
    pub needed: Vec<NeededCap>,
}

impl CappedPolicy {
    /// Whether the policy keeps every target.
    pub fn is_kept(&self) -> bool {
        self.is_low && self.is_proven
    }

    /// The hint for a file into which the cap cannot be written.
    pub fn hint(&self) -> String {
        would_keep(&self.cap)
    }
}

/// The load that keeps every target, and the cap that brings `point` down to it.
fn to_write(policy: &Policy, plan: &Plan, point: ContentionPoint) -> Result<(Load, NeededCap), AnswerError> {
    let most = match &plan.most {
        Ok(Some(most)) => *most,
        Ok(None) => {
            return Err(AnswerError::refused("any load keeps every target: there is no cap to write")
                .hint("leave `--write` out"));
        }
        Err(why) => {
            return Err(AnswerError::refused(format!("no cap keeps every target: {why}"))
                .hint("plan for more capacity, a longer target or a shorter convergence"));
        }
    };
    let cap = at(policy, point, most);
    if cap.tx.is_none() && cap.rx.is_none() {
        return Err(AnswerError::refused("a network of one rack has no fabric to cap").hint("write `--write=rack`"));
    }
    Ok((most, NeededCap { point, cap }))
}

/// The policy with the cap that brings `point` down to the load that keeps every target.
///
/// # Errors
/// A plan that needs no cap, or that none would help; a fabric of one rack; a policy that is refused with the cap,
/// which a hint has.
pub fn written(
    policy: &Policy,
    plan: &Plan,
    options: &PlanOptions,
    point: ContentionPoint,
) -> Result<CappedPolicy, AnswerError> {
    let (load, cap) = to_write(policy, plan, point)?;
    let refused = |errors| AnswerError::from(errors).hint(would_keep(&cap));
    let (text, changed) = policy.write_cap(point, cap.cap).map_err(refused)?;
    // The queue stays the same: only the loads have changed.
    let judged = |of: Vec<Point>| of.into_iter().filter(|at| options.judges(at.point)).collect::<Vec<_>>();
    let is_low = !judged(points(&changed, changed.caps())).iter().any(|at| at.exceeds(load));
    let overloads = overloads(&changed, Some(load));
    let is_proven = |service: &ServicePlan| {
        let points = judged(points_of(&changed, changed.caps(), service.id));
        gaps(&changed, service.id, &service.needs, &overloads, &points).is_empty()
    };
    let is_proven = options.by != Method::Bound || plan.services.iter().all(is_proven);
    let needed = if is_low { Vec::new() } else { needed(&changed, load, |point| options.judges(point)) };
    Ok(CappedPolicy { cap, text, load, is_low, is_proven, needed })
}

fn would_keep(needed: &NeededCap) -> String {
    format!("{} would keep every target", cap_text(needed.point, needed.cap))
}

/// The caps of one point at a load, in both directions.
fn at(policy: &Policy, point: ContentionPoint, most: Load) -> PerDirection<Option<Bandwidth>> {
    let mut cap = PerDirection::both(None);
    for at in points(policy, policy.caps()).iter().filter(|at| at.point == point) {
        cap[at.direction] = Some(at_load(at, most));
    }
    cap
}

fn at_load(at: &Point, most: Load) -> Bandwidth {
    let bps = u128::from(at.capacity.bps()) * u128::from(most.billionths()) / 1_000_000_000;
    Bandwidth::from_bps(four_digits(u64::try_from(bps).unwrap_or(u64::MAX)).max(1))
}

/// Zeroes all digits after the fourth.
fn four_digits(value: u64) -> u64 {
    let step = 10u64.pow(value.max(1).ilog10().saturating_sub(3));
    value / step * step
}

/// `caps: { rack: 49.36Gb/s }`, as a file has it.
pub fn as_written(caps: &[NeededCap]) -> String {
    let one = |needed: &NeededCap| cap_text(needed.point, needed.cap);
    format!("caps: {{ {} }}", caps.iter().map(one).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_down_to_four_digits() {
        assert_eq!([0, 7, 9_999, 49_364_999_999, 10_000].map(four_digits), [0, 7, 9_999, 49_360_000_000, 10_000]);
    }

    #[test]
    fn only_overloaded_points_get_a_cap() {
        let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 80Gb/s, machines: [\"m[1-10]\"] }, \
                    r2: { uplink: 80Gb/s, machines: [\"n[1-5]\"] } } }\n\
                    services: { a: { match: [ { port: 1 } ] } }\ncaps: { rack: { tx: 60Gb/s } }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let most = Load::from_fraction(0.617).expect("a load");
        let caps = |judged: fn(ContentionPoint) -> bool| as_written(&needed(&policy, most, judged));
        // The five machines of r2 could still be full: 49.36 Gb/s are nearly all that they have.
        assert_eq!(caps(|_| true), "caps: { rack: 49.36Gb/s, machine: 6.17Gb/s }");
        assert_eq!(caps(|point| point == ContentionPoint::Rack), "caps: { rack: 49.36Gb/s }");
        let (capped, _) = Policy::parse("p", &text.replace("{ tx: 60Gb/s }", "{ tx: 49Gb/s }")).expect("sound");
        let one = needed(&capped, most, |point| point == ContentionPoint::Rack);
        assert_eq!(as_written(&one), "caps: { rack: { rx: 49.36Gb/s } }");
        assert!(needed(&capped, Load::from_fraction(0.99).expect("a load"), |_| false).is_empty());
    }
}
