//! Credits in the lab: real forwarders on its switches, real agents, real TCP (`papers/pace-lab.yaml`).

mod common;

use common::{lab_namespaces, one_at_a_time, signal, skipped, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where forwarders pin their programs.
const PINS: &str = "/sys/fs/bpf/weir";

/// A frame of the lab's links.
const FRAME: u64 = 1_514;

/// Whether packets beyond the grants are at most 2 % of the data with credits. A gate closes when its thread runs: on a
/// busy machine one that is late by some periods lets data out whose grant has expired.
fn is_rare(packets: u64, arrived: u64) -> bool {
    packets * FRAME * 50 <= arrived
}

/// Two senders behind one link of 4 Mb/s, whose services divide it by 2 to 1.
fn scenario(directory: &Path, seconds: u64) -> PathBuf {
    let policy = "weir: 1\nnetwork:\n  nic: 4Mb/s\n  racks:\n    left: { uplink: 4Mb/s, machines: [s1, s2] }\n    \
                  right: { uplink: 4Mb/s, machines: [r1] }\n  switches: { forwarders: true, buffer: 150kB }\n\
                  credits: { period-max: 60ms }\nservices:\n  heavy: { match: [ { protocol: tcp, port: 7000-7009 } ], \
                  credits: { weight: 2 } }\n  light: { match: [ { protocol: tcp, port: 7010-7019 } ], credits: {} }\n";
    let scenario = format!(
        "scenario: 1\nname: small-credits\npolicy: policy.yaml\nduration: {seconds}s\nenforcement: shaper\nlinks: {{ \
         queue: {{ discipline: drop-tail, buffer: 150kB }} }}\ntransport: cubic\naggregates: {{ period: 20ms \
         }}\ntraffic:\n  - {{ service: heavy, from: s1, to: r1 }}\n  - {{ service: light, from: s2, to: r1 \
         }}\nmeasure: {{ rack: right, direction: rx, every: 500ms }}\n"
    );
    fs::write(directory.join("policy.yaml"), policy).expect("written");
    let path = directory.join("small.scenario.yaml");
    fs::write(&path, scenario).expect("written");
    path
}

/// The inodes of the namespaces of the lab's switches.
fn switches() -> Vec<u64> {
    let switches = lab_namespaces().into_iter().filter(|name| name.contains("-r-"));
    switches.filter_map(|name| Some(fs::metadata(Path::new("/run/netns").join(name)).ok()?.ino())).collect()
}

/// The pins of forwarders in these namespaces; other tests may have others.
fn pins(namespaces: &[u64]) -> usize {
    let names = fs::read_dir(PINS).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_own = |name: &String| namespaces.iter().any(|own| name.starts_with(&format!("credits-forwarder-{own}-")));
    names.filter(is_own).count()
}

/// The processes of `weir forwarder` for a switch of these tests' policies.
fn forwarders(directory: &Path) -> usize {
    let directory = directory.display().to_string();
    let is_own = |line: Vec<u8>| {
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split('\0').nth(1) == Some("forwarder") && line.contains(&directory)
    };
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(is_own)).count()
}

#[test]
fn tcp_through_the_labs_forwarders_loses_nothing() {
    if skipped("credits in the lab") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let path = scenario(directory.path(), 6);
    let output = weir(&["lab", "--json"]).arg(&path).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let count = |name: &str| result["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}: {result}"));
    // Two racks are joined by a cable: an uplink at each, and the ports of three machines.
    assert_eq!([count("credits_ports"), count("credits_ports_lossless")], [5, 5]);
    assert_eq!(count("packets_dropped"), 0, "{result}");
    assert!(is_rare(count("credits_dropped_packets"), count("credits_arrived_bytes")), "{result}");
    assert_eq!([count("credits_messages_forged"), count("credits_messages_replayed")], [0, 0], "{result}");
    let delivered = |service: &str| {
        let transfers = result["policy"]["transfers"].as_array().expect("transfers");
        let own = transfers.iter().find(|own| own["service"] == service).expect("a transfer");
        own["delivered_bytes"].as_f64().expect("bytes")
    };
    // The data crosses two ports, which count what they have granted, up to a second before the end.
    let (heavy, light) = (delivered("heavy"), delivered("light"));
    let arrived = count("credits_arrived_bytes") as f64 / 2.0;
    let part = arrived / (heavy + light);
    assert!(heavy + light > 100_000.0 && (0.6..1.1).contains(&part), "{part} of the data: {result}");
    assert!((1.5..2.7).contains(&(heavy / light)), "{heavy} B and {light} B with weights 2 and 1");
    assert_eq!((lab_namespaces(), forwarders(directory.path())), (Vec::new(), 0));
}

#[test]
fn interrupted_lab_leaves_no_forwarder() {
    if skipped("Ctrl-C in a lab with forwarders") {
        return;
    }
    let _turn = one_at_a_time();
    let directory = tempfile::tempdir().expect("a directory");
    let path = scenario(directory.path(), 120);
    let mut command = weir(&["lab"]);
    let child = command.arg(&path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    wait_for("forwarders with programs", 120, || forwarders(directory.path()) == 2 && pins(&switches()) > 0);
    let namespaces = switches();
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((lab_namespaces(), pins(&namespaces), forwarders(directory.path())), (Vec::new(), 0, 0));
}
