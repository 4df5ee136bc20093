//! Accepted policies: their content, ids, fingerprints, classification.

mod texts;

use proptest::prelude::*;
use std::fmt::Write;
use weir_network::switches::Map;
use weir_policy::{Level, LevelChoice, Policy, Protocol, Sharing};
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, MachineId, ServiceId};

fn read(text: &str) -> Policy {
    match Policy::parse("policy.yaml", text) {
        Ok((policy, _)) => policy,
        Err(errors) => panic!("{errors}"),
    }
}

fn gbps(text: &str) -> Bandwidth {
    text.parse().expect("a rate")
}

#[test]
fn the_example_of_the_language() {
    let policy = read(texts::EXAMPLE);
    assert_eq!(policy.sharing(), Sharing::Add);
    let names: Vec<_> = policy.network().machines().iter().map(|machine| machine.name()).collect();
    assert_eq!(names, ["m1", "m2"]);
    let dfs = policy.services().get(policy.services().named("dfs").unwrap());
    let share = dfs.share(ContentionPoint::Rack, Direction::Rx);
    assert_eq!((share.min, share.max, share.weight.thousandths()), (gbps("6Gb/s"), Bandwidth::UNLIMITED, 2000));
    assert_eq!(dfs.share(ContentionPoint::Fabric, Direction::Tx), weir_policy::Share::default());
    assert_eq!(dfs.matches()[0].protocol, Some(Protocol::TCP));
    assert_eq!(dfs.matches()[0].ports, Some((7000, 7099)));
    let rack = policy.network().rack_named("r1").unwrap();
    assert_eq!(policy.rack_capacity(rack, Direction::Tx), gbps("9Gb/s"));
    assert_eq!(policy.machine_capacity(MachineId(1), Direction::Tx), gbps("10Gb/s"));
    assert_eq!(policy.fabric_capacity(Direction::Tx), gbps("10Gb/s"));
}

/// Parley Figs 1, 5, 6 and 14 are feasible as published.
#[test]
fn the_policies_of_the_papers() {
    read(texts::FIG5);
    read(texts::FIG6);
    read(include_str!("../../../../scenarios/parley-fig1.policy.yaml"));
    let fig14 = read(include_str!("../../../../scenarios/parley-fig14.policy.yaml"));
    assert_eq!(fig14.sharing(), Sharing::Fill);
    let senders = fig14.network().rack_named("senders").unwrap();
    assert_eq!(fig14.rack_capacity(senders, Direction::Tx), gbps("600Mb/s"));
    assert_eq!(fig14.rack_capacity(senders, Direction::Rx), gbps("800Mb/s"));
    let b = fig14.services().get(fig14.services().named("b").unwrap());
    assert_eq!(b.share(ContentionPoint::Rack, Direction::Tx).min, gbps("300Mb/s"));
    assert_eq!(b.share(ContentionPoint::Rack, Direction::Rx).min, Bandwidth::ZERO);
}

#[test]
fn every_key_is_read() {
    let (policy, notes) = Policy::parse("policy.yaml", texts::EVERYTHING).unwrap();
    let mut out = String::new();
    for (i, rack) in policy.network().racks().iter().enumerate() {
        writeln!(out, "rack {i} {} {:?} {:?}", rack.name(), rack.uplink(), rack.machines()).unwrap();
    }
    for (i, machine) in policy.network().machines().iter().enumerate() {
        let (nic, address) = (machine.nic(), machine.address());
        writeln!(
            out,
            "machine {i} {} rack {} tx {} rx {} {address:?}",
            machine.name(),
            machine.rack().0,
            nic.tx,
            nic.rx
        )
        .unwrap();
    }
    writeln!(out, "{:?}", policy.network().port_buffers()).unwrap();
    for (id, service) in policy.services().iter() {
        writeln!(out, "service {} {} {:?} order {}", id.0, service.path(), service.sharing(), service.order()).unwrap();
        writeln!(out, "  parent {:?} children {:?}", service.parent(), service.children()).unwrap();
        for filter in service.matches() {
            writeln!(out, "  match {}", filter.canonical_text()).unwrap();
        }
        for point in ContentionPoint::ALL {
            for direction in Direction::ALL {
                let share = service.share(point, direction);
                if share != weir_policy::Share::default() {
                    writeln!(out, "  {point} {direction} min {} max {} weight {}", share.min, share.max, share.weight)
                        .unwrap();
                }
            }
        }
        let (latency, worst) = (service.latency(), service.worst_latency());
        writeln!(out, "  latency {latency:?} worst {worst:?} level {:?}", service.level()).unwrap();
        if let Some(weight) = service.credits() {
            writeln!(out, "  credits weight {weight}").unwrap();
        }
        if service.is_leaf() {
            writeln!(out, "  {:?} senders {:?}", service.shaper(), service.senders()).unwrap();
        }
    }
    writeln!(out, "{:?}", policy.tunnels()).unwrap();
    writeln!(out, "caps {:?}", policy.caps()).unwrap();
    writeln!(out, "{:?} {:#?}", policy.network().offer(), policy.levels()).unwrap();
    writeln!(out, "forwarders {} {:?}", policy.network().forwarders(), policy.credits()).unwrap();
    writeln!(out, "tenants {:?}", policy.tenants()).unwrap();
    for (id, filter) in policy.services().classification_order() {
        writeln!(out, "try {} for {}", filter.canonical_text(), policy.services().get(id).path()).unwrap();
    }
    for note in &notes {
        out.push_str(&note.render(false));
    }
    insta::assert_snapshot!(out);
    let ping = policy.services().get(policy.services().named("ping").unwrap());
    assert_eq!(ping.level(), Some(LevelChoice::Numbered(Level::from_index(1))));
}

