//! The program from outside: what people and scripts see.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program in the root of the tree, so that messages name the same paths everywhere.
fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("COLUMNS", "100")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    weir(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The exit code and both outputs, as a snapshot shows them.
fn shown(arguments: &[&str]) -> String {
    let output = run(arguments);
    let code = output.status.code().expect("no signal");
    format!(
        "$ weir {}\nexit {code}\n-- stdout\n{}-- stderr\n{}",
        arguments.join(" "),
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// A file in a directory of this test's own.
fn file(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).expect("a temporary file");
    path.display().to_string()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

const FIG1: &str = "scenarios/parley-fig1.policy.yaml";
const FIG1_DEMANDS: &str = "scenarios/parley-fig1.demands.csv";
const FIG6: &str = "scenarios/parley-fig6.policy.yaml";
const FIG6_DEMANDS: &str = "scenarios/parley-fig6.demands.csv";

/// A scenario of two racks of one machine, short enough for a test.
fn scenario(directory: &Path, duration: &str) -> String {
    file(
        directory,
        "p.yaml",
        "weir: 1\nnetwork:\n  nic: 10Mb/s\n  racks:\n    left: { uplink: 10Mb/s, machines: [l] }\n    \
         right: { uplink: 10Mb/s, machines: [r] }\nservices:\n  web: { match: [ { protocol: tcp, port: 80 } ] }\n  \
         bulk: { match: [ { protocol: tcp, port: 9000 } ], rack: { max: 4Mb/s } }\n",
    );
    file(
        directory,
        "s.yaml",
        &format!(
            "scenario: 1\nname: small\npolicy: p.yaml\nduration: {duration}\ntraffic:\n  \
             - {{ service: bulk, from: left, to: right }}\n  - {{ service: web, from: left, to: right, start: 2s }}\n\
             measure: {{ rack: left, direction: tx, every: 500ms }}\n"
        ),
    )
}

#[test]
fn reference() {
    let mut all = String::new();
    for command in ["", "check", "allocate", "explain", "schema", "sim", "lab", "reproduce", "agent", "key"] {
        let arguments: Vec<&str> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let output = run(&arguments);
        assert!(output.status.success());
        all.push_str(&format!("$ weir {}\n\n{}\n\n", arguments.join(" "), text(&output.stdout)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_papers_policies() {
    insta::assert_snapshot!("check", shown(&["check", FIG1]));
    insta::assert_snapshot!("check_json", shown(&["check", "--json", FIG1]));
    insta::assert_snapshot!("allocate", shown(&["allocate", FIG1, "--demands", FIG1_DEMANDS]));
    insta::assert_snapshot!("allocate_json", shown(&["allocate", FIG1, "--demands", FIG1_DEMANDS, "--json"]));
    insta::assert_snapshot!("explain", shown(&["explain", FIG1, "--demands", FIG1_DEMANDS, "m1/dfs"]));
    insta::assert_snapshot!("explain_nested", shown(&["explain", FIG6, "--demands", FIG6_DEMANDS, "m2/rest/vm"]));
    insta::assert_snapshot!("explain_json", shown(&["explain", FIG6, "--demands", FIG6_DEMANDS, "m2/dfs", "--json"]));
}

#[test]
fn the_fabric_and_many_machines() {
    let directory = directory();
    let policy = "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks:\n    r1: { uplink: 40Gb/s, machines: [\"m[1-20]\"] }\n    \
                  r2: { uplink: 40Gb/s, machines: [\"n[1-20]\"] }\nservices:\n  \
                  dfs: { match: [ { protocol: tcp, port: 7000 } ], rack: { min: 6Gb/s, weight: 2 }, fabric: { weight: 3 } }\n  \
                  vm: { match: [ { interface: \"tap*\" } ], machine: { max: 3Gb/s } }\ncaps: { fabric: 30Gb/s }\n";
    let policy = file(directory.path(), "policy.yaml", policy);
    let rows = (1..=20).map(|m| format!("m{m},dfs,tx,unlimited\nm{m},vm,tx,unlimited\nn{m},vm,tx,1Gb/s\n"));
    let demands = file(directory.path(), "demands.csv", &rows.collect::<String>());
    let explained = shown(&["explain", &policy, "--demands", &demands, "m3/vm"]);
    insta::assert_snapshot!(explained.replace(&directory.path().display().to_string(), "DIR"));
}

#[test]
fn what_is_not_enforced_is_told() {
    let directory = directory();
    let policy = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\nservices:\n  \
                  web: { match: [ { port: 80, protocol: tcp } ], latency: { message: 1MB, p99: 20ms } }\n";
    let policy = file(directory.path(), "policy.yaml", policy);
    let checked = run(&["check", &policy]);
    assert!(checked.status.success() && text(&checked.stdout).contains("`latency` is read but not enforced"));
    let demands = file(directory.path(), "demands.csv", "m1,web,tx,unlimited\n");
    let allocated = run(&["allocate", &policy, "--demands", &demands, "--json"]);
    assert!(text(&allocated.stderr).starts_with("note: "), "{}", text(&allocated.stderr));
    let json: Value = serde_json::from_slice(&allocated.stdout).expect("only JSON on standard output");
    assert_eq!(json["allocations"][0]["demand_bps"], Value::Null);
}

#[test]
fn typical_mistakes() {
    let directory = directory();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let good = std::fs::read_to_string(Path::new(root).join(FIG1)).expect("the policy");
    let typo = file(directory.path(), "typo.yaml", &good.replace("max: 1Gb/s", "maz: 1Gb/s"));
    let demands = file(directory.path(), "demands.csv", "m1,dsf,tx,10Gb/s\nm1,dfs,up,10\n");
    let cases: &[&[&str]] = &[
        &["check", "no-such-file.yaml"],
        &["check", "scenarios"],
        &["check", &typo],
        &["allocate", FIG1, "--demands", &demands],
        &["allocate", FIG1],
        &["allocate", "-", "--demands", "-"],
        &["explain", FIG1, "--demands", FIG1_DEMANDS, "m1"],
        &["explain", FIG1, "--demands", FIG1_DEMANDS, "m3/dfs"],
        &["explain", FIG1, "--demands", FIG1_DEMANDS, "m1/dsf"],
        &["explain", FIG6, "--demands", FIG6_DEMANDS, "m1/rest"],
        &["explain", FIG6, "--demands", FIG6_DEMANDS, "m1/rest/mr"],
        &["explain", FIG1, "--demands", FIG1_DEMANDS, "m1/dfs", "--direction", "up"],
        &["sim", FIG1],
        &["chekc"],
    ];
    let all: Vec<String> = cases
        .iter()
        .map(|arguments| {
            assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
            shown(arguments).replace(&directory.path().display().to_string(), "DIR")
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn refusals_for_programs() {
    let directory = directory();
    let policy = file(directory.path(), "p.yaml", "weir: 1\nnetwork: { nic: 10 }\n");
    let output = run(&["check", "--json", &policy]);
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["valid"], false);
    let first = &json["diagnostics"].as_array().expect("a list")[0];
    for key in ["severity", "file", "line", "column", "cause", "hint"] {
        assert!(!first[key].is_null(), "{key} in {first}");
    }
}

#[test]
fn standard_input() {
    let mut child = weir(&["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("a pipe").write_all(b"weir: 2\n").expect("written");
    assert_eq!(child.wait_with_output().expect("ends").status.code(), Some(2));
}

#[test]
fn colours_only_repeat_words() {
    let arguments = ["allocate", FIG1, "--demands", FIG1_DEMANDS];
    let plain = run(&arguments).stdout;
    assert!(!plain.contains(&0x1b), "not a terminal");
    let never = weir(&arguments).args(["--color", "never"]).output().expect("starts").stdout;
    let no_color = weir(&arguments).env("NO_COLOR", "1").output().expect("starts").stdout;
    assert!(plain == never && plain == no_color);
    let coloured = text(&weir(&arguments).args(["--color", "always"]).output().expect("starts").stdout);
    assert!(coloured.contains("\x1b[33m"));
    let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m"];
    assert_eq!(codes.iter().fold(coloured, |text, code| text.replace(code, "")), text(&plain));
}

#[test]
fn a_reader_may_leave_early() {
    let directory = directory();
    let policy = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [\"m[1-20000]\"] } } }\n\
                  services: { web: { match: [ { protocol: tcp, port: 80 } ] } }\n";
    let policy = file(directory.path(), "policy.yaml", policy);
    let rows: String = (1..=20_000).map(|m| format!("m{m},web,tx,1Mb/s\n")).collect();
    let demands = file(directory.path(), "demands.csv", &rows);
    let mut child = weir(&["allocate", &policy, "--demands", &demands])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn schemas_are_those_of_the_tree() {
    for format in ["policy", "scenario"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{format}.schema.json"));
        assert_eq!(run(&["schema", format]).stdout, std::fs::read(path).expect("the schema"));
    }
}

#[test]
fn a_simulation_and_its_report() {
    let directory = directory();
    let scenario = scenario(directory.path(), "4s");
    let report = directory.path().join("out/report");
    let report_text = report.display().to_string();
    let checked = run(&["sim", "--check", &scenario]);
    assert!(checked.status.success() && text(&checked.stdout).contains("valid, 2 racks, 2 machines, 2 flows"));

    let first = run(&["sim", &scenario, "--seed", "7", "--json", "--report", &report_text]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let again = run(&["sim", &scenario, "--seed", "7", "--json"]);
    assert_eq!(text(&first.stdout), text(&again.stdout), "the same seed, the same bytes");
    let json: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!((&json["seed"], &json["complete"]), (&Value::from(7), &Value::from(true)));
    assert_eq!(json["samples"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["phases"][1]["sending"], serde_json::json!(["bulk", "web"]));
    assert!(json["phases"][0]["mean_bps"]["bulk"].as_u64().is_some_and(|bps| bps > 1_000_000));
    assert_eq!(std::fs::read(report.join("result.json")).expect("written"), first.stdout);
    let page = std::fs::read_to_string(report.join("report.html")).expect("written");
    assert!(page.contains("<svg") && page.contains("bulk and web") && page.contains("--seed 7"));

    let refused = run(&["sim", &scenario, "--report", &report_text]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    let forced = run(&["sim", &scenario, "--report", &report_text, "--force"]);
    assert!(forced.status.success() && text(&forced.stdout).contains("Mean bandwidth"));
}

#[test]
fn an_interrupted_run_keeps_what_is_done() {
    let directory = directory();
    let scenario = scenario(directory.path(), "1400min");
    let mut child =
        weir(&["sim", &scenario, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("a line");
    assert!(line.contains("small: 2 racks"), "{line}");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("ends");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("text");
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted: the results cover"), "{rest}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["complete"], false);
    assert!(json["samples"].as_array().is_some_and(|samples| !samples.is_empty()));
}
