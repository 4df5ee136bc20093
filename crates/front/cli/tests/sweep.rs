//! `weir sim --sweep` from outside: points, going on, and what one bad point does to the others.

mod program;

use program::{directory, ended, file, files, json, run, shown, signal, started, text, weir, with_file_limit};
use std::path::Path;
use std::time::Duration;

/// A star of four hosts with 40 flows, so that a point takes milliseconds.
fn scenario(directory: &Path) -> String {
    let text = "scenario: 1\nname: star\nduration: 100s\nnetwork:\n  topology: star\n  hosts: 4\n  \
                host-link: { rate: 1Gb/s, queue: { discipline: ecn, mark: 30kB } }\n\
                transport: { protocol: dctcp, min-rto: 10ms, ack-delay: 1ms }\ntraffic:\n  \
                - { kind: random, name: search, from: all, to: all, sizes: 1kB-200kB, load: 40%, flows: 40 }\n";
    file(directory, "star.scenario.yaml", text)
}

fn sweep<'a>(scenario: &'a str, report: &'a str) -> Vec<&'a str> {
    let loads = "traffic[0].load=20%,60%";
    vec!["sim", scenario, "--sweep", "seed=1..2", "--sweep", loads, "--report", report]
}

/// A sweep of one short point and two long ones, one after the other.
fn long_sweep<'a>(scenario: &'a str, report: &'a str) -> Vec<&'a str> {
    vec!["sim", scenario, "--sweep", "traffic[0].flows=10,20000,20001", "--jobs", "1", "--report", report]
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

#[expect(clippy::disallowed_methods, reason = "the test waits for a process in real time")]
fn wait_for(path: &Path) {
    for _ in 0..3_000 {
        if path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited 30 s for {}", path.display());
}

#[test]
fn points_and_their_files() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let (one, two) = (path(directory.path(), "one"), path(directory.path(), "two"));
    let output = run(&[&sweep(&scenario, &one)[..], &["--jobs", "1", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("star: 4 points, 1 at a time\n"), "{}", text(&output.stderr));
    let written = files(Path::new(&one));
    let of_points: Vec<&String> = written.keys().filter(|name| name.ends_with("point.json")).collect();
    assert_eq!(
        of_points,
        [
            "points/1_seed-1_load-20/point.json",
            "points/2_seed-1_load-60/point.json",
            "points/3_seed-2_load-20/point.json",
            "points/4_seed-2_load-60/point.json"
        ]
    );
    assert!(written.contains_key("points/4_seed-2_load-60/flows.parquet") && written.contains_key("report.html"));
    assert!(text(&written["points/1_seed-1_load-20/result.json"]).contains("\"format\": 5"));
    // The page leads to each point's own.
    for name in of_points.iter().map(|name| name.replace("point.json", "report.html")) {
        assert!(written.contains_key(&name) && text(&written["report.html"]).contains(&format!("href=\"./{name}\"")));
    }
    // Header, and for each point all sizes and five bins of all flows and of the one group.
    assert_eq!(text(&written["points.csv"]).lines().count(), 1 + 4 * 2 * 6);

    let value = json(&output);
    for key in ["format", "weir", "sha256", "settings", "parameters", "scenario", "seed", "command", "points"] {
        assert!(!value[key].is_null(), "{key}");
    }
    let last = &value["points"][3];
    assert_eq!(last["parameters"], serde_json::json!({"seed": "2", "traffic[0].load": "60%"}));
    assert_eq!((&last["state"], &last["seed"]), (&"complete".into(), &2.into()));
    assert_eq!(last["statistics"]["all"]["all"]["flows"], 40);

    // The dataset has a part for each point, and nothing else.
    let names: Vec<&String> = written.keys().filter(|name| name.starts_with("dataset/")).collect();
    assert_eq!(
        names,
        [
            "dataset/statistics/1_seed-1_load-20.parquet",
            "dataset/statistics/2_seed-1_load-60.parquet",
            "dataset/statistics/3_seed-2_load-20.parquet",
            "dataset/statistics/4_seed-2_load-60.parquet"
        ]
    );

    // A point is the run that its command gives.
    let command = text(&written["points/4_seed-2_load-60/command.txt"]);
    assert_eq!(command, format!("weir sim {scenario} --seed 2 --set 'traffic[0].load=60%'\n"));
    let alone = run(&["sim", &scenario, "--seed", "2", "--set", "traffic[0].load=60%", "--json"]);
    assert_eq!(written["points/4_seed-2_load-60/result.json"], alone.stdout);

    // The same whatever runs at once.
    assert!(run(&[&sweep(&scenario, &two)[..], &["--jobs", "2"]].concat()).status.success());
    assert_eq!(files(Path::new(&two)), written);

    // And again from the files alone.
    std::fs::remove_file(Path::new(&one).join("report.html")).expect("removed");
    assert!(run(&["report", &one]).status.success());
    assert_eq!(files(Path::new(&one)), written);
}

#[test]
fn the_table_of_a_sweep() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let text_of = std::fs::read_to_string(&scenario).expect("text");
    let (before, _) = text_of.split_once("  - {").expect("an entry");
    // One flow, alone on its links, so that every number follows from rates and sizes.
    let scenario =
        file(directory.path(), "one.scenario.yaml", &format!("{before}  - {{ from: h0, to: h3, size: 1kB }}\n"));
    let report = path(directory.path(), "report");
    let sweep = ["--sweep", "seed=1..3", "--sweep", "traffic[0].size=1kB,14kB", "--report", &report];
    insta::assert_snapshot!("sweep", text(&run(&[&["sim", &scenario], &sweep[..]].concat()).stdout));
}

#[test]
fn flows_that_never_end_have_goodputs() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let text_of = std::fs::read_to_string(&scenario).expect("text");
    let (before, _) = text_of.split_once("  - {").expect("an entry");
    let long_lived = format!("{before}  - {{ from: \"h[0-1]\", to: h3 }}\n");
    let scenario = file(directory.path(), "long.scenario.yaml", &long_lived.replace("100s", "200ms"));
    let report = path(directory.path(), "report");
    let output = run(&["sim", &scenario, "--sweep", "seed=1,2", "--report", &report]);
    let table = text(&output.stdout);
    assert!(table.contains("goodput") && table.contains("fairness") && !table.contains("FCT"), "{table}");
    let written = files(Path::new(&report));
    let points = text(&written["points.csv"]);
    let mut rows = points.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let first = rows.next().expect("a row");
    let column = |name: &str| first[header.iter().position(|column| *column == name).expect(name)];
    assert_eq!((column("group"), column("flows"), column("fct_mean_ps")), ("all", "2", ""));
    // Two flows share a link of 1 Gb/s, of which headers take a part.
    assert!((850_000_000..=1_000_000_000).contains(&column("goodput_bps").parse::<u64>().expect("a rate")), "{points}");
    assert!(column("jain").parse::<f64>().is_ok_and(|jain| jain > 0.9), "{points}");
}

#[test]
fn checking_runs_nothing() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let checked = run(&["sim", &scenario, "--check", "--sweep", "seed=1..5", "--sweep", "traffic[0].flows=1,2"]);
    assert!(text(&checked.stdout).contains("valid, 4 hosts") && text(&checked.stdout).contains(", 10 points\n"));
    let refused = run(&["sim", &scenario, "--check", "--sweep", "traffic[0].load=20%,200%"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_killed_sweep_resumes() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let (whole, killed) = (path(directory.path(), "whole"), path(directory.path(), "killed"));
    assert!(run(&long_sweep(&scenario, &whole)).status.success());

    let (mut child, ..) = started(&long_sweep(&scenario, &killed));
    let first = Path::new(&killed).join("points/1_flows-10");
    wait_for(&first.join("point.json"));
    child.kill().expect("killed");
    child.wait().expect("ends");
    assert!(!Path::new(&killed).join("report.html").exists(), "it was killed before its end");
    // A point that was run again would have a page again.
    std::fs::write(first.join("report.html"), "kept").expect("written");
    // What else a kill can leave behind.
    let second = Path::new(&killed).join("points/2_flows-20000");
    std::fs::create_dir_all(&second).expect("made");
    std::fs::write(second.join(".flows.csv.4711"), "half").expect("written");
    std::fs::write(Path::new(&killed).join(".sweep.json.4711"), "half").expect("written");
    let parts = Path::new(&killed).join("dataset/statistics");
    std::fs::write(parts.join(".2_flows-20000.parquet.4711"), "half").expect("written");
    std::fs::copy(parts.join("1_flows-10.parquet"), parts.join("2_flows-20000.parquet")).expect("copied");
    let changed = |path: &Path| path.metadata().expect("a file").modified().expect("a time");
    let before = changed(&parts.join("1_flows-10.parquet"));

    let output = run(&long_sweep(&scenario, &killed));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("star: 3 points, 1 already complete, 1 at a time\n"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(std::fs::read_to_string(first.join("report.html")).expect("text"), "kept");
    assert_eq!(changed(&parts.join("1_flows-10.parquet")), before, "a complete point's part is kept");
    assert!(run(&["report", &first.display().to_string()]).status.success());
    assert_eq!(files(Path::new(&killed)), files(Path::new(&whole)), "the files do not show that it was killed");
}

#[test]
fn an_interrupted_sweep_keeps_complete_points() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let report = path(directory.path(), "report");
    let (child, errors, _) = started(&long_sweep(&scenario, &report));
    wait_for(&Path::new(&report).join("points/1_flows-10/point.json"));
    let second = run(&long_sweep(&scenario, &report));
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("another weir runs a sweep in `"), "{}", text(&second.stderr));
    signal(&child, libc::SIGINT);
    let (code, output, rest) = ended(child, errors);
    assert_eq!(code, Some(130), "{rest}");
    assert!(
        rest.contains("interrupted: 1 of 3 points are complete and kept; the same command runs the rest"),
        "{rest}"
    );
    assert!(text(&output).contains("flows 10 ") && !text(&output).contains("flows 20000 "), "{}", text(&output));
    let written = files(Path::new(&report));
    assert!(written.contains_key("report.html") && text(&written["points.csv"]).contains("1_flows-10"));
    assert_eq!(text(&written["sweep.json"]).matches("\"state\":\"pending\"").count(), 2);
    let output = run(&long_sweep(&scenario, &report));
    assert!(text(&output.stderr).contains("3 points, 1 already complete"), "{}", text(&output.stderr));
}

#[test]
fn another_sweep_needs_force() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let report = path(directory.path(), "report");
    assert!(run(&sweep(&scenario, &report)).status.success());
    let other = ["sim", &scenario, "--sweep", "seed=3,4", "--report", &report];
    let refused = shown(&other);
    let changed = std::fs::read_to_string(&scenario).expect("text").replace("flows: 40", "flows: 41");
    std::fs::write(&scenario, changed).expect("written");
    let all = [refused, shown(&sweep(&scenario, &report)), shown(&["sim", &scenario, "--report", &report])];
    insta::assert_snapshot!(all.join("\n").replace(&directory.path().display().to_string(), "DIR"));

    // Points of an older format are not continued.
    let manifest = Path::new(&report).join("sweep.json");
    let older = std::fs::read_to_string(&manifest).expect("text").replacen("\"format\": 2", "\"format\": 1", 1);
    std::fs::write(&manifest, older).expect("written");
    let refused = run(&sweep(&scenario, &report));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("different: the version of weir"), "{}", text(&refused.stderr));

    let forced = run(&[&other[..], &["--force"]].concat());
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    let names: Vec<String> =
        files(Path::new(&report)).into_keys().filter(|name| name.ends_with("point.json")).collect();
    assert_eq!(names, ["points/1_seed-3/point.json", "points/2_seed-4/point.json"], "the other's points are gone");
    assert_eq!(parts(&report), ["statistics/1_seed-3.parquet", "statistics/2_seed-4.parquet"], "and its parts");
    // --force starts over also where the sweep is the same.
    let forced = run(&[&other[..], &["--force"]].concat());
    assert!(text(&forced.stderr).contains("star: 2 points, "), "{}", text(&forced.stderr));
    assert!(!text(&forced.stderr).contains("complete"), "{}", text(&forced.stderr));
    // Points are gone also where the list of the sweep cannot be read, and a user's directory stays.
    std::fs::write(&manifest, "{").expect("written");
    let mine = Path::new(&report).join("points/mine");
    std::fs::create_dir(&mine).expect("made");
    std::fs::write(mine.join("notes.txt"), "a note").expect("written");
    let third = ["sim", &scenario, "--sweep", "seed=5", "--report", &report];
    let unreadable = run(&third);
    assert_eq!(unreadable.status.code(), Some(1));
    assert!(text(&unreadable.stderr).contains("`--force` replaces the files"), "{}", text(&unreadable.stderr));
    assert!(run(&[&third[..], &["--force"]].concat()).status.success());
    let names: Vec<String> = files(Path::new(&report)).into_keys().filter(|name| name.starts_with("points/")).collect();
    assert!(names.iter().all(|name| name.starts_with("points/1_seed-5/") || name == "points/mine/notes.txt"));
    assert!(names.len() > 2 && mine.join("notes.txt").exists(), "{names:?}");
    // A run in the same place is no sweep any more.
    assert!(run(&["sim", &scenario, "--report", &report, "--force"]).status.success());
    assert!(!Path::new(&report).join("sweep.json").exists());
}

