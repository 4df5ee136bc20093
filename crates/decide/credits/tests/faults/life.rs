//! Flows that end and go on, links that fail for long, and observers that find what is wrong.

use crate::plan::{Application, Happening, Plan, Variant};
use crate::world::{Nanos, World};

const MS: Nanos = 1_000_000;

fn run(world: &mut World, until: Nanos) {
    world.run(until).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A flow of 100 kB over three ports.
fn one_flow() -> Plan {
    let mut plan = Plan::new(1, &[0], &[1]);
    plan.flow(0, 0, 0, Application::Size(100_000));
    plan
}

/// The second message follows the first one's end at once, the third when no state of the flow is left but its
/// sender's clock. 100 kB take 0.8 ms at 1 Gb/s.
#[test]
fn three_messages_of_one_connection_arrive() {
    for gap in [0, 5_000, 100_000, 3 * MS] {
        let mut plan = one_flow();
        let end = {
            let mut world = World::new(plan.clone(), 0);
            (1..).map(|step| step * 1_000).find(|&at| {
                run(&mut world, at);
                world.flows[0].over
            })
        };
        let second = end.expect("it ends") + gap;
        plan.happenings.push((second, Happening::Write { flow: 0, bytes: 100_000 }));
        plan.happenings.push((900 * MS, Happening::Write { flow: 0, bytes: 100_000 }));
        let mut world = World::new(plan, 0);
        let mut delivered = [second + 3 * MS, 900 * MS - 1, 903 * MS].map(|at| {
            run(&mut world, at);
            world.flows[0].delivered
        });
        delivered.sort_unstable();
        assert_eq!(delivered, [200_000, 200_000, 300_000], "a gap of {gap} ns");
    }
}

/// Allocations that are on their way when the flow ends do not return it to the shares of ports.
#[test]
fn allocations_behind_a_termination_are_not_recorded() {
    let mut world = World::new(one_flow(), 0);
    let ended = (1..3_000).find(|step| {
        run(&mut world, step * 1_000);
        world.flows[0].over && world.ports[0].recorded() == 0
    });
    let ended = ended.expect("it ends") * 1_000;
    // All that is on its way arrives within a period and a round trip, 250 µs.
    for step in 0..250 {
        run(&mut world, ended + step * 1_000);
        assert_eq!(world.ports[0].recorded(), 0);
    }
    assert!(world.ports.iter().all(|port| port.recorded() == 0));
}

/// The receiver gives the flow up, and a new one continues after the clock of its sender.
#[test]
fn a_flow_continues_after_an_outage() {
    for outage in [1, 5, 20, 50, 200] {
        let mut plan = Plan::new(1, &[0], &[1]);
        plan.backlogs(1, 0, 0);
        let until = (10 + outage) * MS;
        plan.happenings.push((10 * MS, Happening::Outage { flow: 0, until }));
        let mut world = World::new(plan, 0);
        // Requests are repeated after 5, 10 and then every 20 ms.
        let rates = world.rates(until + 21 * MS, until + 31 * MS).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(rates[0] > 990e6, "{rates:?} after {outage} ms");
    }
}

/// The observers see a port that does not count its queue, and grants that expire before their data arrives.
#[test]
fn observers_find_errors_of_the_protocol() {
    let failure = |flows: usize, apart: Nanos, variant: Variant| {
        let mut plan = Plan { variant, ..Plan::new(1, &vec![0; flows], &[1]) };
        for host in 0..flows {
            plan.flow(host, 0, host as Nanos * apart, Application::Backlog);
        }
        World::new(plan, 0).run(60 * MS)
    };
    // Each start leaves a part of a period in the queue; eight flows have the period of one.
    let ignored = Variant { queue_ignored: true, ..Variant::default() };
    let plain = Variant { plain_lifetime: true, ..Variant::default() };
    for (flows, apart, variant, violation) in [(8, 3 * MS, ignored, "A + Q"), (40, 0, plain, "no grant")] {
        assert_eq!(failure(flows, apart, Variant::default()), Ok(()));
        let failure = failure(flows, apart, variant);
        assert!(failure.as_ref().is_err_and(|failure| failure.contains(violation)), "{failure:?}");
    }
}
