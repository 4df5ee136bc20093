//! A job that was sent gives the bytes of the one that was not.

use super::*;
use crate::sweep::Axes;
use std::path::Path;

const SCENARIO: &str = "scenario: 1\nname: star\nduration: 1s\nnetwork:\n  topology: star\n  hosts: 4\n  \
                        host-link: { rate: 1Gb/s }\ntraffic:\n  - { kind: list, file: a.csv }\n";

fn job(directory: &Path, flows: bool) -> Job {
    std::fs::write(directory.join("a.csv"), "id,start_us,src,dst,bytes\n1,0,0,1,1000\n2,5,2,3,20000\n")
        .expect("written");
    let source = Source::from_text("star.scenario.yaml", SCENARIO);
    let axes = Axes::parse("seed=1..3").expect("axes").0;
    let plan = Plan::new(Vec::new(), axes).expect("few points");
    let shelf = Shelf::new(source, directory);
    plan.check(&shelf, None).expect("a valid scenario");
    Job::new(plan, shelf, flows, Options { check: false })
}

fn run(job: &Job, point: usize) -> PointOutcome {
    job.run(point, None, &Stop::new(), &mut |_| {})
}

#[test]
fn a_sent_job_needs_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = job(directory.path(), true);
    let sent = Job::from_bytes(&job.to_bytes().expect("UTF-8")).expect("a job");
    drop(directory);
    assert_eq!((sent.identity(), sent.plan()), (job.identity(), job.plan()));
    assert!(matches!(run(&job, 1), PointOutcome::Complete(PointParts { flows: Some(_), .. })));
    assert_eq!(run(&sent, 1), run(&job, 1));
    assert_ne!(run(&sent, 1), run(&sent, 2), "each point has its own name");
    let stop = Stop::new();
    stop.request();
    assert_eq!(sent.run(1, None, &stop, &mut |_| {}), PointOutcome::Interrupted);
}

#[test]
fn a_file_that_was_not_sent_fails_its_point() {
    let directory = tempfile::tempdir().expect("a directory");
    let bytes = job(directory.path(), false).to_bytes().expect("UTF-8");
    let mut file: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    // The file is there, and must not be read.
    file["files"] = serde_json::json!({});
    let sent = Job::from_bytes(file.to_string().as_bytes()).expect("a job");
    let PointOutcome::Failed(cause) = run(&sent, 0) else { panic!("it ran") };
    assert!(cause.contains("not among those that were read when the sweep began"), "{cause}");
}

#[test]
fn jobs_of_other_versions_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let bytes = job(directory.path(), false).to_bytes().expect("UTF-8");
    let text = String::from_utf8(bytes).expect("text");
    let refused = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        Job::from_bytes(changed.as_bytes()).expect_err("refused").to_string()
    };
    let version = format!("\"weir\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(refused(&version, "\"weir\":\"9.9.9\"").starts_with("the sweep was started by weir 9.9.9"));
    assert_eq!(refused("\"job\":1", "\"job\":7"), "the job has format 7, and this program reads format 1");
    assert!(refused("\"job\":1", "\"jab\":1").starts_with("this is no job of a sweep"));
}