/// The files of the dataset.
fn parts(report: &str) -> Vec<String> {
    files(&Path::new(report).join("dataset")).into_keys().collect()
}

#[test]
fn missing_parts_are_made_from_the_files_of_complete_points() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let (whole, older) = (path(directory.path(), "whole"), path(directory.path(), "older"));
    assert!(run(&[&sweep(&scenario, &whole)[..], &["--flows"]].concat()).status.success());
    assert_eq!(parts(&whole).len(), 8);
    assert_eq!(parts(&whole)[0], "flows/1_seed-1_load-20.parquet");

    assert!(run(&sweep(&scenario, &older)).status.success());
    let dataset = Path::new(&older).join("dataset");
    std::fs::remove_dir_all(&dataset).expect("removed");
    let output = run(&[&sweep(&scenario, &older)[..], &["--flows"]].concat());
    assert!(text(&output.stderr).contains("4 points, 4 already complete"), "{}", text(&output.stderr));
    assert_eq!(files(Path::new(&older)), files(Path::new(&whole)));

    // A part of another sweep does not count, and a sweep that has flows goes on with them.
    let [one, two] = ["1_seed-1_load-20", "2_seed-1_load-60"].map(|name| dataset.join(format!("flows/{name}.parquet")));
    std::fs::copy(&one, &two).expect("copied");
    std::fs::remove_file(&one).expect("removed");
    let output = run(&sweep(&scenario, &older));
    assert!(text(&output.stderr).contains("4 points, 4 already complete"), "{}", text(&output.stderr));
    assert_eq!(files(Path::new(&older)), files(Path::new(&whole)));

    // Half-written and foreign parts are gone with --force, and so are the flows.
    std::fs::write(dataset.join("statistics/9_seed-9.parquet"), "another's").expect("written");
    std::fs::write(dataset.join("flows/.9_seed-9.parquet.4711"), "half").expect("written");
    assert!(run(&[&sweep(&scenario, &older)[..], &["--force"]].concat()).status.success());
    assert!(parts(&older).len() == 4 && parts(&older).iter().all(|name| name.starts_with("statistics/")));
    let refused = run(&["sim", &scenario, "--flows", "--report", &older]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

#[test]
fn damaged_results_are_run_again() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let (whole, damaged) = (path(directory.path(), "whole"), path(directory.path(), "damaged"));
    let with_flows = |report: &str| run(&[&sweep(&scenario, report)[..], &["--flows"]].concat());
    assert!(with_flows(&whole).status.success());
    assert!(with_flows(&damaged).status.success());
    let point = |name: &str| Path::new(&damaged).join("points").join(name);
    std::fs::write(point("1_seed-1_load-20").join("result.json"), "{").expect("written");
    // Its flows are needed for a part, and have half a line.
    std::fs::write(point("3_seed-2_load-20").join("flows.csv"), "id,").expect("written");
    std::fs::remove_file(Path::new(&damaged).join("dataset/flows/3_seed-2_load-20.parquet")).expect("removed");
    let output = with_flows(&damaged);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("4 points, 2 already complete"), "{}", text(&output.stderr));
    assert_eq!(files(Path::new(&damaged)), files(Path::new(&whole)));
}

