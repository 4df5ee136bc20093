//! The program from outside: what people and scripts see.

mod program;

use program::{directory, file, run, shown, text, weir};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FIG1: &str = "scenarios/parley-fig1.policy.yaml";
const FIG1_DEMANDS: &str = "scenarios/parley-fig1.demands.csv";
const FIG6: &str = "scenarios/parley-fig6.policy.yaml";
const FIG6_DEMANDS: &str = "scenarios/parley-fig6.demands.csv";

/// The part of docs/reference/commands.md behind this line is the help of all commands.
const MARK: &str = "<!-- From here on written by `WEIR_UPDATE_COMMANDS=1 cargo test -p weir --test cli \
                    help_is_the_reference`. -->\n";

/// The help of the command with this name and of the commands below it, as parts of a page.
fn help(name: &str) -> String {
    let output = run(&name.split(' ').skip(1).chain(["--help"]).collect::<Vec<_>>());
    assert!(output.status.success(), "{name}");
    let help = text(&output.stdout);
    let mut page = format!("\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end());
    // Commands are listed before the options: two blanks, a name, and what it does.
    for line in help.lines().take_while(|line| *line != "Options:") {
        let command = line.strip_prefix("  ").and_then(|line| line.split_once(' ')).map(|(command, _)| command);
        let is_name = |word: &&str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase());
        if let Some(command) = command.filter(is_name) {
            page += &self::help(&format!("{name} {command}"));
        }
    }
    page
}

#[test]
fn help_is_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/commands.md");
    let page = std::fs::read_to_string(&path).expect("docs/reference/commands.md");
    let (written, found) = page.split_once(MARK).expect("the line that begins the help");
    let made = help("weir");
    assert!(made.matches("\n## ").count() > 20, "commands are missing:\n{made}");
    if std::env::var_os("WEIR_UPDATE_COMMANDS").is_some() {
        std::fs::write(&path, format!("{written}{MARK}{made}")).expect("docs/ can be written");
    } else {
        let differs = made.lines().zip(found.lines()).find(|(made, found)| made != found);
        assert!(
            made == found,
            "docs/reference/commands.md differs from the help: {differs:?}; run `WEIR_UPDATE_COMMANDS=1 cargo test -p \
             weir --test cli help_is_the_reference`"
        );
    }
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
fn one_policy_with_all_mechanisms() {
    const POLICY: &str = "scenarios/four-systems.policy.yaml";
    insta::assert_snapshot!("check_four_systems", shown(&["check", POLICY]));
    let checked: Value = serde_json::from_slice(&run(&["check", "--json", POLICY]).stdout).expect("JSON");
    let rows = checked["mechanisms"].as_array().expect("mechanisms").iter();
    let mut kinds: Vec<_> = rows.map(|row| (row["mechanism"].as_str(), row["offered"].as_bool())).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let all = ["credits", "level", "shares", "tenant-queues"].map(|kind| (Some(kind), Some(true)));
    assert_eq!(kinds, all);
    assert_eq!(checked["credits"]["lossless"], true);
}

#[test]
fn the_fabric_and_many_machines() {
    let directory = directory();
    let policy = "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks:\n    r1: { uplink: 40Gb/s, machines: [\"m[1-20]\"] }\n    \
                  r2: { uplink: 40Gb/s, machines: [\"n[1-20]\"] }\nservices:\n  \
                  dfs: { match: [ { protocol: tcp, port: 7000 } ], rack: { min: 6Gb/s, weight: 2 }, fabric: { \
                  weight: 3 } }\n  \
                  vm: { match: [ { interface: \"tap*\" } ], machine: { max: 3Gb/s } }\ncaps: { fabric: 30Gb/s }\n";
    let policy = file(directory.path(), "policy.yaml", policy);
    let rows = (1..=20).map(|m| format!("m{m},dfs,tx,unlimited\nm{m},vm,tx,unlimited\nn{m},vm,tx,1Gb/s\n"));
    let demands = file(directory.path(), "demands.csv", &rows.collect::<String>());
    let explained = shown(&["explain", &policy, "--demands", &demands, "m3/vm"]);
    insta::assert_snapshot!(explained.replace(&directory.path().display().to_string(), "DIR"));
}

