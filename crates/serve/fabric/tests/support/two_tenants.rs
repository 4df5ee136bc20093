//! Two tenants on both machines of a network of two racks, for tests of several crates.
#![allow(dead_code, reason = "each test file uses a part of this")]

/// The policy, with so many queues at every port, and with `others`: services and further keys. In the order of names
/// blue is tenant 0 and red is tenant 1.
pub(crate) fn policy(queues: u32, others: &str) -> String {
    format!(
        "weir: 1
network:
  nic: 1Gb/s
  racks:
    r1: {{ uplink: 1Gb/s, machines: [m1] }}
    r2: {{ uplink: 1Gb/s, machines: [m2] }}
  slots: 4
  switches: {{ queues: {queues}, scheduler: weighted }}
{others}tenants:
  red: {{ vms: 2, bandwidth: 300Mb/s, match: [ {{ port: 1 }} ] }}
  blue: {{ vms: 2, bandwidth: 100Mb/s, match: [ {{ port: 2 }} ] }}
tenant-queues: {{ interval: 200ms }}
"
    )
}

/// The tenants' places, on the tree of a spine, or of the one switch of a rack.
pub(crate) fn placement(tree: &str) -> String {
    let tenant = |name: &str| {
        format!(
            r#"{{ "tenant": "{name}", "tree": "{tree}", "vms": [
                {{ "vm": "{name}-0", "machine": "m1" }}, {{ "vm": "{name}-1", "machine": "m2" }} ] }}"#
        )
    };
    format!(r#"{{ "placement": 1, "tenants": [ {}, {} ] }}"#, tenant("blue"), tenant("red"))
}

/// The machines and the switches of that network, with `true` for a switch.
pub(crate) const SUBSCRIBERS: [(&str, bool); 5] =
    [("m1", false), ("m2", false), ("r1", true), ("r2", true), ("spine0", true)];
