//! Files of other programs: what they become, and what is refused.

use super::*;
use crate::SizeDistribution;
use crate::test_support::all;
use crate::{Builtin, FlowList, Spec, Workload};
use proptest::prelude::*;
use weir_document::{Diagnostic, Diagnostics};
use weir_units::Duration;

type Read<T> = Result<(T, Vec<Diagnostic>), Diagnostics>;

fn sizes(text: &str, format: SizeFormat, unit: Option<SizeUnit>) -> Read<SizeTable> {
    SizeTable::read(&Source::from_text("sizes.txt", text), format, unit)
}

fn flows(text: &str, format: FlowFormat, options: &FlowOptions) -> Read<FlowTable> {
    FlowTable::read(&Source::from_text("flows.txt", text), format, options)
}

fn rows(table: Read<SizeTable>) -> String {
    let (table, _) = table.unwrap_or_else(|errors| panic!("{errors}"));
    table.to_csv().lines().skip(2).collect::<Vec<_>>().join(" ")
}

/// The list of a table, and its flows as `(start, from, to, bytes, id)`.
fn listed(table: &FlowTable) -> Vec<(u64, u32, u32, u64, u64)> {
    let list = FlowList::read(table.to_csv().as_bytes(), 1460, FlowList::numbered(1_000)).expect("a list of Weir");
    assert_eq!((list.len(), list.bytes(), list.last_start()), (table.len(), table.bytes(), table.starts().1));
    let flows = all(&mut Workload::new(&Spec::List(list), 1));
    flows.iter().map(|flow| (flow.at.picos(), flow.from.0, flow.to.0, flow.bytes, flow.tag)).collect()
}

#[test]
fn percentiles_and_shares_are_linear_between_rows() {
    let percentiles = "0 0\n10000 15\n20000\t20 \r\n\n30000000.0 100\n";
    let shares = "0     0\n10000 0.15\n2e4 0.2\n30000000 1\n";
    let expected = "0,0 10000,0.15 20000,0.2 30000000,1";
    assert_eq!(rows(sizes(percentiles, SizeFormat::HpccCdf, None)), expected);
    assert_eq!(rows(sizes(shares, SizeFormat::HkustCdf, Some(SizeUnit::Bytes))), expected);
    // The mean of HPCC's generator, 0.15·5000 + 0.05·15000 + 0.8·15010000, within half a byte.
    let (table, notes) = sizes(percentiles, SizeFormat::HpccCdf, None).expect("a table");
    assert!((table.distribution().mean() - 12_009_500.0).abs() <= 0.5 && notes.is_empty());
    // A first row with a share is linear from 0 for the HKUST generator.
    assert_eq!(rows(sizes("1000 0.5\n2000 1\n", SizeFormat::HkustCdf, None)), "0,0 1000,0.5 2000,1");
    let digits = rows(sizes("0 0\n7 97.1234567890123456789\n8 100\n", SizeFormat::HpccCdf, None));
    assert_eq!(digits, "0,0 7,0.971234567890123456 8,1");
}

#[test]
fn sizes_of_homa_are_those_of_the_rows() {
    let text = "1.8\n1 0.5\n2 0.5\n2 0.7\n3 1.0\n";
    let bytes = sizes(text, SizeFormat::Homa, Some(SizeUnit::Bytes));
    assert_eq!(rows(bytes), "1,0 1,0.5 2,0.5 2,0.7 3,0.7 3,1");
    let (table, notes) = sizes(text, SizeFormat::Homa, Some(SizeUnit::Packets(1442))).expect("a table");
    assert!(
        table.to_csv().starts_with("# weir import sizes: sizes.txt, format homa, sizes in packets of 1442 bytes\n")
    );
    let sizes_of = table.distribution();
    assert!((sizes_of.mean() - 1.8 * 1442.0).abs() < 1e-6 && notes.is_empty());
    let quantiles = [0.0, 0.49, 0.51, 0.69, 0.71, 0.99].map(|share| sizes_of.quantile((share * 2_f64.powi(64)) as u64));
    assert_eq!(quantiles, [1442, 1442, 2884, 2884, 4326, 4326]);
    // A row without a share of its own has no flows.
    assert_eq!(rows(sizes("7\n5 0\n7 1\n", SizeFormat::Homa, Some(SizeUnit::Bytes))), "7,0 7,1");
    let (_, notes) = sizes("1.9\n1 0.5\n3 1\n", SizeFormat::Homa, Some(SizeUnit::Bytes)).expect("a table");
    assert_eq!(notes[0].cause(), "the rows have a mean of 2.0, not the one in the first line");
}