#[test]
fn tenants_on_switches_without_queues_are_noted() {
    let directory = directory();
    let policy = "weir: 1\nnetwork: { nic: 1Gb/s, slots: 1, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\n\
                  services:\n  web: { match: [ { port: 80, protocol: tcp } ] }\n\
                  tenants: { red: { vms: 1, bandwidth: 1Mb/s } }\n";
    let policy = file(directory.path(), "policy.yaml", policy);
    let checked = run(&["check", &policy]);
    assert!(checked.status.success() && text(&checked.stdout).contains("have no weighted queues"));
    let demands = file(directory.path(), "demands.csv", "m1,web,tx,unlimited\n");
    let allocated = run(&["allocate", &policy, "--demands", &demands, "--json"]);
    assert!(text(&allocated.stderr).starts_with("note: "), "{}", text(&allocated.stderr));
    let json: Value = serde_json::from_slice(&allocated.stdout).expect("only JSON on standard output");
    assert_eq!(json["allocations"][0]["demand_bps"], Value::Null);
}

/// Tenants are placed, stay where they are when others come and go, and are refused when they change.
#[test]
fn placement_of_tenants() {
    const POLICY: &str = "scenarios/tenants.policy.yaml";
    insta::assert_snapshot!("place", shown(&["place", POLICY]));
    let directory = directory();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let written = std::fs::read_to_string(Path::new(root).join(POLICY)).expect("the policy");
    let state = directory.path().join("placed.json").display().to_string();
    let place = |written: &str, more: &[&str]| {
        let policy = file(directory.path(), "policy.yaml", written);
        let output = run(&[&["place", &policy, "--placed", &state, "--json"], more].concat());
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).ok(), text(&output.stderr))
    };
    let (code, first, _) = place(&written, &[]);
    let first = first.expect("JSON");
    assert_eq!((code, &first["rejected"]), (Some(0), &Value::Array(Vec::new())));
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(&state).expect("the file")).ok(), Some(first.clone()));
    // `green` departs, `amber` is too large.
    let changed = written.replace("green: { vms: 9,", "amber: { vms: 30,");
    let (code, second, _) = place(&changed, &[]);
    let second = second.expect("JSON");
    assert_eq!((code, &second["rejected"][0]["reason"]), (Some(1), &Value::from("slots")));
    assert_eq!(second["rejected"][0]["missing"], 19);
    let vms =
        |placed: &Value, at: usize| (placed["tenants"][at]["tenant"].clone(), placed["tenants"][at]["vms"].clone());
    assert_eq!((vms(&second, 0), vms(&second, 1)), (vms(&first, 0), vms(&first, 2)));
    // A tenant with fewer virtual machines than the file leaves the file as it was.
    let before = std::fs::read(&state).expect("the file");
    let changed = changed.replace("red: { vms: 6,", "red: { vms: 5,");
    let (code, _, refused) = place(&changed, &[]);
    assert_eq!(code, Some(2));
    assert!(refused.contains("`red-5` is not a virtual machine"), "{refused}");
    assert_eq!(std::fs::read(&state).expect("the file"), before);
    assert_eq!(place(&changed, &["--rebalance"]).0, Some(1));
}

