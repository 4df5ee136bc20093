//! The simulator alone as one static file: `make test-static`.

mod common;

use common::{WEIR, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A shaper with two services on a cable, with randomness from the seed and files to read beside the scenario.
const POLICY: &str = "weir: 1
network:
  nic: 10Mb/s
  racks:
    left: { uplink: 10Mb/s, machines: [l] }
    right: { uplink: 10Mb/s, machines: [r] }
services:
  web: { match: [ { protocol: tcp, port: 80 } ] }
  bulk: { match: [ { protocol: tcp, port: 9000 } ], rack: { max: 4Mb/s } }
";
const SCENARIO: &str = "scenario: 1
name: small
policy: policy.yaml
duration: 2s
traffic:
  - { service: bulk, from: left, to: right }
  - { service: web, from: left, to: right, start: 1s }
measure: { rack: left, direction: tx, every: 500ms }
";

/// Builds the static program.
fn build() -> PathBuf {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = Path::new(WEIR).ancestors().nth(2).expect("the program is in the directory of its profile");
    let mut make = Command::new(tree.join("tools/static.sh"));
    let output = make.arg("dev").env("CARGO_TARGET_DIR", target).output().expect("runs");
    PathBuf::from(succeeded(&output).trim())
}

/// The standard output of a program that succeeded.
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The types of the program headers of an ELF file of 64 bits in this machine's byte order.
fn program_headers(elf: &[u8]) -> Vec<u32> {
    assert_eq!(elf[..5], *b"\x7fELF\x02");
    let half = |at: usize| usize::from(u16::from_ne_bytes(elf[at..at + 2].try_into().expect("two bytes")));
    let first = u64::from_ne_bytes(elf[32..40].try_into().expect("eight bytes")) as usize;
    let (size, count) = (half(54), half(56));
    let kind = |index: usize| elf[first + index * size..][..4].try_into().expect("four bytes");
    (0..count).map(|index| u32::from_ne_bytes(kind(index))).collect()
}

#[test]
#[ignore = "builds another program: make test-static"]
fn static_simulator_runs_alone_with_the_same_results() {
    /// The program header that names a dynamic linker.
    const INTERPRETER: u32 = 3;
    if skipped("a program in an empty root directory") {
        return;
    }
    let program = build();
    assert!(!program_headers(&fs::read(&program).expect("read")).contains(&INTERPRETER));
    assert!(program_headers(&fs::read(WEIR).expect("read")).contains(&INTERPRETER), "the check finds one elsewhere");

    let root = tempfile::tempdir().expect("a directory");
    fs::copy(&program, root.path().join("weir-sim")).expect("copied");
    fs::write(root.path().join("policy.yaml"), POLICY).expect("written");
    fs::write(root.path().join("scenario.yaml"), SCENARIO).expect("written");
    let alone = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin");
        command.arg(root.path()).arg("/weir-sim").args(arguments).output().expect("runs")
    };
    succeeded(&alone(&["check", "policy.yaml"]));
    succeeded(&alone(&["sim", "scenario.yaml", "--report", "static"]));
    let mut dynamic = Command::new(WEIR);
    dynamic.args(["sim", "scenario.yaml", "--report", "dynamic"]).current_dir(root.path());
    succeeded(&dynamic.output().expect("runs"));
    for file in ["result.json", "flows.csv", "links.csv", "flows.parquet"] {
        let read = |directory: &str| fs::read(root.path().join(directory).join(file)).expect(file);
        assert_eq!(read("static"), read("dynamic"), "{file}");
    }
    // The host's commands are not there.
    assert_eq!(alone(&["agent", "--remove", "--all"]).status.code(), Some(2));
    let refused = alone(&["reproduce", "parley-fig14", "--backend", "lab"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
