//! `weir switch --driver sonic` on a real redis server beside orchagent's stand-in: applied, shown, removed, refused.

mod common;
mod program;
#[path = "../../../host/sonic/tests/stand_in/mod.rs"]
mod stand_in;

use common::{one_at_a_time, skipped};
use program::{directory, file, run, text};
use serde_json::Value;
use stand_in::{CONFIG, PASSWORD, Switch};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

const POLICY: &str = "weir: 1
network:
  nic: 100Gb/s
  switches: { buffer: 200kB }
  racks: { r1: { uplink: 400Gb/s, machines: [m1, m2] } }
services:
  web: { match: [ { protocol: tcp, port: 80 } ] }
";
/// Level 1 is m1's alone.
const LEVELS: &str = "weir: 1
network:
  nic: 100Gb/s
  switches: { queues: 8, scheduler: strict }
  racks: { r1: { uplink: 400Gb/s, machines: [m1, m2] } }
levels: { factors: [1] }
services:
  urgent: { match: [ { protocol: udp, port: 320 } ], level: 1, machines: [m1] }
  web: { match: [ { protocol: tcp, port: 80 } ] }
";

struct Host {
    switch: Switch,
    socket: String,
    password: String,
    directory: tempfile::TempDir,
}

impl Host {
    /// `None` where this host has no redis-server.
    fn new() -> Option<Self> {
        let (switch, directory) = (Switch::with(true, true)?, directory());
        let password = file(directory.path(), "password", &format!("{PASSWORD}\n"));
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).expect("its owner's alone");
        let socket = switch.redis.socket().display().to_string();
        Some(Self { switch, socket, password, directory })
    }

    fn policy(&self, text: &str) -> String {
        file(self.directory.path(), "policy.yaml", text)
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let server = ["--driver", "sonic", "--redis", &self.socket, "--redis-password-file", &self.password];
        run(&[&["switch"], arguments, &server[..]].concat())
    }

    /// The same for both ports, with a policy.
    fn on_ports(&self, action: &str, policy: &str, more: &[&str]) -> Output {
        let ports = ["--switch", "r1", "--port", "Ethernet0=m1", "--port", "Ethernet4=m2"];
        self.weir(&[&[action, policy], &ports[..], more].concat())
    }

    fn json(&self, action: &str, policy: &str, more: &[&str]) -> Value {
        let output = self.on_ports(action, policy, &[more, &["--json"]].concat());
        assert!(output.status.success(), "{action}: {}", text(&output.stderr));
        program::json(&output)
    }

    fn in_force(&self, policy: &str, more: &[&str]) -> Vec<bool> {
        let shown = self.json("show", policy, more);
        let ports = shown["ports"].as_array().expect("a list").iter();
        ports.map(|port| port["in_force"].as_bool().expect("known")).collect()
    }
}

#[test]
fn ports_of_a_sonic_switch_are_configured_as_the_policy_needs_them() {
    if skipped("ports of a SONiC switch") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(host) = Host::new() else { return };
    let policy = host.policy(POLICY);
    let original = host.switch.rows(CONFIG);
    assert_eq!(host.in_force(&policy, &[]), [false, false]);
    let planned = host.json("diff", &policy, &[])["steps"].clone();
    assert_eq!(planned.as_array().map(Vec::len), Some(4), "queue and map of two ports: {planned}");
    assert_eq!(host.switch.rows(CONFIG), original, "nothing has changed");
    let applied = host.on_ports("apply", &policy, &[]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let note = "note: the policy's buffers are not configured: this switch's ports have their own";
    assert!(text(&applied.stderr).contains(note), "{}", text(&applied.stderr));
    assert_eq!(host.in_force(&policy, &[]), [true, true]);
    assert_eq!(text(&host.on_ports("apply", &policy, &[]).stdout), "nothing to change on 2 ports\n");
    let rows = host.switch.rows(CONFIG);
    assert_eq!(rows["WRED_PROFILE|WEIR_ECN_80000"]["green_max_threshold"], "80000");
    assert_eq!(rows["PORT_QOS_MAP|Ethernet0"]["pfc_enable"], "3,4");

    let removed = host.weir(&["remove", "--port", "Ethernet0", "--port", "Ethernet4"]);
    assert_eq!(text(&removed.stderr), "removed from 2 of 2 ports\n");
    assert_eq!(host.switch.rows(CONFIG), original);
}

/// The switch re-marks nothing: levels need the operator's statement that other devices do.
#[test]
fn levels_need_trusted_dscp_values_on_a_sonic_switch() {
    if skipped("levels on a SONiC switch") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(host) = Host::new() else { return };
    let policy = host.policy(LEVELS);
    let refused = host.on_ports("apply", &policy, &[]);
    assert_eq!(refused.status.code(), Some(2));
    let errors = text(&refused.stderr);
    assert!(errors.contains("re-marked DSCP: 48, 56; these ports do not change packets"), "{errors}");
    let trust = ["--trust-dscp"];
    let steps = host.json("apply", &policy, &trust)["steps"].clone();
    assert_eq!(steps.as_array().map(Vec::len), Some(8), "three queues and the map of two ports: {steps}");
    assert_eq!(host.in_force(&policy, &trust), [true, true]);
    let rows = host.switch.rows(CONFIG);
    assert_eq!(rows["SCHEDULER|weir.Ethernet4.q2"]["type"], "STRICT");
    assert_eq!(rows["DSCP_TO_TC_MAP|WEIR_Ethernet4"]["46"], "2");
}

#[test]
fn ports_that_are_slower_than_the_policy_are_refused() {
    if skipped("a slow port of a SONiC switch") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(host) = Host::new() else { return };
    let fast = host.policy(&POLICY.replace("nic: 100Gb/s", "nic: 200Gb/s"));
    let refused = host.on_ports("apply", &fast, &[]);
    assert_eq!(refused.status.code(), Some(2));
    let errors = text(&refused.stderr);
    assert!(errors.contains("switch r1, port Ethernet0: the policy has 200 Gb/s, and the port 100 Gb/s"), "{errors}");
    let slow = host.policy(&POLICY.replace("nic: 100Gb/s", "nic: 10Gb/s"));
    let shown = host.on_ports("diff", &slow, &[]);
    assert!(shown.status.success());
    let notes = text(&shown.stderr);
    let expected = "note: ports faster than the policy has them, which cannot be limited: Ethernet0 and Ethernet4";
    assert!(notes.contains(expected), "{notes}");
}
