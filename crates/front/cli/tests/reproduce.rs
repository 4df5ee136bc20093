//! `weir reproduce` as people and scripts run it. Experiments that only compute are run; the others
//! are read and listed.

mod program;

use program::{directory, files, json, run, shown, text};

#[test]
fn list() {
    insta::assert_snapshot!(shown(&["reproduce", "--list"]));
}

#[test]
fn every_experiment_is_listed_with_its_times() {
    let listed = json(&run(&["reproduce", "--list", "--json"]));
    let experiments = listed["experiments"].as_array().expect("a list");
    assert!(experiments.len() > 5);
    for experiment in experiments {
        let (quick, full) = (experiment["quick_s"].as_f64(), experiment["full_s"].as_f64());
        assert!(quick <= Some(60.0) && quick <= full, "{experiment}");
    }
}

#[test]
fn computed_experiments() {
    insta::assert_snapshot!("fig1", shown(&["reproduce", "parley-fig1"]));
    insta::assert_snapshot!("fig6", shown(&["reproduce", "parley-fig6"]));
}

#[test]
fn json_has_the_rows_that_programs_expect() {
    let output = run(&["reproduce", "parley-fig5", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let object = json(&output);
    assert_eq!(
        (&object["id"], &object["backend"], &object["setting"]),
        (&"parley-fig5".into(), &"sim".into(), &"quick".into())
    );
    assert!(object["seed"].is_u64() && object["wall_s"].is_f64());
    let rows = object["rows"].as_array().expect("rows");
    let row = &rows[0];
    assert_eq!((row["metric"].as_str(), row["unit"].as_str()), (Some("rackswitch capacity"), Some("Gb/s")));
    assert_eq!((row["published"].as_f64(), row["measured"].as_f64()), (Some(50.0), Some(50.0)));
    assert!(row["note"].is_string() && row["verdict"] == "agrees");
    assert!(rows.iter().any(|row| row["published"].is_null()), "a value that the source does not print");
}

#[test]
fn a_report_has_a_page_figures_and_json() {
    let directory = directory();
    let report = directory.path().join("out");
    let output = run(&["reproduce", "parley-fig6", "--report", &report.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let files = files(&report);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["report.html", "reproduce-sim.json", "shares-sim.svg"]);
    let page = text(&files["report.html"]);
    assert!(page.contains("(M2,VM)") && page.contains("<svg") && page.contains("weir reproduce parley-fig6"));
    let again = run(&["reproduce", "parley-fig6", "--report", &report.display().to_string()]);
    assert_eq!(again.status.code(), Some(2), "a directory with files is not written to");
}

#[test]
fn several_experiments() {
    let output = run(&["reproduce", "parley-fig6", "parley-fig1", "parley-fig6", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let objects: Vec<_> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter::<serde_json::Value>().collect();
    let ids = objects.iter().map(|object| object.as_ref().expect("JSON")["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids, ["parley-fig6", "parley-fig1"], "each once, in the order asked for");

    let directory = directory();
    let report = directory.path().join("out");
    let output = run(&["reproduce", "parley-fig6", "parley-fig1", "--report", &report.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let files = files(&report);
    assert!(files.contains_key("parley-fig1/report.html") && files.contains_key("parley-fig6/shares-sim.svg"));
    assert!(text(&files["report.html"]).contains("weir reproduce parley-fig6 parley-fig1 --report DIR"));
}

/// A report that cannot be written is named; the others are written, and all results are printed.
#[test]
fn one_report_that_cannot_be_written_leaves_the_others() {
    let directory = directory();
    let report = directory.path().join("out");
    std::fs::create_dir(&report).expect("made");
    std::fs::write(report.join("parley-fig1"), "a file").expect("written");
    let path = report.display().to_string();
    let output = run(&["reproduce", "parley-fig1", "parley-fig6", "--report", &path, "--force"]);
    let (errors, results) = (text(&output.stderr).replace(&path, "OUT"), text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("error: parley-fig1: `OUT/parley-fig1` is a file, not a directory"), "{errors}");
    assert!(errors.contains("1 page below OUT/report.html"), "{errors}");
    assert!(results.contains("parley-fig1: ") && results.contains("parley-fig6: "), "{results}");
    let files = files(&report);
    assert!(files.contains_key("parley-fig6/report.html") && files.contains_key("parley-fig6/shares-sim.svg"));
    let page = text(&files["report.html"]);
    assert!(page.contains("(its files are not written)") && !page.contains("parley-fig1/report.html"));
    // The page of all experiments is a report, too.
    std::fs::remove_file(report.join("parley-fig1")).expect("removed");
    std::fs::remove_file(report.join("report.html")).expect("removed");
    std::fs::create_dir(report.join("report.html")).expect("made");
    let output = run(&["reproduce", "parley-fig1", "parley-fig6", "--report", &path, "--force"]);
    let errors = text(&output.stderr).replace(&path, "OUT");
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("error: the page of all experiments: cannot write `OUT/report.html`"), "{errors}");
    assert!(report.join("parley-fig1/report.html").exists() && text(&output.stdout).contains("parley-fig6: "));
}

/// Neither does a run whose files cannot be written lose its results.
#[test]
fn a_run_whose_files_cannot_be_written_has_its_results() {
    let directory = directory();
    std::fs::write(directory.path().join("runs"), "a file").expect("written");
    let path = directory.path().display().to_string();
    let output = run(&["reproduce", "qjump-leafspine", "--report", &path, "--force", "--json"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("error: qjump-leafspine level: cannot make the directory"), "{errors}");
    let object = json(&output);
    assert_eq!(object["complete"], true, "{object}");
    assert!(object["rows"].as_array().is_some_and(|rows| rows.iter().all(|row| row["measured"].is_f64())), "{object}");
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("the page is written");
    assert!(page.contains("qjump-leafspine level has no files: "), "{page}");
}

#[test]
fn refusals() {
    insta::assert_snapshot!(
        [
            shown(&["reproduce", "parley-fig99"]),
            shown(&["reproduce", "nonsense"]),
            shown(&["reproduce"]),
            shown(&["reproduce", "parley-fig1", "--all"]),
            shown(&["reproduce", "parley-fig1", "--write", "results.md"]),
            shown(&["reproduce", "parley-fig1", "--backend", "lab"]),
        ]
        .join("\n")
    );
}