/// A written kind replaces its default ports. The default, written or not, leaves fingerprints as they were.
#[test]
fn tunnels_have_ports() {
    let of = |tunnels: &str| read(&texts::EXAMPLE.replace("caps:", &format!("{tunnels}\ncaps:")));
    let ports = |tunnels: &str| {
        let policy = of(tunnels);
        (policy.tunnels().vxlan().to_vec(), policy.tunnels().geneve().to_vec())
    };
    assert_eq!(ports(""), (vec![4789, 8472], vec![6081]));
    assert_eq!(ports("tunnels: { vxlan: 4790 }"), (vec![4790], vec![6081]));
    assert_eq!(ports("tunnels: { geneve: [6082, 6081] }"), (vec![4789, 8472], vec![6081, 6082]));
    // The default ports of each other.
    assert_eq!(ports("tunnels: { vxlan: 6081, geneve: [8472] }"), (vec![6081], vec![8472]));
    assert_eq!(ports("tunnels: { vxlan: [1, 2, 3, 65535], geneve: [4, 5, 6, 7] }").0, [1, 2, 3, 65_535]);
    let written = of("tunnels: { vxlan: [8472, 4789], geneve: 6081 }");
    assert_eq!(written.digest(), of("").digest());
    assert_eq!(*written.tunnels(), weir_policy::Tunnels::default());
    let digests = ["vxlan: 4790", "geneve: 4790", "vxlan: [4789, 4790]"];
    let digests = digests.map(|of_kind| of(&format!("tunnels: {{ {of_kind} }}")).digest());
    assert!(!digests.contains(&written.digest()) && digests[0] != digests[1] && digests[0] != digests[2]);
}

/// The notes on a service with these settings. Two racks have uplinks of 10 Gb/s, two and three machines of 1 Gb/s.
fn effect_notes(settings: &str, caps: &str) -> Vec<String> {
    let text = format!(
        "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks:\n    r1: {{ uplink: 10Gb/s, machines: [m1, m2] }}\n    r2: {{ \
         uplink: 10Gb/s, machines: [m3, m4, m5] }}\n  machines: {{ m5: {{ nic: {{ tx: 2Gb/s, rx: 1Gb/s }} }} \
         }}\nservices:\n  a: {{ match: [ {{ port: 1 }} ]{settings} }}\n{caps}"
    );
    let (_, notes) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    notes.iter().map(|note| format!("{} ({})", note.cause(), note.hint())).collect()
}