#[test]
fn a_point_that_fails_does_not_lose_the_others() {
    let directory = directory();
    let policy = |name: &str, protocol: &str| {
        let text = format!(
            "weir: 1\nnetwork:\n  nic: 10Mb/s\n  racks:\n    left: {{ uplink: 10Mb/s, machines: [l] }}\n    \
             right: {{ uplink: 10Mb/s, machines: [r] }}\nservices:\n  web: {{ match: [ {{ protocol: {protocol} }} ] \
             }}\n"
        );
        file(directory.path(), name, &text)
    };
    policy("tcp.yaml", "tcp");
    policy("udp.yaml", "udp");
    let scenario = "scenario: 1\nname: mixed\npolicy: tcp.yaml\nduration: 2s\ntraffic:\n  \
                    - { service: web, from: left, to: right }\nmeasure: { rack: left, direction: tx, every: 1s }\n";
    let scenario = file(directory.path(), "mixed.scenario.yaml", scenario);
    let report = path(directory.path(), "report");
    // No TCP packet belongs to the service of the first.
    let output = run(&["sim", &scenario, "--sweep", "policy=udp.yaml,tcp.yaml", "--report", &report, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("failed: 1_policy-udp.yaml: "), "{}", text(&output.stderr));
    let value = json(&output);
    assert_eq!((&value["points"][0]["state"], &value["points"][1]["state"]), (&"failed".into(), &"complete".into()));
    assert!(value["points"][0]["cause"].as_str().is_some_and(|cause| !cause.is_empty()), "{value}");
    let written = files(Path::new(&report));
    assert!(written.contains_key("points/2_policy-tcp.yaml/flows.csv"), "{:?}", written.keys());
    assert!(text(&written["report.html"]).contains("Failures"));
    assert_eq!(parts(&report), ["statistics/2_policy-tcp.yaml.parquet"]);
}

#[test]
fn a_full_disk_keeps_complete_points() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let report = path(directory.path(), "report");
    let arguments = ["sim", &scenario, "--sweep", "traffic[0].flows=10,20000,11", "--jobs", "1", "--report", &report];
    // A megabyte holds all files of ten flows, and not those of twenty thousand.
    let output = with_file_limit(weir(&arguments), 1_000_000).output().expect("starts");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot write `") && errors.contains("File too large"), "{errors}");
    assert!(errors.contains("hint: 1 point is complete and kept; the same command runs the rest"), "{errors}");
    let again = run(&arguments);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("3 points, 1 already complete"), "{}", text(&again.stderr));
}

#[test]
fn values_that_change_together() {
    let directory = directory();
    let scenario = scenario(directory.path());
    let report = path(directory.path(), "report");
    let together = "transport=dctcp,cubic; network.host-link.queue={discipline: ecn, mark: 30kB},drop-tail";
    let arguments = ["sim", &scenario, "--sweep", "seed=1..2", "--sweep", together, "--report", &report, "--json"];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value = json(&output);
    assert_eq!(value["points"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        value["points"][1]["parameters"],
        serde_json::json!({"seed": "1", "transport": "cubic", "network.host-link.queue": "drop-tail"})
    );
    let written = files(Path::new(&report));
    let table = text(&written["points.csv"]);
    assert!(table.starts_with("point,seed,transport,network.host-link.queue,group,"), "{table}");
    assert!(table.contains(",dctcp,\"{discipline: ecn, mark: 30kB}\",all,"), "{table}");
    // The same command goes on, and the command that is written down is the same.
    assert!(value["command"].as_str().is_some_and(|command| command.contains(&format!("--sweep '{together}'"))));
    let again = run(&arguments);
    assert!(text(&again.stderr).contains("4 points, 4 already complete"), "{}", text(&again.stderr));
    assert_eq!(again.stdout, output.stdout);
    assert_eq!(files(Path::new(&report)), written);
    assert!(run(&["report", &report]).status.success());
    assert_eq!(files(Path::new(&report)), written);
}
