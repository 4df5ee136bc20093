//! Invariants of every allocation, over random networks, trees of services and demands.

use proptest::prelude::*;
use std::fmt::Write as _;
use std::sync::Arc;
use weir_alloc::tree::{Holder, Scratch, ShareTree, TreeShares};
use weir_alloc::{Constraint, FabricAllocator, NetworkShares, RackRows, Step, allocate, explain};
use weir_policy::{Place, Policy, Share, Sharing};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, ServiceId};

/// A drawn service: shares at the three points in small numbers, and children.
#[derive(Debug, Clone)]
struct Drawn {
    shares: [DrawnShare; 3],
    fill: bool,
    children: Vec<Drawn>,
}

#[derive(Debug, Clone, Copy)]
struct DrawnShare {
    min: u64,
    max: Option<u64>,
    weight: u32,
}

#[derive(Debug, Clone)]
struct DrawnPolicy {
    fill: bool,
    services: Vec<Drawn>,
    racks: Vec<(u64, usize)>,
    nic: u64,
    rack_cap: Option<u64>,
    fabric_cap: Option<u64>,
    demands: Vec<Option<u64>>,
}

fn share() -> impl Strategy<Value = DrawnShare> {
    (prop_oneof![6 => Just(0u64), 1 => 1u64..4], prop_oneof![3 => Just(None), 2 => (1u64..60).prop_map(Some)], 1u32..5)
        .prop_map(|(min, max, weight)| DrawnShare {
            min: if max.is_some_and(|max| max < min) { 0 } else { min },
            max,
            weight,
        })
}

fn service() -> impl Strategy<Value = Drawn> {
    let leaf = (share(), share(), share(), any::<bool>()).prop_map(|(a, b, c, fill)| Drawn {
        shares: [a, b, c],
        fill,
        children: vec![],
    });
    leaf.prop_recursive(3, 8, 3, |inner| {
        (share(), share(), share(), any::<bool>(), proptest::collection::vec(inner, 1..4)).prop_map(
            |(a, b, c, fill, children)| {
                let mut drawn = Drawn { shares: [a, b, c], fill, children };
                // A parent's minimum covers its children's; its maximum, if any, is not below that.
                for point in 0..3 {
                    let sum: u64 = drawn.children.iter().map(|child| child.shares[point].min).sum();
                    let share = &mut drawn.shares[point];
                    share.min = share.min.max(sum);
                    share.max = share.max.filter(|max| *max >= share.min);
                }
                drawn
            },
        )
    })
}

fn drawn_policy() -> impl Strategy<Value = DrawnPolicy> {
    let network = (proptest::collection::vec((20u64..120, 1usize..4), 1..4), 10u64..90);
    let caps = (proptest::option::of(15u64..90), proptest::option::of(30u64..200));
    let demands =
        proptest::collection::vec(prop_oneof![1 => Just(Some(0)), 4 => (1u64..40).prop_map(Some), 2 => Just(None)], 60);
    (any::<bool>(), proptest::collection::vec(service(), 1..4), network, caps, demands).prop_map(
        |(fill, services, (racks, nic), (rack_cap, fabric_cap), demands)| DrawnPolicy {
            fill,
            services,
            racks,
            nic,
            rack_cap,
            fabric_cap,
            demands,
        },
    )
}

const RULES: [&str; 2] = ["add", "fill"];

impl DrawnPolicy {
    fn text(&self, reversed: bool) -> String {
        let mut text = format!(
            "weir: 1\nsharing: {}\nnetwork:\n  nic: {}Mb/s\n  racks:\n",
            RULES[usize::from(self.fill)],
            self.nic
        );
        let mut racks: Vec<usize> = (0..self.racks.len()).collect();
        if reversed {
            racks.reverse();
        }
        for r in racks {
            let (uplink, machines) = self.racks[r];
            let mut names: Vec<String> = (1..=machines).map(|m| format!("r{r}m{m}")).collect();
            if reversed {
                names.reverse();
            }
            let _ = writeln!(text, "    r{r}: {{ uplink: {uplink}Mb/s, machines: [{}] }}", names.join(", "));
        }
        text.push_str("services:\n");
        let mut port = 1;
        write_services(&mut text, &self.services, 1, &mut port, reversed);
        let cap = |name, cap: Option<u64>| cap.map(|c| format!("  {name}: {c}Mb/s\n")).unwrap_or_default();
        let caps = cap("rack", self.rack_cap) + &cap("fabric", self.fabric_cap);
        if !caps.is_empty() {
            let _ = write!(text, "caps:\n{caps}");
        }
        text
    }