/// A setting just below the bound has its effect and no note.
#[test]
fn shares_without_effect_are_noted() {
    let service = |settings: &str| effect_notes(&format!(", {settings}"), "");
    let noted = |list: Vec<String>, expected: &[&str]| assert_eq!(list, expected);

    noted(
        service("machine: { max: 5Gb/s }"),
        &[
            "service `a`: the maximum 5 Gb/s at the machine (rx) has no effect: its machines have at most 1 Gb/s \
             (leave `max` out, or write less than `1Gb/s`)",
            "service `a`: the maximum 5 Gb/s at the machine (tx) has no effect: \
           its machines have at most 2 Gb/s (leave `max` out, or write less than `2Gb/s`)",
        ],
    );
    noted(
        service("machines: [\"m[1-4]\"], machine: { max: 1Gb/s }"),
        &["service `a`: the maximum 1 Gb/s at the machine (tx and rx) has no effect: its machines have at most 1 \
             Gb/s (leave `max` out, or write less than `1Gb/s`)"],
    );
    noted(service("machine: { max: 999Mb/s }"), &[]);
    noted(service("machine: { max: unlimited }, rack: { max: 50Gb/s }, fabric: { max: 50Gb/s }"), &[]);

    noted(
        service("rack: { min: 8Gb/s }"),
        &[
            "service `a`: of the minimum 8 Gb/s at the rack (rx) only 3 Gb/s can be used: its machines in a rack \
             carry no more (write at most `3Gb/s`)",
            "service `a`: of the minimum 8 Gb/s at the rack (tx) only 4 Gb/s can be used: \
           its machines in a rack carry no more (write at most `4Gb/s`)",
        ],
    );
    noted(service("rack: { rx: { min: 3Gb/s }, tx: { min: 4Gb/s } }"), &[]);
    noted(
        service("machine: { max: 500Mb/s }, rack: { min: 1501Mb/s }"),
        &["service `a`: of the minimum 1.501 Gb/s at the rack (tx and rx) only 1.5 Gb/s can be used: its machines \
             in a rack carry no more (write at most `1.5Gb/s`)"],
    );
    noted(
        service("rack: { max: 2Gb/s }, fabric: { min: 4001Mb/s }"),
        &["service `a`: of the minimum 4.001 Gb/s at the fabric (tx and rx) only 4 Gb/s can be used: its racks \
             carry no more (write at most `4Gb/s`)"],
    );
    noted(service("rack: { max: 2Gb/s }, fabric: { min: 4Gb/s }"), &[]);

    noted(
        service("machine: { min: 900Mb/s }, rack: { max: 1500Mb/s }"),
        &["service `a`: where all 3 machines of a rack are busy, each has 500 Mb/s of the minimum 900 Mb/s at the \
             machine (tx and rx): the maximum at the rack is 1.5 Gb/s (raise that `max`, or write at most \
             `500Mb/s`)"],
    );
    noted(service("machine: { min: 500Mb/s }, rack: { max: 1500Mb/s }"), &[]);
    noted(
        service("rack: { min: 2Gb/s }, fabric: { max: 3Gb/s }"),
        &["service `a`: where all 2 racks are busy, each has 1.5 Gb/s of the minimum 2 Gb/s at the rack (tx and \
             rx): the maximum at the fabric is 3 Gb/s (raise that `max`, or write at most `1.5Gb/s`)"],
    );
    noted(service("machines: [m1], rack: { min: 1Gb/s }, fabric: { max: 1Gb/s }"), &[]);
    noted(effect_notes("", ""), &[]);
}

#[test]
fn caps_without_effect_are_noted() {
    let caps = |caps: &str| effect_notes("", &format!("caps: {{ {caps} }}\n"));
    let noted = |list: Vec<String>, expected: &[&str]| assert_eq!(list, expected);
    noted(caps("rack: 9999Mb/s, machine: 999Mb/s, fabric: 19Gb/s"), &[]);
    noted(
        caps("machine: { tx: 2Gb/s, rx: 1Gb/s }, rack: 50Gb/s, fabric: 20Gb/s"),
        &[
            "the cap 2 Gb/s at the machine (tx) has no effect: machines have at most 2 Gb/s (leave it out, or write \
             less than `2Gb/s`)",
            "the cap 1 Gb/s at the machine (rx) has no effect: machines have at most 1 Gb/s (leave it \
           out, or write less than `1Gb/s`)",
            "the cap 50 Gb/s at the rack (tx and rx) has no effect: uplinks have at \
           most 10 Gb/s (leave it out, or write less than `10Gb/s`)",
            "the cap 20 Gb/s at the fabric (tx and rx) has no \
           effect: uplinks sum to 20 Gb/s (leave it out, or write less than `20Gb/s`)",
        ],
    );
}

