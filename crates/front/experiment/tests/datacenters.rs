//! Datacenters of an experiment: what a file states, the values of every kind of measure, and every refusal.

use std::fs;
use weir_binding::Map;
use weir_experiment::figure::Line;
use weir_experiment::{Experiment, Measure, Setting, Unit, Verdict, datacenter, outcomes};
use weir_placement::{Strategy, Weighing};
use weir_tenancy::{DrawnPer, Quantity};
use weir_units::Bandwidth;

const POLICY: &str = "weir: 1
network: { topology: star, hosts: 4, host-link: { rate: 10Gb/s }, slots: 100 }
services: { other: { match: [ { protocol: tcp } ] } }
";
const PAPER: &str = "paper: 2
id: test
title: A test
source: a paper
takes: { quick: 1s, full: 1min }
datacenters:
  one:
    policy: test.policy.yaml
    mean-vms: 30
    bandwidths: [10Mb/s, 100Mb/s]
    strategy: queues
    refusals: 5
    seeds: { quick: 2, full: 3 }
  two: { like: one, drawn-per: vm, machines: 2, per-machine: 20, least-vms: 2, slots: 50, strategy: bandwidth }
values:
  - { metric: placed, unit: \"1\", where: text, measure: { kind: tenants, datacenter: one, of: placed } }
  - { metric: alone, unit: \"%\", where: text, measure: { kind: tenants, datacenter: two, of: on-one-machine } }
  - { metric: ports, unit: \"%\", where: text, measure: { kind: ports, datacenter: two, least: 1, most: 40 } }
  - { metric: always, unit: \"%\", where: text, measure: { kind: queued, datacenter: two, of: always } }
  - metric: interval
    unit: \"%\"
    where: text
    measure: { kind: queued, datacenter: two, of: interval, map: switch, inactive: 50%, intervals: 3 }
  - { metric: used, unit: \"1\", where: text, measure: { kind: dscp-values, datacenter: two, of: used } }
  - metric: missing
    unit: \"1\"
    published: 0
    where: text
    measure: { kind: dscp-values, datacenter: two, of: missing }
    expect: as-printed
  - { metric: gain, unit: \"1\", where: text, measure: { kind: gain, datacenter: two, inactive: 50% } }
  - { metric: more, unit: \"1\", where: text, measure: { kind: gain, datacenter: two, inactive: 50%, divide: max-min } }
  - { metric: links, unit: \"%\", where: text, measure: { kind: links, datacenter: two, above: 1%, of: reserved } }
  - metric: reserved
    unit: Mb/s
    published: 70
    where: figure 1
    measure: { kind: reservation, machines: [ [40Mb/s, 30Mb/s], [50Mb/s], [300Mb/s] ], machine: 1 }
    expect: as-printed
figures:
  - { kind: use-of-links, id: links, title: Links, datacenter: two, inactive: 50% }
";

fn read(text: &str) -> Result<Experiment, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("written");
    write("test.policy.yaml", POLICY);
    write("without.policy.yaml", &POLICY.replace(", slots: 100", ""));
    write("test.yaml", text);
    let place = format!("{}{}", directory.path().display(), std::path::MAIN_SEPARATOR);
    match Experiment::read(directory.path().join("test.yaml")) {
        Ok((experiment, _)) => Ok(experiment),
        Err(refused) => Err(refused.render(false).replace(&place, "")),
    }
}

#[test]
fn a_datacenter_has_the_keys_of_the_one_that_it_is_like() {
    let experiment = read(PAPER).unwrap_or_else(|refused| panic!("{refused}"));
    let [one, two] = &experiment.datacenters[..] else { panic!("two datacenters") };
    assert_eq!((one.slots, one.filling.machines, one.filling.per_machine), (None, 1, None));
    assert_eq!((one.filling.strategy, one.filling.refusals), (Strategy::QShare(Weighing::Queues), 5));
    assert_eq!((one.filling.requests.drawn_per, one.filling.requests.least_vms), (DrawnPer::Tenant, 1));
    assert_eq!((two.slots, two.filling.machines, two.filling.per_machine), (Some(50), 2, Some(20)));
    assert_eq!((two.filling.strategy, two.filling.refusals), (Strategy::QShare(Weighing::Bandwidth), 5));
    assert_eq!((two.filling.requests.drawn_per, two.filling.requests.least_vms), (DrawnPer::Vm, 2));
    assert_eq!(two.filling.requests.bandwidths, [10, 100].map(Bandwidth::from_mbps));
    assert_eq!((two.filling.requests.mean_vms, two.seeds.quick, two.seeds.full), (30, 2, 3));
    let interval = Quantity::Alone { map: Map::PerSwitch, inactive: 0.5, intervals: 3 };
    assert!(matches!(experiment.values[4].measure, Measure::Datacenter { datacenter: 1, of } if of == interval));
    assert_eq!(experiment.values[4].unit, Unit::named("%").expect("a unit"));
}

#[test]
fn every_kind_has_a_value_in_a_filled_datacenter() {
    let experiment = read(PAPER).unwrap_or_else(|refused| panic!("{refused}"));
    let filled: Vec<_> = experiment.datacenters.iter().map(|of| of.fill(datacenter::FIRST_SEED)).collect();
    let reading = |value: &weir_experiment::Value| match value.measure.datacenter() {
        Some(at) => datacenter::reading(&value.measure, &filled[at]),
        None => weir_experiment::compute::value(&value.measure, Setting::Quick, &|| 0.0).ok(),
    };
    let measured: Vec<_> = experiment.values.iter().map(reading).collect();
    let of = |metric: &str| {
        let at = experiment.values.iter().position(|value| value.metric == metric).expect("a value");
        measured[at].unwrap_or_else(|| panic!("{metric}")).value
    };
    assert_eq!(of("placed"), filled[0].tenants.len() as f64);
    assert_eq!((of("alone"), of("ports"), of("links"), of("missing")), (0.0, 1.0, 1.0, 0.0));
    assert!(["always", "interval"].into_iter().all(|share| (0.0..=1.0).contains(&of(share))));
    // Seven queues of a port, and the shared one.
    assert!(of("used") >= 8.0 && of("used") <= 64.0);
    assert!(of("gain") >= 1.0 && of("more") >= of("gain"));
    let outcomes = outcomes(&experiment, &measured);
    let agree = |verdict: &Verdict| matches!(verdict, Verdict::Shown | Verdict::Agrees);
    assert!(outcomes.iter().all(|outcome| agree(&outcome.verdict)));
}

#[test]
fn a_figure_of_links_has_a_line_for_each_division() {
    let experiment = read(PAPER).unwrap_or_else(|refused| panic!("{refused}"));
    let kind = &experiment.figures[0].kind;
    let filled = experiment.datacenters[1].fill(1);
    assert!(kind.lines_of_datacenter(0, &filled).is_empty());
    let lines = kind.lines_of_datacenter(1, &filled);
    let ends = |line: &Line| line.points.last().map(|(used, share)| (*used <= 1.0 + 1e-9, *share)) == Some((true, 1.0));
    assert!(lines.len() == datacenter::DIVISIONS.len() && lines.iter().all(ends));
}

/// The diagnostics of the paper with `from` replaced.
fn refused(from: &str, to: &str) -> String {
    let text = PAPER.replacen(from, to, 1);
    assert_ne!(text, PAPER, "{from}");
    read(&text).map_or_else(|refused| refused, |_| panic!("accepted:\n{text}"))
}

#[test]
fn refusals() {
    let mistakes = [
        ("datacenter: one, of", "datacenter: oen, of"),
        ("like: one", "like: three"),
        ("    policy: test.policy.yaml\n", ""),
        ("    mean-vms: 30\n", ""),
        ("    bandwidths: [10Mb/s, 100Mb/s]\n", ""),
        ("bandwidths: [10Mb/s, 100Mb/s]", "bandwidths: [10Mb]"),
        ("policy: test.policy.yaml", "policy: without.policy.yaml"),
        ("machines: 2, per-machine: 20, least-vms: 2, slots: 50, strategy: bandwidth", "strategy: oktopus"),
        ("drawn-per: vm", "drawn-per: machine"),
        ("least: 1, most: 40", "least: 10, most: 9"),
        ("of: always", "of: always, inactive: 50%"),
        ("machine: 1", "machine: 4"),
        ("unit: \"1\", where: text, measure: { kind: tenants", "unit: Mb/s, where: text, measure: { kind: tenants"),
    ];
    let all: Vec<String> = mistakes.iter().map(|(from, to)| refused(from, to)).collect();
    insta::assert_snapshot!(all.join("\n"));
}
