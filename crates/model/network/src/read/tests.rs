//! Networks of racks from their text.

use super::*;
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Source, tree};

/// A network of the racks and machines of `text`, with the notes on it.
fn racks(text: &str) -> (Network, Vec<Diagnostic>) {
    let source = Source::from_text("network.yaml", text);
    let mut problems = Problems::new(&source);
    let node = tree::parse(&source, &mut problems).expect("a tree");
    let read = NetworkReader::new(&mut problems, None).contention_points(Some(&node));
    problems.finish(read.network).expect("a good network")
}

/// The graph for a simulation.
fn graph(text: &str) -> Result<Graph, Diagnostics> {
    let source: Arc<Source> = Source::from_text("network.yaml", text);
    let mut problems = Problems::new(&source);
    let node = tree::parse(&source, &mut problems).expect("a tree");
    let graph = NetworkReader::new(&mut problems, None).graph(&node);
    problems.finish(graph).map(|(graph, _)| graph.expect("no error, so a graph"))
}

#[test]
fn machines_of_several_ranges() {
    let text = "nic: 10Gb/s\nracks: { r: { uplink: 40Gb/s, machines: [\"n[1-2]c[01-03]\"] } }\n";
    let names: Vec<_> = racks(text).0.machines().iter().map(|machine| machine.name().to_owned()).collect();
    assert_eq!(names, ["n1c01", "n1c02", "n1c03", "n2c01", "n2c02", "n2c03"]);
}

#[test]
fn an_ipv4_mapped_address_is_the_ipv4_one_with_a_note() {
    let text = "nic: 10Gb/s\nracks: { r: { uplink: 40Gb/s, machines: [m1, m2] } }\n\
                machines: { m1: { address: \"::ffff:10.0.0.1\" }, m2: { address: \"FD00::0001\" } }\n";
    let (network, notes) = racks(text);
    let addresses: Vec<_> = network.machines().iter().filter_map(|machine| machine.address()).collect();
    assert_eq!(addresses, ["10.0.0.1", "fd00::1"].map(|text| text.parse::<std::net::IpAddr>().unwrap()));
    let notes: Vec<_> = notes.iter().map(|note| (note.cause(), note.hint())).collect();
    let cause = "`::ffff:10.0.0.1` is an IPv4 address in IPv6's notation: it is 10.0.0.1 here";
    assert_eq!(notes, [(cause, "write `10.0.0.1`")]);
}

#[test]
fn a_machine_with_the_name_of_a_rack_has_links_of_its_own_name() {
    let graph = graph("nic: 10Gb/s\nracks: { r1: { uplink: 40Gb/s, machines: [r1, spine0] } }\n").expect("a network");
    let names: Vec<_> = graph.links().map(|link| graph.link_name(link)).collect();
    assert_eq!(names, ["r1#host->r1", "r1->r1#host", "spine0->r1", "r1->spine0", "r1->spine-0", "spine-0->r1"]);
}
