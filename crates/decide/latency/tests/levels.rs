//! Levels of policies: bounds from hand, choices of the planner, refusals.

use weir_latency::levels::{Admitted, Bounds, LevelNetwork, Sizes, admit};
use weir_policy::Policy;
use weir_units::Duration;

fn policy(text: &str) -> Policy {
    Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0
}

/// A star of hosts of 10 Gb/s with frames of 1500 B.
fn star(hosts: u32, rest: &str) -> Policy {
    policy(&format!(
        "weir: 1\nnetwork: {{ topology: star, hosts: {hosts}, host-link: {{ rate: 10Gb/s, delay: 1ns }}, packets: {{ \
         payload: 1434B, headers: 66B }} }}\n{rest}"
    ))
}

fn admitted(policy: &Policy) -> Admitted {
    match admit(policy) {
        Ok(admitted) => admitted.expect("a policy with levels"),
        Err(errors) => panic!("{errors}"),
    }
}

fn refused(policy: &Policy) -> String {
    admit(policy).err().map_or_else(|| panic!("admitted"), |errors| errors.render(false))
}

/// Eleven hosts send to each other; ten reach a port. T = 11 · 3 · 1500 B at half of 10 Gb/s: 79.2 µs. Level 1: at the
/// interface two frames, 2.4 µs; then ten bursts of 1500 B + ρ · (2.4 − 0.048) µs = 45 B, and a frame: 13.56 µs.
#[test]
fn a_star_by_hand() {
    let policy = star(
        11,
        "levels: { factors: [1, 2], framing: 0B }\nservices: { a: { match: [ { port: 1 } ], level: 1 }, b: { match: [ \
         { port: 2 } ], level: 2 } }\n",
    );
    assert_eq!(policy.levels().map(|levels| levels.epoch().nanos()), Some(79_200));
    let network = LevelNetwork::new(&policy);
    let bounds = Bounds::of(&policy, &network, Sizes::Frames).expect("no cycle");
    let first = bounds.levels[0].path.expect("bounded").nanos();
    assert_eq!(first, 2_400 + 1 + (10 * 1_545 + 1_500) * 8 / 10 + 1);
    // Super-packets delay a frame at the host's own interface alone.
    let linux = Bounds::of(&policy, &network, Sizes::of_linux(policy.levels().expect("levels").settings()));
    let more = linux.expect("no cycle").levels[0].path.expect("bounded").nanos() - first;
    let super_packet = (65_536 + 46 * 66 - 1_500) * 8 / 10;
    // The longer wait makes bursts larger, too.
    assert!((super_packet..super_packet + 9_000).contains(&more), "{more} beside {super_packet}");
}

const TESTBED: &str = "services:
  ptp: { match: [ { protocol: udp, port: 319 } ], level: auto, latency: { message: 100B, worst: 200us, rate: 10kb/s } }
  cache: { match: [ { port: 11211 } ], level: auto, latency: { message: 1kB, worst: 600us, rate: 50Mb/s } }
  bulk: { match: [ { port: 50010 } ] }
";

#[test]
fn the_planner_chooses_levels_that_hold() {
    let policy = star(12, TESTBED);
    let admitted = admitted(&policy);
    let chosen = admitted.chosen.expect("it was asked to choose");
    assert!(admitted.bounds.is_kept());
    assert!(
        admitted
            .policy
            .services()
            .leaves()
            .all(|(id, service)| { service.level().is_none() || admitted.policy.level_of(id).is_some() })
    );
    // One level serves both: with one, ρ is load · R / n, 416 Mb/s.
    assert_eq!((chosen.factors.len(), chosen.least.1.bps() / 1_000_000), (1, 416));
    for service in &admitted.bounds.services {
        let target = service.target.expect("a target").worst;
        assert!(service.worst.expect("a target").expect("a bound") <= target);
    }
    // Written as numbers the policy is admitted as it is.
    let again = admit(&admitted.policy).expect("admitted").expect("levels");
    assert_eq!((again.bounds, again.chosen), (admitted.bounds, None));
}

/// A large message needs a burst that would delay the small one beyond its target: two levels.
#[test]
fn targets_that_one_level_cannot_keep_get_two() {
    let policy = star(
        20,
        "levels: { segments: 1 }\nservices:
  ptp: { match: [ { port: 319 } ], level: auto, latency: { message: 100B, worst: 60us, rate: 10kb/s } }
  page: { match: [ { port: 80 } ], level: auto, latency: { message: 20kB, worst: 900us, rate: 20Mb/s } }
",
    );
    let admitted = admitted(&policy);
    let chosen = admitted.chosen.expect("it was asked to choose");
    assert_eq!(chosen.factors.len(), 2, "{chosen:?}");
    assert_eq!(chosen.factors[0], 1);
    let level = |name: &str| {
        let services = admitted.policy.services();
        admitted.policy.level_of(services.named(name).expect("a service")).expect("a level").to_string()
    };
    assert_eq!((level("ptp"), level("page")), ("1".to_owned(), "2".to_owned()));
}

/// The largest super-packets with which the targets hold: with one segment more they do not.
#[test]
fn super_packets_are_as_large_as_targets_allow() {
    let text = |more: &str| {
        star(
            12,
            &format!(
                "{more}services: {{ a: {{ match: [ {{ port: 1 }} ], level: auto, latency: {{ message: 100B, worst: \
                 30us, rate: 1Mb/s }} }} }}\n"
            ),
        )
    };
    let segments = admitted(&text("")).chosen.expect("chosen").segments.expect("fewer than Linux's");
    assert!((2..30).contains(&segments), "{segments}");
    assert!(admit(&text(&format!("levels: {{ segments: {segments} }}\n"))).is_ok());
    assert!(admit(&text(&format!("levels: {{ segments: {} }}\n", segments + 1))).is_err());
}

