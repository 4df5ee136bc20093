//! Every refusal of the language, as people see it.

mod texts;

use weir_policy::{Policy, language};

fn refused(text: &str) -> String {
    match Policy::parse("policy.yaml", text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors.render(false),
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// The example with one thing changed.
fn changed(from: &str, to: &str) -> String {
    let text = texts::EXAMPLE.replace(from, to);
    assert_ne!(text, texts::EXAMPLE, "{from}");
    text
}

/// A policy with the given services on two machines of 10 Gb/s behind 10 Gb/s.
fn services(text: &str) -> String {
    let mut policy =
        "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } } }\nservices:\n"
            .to_owned();
    policy.push_str(text);
    policy
}

/// A policy of ten machines of 10 Gb/s with these levels and services.
fn levels(levels: &str, services: &str) -> String {
    format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [\"m[0-9]\"] }} }} }}\n\
         {levels}\nservices:\n{services}"
    )
}

/// The same with a service on level 1.
fn one_level(text: &str) -> String {
    levels(text, "  a: { match: [ { port: 1 } ], level: 1 }\n")
}

/// A policy with the given network and one service with machine, rack and fabric minima of 6 Gb/s.
fn network(text: &str) -> String {
    format!(
        "weir: 1\nnetwork:\n{text}\nservices:\n  s: {{ match: [ {{ port: 1 }} ], machine: {{ min: 6Gb/s }}, rack: \
         {{ min: 6Gb/s }}, fabric: {{ min: 6Gb/s }} }}\n"
    )
}

/// Three hosts at three switches in a ring, whose shortest paths do not go up and then down.
fn ring() -> String {
    let between = |ends: &str| format!("    - {{ between: [{ends}], rate: 1Gb/s }}\n");
    let links: String = ["h1, a", "h2, b", "h3, c", "a, b", "b, c", "c, a"].map(between).concat();
    let network = "  topology: links\n  hosts: [\"h[1-3]\"]\n  switches: [a, b, c]\n  slots: 4\n  links:\n";
    let tenants = "tenants: { t: { vms: 6, bandwidth: 100Mb/s, match: [ { vni: 1 } ] } }\n";
    format!("weir: 1\nnetwork:\n{network}{links}{tenants}tenant-queues: {{ paths: spread }}\n")
}

macro_rules! refusals {
    ($($name:ident: $text:expr;)*) => { $(
        #[test]
        fn $name() {
            insta::assert_snapshot!(refused(&$text));
        }
    )*
        /// All of these documents, by the names of their tests.
        fn documents() -> Vec<(&'static str, String)> {
            vec![$((stringify!($name), $text)),*]
        }
    };
}

/// A policy of two racks with this in its network, and a service with credits.
fn credits(network: &str, more: &str) -> String {
    format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 20Gb/s, machines: [m1, m2] }},\n           \
         r2: {{ uplink: 20Gb/s, machines: [m3, m4] }} }}{network} }}\n{more}\n\
         services: {{ x: {{ match: [ {{ port: 1 }} ], credits: {{}} }} }}\n"
    )
}