/// The bound of a nested service may be a maximum above it.
#[test]
fn a_maximum_above_that_of_the_parent_is_noted() {
    let notes = |max: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1, m2] }} }} \
             }}\nservices:\n  p:\n    machine: {{ max: 1Gb/s }}\n    services:\n      a: {{ match: [ {{ port: 1 }} ], \
             machine: {{ max: {max} }} }}\n      b: {{ match: [ {{ port: 2 }} ], rack: {{ rx: {{ min: 2001Mb/s }} }} \
             }}\n"
        );
        let text = text.replace("p:\n", "p:\n    rack: { rx: { min: 2001Mb/s } }\n");
        let (_, notes) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        notes.iter().map(|note| format!("{} ({})", note.cause(), note.hint())).collect::<Vec<_>>()
    };
    let unused = |path: &str, children: &str| {
        format!(
            "service `{path}`: of the minimum 2.001 Gb/s at the rack (rx) only 2 Gb/s can be used: its machines in a \
             rack carry no more (write at most `2Gb/s`{children})"
        )
    };
    let nested = unused("p/b", "");
    let parent = unused("p", ", and lower those of its children");
    let max = "service `p/a`: the maximum 2 Gb/s at the machine (tx and rx) has no effect: `p`, in which it is \
               nested, has 1 Gb/s (leave `max` out, or write less than `1Gb/s`)";
    assert_eq!(notes("2Gb/s"), [parent.clone(), max.to_owned(), nested.clone()]);
    assert_eq!(notes("999Mb/s"), [parent, nested]);
}

/// The policy of a service `a` with these filters on one machine, and the causes of its notes.
fn matching(filters: &str) -> (Policy, Vec<String>) {
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1] }} }} }}\n\
         services: {{ a: {{ match: [ {filters} ] }} }}\n"
    );
    let (policy, notes) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let notes = notes.iter().map(|note| note.cause().to_owned()).collect();
    (policy, notes)
}

/// An IPv4-mapped prefix matches packets of IPv4, since it is read as the IPv4 one.
#[test]
fn ipv4_mapped_prefixes_are_of_ipv4() {
    let (plain, notes) = matching("{ address: 10.0.0.0/8 }");
    assert!(notes.is_empty());
    let (mapped, notes) = matching("{ address: \"::ffff:10.0.0.0/104\" }");
    assert_eq!(mapped.services().all()[0].matches(), plain.services().all()[0].matches());
    assert_eq!(mapped.digest(), plain.digest());
    let cause = "`::ffff:10.0.0.0/104` is of IPv4 addresses in the notation of IPv6: it is read as `10.0.0.0/8`";
    assert_eq!(notes, [cause]);
    assert!(matching("{ address: \"::/0\" }").1.is_empty());
}

/// A list is a filter for each value, or for each pair of values.
#[test]
fn lists_are_filters_for_each_value() {
    let digest = |filters: &str| matching(filters).0.digest();
    let separate = "{ protocol: tcp, port: 80 }, { protocol: tcp, port: 443 }, { protocol: tcp, port: 7000-7099 }";
    for ports in
        ["[80, 443, 7000-7099]", "\"80,443,7000-7099\"", "[\"443, 80\", 7000-7099]", "[80, 443, 443, 7000-7099]"]
    {
        assert_eq!(digest(&format!("{{ protocol: tcp, port: {ports} }}")), digest(separate), "{ports}");
    }
    let pairs = "{ port: 80, dscp: 26 }, { port: 80, dscp: 46 }, { port: 443, dscp: 26 }, { port: 443, dscp: 46 }";
    assert_eq!(digest("{ port: [80, 443], dscp: [AF31, EF] }"), digest(pairs));
    assert_eq!(digest("{ dscp: CS5 }"), digest("{ dscp: 40 }"));
    assert_ne!(digest("{ port: [80, 443] }"), digest("{ port: 80-443 }"));
    let ports = (1..=4_096).map(|port| port.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(matching(&format!("{{ port: [{ports}] }}")).0.services().all()[0].matches().len(), 4_096);
    // In the block style a comma needs no quotes.
    let block = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\n\
                 services:\n  a:\n    match:\n      - port: 80,443\n";
    assert_eq!(read(block).digest(), digest("{ port: [80, 443] }"));
}

#[test]
fn dscp_values_have_names() {
    let with = |dscps: [&str; 2], reserved: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, switches: {{ queues: 8, scheduler: {{ strict: 4, weighted: 4 }} }}, \
             racks: {{ r: {{ uplink: 1Gb/s, machines: [m1] }} }} }}\n\
             services: {{ a: {{ match: [ {{ port: 1 }} ], level: 1 }} }}\nlevels: {{ factors: [1, 2], dscp: [{}, {}] \
             }}\ntenants: {{ t: {{ vms: 1, bandwidth: 1Mb/s, match: [ {{ vni: 1 }} ] }} }}\n\
             tenant-queues: {{ reserved-dscp: [{reserved}] }}\n",
            dscps[0], dscps[1]
        );
        read(&text)
    };
    let (names, numbers) = (with(["EF", "AF31"], "CS1, LE"), with(["46", "26"], "8, 1"));
    assert_eq!((names.levels(), names.tenant_queues()), (numbers.levels(), numbers.tenant_queues()));
    assert_eq!(names.tenant_dscps(), numbers.tenant_dscps());
}