/// A message of nine frames, the last of 594 B, waits for all bytes beyond σ, of four frames, at the level's rate, or
/// at its service's maximum: on Linux for the bytes beyond σ − P before the last frame.
#[test]
fn maxima_lengthen_waits() {
    let text = |rate: &str, max: &str| {
        star(
            12,
            &format!(
                "levels: {{ factors: [4], framing: 0B }}\nservices: {{ a: {{ match: [ {{ port: 1 }} ], level: 1, \
                 latency: {{ message: 12kB, worst: 100ms, rate: {rate} }}{max} }} }}\n"
            ),
        )
    };
    let wait = |max: &str, sizes: Option<Sizes>| {
        let policy = text("1Mb/s", max);
        let sizes = sizes.unwrap_or(Sizes::of_linux(policy.levels().expect("levels").settings()));
        let bounds = Bounds::of(&policy, &LevelNetwork::new(&policy), sizes).expect("no cycle");
        bounds.services[0].wait.nanos()
    };
    let slow = ", machine: { max: 200Mb/s }";
    // ρ: half of 10 Gb/s for twelve hosts.
    assert_eq!(wait("", Some(Sizes::Frames)), (12_594 - 6_000) * 8_000_000_000 / 416_666_666 + 1);
    assert_eq!(wait(slow, Some(Sizes::Frames)), (12_594 - 6_000) * 40 + 1);
    // HTB gives a frame of 60 B 2,401 ns in place of 2,400, and its bucket is a tick of 64 ns smaller.
    assert_eq!(wait(slow, None), (12_000 - 4_498) * 1_000_000_000 / (60_000_000_000 / 2_401) + 1);
    assert!(refused(&text("300Mb/s", slow)).contains("a host may send 199.9"));
}

/// Every level has a bound with token buckets; with windows only the first.
#[test]
fn windows_bound_the_first_level() {
    let bounds = |epoch: &str| {
        let policy = star(
            10,
            &format!(
                "levels: {{ factors: [1, 10], epoch: {epoch} }}\nservices: {{ a: {{ match: [ {{ port: 1 }} ], level: 1 \
                 }}, b: {{ match: [ {{ port: 2 }} ], level: 2 }} }}\n"
            ),
        );
        admitted(&policy).bounds.levels.iter().map(|level| level.path.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(bounds("regulated"), [true, true]);
    assert_eq!(bounds("windowed"), [true, false]);
}

#[test]
fn refusals() {
    let one = |latency: &str, more: &str| {
        format!("{more}services:\n  a: {{ match: [ {{ port: 1 }} ], level: auto, latency: {latency} }}\n")
    };
    let mut out = String::new();
    for (hosts, rest) in [
        (12, one("{ message: 1kB, worst: 1us, rate: 1Mb/s }", "")),
        (12, one("{ message: 1kB, worst: 1ms, rate: 2Gb/s }", "")),
        (12, one("{ message: 1kB, worst: 1ms, rate: 1Mb/s }", "levels: { packet: 80B }\n")),
        (200, one("{ message: 1kB, worst: 1s, rate: 1Mb/s }", "")),
        (
            12,
            one("{ message: 1kB, worst: 20us, rate: 1Mb/s }", "levels: { factors: [1, 2] }\n")
                .replace("level: auto", "level: 2"),
        ),
        (
            12,
            one("{ message: 1kB, worst: 1ms, rate: 1Mb/s }", "levels: { factors: [1] }\n").replace("auto", "1")
                + "  b: { match: [ { port: 2 } ], level: 1 }\n",
        ),
        (
            12,
            one("{ message: 1kB, worst: 1ms, rate: 1Mb/s }", "levels: { factors: [1, 20], epoch: windowed }\n")
                .replace("auto", "2"),
        ),
    ] {
        out.push_str(&refused(&star(hosts, &rest)));
        out.push('\n');
    }
    let ring = "weir: 1\nnetwork:\n  topology: links\n  hosts: [\"h[0-4]\"]\n  switches: [\"s[0-4]\"]\n  links:\n";
    let ring: String = (0..5).fold(ring.to_owned(), |text, at| {
        let next = (at + 1) % 5;
        text + &format!(
            "    - {{ between: [h{at}, s{at}], rate: 1Gb/s }}\n    - {{ between: [s{at}, s{next}], rate: 1Gb/s }}\n"
        )
    });
    let service = "levels: { factors: [1] }\nservices: { a: { match: [ { port: 1 } ], level: 1 } }\n";
    out.push_str(&refused(&policy(&(ring + service))));
    insta::assert_snapshot!(out);
}

/// The classes of ports of a large network are few.
#[test]
fn large_networks_have_few_classes() {
    let text = "weir: 1\nnetwork: { topology: leaf-spine, racks: 50, hosts: 40, spines: 4, host-link: { rate: 10Gb/s \
                }, fabric-link: { rate: 100Gb/s } }\nservices: { a: { match: [ { port: 1 } ], level: auto, machines: [\
                \"h[0-99]\"], latency: { message: 1kB, worst: 1ms, rate: 1Mb/s } } }\n";
    let admitted = admitted(&policy(text));
    let routes = admitted.network.routes().expect("no cycle");
    assert!(routes.ports.len() < 20, "{}", routes.ports.len());
    let worst = admitted.bounds.services[0].worst.expect("a target").expect("a bound");
    assert!(worst > Duration::from_micros(100) && worst <= Duration::from_millis(1));
}
