//! The common list of flows, its order, and refused lists.

use super::*;
use crate::test_support::all;
use crate::{Spec, TableError, Workload};
use proptest::prelude::*;

const COMMON: &str = include_str!("../../../../../data/flows/leafspine144-websearch-load60-20k.csv");

fn read(text: &str) -> Result<FlowList, TableError> {
    FlowList::read(text.as_bytes(), 1460, FlowList::numbered(144))
}

#[test]
fn the_common_flows_are_read_exactly() {
    let list = read(COMMON).expect("the common list");
    // Counted in the file by another program.
    assert_eq!((list.len(), list.bytes()), (20_000, 22_885_404 * 1460));
    assert_eq!(list.last_start(), SimTime::from_picos(313_941_643_000));
    let mut workload = Workload::new(&Spec::List(list), 0);
    assert_eq!((workload.expected(), workload.is_finite()), (Some(20_000), true));
    let flows = all(&mut workload);
    assert_eq!(flows.len(), 20_000);
    assert_eq!(flows[0], FlowStart::new(SimTime::from_nanos(8_540), MachineId(76), MachineId(95), 6 * 1460, 0));
    assert!(flows.iter().enumerate().all(|(i, flow)| flow.tag == i as u64));
    // 60 % of 1440 Gb/s within four standard errors: arrivals and the sizes' variance, 1 +
    // (E[s²]/E[s]² − 1), over n.
    let wire: f64 = flows.iter().map(|flow| (flow.bytes / 1460 * 1500 * 8) as f64).sum();
    let load = wire / 0.313941643 / 1.44e12;
    let sizes = crate::Builtin::WebSearch.sizes();
    let error = 4.0 * (sizes.mean_square() / sizes.mean().powi(2) / 20_000.0).sqrt();
    assert!((load / 0.6 - 1.0).abs() < error, "{load} ± {error}");
}

#[test]
fn bytes_names_and_any_order_of_columns() {
    let text = "dst, bytes ,src,note,start_s\nb,1000,a,second,2e-6\na,1,c,third,0.000002\na,7,b,first,1.5e-12\n";
    let names = |name: &str| match name {
        "a" => Ok(MachineId(5)),
        "b" => Ok(MachineId(6)),
        "c" => Ok(MachineId(7)),
        _ => Err("a, b or c".to_owned()),
    };
    let list = FlowList::read(text.as_bytes(), 1460, names).expect("three flows");
    let flows = all(&mut Workload::new(&Spec::List(list), 0));
    let seen: Vec<_> =
        flows.iter().map(|flow| (flow.at.picos(), flow.from.0, flow.to.0, flow.bytes, flow.tag)).collect();
    // Sorted by start; the two that start together in the order of the file. A picosecond and a
    // half is one.
    assert_eq!(seen, [(1, 6, 5, 7, 2), (2_000_000, 5, 6, 1000, 0), (2_000_000, 7, 5, 1, 1)]);
}

#[test]
fn starts_of_any_unit_are_the_same_list() {
    let of = |text: &str| read(text).expect("two flows");
    let seconds = of("start_s,src,dst,bytes\n0.00000854,1,2,30\n1,3,4,50\n");
    let others =
        [("ms", "0.00854", "1e3"), ("us", "8.54", "1000000"), ("ns", "8540", "1e9"), ("ps", "8540000", "1e12")];
    for (unit, first, second) in others {
        assert_eq!(of(&format!("start_{unit},src,dst,bytes\n{first},1,2,30\n{second},3,4,50\n")), seconds, "{unit}");
    }
    // Digits beyond picoseconds are cut in every unit.
    let cut = of("src,dst,bytes,start_ns\n1,2,30,0.0019\n");
    assert_eq!(cut.last_start(), SimTime::from_picos(1));
}

