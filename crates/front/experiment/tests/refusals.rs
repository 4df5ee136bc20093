//! Every refusal of a paper file as people see it.

use std::fs;
use std::path::Path;
use weir_experiment::Experiment;

const POLICY: &str = "
weir: 1
network:
  nic: 1Gb/s
  racks:
    r1: { uplink: 10Gb/s, machines: [\"s[1-2]\"] }
    r2: { uplink: 10Gb/s, machines: [\"d[1-2]\"] }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], rack: { max: 5Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ] }
";
const SCENARIO: &str = "scenario: 1
name: test
policy: test.policy.yaml
duration: 60s
traffic:
  - { service: a, name: long, from: r1, to: r2 }
measure: { rack: r1, direction: tx, every: 1s }
";
const DEMANDS: &str = "s1,a,tx,1Gb/s\n";
const PAPER: &str = "paper: 2
id: test
title: A test
source: a paper
takes: { quick: 1s, full: 1min }
scenario: test.scenario.yaml
runs:
  one: { quick: { set: [ \"duration=20s\" ] }, full: { seeds: 3 } }
windows:
  end: { quick: 10s-20s, full: 50s-60s }
values:
  - metric: first
    unit: Gb/s
    published: 3.0
    where: figure 1
    measure: { kind: bandwidth, run: one, service: a, window: end }
    expect: { within: 3% }
  - metric: second
    unit: ms
    where: table 1
    measure: { kind: completion-time, run: one, group: long, percentile: 99%, window: end }
    expect: { at-least: 10, times: third }
  - metric: third
    unit: ms
    published: 15.32
    where: table 1
    measure: { kind: bound, capacity: 10Gb/s, load: 50%, message: 200kB, convergence: 7500us }
    expect: as-printed
  - metric: fourth
    unit: Mb/s
    where: text
    measure: { kind: allocation, policy: test.policy.yaml, demands: test.demands.csv, service: a, machine: s1 }
figures:
  - { kind: bandwidth, id: line, title: A line, run: one, services: [a] }
  - { kind: values, id: bars, title: Bars, values: [second, third] }
notes: [ \"A note.\" ]
";

/// The diagnostics of the paper with `from` replaced; positions name the file without its
/// directory.
fn refused(from: &str, to: &str) -> String {
    let text = PAPER.replacen(from, to, 1);
    assert_ne!(text, PAPER, "{from}");
    match read(&text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(refused) => refused,
    }
}

fn read(text: &str) -> Result<Experiment, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("written");
    write("test.policy.yaml", POLICY);
    write("test.scenario.yaml", SCENARIO);
    write("test.demands.csv", DEMANDS);
    write("test.yaml", text);
    let place = format!("{}{}", directory.path().display(), std::path::MAIN_SEPARATOR);
    match Experiment::read(directory.path().join(Path::new("test.yaml"))) {
        Ok((experiment, _)) => Ok(experiment),
        Err(refused) => Err(refused.render(false).replace(&place, "")),
    }
}

#[test]
fn reads_every_part() {
    let experiment = read(PAPER).unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!((experiment.id.as_str(), experiment.values.len(), experiment.figures.len()), ("test", 4, 2));
    let run = &experiment.runs[0];
    assert_eq!((run.seeds.quick, run.seeds.full, run.scale), (1, 3, 1));
    assert_eq!(run.scenario.quick.duration(), weir_units::Duration::from_secs(20));
    assert_eq!(run.scenario.full.duration(), weir_units::Duration::from_secs(60));
}

/// One mistake, one snapshot.
macro_rules! refusals {
    ($($name:ident: $from:expr => $to:expr;)*) => {
        $(#[test] fn $name() { insta::assert_snapshot!(stringify!($name), refused($from, $to)); })*
    };
}

refusals! {
    version: "paper: 2" => "paper: 1";
    unknown_key: "title: A test" => "titel: A test";
    bad_id: "id: test" => "id: Test One";
    no_scenario_of_a_run: "scenario: test.scenario.yaml\n" => "";
    scenario_that_is_not_there: "scenario: test.scenario.yaml" => "scenario: other.scenario.yaml";
    change_without_value: "duration=20s" => "duration";
    change_of_an_unknown_key: "duration=20s" => "duratoin=20s";
    window_backwards: "quick: 10s-20s" => "quick: 20s-10s";
    window_of_no_setting: "full: 50s-60s" => "fall: 50s-60s";
    window_beyond_the_run: "quick: 10s-20s" => "quick: 10s-21s";
    unknown_window: "service: a, window: end" => "service: a, window: ned";
    unknown_run: "run: one, service: a" => "run: two, service: a";
    unknown_service: "service: a, window" => "service: b, window";
    unknown_flow_group: "group: long" => "group: lang";
    unwatched_link: "service: a, window" => "link: \"r1->s1\", window";
    bandwidth_without_a_subject: "service: a, window" => "window";
    two_at_once: "service: a, window" => "service: a, group: long, window";
    unit_of_another_kind: "unit: Gb/s" => "unit: ms";
    unknown_unit: "unit: Gb/s" => "unit: Gbps";
    unknown_kind: "kind: bound" => "kind: bounds";
    key_of_another_kind: "kind: bound, " => "kind: bound, run: one, ";
    percentile_of_everything: "percentile: 99%" => "percentile: 100%";
    metric_twice: "metric: second" => "metric: first";
    nothing_to_compare_with: "    published: 15.32\n" => "";
    two_expectations: "{ within: 3% }" => "{ within: 3%, at-most: 4 }";
    no_expectation: "{ within: 3% }" => "{ times: second }";
    times_of_an_unknown_run: "times: third" => "times: thrid";
    times_of_another_kind: "times: third" => "times: first";
    number_of_no_tolerance: "{ within: 3% }" => "{ at-most: 4, of: 3 }";
    number_and_another_value: "times: third" => "times: third, of: 3";
    addition_to_no_multiple: "{ within: 3% }" => "{ at-most: 4, plus: 1 }";
    addition_to_a_lower_bound: "times: third" => "times: third, plus: 1";
    times_of_itself: "times: third" => "times: second";
    unknown_machine: "machine: s1" => "machine: s9";
    unknown_service_of_the_policy: "service: a, machine" => "service: c, machine";
    demands_that_are_not_there: "demands: test.demands.csv" => "demands: other.csv";
    figure_of_nothing: ", services: [a] }" => " }";
    figure_of_two_units: "values: [second, third]" => "values: [first, third]";
    range_of_no_flow: "completion-time, run: one, group: long, percentile: 99%, window: end" => "slowdown, run: one, \
        group: long, above: 10kB, up-to: 10kB";
    series_without_a_value: "values, id: bars, title: Bars, values: [second, third]" => "grouped-bars, id: bars, \
        title: Bars, axis: load, categories: [20 %, 80 %], series: { a: [second, third], b: [third] }";
    figure_twice: "id: bars" => "id: line";
}