    /// `None` if admission control refuses the drawn guarantees.
    fn policy(&self, reversed: bool) -> Option<Arc<Policy>> {
        Policy::parse("drawn.yaml", &self.text(reversed)).ok().map(|(policy, _)| Arc::new(policy))
    }

    fn demand(&self, policy: &Policy, machine: MachineId, service: ServiceId, direction: Direction) -> Bandwidth {
        let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
        let leaf = leaves.iter().position(|id| *id == service).expect("a leaf");
        let i = (machine.index() * leaves.len() + leaf) * 2 + usize::from(direction == Direction::Rx);
        self.demands[i % self.demands.len()].map_or(Bandwidth::UNLIMITED, Bandwidth::from_mbps)
    }

    fn shares(&self, policy: &Arc<Policy>) -> NetworkShares {
        allocate(policy, |machine, service, direction| self.demand(policy, machine, service, direction))
    }
}

fn write_services(text: &mut String, services: &[Drawn], depth: usize, port: &mut u16, reversed: bool) {
    let indent = "  ".repeat(depth);
    let mut parts: Vec<String> = Vec::new();
    for (i, service) in services.iter().enumerate() {
        let mut part = format!("{indent}s{depth}{i}:\n{indent}  sharing: {}\n", RULES[usize::from(service.fill)]);
        for (point, share) in ContentionPoint::ALL.iter().zip(&service.shares) {
            let min = if share.min > 0 { format!("min: {}Mb/s, ", share.min) } else { String::new() };
            let max = share.max.map(|max| format!("max: {max}Mb/s, ")).unwrap_or_default();
            let _ = writeln!(part, "{indent}  {point}: {{ {min}{max}weight: {} }}", share.weight);
        }
        if service.children.is_empty() {
            part = part
                .replace(&format!("{indent}  sharing: add\n"), "")
                .replace(&format!("{indent}  sharing: fill\n"), "");
            let _ = writeln!(part, "{indent}  match: [ {{ protocol: tcp, port: {port} }} ]");
            *port += 1;
        } else {
            let _ = writeln!(part, "{indent}  services:");
            write_services(&mut part, &service.children, depth + 2, port, reversed);
        }
        parts.push(part);
    }
    if reversed {
        parts.reverse();
    }
    text.push_str(&parts.concat());
}

/// Whether a service is `inner` or nested in it.
fn is_within(policy: &Policy, service: ServiceId, inner: ServiceId) -> bool {
    let mut at = Some(service);
    while let Some(id) = at {
        if id == inner {
            return true;
        }
        at = policy.services().get(id).parent();
    }
    false
}

/// The sum of allocations in a direction over some machines and the leaves within a service.
fn sum(
    policy: &Policy,
    shares: &NetworkShares,
    direction: Direction,
    at: impl Fn(MachineId) -> bool,
    within: Option<ServiceId>,
) -> Bandwidth {
    let counts = |service| within.is_none_or(|inner| is_within(policy, service, inner));
    shares
        .allocations
        .iter()
        .filter(|a| a.direction == direction && at(a.machine) && counts(a.service))
        .map(|a| a.allocation)
        .sum()
}

/// Removes a service's shares at machines and at the fabric.
fn only_at_the_rack(service: &mut Drawn) {
    let nothing = DrawnShare { min: 0, max: None, weight: 1 };
    (service.shares[0], service.shares[2]) = (nothing, nothing);
    service.children.iter_mut().for_each(only_at_the_rack);
}

