//! Incasts that arrive by themselves: their load, their fan-in, remarks and refusals.

use std::path::Path;
use weir_document::{Diagnostic, Diagnostics, Source};
use weir_scenario::Scenario;
use weir_workload::{Incasts, Spec, Workload};

/// A star of four hosts, whose links are 10 Gb/s, and an incast with these keys.
fn read(keys: &str) -> Result<(Scenario, Vec<Diagnostic>), Diagnostics> {
    let text = format!(
        "scenario: 1\nname: t\nduration: 1s\nnetwork:\n  topology: star\n  hosts: 4\n  \
         host-link: {{ rate: 10Gb/s }}\n  packets: {{ payload: 1460B, headers: 40B }}\n\
         traffic: [ {{ kind: incast, size: 20kB, {keys} }} ]\n"
    );
    let source = Source::from_text("test.scenario.yaml", text);
    Scenario::from_source(&source, Path::new(""), |_| unreachable!("it has no policy"))
}

fn incasts(keys: &str) -> Incasts {
    let (scenario, notes) = read(keys).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(notes.is_empty(), "{keys}: {notes:?}");
    match &scenario.flow_groups()[0].spec {
        Spec::Incasts(incasts) => incasts.clone(),
        spec => panic!("{keys}: {spec:?}"),
    }
}

#[test]
fn a_load_is_of_the_receivers_links() {
    let gap = |keys: &str| incasts(keys).gap().picos();
    // 20 kB are 14 packets: 20,560 B. Two of these flows at 5 % of four links of 10 Gb/s.
    let expected = 8.0 * 2.0 * 20_560.0 / (0.05 * 40e9) * 1e12;
    assert!((gap("from: all, to: all, fan-in: 2, load: 5%") / expected - 1.0).abs() < 1e-9);
    assert!((gap("from: all, to: all, fan-in: 2, rate: 2Gb/s") / expected - 1.0).abs() < 1e-9);
    // Half of the receivers have half of the links; three times the senders take three times as long.
    assert!((gap("from: all, to: [h0, h1], fan-in: 2, load: 5%") / expected - 2.0).abs() < 1e-9);
    assert!((gap("from: all, to: all, fan-in: 3, load: 5%") / expected - 1.5).abs() < 1e-9);
    assert_eq!(gap("from: all, to: all, fan-in: 3, gap: 1ms"), 1e9);
}

#[test]
fn all_senders_but_the_receiver_are_the_default() {
    assert_eq!(incasts("from: all, to: all, gap: 1ms").fan_in(), 3);
    assert_eq!(incasts("from: [h0, h1], to: [h2, h3], gap: 1ms").fan_in(), 2);
    assert_eq!(incasts("from: all, to: h3, gap: 1ms").fan_in(), 3);
    assert_eq!(incasts("from: [h0, h1, h2], to: [h2, h3], gap: 1ms, fan-in: 2").fan_in(), 2);
    let (scenario, _) =
        read("from: all, to: all, gap: 1ms, rounds: 7, jitter: 10us, arrivals: constant").expect("good");
    let group = &scenario.flow_groups()[0];
    assert_eq!(Workload::new(&group.spec, 1).expected(), Some(21));
    // Without a number they end with the run.
    let (scenario, _) = read("from: all, to: all, gap: 1ms").expect("good");
    assert!(Workload::new(&scenario.flow_groups()[0].spec, 1).is_finite());
    // Rounds to one receiver are as before.
    let (scenario, _) = read("from: [h0, h1], to: h2, every: 1ms").expect("good");
    assert!(matches!(scenario.flow_groups()[0].spec, Spec::Rounds(_)));
}

#[test]
fn incasts_above_the_rate_of_a_link_get_a_remark() {
    // 60 kB every 20 µs are 24 Gb/s, at one receiver of 10 Gb/s.
    let (_, notes) = read("from: [h0, h1, h2], to: h3, gap: 20us").expect("good");
    insta::assert_snapshot!(notes.iter().map(|note| note.render(false)).collect::<String>());
    assert!(read("from: [h0, h1, h2], to: h3, gap: 60us").expect("good").1.is_empty());
}

#[test]
fn refusals() {
    let refused = |keys: &str| read(keys).map(|_| keys.to_owned()).expect_err(keys).render(false);
    insta::assert_snapshot!(
        [
            "from: all, to: all, gap: 1ms, load: 5%",
            "from: all, to: all, fan-in: 2",
            "from: all, to: all, gap: 1ms, every: 1ms",
            "from: all, to: all, every: 1ms",
            "from: all, to: all, load: 120%",
            "from: all, to: all, gap: 1ms, fan-in: 4",
            "from: all, to: all, gap: 1ms, fan-in: 0",
            "from: [h0, h1, h2], to: [h2, h3], gap: 1ms",
            "from: h0, to: h0, gap: 1ms",
            "from: all, to: all, gap: 1us, jitter: 11us",
            "from: all, to: all, gap: 1ms, start: 1s",
        ]
        .map(refused)
        .join("\n")
    );
}
