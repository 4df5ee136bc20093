//! Names of links: parallel links by number, and machines with the name of a rack.

use std::path::Path;
use weir_document::{Diagnostics, Source};
use weir_policy::Policy;
use weir_scenario::Scenario;

/// A scenario; its policy has a machine with the name of its rack.
fn read(text: &str) -> Result<Scenario, Diagnostics> {
    let policy = "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks:\n    r1: { uplink: 10Gb/s, machines: [r1, m2] }\n    \
                  r2: { uplink: 10Gb/s, machines: [m3] }\nservices: { a: { match: [ { port: 1 } ] } }\n";
    let load = |path: &Path| Policy::parse(&path.display().to_string(), policy);
    let source = Source::from_text("test.scenario.yaml", text);
    Scenario::from_source(&source, Path::new(""), load).map(|(scenario, _)| scenario)
}

/// Two links between the switches a and b, and one between b and c, with an event on `link`.
fn with_parallel_links(link: &str) -> Result<Scenario, Diagnostics> {
    read(&format!(
        "scenario: 1\nname: t\nduration: 1s\nnetwork:\n  topology: links\n  hosts: [h1, h2]\n  switches: [a, b, c]\n  \
         links:\n    - {{ between: [h1, a], rate: 1Gb/s }}\n    - {{ between: [h2, c], rate: 1Gb/s }}\n    \
         - {{ between: [a, b], rate: 1Gb/s }}\n    - {{ between: [b, a], rate: 2Gb/s }}\n    \
         - {{ between: [b, c], rate: 1Gb/s }}\ntraffic: [ {{ from: h1, to: h2 }} ]\n\
         events: [ {{ at: 1ms, do: down, link: \"{link}\" }} ]\n"
    ))
}

/// The names of the links of the only event.
fn meant(read: Result<Scenario, Diagnostics>) -> Vec<String> {
    let scenario = read.unwrap_or_else(|errors| panic!("{errors}"));
    let links = &scenario.events()[0].links;
    links.iter().map(|link| scenario.graph().link_name(*link)).collect()
}

#[test]
fn a_number_means_one_of_parallel_links() {
    assert_eq!(meant(with_parallel_links("a->b#2")), ["a->b#2"]);
    assert_eq!(meant(with_parallel_links("b -> a#1")), ["b->a#1"]);
    assert_eq!(meant(with_parallel_links("a<->b#2")), ["b->a#2", "a->b#2"]);
    assert_eq!(meant(with_parallel_links("a->b")), ["a->b#1", "a->b#2"]);
    assert_eq!(meant(with_parallel_links("a<->b")).len(), 4);
    assert_eq!(meant(with_parallel_links("b->c")), ["b->c"]);
    // Each name that results use is read as the link that it is of.
    let graph = with_parallel_links("b->c").expect("good").graph().clone();
    for link in graph.links().map(|link| graph.link_name(link)) {
        assert_eq!(meant(with_parallel_links(&link)), [&*link]);
    }
}

#[test]
fn numbers_without_a_link_are_refused() {
    let refused = |link: &str| {
        let errors = with_parallel_links(link).expect_err(link);
        errors.all().iter().map(|error| format!("{}: {}\n", error.cause(), error.hint())).collect::<String>()
    };
    let all = ["a->b#3", "b->c#1", "h1->a#1", "a->b#0", "a->b#02", "a->b#", "a#1->b", "a->b#1#2"];
    let ranged = ["h[1-2]->a#1"];
    insta::assert_snapshot!(
        all.iter().chain(&ranged).map(|link| format!("{link}\n{}", refused(link))).collect::<String>()
    );
}

/// The machine r1 is in the rack r1: both of its links have a name of their own, in results and in events.
#[test]
fn a_machine_may_have_the_name_of_its_rack() {
    let with = |link: &str| {
        read(&format!(
            "scenario: 1\nname: t\npolicy: p.yaml\nduration: 1s\ntraffic: [ {{ service: a, from: m2, to: m3 }} ]\n\
             events: [ {{ at: 1ms, do: down, link: \"{link}\" }} ]\n\
             measure: {{ rack: r1, direction: tx, every: 1ms }}\n"
        ))
    };
    assert_eq!(meant(with("r1#host->r1")), ["r1#host->r1"]);
    assert_eq!(meant(with("r1->r1#host")), ["r1->r1#host"]);
    assert_eq!(meant(with("r1<->r1#host")), ["r1#host->r1", "r1->r1#host"]);
    assert_eq!(meant(with("r1->spine0")), ["r1->spine0"]);
    let graph = with("r1->spine0").expect("good").graph().clone();
    let mut names: Vec<String> = graph.links().map(|link| graph.link_name(link)).collect();
    for link in &names {
        assert_eq!(meant(with(link)), [&**link]);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// A suggestion replaces the whole name, and the rest of the name stays as it is.
#[test]
fn ranges_in_names_of_links_are_suggested_as_elsewhere() {
    let widths = "have different widths";
    for (link, cause, hint) in [
        ("a[0-01]->b", format!("the numbers of `a[0-01]` {widths}"), "did you mean `a[0-1]->b` or `a[00-01]->b`?"),
        ("a -> b[2-1] ", "the range `b[2-1]` is reversed".to_owned(), "did you mean `a -> b[1-2] `?"),
        ("h[2-1]#host<->a", "the range `h[2-1]` is reversed".to_owned(), "did you mean `h[1-2]#host<->a`?"),
        (
            "a->b[1..2]",
            "`b[1..2]` is not a range".to_owned(),
            "did you mean `a->b[1-2]`? a range has both ends, as `m[1-10]`",
        ),
        ("a->b[1]", "`b[1]` is not a range".to_owned(), "write `b1` for the one, or both ends of a range as `m[1-10]`"),
        // No link's name: a number beside a range, and another range that is refused.
        ("a->b[0-01]#2", format!("the numbers of `b[0-01]` {widths}"), "for example `left->right`"),
        ("a[2-1]->b[0-01]", "the range `a[2-1]` is reversed".to_owned(), "for example `left->right`"),
    ] {
        let errors = with_parallel_links(link).expect_err(link);
        let errors: Vec<_> = errors.all().iter().map(|error| (error.cause(), error.hint())).collect();
        assert_eq!(errors, [(&*cause, hint)], "{link}");
    }
}
