//! Files of other programs, from the command line to a run: `weir import`, `weir export`, and their page.

mod program;
mod tutorial;

use program::{directory, file, run, shown, text};
use std::fs;
use std::path::Path;
use tutorial::follow_page;

#[test]
fn the_page_prints_the_output_of_the_program() {
    follow_page("docs/how-to/import.md", 1.0);
}

/// Forty flows among six hosts: sender, receiver, bytes, and the start in picoseconds.
fn forty_flows() -> Vec<(u32, u32, u64, u64)> {
    let flow = |i: u64| {
        let from = (i * 5 % 6) as u32;
        (from, (from + 1 + (i % 5) as u32) % 6, 1 + i * i * 977, i * 7_301_000)
    };
    (0..40).map(flow).collect()
}

/// Imports a list, runs it, and returns its flows as the run reports them, in the order of their ids.
fn imported_and_run(directory: &Path, name: &str, content: &str, options: &[&str]) -> Vec<(String, String, u64, u64)> {
    let list = directory.join(format!("{name}.csv")).display().to_string();
    let imported = file(directory, &format!("{name}.txt"), content);
    let output = run(&[&["import", "flows", &imported, "-o", &list], options].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let scenario = format!(
        "scenario: 1\nname: imported\nseed: 1\nduration: 10s\n\
         network: {{ topology: star, hosts: 6, host-link: {{ rate: 10Gb/s, delay: 1us }} }}\ntransport: newreno\n\
         traffic:\n  - {{ kind: list, file: {name}.csv }}\n"
    );
    let scenario = file(directory, &format!("{name}.scenario.yaml"), &scenario);
    let report = directory.join(format!("{name}-report")).display().to_string();
    let output = run(&["sim", &scenario, "--report", &report]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = fs::read_to_string(Path::new(&report).join("flows.csv")).expect("flows.csv");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    let mut flows: Vec<(u64, (String, String, u64, u64))> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |name| fields[column(name)].parse::<u64>().expect("a number");
            assert_eq!(number("delivered_bytes"), number("bytes"), "{line}");
            let ends = ["from", "to"].map(|end| fields[column(end)].to_owned());
            let [from, to] = ends;
            (number("id"), (from, to, number("bytes"), number("start_ps")))
        })
        .collect();
    flows.sort();
    flows.into_iter().map(|(_, flow)| flow).collect()
}

#[test]
fn imported_flows_run_with_their_sizes_and_times() {
    let directory = directory();
    let flows = forty_flows();
    let host = |index: &u32| format!("h{index}");
    let expected: Vec<_> = flows.iter().map(|(from, to, bytes, at)| (host(from), host(to), *bytes, *at)).collect();

    let lines = flows.iter().map(|(from, to, bytes, at)| {
        format!("{} {} 3 100 {bytes} {}.{:012}\n", from + 4, to + 4, 2 + at / 1_000_000_000_000, at % 1_000_000_000_000)
    });
    let ns3 = format!("40\n{}", lines.collect::<String>());
    let options = ["--format", "ns3-hpcc", "--origin", "2s", "--first-node", "4", "--hosts", "h[0-2],h[3-5]"];
    assert_eq!(imported_and_run(directory.path(), "ns3", &ns3, &options), expected);

    let lines = flows.iter().zip(1..).map(|((from, to, bytes, at), id)| {
        format!("{from}->{to} id {id} start {}.{:06} size {bytes}\n", at / 1_000_000, at % 1_000_000)
    });
    let htsim = format!("Nodes 6\nConnections 40\n{}", lines.collect::<String>());
    let options = ["--format", "htsim-cm", "--start-unit", "us"];
    assert_eq!(imported_and_run(directory.path(), "htsim", &htsim, &options), expected);
}

#[test]
fn wrong_options_are_refused_with_hints() {
    let directory = directory();
    let sizes = file(directory.path(), "sizes.txt", "1.5\n1 0.5\n2 1\n");
    let flows = file(directory.path(), "flows.txt", "1\n0 1 3 100 5 2\n");
    let there = file(directory.path(), "there.csv", "kept\n");
    let mut report = String::new();
    for arguments in [
        &["import", "sizes", &sizes, "--format", "homa", "--unit", "packets"][..],
        &["import", "sizes", &sizes, "--format", "homa", "--payload", "1460B"],
        &["import", "sizes", &sizes, "--format", "homa", "--unit", "bytes", "-o", &there],
        &["import", "flows", &flows, "--format", "ns3-hpcc", "--hosts", "h[0-1],h1"],
        &["import", "flows", &flows, "--format", "ns3-hpcc", "--hosts", "h[0..1]"],
        &["import", "flows", &flows, "--format", "ns3-hpcc", "--hosts", "h[0-9999999]"],
        &["import", "flows", &flows, "--format", "ns3-hpcc", "--start-unit", "ps"],
        &["import", "flows", &flows, "--format", "ns3-hpcc", "--origin", "3s"],
    ] {
        report.push_str(&shown(arguments).replace(&directory.path().display().to_string(), "DIR"));
    }
    insta::assert_snapshot!(report);
    assert_eq!(fs::read_to_string(&there).expect("it is there"), "kept\n");
    let forced = run(&["import", "sizes", &sizes, "--format", "homa", "--unit", "bytes", "-o", &there, "--force"]);
    assert!(forced.status.success());
    assert!(fs::read_to_string(&there).expect("it is there").starts_with("# weir import sizes: "));
}

#[test]
fn an_exported_policy_is_valid() {
    let directory = directory();
    for name in ["parley-fig1", "four-systems", "tenants"] {
        let policy = format!("scenarios/{name}.policy.yaml");
        let exported = directory.path().join(format!("{name}.json")).display().to_string();
        let output = run(&["export", &policy, "-o", &exported]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let checked = [&policy, &exported].map(|file| text(&run(&["check", file]).stdout).replace(file, "FILE"));
        assert!(checked[0].contains("valid"), "{}", checked[0]);
        // Notes show lines of the file, which differ.
        let tables = checked.each_ref().map(|text| text.split("\nnote").next().unwrap_or_default());
        assert_eq!(tables[0], tables[1]);
    }
}