#[test]
fn dscp_maps_are_of_ports_or_of_switches() {
    let map = |switches: &str, topology: bool| {
        let network = match topology {
            true => format!("{{ topology: star, hosts: 2, host-link: {{ rate: 1Gb/s }}, switches: {switches} }}"),
            false => {
                format!("{{ nic: 1Gb/s, racks: {{ r: {{ uplink: 1Gb/s, machines: [m1] }} }}, switches: {switches} }}")
            }
        };
        read(&format!("weir: 1\nnetwork: {network}\nservices: {{ a: {{ match: [ {{ port: 1 }} ] }} }}\n"))
            .network()
            .map()
    };
    for topology in [true, false] {
        assert_eq!(map("{ scheduler: weighted }", topology), Map::PerPort);
        assert_eq!(map("{ scheduler: weighted, dscp-map: port }", topology), Map::PerPort);
        assert_eq!(map("{ queues: 8, scheduler: weighted, dscp-map: switch }", topology), Map::PerSwitch);
    }
}

/// A guest's packets have no socket on its host: a note, since the interface may be the agent's own.
#[test]
fn filters_of_guests_by_socket_are_noted() {
    let notes = |filter: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1] }} }} }}\n\
             services: {{ a: {{ match: [ {{ {filter} }} ] }} }}\n"
        );
        let (_, notes) = Policy::parse("policy.yaml", &text).expect("valid");
        notes.iter().map(|note| note.cause().to_owned()).collect::<Vec<String>>()
    };
    let expected = "a filter of service `a` needs a socket, and packets of guests have none here";
    for (filter, is_noted) in [
        ("interface: \"tap*\", priority: 3", true),
        ("interface: \"tap*\", cgroup: /a", true),
        ("interface: \"tap*\", port: 80", false),
        ("pod: { namespace: shop }, cgroup: /a", true),
        ("pod: { namespace: shop }, port: 80", false),
        ("cgroup: /a", false),
    ] {
        assert_eq!(notes(filter).iter().any(|note| note == expected), is_noted, "{filter}: {:?}", notes(filter));
    }
}

/// The union of the machines of a level's services may send on it; guarantees are of what levels leave.
#[test]
fn senders_of_levels() {
    let text = |more: &str| {
        format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r: {{ uplink: 40Gb/s, machines: [\"m[1-9]\"] }} }} }}\n\
             levels: {{ factors: [1, 10] }}\nservices:\n  a: {{ match: [ {{ port: 1 }} ], level: 1, machines: [m1, m2] \
             }}\n  b: {{ match: [ {{ port: 2 }} ], level: guaranteed, machines: [m2, m3] }}\n  c: {{ match: [ {{ port: \
             3 }} ], level: 2 }}\n{more}"
        )
    };
    let policy = read(&text(""));
    let levels = policy.levels().unwrap();
    let counts: Vec<u64> = levels.all().iter().map(|level| level.sender_count).collect();
    assert_eq!(counts, [3, 9]);
    // (3 + 90) frames of 1538 B at half of 10 Gb/s.
    assert_eq!(levels.epoch().nanos(), (93 * 1_538 * 8_u64).div_ceil(5));
    let guaranteed = |min: &str| text(&format!("  d: {{ match: [ {{ port: 4 }} ], machine: {{ min: {min} }} }}\n"));
    // Of 9.5 Gb/s that a machine's services may receive.
    read(&guaranteed("4.75Gb/s"));
    assert!(Policy::parse("policy.yaml", &guaranteed("5.1Gb/s")).is_err());
}

#[test]
fn credits_of_services() {
    let with = |network: &str, credits: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 1Gb/s, machines: [m1, m2] }} }}{network} }}\n\
             services: {{ x: {{ match: [ {{ port: 1 }} ]{credits} }} }}\n"
        );
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let forwarders = ", switches: { forwarders: true }";
    let weight = |policy: &Policy| policy.services().all()[0].credits().map(weir_units::Weight::thousandths);
    let (two, notes) = with(forwarders, ", credits: { weight: 2 }");
    assert_eq!((weight(&two), notes.len(), two.network().forwarders()), (Some(2_000), 0, true));
    let (one, _) = with(forwarders, ", credits: {}");
    assert_eq!(weight(&one), Some(1_000));
    // The ends of a flow use one weight; the switches' part is their own.
    assert_ne!(one.digest(), two.digest());
    assert_eq!(two.digest(), with("", ", credits: { weight: 2 }").0.digest());
    let (none, notes) = with(", switches: { forwarders: true }", "");
    assert_eq!((weight(&none), none.credits(), none.credit_plan()), (None, None, None));
    assert_eq!(notes[0].cause(), "switches grant credits, and no service has any");
    let (_, notes) = with("", ", credits: {}");
    assert!(notes[0].cause().starts_with("service `x` has credits, and no switch grants any"), "{:?}", notes[0]);
    assert!(with(", switches: { forwarders: false }", "").1.is_empty());
}