#[test]
fn flows_of_a_coflow_have_its_number() {
    let text = "id,start_us,src,dst,bytes,coflow\n9,0,1,2,3,70\n4,5,2,3,4,\n7,1,3,4,5,70\n1,2,4,5,6,0\n2,0,5,6,7,70\n";
    let list = read(text).expect("five flows");
    let workload = Workload::new(&Spec::List(list), 1);
    let of = |tag| workload.coflow(tag).map(|coflow| (coflow.id, coflow.flows));
    assert_eq!([9, 7, 2, 1].map(of), [Some((70, 3)), Some((70, 3)), Some((70, 3)), Some((0, 1))]);
    assert_eq!((of(4), of(3)), (None, None));
    // Without the column, or with an empty one, each flow is its own.
    let plain = read("id,start_us,src,dst,bytes\n9,0,1,2,3\n").expect("a flow");
    assert_eq!(Workload::new(&Spec::List(plain.clone()), 1).coflow(9), None);
    assert_eq!(read("id,start_us,src,dst,bytes,coflow\n9,0,1,2,3,\n").expect("a flow"), plain);
}

#[test]
fn wrong_lists_are_refused_with_their_lines() {
    let head = "id,start_s,src,dst,packets\n";
    let cases = [
        ("no column", "id,start,src,dst,size\n0,1,2,3,4\n".to_owned()),
        ("another unit", "start_min,src,dst,bytes\n0,1,2,3\n".to_owned()),
        ("a misspelt unit", "strat_ns,src,dst,bytes\n0,1,2,3\n".to_owned()),
        ("two units", "start_s,start_ns,src,dst,bytes\n0,0,1,2,3\n".to_owned()),
        ("times in nanoseconds", "start_ns,src,dst,bytes\n-1,1,2,3\n2e17,1,2,3\n,1,2,3\n2e16,1,2,3\n".to_owned()),
        ("both sizes", "start_s,src,dst,packets,bytes\n1,2,3,4,5\n".to_owned()),
        ("no flow", head.to_owned()),
        ("nothing", String::new()),
        ("unknown hosts", format!("{head}0,0,0,144,1\n1,0,x,1,1\n2,0,\u{1b}[2J,1,1\n")),
        ("to itself", format!("{head}0,0,7,07,1\n")),
        ("sizes", format!("{head}0,0,1,2,0\n1,0,1,2,-3\n2,0,1,2,1.5\n3,0,1,2,18446744073709551615\n")),
        ("times", format!("{head}0,-1,1,2,3\n1,soon,1,2,3\n2,1e9,1,2,3\n3,,1,2,3\n")),
        ("ids", format!("{head}7,0,1,2,3\n3,0,1,2,3\n\n7,0,1,2,3\n3,0,1,2,3\nx,0,1,2,3\n")),
        ("ids alone", format!("{head}7,0,1,2,3\n3,0,1,2,3\n\n7,0,1,2,3\n3,0,1,2,3\n")),
        ("coflows", "start_s,src,dst,bytes,coflow\n0,1,2,3,-1\n0,1,2,3,a\n0,1,2,3,18446744073709551616\n".to_owned()),
        ("fields", format!("{head}0,0,1,2\n1,0,1,2,3,4\n")),
        ("many", format!("{head}{}", "0,0,1,1,1\n".repeat(25))),
    ];
    let report: String =
        cases.iter().map(|(name, text)| format!("{name}:\n{}\n\n", read(text).expect_err(name))).collect();
    insta::assert_snapshot!(report);
}

#[test]
fn a_list_that_is_not_text_is_refused() {
    let mut bytes = b"start_s,src,dst,bytes\n0,1,2,".to_vec();
    bytes.extend([0xff, 0xfe, b'\n']);
    let error = FlowList::read(bytes.as_slice(), 1460, FlowList::numbered(144)).expect_err("no number");
    assert_eq!(error.rows[0].line, Some(2));
}

#[test]
fn a_million_flows() {
    let mut text = String::from("start_s,src,dst,bytes\n");
    for i in 0..1_000_000_u32 {
        let (from, to) = (i % 144, (i + 1 + i % 7) % 144);
        text += &format!("0.{:06},{from},{to},{}\n", (i * 7) % 1_000_000, i + 1);
    }
    let list = read(&text).expect("a million flows");
    assert_eq!(list.bytes(), 1_000_000 * 1_000_001 / 2);
    assert!(list.flows.is_sorted_by_key(|flow| flow.at));
    assert_eq!(size_of::<Listed>(), 32);
}

proptest! {
    #[test]
    fn any_table_is_read_or_refused(text in "[a-z_0-9.,\"\n]{0,200}") {
        let _ = read(&text);
        let _ = read(&format!("id,start_s,src,dst,packets\n{text}"));
    }
}
