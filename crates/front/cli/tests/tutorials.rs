//! Each tutorial of docs/tutorials whose commands need no root, and the comparison of the outputs.

mod tutorial;

use std::collections::BTreeSet;
use std::path::Path;
use tutorial::{Tolerance, compare, follow};

/// The tutorials that a test here follows.
const HERE: [&str; 3] = ["bound-latency", "place-tenants", "reproduce-a-figure"];
/// Those of tutorial_hosts.rs.
const ON_HOSTS: [&str; 1] = ["share-a-link"];

#[test]
fn reproducing_a_figure_prints_the_output_of_its_page() {
    follow("reproduce-a-figure", 1.0);
}

#[test]
fn placing_tenants_prints_the_output_of_its_page() {
    follow("place-tenants", 1.0);
}

#[test]
fn bounding_latency_prints_the_output_of_its_page() {
    follow("bound-latency", 1.0);
}

#[test]
fn every_tutorial_has_a_test() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/tutorials");
    let names = std::fs::read_dir(directory).expect("a directory").map(|entry| {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        name.strip_suffix(".md").expect("a page").to_owned()
    });
    let tested = HERE.into_iter().chain(ON_HOSTS).map(str::to_owned);
    assert_eq!(names.collect::<BTreeSet<_>>(), tested.collect::<BTreeSet<_>>());
}

#[test]
fn outputs_are_compared_line_by_line() {
    let exact = |expected, found| compare(expected, found, Tolerance::Exact).is_ok();
    assert!(exact("a 1\nb\n", "a 1 \nb\n"));
    assert!(!exact("a 1\nb\n", "a 2\nb\n"));
    assert!(!exact("a\n", "a\nb\n"));
    assert!(!exact("a\nb\n", "a\n"));
    assert!(exact("a\n...\nc\n", "a\nb\nb\nc\n"));
    assert!(exact("...\nc\n...\n", "a\nc\nd\n"));
    assert!(!exact("...\nc\n...\na\n", "a\nc\nd\n"));
}

#[test]
fn numbers_are_compared_within_their_tolerance() {
    let part = |expected, found| compare(expected, found, Tolerance::Part(0.2)).is_ok();
    assert!(part("web 10.0 Mb/s\n", "web  11.9 Mb/s\n"));
    assert!(!part("web 10.0 Mb/s\n", "web 12.1 Mb/s\n"));
    assert!(!part("web 10.0 Mb/s\n", "web 10.0 Gb/s\n"));
    assert!(!part("web 10.0 Mb/s\n", "web Mb/s\n"));
    let by = |expected, found| compare(expected, found, Tolerance::By(12.0)).is_ok();
    assert!(by("9.5\n", "0.4\n") && !by("9.5\n", "22\n"));
}