refusals! {
    credits_beside_a_guarantee: services("  x: { match: [ { port: 1 } ], rack: { tx: { min: 1Gb/s } }, \
                                         credits: {} }\n");
    credits_inside_of_a_guarantee: services("  p:\n    machine: { min: 1Gb/s }\n    services:\n      x: { match: [ { \
                                             port: 1 } ], credits: { weight: 2 } }\n");
    credits_of_a_parent: services("  p: { credits: {}, services: { x: { match: [ { port: 1 } ] } } }\n");
    credits_on_a_level: levels("levels: { factors: [1] }", "  x: { match: [ { port: 1 } ], level: 1, credits: {} }\n");
    credits_beside_weights_of_senders: services("  x: { match: [ { port: 1 } ], senders: { m1: 2 }, credits: {} }\n");
    credits_of_a_tenant: text(
        "weir: 1\nnetwork: { nic: 1Gb/s, slots: 1, racks: { r1: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
         tenants: { red: { vms: 1, bandwidth: 1Mb/s, match: [ { vni: 1 } ], credits: {} } }\n"
    );
    credits_of_too_large_a_weight: services("  x: { match: [ { port: 1 } ], credits: { weight: 1000.001 } }\n");
    credits_of_a_negative_weight: services("  x: { match: [ { port: 1 } ], credits: { weight: -1 } }\n");
    credits_for_too_short: credits("", "credits: { period-max: 10us }");
    credits_that_leave_too_little_for_guarantees: text(
        "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
         levels: { factors: [1], load: 20% }\n\
         services:\n  l: { match: [ { port: 3 } ], level: 1 }\n  x: { match: [ { port: 1 } ], credits: {} }\n  \
         web: { match: [ { port: 2 } ], machine: { min: 500Mb/s } }\n"
    );
    credits_by_dscp: services("  x: { match: [ { port: 1, dscp: 8 } ], credits: {} }\n");
    credits_beside_a_filter_by_their_dscp: services("  x: { match: [ { port: 1 } ], credits: {} }\n  \
                                                     y: { match: [ { port: 2, dscp: 10 } ] }\n");
    credits_beside_a_level_of_their_dscp: levels(
        "levels: { factors: [1], dscp: [40] }",
        "  x: { match: [ { port: 1 } ], credits: {} }\n  y: { match: [ { port: 2 } ], level: 1 }\n"
    );
    credits_of_no_weight: services("  x: { match: [ { port: 1 } ], credits: { weight: 0 } }\n");
    credits_of_all_of_a_port: credits("", "credits: { share: 100% }");
    credits_for_too_long: credits("", "credits: { period-max: 11s }");
    credits_beyond_32_bits: credits("", "credits: { period-max: 2s }");
    credits_over_several_paths: credits(", links: { spines: 2 }, switches: { forwarders: true }", "");
    credits_over_several_paths_of_a_topology: text(
        "weir: 1\nnetwork: { topology: fat-tree, k: 4, host-link: { rate: 1Gb/s }, switches: { forwarders: true } }\n\
         services: { x: { match: [ { port: 1 } ], credits: {} } }\n"
    );
    machines_outside_of_the_parent: services("  p:\n    machines: [m1]\n    services:\n      \
                                             a: { match: [ { port: 1 } ], \
                                             machines: [m1, m2] }\n");
    machines_that_are_not_there: services("  a: { match: [ { port: 1 } ], machines: [\"m[1-3]\"] }\n");
    a_policy_of_a_topology_without_rates: network("  topology: leaf-spine\n  racks: 2\n  hosts: 2\n  spines: 1\n  \
                                                   host-link: { rate: 1Gb/s }");
    minima_on_a_topology: network("  topology: leaf-spine\n  racks: 2\n  hosts: 2\n  spines: 1\n  host-link: { rate: \
                                   5Gb/s }\n  oversubscription: 2");
    machines_of_a_topology: network("  topology: star\n  hosts: 3\n  host-link: { rate: 10Gb/s }\n  machines: { h3: { \
                                    nic: 1Gb/s } }");
    unknown_key: changed("weight", "weigth");
    unknown_key_at_the_top: changed("caps:", "cap:");
    unknown_unit: changed("3Gb/s", "3Gbps");
    units_of_other_tools: services("  a:\n    match: [ { port: 1 } ]\n    machine: { min: 10Mbit, max: 10gB/s }\n    \
        rack: { min: 10KB/s, max: 10Gbps }\n    shaper: { interval: 200usec, burst: 64KB }\n");
    bare_number: changed("3Gb/s", "3");
    negative_rate: changed("3Gb/s", "-3Gb/s");
    zero_min: changed("3Gb/s", "0b/s");
    buffer_out_of_range: changed("  nic: 10Gb/s", "  switches: { buffer: { machine: 1kB, rack: 1TB } }\n  nic: 10Gb/s");
    buffer_of_no_port: changed("  nic: 10Gb/s", "  switches: { buffer: { fabric: 1MB } }\n  nic: 10Gb/s");
    zero_nic: changed("nic: 10Gb/s", "nic: 0Gb/s");
    unlimited_nic: changed("nic: 10Gb/s", "nic: unlimited");
    weight_zero: changed("weight: 2", "weight: 0");
    weight_negative: changed("weight: 2", "weight: -0.5");
    weight_too_fine: changed("weight: 2", "weight: 0.0001");
    min_above_max: changed("{ min: 6Gb/s, weight: 2 }", "{ min: 6Gb/s, max: 5Gb/s }");
    min_above_max_in_one_direction: changed("{ min: 6Gb/s, weight: 2 }", "{ min: 6Gb/s, rx: { max: 5Gb/s } }");
    version: changed("weir: 1 ", "weir: 2 ");
    no_version: changed("weir: 1 ", "");
    sharing: changed("caps:", "sharing: fil\ncaps:");
    duplicate_service: changed("  vm:", "  dfs:");
    duplicate_key: changed("  nic: 10Gb/s", "  nic: 10Gb/s\n  nic: 20Gb/s");
    bad_name: changed("  vm:", "  \"v,m\":");
    port_range_reversed: changed("7000-7099", "7099-7000");
    port_too_large: changed("7000-7099", "70000");
    leading_zeros: services("  a:\n    match:\n      - { port: 010 }\n      - { port: 80-0443 }\n      - { protocol: \
        06 }\n      - { address: 10.0.0.0/08 }\n      - { address: 010.0.0.1 }\n      - { address: \
        \"fd00::/064\" }\n      - { dscp: 046 }\n      - { vni: 007 }\n      - { priority: 05 }\n    order: -01\n    \
        rack: { min: 07Gb/s, weight: 02 }\n    machines: [\"m[1-02]\"]\n");
    protocol: changed("protocol: tcp", "protocol: tpc");
    protocol_too_large: changed("protocol: tcp", "protocol: 256");
    protocol_without_ports: changed("protocol: tcp", "protocol: icmp");
    prefix: changed("protocol: tcp,", "address: 10.0.0.1/8,");
    dscp: changed("protocol: tcp,", "dscp: 64,");
    dscp_names: services("  a:\n    match: [ { dscp: af31 }, { dscp: AF15 }, { dscp: [EF, 64] }, { dscp: [] }, { \
        dscp: voice } ]\n");
    dscp_names_of_levels: one_level("levels: { factors: [1], dscp: [ef] }");
    dscp_name_of_network_control: one_level("levels: { factors: [1], dscp: [CS6] }");
    dscp_name_of_a_level_is_matched: levels("levels: { factors: [1] }", "  a: { match: [ { port: 1 } ], level: 1 }\n  \
        b: { match: [ { protocol: udp, dscp: [CS1, EF] } ] }\n");
    ports_in_lists: services("  a:\n    match: [ { port: [80, http] }, { port: \"80,443,\" }, { port: [] }, { port: \
        \"80,7099-7000\" }, { port: { from: 1 } }, { port: [80, 0443] } ]\n  b: { match: [ { protocol: icmp, port: \
        [1, 2] } ] }\n");
    ports_in_braces: services("  a: { match: [ { port: 80,443 } ] }\n");
    overlap_of_lists: services("  a: { match: [ { port: [80, 443] } ] }\n  b: { match: [ { port: \"22,443\", dscp: \
        [EF, VA] } ] }\n");
    filters_of_lists_are_counted_as_pairs: services(&format!("  a: {{ match: [ {{ port: \"{}\", dscp: [0, 1] }} ] }}\n",
        (1..=2_049).map(|port| port.to_string()).collect::<Vec<_>>().join(",")));
    vni: changed("protocol: tcp,", "vni: 16777216,");
    tunnels_to_port_0: changed("caps:", "tunnels: { vxlan: 0, geneve: [6081, 65536] }\ncaps:");
    tunnels_of_no_port: changed("caps:", "tunnels: { geneve: [] }\ncaps:");
    tunnels_of_five_ports: changed("caps:", "tunnels: { vxlan: [1, 2, 3, 4, 5] }\ncaps:");
    tunnels_of_a_port_twice: changed("caps:", "tunnels: { vxlan: [8472, 8472] }\ncaps:");
    tunnels_of_a_port_in_both: changed("caps:", "tunnels: { vxlan: [4789, 7000], geneve: 7000 }\ncaps:");
    tunnels_of_a_default_port_of_the_other_kind: changed("caps:", "tunnels: { vxlan: 6081 }\ncaps:");
    tunnels_of_an_unknown_kind: changed("caps:", "tunnels: { gnv: 6081 }\ncaps:");
    empty_filter: changed("{ interface: \"tap*\" }", "{}");
    empty_pod: changed("{ interface: \"tap*\" }", "{ pod: {} }");
    pod_that_is_no_mapping: changed("{ interface: \"tap*\" }", "{ pod: shop }");
    pod_with_an_unknown_key: changed("{ interface: \"tap*\" }", "{ pod: { label: app=web } }");
    pod_of_an_upper_case_namespace: changed("{ interface: \"tap*\" }", "{ pod: { namespace: Shop } }");
    pod_of_labels_that_are_no_selector: changed("{ interface: \"tap*\" }", "{ pod: { labels: \"app in (web\" } }");
    pod_of_labels_that_exclude_each_other: changed("{ interface: \"tap*\" }", "{ pod: { labels: \"a=b,a=c\" } }");
    empty_match: changed("[ { interface: \"tap*\" } ]", "[]");
    no_match: changed("    match: [ { interface: \"tap*\" } ]\n", "");
    not_a_mapping: changed("    machine: { max: 1Gb/s }", "    machine: 1Gb/s");
    nothing: changed("    machine: { max: 1Gb/s }", "    machine:");
    not_yaml: changed("    machine: { max: 1Gb/s }", "    machine: { max: 1Gb/s");
    empty_file: text("");
    two_documents: text(&format!("{}---\n{}", texts::EXAMPLE, texts::EXAMPLE));
    alias_loop: changed("{ max: 1Gb/s }", "&a { max: *a }");
    alias: services("  a: { match: &m [ { port: 1 } ] }\n  b: { match: *m }\n");
    loop_in_nesting: services("  dfs:\n    services:\n      hb:\n        services:\n          dfs: { match: [ { \
                               port: 1 } ] }\n");
    too_deep: services(&format!("  {}", (0..40).map(|i| format!("s{i}: {{ services: {{ ")).collect::<String>()));
    match_on_an_inner_service: services("  a:\n    match: [ { port: 1 } ]\n    order: 2\n    services: { b: { \
                                         match: [ { port: 2 } ] } }\n");
    sharing_on_a_leaf: services("  a: { match: [ { port: 1 } ], sharing: fill }\n");
    no_services: services("  {}\n");
    overlap: services("  a: { match: [ { port: 1 }, { protocol: tcp, port: 7000-7099 } ] }\n  b: { match: [ { port: \
                       7050-8000 } ] }\n");
    overlap_of_addresses: services("  a: { match: [ { address: 10.0.0.0/8 } ] }\n  b:\n    match: [ { address: \
                                    10.1.0.0/16, dscp: 3 } ]\n    order: 0\n");
    overlap_of_endpoints: services("  a: { match: [ { interface: \"tap*\" } ] }\n  b: { match: [ { cgroup: /web } ] \
                                    }\n  c: { match: [ { interface: \"eth*\" } ] }\n");
    overlap_of_pods: services("  a: { match: [ { pod: { namespace: shop } } ] }\n  b: { match: [ { pod: { labels: \
                               \"app=web,tier in (x,y)\" } } ] }\n  c: { match: [ { pod: { namespace: bank } } ], \
                               order: 1 }\n");
    children_above_parent: services("  a:\n    rack: { min: 3Gb/s }\n    services:\n      b: { match: [ { port: 1 } \
                                     ], rack: { min: 2Gb/s } }\n      c: { match: [ { port: 2 } ], rack: { min: \
                                     2Gb/s } }\n");
    children_of_a_parent_without_min: services("  a:\n    services:\n      b: { match: [ { port: 1 } ], machine: { \
                                                tx: { min: 2Gb/s } } }\n");
    children_above_the_maximum_of_a_parent_without_min: services(
        "  p:\n    machine: { max: 1Gb/s }\n    services:\n      a: { match: [ { port: 1 } ], machine: { min: 600Mb/s \
         } }\n      b: { match: [ { port: 2 } ], machine: { min: 500Mb/s } }\n"
    );
    children_above_the_capacity: services("  a:\n    services:\n      b: { match: [ { port: 1 } ], rack: { min: 8Gb/s \
                                           } }\n  c: { match: [ { port: 2 } ], rack: { min: 4Gb/s } }\n");
    child_above_the_maximum_of_its_parent: services("  a:\n    rack: { max: 3Gb/s }\n    services:\n      b: { \
                                                     match: [ { port: 1 } ], rack: { min: 4Gb/s } }\n");
    rack_too_small: services("  a: { match: [ { port: 1 } ], rack: { min: 6Gb/s } }\n  b: { match: [ { port: 2 } ], \
                              rack: { min: 5Gb/s } }\n");
    rack_too_small_in_one_direction: services("  a: { match: [ { port: 1 } ], rack: { min: 6Gb/s } }\n  b: { match: \
                                               [ { port: 2 } ], rack: { rx: { min: 5Gb/s } } }\n");
    rack_cap_too_small: services("  a: { match: [ { port: 1 } ], rack: { min: 6Gb/s } }\n\ncaps: { rack: 5Gb/s }\n");
    machines_too_small: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 100Gb/s, machines: [\"m[1-20]\"] } }\n  \
                                 machines: { \"m[2-9]\": { nic: 5Gb/s }, m10: { nic: { tx: 1Gb/s, rx: 10Gb/s } } }");
    racks_too_small: network("  nic: 10Gb/s\n  racks:\n    a: { uplink: 5Gb/s, machines: [m1] }\n    b: { uplink: \
                              50Gb/s, machines: [m2] }\n    c: { uplink: 5Gb/s, machines: [m3] }");
    fabric_too_small: services("  a: { match: [ { port: 1 } ], fabric: { min: 11Gb/s } }\n");
    fabric_cap_too_small: services("  a: { match: [ { port: 1 } ], fabric: { min: 6Gb/s } }\ncaps: { fabric: { tx: \
                                    5Gb/s } }\n");
    two_racks: network("  nic: 10Gb/s\n  racks:\n    r1: { uplink: 10Gb/s, machines: [\"m[1-4]\"] }\n    r2: { \
                        uplink: 10Gb/s, machines: [\"m[3-6]\"] }");
    twice_in_a_rack: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [\"m[1-4]\", m2] } }");
    too_many_machines: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [\"m[1-999999999]\"] } }");
    number_too_large: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [\"m[1-4000000000]\"] } }");
    range_reversed: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [\"m[9-1]\"] } }");
    no_machines: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [] } }");
    no_racks: network("  nic: 10Gb/s\n  racks: {}");
    no_speed: network("  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2, m3] } }\n  machines: { m2: { nic: 10Gb/s \
                       } }");
    one_direction_of_an_uplink: network("  nic: 10Gb/s\n  racks: { r1: { uplink: { tx: 10Gb/s }, machines: [m1] } }");
    machine_in_no_rack: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [mail1, mail2] } }\n  \
                                 machines: { mial1: { nic: 10Gb/s } }");
    same_address: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } }\n  machines: { \
                           m1: { address: 10.0.0.1 }, m2: { address: 10.0.0.1 } }");
    one_address_for_many: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } }\n  \
                                   machines: { \"m[1-2]\": { address: 10.0.0.1 } }");
    speed_twice: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } }\n  machines: { \
                          \"m[1-2]\": { nic: 20Gb/s }, m2: { nic: 30Gb/s } }");
    not_an_address: network("  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [m1] } }\n  machines: { m1: \
                             { address: m1.example.org } }");
    tenants: changed("caps:", "tenants: { t: { vms: 0, bandwidth: 0b/s } }\ncaps:");
    tenant_and_service: changed("caps:", "tenants: { vm: { vms: 1, bandwidth: 1Gb/s } }\ncaps:");
    tenant_groups: changed("caps:", "tenants: { a: { vms: { web: 1, db: 2 }, bandwidth: { web: 1Gb/s, dp: 1Gb/s } }, \
                            b: { vms: 3, bandwidth: { web: 1Gb/s } }, c: { vms: { web: 0 }, bandwidth: 1b/s } \
                            }\ncaps:");
    tenant_of_too_much: changed("caps:", "tenants: { t: { vms: 1000000, bandwidth: 2Tb/s } }\ncaps:");
    tenants_match_overlaps: changed("caps:", "tenants: { a: { vms: 1, bandwidth: 1Gb/s, match: [ { address: \
                                     10.0.0.0/8 } ] }, b: { vms: 1, bandwidth: 1Gb/s, match: [ { address: \
                                     10.1.0.0/16 } ] } }\ncaps:");
    tenants_spread_over_a_ring: text(&ring());
    neither_services_nor_tenants: text("weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: \
                                           [m1] } } }\n");
    slots_twice: network("  nic: 10Gb/s\n  slots: 4\n  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } }\n  \
                          machines: { \"m[1-2]\": { slots: 2 }, m2: { slots: 3 } }");
    latency: changed("    machine: { max: 1Gb/s }", "    latency: { message: 0B, p99: 20 }\n    level: 9");
    shaper_interval_too_short: changed("    machine: { max: 1Gb/s }", "    shaper: { interval: 9us }");
    shaper_interval_too_long: changed("    machine: { max: 1Gb/s }", "    shaper: { interval: 2s }");
    shaper_burst_below_a_frame: changed("    machine: { max: 1Gb/s }", "    shaper: { burst: 1500B }");
    shaper_burst_too_large: changed("    machine: { max: 1Gb/s }", "    shaper: { burst: 1GB }");
    shaper_without_units: changed("    machine: { max: 1Gb/s }", "    shaper: { interval: 200, burst: 64k, rate: \
        1Gb/s }");
    shaper_of_an_inner_service: services("  dfs: { shaper: { interval: 200us }, senders: { m1: 2 }, services: { hb: \
                                          { match: [ { port: 1 } ] } } }\n");
    senders_unknown: changed("    machine: { max: 1Gb/s }", "    senders: { m11: 2, \"m[1-3]\": 2 }");
    senders_twice: changed("    machine: { max: 1Gb/s }", "    senders: { \"m[1-2]\": 2, m2: 3 }");
    senders_weight: changed("    machine: { max: 1Gb/s }", "    senders: { m1: 0, m2: twice }");
    senders_too_many: changed("    machine: { max: 1Gb/s }", "    senders: { \"m[1-900000000]\": 2 }");
    senders_of_a_rack_that_cannot_be_read: text(&texts::EXAMPLE.replace("[m1, m2]", "[m1, \"m[2\"]")
        .replace("    machine: { max: 1Gb/s }", "    senders: { m2: 2 }"));
    levels_without_factors: one_level("");
    levels_that_do_not_ascend: one_level("levels: { factors: [1, 10, 10] }");
    levels_below_one: one_level("levels: { factors: [0] }");
    level_above_the_factors: levels("levels: { factors: [1] }", "  a: { match: [ { port: 1 } ], level: 2 }\n");
    levels_more_than_queues: one_level("levels: { factors: [1, 2, 3, 4, 5, 6, 7] }");
    levels_on_plain_switches: text(&texts::EXAMPLE.replace("  nic: 10Gb/s", "  switches: { scheduler: plain }\n  \
        nic: 10Gb/s").replace("    rack:    { max: 1Gb/s }", "    level: 1").replace("caps:", "levels: { factors: [1] \
        }\ncaps:"));
    levels_numbered_and_auto: levels("", "  a: { match: [ { port: 1 } ], level: 1 }\n  b: { match: [ { port: 2 } ], \
                                          level: auto, latency: { message: 1kB, worst: 1ms, rate: 1Mb/s } }\n");
    auto_level_without_a_target: levels("", "  a: { match: [ { port: 1 } ], level: auto }\n");
    levels_of_frames_too_large: one_level("levels: { factors: [1], packet: 9kB }");
    levels_of_dscp_values: one_level("levels: { factors: [1, 2], dscp: [46, 46] }");
    levels_of_network_control: one_level("levels: { factors: [1], dscp: [48] }");
    levels_with_too_few_dscp_values: one_level("levels: { factors: [1, 2], dscp: [46] }");
    level_whose_dscp_is_matched: levels("levels: { factors: [1] }", "  a: { match: [ { port: 1 } ], level: 1 }\n  b: { \
                                         match: [ { protocol: udp, dscp: 46 } ] }\n");
    level_of_everything: one_level("levels: { factors: [1], load: 100% }");
    level_with_a_guarantee: levels("levels: { factors: [1] }", "  a: { match: [ { port: 1 } ], level: 1, machine: { \
                                    min: 1Gb/s } }\n");
    level_with_a_limit_below_a_frame: levels("levels: { factors: [1] }", "  a: { match: [ { port: 1 } ], level: 1, \
                                              machine: { max: 1Mb/s } }\n");
    level_of_an_inner_service: levels("levels: { factors: [1] }", "  p: { level: 1, services: { a: { match: [ { port: \
                                       1 } ] } } }\n");
    guarantees_beside_levels: levels("levels: { factors: [1] }", "  a: { match: [ { port: 1 } ], level: 1 }\n  b: { \
                                      match: [ { port: 2 } ], rack: { min: 6Gb/s } }\n");
    windows_without_factors: levels("levels: { epoch: windowed }", "  a: { match: [ { port: 1 } ], level: auto, \
                                     latency: { message: 1kB, worst: 1ms, rate: 1Mb/s } }\n");
    worst_latency_without_a_level: levels("", "  a: { match: [ { port: 1 } ], latency: { message: 1kB, worst: 1ms, \
                                           rate: 1Mb/s } }\n");
    latency_of_two_kinds: levels("", "  a: { match: [ { port: 1 } ], latency: { message: 1kB, worst: 1ms, p99: 1ms \
                                      } }\n");
    latency_without_a_time: levels("", "  a: { match: [ { port: 1 } ], latency: { message: 1kB } }\n");
    latency_without_a_rate: levels("", "  a: { match: [ { port: 1 } ], level: auto, latency: { message: 1kB, worst: \
                                        1ms } }\n");
    latency_with_keys_of_the_other_kind: levels("", "  a: { match: [ { port: 1 } ], latency: { message: 1kB, p99: 1ms, \
                                                     rate: 1Mb/s, round-trip: true } }\n");
    receive_share_by_socket_priority: services("  a: { match: [ { priority: 5 } ], machine: { max: 1Gb/s } }\n");
    receive_share_by_an_unknown_socket: services("  a: { match: [ { cgroup: /a, protocol: icmp } ], machine: { max: \
                                                  1Gb/s } }\n  b: { match: [ { cgroup: /b } ], machine: { max: 1Gb/s \
                                                  } }\n");
    cgroup: services("  a: { match: [ { cgroup: /a/** } ] }\n  b: { match: [ { cgroup: b/../c } ] }\n");
    overlap_of_cgroups: services("  a: { match: [ { cgroup: \"/a/*\" } ] }\n  b: { match: [ { cgroup: a/b, port: 80 } \
                                  ] }\n");
    queues_without_a_scheduler: changed("  nic: 10Gb/s", "  switches: { queues: 8 }\n  nic: 10Gb/s");
    queues_that_do_not_add_up: changed("  nic: 10Gb/s", "  switches: { queues: 8, scheduler: { strict: 2, weighted: 5 \
                                        } }\n  nic: 10Gb/s");
    dscp_map_without_a_scheduler: changed("  nic: 10Gb/s", "  switches: { dscp-map: switch }\n  nic: 10Gb/s");
    dscp_map_of_many_queues: changed("  nic: 10Gb/s", "  switches: { queues: 16, scheduler: weighted, dscp-map: \
                                      switch }\n  nic: 10Gb/s");
    dscp_map_of_no_place: changed("  nic: 10Gb/s", "  switches: { scheduler: weighted, dscp-map: rack }\n  nic: \
                                   10Gb/s");
    many_at_once: services("  a: { match: [ { prot: 1 } ] }\n  b: { match: [ { port: 2 } ], rack: { min: 3 } }\n  \
                            c: { match: [ { port: 3 } ], rack: { min: 3Gb/s, max: 2Gb/s } }\n  d: { rack: { min: \
                            9Gb/s } }\n");
}

