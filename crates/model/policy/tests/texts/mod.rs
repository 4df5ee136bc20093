//! Policies that more than one test reads.
#![allow(dead_code, reason = "each test binary uses some of them")]

/// The example of the language's description, word for word.
pub(crate) const EXAMPLE: &str = r#"weir: 1                              # format version

network:
  nic: 10Gb/s                        # default for every machine
  racks:
    r1: { uplink: 10Gb/s, machines: [m1, m2] }     # ranges allowed: "m[1-10]"
    # uplink: {tx: 80Gb/s, rx: 80Gb/s} where the directions differ

services:
  dfs:
    match: [ { protocol: tcp, port: 7000-7099 } ]  # also: address (prefix), interface glob, cgroup, dscp, vni
    machine: { min: 3Gb/s }
    rack:    { min: 6Gb/s, weight: 2 }
  vm:
    match: [ { interface: "tap*" } ]
    machine: { max: 1Gb/s }
    rack:    { max: 1Gb/s }

caps:                                # the papers' star service: the sum of everything at that point
  rack: 9Gb/s
"#;

/// Every key of the language.
pub(crate) const EVERYTHING: &str = r#"
weir: 1
sharing: fill
network:
  nic: { tx: 10Gb/s, rx: 20Gb/s }
  racks:
    r10: { uplink: { tx: 80Gb/s, rx: 40Gb/s }, machines: ["n[08-10]"] }
    r9: { uplink: 40Gb/s, machines: [m10, "m[1-9]"] }
  machines:
    "n[08-09]": { nic: 25Gb/s }
    m1: { address: 10.0.0.1 }
    m2: { nic: { tx: 5Gb/s, rx: 5Gb/s }, address: "fd00::2" }
  switches: { buffer: { machine: 256kB, rack: 4MB }, queues: 8, scheduler: { strict: 3, weighted: 5 },
              forwarders: true }
services:
  dfs:
    sharing: add
    rack: { min: 6Gb/s, max: unlimited, weight: 2.5, tx: { min: 7Gb/s }, rx: { max: 9Gb/s, weight: 0.001 } }
    services:
      hbase:
        match: [ { protocol: 6, port: 60000 }, { protocol: udp, port: 53-54, dscp: 46 } ]
        rack: { min: 3Gb/s }
        order: -1
      backup: { match: [ { address: 10.0.0.0/8 }, { address: "fd00::/8" } ], latency: { message: 1MB, p99: 20ms } }
  web:
    match: [ { cgroup: /system.slice/web.service, vni: 4711 } ]
    fabric: { max: 1Tb/s }
    level: guaranteed
    shaper: { interval: 200us, burst: 64kB }
    senders: { m1: 2, "m[3-4]": 0.5, "n[08-10]": 1 }
  ping: { match: [ { protocol: icmp, dscp: 0 } ], order: 7, level: 2 }
  clock:
    match: [ { protocol: udp, port: 319-320 } ]
    level: 1
    latency: { message: 100B, worst: 200us, rate: 10kb/s, round-trip: true }
    machines: ["m[1-4]"]
    order: 1
  bulk: { match: [ { port: 700 } ], credits: { weight: 2 }, order: 2 }
  rpc: { match: [ { priority: 5 } ], level: 2, order: 1 }
tunnels: { vxlan: [8472, 4789, 4790], geneve: 6082 }
caps: { machine: 9Gb/s, rack: { tx: 30Gb/s }, fabric: { rx: 60Gb/s } }
levels:
  packet: 1000B
  framing: 0B
  load: 25%
  epoch: regulated
  factors: [1, 10]
  dscp: [44, 32, 24]
  processing: 2us
  segments: 8
credits: { share: 60%, period-max: 100us }
tenants:
  red: { vms: 10, bandwidth: 100Mb/s, match: [ { vni: 5001 } ] }
  blue: { vms: { web: 4, db: 2 }, bandwidth: { web: 200Mb/s, db: 1Gb/s } }
"#;

/// Parley Fig 5: a guarantee of 30 Gb/s of 50 holds virtual machines (at most 10) and HBase (at
/// least 20).
pub(crate) const FIG5: &str = r#"
weir: 1
network: { nic: 50Gb/s, racks: { r1: { uplink: 50Gb/s, machines: [m1, m2] } } }
services:
  dfs:
    rack: { min: 30Gb/s }
    services:
      vms: { match: [ { interface: "tap*" } ], rack: { max: 10Gb/s } }
      hb: { match: [ { port: 60000 } ], rack: { min: 20Gb/s } }
  s2: { match: [ { port: 9000 } ], rack: { max: 10Gb/s } }
"#;

/// Parley Fig 6: the same uplink; the rest of the services together may use 10 Gb/s.
pub(crate) const FIG6: &str = include_str!("../../../../../scenarios/parley-fig6.policy.yaml");
