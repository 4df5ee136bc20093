//! The published experiments in the tree, and refusals of those that cannot be.

use std::fs;
use std::path::Path;
use weir_scenario::{Experiment, RunResult, Sample};
use weir_units::{Bandwidth, Duration};

fn papers() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers")
}

#[test]
fn every_paper_reads_and_is_named_after_its_file() {
    let mut count = 0;
    for entry in fs::read_dir(papers()).expect("papers/") {
        let path = entry.expect("an entry").path();
        let (experiment, _) = Experiment::read(&path).unwrap_or_else(|refused| panic!("{refused}"));
        assert_eq!(Some(experiment.id.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn measured_values_are_scaled_means_of_their_stretch() {
    let (experiment, _) = Experiment::read(papers().join("parley-fig14.yaml")).expect("reads");
    let value = &experiment.values[0];
    let sample = |second: u64, mbps: u64| Sample {
        at: Duration::from_secs(second),
        bandwidth: vec![(value.service, Bandwidth::from_mbps(mbps))],
    };
    // Only what ends within (10 s, 20 s] counts.
    let result = RunResult { samples: vec![sample(10, 900), sample(11, 290), sample(20, 300), sample(21, 900)] };
    let measured = value.measured(&experiment, &result).expect("samples");
    assert_eq!(measured, Bandwidth::from_mbps(29_500));
    assert!(value.agrees(&experiment, measured));
    assert!(!value.agrees(&experiment, Bandwidth::from_mbps(28_400)));
    assert_eq!(value.measured(&experiment, &RunResult::default()), None);
}

#[test]
fn what_the_scenario_does_not_have_is_refused() {
    let text = fs::read_to_string(papers().join("parley-fig14.yaml")).expect("readable");
    let text = text.replace("../scenarios/", &format!("{}/../../scenarios/", env!("CARGO_MANIFEST_DIR")));
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |from: &str, to: &str| {
        let path = directory.path().join("paper.yaml");
        fs::write(&path, text.replacen(from, to, 1)).expect("written");
        Experiment::read(&path).expect_err(to).to_string()
    };
    assert!(refused("service: a", "service: c").contains("the scenario sends nothing for `c`"));
    assert!(refused("to: 60s", "to: 61s").contains("is not within the run"));
    assert!(refused("from: 10s, to: 20s", "from: 20s, to: 20s").contains("is not within the run"));
    assert!(refused("tolerance: 5", "tolerence: 5").contains("did you mean `tolerance`"));
    assert!(refused("scenario: /", "scenario: /nowhere/").contains("nowhere"));
}