/// The keys of a service and of its two children.
type Minima = (&'static str, &'static str, &'static str);
const A: &str = "min: 600Mb/s";
const B: &str = "min: 500Mb/s";
/// By case: the keys, the hint, and the keys by the hint.
const HINTS_OF_MINIMA: [(Minima, &str, Minima); 11] = [
    (
        ("", A, B),
        "write `machine: { min: 1.1Gb/s }` on `p`, or lower the minima of the children",
        ("    machine: { min: 1.1Gb/s }\n", A, B),
    ),
    (
        ("    machine: { weight: 2 }\n", A, B),
        "add `min: 1.1Gb/s` to `machine` of `p`, or lower the minima of the children",
        ("    machine: { min: 1.1Gb/s, weight: 2 }\n", A, B),
    ),
    (
        ("    machine: { min: 1Gb/s }\n", A, B),
        "raise it to `1.1Gb/s`, or lower the minima of the children",
        ("    machine: { min: 1.1Gb/s }\n", A, B),
    ),
    (
        ("", "tx: { min: 1Gb/s }", "weight: 2"),
        "write `machine: { tx: { min: 1Gb/s } }` on `p`, or lower the minima of the children",
        ("    machine: { tx: { min: 1Gb/s } }\n", "tx: { min: 1Gb/s }", "weight: 2"),
    ),
    (
        ("    machine: { min: 1Gb/s, rx: { max: 1Gb/s } }\n", "min: 600Mb/s", "min: 400Mb/s, tx: { min: 500Mb/s }"),
        "add `tx: { min: 1.1Gb/s }` to `machine` of `p`, or lower the minima of the children",
        (
            "    machine: { min: 1Gb/s, rx: { max: 1Gb/s }, tx: { min: 1.1Gb/s } }\n",
            "min: 600Mb/s",
            "min: 400Mb/s, tx: { min: 500Mb/s }",
        ),
    ),
    (
        ("    machine: { rx: { max: 2Gb/s } }\n", "rx: { min: 1Gb/s }", "weight: 2"),
        "add `min: 1Gb/s` to `rx` in `machine` of `p`, or lower the minima of the children",
        ("    machine: { rx: { max: 2Gb/s, min: 1Gb/s } }\n", "rx: { min: 1Gb/s }", "weight: 2"),
    ),
    (
        ("    machine: { max: 1Gb/s }\n", A, B),
        "lower the minima of the children by 100Mb/s in all, and add `min: 1Gb/s` to `machine` of `p`: `p` has a \
         maximum of 1 Gb/s",
        ("    machine: { min: 1Gb/s, max: 1Gb/s }\n", A, "min: 400Mb/s"),
    ),
    (
        ("    machine: { min: 1Gb/s, max: 1Gb/s }\n", A, B),
        "lower the minima of the children by 100Mb/s in all: `p` has a maximum of 1 Gb/s",
        ("    machine: { min: 1Gb/s, max: 1Gb/s }\n", A, "min: 400Mb/s"),
    ),
    (
        ("", "min: 6Gb/s", "min: 3Gb/s"),
        "lower the minima of the children by 1Gb/s in all, and write `machine: { min: 8Gb/s }` on `p`: more does \
         not fit the capacity beside other minima at the machine",
        ("    machine: { min: 8Gb/s }\n", "min: 5Gb/s", "min: 3Gb/s"),
    ),
    (
        ("    machine: { min: 8Gb/s }\n", "min: 6Gb/s", "min: 3Gb/s"),
        "lower the minima of the children by 1Gb/s in all: more does not fit the capacity beside other minima at \
         the machine",
        ("    machine: { min: 8Gb/s }\n", "min: 5Gb/s", "min: 3Gb/s"),
    ),
    (
        ("    machines: [m1]\n", "min: 6Gb/s", "min: 2Gb/s"),
        "write `machine: { min: 8Gb/s }` on `p`, or lower the minima of the children",
        ("    machines: [m1]\n    machine: { min: 8Gb/s }\n", "min: 6Gb/s", "min: 2Gb/s"),
    ),
];

/// A hint on a minimum below its children's is followed, and the next check accepts the policy.
#[test]
fn hints_of_minima_pass_the_next_check() {
    let policy = |p: &str, a: &str, b: &str| {
        format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1, m2] }} }} }}\n\
             services:\n  p:\n{p}    services:\n      a: {{ match: [ {{ port: 1 }} ], machine: {{ {a} }} }}\n      \
             b: {{ match: [ {{ port: 2 }} ], machine: {{ {b} }} }}\n  c: {{ match: [ {{ port: 3 }} ], machine: {{ \
             min: 2Gb/s }} }}\n"
        )
    };
    for ((p, a, b), hint, (p2, a2, b2)) in HINTS_OF_MINIMA {
        let text = policy(p, a, b);
        let errors = Policy::parse("p.yaml", &text).expect_err(&text);
        assert_eq!(errors.all()[0].hint(), hint, "{text}");
        if let Some((span, correction)) = errors.all()[0].fix() {
            let mut fixed = text.clone();
            fixed.replace_range(span.start as usize..span.end as usize, correction);
            assert_eq!(fixed, policy(p2, a2, b2));
        }
        Policy::parse("p.yaml", &policy(p2, a2, b2)).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

/// Services above that would be too low once a minimum is raised are in its hint.
#[test]
fn a_hint_on_a_minimum_raises_the_services_above() {
    let policy = |g: &str, p: &str| {
        format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1, m2] }} }} }}\n\
             services:\n  g:\n    machine: {{ {g} }}\n    services:\n      p:\n        machine: {{ {p} }}\n        \
             services:\n          a: {{ match: [ {{ port: 1 }} ], machine: {{ min: 3Gb/s }} }}\n      \
             q: {{ match: [ {{ port: 2 }} ], machine: {{ min: 1Gb/s }} }}\n"
        )
    };
    let hint = |g: &str, p: &str| {
        let errors = Policy::parse("p.yaml", &policy(g, p)).expect_err(g);
        let hints = errors.all().iter().map(|error| error.hint().to_owned()).collect::<Vec<_>>();
        (hints, errors.all()[0].fix().is_some())
    };
    let raised = "raise it to `3Gb/s`, and give `g` `min: 4Gb/s` there, or lower the minima of the children";
    assert_eq!(hint("min: 3Gb/s", "min: 2Gb/s"), (vec![raised.to_owned()], false));
    // Both are too low: each is raised to what the other's hint needs.
    let both = ["raise it to `4Gb/s`", "raise it to `3Gb/s`"]
        .map(|hint| format!("{hint}, or lower the minima of the children"));
    assert_eq!(hint("min: 2Gb/s", "min: 2Gb/s"), (both.to_vec(), true));
    let lowered = "lower the minima of the children by 500Mb/s in all, and raise it to `2.5Gb/s`: `g` has a maximum of \
                   3.5 Gb/s";
    assert_eq!(hint("min: 3Gb/s, max: 3500Mb/s", "min: 2Gb/s"), (vec![lowered.to_owned()], false));
    Policy::parse("p.yaml", &policy("min: 4Gb/s", "min: 3Gb/s")).unwrap_or_else(|errors| panic!("{errors}"));
}