#[test]
fn tables_of_weir_come_back() {
    for builtin in Builtin::ALL {
        let lines = builtin.table().lines().skip(1).map(|line| line.replace(',', " ") + "\n");
        let text: String = lines.collect();
        let (table, _) = sizes(&text, SizeFormat::HkustCdf, None).unwrap_or_else(|errors| panic!("{errors}"));
        // The first row of a table that starts above 0 is of exactly that size in Weir's format.
        let starts_at_zero = text.lines().next().is_some_and(|line| line.ends_with(" 0"));
        assert!(starts_at_zero, "{text}");
        assert_eq!(table.distribution(), builtin.sizes(), "{}", builtin.name());
    }
}

#[test]
fn flows_of_ns3_keep_their_times_and_sizes() {
    let text = "3\n2 1 3 100 200000000 2\n76 95 3 100 8760 2.000008540\n1 2 3 100 1 2.1e0\n";
    let (table, notes) = flows(text, FlowFormat::Ns3Hpcc, &FlowOptions::default()).expect("three flows");
    assert!(notes.is_empty());
    let expected = [
        (2_000_000_000_000, 2, 1, 200_000_000, 0),
        (2_000_008_540_000, 76, 95, 8760, 1),
        (2_100_000_000_000, 1, 2, 1, 2),
    ];
    assert_eq!(listed(&table), expected);
    let options = FlowOptions { origin: Duration::from_secs(2), first_node: 1, hosts: Vec::new(), start_unit: None };
    let (table, _) = flows(text, FlowFormat::Ns3Hpcc, &options).expect("three flows");
    assert_eq!(listed(&table)[1], (8_540_000, 75, 94, 8760, 1));
    let hosts = (1..=100).map(|n| format!("h{n}")).collect();
    let (table, _) = flows(text, FlowFormat::Ns3Hpcc, &FlowOptions { hosts, ..options }).expect("three flows");
    let head =
        "# weir import flows: flows.txt, format ns3-hpcc, sizes in bytes, starts in s\nid,start_s,src,dst,bytes\n";
    assert_eq!(table.to_csv(), format!("{head}0,0,h2,h1,200000000\n1,0.00000854,h76,h95,8760\n2,0.1,h1,h2,1\n"));
    let (_, notes) =
        flows("2\n2 1 3 100 5 2\n2 1 1 100 5 2\n", FlowFormat::Ns3Hpcc, &FlowOptions::default()).expect("two flows");
    assert_eq!(notes[0].cause(), "the flows have different priority groups: 1, 3");
    // As in the simulator's own example.
    let text = "1\n2 1 3 100 5 2\n3 1 3 100 5 2\n\nFirst line: # of flows\n";
    let (table, notes) = flows(text, FlowFormat::Ns3Hpcc, &FlowOptions::default()).expect("a flow");
    assert_eq!((table.len(), notes[0].position().line), (1, 3));
    assert_eq!(notes[0].cause(), "the lines from here on are not imported");
}