#[test]
fn weights_of_senders() {
    let policy = read(texts::EVERYTHING);
    let web = policy.services().named("web").unwrap();
    let weight = |service, name: &str| policy.sender_weight(service, policy.network().machine_named(name).unwrap());
    for (name, thousandths) in [("m1", 2000), ("m2", 1000), ("m3", 500), ("m4", 500), ("m5", 1000), ("n08", 1000)] {
        assert_eq!(weight(web, name).thousandths(), thousandths, "{name}");
    }
    let ping = policy.services().named("ping").unwrap();
    assert_eq!(weight(ping, "m1"), weir_units::Weight::ONE);
    assert_eq!(policy.services().get(ping).shaper(), weir_policy::Shaper::default());
}

/// Changed values act as if they had been written; changes add up; one at the same path replaces
/// the one before.
#[test]
fn a_value_changed_at_run_time() {
    let policy = read(texts::EXAMPLE);
    let changed = policy.with("services.vm.rack.max=500Mb/s").unwrap();
    assert_eq!(changed, read(&texts::EXAMPLE.replace("    rack:    { max: 1Gb/s }", "    rack:    { max: 500Mb/s }")));
    assert_ne!(changed.digest(), policy.digest());
    let both = changed.with("caps.fabric=5Gb/s").unwrap().with("services.vm.rack.max = 1Gb/s").unwrap();
    assert_eq!(both, read(&texts::EXAMPLE.replace("  rack: 9Gb/s", "  rack: 9Gb/s\n  fabric: 5Gb/s")));
    assert_eq!(policy.with("sharing=fill").unwrap().sharing(), Sharing::Fill);
    assert_eq!(policy, read(texts::EXAMPLE), "the policy itself is as it was");
}

#[test]
fn numbers_in_names_count_by_value() {
    let policy = read(
        "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r10: { uplink: 1Gb/s, machines: [b] }, r9: { uplink: 1Gb/s, \
         machines: [m10, m2] } } }\n\
         services:\n  s10: { match: [ { port: 10 } ] }\n  s9: { services: { b: { match: [ { port: 1 } ] }, a: { \
         match: [ { port: 2 } ] } } }\n",
    );
    let machines: Vec<_> = policy.network().machines().iter().map(|machine| machine.name()).collect();
    assert_eq!(machines, ["m2", "m10", "b"]);
    let services: Vec<_> = policy.services().all().iter().map(|service| service.path()).collect();
    assert_eq!(services, ["s9", "s9/a", "s9/b", "s10"]);
    for (i, name) in services.iter().enumerate() {
        assert_eq!(policy.services().named(name), Some(ServiceId(i as u32)));
    }
    assert_eq!(policy.services().roots(), [ServiceId(0), ServiceId(3)]);
    assert_eq!(policy.network().machine_named("m10"), Some(MachineId(1)));
    assert_eq!(policy.network().machine_named("m1"), None);
}