/// A text that a hint suggests in place of another one is no longer refused for the same cause.
#[test]
fn every_fix_passes_the_next_check() {
    let mut count = 0;
    for (name, text) in documents() {
        let errors = Policy::parse("policy.yaml", &text).expect_err(name);
        for error in errors.all() {
            let Some((span, fix)) = error.fix() else { continue };
            count += 1;
            let fixed = [&text[..span.start as usize], fix, &text[span.end as usize..]].concat();
            let Err(left) = Policy::parse("policy.yaml", &fixed) else { continue };
            let (at, cause) = (error.position(), error.cause());
            let same = left.all().iter().any(|left| left.position() == at && left.cause() == cause);
            assert!(!same, "{name}: `{fix}` is suggested and refused: {cause}");
        }
    }
    assert!(count >= 20, "{count}");
}

/// A value changed at run time is refused like the file's, and also if it changes more than shares.
#[test]
fn changes() {
    let (policy, _) = Policy::parse("policy.yaml", texts::EXAMPLE).expect("the example is sound");
    let mut out = String::new();
    for setting in [
        "services.dfs.rack.mni=5Gb/s",
        "services.dfs.rack.min=5",
        "services.dfs.rack.min=10Gb/s",
        "services.web.rack.max=5Gb/s",
        "services.dfs.match[0].port=80",
        "services.dfs.order=2",
        "network.nic=20Gb/s",
        "services..max=1Gb/s",
        "caps.rack",
        "tunnels.vxlan=4790",
    ] {
        out.push_str(&format!("{setting}\n{}\n", policy.with(setting).expect_err(setting).render(false)));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn too_large() {
    let text = format!("{}#{}", texts::EXAMPLE, "x".repeat(language::MAX_FILE as usize));
    insta::assert_snapshot!(refused(&text));
}

#[test]
fn too_many_services() {
    let mut text = String::new();
    for i in 0..=language::MAX_SERVICES {
        text.push_str(&format!("  s{i}: {{ match: [ {{ vni: {i} }} ] }}\n"));
    }
    insta::assert_snapshot!(refused(&services(&text)));
}

#[test]
fn very_many_mistakes() {
    let text: String = (0..20_000).map(|i| format!("  s{i}: {{ mtch: 1 }}\n")).collect();
    let out = refused(&services(&text));
    assert!(out.ends_with("error: and 39950 more\n"), "{}", &out[out.len() - 100..]);
    assert!(out.len() < 30_000);
}

#[test]
fn unreadable_files() {
    let cause = |path: &std::path::Path| Policy::read(path).expect_err("unreadable").all()[0].cause().to_owned();
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(cause(directory.path()), "this is a directory, not a file");
    let path = directory.path().join("policy.yaml");
    assert!(cause(&path).starts_with("cannot read the file: "));
    std::fs::write(&path, b"weir: 1\n\xff").expect("written");
    assert_eq!(cause(&path), "the file is not UTF-8: byte 0xff at offset 8");
    std::fs::write(&path, texts::EXAMPLE).expect("written");
    assert!(Policy::read(&path).is_ok());
}

/// Tenants with queues of their own differ by DSCP values: no value is refused, too few are noted.
#[test]
fn dscp_values_that_tenants_lack() {
    let policy = |used: std::ops::Range<u8>| {
        let used: Vec<String> = used.map(|value| value.to_string()).collect();
        format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, switches: {{ queues: 8, scheduler: weighted }}, racks: {{ r: {{ uplink: \
             1Gb/s, machines: [m1] }} }} }}\ntenants: {{ t: {{ vms: 1, bandwidth: 1Mb/s, match: [ {{ vni: 1 }} ] }} \
             }}\ntenant-queues: {{ reserved-dscp: [{}] }}\n",
            used.join(", ")
        )
    };
    let errors = refused(&policy(1..64));
    assert!(errors.contains("no DSCP value is left for tenants") && errors.contains(":4:"), "{errors}");
    let notes = |used| Policy::parse("policy.yaml", &policy(used)).unwrap_or_else(|errors| panic!("{errors}")).1;
    assert_eq!(notes(4..64)[0].cause(), "3 DSCP values are left for the tenants of 7 queues at every port");
    assert!(notes(8..64).is_empty());
}