#[test]
fn connections_of_htsim_need_their_unit() {
    let zero = "# a permutation\nNodes 16\nConnections 2\n\n0->13 start 0 size 2000000\n13->0 start 0.000000 size 7\n";
    let (table, _) = flows(zero, FlowFormat::HtsimCm, &FlowOptions::default()).expect("0 is 0 in any unit");
    assert_eq!(listed(&table), [(0, 0, 13, 2_000_000, 0), (0, 13, 0, 7, 1)]);
    let text = "Nodes 16\nConnections 2\n7->5 id 12 start 1000000 size 2000000\n15->1 id 4 start 2.5e6 size 8\n";
    let refused = flows(text, FlowFormat::HtsimCm, &FlowOptions::default()).expect_err("a unit");
    assert_eq!((refused.count(), refused.all()[0].position().line), (1, 3));
    for (unit, first, second) in
        [(StartUnit::Picos, 1_000_000, 2_500_000), (StartUnit::Micros, 1_000_000_000_000, 2_500_000_000_000)]
    {
        let options = FlowOptions { start_unit: Some(unit), ..FlowOptions::default() };
        let (table, notes) = flows(text, FlowFormat::HtsimCm, &options).expect("two flows");
        assert!(notes.is_empty());
        assert_eq!(listed(&table), [(first, 7, 5, 2_000_000, 12), (second, 15, 1, 8, 4)]);
    }
    let some = "Nodes 4\nConnections 2\n0->1 id 9 start 0 size 1 prio 3\n1->2 start 0 size 1\n";
    let (table, notes) = flows(some, FlowFormat::HtsimCm, &FlowOptions::default()).expect("two flows");
    assert_eq!(listed(&table).iter().map(|flow| flow.4).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(notes.len(), 1);
}

/// The refusals of files, for a snapshot.
#[derive(Default)]
struct Report(String);

impl Report {
    fn add<T>(&mut self, name: &str, read: Read<T>) {
        let Err(error) = read else { panic!("{name} is accepted") };
        self.0.push_str(&format!("{name}:\n"));
        for error in error.all() {
            let at = error.position();
            self.0.push_str(&format!("  {}:{}: {} ({})\n", at.line, at.column, error.cause(), error.hint()));
        }
    }
}

#[test]
fn wrong_tables_are_refused_with_their_positions() {
    let mut report = Report::default();
    let bytes = Some(SizeUnit::Bytes);
    for (name, format, unit, text) in [
        ("percentiles as shares", SizeFormat::HpccCdf, None, "0 0\n10000 0.15\n30000000 1\n"),
        ("shares as percentiles", SizeFormat::HkustCdf, None, "0 0\n10000 15\n30000000 100\n"),
        (
            "hpcc, words",
            SizeFormat::HpccCdf,
            None,
            "0 0\nbig 15\n1.5 20\n7 x\n-1 30\n8 9 10\n18446744073709551615 50\n",
        ),
        ("hpcc, order", SizeFormat::HpccCdf, None, "0 0\n100 50\n50 60\n200 40\n300 101\n400 100\n"),
        ("hpcc, ends", SizeFormat::HpccCdf, None, "0 1\n100 99\n"),
        ("hpcc, packets", SizeFormat::HpccCdf, Some(SizeUnit::Packets(1000)), "0 0\n1 100\n"),
        ("hpcc, empty", SizeFormat::HpccCdf, None, "\n\n"),
        ("homa without a unit", SizeFormat::Homa, None, "1.5\n1 0.5\n2 1\n"),
        ("homa without a mean", SizeFormat::Homa, bytes, "1 0.5\n2 1\n"),
        ("homa, mean", SizeFormat::Homa, bytes, "-3\n1 0.5\n2 1\n"),
        ("homa, tail", SizeFormat::Homa, bytes, "185.0\n1 0.00583\n15 0.47\n"),
        ("homa, too large", SizeFormat::Homa, Some(SizeUnit::Packets(1460)), "1\n1 0.5\n18446744073709551614 1\n"),
        ("homa, no payload", SizeFormat::Homa, Some(SizeUnit::Packets(0)), "1\n1 1\n"),
    ] {
        report.add(name, sizes(text, format, unit));
    }
    insta::assert_snapshot!(report.0);
}

#[test]
fn wrong_lists_are_refused_with_their_positions() {
    let mut report = Report::default();
    let plain = FlowOptions::default();
    let hosts = FlowOptions { hosts: vec!["a".into(), "b".into()], first_node: 1, ..plain.clone() };
    let late = FlowOptions { origin: Duration::from_secs(2), ..plain.clone() };
    let nanos = FlowOptions { start_unit: Some(StartUnit::Nanos), ..plain.clone() };
    for (name, format, options, text) in [
        ("ns3, count", FlowFormat::Ns3Hpcc, &plain, "3\n2 1 3 100 5 2\n"),
        ("ns3, no count", FlowFormat::Ns3Hpcc, &plain, "2 1 3 100 5 2\n"),
        ("ns3, count is a word", FlowFormat::Ns3Hpcc, &plain, "many\n"),
        ("ns3, empty", FlowFormat::Ns3Hpcc, &plain, ""),
        ("ns3, no flows", FlowFormat::Ns3Hpcc, &plain, "0\n"),
        ("ns3, words", FlowFormat::Ns3Hpcc, &plain, "4\nx 1 -3 0x 0 soon\n1 1 3 100 5 2\n1 2 3 5 2\n1 2 3 4 5 1e9\n"),
        ("ns3, unit", FlowFormat::Ns3Hpcc, &nanos, "1\n2 1 3 100 5 2\n"),
        ("ns3, origin", FlowFormat::Ns3Hpcc, &late, "1\n2 1 3 100 5 1.9\n"),
        ("ns3, hosts", FlowFormat::Ns3Hpcc, &hosts, "2\n0 1 3 100 5 2\n1 3 3 100 5 2\n"),
        ("htsim, head", FlowFormat::HtsimCm, &plain, "0->1 start 0 size 5\n"),
        ("htsim, count", FlowFormat::HtsimCm, &plain, "Nodes 4\nConnections 2\n0->1 start 0 size 5\n"),
        (
            "htsim, nodes",
            FlowFormat::HtsimCm,
            &plain,
            "Nodes 4\nConnections 2\n0->4 start 0 size 5\n2->2 start 0 size 5\n",
        ),
        ("htsim, endless", FlowFormat::HtsimCm, &plain, "Nodes 4\nConnections 1\n0->1 start 0 size 0\n"),
        (
            "htsim, values",
            FlowFormat::HtsimCm,
            &plain,
            "Nodes x\nConnections 4\n0->1 start\n0->1 size 5 start 0 speed 9\n0->1 id 0\na->b start 0 size 1\n",
        ),
        (
            "htsim, triggers",
            FlowFormat::HtsimCm,
            &plain,
            "Nodes 4\nConnections 1\nTriggers 1\n0->1 id 1 trigger 1 size 5\ntrigger id 1 oneshot\n",
        ),
        (
            "htsim, failures",
            FlowFormat::HtsimCm,
            &plain,
            "Nodes 4\nConnections 1\nFailures 1\n0->1 start 0 size 5\nfailure switch_type TOR\n",
        ),
        (
            "htsim, ids",
            FlowFormat::HtsimCm,
            &plain,
            "Nodes 4\nConnections 2\n0->1 id 7 start 0 size 5\n1->2 id 7 start 0 size 5\n",
        ),
        ("htsim, no flow", FlowFormat::HtsimCm, &plain, "# nothing\nfull\n"),
    ] {
        report.add(name, flows(text, format, options));
    }
    insta::assert_snapshot!(report.0);
}

/// An accepted table is also one of Weir.
fn check_sizes(text: &str) {
    for (format, unit) in
        [(SizeFormat::HpccCdf, None), (SizeFormat::HkustCdf, None), (SizeFormat::Homa, Some(SizeUnit::Packets(1460)))]
    {
        if let Ok((table, _)) = sizes(text, format, unit) {
            assert!(SizeDistribution::read(table.to_csv().as_bytes()).is_ok(), "{}", table.to_csv());
        }
    }
}

/// An accepted list is also one of Weir.
fn check_flows(text: &str) {
    for format in [FlowFormat::Ns3Hpcc, FlowFormat::HtsimCm] {
        let options = FlowOptions {
            start_unit: (format == FlowFormat::HtsimCm).then_some(StartUnit::Picos),
            ..FlowOptions::default()
        };
        if let Ok((table, _)) = flows(text, format, &options) {
            let hosts = FlowList::numbered(u32::MAX);
            assert!(FlowList::read(table.to_csv().as_bytes(), 1, hosts).is_ok(), "{}", table.to_csv());
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in "[a-z0-9.e# >\n-]{0,200}",
        lines in prop::collection::vec("[0-9]{1,3} [01](\\.[0-9]{1,4})?", 0..8),
    ) {
        check_sizes(&text);
        check_flows(&text);
        check_sizes(&format!("{}\n1000 1\n", lines.join("\n")));
        check_flows(&format!("1\n{text}"));
        check_flows(&format!("Nodes 9\nConnections 1\n{text}"));
    }

    #[test]
    fn flows_survive_the_import(
        flows_of in prop::collection::vec((0..50_u32, 1..50_u32, 1..u64::MAX / 100, 0..1_u64 << 60), 1..20),
    ) {
        let ends = |from: u32, step: u32| (from, (from + step) % 50);
        let mut expected: Vec<_> = flows_of.iter().zip(0..).map(|(&(from, step, bytes, at), id)| {
            let (from, to) = ends(from, step);
            (at, from, to, bytes, id)
        }).collect();
        let ns3: String = expected.iter().map(|(at, from, to, bytes, _)| {
            format!("{from} {to} 3 100 {bytes} {}.{:012}\n", at / 1_000_000_000_000, at % 1_000_000_000_000)
        }).collect();
        let htsim: String = expected.iter()
            .map(|(at, from, to, bytes, id)| format!("{from}->{to} id {id} start {at} size {bytes}\n"))
            .collect();
        expected.sort_by_key(|flow| flow.0);
        let count = expected.len();
        let text = format!("{count}\n{ns3}");
        let (table, _) = flows(&text, FlowFormat::Ns3Hpcc, &FlowOptions::default()).expect("flows");
        prop_assert_eq!(listed(&table), expected.clone());
        let options = FlowOptions { start_unit: Some(StartUnit::Picos), ..FlowOptions::default() };
        let text = format!("Nodes 50\nConnections {count}\n{htsim}");
        let (table, _) = flows(&text, FlowFormat::HtsimCm, &options).expect("flows");
        prop_assert_eq!(listed(&table), expected);
    }
}
