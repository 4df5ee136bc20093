//! From the highest load that keeps every target to the caps that hold it.
//!
//! Approach: the rack's cap first, since it also lightens the machines and the fabric; then the
//! points that are still too full. A cap is the load times the slowest capacity, rounded down to
//! four digits for readability.
//!
//! Worked example: 61.7 % of 80 Gb/s is 49.36 Gb/s at the rack; the interfaces then carry at most 49.36 %.

use super::model::NeededCap;
use weir_latency::plan::{Point, points};
use weir_policy::{Policy, cap_text};
use weir_units::Load;
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection};

/// The order in which caps are computed.
const ORDER: [ContentionPoint; 3] = [ContentionPoint::Rack, ContentionPoint::Machine, ContentionPoint::Fabric];

/// The caps that bring every point that is `judged` down to `most`.
pub(crate) fn needed(policy: &Policy, most: Load, judged: impl Fn(ContentionPoint) -> bool) -> Vec<NeededCap> {
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

/// The caps of one point at a load, in both directions.
pub(crate) fn at(policy: &Policy, point: ContentionPoint, most: Load) -> PerDirection<Option<Bandwidth>> {
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
pub(crate) fn as_written(caps: &[NeededCap]) -> String {
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