/// Content that decides shares and ids changes the fingerprint; nothing else does.
#[test]
fn the_fingerprint() {
    let base = read(texts::EXAMPLE).digest();
    for (from, to) in [
        ("weight: 2", "weight: 3"),
        ("rack: 9Gb/s", "rack: 8Gb/s"),
        ("nic: 10Gb/s", "nic: 11Gb/s"),
        ("uplink: 10Gb/s", "uplink: 11Gb/s"),
        ("machines: [m1, m2]", "machines: [m1, m3]"),
        ("7000-7099", "7000-7098"),
        ("  vm:", "  wm:"),
        ("services:", "tenants: { t: { vms: 1, bandwidth: 1Gb/s } }\nservices:"),
        ("caps:", "sharing: fill\ncaps:"),
        ("machine: { max: 1Gb/s }", "machine: { tx: { max: 1Gb/s } }"),
        ("    rack:    { max: 1Gb/s }", "    rack:    { max: 1Gb/s }\n    order: 1"),
        ("    rack:    { max: 1Gb/s }", "    rack:    { max: 1Gb/s }\n    senders: { m2: 2 }"),
    ] {
        let changed = texts::EXAMPLE.replace(from, to);
        assert_ne!(changed, texts::EXAMPLE, "{from}");
        assert_ne!(read(&changed).digest(), base, "{to}");
    }
    for (from, to) in [
        ("# format version", "# another comment"),
        ("10Gb/s", "10000 Mb/s"),
        ("machines: [m1, m2]", "machines: [\"m[1-2]\"]"),
        ("machines: [m1, m2]", "machines: [m2, m1]"),
        ("  nic: 10Gb/s", "  nic: 10Gb/s\n  machines: { m1: { address: 10.0.0.1 } }"),
        ("  nic: 10Gb/s", "  nic: 10Gb/s\n  switches: { buffer: 256kB }"),
        (
            "    rack:    { max: 1Gb/s }",
            "    rack:    { max: 1Gb/s }\n    level: auto\n    latency: { message: 1kB, worst: 1ms, rate: 1Mb/s }\n\
             levels: { load: 10% }",
        ),
        ("    rack:    { max: 1Gb/s }", "    rack:    { max: 1Gb/s }\n    shaper: { interval: 1ms, burst: 9kB }"),
        ("    rack:    { max: 1Gb/s }", "    rack:    { max: 1Gb/s }\n    senders: { m2: 1 }"),
        ("caps:", "tenant-queues: { paths: spread }\ncaps:"),
    ] {
        assert_eq!(read(&texts::EXAMPLE.replace(from, to)).digest(), base, "{to}");
    }
    // Fixed for all time: hosts of different builds compare it.
    assert_eq!(format!("{base:016x}"), "833a66e0d6833c41");
}

#[test]
fn large_policies_are_read_fast() {
    let mut text = "weir: 1\nnetwork: { nic: 100Gb/s, racks: {".to_owned();
    for rack in 0..100 {
        write!(text, "r{rack}: {{ uplink: 1Tb/s, machines: [\"r{rack}m[1-1000]\"] }}, ").unwrap();
    }
    text.push_str("} }\nservices:\n");
    for service in 0..100_000 {
        let (net, host) = (service / 250, service % 250);
        writeln!(
            text,
            "  s{service}: {{ match: [ {{ port: {}, address: 10.{}.{}.{host} }} ] }}",
            service % 60_000 + 1,
            net / 250,
            net % 250
        )
        .unwrap();
    }
    let policy = read(&text);
    assert_eq!((policy.services().all().len(), policy.network().machines().len()), (100_000, 100_000));
}