/// The levels that the planner chooses, as a check shows them; written into the file, they are the same.
#[test]
fn latency_levels() {
    const POLICY: &str = "scenarios/qjump-plan.policy.yaml";
    insta::assert_snapshot!("check_levels", shown(&["check", POLICY]));
    insta::assert_snapshot!("plan_levels", shown(&["plan", POLICY]));
    let directory = directory();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let text_of = std::fs::read_to_string(Path::new(root).join(POLICY)).expect("the policy");
    let policy = file(directory.path(), "policy.yaml", &text_of);
    let json = |arguments: &[&str]| -> Value {
        let output = run(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let chosen = json(&["plan", &policy, "--json", "--write=levels"]);
    let written = json(&["check", &policy, "--json"]);
    assert_eq!(chosen["levels"]["levels"], written["levels"]["levels"]);
    assert_eq!((&chosen["levels"]["chosen"], &written["levels"]["chosen"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(std::fs::read_to_string(&policy).expect("the policy").matches("auto").count(), 0);
}

#[test]
fn typical_mistakes() {
    let directory = directory();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
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

/// The exit code and the output of `weir check --json` of these services.
fn checked(directory: &Path, services: &str, options: &[&str]) -> (Option<i32>, Value) {
    let head = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\nservices:\n";
    let policy = file(directory, "policy.yaml", &format!("{head}{services}"));
    let output = run(&[&["check", "--json", &policy], options].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// A service whose filters no port, address, VNI or control group distinguishes, each with the field of its number.
fn alike(count: usize, field: impl Fn(usize) -> String) -> String {
    let filter = |i| format!("{{ {}protocol: {}, dscp: {} }}", field(i), i / 64 + 1, i % 64);
    format!("  a: {{ match: [ {} ] }}\n", (0..count).map(filter).collect::<Vec<_>>().join(", "))
}

/// A policy for agents is refused before it is rolled out; one for planning is not.
#[test]
fn filters_that_agents_refuse_are_refused() {
    let directory = directory();
    let check = |services: &str, options: &[&str]| checked(directory.path(), services, options);
    for count in [257, 1_000] {
        let (code, json) = check(&alike(count, |_| String::new()), &[]);
        assert_eq!((code, &json["valid"], &json["errors"]), (Some(2), &false.into(), &1.into()), "{count}");
        let cause = json["diagnostics"][0]["cause"].as_str().expect("a cause");
        assert!(cause.starts_with("agents refuse these filters: a packet may have to be compared"), "{cause}");
        let (code, json) = check(&alike(count, |_| String::new()), &["--for-planning"]);
        assert_eq!((code, &json["valid"]), (Some(0), &true.into()), "{count}");
        assert_eq!(
            (&json["diagnostics"][0]["severity"], &json["diagnostics"][0]["cause"]),
            (&"note".into(), &cause.into())
        );
    }
    assert_eq!(check(&alike(256, |_| String::new()), &[]).0, Some(0));
}

#[test]
fn services_that_agents_refuse_are_refused() {
    let directory = directory();
    let services = |count: usize| -> String {
        (1..=count).map(|port| format!("  s{port}: {{ match: [ {{ port: {port} }} ] }}\n")).collect()
    };
    assert_eq!(checked(directory.path(), &services(1_024), &[]).0, Some(0));
    let (code, json) = checked(directory.path(), &services(1_025), &[]);
    assert_eq!((code, &json["valid"]), (Some(2), &false.into()));
    let cause =
        "agents refuse this policy: the policy has 1025 services, tenants included, and a host enforces at most 1024";
    assert_eq!(json["diagnostics"][0]["cause"], cause);
    let (code, json) = checked(directory.path(), &services(1_025), &["--for-planning"]);
    assert_eq!((code, &json["diagnostics"][0]["cause"]), (Some(0), &cause.into()));
}

/// A glob that matches the agent's interface holds for all of its packets, and any other one for those of guests.
#[test]
fn a_check_is_for_the_interface_of_an_agent() {
    let directory = directory();
    let check = |services: &str, options: &[&str]| checked(directory.path(), services, options);
    // 300 globs that match `eth0`, each with a list of its own for the packets of guests.
    let stars = |count: usize| "*".repeat(count % 4);
    let many = alike(300, |i| {
        format!("interface: \"{}e{}t{}h{}0{}\", ", stars(i), stars(i / 4), stars(i / 16), stars(i / 64), stars(i / 256))
    });
    let (code, json) = check(&many, &[]);
    let cause = json["diagnostics"][0]["cause"].as_str().expect("a cause");
    assert!(
        code == Some(2) && cause.starts_with("the agent of an interface `eth0` refuses these filters: "),
        "{cause}"
    );
    assert_eq!(check(&many, &["--interface", "eth0"]).0, Some(2));
    assert_eq!(check(&many, &["--interface", "eth0", "--for-planning"]).0, Some(0));
    let (code, json) = check(&many, &["--interface", "eth1"]);
    let cause = json["diagnostics"][0]["cause"].as_str().expect("a cause");
    assert!(code == Some(0) && cause.contains("297 more") && cause.contains("for packets of guests"), "{cause}");
    let vm = "  vm: { match: [ { interface: \"tap*\" }, { interface: \"et*\" } ] }\n";
    let (_, json) = check(vm, &["--interface", "eth0"]);
    let cause = "`tap*` holds on the agent of `eth0` for packets of guests (tap and veth interfaces) only";
    assert_eq!(
        (&json["diagnostics"][0]["cause"], json["diagnostics"].as_array().map(Vec::len)),
        (&cause.into(), Some(1))
    );
    assert_eq!(check(vm, &[]).1["diagnostics"], serde_json::json!([]));
    for name in ["", "tap*", "a/b", "0123456789abcdef"] {
        assert_eq!(run(&["check", FIG1, "--interface", name]).status.code(), Some(2), "{name}");
    }
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
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../../schemas/{format}.schema.json"));
        assert_eq!(run(&["schema", format]).stdout, std::fs::read(path).expect("the schema"));
    }
}