/// The used part of the constraint that decided an allocation, and its size; `None` for its own
/// demand.
fn used_of(policy: &Policy, shares: &NetworkShares, a: &weir_alloc::Allocation) -> Option<(Bandwidth, Bandwidth)> {
    let network = policy.network();
    let rack = network.machine(a.machine).rack();
    let over = |point, within| match point {
        ContentionPoint::Machine => sum(policy, shares, a.direction, |machine| machine == a.machine, within),
        ContentionPoint::Rack => {
            sum(policy, shares, a.direction, |machine| network.machine(machine).rack() == rack, within)
        }
        ContentionPoint::Fabric => sum(policy, shares, a.direction, |_| true, within),
    };
    Some(match a.decided_by {
        Constraint::Demand => return None,
        Constraint::Machine(machine) => {
            (over(ContentionPoint::Machine, None), policy.machine_capacity(machine, a.direction))
        }
        Constraint::Rack(rack) => (over(ContentionPoint::Rack, None), policy.rack_capacity(rack, a.direction)),
        Constraint::Fabric => (over(ContentionPoint::Fabric, None), policy.fabric_capacity(a.direction)),
        Constraint::Max(service, point) => {
            (over(point, Some(service)), policy.services().get(service).share(point, a.direction).max)
        }
    })
}

/// Whether the split is max-min fair: no child could have more unless one with less per weight gave
/// it.
fn check_step(step: &Step) -> Result<(), TestCaseError> {
    let usable = |row: &weir_alloc::StepRow| row.demand.min(row.share.max);
    let guaranteed = |row: &weir_alloc::StepRow| row.share.min.min(usable(row));
    let got: u128 = step.rows.iter().map(|row| u128::from(row.got.bps())).sum();
    let wants: u128 = step.rows.iter().map(|row| u128::from(usable(row).bps())).sum();
    prop_assert_eq!(got, wants.min(u128::from(step.available.bps())), "conservation in {:?}", step);
    let promised: Bandwidth = step.rows.iter().map(guaranteed).sum();
    for giver in &step.rows {
        prop_assert!(giver.got <= usable(giver));
        if promised > step.available {
            prop_assert!(giver.got <= guaranteed(giver));
            continue;
        }
        prop_assert!(giver.got >= guaranteed(giver));
        for taker in step.rows.iter().filter(|row| row.got < usable(row)) {
            if giver.got == guaranteed(giver) {
                continue;
            }
            let above = |row: &weir_alloc::StepRow| match step.sharing {
                Sharing::Add => row.got.bps() - guaranteed(row).bps(),
                Sharing::Fill => row.got.bps(),
            };
            // One bit on each side is rounding.
            let (give, take) = (above(giver) - 1, above(taker) + 1);
            let (wg, wt) = (u64::from(giver.share.weight.thousandths()), u64::from(taker.share.weight.thousandths()));
            prop_assert!(give * wt <= take * wg, "{} could give to {} in {:?}", giver.name, taker.name, step);
        }
    }
    Ok(())
}