/// A policy as lists of lines whose order in the file is arbitrary.
fn shuffled() -> impl Strategy<Value = (String, String)> {
    let service = |i: usize| {
        format!(
            "  s{i}: {{ rack: {{ max: {}Mb/s, min: 1Mb/s }}, match: [ {{ port: {}, protocol: tcp }}, {{ port: {} }} \
             ] }}",
            i * 10,
            i * 2 + 1000,
            i * 2 + 1001
        )
    };
    let rack = |i: usize| format!("    r{i}: {{ uplink: 10Gb/s, machines: [\"r{i}m[1-3]\"] }}");
    let services: Vec<_> = (1..14).map(service).collect();
    let racks: Vec<_> = (8..12).map(rack).collect();
    let file = |racks: &[String], services: &[String], swap: bool| {
        let network = format!("network:\n  nic: 1Gb/s\n  racks:\n{}\n", racks.join("\n"));
        let services = format!("services:\n{}\n", services.join("\n"));
        if swap { format!("weir: 1\n{services}{network}") } else { format!("{network}{services}weir: 1\n") }
    };
    let sorted = file(&racks, &services, false);
    (Just(racks).prop_shuffle(), Just(services).prop_shuffle(), any::<bool>())
        .prop_map(move |(racks, services, swap)| (sorted.clone(), file(&racks, &services, swap)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_order_of_the_file_leaves_no_trace((sorted, shuffled) in shuffled()) {
        prop_assert_eq!(read(&sorted), read(&shuffled));
    }
}

/// One size is that of every port; a point without one stays unknown.
#[test]
fn buffers_of_ports() {
    let buffers = |switches: &str| {
        let text = texts::EXAMPLE.replace("  nic: 10Gb/s", &format!("  nic: 10Gb/s\n{switches}"));
        let of = read(&text).network().port_buffers();
        [of.machine, of.rack].map(|buffer| buffer.map(Bytes::get))
    };
    assert_eq!(buffers(""), [None, None]);
    assert_eq!(buffers("  switches: { buffer: 256kB }"), [Some(256_000), Some(256_000)]);
    assert_eq!(buffers("  switches: { buffer: { rack: 4MB } }"), [None, Some(4_000_000)]);
}

/// 20 services of 2 Gb/s, each on 4 of 40 machines of 10 Gb/s.
fn on_four_of_forty(machines: bool) -> String {
    let mut text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 100Gb/s, machines: [\"m[1-40]\"] } } }\n\
        services:\n"
        .to_owned();
    for service in 0..20 {
        let first = service % 10 * 4 + 1;
        let on = if machines { format!(", machines: [\"m[{first}-{}]\"]", first + 3) } else { String::new() };
        let _ =
            writeln!(text, "  s{service}: {{ match: [ {{ port: {} }} ], machine: {{ min: 2Gb/s }}{on} }}", service + 1);
    }
    text
}

#[test]
fn services_have_guarantees_on_their_machines_only() {
    let policy = read(&on_four_of_forty(true));
    let (s9, m40) = (policy.services().named("s9").expect("a service"), MachineId(39));
    assert_eq!(policy.guaranteed(ContentionPoint::Machine, Direction::Rx), gbps("4Gb/s"));
    let min = |machine| policy.share_at(s9, weir_policy::Place::Machine(machine), Direction::Tx).min;
    assert_eq!([min(m40), min(MachineId(0))], [gbps("2Gb/s"), Bandwidth::ZERO]);
    let errors = Policy::parse("policy.yaml", &on_four_of_forty(false)).expect_err("40 Gb/s do not fit 10 Gb/s");
    let [error] = errors.all() else { panic!("{errors}") };
    assert!(error.cause().contains("they sum to 40 Gb/s, the capacity is 10 Gb/s"), "{error:?}");
    assert!(error.hint().contains("name its `machines`"), "{error:?}");
    // One service more on m1 to m4, and three of them are above their interfaces.
    let more = on_four_of_forty(true)
        + "  more: { match: [ { port: 99 } ], machine: { min: 7Gb/s }, machines: [\"m[2-9]\"] }\n";
    let errors = Policy::parse("policy.yaml", &more).expect_err("11 Gb/s do not fit 10 Gb/s");
    assert!(errors.all()[0].cause().starts_with("the minima do not fit machines `m2`, `m3`, `m4`, `m5`, `m6`"));
}

/// Children on different machines need the larger of their minima, not the sum.
#[test]
fn children_on_other_machines_do_not_add_up() {
    let text = |b: &str| {
        format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r: {{ uplink: 40Gb/s, machines: [\"m[1-4]\"] }} }} }}\n\
             services:\n  p:\n    machine: {{ min: 4Gb/s }}\n    machines: [\"m[1-4]\"]\n    services:\n      \
             a: {{ match: [ {{ port: 1 }} ], machine: {{ min: 4Gb/s }}, machines: [\"m[1-2]\"] }}\n      \
             b: {{ match: [ {{ port: 2 }} ], machine: {{ min: 3Gb/s }}, machines: [{b}] }}\n"
        )
    };
    let policy = read(&text("m3, m4"));
    let digest = policy.digest();
    assert_ne!(read(&text("m3")).digest(), digest);
    assert_eq!(read(&text("m4, m3")).digest(), digest);
    let errors = Policy::parse("policy.yaml", &text("m2, m3")).expect_err("both on m2");
    assert!(errors.all()[0].cause().contains("sum to 7 Gb/s"), "{errors}");
}