/// Rounds end when none would change a share by more than a kilobit per second; several
/// instances may differ by as much.
const TOLERANCE: Bandwidth = Bandwidth::from_bps(10_000);

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// Every capacity, cap and maximum holds, at every point.
    #[test]
    fn capacities_and_maxima_hold(drawn in drawn_policy()) {
        let policy = drawn.policy(false);
        prop_assume!(policy.is_some());
        let policy = policy.expect("admitted");
        let shares = drawn.shares(&policy);
        let network = policy.network();
        for a in &shares.allocations {
            prop_assert!(a.allocation <= a.demand);
        }
        for direction in Direction::ALL {
            for m in 0..network.machines().len() as u32 {
                let at = |machine| machine == MachineId(m);
                let capacity = policy.machine_capacity(MachineId(m), direction);
                prop_assert!(sum(&policy, &shares, direction, at, None) <= capacity);
                for (id, service) in policy.services().iter() {
                    let max = service.share(ContentionPoint::Machine, direction).max;
                    prop_assert!(sum(&policy, &shares, direction, at, Some(id)) <= max);
                }
            }
            for (r, rack) in network.racks().iter().enumerate() {
                let at = |machine| rack.machines().contains(&machine);
                let capacity = policy.rack_capacity(weir_units::RackId(r as u32), direction);
                prop_assert!(sum(&policy, &shares, direction, at, None) <= capacity);
                for (id, service) in policy.services().iter() {
                    let max = service.share(ContentionPoint::Rack, direction).max;
                    prop_assert!(sum(&policy, &shares, direction, at, Some(id)) <= max);
                }
            }
            prop_assert!(sum(&policy, &shares, direction, |_| true, None) <= policy.fabric_capacity(direction));
            for (id, service) in policy.services().iter() {
                let max = service.share(ContentionPoint::Fabric, direction).max;
                prop_assert!(sum(&policy, &shares, direction, |_| true, Some(id)) <= max);
            }
        }
    }

    /// Where only the rack can limit a service, the deciding constraint is used up to the last bit.
    #[test]
    fn deciding_constraints_are_used_up_at_one_point(drawn in drawn_policy()) {
        let mut drawn = drawn;
        (drawn.nic, drawn.fabric_cap) = (1_000_000, None);
        drawn.services.iter_mut().for_each(only_at_the_rack);
        let policy = drawn.policy(false);
        prop_assume!(policy.is_some());
        let policy = policy.expect("admitted");
        let shares = drawn.shares(&policy);
        for a in &shares.allocations {
            if let Some((used, limit)) = used_of(&policy, &shares, a) {
                prop_assert_eq!(used, limit, "{:?} in\n{}", a, drawn.text(false));
            } else {
                prop_assert_eq!(a.allocation, a.demand);
            }
        }
    }

    /// Unlimited peers that their rack or the fabric limits have equal shares: they have equal claims
    /// at that point, whatever competes with them at their machines.
    #[test]
    fn peers_with_equal_claims_have_equal_shares(drawn in drawn_policy()) {
        let policy = drawn.policy(false);
        prop_assume!(policy.is_some());
        let policy = policy.expect("admitted");
        let shares = drawn.shares(&policy);
        let rack = |machine| policy.network().machine(machine).rack();
        let above = |decided_by| match decided_by {
            Constraint::Rack(_) | Constraint::Fabric => true,
            Constraint::Max(_, point) => point != ContentionPoint::Machine,
            _ => false,
        };
        for a in shares.allocations.iter().filter(|a| above(a.decided_by)) {
            let peers = shares.allocations.iter().filter(|b| {
                (b.service, b.direction, rack(b.machine)) == (a.service, a.direction, rack(a.machine))
            });
            for b in peers {
                // A peer may have less by its own demand or machine, never more.
                prop_assert!(
                    b.allocation <= a.allocation + TOLERANCE,
                    "{:?} beside {:?} in\n{}", a, b, drawn.text(false)
                );
            }
        }
    }

    /// A larger demand never gets its owner less.
    #[test]
    fn more_demand_is_no_loss(drawn in drawn_policy(), chosen in 0usize..60, more in 1u64..60) {
        let policy = drawn.policy(false);
        prop_assume!(policy.is_some());
        let policy = policy.expect("admitted");
        let before = drawn.shares(&policy);
        prop_assume!(!before.allocations.is_empty());
        let a = before.allocations[chosen % before.allocations.len()];
        let after = allocate(&policy, |machine, service, direction| {
            let demand = drawn.demand(&policy, machine, service, direction);
            let own = (machine, service, direction) == (a.machine, a.service, a.direction);
            if own { demand + Bandwidth::from_mbps(more) } else { demand }
        });
        let own = |b: &&weir_alloc::Allocation| {
            (b.machine, b.service, b.direction) == (a.machine, a.service, a.direction)
        };
        let b = after.allocations.iter().find(own).expect("it still demands something");
        prop_assert!(a.allocation <= b.allocation + TOLERANCE, "{:?} became {:?} in\n{}", a, b, drawn.text(false));
    }

    /// Each split on the way to each instance conserves and is max-min fair.
    #[test]
    fn each_split_is_fair(drawn in drawn_policy()) {
        let policy = drawn.policy(false);
        prop_assume!(policy.is_some());
        let policy = policy.expect("admitted");
        let shares = drawn.shares(&policy);
        for a in &shares.allocations {
            let explanation = explain(&policy, &shares, a.machine, a.service, a.direction, a.demand).expect("a leaf");
            prop_assert_eq!(explanation.share, a.allocation);
            for step in &explanation.steps {
                check_step(step)?;
            }
        }
    }

    /// The fabric among its racks, service by service, is the tree with a node for each of them.
    #[test]
    fn the_fabric_by_services_is_the_split_tree(drawn in drawn_policy()) {
        let policy = drawn.policy(false);
        prop_assume!(policy.is_some());
        let policy = policy.expect("admitted");
        let mut allocator = FabricAllocator::new(&policy);
        let racks = allocator.racks();
        for direction in Direction::ALL {
            let demands: Vec<Bandwidth> = (0..allocator.leaves().len() * racks)
                .map(|i| drawn.demands[(7 * i + usize::from(direction == Direction::Rx)) % drawn.demands.len()])
                .map(|demand| demand.map_or(Bandwidth::from_gbps(1), Bandwidth::from_mbps))
                .collect();
            let part = |service: ServiceId, _| {
                let share = policy.services().get(service).share(ContentionPoint::Rack, direction);
                Some(Share { max: Bandwidth::UNLIMITED, ..share })
            };
            let tree = ShareTree::of_services_split(&policy, Place::Fabric, direction, racks, part);
            let (mut shares, mut scratch) = (TreeShares::default(), Scratch::default());
            let capacity = policy.fabric_capacity(direction);
            tree.share(capacity, &demands, |_| Bandwidth::UNLIMITED, &mut shares, &mut scratch);
            let mut found = Vec::new();
            allocator.allocate(direction, &demands, |demand| *demand, |_, rows| {
                match rows {
                    RackRows::Demands => found.extend(vec![Bandwidth::UNLIMITED; racks]),
                    RackRows::Limits(limits) => found.extend(limits),
                }
            });
            let expected: Vec<Bandwidth> = (0..demands.len())
                .map(|part| match shares.holder(&tree, part) {
                    Holder::None => Bandwidth::UNLIMITED,
                    _ => shares.leaf(&tree, part),
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// A file sorted differently is the same policy and gives the same shares.
    #[test]
    fn order_does_not_matter(drawn in drawn_policy()) {
        let (Some(straight), Some(reversed)) = (drawn.policy(false), drawn.policy(true)) else { return Ok(()) };
        prop_assert_eq!(straight.digest(), reversed.digest());
        prop_assert_eq!(drawn.shares(&straight).allocations, drawn.shares(&reversed).allocations);
    }
}

/// Where machines, racks and the fabric limit crossing sets of instances, the rounds end with next
/// to nothing unused: a ceiling set in an early round is not lifted again, and rounds are bounded.
#[test]
fn crossing_points_waste_next_to_nothing() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (mut used, mut limits, mut allocations) = (0u64, 0u64, 0u64);
    for _ in 0..1000 {
        let drawn = drawn_policy().new_tree(&mut runner).expect("a policy is drawn").current();
        let Some(policy) = drawn.policy(false) else { continue };
        let shares = drawn.shares(&policy);
        for (u, l) in shares.allocations.iter().filter_map(|a| used_of(&policy, &shares, a)) {
            (used, limits, allocations) = (used + u.bps(), limits + l.bps(), allocations + 1);
        }
    }
    assert!(allocations > 1000, "only {allocations} allocations were limited");
    assert!(limits - used < limits / 1000, "{used} of {limits} used");
}
